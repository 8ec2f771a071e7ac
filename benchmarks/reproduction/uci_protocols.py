"""What the KL of Table 3 hangs on: scaling of the columns and size of the test set.

"Variance-reducing couplings" does not say how columns are scaled, nor how large a test set is where
256 points cannot be left out. Independent frequencies, m = d (Laplace: 2 d), hyperparameters as in
`uci_couplings`; KL(exact || approximate) in nats per test point, over random splits.

    COUPLEDGP_DATA=... python benchmarks/reproduction/uci_protocols.py [--splits 10] [--record]
"""

from __future__ import annotations

import argparse

import numpy as np
from record import Record, command
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from uci_couplings import exact_gp
from uci_record import DATASETS, PAPER, PAPER_LIST

import coupledgp as cgp
from coupledgp.core.column_moments import laplace_lengthscale
from data_loaders import uci

# Scaling of the columns by the training rows, and share of the rows that a test set takes at most.
PROTOCOLS = {
    "standardised, halves": (StandardScaler, 0.5),
    "as they are, halves": (FunctionTransformer, 0.5),
    "as they are, 5 % left out": (FunctionTransformer, 0.05),
    "scaled to [0, 1], halves": (MinMaxScaler, 0.5),
}
FEATURES = ("fourier", "laplace")
Found = dict[tuple[str, str, str], np.ndarray]


def kl(name: str, protocol: str, features: str, number: int, draws: int) -> float:
    """Mean over draws of the frequencies of the KL on one split."""
    data, (scaler, share) = uci.load(name), PROTOCOLS[protocol]
    order = np.random.default_rng(number).permutation(len(data.y))
    size = min(256, int(share * len(order)))
    test, train = order[:size], order[size:][:256]
    scaled = scaler().fit(data.X[train])
    X, X_test, y = scaled.transform(data.X[train]), scaled.transform(data.X[test]), data.y[train]
    laplace = features == "laplace"
    rule = laplace_lengthscale(X, np.random.default_rng(0)) if laplace else None
    exact = exact_gp(X, y, rule)
    found = []
    for draw in range(draws):
        gp = cgp.SparseSpectrumGPRegressor(
            features=features, n_frequencies=(1 + laplace) * X.shape[1], coupling="iid", ard=False,
            lengthscale=exact.lengthscale_, outputscale=exact.outputscale_ / y.var(),
            noise=exact.noise_ / y.var(), optimizer=None, random_state=1000 * number + draw,
        ).fit(X, y)  # fmt: skip
        found.append(cgp.report(gp, X_test, data.y[test], exact=exact).score("kl"))
    return float(np.mean(found))


def record(found: Found) -> None:
    """Write the findings: whether a protocol reaches the published figure."""
    kept = Record("uci_protocols", command())
    item = kept.item(PAPER_LIST, "Section B.1, protocol of Table 3")
    for features in FEATURES:
        for column, name in enumerate(DATASETS):
            theirs = PAPER[features, "kl"]["iid"][column]
            means = []
            for protocol in PROTOCOLS:
                values = found[name, protocol, features]
                error = float(values.std(ddof=1) / len(values) ** 0.5)
                means.append((values.mean() - 2 * error, values.mean() + 2 * error))
                item.figure(
                    f"{features}, {name}, {protocol}", values.mean(), error, *theirs,
                    median=float(np.median(values)),
                )  # fmt: skip
            low, high = min(m[0] for m in means), max(m[1] for m in means)
            item.claim(
                f"{features}, {name}: the published KL of iid frequencies lies within what the "
                "protocols span, with two standard errors",
                low <= theirs[0] <= high,
            )
    kept.write()


def main() -> None:
    """Print a line for each set, protocol and kind of features."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="write the record of all sets")
    arguments = parser.parse_args()
    found: Found = {}
    for name in arguments.data:
        for protocol in PROTOCOLS:
            for features in FEATURES:
                splits = range(arguments.splits)
                values = [kl(name, protocol, features, k, arguments.draws) for k in splits]
                found[name, protocol, features] = np.array(values)
                print(f"{name}, {features}, {protocol}: {np.mean(values):.4g}, median {np.median(values):.4g}", flush=True)  # fmt: skip
    if arguments.record:
        record(found)


if __name__ == "__main__":
    main()
