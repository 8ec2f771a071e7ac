"""Operations on arrays and on tensors against plain linear algebra, for every order in memory."""

import numpy as np
import pytest
import torch

from coupledgp.errors import NumericalError
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.linalg.matrices import (
    add_to_diagonal,
    as_numpy,
    beside,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    in_precision,
    library,
    on_device,
    precision_of,
    rounding_unit,
    solve_lower,
)
from coupledgp.random import FloatArray

KINDS = {"rows": np.ascontiguousarray, "columns": np.asfortranarray, "tensor": torch.as_tensor}


def positive_definite(n: int) -> FloatArray:
    root = np.random.default_rng(n).standard_normal((n, n))
    return root @ root.T + np.eye(n)


@pytest.mark.parametrize("kind", KINDS)
def test_factors_solves_and_inverses(kind: str) -> None:
    make = KINDS[kind]
    A, B = positive_definite(7), np.random.default_rng(0).standard_normal((7, 3))
    factor = cholesky(make(A), "A")
    L = as_numpy(factor)
    np.testing.assert_allclose(L @ L.T, A, rtol=1e-12, atol=1e-12)
    assert not np.triu(L, 1).any()
    for own in (factor, make(L)):
        solved = as_numpy(cholesky_solve(make(B), own))
        np.testing.assert_allclose(A @ solved, B, atol=1e-11)
        np.testing.assert_allclose(as_numpy(cholesky_inverse(own)) @ A, np.eye(7), atol=1e-11)
        np.testing.assert_allclose(L @ as_numpy(solve_lower(own, make(B))), B, atol=1e-11)
        transposed = as_numpy(solve_lower(own, make(B), transposed=True))
        np.testing.assert_allclose(L.T @ transposed, B, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_diagonals_precisions_and_places(kind: str) -> None:
    A = positive_definite(4)
    own = KINDS[kind](A.copy())
    add_to_diagonal(own, 2.0)
    add_to_diagonal(own, beside(np.arange(4.0), own))
    np.testing.assert_allclose(as_numpy(own), A + np.diag(2.0 + np.arange(4)))
    assert library(own) is (np if kind != "tensor" else library(torch.ones(1)))
    single = in_precision(own, "float32")
    assert precision_of(single) == np.float32
    assert rounding_unit(single) == np.finfo(np.float32).eps
    assert rounding_unit(own) == np.finfo(np.float64).eps
    assert in_precision(own, "float64") is own


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_without_a_factor_is_refused(kind: str) -> None:
    make = KINDS[kind]
    with pytest.raises(NumericalError, match="A is not positive definite in float64"):
        cholesky(make(-np.eye(3)), "A")
    with pytest.raises(NumericalError, match="A has NaN or infinite entries"):
        cholesky(make(np.full((3, 3), np.nan)), "A")


def test_the_cpu_is_named_without_torch_and_is_the_same() -> None:
    assert parse_device(None) is CPU
    assert parse_device("cpu") is CPU
    assert parse_device(torch.device("cpu")) is CPU
    assert torch.device("cpu") == CPU
    assert torch.device("cuda", 0) != CPU
    assert CPU.type == str(CPU) == "cpu"
    values = np.ones((2, 2))
    assert on_device(values, CPU) is values
    assert torch.zeros(2, device=CPU).device == CPU
