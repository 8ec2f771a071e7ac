"""Matrices as arrays on the CPU and as tensors on a device, under one name each, and their factors.

Code for both uses operators and methods that arrays and tensors share, and the functions of this
file. On the CPU no tensor is made, and torch is not imported. Errors of Cholesky factors name the
cause of a failure and a remedy.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from coupledgp.errors import NumericalError
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

Matrix: TypeAlias = Any  # a FloatArray, or a Tensor on any device
# A factor (n, n) and whether it is the lower one, as SciPy's `cho_solve` takes them.
Factor: TypeAlias = tuple[FloatArray, bool]


def cholesky(matrix: Matrix, name: str) -> Matrix:
    """Lower Cholesky factor (n, n) of a symmetric positive definite matrix (n, n).

    Parameters
    ----------
    matrix
        Matrix (n, n) on any device.
    name
        Name of the matrix in the error message.

    Raises
    ------
    NumericalError
        The matrix is not positive definite; the message gives the condition number and a remedy.
    """
    own = library(matrix)
    if isinstance(matrix, Tensor):
        factor, info = torch.linalg.cholesky_ex(matrix)
    else:  # the transpose of a symmetric matrix is itself, and LAPACK reads it without a copy
        upper, info = lapack.dpotrf(matrix.T, lower=0)
        factor = upper.T
    # Each entry of a row enters the last of it, which therefore is finite only if all are.
    if int(info) == 0 and bool(own.isfinite(factor.diagonal()).all()):
        return factor
    if not bool(own.isfinite(matrix).all()):
        raise NumericalError(
            f"{name} has NaN or infinite entries: check that inputs, targets and hyperparameters "
            "are of moderate size"
        )
    eigenvalues = own.linalg.eigvalsh(matrix)
    largest, smallest = float(eigenvalues[-1]), float(eigenvalues[0])
    condition = largest / smallest if smallest > 0 else math.inf
    raise NumericalError(
        f"{name} is not positive definite in {str(matrix.dtype).removeprefix('torch.')} "
        f"(eigenvalues from {smallest:.2e} to {largest:.2e}, condition number {condition:.1e}): "
        f"raise the noise to at least {1e-14 * largest:.1e} times the outputscale, or use fewer "
        "frequencies"
    )


def positive_inverse(matrix: FloatArray, name: str) -> tuple[FloatArray, float]:
    """Inverse (n, n) of a symmetric positive definite matrix (n, n), and its log-determinant.

    Raises
    ------
    NumericalError
        The matrix is not positive definite.
    """
    factor, info = lapack.dpotrf(matrix, lower=1, overwrite_a=0)
    size = 2.0 * float(np.log(np.abs(factor.diagonal())).sum()) if info == 0 else 0.0
    if info == 0:
        inverse, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise NumericalError(f"{name}: expected a positive definite matrix")
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(inverse, -1).T), size


def batch_cholesky(matrices: Tensor, name: str) -> Tensor:
    """Lower Cholesky factors (..., n, n) of a batch of matrices (..., n, n).

    Raises
    ------
    NumericalError
        A matrix is not positive definite; the message is that of `cholesky` for this one.
    """
    factors, info = torch.linalg.cholesky_ex(matrices)
    failed = (info != 0).nonzero()
    if len(failed):
        cholesky(matrices[tuple(failed[0])], name)
    return factors


def covariance_factor(covariance: FloatArray, ratio: float, overwrite: bool = False) -> Factor:
    """Cholesky factor of a covariance (n, n) of values at nodes, for SciPy's `cho_solve`.

    Parameters
    ----------
    covariance
        Symmetric matrix (n, n), noise included.
    ratio
        Ratio of noise to output scale that it was made with, for the error message.
    overwrite
        Whether the matrix may be destroyed, which saves a copy of it.

    Raises
    ------
    NumericalError
        The covariance is not positive definite to rounding.
    """
    try:
        factor: Factor = linalg.cho_factor(covariance, lower=True, overwrite_a=overwrite)
    except linalg.LinAlgError:
        raise NumericalError(
            f"covariance of {len(covariance)} nodes is not positive definite at a ratio of noise "
            f"to output scale of {ratio:.2g}; raise the noise"
        ) from None
    return factor


def log_determinant(factor: Factor) -> float:
    """Log determinant of the matrix that was factorised."""
    return 2.0 * float(np.log(np.diagonal(factor[0])).sum())


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
