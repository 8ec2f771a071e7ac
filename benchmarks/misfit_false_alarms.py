"""How often neighbours' residuals call a fitted model of the true kernel a misfit, and a wrong one.

    python benchmarks/misfit_false_alarms.py --models 200

Targets are drawn from the kernel; models of it, and of a smoother one, are fitted by evidence.
"""

from __future__ import annotations

import argparse

import numpy as np

import coupledgp as cgp
from coupledgp.diagnostics.checks.residuals import ALARM, Neighbours, nearest_by_prior, neighbours
from coupledgp.diagnostics.distance.divergences import correlations
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


def correlation(model: cgp.ExactGPRegressor, X: FloatArray, y: FloatArray) -> Neighbours:
    """Moran's I of the residuals of neighbours, beside draws of the model."""
    mean, cov = model.predict(X, return_cov=True)
    residuals = (y - mean) / np.sqrt(np.diagonal(cov))
    near = nearest_by_prior(model.prior_covariance(X))
    return neighbours(residuals[:, None], correlations(cov[..., None]), near, seed=0)


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
            found.append(correlation(model.fit(X, y), X_test, y_test))
        alarms = sum(one.p <= ALARM for one in found)
        z = np.array([(one.value - one.expected) / one.error for one in found])
        print(
            f"drawn from {true}, fitted {fitted}: {alarms} of {n_models} called misfits, "
            f"z {z.mean():.2f} on average, standard deviation {z.std():.2f}, largest {z.max():.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
