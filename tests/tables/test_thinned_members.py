"""Members of a mixture that are hardly missed are dropped."""

from __future__ import annotations

import numpy as np

from coupledgp.tables.members import DROPPED_DENSITY, _thinned


def _density(densities: np.ndarray, weights: np.ndarray) -> float:
    kept = weights > 0
    return float(np.log(weights[kept] @ np.exp(densities[kept])).mean())


def test_copies_of_a_member_are_dropped_and_others_stay():
    """Two members that differ by noise are one; those for other rows and for tails stay."""
    rng = np.random.default_rng(0)
    halves = np.repeat([0.0, -2.0], 200)
    first = -1.0 + halves
    densities = np.array(
        [first, first + 1e-4 * rng.normal(size=400), -1.0 + halves[::-1], np.full(400, -9.0)]
    )
    weights, credits = np.array([0.3, 0.3, 0.38, 0.02]), np.array([0.2, 0.2, 0.2, 1.0])
    found = _thinned(weights, densities, credits, None, np.array([True, True, True, False]))
    assert np.isclose(found.sum(), 1.0)
    assert (found[:2] > 0).sum() == 1
    assert found[2] > 0.3
    assert 0 < found[3] < 0.02
    assert _density(densities, found) > _density(densities, weights) - DROPPED_DENSITY


def test_the_last_member_stays():
    densities = np.zeros((2, 30))
    found = _thinned(np.array([0.5, 0.5]), densities, np.ones(2), None, np.array([True, True]))
    np.testing.assert_allclose(np.sort(found), [0.0, 1.0])
