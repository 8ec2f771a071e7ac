"""How often neighbours' residuals call a fitted model of the true kernel a misfit, and a wrong one.

    python benchmarks/misfit_false_alarms.py --models 200

Targets are drawn from the kernel; models of it, and of a smoother one, are fitted by evidence.
"""

from __future__ import annotations

import argparse

import numpy as np

import coupledgp as cgp
from coupledgp.diagnostics import residual_correlation
from coupledgp.random import FloatArray

N_TEST = 200


def tables(seed: int, kernel: str, lengthscale: float) -> tuple[FloatArray, ...]:
    """Tables (X, y, X_test, y_test) of a kernel's prior."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([50, 100, 200])), int(rng.choice([1, 2, 3]))
    noise = float(rng.choice([0.01, 0.1, 0.3]))
    X = rng.uniform(-2, 2, (n + N_TEST, d))
    prior = cgp.ExactGPRegressor(
        kernel, lengthscale=lengthscale, outputscale=1.0, noise=noise, optimizer=None,
        normalize_y=False,
    ).fit(X[:1], [0.0]).prior_covariance(X)  # fmt: skip
    root = np.linalg.cholesky(prior + noise * np.eye(len(X)))
    y = root @ rng.normal(size=len(X))
    return X[:n], y[:n], X[n:], y[n:]


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=200)
    n_models = parser.parse_args().models
    for true, fitted in (
        ("gaussian", "gaussian"), ("matern-3/2", "matern-3/2"), ("matern-1/2", "matern-1/2"),
        ("matern-1/2", "gaussian"),
    ):  # fmt: skip
        found = []
        for seed in range(n_models):
            X, y, X_test, y_test = tables(seed, true, 1.0)
            model = cgp.ExactGPRegressor(
                fitted, ard=False, options={"n_restarts": 0}, random_state=0
            )
            found.append(residual_correlation(model.fit(X, y), X_test, y_test, n_draws=1000))
        alarms = sum(one.is_misfit for one in found)
        z = np.array([one.z for one in found])
        print(
            f"drawn from {true}, fitted {fitted}: {alarms} of {n_models} called misfits, "
            f"z {z.mean():.2f} on average, standard deviation {z.std():.2f}, largest {z.max():.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
