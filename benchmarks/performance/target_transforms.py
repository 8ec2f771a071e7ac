"""NLPD and coverage of positive targets with and without a transform, on one process.

    python benchmarks/performance/target_transforms.py

Simulated lognormal targets, and tables of positive targets from the data loaders, at most 1000
training rows, on random splits. The columns: mean over splits of the NLPD, in nats a row of
y, of the RMSE over the standard deviation of y, the coverage of 95 % intervals, the least lower end
of an interval, and CPU seconds of a fit.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ |= {"OMP_NUM_THREADS": "1"}

import numpy as np

import coupledgp as cgp
from data_loaders import uci

TRANSFORMS = (None, "log", "box-cox", "yeo-johnson", "auto")
ROWS, TEST_ROWS = 1000, 1000


def lognormal(n_rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Positive targets whose logarithm is a smooth function with noise of standard deviation .4."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    latent = 1 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    return X, np.exp(latent + 0.4 * rng.normal(size=n_rows))


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a data set by its name."""
    if name == "lognormal":
        return lognormal()
    data = uci.load(name)
    return data.X, data.y


def scores(transform: str | None, X: np.ndarray, y: np.ndarray, seed: int) -> list[float]:
    """NLPD, relative RMSE, coverage, least lower end and CPU seconds of one split."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [min(len(y) // 5, TEST_ROWS)])
    train = train[:ROWS]
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=100, random_state=seed, target_transform=transform
    )
    start = time.process_time()
    model.fit(X[train], y[train])
    seconds = time.process_time() - start
    lower, upper = model.predict_interval(X[test])
    error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)) / y.std()
    covered = np.mean((lower <= y[test]) & (y[test] <= upper))
    nlpd = -model.log_density(X[test], y[test]).mean()
    return [nlpd, error, covered, lower.min(), seconds]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tables", nargs="+", default=["lognormal", "abalone", "concrete", "boston"]
    )
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    names = ("table", "transform", "NLPD", "RMSE", "cover", "least", "s")
    print("{:10} {:12} {:>8} {:>6} {:>6} {:>8} {:>6}".format(*names))
    for name in arguments.tables:
        X, y = table(name)
        for transform in TRANSFORMS:
            found = [scores(transform, X, y, seed) for seed in range(arguments.splits)]
            nlpd, error, covered, _, seconds = np.mean(found, axis=0)
            least = min(row[3] for row in found)
            print(
                f"{name:10} {transform!s:12} {nlpd:8.3f} {error:6.3f} {covered:6.3f} "
                f"{least:8.3g} {seconds:6.1f}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
