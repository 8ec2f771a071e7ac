"""The product Laplace kernel beside Matern kernels and boosted trees, on one thread.

Each seed makes one random split of a table, or draws sums of axis-aligned boxes anew: 300 training
rows of six columns on (-1, 1), twelve boxes of normal heights with half of the columns each, noise
of .1. Columns and targets are standardised on the training rows; at most 1500 rows are tested.

* local: `LocalGPRegressor(kernel, n_frequencies=0)`, on tables of more than 2000 rows;
* exact: `ExactGPRegressor(kernel)`, on smaller ones;
* boosting: scikit-learn's `HistGradientBoostingRegressor`, its law Gaussian with the variance of
  residuals of five-fold cross-validation.

    COUPLEDGP_DATA=... python benchmarks/performance/product_laplace.py [--seeds 2]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table
from tables_against_rivals import Rows, boosting, gaussian, standardised
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from data_loaders import uci

# Training rows of the tables that have more.
TRAINED = {"power": 7654, "protein": 6000, "concrete": 900}
KERNELS = ("laplace", "matern-1/2", "matern-3/2")
EXACT_ROWS, TESTED = 2000, 1500


def boxes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of a sum of indicators of boxes."""
    rng = np.random.default_rng([seed, 7])
    X = rng.uniform(-1, 1, (300 + TESTED, 6))
    y = 0.1 * rng.normal(size=len(X))
    for _ in range(12):
        low = np.where(rng.random(6) < 0.5, rng.uniform(-1, 0.5, 6), -1.0)
        high = np.where(low > -1, low + rng.uniform(0.5, 1.5, 6), 1.0)
        y += rng.normal() * ((low <= X) & (high >= X)).all(axis=1)
    return X, y


def rows_of(name: str, seed: int) -> Rows:
    """Standardised training and test rows of a table."""
    if name == "boxes":
        X, y = boxes(seed)
        order, n_train = np.arange(len(X)), 300
    else:
        data = uci.load(name)
        X, y, n_train = data.X, data.y, TRAINED[name]
        order = np.random.default_rng(seed).permutation(len(X))
    return standardised(X, y, order[:n_train], order[n_train : n_train + TESTED])


def fitted(model: Callable, kernel: str, rows: Rows, seed: int) -> dict[str, float]:
    """Scores and seconds of a model with a kernel."""
    X, y, X_test, y_test = rows
    start = time.process_time()
    gp = model(kernel, random_state=seed, progress=False).fit(X, y)
    mean, std = gp.predict(X_test, return_std=True)
    return gaussian(y_test, mean, std) | {"fit": time.process_time() - start}


def systems(n_rows: int) -> dict[str, Callable]:
    """What is compared on a table of n rows, by name."""
    local = n_rows > EXACT_ROWS
    model = partial(cgp.LocalGPRegressor, n_frequencies=0) if local else cgp.ExactGPRegressor
    kind = "local" if local else "exact"
    return {
        **{f"{kind}, {kernel}": partial(fitted, model, kernel) for kernel in KERNELS},
        "boosting": lambda rows, seed: boosting(rows, seed, argparse.Namespace()),
    }


def main() -> None:
    """Run every system on every table, and print means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["boxes", *TRAINED])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    table = Table("table", "system", "NLPD", "RMSE", "coverage", "CPU s")
    for name in options.tables:
        found: dict[str, list[dict[str, float]]] = {}
        for seed in range(options.seeds):
            rows = rows_of(name, seed)
            for system, run in systems(len(rows[0])).items():
                found.setdefault(system, []).append(run(rows, seed))
        for system, runs in found.items():
            means = {key: np.mean([run[key] for run in runs]) for key in runs[0]}
            figures = [f"{means[key]:.3f}" for key in ("nlpd", "rmse", "coverage")]
            table.add_row(name, system, *figures, f"{means['fit']:.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        main()
