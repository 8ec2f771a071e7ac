"""Matrices as NumPy arrays on the CPU and as tensors on a device, under one name each.

Code for both uses operators and methods that arrays and tensors share, and the functions of this
file. On the CPU no tensor is made, and torch is not imported.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

Matrix: TypeAlias = Any  # a FloatArray, or a Tensor on any device


def library(matrix: Matrix) -> Any:
    """The library of a matrix, NumPy or torch, for functions of one name in both."""
    return torch if isinstance(matrix, Tensor) else np


def on_device(values: FloatArray, device: torch.device) -> Matrix:
    """An array on the CPU as it is, and as a tensor on another device."""
    return values if device == CPU else torch.as_tensor(values, device=device)


def beside(values: FloatArray, matrix: Matrix) -> Matrix:
    """An array where a matrix is, of the matrix's kind."""
    return torch.as_tensor(values, device=matrix.device) if isinstance(matrix, Tensor) else values


def as_numpy(matrix: Matrix) -> FloatArray:
    """A matrix as an array on the CPU."""
    found: FloatArray = matrix.cpu().numpy() if isinstance(matrix, Tensor) else np.asarray(matrix)
    return found


def add_to_diagonal(matrix: Matrix, values: Matrix | float) -> None:
    """Add numbers (n,) or one number to the diagonal of a matrix (n, n), in place."""
    if isinstance(matrix, Tensor):
        matrix.diagonal().add_(values)
    else:
        np.einsum("ii->i", matrix)[:] += values


def precision_of(matrix: Matrix) -> np.dtype[Any]:
    """NumPy's type of the numbers of a matrix."""
    return np.dtype(str(matrix.dtype).removeprefix("torch."))


def in_precision(matrix: Matrix, dtype: str) -> Matrix:
    """A matrix in `"float32"` or `"float64"`; itself where it is already."""
    is_tensor = isinstance(matrix, Tensor)
    return matrix.to(getattr(torch, dtype)) if is_tensor else matrix.astype(dtype, copy=False)


def rounding_unit(matrix: Matrix) -> float:
    """Relative rounding of one operation in the precision of a matrix."""
    return float(np.finfo(precision_of(matrix)).eps)


def cholesky_solve(right: Matrix, factor: Matrix) -> Matrix:
    """`(L L')^-1 B` (n, k) for B (n, k) and a lower Cholesky factor L (n, n)."""
    if isinstance(factor, Tensor):
        return torch.cholesky_solve(right, factor)
    is_rows = factor.flags.c_contiguous  # then its transpose is what LAPACK reads without a copy
    return lapack.dpotrs(factor.T if is_rows else factor, right, lower=not is_rows)[0]


def cholesky_inverse(factor: Matrix) -> Matrix:
    """`(L L')^-1` (n, n) for a lower Cholesky factor L (n, n)."""
    if isinstance(factor, Tensor):
        return torch.cholesky_inverse(factor)
    inverse = lapack.dpotri(factor, lower=1)[0]
    below = np.tril(inverse, -1)
    return np.tril(inverse) + below.T


def solve_lower(factor: Matrix, right: Matrix, transposed: bool = False) -> Matrix:
    """`L^-1 B` (n, k) for a lower triangular L (n, n), or `L'^-1 B`."""
    if not isinstance(factor, Tensor):
        return linalg.solve_triangular(
            factor, right, trans=int(transposed), lower=True, check_finite=False
        )
    side = factor.mT if transposed else factor
    return torch.linalg.solve_triangular(side, right, upper=transposed)
