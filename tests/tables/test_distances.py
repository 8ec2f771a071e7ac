"""Distances between rows, and variances of exact models by a product with an inverse factor."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core import inverse_covariance
from coupledgp.kernels import Additive
from coupledgp.linalg.distances import (
    scaled_distances,
    weighted_powers,
    weighted_powers_within,
)
from coupledgp.metrics import Metric
from coupledgp.spectra import parse_spectrum
from coupledgp.tables import exact_process as exact


@pytest.mark.parametrize("dim", [1, 3, 4, 9])
def test_distances_are_those_of_differences(dim):
    """Columns in fours and those that are left over; near rows far from zero lose no digits."""
    rng = np.random.default_rng(dim)
    a = 1e6 + rng.random((7, dim)).round(12)
    b = np.vstack([a[:3] + 1e-6, a[3:]])
    expected = np.sqrt(np.square(a[:, None] - b).sum(axis=2))
    np.testing.assert_allclose(scaled_distances(a, b, Metric.L2), expected, rtol=1e-14, atol=0)
    assert scaled_distances(a[:0], b, Metric.L2).shape == (0, 7)


@pytest.mark.parametrize("metric", list(Metric))
def test_weighted_sums_of_powers_are_those_of_all_differences(metric):
    rng = np.random.default_rng(3)
    a, b, weights = rng.normal(size=(9, 5)), rng.normal(size=(70, 5)), rng.normal(size=(9, 70))
    powers = metric.powers(a[:, None] - b)
    np.testing.assert_allclose(
        scaled_distances(a, b, metric), metric.distances(powers.sum(axis=2)), rtol=1e-13
    )
    np.testing.assert_allclose(
        weighted_powers(a, b, weights, metric.order), np.einsum("ij,ijk->k", weights, powers)
    )
    tables, own = rng.normal(size=(4, 6, 3)), rng.normal(size=(4, 6, 6))
    own = own + own.transpose(0, 2, 1)
    within = metric.powers(tables[:, :, None] - tables[:, None])
    np.testing.assert_allclose(
        weighted_powers_within(tables, own, metric.order), np.einsum("bij,bijk->k", own, within)
    )


@pytest.mark.parametrize("base", ["matern-1/2", "matern-3/2", "matern-5/2", "gaussian"])
def test_exponentials_of_additive_kernels_are_exact_to_rounding(base):
    """Also far away, where the exponential is least, and at distance zero."""
    kernel = Additive(1, base, full=False)
    theta = np.zeros(len(kernel.parameters(["x"])))
    a = np.concatenate([[0.0], np.geomspace(1e-8, 300.0, 301)])[:, None]
    found = kernel.covariance(a, np.zeros((1, 1)), theta, np.zeros(1, dtype=int))[:, 0]
    expected = parse_spectrum(base).kernel(a[:, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-290)


def test_laws_in_blocks_are_those_of_one_solve(monkeypatch):
    """Blocks, the inverse factor, and a solve where that would lose digits agree."""
    rng = np.random.default_rng(0)
    X, Z = rng.random((50, 3)), rng.random((40, 3))
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 10}).fit(
        X, X[:, 0] + X[:, 1] ** 2
    )
    process = model.process_
    prior = process.dense_prior
    gram = prior.covariance(X, X) + prior.noise * np.eye(50)
    cross = prior.covariance(Z, X)
    variance = prior.variance(Z) - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    monkeypatch.setattr(exact, "BLOCK_ROWS", 7)
    for least in (0.0, 2.0):
        monkeypatch.setattr(inverse_covariance, "LEAST_RECIPROCAL", least)
        fresh = process.conditioned(process.data)
        mean, found = fresh.latent_law(Z, "variance")
        np.testing.assert_allclose(found, variance, rtol=0, atol=1e-8 * prior.variance(Z)[0])
        assert (fresh.row_inverse._root is None) == (least > 1)
        np.testing.assert_allclose(mean, fresh.latent_law(Z, "mean")[0], rtol=0, atol=1e-10)
        _, joint = fresh.latent_law(Z, "covariance")
        np.testing.assert_array_equal(joint.diagonal(), found)
