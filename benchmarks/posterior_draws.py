"""KL to the exact posterior by frequencies drawn for it, beside couplings and fitted frequencies.

Each model is fitted to a random part of a table, hyperparameters included, and compared with the
exact GP of its own hyperparameters at held-out rows. The table has the KL of the first model in
nats per point, and the others over it; the last lines are geometric means, RMSE and NLPD over those
of the first model, and CPU seconds over its own. Halton points are what could
be used instead; fitted frequencies are no unbiased estimate of the kernel.

    COUPLEDGP_DATA=... python benchmarks/posterior_draws.py [--multiples 4 16 64] [--splits 5]
    python benchmarks/posterior_draws.py --expected     expected against measured KL, iid draws
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from coupledgp import theory
from coupledgp.random import FloatArray
from data_loaders import uci

SETS = (
    "power", "airfoil", "cpu", "concrete", "abalone", "wine", "boston", "diabetes", "kin40k",
    "protein",
)  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "orthogonal+pnc": {"coupling": "orthogonal+pnc"},
    "iid": {"coupling": "iid"},
    "orthogonal": {"coupling": "orthogonal"},
    "halton": {"coupling": "halton"},
    "posterior": {"frequencies": "posterior"},
    "auto": {},
    "fitted": {"frequencies": "fitted", "objective": "posterior-kl"},
}
MAX_ROWS, TEST_ROWS = 1500, 256
SCORES = ("kl", "rmse", "nlpd", "seconds")


def parts(name: str, split: int) -> tuple[FloatArray, ...]:
    """Training inputs and targets, test inputs and targets of a split."""
    data = uci.load(name)
    order = np.random.default_rng([3, split]).permutation(len(data.y))[: MAX_ROWS + TEST_ROWS]
    n_test = min(TEST_ROWS, len(order) // 4)
    test, train = order[:n_test], order[n_test:]
    return data.X[train], data.y[train], data.X[test], data.y[test]


def measured(model: str, size: int, rows: tuple[FloatArray, ...], split: int) -> dict[str, Any]:
    """Scores of one model, and the CPU seconds of its fit."""
    X, y, X_test, y_test = rows
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=size, random_state=split, progress=False, **MODELS[model]
    )
    start = time.process_time()
    gp.fit(X, y)
    seconds = time.process_time() - start
    report = cgp.report(gp, X_test, y_test, depth="scores", progress=False)
    found = {name: report.score(name) for name in SCORES[:3]} | {"seconds": seconds}
    return found | {"drawn": str(gp.drawn_)}


def rows_of(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Scores of all models on each table, multiple and split."""
    for name in arguments.data:
        for split in range(arguments.splits):
            rows = parts(name, split)
            dim = rows[0].shape[1]
            for multiple in arguments.multiples:
                for model in arguments.models:
                    found = measured(model, multiple * dim, rows, split)
                    key = {"data": name, "split": split, "m / d": multiple, "model": model}
                    yield key | found


def geometric(values: list[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def show(found: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Print a table for each multiple."""
    first, *others = arguments.models
    for multiple in arguments.multiples:
        here = [row for row in found if row["m / d"] == multiple]
        print(f"\n| m = {multiple} d | {first} | {' | '.join(others)} |")
        print("|---" * (len(others) + 2) + "|")
        means: dict[str, dict[str, list[float]]] = {m: {s: [] for s in SCORES} for m in others}
        for name in arguments.data:
            own = {
                model: [row for row in here if (row["data"], row["model"]) == (name, model)]
                for model in arguments.models
            }
            base = geometric([row["kl"] for row in own[first]])
            cells = []
            for model in others:
                ratios = {
                    score: [
                        b[score] / a[score] for a, b in zip(own[first], own[model], strict=True)
                    ]
                    for score in SCORES
                    if score != "nlpd"
                }
                gaps = [b["nlpd"] - a["nlpd"] for a, b in zip(own[first], own[model], strict=True)]
                for score, values in ratios.items():
                    means[model][score].append(geometric(values))
                means[model]["nlpd"].append(float(np.mean(gaps)))
                kl = np.log(ratios["kl"])
                error = kl.std(ddof=1) / np.sqrt(kl.size) if kl.size > 1 else 0.0
                cells.append(f"{np.exp(kl.mean()):.2f} ({error:.2f})")
            print(f"| {name} | {base:.2e} | {' | '.join(cells)} |")
        for text, score in (
            ("KL, geometric mean", "kl"), ("RMSE", "rmse"), ("CPU", "seconds"),
        ):  # fmt: skip
            cells = [f"{geometric(means[model][score]):.2f}" for model in others]
            print(f"| {text} | | {' | '.join(cells)} |")
        cells = [f"{np.mean(means[model]['nlpd']):+.3f}" for model in others]
        print(f"| NLPD, nats | | {' | '.join(cells)} |")


def show_expected(arguments: argparse.Namespace) -> None:
    """Print expected and measured KL of independent frequencies at kept hyperparameters."""
    print(
        "| table | m | expected KL | measured KL (standard error) | ratio |\n|---|---|---|---|---|"
    )
    for name in arguments.data:
        X, y, X_test, _ = parts(name, 0)
        X, y = X[:400], y[:400]
        y = (y - y.mean()) / y.std()  # given variances are in units of the normalised targets
        exact = cgp.ExactGPRegressor(ard=False, random_state=0, progress=False).fit(X, y)
        kept = {
            "lengthscale": exact.lengthscale_, "outputscale": exact.outputscale_,
            "noise": exact.noise_,
        }  # fmt: skip
        for multiple in arguments.multiples:
            m = multiple * X.shape[1]
            expected = theory.posterior_errors(X, X_test, m, **kept)
            kls = []
            for seed in range(arguments.draws):
                gp = cgp.SparseSpectrumGPRegressor(
                    n_frequencies=m, coupling="iid", optimizer=None, random_state=seed,
                    progress=False, **kept,
                ).fit(X, y)  # fmt: skip
                kls.append(cgp.report(gp, X_test, depth="scores", progress=False).score("kl"))
            mean, error = np.mean(kls), np.std(kls, ddof=1) / np.sqrt(len(kls))
            print(
                f"| {name} | {m} | {expected.kl.value:.3g} ± {expected.kl.standard_error:.1g} | "
                f"{mean:.3g} ({error:.1g}) | {expected.kl.value / mean:.2f} |",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=list(SETS))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--multiples", type=int, nargs="+", default=[4, 16, 64], help="m / d")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=8, help="of --expected")
    parser.add_argument("--expected", action="store_true")
    parser.add_argument("--output", type=Path, help="JSON of every fit")
    arguments = parser.parse_args()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arguments.expected:
            show_expected(arguments)
            return
        found = []
        for row in rows_of(arguments):
            found.append(row)
            if arguments.output is not None:
                arguments.output.write_text(json.dumps(found, indent=1), encoding="utf-8")
    show(found, arguments)


if __name__ == "__main__":
    main()
