"""Block factors and entries of inverses, against dense matrices in extended precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from coupledgp.errors import InvalidInputError, MemoryLimitError, NumericalError
from coupledgp.linalg import selected_inverse as module
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.linalg.selected_inverse import canonical, selected_inverse
from coupledgp.linalg.sparse_cholesky import (
    elimination_order,
    factor_entries,
    minimum_degree,
    nested_dissection,
)
from coupledgp.linalg.supernodes import Supernodes
from tests.linalg.sparse_cases import arrow, grid_matrix, laplacian, path, random_matrix


def precise_inverse(matrix):
    """Inverse of a positive definite matrix by Gauss-Jordan elimination in extended precision."""
    n = matrix.shape[0]
    both = np.concatenate([matrix.toarray(), np.eye(n)], axis=1).astype(np.longdouble)
    for row in range(n):
        both[row] /= both[row, row]
        others = np.arange(n) != row
        both[others] -= np.outer(both[others, row], both[row])
    return both[:, n:]


def largest_error(found, expected):
    """Largest relative error of the entries of a sparse matrix."""
    entries = found.tocoo()
    there = expected[entries.row, entries.col]
    return float((np.abs(entries.data - there) / np.abs(there)).max())


def graded_rectangle(rng, n_rows, n_columns):
    """Stiffness and mass of a rectangle cut into right triangles with legs from 1e-6 to 1."""
    widths, heights = (10 ** rng.uniform(-6, 0, n) for n in (n_columns - 1, n_rows - 1))
    numbers = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    # Cotangents: half the height of the cells above and below over the width, and so for columns.
    across = np.convolve(heights, [0.5, 0.5])[:, None] / widths
    along = np.convolve(widths, [0.5, 0.5]) / heights[:, None]
    starts = np.concatenate([numbers[:, :-1].ravel(), numbers[:-1].ravel()])
    ends = np.concatenate([numbers[:, 1:].ravel(), numbers[1:].ravel()])
    stiffness = laplacian(starts, ends, np.append(across.ravel(), along.ravel()), numbers.size)
    mass = np.outer(np.convolve(heights, [0.5, 0.5]), np.convolve(widths, [0.5, 0.5]))
    return stiffness, mass.ravel()


@pytest.mark.parametrize("n_terms", [1, 2, 3, 4])
@pytest.mark.parametrize("decades", [0, 6])
def test_entries_are_those_of_the_dense_inverse_and_its_derivatives(n_terms, decades):
    rng = np.random.default_rng([n_terms, decades])
    matrix = random_matrix(rng, 120, 240, decades)
    slope = 10 ** rng.uniform(-decades / 2, decades / 2, 120) * rng.integers(0, 2, 120)
    inverse = precise_inverse(matrix)
    coefficients = selected_inverse(matrix, slope, minimum_degree(matrix), n_terms)
    assert len(coefficients) == n_terms
    expected = inverse
    for found in coefficients:
        assert (found != found.T).nnz == 0
        reached = np.abs(expected[matrix.nonzero()]) > 0
        assert found.nnz == matrix.nnz == reached.size
        entries = found.tocoo()
        there = expected[entries.row, entries.col]
        gap = np.abs(entries.data - there)
        assert (gap <= 1e-12 * np.abs(there)).all()
        expected = -inverse @ (slope[:, None] * expected)


@pytest.mark.parametrize("range_", [0.1, 1.0, 10.0, 100.0])
def test_slivers_lose_no_more_digits_than_their_condition(range_):
    stiffness, mass = graded_rectangle(np.random.default_rng(4), 12, 13)
    weights = np.abs(stiffness.tocoo().data)
    assert weights.max() / weights[weights > 0].min() > 1e6
    shift = 8 / range_**2 * mass
    matrix = sparse.csr_array(stiffness + sparse.diags_array(shift))
    inverse = precise_inverse(matrix)
    expected = inverse
    for found in selected_inverse(matrix, shift, elimination_order(matrix), 4):
        assert largest_error(found, expected) < 1e-10 * max(range_**2, 1)
        expected = -inverse @ (shift[:, None] * expected)


def test_orders_change_nothing():
    matrix, positions = grid_matrix(17, 23)
    rng = np.random.default_rng(0)
    orders = [minimum_degree(matrix), nested_dissection(matrix, positions), rng.permutation(391)]
    slope = rng.uniform(0, 2, 391)
    first, *others = (selected_inverse(matrix, slope, order, 3) for order in orders)
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_allclose(a.toarray(), b.toarray(), rtol=1e-11)


def test_entries_that_are_stored_zeros_are_found():
    """The pattern is what is stored, so that callers can ask for further entries."""
    matrix = path(40)
    wider = sparse.csr_array(matrix @ matrix)
    wider.data[:] = np.asarray(matrix.toarray()[wider.nonzero()])
    (found,) = selected_inverse(wider, None, minimum_degree(wider))
    assert found.nnz == wider.nnz > matrix.nnz
    assert largest_error(found, precise_inverse(matrix)) < 1e-13


HOSTILE = {
    "one row": sparse.csr_array([[4.0]]),
    "diagonal": sparse.csr_array(sparse.diags_array(np.arange(1.0, 91))),
    "dense": sparse.csr_array(np.eye(90) + 0.1),
    "star": arrow(90),
    "parts": sparse.csr_array(sparse.block_diag([arrow(40), path(45), [[2.0]], path(2)])),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_patterns(name):
    matrix = HOSTILE[name]
    slope = np.linspace(0, 1, matrix.shape[0])
    found = selected_inverse(matrix, slope, minimum_degree(matrix), 2)
    inverse = np.linalg.inv(matrix.toarray())
    pattern = matrix.toarray() != 0
    np.testing.assert_allclose(found[0].toarray(), inverse * pattern, rtol=1e-12, atol=1e-15)
    slopes = -inverse @ (slope[:, None] * inverse) * pattern
    np.testing.assert_allclose(found[1].toarray(), slopes, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("matrix", [path(30_000), arrow(20_000)], ids=["path", "star"])
def test_long_chains_and_stars(matrix):
    """The diagonal of the inverse, against solves for some of its columns."""
    order = minimum_degree(matrix)
    (found,) = selected_inverse(matrix, None, order)
    nodes = Supernodes.of(matrix, order)
    assert nodes.n_values < 12 * factor_entries(matrix, order)
    rows = np.array([0, 1, 777, 15_000, 19_999])
    columns = np.zeros((matrix.shape[0], rows.size))
    columns[rows, np.arange(rows.size)] = 1.0
    solved = BlockFactor(nodes, matrix.data).solve(columns)
    np.testing.assert_allclose(matrix @ solved, columns, atol=1e-12)
    np.testing.assert_allclose(found.diagonal()[rows], solved[rows, np.arange(rows.size)])


@given(st.integers(1, 120), st.integers(0, 300), st.integers(1, 3), st.integers(0, 2**31))
def test_any_pattern(n_rows, n_edges, n_terms, seed):
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, n_rows, n_edges)
    order = rng.permutation(n_rows)
    slope = rng.uniform(0, 1, n_rows)
    factor = BlockFactor(Supernodes.of(matrix, order), matrix.data, slope, n_terms)
    V = rng.standard_normal((n_rows, 2))
    np.testing.assert_allclose(matrix @ factor.solve(V), V, atol=1e-11)
    np.testing.assert_array_equal(factor.solve(V[:, 0]).shape, (n_rows,))
    assert abs(factor.log_determinant - np.linalg.slogdet(matrix.toarray())[1]) < 1e-9
    inverse = np.linalg.inv(matrix.toarray())
    expected = inverse
    for found in selected_inverse(matrix, slope, order, n_terms):
        gap = found.toarray() - expected * (matrix.toarray() != 0)
        assert np.abs(gap).max() < 1e-11 * np.abs(expected).max()
        expected = -inverse @ (slope[:, None] * expected)


@pytest.mark.parametrize(
    "matrix", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]], [[1.0, np.nan], [np.nan, 9.0]]]
)
def test_matrices_that_are_not_positive_definite_are_refused(matrix):
    with pytest.raises(NumericalError, match="not positive definite"):
        selected_inverse(sparse.csr_array(np.array(matrix)), None, np.arange(2))


def test_patterns_that_are_not_symmetric_are_refused():
    for entries in ([[1.0, 2.0, 0], [0, 1, 0], [0, 3, 1]], [[1.0, 1, 0], [1, 0, 1], [0, 1, 1]]):
        with pytest.raises(InvalidInputError, match="symmetric pattern"):
            selected_inverse(sparse.csr_array(np.array(entries)), None, np.arange(3))


def test_factors_that_do_not_fit_are_refused(monkeypatch):
    matrix, _ = grid_matrix(30, 30)
    asked = []
    monkeypatch.setattr(module, "check_memory", lambda needed, *text: asked.append(needed))
    selected_inverse(matrix, None, minimum_degree(matrix), 3)
    entries = factor_entries(matrix, minimum_degree(matrix))
    assert 24 * entries < asked[0] < 24 * 12 * entries
    monkeypatch.undo()
    monkeypatch.setattr("coupledgp.ground.memory.available_bytes", lambda: 1e5)
    monkeypatch.setattr("coupledgp.ground.memory.UNASKED", 0)
    with pytest.raises(MemoryLimitError, match="constant: 3 factors of a matrix of 900 rows"):
        selected_inverse(matrix, None, minimum_degree(matrix), 3)


def test_matrices_with_entries_twice_are_summed():
    twice = sparse.csr_array((np.ones(4), np.array([0, 0, 1, 1]), np.array([0, 2, 4])))
    assert canonical(twice).nnz == 2
    (found,) = selected_inverse(twice, None, np.arange(2))
    np.testing.assert_allclose(found.toarray(), np.eye(2) / 2)


@pytest.mark.parametrize("n_terms", [1, 2])
def test_wide_blocks_are_those_of_the_dense_matrix(n_terms):
    """A dense matrix is one block, and two that share their last rows have an update to add."""
    rng = np.random.default_rng(5)
    dense = sparse.block_array([[np.ones((300, 300)), None], [None, np.ones((200, 200))]]).toarray()
    dense[500 - 150 :, :] = dense[:, 500 - 150 :] = 1.0
    matrix = sparse.csr_array(dense * 0.01 * rng.uniform(size=(500, 500)))
    matrix = sparse.csr_array(matrix + matrix.T + sparse.diags_array(rng.uniform(4, 8, 500)))
    slope = rng.uniform(size=500)
    found = selected_inverse(matrix, slope, np.arange(500), n_terms)
    inverse = np.linalg.inv(matrix.toarray())
    held = matrix.toarray() != 0
    np.testing.assert_allclose(found[0].toarray(), np.where(held, inverse, 0), atol=1e-13)
    if n_terms > 1:
        first = np.where(held, -inverse @ (slope[:, None] * inverse), 0)
        np.testing.assert_allclose(found[1].toarray(), first, atol=1e-13)


def test_entries_that_fall_off_are_zero_before_they_are_denormal():
    """Products of denormal numbers would make factors of short ranges several times as slow."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor computes with denormal numbers")
    torch.set_flush_denormal(False)
    dense = grid_matrix(4, 150)[0].toarray() + 1e4 * np.eye(600)
    full = sparse.csr_array(np.where(dense != 0, dense, 1e-300))
    found = selected_inverse(full, None, np.arange(600))[0]
    size = np.abs(found.data)
    assert (size == 0).any()
    assert not ((size > 0) & (size < np.finfo(float).tiny)).any()
    np.testing.assert_allclose(found.diagonal(), np.linalg.inv(dense).diagonal())
