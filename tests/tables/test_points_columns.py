"""Points of categories: their distances, their bound, and the kernels they make."""

import numpy as np
import pytest

from coupledgp.spectra import parse_spectrum
from coupledgp.tables.codes import (
    MOST_LEVELS,
    MOST_VALUES,
    PRIME,
    are_exact,
    category_points,
    polynomial_points,
)


def distances(points):
    return np.linalg.norm(points[:, None] - points, axis=-1)


@pytest.mark.parametrize("n_levels", [1, 2, 3, 17, 100])
def test_all_points_are_equally_far_from_each_other(n_levels):
    points = category_points(n_levels, exact=True)
    assert points.shape == (n_levels + 1, n_levels)  # no fewer dimensions hold so many points
    apart = distances(points)[~np.eye(n_levels + 1, dtype=bool)]
    np.testing.assert_allclose(apart, np.sqrt(2), rtol=1e-12)


def test_the_gaussian_kernel_is_an_index_kernel():
    lengthscale = 1.3
    kernel = parse_spectrum("gaussian").kernel(distances(category_points(4, True)) / lengthscale)
    expected = np.where(np.eye(5), 1.0, np.exp(-1 / lengthscale**2))
    np.testing.assert_allclose(kernel, expected, rtol=1e-12)


@pytest.mark.parametrize("prime", [5, 13, PRIME])
def test_inner_products_keep_weils_bound(prime):
    points = polynomial_points(min(prime**3, 4000), prime)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-12)
    inner = np.abs(points @ points.T) - np.eye(len(points))
    assert inner[:prime, :prime].max() < 1e-12
    assert inner[: prime**2, : prime**2].max() <= 1 / np.sqrt(prime) + 1e-12
    assert inner.max() <= 2 / np.sqrt(prime) + 1e-12


def test_many_levels_have_points_of_their_own_in_few_dimensions():
    points = category_points(10_000, exact=False)
    assert points.shape == (10_001, 2 * PRIME)
    assert len(np.unique(points.round(9), axis=0)) == 10_001


def test_a_dimension_for_each_level_while_it_costs_little():
    assert are_exact(2 * PRIME, 10**9)
    assert are_exact(MOST_LEVELS, MOST_VALUES // MOST_LEVELS)
    assert not are_exact(MOST_LEVELS, MOST_VALUES // MOST_LEVELS + 1)
    assert not are_exact(MOST_LEVELS + 1, 10)
