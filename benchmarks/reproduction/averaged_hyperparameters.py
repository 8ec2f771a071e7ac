"""Hyperparameters of maximum evidence against averaged ones, on simulated tables of few rows.

    python benchmarks/reproduction/averaged_hyperparameters.py --tables 60

Inputs are uniform on [-1.7, 1.7]^3, the truth is a Gaussian-kernel GP with lengthscales
exp(N(log 1.2, 0.4^2)), outputscale 1 and noise of standard deviation 0.2. Of each size: shares of 100
test targets in central intervals of 50, 80 and 95 %, the NLPD, and its mean over the worst quarter of the
tables. scikit-learn's GaussianProcessRegressor is what a user would pick instead.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import coupledgp as cgp

DIM, N_TEST, LEVELS = 3, 100, (0.5, 0.8, 0.95)


def table(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n_rows + 100, 3) and targets of one simulated table."""
    rng = np.random.default_rng([seed, n_rows])
    n = n_rows + N_TEST
    X = rng.uniform(-1.7, 1.7, (n, DIM))
    scaled = X / np.exp(rng.normal(np.log(1.2), 0.4, DIM))
    distances = np.square(scaled[:, None] - scaled[None]).sum(-1)
    root = np.linalg.cholesky(np.exp(-0.5 * distances) + 1e-9 * np.eye(n))
    return X, root @ rng.standard_normal(n) + 0.2 * rng.standard_normal(n)


def of_package(choice: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray):
    """Log densities (100,) and the intervals' ends (100, 6) of our exact GP."""
    gp = cgp.ExactGPRegressor(
        hyperparameters=choice, options={"n_restarts": 2}, random_state=0
    ).fit(X, y)
    ends = [(1 + sign * level) / 2 for level in LEVELS for sign in (-1, 1)]
    return gp.log_density(X_test, y_test), gp.predict_quantiles(X_test, ends)


def of_sklearn(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray):
    """The same of scikit-learn's GP with the same kernel."""
    kernel = ConstantKernel() * RBF(np.ones(DIM)) + WhiteKernel(0.1)
    gp = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mean, std = gp.fit(X, y).predict(X_test, return_std=True)
    ends = np.array([(1 + sign * level) / 2 for level in LEVELS for sign in (-1, 1)])
    return norm.logpdf(y_test, mean, std), norm.ppf(ends, mean[:, None], std[:, None])


METHODS = {
    "scikit-learn": of_sklearn,
    "maximum": lambda *data: of_package("maximum", *data),
    "averaged": lambda *data: of_package("averaged", *data),
}


def main() -> None:
    """Print one line for each size and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=60)
    parser.add_argument("--rows", type=int, nargs="+", default=[15, 30, 60])
    arguments = parser.parse_args()
    print("rows  method        50 %   80 %   95 %   NLPD   worst quarter   s a fit")
    for n_rows in arguments.rows:
        for name, method in METHODS.items():
            inside, nlpds, start = [], [], time.perf_counter()
            for seed in range(arguments.tables):
                X, y = table(n_rows, seed)
                y_test = y[n_rows:]
                logs, ends = method(X[:n_rows], y[:n_rows], X[n_rows:], y_test)
                within = (ends[:, ::2] < y_test[:, None]) & (y_test[:, None] < ends[:, 1::2])
                inside.append(within.mean(axis=0))
                nlpds.append(-logs.mean())
            seconds = (time.perf_counter() - start) / arguments.tables
            shares = np.mean(inside, axis=0)
            worst = np.mean(np.sort(nlpds)[-max(len(nlpds) // 4, 1) :])
            text = "  ".join(f"{share:.3f}" for share in shares)
            print(
                f"{n_rows:4d}  {name:12s}  {text}  {np.mean(nlpds):.3f}  {worst:9.2f}      "
                f"{seconds:8.2f}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
