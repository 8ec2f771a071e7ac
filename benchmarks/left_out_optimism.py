"""How far scores of left-out rows, with hyperparameters of all rows, are from those of new data.

    python benchmarks/left_out_optimism.py --models 40

Targets are drawn from a kernel's prior with noise, models are fitted to n rows of d columns with a
lengthscale for each column. Rows are left out one at a time, and ten folds at a time; the scores
are compared with those of 400 new rows of the same function. It also counts false alarms of the
verdicts on left-out rows, and of the same verdicts on new rows.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

import numpy as np

import coupledgp as cgp
from coupledgp.random import FloatArray

N_NEW = 400
ALARMS = ("amber", "red")
KERNEL, NOISE = "matern-5/2", 0.1


def table(seed: int, n: int, d: int) -> tuple[FloatArray, FloatArray]:
    """Rows (n + 400, d) and targets of a draw of the prior, of one relevant column in two."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.uniform(-2, 2, (n + N_NEW, d))
    scales = np.where(np.arange(d) % 2 == 0, 1.0, 4.0)
    prior = cgp.ExactGPRegressor(
        KERNEL, lengthscale=scales, outputscale=1.0, noise=NOISE, optimizer=None, normalize_y=False
    ).fit(X[:1], np.zeros(1))
    root = np.linalg.cholesky(prior.prior_covariance(X) + NOISE * np.eye(len(X)))
    return X, root @ rng.standard_normal(len(X))


def model_of(name: str) -> cgp.ExactGPRegressor | cgp.SparseSpectrumGPRegressor:
    """A model whose hyperparameters are fitted."""
    if name == "exact":
        return cgp.ExactGPRegressor(KERNEL, random_state=0)
    return cgp.SparseSpectrumGPRegressor(KERNEL, n_frequencies=128, random_state=0)


def measured(name: str, seed: int, n: int, d: int) -> tuple[list[float], list[bool]]:
    """Differences of left-out from new scores, and alarms of the verdicts on both."""
    X, y = table(seed, n, d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(name).fit(X[:n], y[:n])
    report = cgp.cross_validate(model)
    tenths = np.random.default_rng(seed).permutation(n) % 10
    folds = cgp.cross_validate(model, groups=tenths)
    new = cgp.report(model, X[n:], y[n:], progress=False)
    gaps = [
        gap
        for one in (report, folds)
        for gap in (
            one.score("nlpd") - new.score("nlpd"),
            100 * (one.score("rmse") / new.score("rmse") - 1),
        )
    ]
    alarms = [one.verdicts[k].colour in ALARMS for one in (report, folds, new) for k in range(2)]
    return gaps, alarms


def text(values: Sequence[float]) -> str:
    """Mean and its standard error."""
    return f"{np.mean(values):+.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def main() -> None:
    """Print a row of a table for each model and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--names", nargs="+", default=["exact", "features"])
    parser.add_argument("--rows", nargs="+", type=int, default=[30, 100, 300])
    parser.add_argument("--columns", nargs="+", type=int, default=[2, 6])
    asked = parser.parse_args()
    print("left out minus new data: NLPD and RMSE in per cent, alone; the same in ten folds; ")
    print("alarms of quality and honesty: alone, in folds, on new rows")
    for name in asked.names:
        for n in asked.rows:
            for d in asked.columns:
                found = [measured(name, seed, n, d) for seed in range(asked.models)]
                gaps = np.array([one for one, _ in found])
                alarms = np.sum([one for _, one in found], axis=0)
                cells = " | ".join(text(column) for column in gaps.T)
                print(f"| {name} | {n} | {d} | {cells} | {alarms.tolist()} |", flush=True)


if __name__ == "__main__":
    main()
