"""Cholesky factors of covariances, and errors that name the cause of a failure and a remedy."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from coupledgp.errors import NumericalError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.matrices import Matrix, library
from coupledgp.random import FloatArray

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
