"""Weights that turn errors of a kernel into a KL of posteriors."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.couplings import posterior_weights, solve_sigma
from coupledgp.couplings.walkers.sigma import assign, erdos_renyi, pair_vectors, quantile_features
from coupledgp.diagnostics import gaussian_kl
from coupledgp.errors import InvalidInputError

GRAPH = erdos_renyi(24, 4.0, 3)
VALUES, VECTORS = np.linalg.eigh(GRAPH.normalized_adjacency.toarray())
SERIES = cgp.kernels.HeatKernel(2.0).modulation(30)
SURVIVAL = 0.8 ** np.arange(30)
NOISE, OBSERVED = 0.3, 0.5


def spectrum():
    values = np.polynomial.polynomial.polyval(VALUES, SERIES) ** 2
    return values / values.mean()


def law(spectrum, seen, asked, y):
    K = (VECTORS * spectrum) @ VECTORS.T + NOISE * np.eye(24)
    gain = np.linalg.solve(K[np.ix_(seen, seen)], K[np.ix_(seen, asked)]).T
    return gain @ y, K[np.ix_(asked, asked)] - gain @ K[np.ix_(seen, asked)]


def test_weights_give_the_kl_of_small_errors():
    """KL between the exact laws, averaged over data of the model, by quadrature of a quadratic."""
    Q = posterior_weights(SERIES, GRAPH, NOISE, OBSERVED, n_splits=1, generator=7)
    order = np.random.default_rng(7).permutation(24)
    seen, asked = order[:12], order[12:]
    e = 1e-4 * np.random.default_rng(0).standard_normal(24)
    exact = spectrum()
    gram = ((VECTORS * exact) @ VECTORS.T + NOISE * np.eye(24))[np.ix_(seen, seen)]
    # E y' A y = sum_k l_k' A l_k for the columns l_k of a root of the covariance; the KL is a
    # quadratic form in y plus a constant, its value at y = 0.
    zero = np.zeros(12)

    def kl(y):
        p, q = law(exact, seen, asked, y), law(exact + e, seen, asked, y)
        return gaussian_kl(*p, *q)

    expected = kl(zero) + sum(kl(column) - kl(zero) for column in np.linalg.cholesky(gram).T)
    assert e @ Q @ e == pytest.approx(expected / 12, rel=2e-3)


def test_weights_are_positive_semidefinite_and_seeded():
    Q = posterior_weights(SERIES, GRAPH, NOISE, generator=0)
    np.testing.assert_allclose(Q, Q.T)
    assert np.linalg.eigvalsh(Q)[0] > -1e-12 * np.abs(Q).max()
    np.testing.assert_array_equal(Q, posterior_weights(SERIES, GRAPH, NOISE, generator=0))
    assert not np.array_equal(Q, posterior_weights(SERIES, GRAPH, NOISE, generator=1))


def test_sigma_of_weights_is_the_assignment_of_weighted_costs():
    Q = posterior_weights(SERIES, GRAPH, NOISE)
    order = 12
    u = pair_vectors(quantile_features(SERIES, SURVIVAL, order, VALUES))
    cost = np.einsum("abi,ij,abj->ab", u, Q, u)
    sigma = solve_sigma(SERIES, SURVIVAL, order, GRAPH, weights=Q)
    best = assign(cost)
    index = np.arange(order)
    assert cost[index, sigma].sum() == pytest.approx(cost[index, best].sum(), rel=1e-9)


def test_identity_weights_change_nothing():
    for objective in ("linear", "quadratic"):
        plain = solve_sigma(SERIES, SURVIVAL, 4, GRAPH, objective)
        weighted = solve_sigma(SERIES, SURVIVAL, 4, GRAPH, objective, weights=np.eye(24))
        np.testing.assert_array_equal(plain, weighted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observed": 0.0}, "observed: expected a share"),
        ({"observed": 1.0}, "observed: expected a share"),
        ({"noise": 0.0}, "noise"),
        ({"modulation": [np.nan]}, "modulation"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        posterior_weights(**{"modulation": SERIES, "reference": GRAPH} | arguments)


def test_bad_weights():
    with pytest.raises(InvalidInputError, match="weights: expected shape"):
        solve_sigma(SERIES, SURVIVAL, 6, GRAPH, weights=np.eye(3))
    with pytest.raises(InvalidInputError, match="weights: expected a positive semidefinite"):
        solve_sigma(SERIES, SURVIVAL, 6, GRAPH, weights=-np.eye(24))
