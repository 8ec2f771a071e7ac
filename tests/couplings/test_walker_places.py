"""Places of edges, bounds of quadratures and filters of hops, by hand."""

import numpy as np
import pytest
from scipy import special

from coupledgp.couplings.frequencies.quadrature import QuadratureFrequencies, fitting_rule
from coupledgp.couplings.walkers.steps import again, places
from coupledgp.graphs.hops import filter_norm


def test_an_edge_of_weight_zero_is_never_taken():
    weights = np.array([0.0, 1.0, 0.0, 3.0])
    found = places(np.array([0.0, 0.1, 0.25, 0.9]), 4, weights)
    assert found.tolist() == [1, 1, 3, 3]
    assert places(np.array([0.0, 0.5, 1.0 - 1e-16]), 3, None).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("share", "rest"), [(0.6, 0.7), (0.3, 0.2), (0.9, 0.05), (0.0, 0.4)])
def test_an_edge_across_two_cells_keeps_its_probability(share, rest):
    """Given the draw in its first cell, the chances of its second add up to its part there."""
    chance = share * again(share, rest, True) + (1 - share) * again(share, rest, False)
    assert chance == pytest.approx(rest)


@pytest.mark.parametrize("m", [3, 10, 40])
def test_the_bound_of_a_quadrature(m):
    """`sum_j q! z_j^2q / (2q)!`, at most two, and twice the weights that are dropped."""
    coupling, z = QuadratureFrequencies(antithetic=True), np.array([[0.3, -0.7], [2.0, 9.0]])
    q, _, _, dropped = fitting_rule(m, 2, True)
    terms = special.factorial(q) * np.abs(z) ** (2 * q) / special.factorial(2 * q)
    expected = np.minimum(terms, 2.0).sum(axis=1) + 2 * dropped
    np.testing.assert_allclose(coupling.error_bound(m, z), expected, rtol=1e-10)


@pytest.mark.parametrize("nodes", [[0.5], [-0.5], [0.2, 0.9, 0.9]])
def test_the_filter_of_hops_is_the_largest_magnitude(nodes):
    grid = np.linspace(-1, 1, 20_001)
    product = np.abs(np.prod(grid[:, None] - np.array(nodes), axis=1))
    assert filter_norm(np.array(nodes)) == pytest.approx(product.max(), rel=1e-5)
