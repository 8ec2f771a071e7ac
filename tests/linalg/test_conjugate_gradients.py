"""Conjugate gradients against plain solves, for columns that converge, vanish, or cannot."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from coupledgp.errors import NumericalError
from coupledgp.linalg.conjugate_gradients import (
    DiagonalPreconditioner,
    solve_columns,
    solve_refined,
)
from coupledgp.linalg.matrices import precision_of
from coupledgp.random import FloatArray


def positive_definite(n: int, seed: int) -> FloatArray:
    root = np.random.default_rng(seed).standard_normal((n, n))
    return root @ root.T + 0.1 * np.eye(n)


def test_conjugate_gradients_solve_every_column() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((40, 40))
    A = root @ root.T + 0.1 * np.eye(40)
    B = np.column_stack([rng.standard_normal((40, 2)), np.zeros(40)])
    X = solve_columns(lambda V: A @ V, DiagonalPreconditioner(np.diag(A).copy()), B, 1e-10)
    np.testing.assert_allclose(A @ X, B, atol=1e-8)
    with pytest.raises(NumericalError, match="relative residual"):
        solve_columns(lambda V: A @ V, lambda R: R, B, 1e-10, max_iterations=2)


def test_conjugate_gradients_take_a_tolerance_for_each_column() -> None:
    A = np.diag(np.geomspace(1.0, 1e4, 60))
    B = np.ones((60, 2))
    tolerance = np.array([1e-2, 1e-10])
    identity = DiagonalPreconditioner(np.ones(60))
    X = solve_columns(lambda V: A @ V, identity, B, tolerance)
    residuals = np.linalg.norm(A @ X - B, axis=0) / np.linalg.norm(B, axis=0)
    assert (residuals <= 2 * tolerance).all()
    assert residuals[0] > 1e-6


def test_columns_too_small_to_be_squared_are_solved_as_well() -> None:
    A, b = positive_definite(30, 2), np.random.default_rng(3).standard_normal(30)
    B = np.column_stack([b, 1e-200 * b, 1e200 * b, 0 * b])
    X = solve_columns(lambda V: A @ V, lambda R: R / 30, B, 1e-10)
    expected = np.linalg.solve(A, b)
    for column, scale in zip(X.T, (1.0, 1e-200, 1e200), strict=False):
        np.testing.assert_allclose(column / scale, expected, rtol=1e-6, atol=1e-8)
    assert not X[:, 3].any()


def test_a_product_that_is_not_finite_is_an_error_at_once() -> None:
    calls = []

    def product(V: FloatArray) -> FloatArray:
        calls.append(V)
        return np.full_like(V, np.nan)

    with pytest.raises(NumericalError, match="relative residual nan after 1 steps"):
        solve_columns(product, lambda R: R, np.ones((4, 2)))
    assert len(calls) == 1


def test_steps_are_made_for_columns_that_have_not_converged() -> None:
    """The first column is an eigenvector: one step solves it, and it is left out afterwards."""
    A = positive_definite(20, 4)
    vectors = np.linalg.eigh(A)[1]
    B = np.column_stack([vectors[:, 3], vectors.sum(axis=1)])
    widths = []

    def product(V: FloatArray) -> FloatArray:
        widths.append(V.shape[1])
        return A @ V

    solve_columns(product, lambda R: R, B, 1e-8)
    assert widths[0] == 2
    assert len(widths) > 5
    assert set(widths[1:]) == {1}


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_refined_residuals_are_true_ones(dtype: str, kind: Callable[[Any], Any]) -> None:
    A, B = positive_definite(40, 5), np.random.default_rng(6).standard_normal((40, 3))
    copies = {np.dtype(name): kind(A.astype(name)) for name in ("float32", "float64")}
    solved = solve_refined(lambda V: copies[precision_of(V)] @ V, lambda R: R, kind(B), 1e-9, dtype)
    np.testing.assert_allclose(solved.residuals, B - A @ solved.values, atol=1e-12)
    norms = np.linalg.norm(solved.residuals, axis=0) / np.linalg.norm(B, axis=0)
    assert (norms <= 1e-9).all()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_refinement_goes_on_until_every_column_is_solved(place: int) -> None:
    """An eigenvector is solved in one step, wherever it stands; single precision needs more."""
    A = torch.as_tensor(positive_definite(40, 5))
    B = torch.as_tensor(np.random.default_rng(6).standard_normal((40, 3)))
    B[:, place] = torch.linalg.eigh(A)[1][:, -1]
    solved = solve_refined(lambda V: A.to(V.dtype) @ V, lambda R: R, B, 1e-9, "float32")
    norms = np.linalg.norm(solved.residuals, axis=0) / np.linalg.norm(B, axis=0)
    assert (norms <= 1e-9).all()


@pytest.mark.parametrize("place", [0, 1])
def test_any_column_that_does_not_converge_is_an_error(place: int) -> None:
    A = positive_definite(20, 4)
    B = np.random.default_rng(7).standard_normal((20, 2))
    B[:, 1 - place] = np.linalg.eigh(A)[1][:, 3]
    with pytest.raises(NumericalError, match="after 2 steps"):
        solve_columns(lambda V: A @ V, lambda R: R, B, 1e-8, max_iterations=2)


def test_single_precision_that_overflows_gives_way_to_double() -> None:
    A = torch.as_tensor(positive_definite(10, 7)) * 1e30
    B = torch.as_tensor(np.random.default_rng(8).standard_normal((10, 2))) * 1e30

    solved = solve_refined(lambda V: A.to(V.dtype) @ V, lambda R: R, B, 1e-9, "float32")
    np.testing.assert_allclose(A @ torch.as_tensor(solved.values), B, rtol=1e-6, atol=1e22)


def test_refinement_ends_where_a_product_is_not_finite() -> None:
    B = torch.ones(30, 1, dtype=torch.float64)
    with pytest.raises(NumericalError, match="tolerance: relative residual"):
        solve_refined(lambda V: torch.nan * V, lambda R: R, B, 1e-12, "float64")
