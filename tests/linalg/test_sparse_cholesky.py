"""Orders of elimination and sparse factors, against dense matrices and hostile patterns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, sparse

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.linalg.sparse_cholesky import (
    SparseFactor,
    elimination_order,
    elimination_tree,
    factor_entries,
    hanging_trees,
    minimum_degree,
    nested_dissection,
    postordered,
    symmetric_pattern,
)
from tests.linalg.sparse_cases import arrow, grid_matrix, laplacian, path, random_matrix

RNG = np.random.default_rng(3)
BLOCKS = sparse.csr_array(
    sparse.block_diag([random_matrix(RNG, 30, 60), arrow(9), path(5), np.eye(3), [[2.0]]])
)
# Matrices and positions of their vertices.
CASES = {
    "one row": (sparse.csr_array([[3.0]]), np.zeros((1, 2))),
    "diagonal": (sparse.csr_array(np.diag(np.arange(1.0, 201))), RNG.normal(size=(200, 2))),
    "dense": (sparse.csr_array(np.eye(150) + 0.01), RNG.normal(size=(150, 3))),
    "star": (arrow(300), RNG.normal(size=(300, 2))),
    "path": (path(500), np.arange(500.0)[:, None]),
    "random": (random_matrix(RNG, 250, 500, decades=6), RNG.normal(size=(250, 3))),
    "parts": (BLOCKS, RNG.normal(size=(BLOCKS.shape[0], 2))),
    "grid": grid_matrix(20, 15),
    "long axis": (grid_matrix(100, 3)[0], grid_matrix(100, 3)[1] * [1e9, 1e-9]),
    "one place": (grid_matrix(20, 15)[0], np.full((300, 2), 7.0)),
    "few places": (grid_matrix(20, 15)[0], RNG.integers(3, size=(300, 2)).astype(float)),
    "far away": (grid_matrix(20, 15)[0], RNG.choice([-1.7e308, 1.7e308], (300, 2))),
}  # fmt: skip


def is_postorder(tree):
    """Whether the descendants of every column come directly before it."""
    sizes = np.ones(tree.size, int)
    first = np.arange(tree.size)
    for column, parent in enumerate(tree):
        if parent >= 0:
            assert parent > column
            sizes[parent] += sizes[column]
            first[parent] = min(first[parent], first[column])
    return np.array_equal(first, np.arange(tree.size) - sizes + 1)


def dense_factor(matrix, order):
    """Pattern of the Cholesky factor, by elimination of a dense matrix of booleans."""
    filled = symmetric_pattern(matrix).toarray()[np.ix_(order, order)] != 0
    for column in range(len(order)):
        below = column + 1 + np.flatnonzero(filled[column + 1 :, column])
        filled[np.ix_(below, below)] = True
    return np.tril(filled)


@pytest.mark.parametrize("name", CASES)
def test_orders_are_postorders_of_their_trees(name):
    matrix, positions = CASES[name]
    n = matrix.shape[0]
    for order in (minimum_degree(matrix), nested_dissection(matrix, positions)):
        assert np.array_equal(np.sort(order), np.arange(n))
        tree = elimination_tree(symmetric_pattern(matrix), order)
        assert is_postorder(tree)
        factor = dense_factor(matrix, order)
        below = np.tril(factor, -1)
        assert np.array_equal(np.where(below.any(0), below.argmax(0), -1), tree)
        assert factor_entries(matrix, order) == factor.sum()


@pytest.mark.parametrize("name", CASES)
def test_postorders_keep_the_entries(name):
    matrix, _ = CASES[name]
    shuffled = np.random.default_rng(0).permutation(matrix.shape[0])
    again = postordered(symmetric_pattern(matrix), shuffled)
    assert is_postorder(elimination_tree(symmetric_pattern(matrix), again))
    assert factor_entries(matrix, again) == factor_entries(matrix, shuffled)


@pytest.mark.parametrize("name", CASES)
def test_solves_and_determinants_are_the_dense_ones(name):
    matrix, positions = CASES[name]
    dense = matrix.toarray()
    V = RNG.standard_normal((len(dense), 3))
    for order in (minimum_degree(matrix), nested_dissection(matrix, positions)):
        factor = SparseFactor(matrix, order)
        scale = linalg.norm(dense, 2) * np.abs(factor.solve(V)).max()
        np.testing.assert_allclose(dense @ factor.solve(V), V, atol=1e-13 * scale)
        np.testing.assert_array_equal(factor.solve(V[:, 0]), factor.solve(V[:, :1])[:, 0])
        expected = np.linalg.slogdet(dense)[1]
        np.testing.assert_allclose(factor.log_determinant, expected, rtol=1e-10, atol=1e-9)
        assert factor.n_entries <= factor_entries(matrix, order)


def test_the_better_order_is_taken():
    matrix, positions = grid_matrix(40, 40)
    orders = minimum_degree(matrix), nested_dissection(matrix, positions)
    counts = [factor_entries(matrix, order) for order in orders]
    assert factor_entries(matrix, elimination_order(matrix, positions)) == min(counts)
    # Positions that say nothing about the pattern make bad separators.
    scattered = np.random.default_rng(1).normal(size=positions.shape)
    worse = factor_entries(matrix, nested_dissection(matrix, scattered))
    assert worse > 2 * counts[0]
    assert factor_entries(matrix, elimination_order(matrix, scattered)) == counts[0]
    assert np.array_equal(elimination_order(matrix), minimum_degree(matrix))


def test_counting_stops_at_the_budget():
    matrix, _ = grid_matrix(20, 15)
    order = minimum_degree(matrix)
    entries = factor_entries(matrix, order)
    assert 400 < factor_entries(matrix, order, 400) < entries
    assert factor_entries(matrix, order, entries) == entries


def test_a_long_path_takes_neither_recursion_nor_quadratic_time():
    matrix = path(100_000)
    natural = np.arange(100_000)
    assert np.array_equal(postordered(symmetric_pattern(matrix), natural), natural)
    for order in (minimum_degree(matrix), nested_dissection(matrix, natural[:, None] / 7)):
        assert factor_entries(matrix, order) < 400_000
        factor = SparseFactor(matrix, order)
        gap = matrix @ factor.solve(np.ones(100_000)) - 1
        assert np.abs(gap).max() < 1e-12
    # det of tridiag(-1, 3, -1) with corrected ends, by the eigenvalues of a path.
    expected = np.log(3 - 2 * np.cos(np.pi * natural / 100_000)).sum()
    assert abs(factor.log_determinant / expected - 1) < 1e-12


def test_a_long_star_is_eliminated_from_its_leaves():
    matrix = arrow(20_000)
    orders = [minimum_degree(matrix)]
    for end in (-1.0, 1.0):  # the centre in the first half, and in the last
        places = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
        places[0] = end
        orders.append(nested_dissection(matrix, places))
    assert [factor_entries(matrix, order) for order in orders] == [39_999] * 3


def test_a_torus_of_forty_thousand_vertices_factorises():
    """Its eigenvalues are known: it is regular in both directions."""
    n, m = 256, 160
    numbers = np.arange(n * m).reshape(n, m)
    steps = [np.roll(numbers, shift, (0, 1)) for shift in ((1, 0), (0, 1), (1, 1))]
    starts = np.tile(numbers.ravel(), 3)
    ends = np.concatenate([step.ravel() for step in steps])
    W = sparse.coo_array((np.ones(starts.size), (starts, ends)), shape=(n * m, n * m))
    matrix = sparse.csr_array(7 * sparse.eye_array(n * m) - W - W.T)
    u, v = 2 * np.pi * np.stack(np.unravel_index(np.arange(n * m), (n, m))) / [[n], [m]]
    positions = np.stack([(2 + np.cos(v)) * np.cos(u), (2 + np.cos(v)) * np.sin(u), np.sin(v)], 1)
    factor = SparseFactor(matrix, elimination_order(matrix, positions))
    assert factor.n_entries < 100 * n * m
    a, b = np.meshgrid(2 * np.pi * np.arange(n) / n, 2 * np.pi * np.arange(m) / m)
    expected = np.log(7 - 2 * (np.cos(a) + np.cos(b) + np.cos(a + b))).sum()
    assert abs(factor.log_determinant / expected - 1) < 1e-12


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "not positive definite"),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), "not positive definite"),
        (np.diag([1.0, -1.0]), "not positive definite"),
        (np.zeros((2, 2)), "singular"),
        (np.array([[1.0, -1.0], [-1.0, 1.0]]), "singular|not positive"),
        (np.diag([1.0, np.nan]), "NaN"),
        (np.diag([1.0, np.inf]), "NaN"),
    ],
)
def test_matrices_that_are_not_positive_definite_are_refused(matrix, words):
    matrix = sparse.csr_array(matrix)
    with pytest.raises(NumericalError, match=words):
        SparseFactor(matrix, np.arange(2))


def test_shapes_are_checked():
    with pytest.raises(InvalidInputError, match="square"):
        minimum_degree(sparse.csr_array((3, 2)))
    with pytest.raises(InvalidInputError, match="square"):
        minimum_degree(sparse.csr_array((0, 0)))
    for positions in (np.zeros((2, 2)), np.zeros(3), np.zeros((3, 0)), np.full((3, 1), np.nan)):
        with pytest.raises(InvalidInputError, match="positions"):
            nested_dissection(path(3), positions)


@given(st.integers(1, 150), st.integers(0, 400), st.integers(1, 3), st.integers(0, 2**31))
def test_any_pattern_is_ordered_and_factorised(n_rows, n_edges, n_places, seed):
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, n_rows, n_edges)
    positions = rng.integers(n_places, size=(n_rows, 2)) * rng.choice([0.0, 1e-300, 1.0, 1e300], 2)
    for order in (minimum_degree(matrix), nested_dissection(matrix, positions)):
        assert np.array_equal(np.sort(order), np.arange(n_rows))
        assert is_postorder(elimination_tree(symmetric_pattern(matrix), order))
        factor = SparseFactor(matrix, order)
        np.testing.assert_allclose(matrix @ factor.solve(np.ones(n_rows)), 1, rtol=1e-9)
        assert abs(factor.log_determinant - np.linalg.slogdet(matrix.toarray())[1]) < 1e-8


def test_trees_are_eliminated_first_and_fill_nothing_in():
    rng = np.random.default_rng(3)
    above = np.array([rng.integers(max(k, 1)) for k in range(1, 400)])
    tree = laplacian(above, np.arange(1, 400), np.ones(399), 400)
    assert sorted(hanging_trees(symmetric_pattern(tree))) == list(range(400))
    assert factor_entries(tree, minimum_degree(tree)) == 799
    ends = np.append(np.arange(6), [0, 6, 3]), np.append(np.roll(np.arange(6), -1), [6, 7, 8])
    ring = laplacian(*ends, np.ones(9), 9)  # six nodes, and branches of two and of one
    assert set(hanging_trees(symmetric_pattern(ring))) == {6, 7, 8}
    assert sorted(minimum_degree(ring)) == list(range(9))
