"""Figure 6 of "Variance-reducing couplings": what more blocks do on one split of power.

One split of the protocol of `uci_couplings`, m from d to 16 d Fourier frequencies in independent
blocks of d. Printed are the root mean squared error of the kernel at the test points, KL(exact ||
approximate) of the predictive posterior in nats per test point, the RMSE of predictions and the KL
of the priors at the test points, each as mean and standard error over draws. The paper shows curves
without numbers. It claims that coupled norms lower the error of the kernel at every m, that
orthogonal directions improve the posterior, and that coupled norms then add nothing.

    COUPLEDGP_DATA=... python benchmarks/reproduction/couplings_by_blocks.py [--draws 100] [--record]
"""

from __future__ import annotations

import argparse

import numpy as np
from record import Record, command
from uci_couplings import exact_gp, split
from uci_record import PAPER_LIST

import coupledgp as cgp

COUPLINGS = ("iid", "halton", "orthogonal", "orthogonal+pnc")
FIGURES = ("kernel RMSE", "posterior KL", "RMSE", "prior KL")
Found = dict[tuple[int, str], np.ndarray]


def measure(name: str, blocks: list[int], draws: int) -> Found:
    """Figures (draws, 4) by number of blocks and coupling; draws of one seed belong together."""
    X, y, X_test, y_test = split(name, 0)
    exact = exact_gp(X, y, None)
    found = {}
    for count in blocks:
        for coupling in COUPLINGS:
            rows = []
            for draw in range(draws):
                gp = cgp.SparseSpectrumGPRegressor(
                    n_frequencies=count * X.shape[1],
                    coupling=coupling,
                    ard=False,
                    lengthscale=exact.lengthscale_,
                    outputscale=exact.outputscale_ / y.var(),
                    noise=exact.noise_ / y.var(),
                    optimizer=None,
                    random_state=draw,
                ).fit(X, y)
                seen = cgp.report(gp, X_test, y_test, exact=exact)
                rows.append(tuple(map(seen.score, ("kernel_rmse", "kl", "rmse", "prior_kl"))))
            found[count, coupling] = np.array(rows)
    return found


def gain(found: Found, figure: str, coupling: str, other: str, count: int) -> tuple[float, float]:
    """Mean of a figure over that of another coupling, and the standard error of the ratio."""
    k = FIGURES.index(figure)
    values, base = found[count, coupling][:, k], found[count, other][:, k]
    ratio = values.mean() / base.mean()
    spread = values / values.mean() - base / base.mean()
    return float(ratio), float(ratio * spread.std(ddof=1) / len(spread) ** 0.5)


def record(found: Found, blocks: list[int]) -> None:
    """Write the findings."""
    kept = Record("couplings_by_blocks", command())
    figure = kept.item(PAPER_LIST, "Figure 6")
    for index, name in enumerate(FIGURES):
        for count in blocks:
            for coupling in COUPLINGS:
                values = found[count, coupling][:, index]
                error = values.std(ddof=1) / len(values) ** 0.5
                figure.figure(
                    f"{name}, {count} blocks, {coupling}", values.mean(), error,
                    median=float(np.median(values)),
                )  # fmt: skip

    def clear(name: str, coupling: str, other: str) -> bool:
        pairs = [gain(found, name, coupling, other, count) for count in blocks]
        return all(ratio + 2 * error < 1 for ratio, error in pairs)

    kernel, posterior = FIGURES[:2]
    pairs = [gain(found, posterior, "orthogonal+pnc", "orthogonal", count) for count in blocks]
    predictions = [gain(found, "RMSE", "orthogonal+pnc", "orthogonal", count) for count in blocks]
    figure.claim(
        "orthogonal below iid in kernel RMSE by two standard errors at every number of blocks",
        clear(kernel, "orthogonal", "iid"),
    )
    figure.claim(
        "PNC below orthogonal in kernel RMSE by two standard errors at every number of blocks",
        clear(kernel, "orthogonal+pnc", "orthogonal"),
    )
    figure.claim(
        "orthogonal below iid in posterior KL by two standard errors at every number of blocks",
        clear(posterior, "orthogonal", "iid"),
    )
    figure.claim(
        "PNC nowhere below orthogonal in posterior KL or RMSE by more than two standard errors",
        all(ratio + 2 * error > 1 for ratio, error in [*pairs, *predictions]),
    )
    kept.write()


def main() -> None:
    """Print one row for each number of blocks and coupling."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="power")
    parser.add_argument("--blocks", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.data, arguments.blocks, arguments.draws)
    print(f"{arguments.data}: blocks, coupling, {', '.join(FIGURES)}")
    for (count, coupling), values in found.items():
        errors = values.std(axis=0, ddof=1) / len(values) ** 0.5
        cells = (f"{m:.4g} ({e:.1g})" for m, e in zip(values.mean(0), errors, strict=True))
        print(f"{count:3} {coupling:16} {'  '.join(cells)}")
    if arguments.record:
        record(found, arguments.blocks)


if __name__ == "__main__":
    main()
