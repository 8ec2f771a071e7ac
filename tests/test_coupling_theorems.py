"""Theorems about couplings, held by the package's own errors, couplings and solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.special import hyp0f1
from scipy.stats import chi, norm

from coupledgp.couplings.walkers.sigma import assign
from coupledgp.features import ComplexExponentialFeatures
from coupledgp.theory import distance_mse

SIGNS = {"laplace": 1.0, "fourier": -1.0}


def least_transport(features: str, dim: int, t: float, n: int = 500) -> tuple[np.ndarray, float]:
    """Best matching of n quantiles of two norms, and its mean product of two features."""
    squares = chi(dim).ppf((np.arange(n) + 0.5) / n) ** 2
    costs = hyp0f1(dim / 2, SIGNS[features] * t**2 * np.add.outer(squares, squares) / 4)
    rows, columns = linear_sum_assignment(costs)
    return columns, float(costs[rows, columns].mean())


@pytest.mark.parametrize(("features", "t"), [("laplace", 0.5), ("laplace", 1.5), ("fourier", 0.5)])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_opposite_quantiles_solve_the_transport_of_two_norms(features: str, t: float, dim: int):
    matched, product = least_transport(features, dim, t)
    assert list(matched) == list(range(len(matched)))[::-1]
    sign = SIGNS[features]
    same = np.exp(2 * t**2) if sign > 0 else (1 + np.exp(-2 * t**2)) / 2
    error = (same + product) / 2 - np.exp(sign * t**2)
    assert error == pytest.approx(distance_mse(features, "orthogonal+pnc", 2, dim, t), rel=0.03)


def test_opposite_quantiles_are_not_optimal_at_a_large_distance():
    matched, product = least_transport("fourier", 3, 4.0)
    assert list(matched) != list(range(len(matched)))[::-1]
    same = (1 + np.exp(-2 * 4.0**2)) / 2
    error = (same + product) / 2 - np.exp(-(4.0**2))
    assert error < 0.95 * distance_mse("fourier", "orthogonal+pnc", 2, 3, 4.0)


@pytest.mark.parametrize("m", [2, 3, 5, 8, 11])
@pytest.mark.parametrize(
    ("features", "t"), [("laplace", 0.3), ("laplace", 2.0), ("fourier", 0.3), ("fourier", 0.8)]
)
def test_pairs_of_norms_lower_the_error_for_any_number_of_frequencies(features, t, m):
    paired, free = (
        distance_mse(features, name, m, 5, t) for name in ("orthogonal+pnc", "orthogonal")
    )
    assert paired < free


@pytest.mark.parametrize("t", [0.2, 1.0, 2.0])
@pytest.mark.parametrize(
    "other", ["iid", "orthogonal", "orthogonal+pnc", "orthogonal+monotone", "simplex"]
)
def test_no_pair_of_laplace_frequencies_has_less_error_than_an_antithetic_one(other, t):
    least = distance_mse("laplace", "iid+antithetic", 2, 4, t)
    # E[exp(w . v)] >= exp(E[w . v]) = 1 for the sum w of any two frequencies.
    assert least == pytest.approx((np.exp(2 * t**2) + 1) / 2 - np.exp(t**2), rel=1e-12)
    assert least < distance_mse("laplace", other, 2, 4, t)


@pytest.mark.parametrize("coupling", ["orthogonal", "orthogonal+pnc", "orthogonal+monotone"])
def test_error_of_attention_is_variance_less_covariance(coupling: str, rng: np.random.Generator):
    # Queries are orthogonal to all keys, so that all scores have the mean 1.
    n, draws = 6, 300
    keys = np.zeros((n, 2 * n))
    keys[:, :n] = 0.6 * rng.normal(size=(n, n)) / n**0.5
    queries = np.roll(keys, n, axis=1)
    scores = np.array(
        [
            ComplexExponentialFeatures(2 * n, 384, coupling=coupling, generator=seed)
            .estimate(queries, keys)
            .numpy()
            for seed in range(draws)
        ]
    )
    deviations = scores - 1.0
    variance = np.square(deviations).mean(axis=(0, 2))
    covariance = np.square(deviations.mean(axis=2)).mean(axis=0)
    attention = scores / scores.sum(axis=2, keepdims=True)
    found = np.square(attention - 1 / n).mean(axis=(0, 2))
    assert found == pytest.approx((variance - covariance) / n**2, rel=0.05)
    assert np.all(covariance > 0.05 * variance)


def test_permutations_of_growing_order_reach_the_cost_of_the_best_coupling():
    """Means of exp(x + y), x and y normal: the best coupling, y = -x, has the cost 1."""
    costs = []
    for n in (1, 2, 4, 8, 16, 64):
        edges = norm.ppf(np.linspace(0, 1, n + 1))
        means = n * (norm.cdf(edges[1:] - 1) - norm.cdf(edges[:-1] - 1)) * np.exp(0.5)
        products = np.multiply.outer(means, means)
        costs.append(float(products[np.arange(n), assign(products)].mean()))
    assert costs[0] == pytest.approx(np.e)
    assert np.all(np.diff(costs) < 0)
    assert 1 < costs[-1] < 1.03
