"""Residuals of neighbours: true models and misfitted ones, and Moran's I by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

import coupledgp as cgp
from coupledgp.diagnostics import residual_correlation
from coupledgp.errors import InvalidInputError


def case(seed: int, kernel: str, lengthscale: float) -> Any:
    """Tables (X, y, X_test, y_test) drawn from a kernel with noise .05."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (240, 2))
    true = cgp.ExactGPRegressor(
        kernel, lengthscale=lengthscale, outputscale=1.0, noise=0.05, optimizer=None,
        normalize_y=False,
    )  # fmt: skip
    prior = true.fit(X[:1], [0.0]).prior_covariance(X) + 0.05 * np.eye(240)
    y = np.linalg.cholesky(prior) @ rng.normal(size=240)
    return X[:80], y[:80], X[80:], y[80:]


@pytest.mark.long
def test_true_models_are_not_called_misfits() -> None:
    alarms, above = 0, []
    for seed in range(40):
        X, y, X_test, y_test = case(seed, "matern-3/2", 1.0)
        model = cgp.ExactGPRegressor("matern-3/2", random_state=0, options={"n_restarts": 0}).fit(
            X, y
        )
        found = residual_correlation(model, X_test, y_test, n_draws=1000)
        alarms += found.is_misfit
        above.append(found.z)
    assert alarms <= 2  # of 40, 5 %
    assert abs(np.mean(above)) < 0.6
    assert 0.6 < np.std(above) < 1.5


def test_kernels_that_are_too_smooth_are() -> None:
    called = 0
    for seed in range(12):
        X, y, X_test, y_test = case(seed, "matern-1/2", 0.6)
        smooth = cgp.ExactGPRegressor(lengthscale=3.0, noise=0.5, optimizer=None).fit(X, y)
        found = residual_correlation(smooth, X_test, y_test, n_draws=1000)
        called += found.is_misfit
    assert called >= 10
    assert found.verdict().startswith("The kernel misses structure that near points share")


def test_by_hand() -> None:
    class Independent(GaussianProcessRegressor):  # type: ignore[misc]
        def predict(self, X: Any, return_cov: bool = False) -> Any:
            return np.zeros(len(X)), 4.0 * np.eye(len(X))

    y = np.array([2.0, 4.0, -2.0, 6.0])
    found = residual_correlation(
        Independent(), np.zeros((4, 1)), y, neighbors=[1, 0, 3, 2], n_draws=4000
    )
    assert found.value == pytest.approx((1 * 2 * 2 - 1 * 3 * 2) / (1 + 4 + 1 + 9))
    assert found.expected == pytest.approx(0, abs=0.05)
    # Of two pairs of normal deviates each, (2ab + 2cd) / (a^2 + b^2 + c^2 + d^2): variance 1/3.
    assert found.standard_error == pytest.approx(np.sqrt(1 / 3), rel=0.06)
    assert found.p_value == pytest.approx(0.6, abs=0.1)
    assert found.z == pytest.approx((found.value - found.expected) / found.standard_error)


def test_nodes_and_several_outputs() -> None:
    graph = cgp.Graph.from_edges(np.arange(39), np.arange(1, 40))
    rng = np.random.default_rng(0)
    y = np.sin(np.arange(40) / 3)[:, None] + 0.1 * rng.normal(size=(40, 2))
    train = np.arange(0, 40, 2)
    model = cgp.ExactGraphGPRegressor(graph, noise=0.1, optimizer=None).fit(train, y[train])
    test = np.arange(1, 40, 2)
    found = residual_correlation(model, test, y[test])
    assert 0 < found.p_value < 1
    again = residual_correlation(model, test, y[test])
    assert found == again


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_draws": 10}, "n_draws: expected an int >= 100"),
        ({"neighbors": [0, 0]}, "neighbors: expected 160 numbers of points"),
        ({"neighbors": np.arange(160)}, "neighbors: expected numbers of other points"),
    ],
)
def test_errors(options: Any, message: str) -> None:
    X, y, X_test, y_test = case(0, "gaussian", 1.0)
    model = cgp.ExactGPRegressor(optimizer=None).fit(X, y)
    with pytest.raises(InvalidInputError, match=message):
        residual_correlation(model, X_test, y_test, **options)
    with pytest.raises(InvalidInputError, match="three points at least, got 2"):
        residual_correlation(model, X_test[:2], y_test[:2])
