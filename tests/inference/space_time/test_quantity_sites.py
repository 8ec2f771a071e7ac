"""Sites of several quantities: the Kronecker product of their correlations with the kernel."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.inference.space_time.quantity_sites import (
    Quantities,
    QuantitySites,
    correlation_of,
)
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.inference.space_time.sites import as_domain, domain_of, sites_of

N = 7
ROADS = [f"r{k}" for k in range(N)]
RING = cgp.Graph.from_edges(ROADS, [*ROADS[1:], ROADS[0]], labels=ROADS)
NAMES = ("speed", "flow", "share")
OWN = Quantities(RING, NAMES, np.zeros(3), np.ones(3))
LOADINGS = np.array([-1.2, 0.4, 0.7])


def sites() -> QuantitySites:
    found = sites_of(OWN, "matern")
    assert isinstance(found, QuantitySites)
    return found.with_theta(np.concatenate([found.inner.theta, LOADINGS]))


def test_covariances_are_the_kronecker_product() -> None:
    own = sites()
    B = own.correlation
    np.testing.assert_allclose(B.diagonal(), 1.0)
    assert np.linalg.eigvalsh(B)[0] > 0.0
    assert B[1, 0] == pytest.approx(-1.2 / np.sqrt(1.0 + 1.2**2))
    whole = np.kron(B, own.inner.gram(np.arange(N)))
    every = np.arange(3 * N)
    rng = np.random.default_rng(0)
    a, b = rng.permutation(every)[:11], rng.permutation(every)[:9]
    np.testing.assert_allclose(own.gram(a), whole[np.ix_(a, a)], atol=1e-12)
    np.testing.assert_allclose(own.cross(a, b), whole[np.ix_(a, b)], atol=1e-12)
    np.testing.assert_allclose(own.diagonal(a), whole.diagonal()[a], atol=1e-12)
    V = rng.normal(size=(9, 4))
    np.testing.assert_allclose(own.product(a, b, V), whole[np.ix_(a, b)] @ V, atol=1e-12)
    moved = own.theta + 0.1
    np.testing.assert_allclose(
        own.grams(a, [own.theta, moved])[1], own.with_theta(moved).gram(a), atol=1e-12
    )
    assert len(own.bounds()) == own.theta.size == own.starts()[0].size
    assert (own.components() == 0).all()


def test_draws_have_these_covariances() -> None:
    own, m = sites(), 40_000
    places = np.array([0, 3, N + 3, 2 * N, 2 * N + 5])
    wanted = own.gram(places)
    found = np.cov(own.sample(places, m, np.random.default_rng(0)))
    scale = np.sqrt((np.outer(wanted.diagonal(), wanted.diagonal()) + wanted**2) / m)
    assert (np.abs(found - wanted) < 4.5 * scale).all()


def test_without_loadings_quantities_are_independent() -> None:
    np.testing.assert_array_equal(correlation_of(np.zeros(3), 3), np.eye(3))


def test_labels_are_pairs_of_a_quantity_and_a_node() -> None:
    labels = SiteLabels(OWN)
    pairs = [("flow", "r2"), ("speed", "r6"), ("share", "r0")]
    numbers = labels.numbers(pairs)
    assert numbers.tolist() == [N + 2, 6, 2 * N]
    assert labels.labels(numbers) == pairs
    assert labels.numbers().tolist() == list(range(3 * N))
    assert domain_of(sites()) is OWN
    assert as_domain(OWN) is OWN
    with pytest.raises(InvalidInputError, match="expected pairs of one of"):
        labels.numbers(["r2"])
    with pytest.raises(InvalidInputError, match="expected pairs of one of"):
        labels.numbers([("volume", "r2")])


def test_names_differ() -> None:
    with pytest.raises(InvalidInputError, match="quantities: expected 1 to 16 different names"):
        Quantities(RING, ("a", "a"), np.zeros(2), np.ones(2))
