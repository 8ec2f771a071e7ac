"""Where a coupling pays under the model's own fit: KL over that of the first coupling, by size.

Unlike `uci_couplings.py`, which has the papers' protocol (one lengthscale, m = d), this takes the
package's default fit: a lengthscale for each column, by the evidence of 64 frequencies. Short
lengthscales are few then, and frequencies fill the few dimensions that count. At m = d, 4 d and
16 d couplings are compared with the exact GP of the same hyperparameters on a quarter of the rows
(at most 1500 rows in all), draws of one seed in pairs; stars are p-values below .05 after Holm's
correction for all pairs of the size.

    COUPLEDGP_DATA=... python benchmarks/reproduction/couplings_by_size.py [--draws 16]
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.model_selection import train_test_split
from study_options import Results, add_options, chosen, parse_options, read_table
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from coupledgp.diagnostics.study import Study
from data_loaders import uci

SETS = ("diabetes", "boston", "concrete", "airfoil", "cpu", "abalone", "power")
COUPLINGS = ("iid", "halton", "orthogonal", "orthogonal+pnc")
MULTIPLES = (1, 4, 16)
MAX_ROWS = 1500


def study(name: str, couplings: dict, multiples: list[int], arguments: argparse.Namespace):
    """The study of one table."""
    if name.endswith(".csv"):
        X, y = read_table(name, arguments.target)
    else:
        X, y = (data := uci.load(name)).X, data.y
    kept = np.random.default_rng(0).permutation(len(y))[:MAX_ROWS]
    X, X_test, y, y_test = train_test_split(X[kept], y[kept], random_state=0)
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=64, random_state=0).fit(X, y)
    return cgp.coupling_study(
        gp, X_test, y_test, couplings=list(couplings.values()), n_draws=arguments.draws,
        sizes=[k * X.shape[1] for k in multiples], progress=False,
    )  # fmt: skip


def lines(name: str, found: Study) -> list[str]:
    """A row of the table for each size."""
    first, *others = found.couplings
    means = found.summary().set_index(["coupling", "size"])
    rows = []
    for size in found.sizes:
        pairs = found.paired("kl_per_point", size).set_index(["a", "b"])
        base = means.loc[(first, size)]
        cells = []
        for other in others:
            pair = pairs.loc[(first, other)]
            ratio = 1 / pair.ratio  # of the other over the first, by the delta method
            star = " *" if pair.p_t_holm < 0.05 else ""
            cells.append(f"{ratio:.2f} ({pair.ratio_error * ratio**2:.2f}){star}")
        kl = f"{base.kl_per_point:.4g} ± {base.kl_per_point_error:.2g}"
        rows.append(f"| {name} | {size} | {kl} | {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=16)
    parser.add_argument("--multiples", type=int, nargs="+", default=list(MULTIPLES), help="m / d")
    add_options(parser, COUPLINGS, data=SETS)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.draws, arguments.multiples = 3, [1]
        arguments.data = arguments.data[:1]
    couplings = chosen(arguments, dict(zip(COUPLINGS, COUPLINGS, strict=True)))
    first, *others = couplings
    print(f"| set | m | {first} | {' | '.join(others)} |\n|{'---|' * (3 + len(others))}")
    results = Results("n_frequencies", ("kl_per_point", "rmse", "nlpd"))
    for name in arguments.data:
        with threadpool_limits(1):
            found = study(name, couplings, arguments.multiples, arguments)
        print("\n".join(lines(name, found)), flush=True)
        for row in found.to_frame().to_dict("records"):
            results.add(name, *row.values())
    results.write(arguments.output)


if __name__ == "__main__":
    main()
