"""Products with the inverse of the covariance of observed rows, by a factor or by iteration.

Gradients of the posterior of f with respect to the inputs, by central differences.

Differences of the mean have steps of 1e-4 lengthscales: relative to the change of f over a
lengthscale their error is near 1e-8, and near 1e-4 beside a row where the kernel is Matern-3/2, of
which the mean has no second derivative there. Variances are those of differences of f over 1e-3
lengthscales, from joint laws. Their error is near 1e-9 of the prior's variance of the slope by
rounding, and near one percent under Matern-3/2, whose slopes change within the step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from coupledgp.gp.inverse_covariance import DenseInverse, InverseCovariance, SolvedInverse
from coupledgp.ground.tensors import Tensor
from coupledgp.inference.dense.system import CovarianceSystem
from coupledgp.linalg.matrices import Matrix, as_numpy, beside, cholesky_solve, solve_lower
from coupledgp.linalg.system import Solution
from coupledgp.random import FloatArray

# Least reciprocal condition number of a factor whose inverse keeps ten digits.
LEAST_RECIPROCAL = 1e-5
# Most observations left out in one call where each takes a solve by iteration.
MOST_LEFT_OUT = 4000


class ExplainedPart(NamedTuple):
    """The part of prior covariances at p points that rows explain, `C A^-1 C'` for C (p, n).

    Attributes
    ----------
    variance : Matrix (p,)
        Its diagonal.
    left, right : Matrix (p, n)
        Factors whose product `left right'` is the whole.
    """

    variance: Matrix
    left: Matrix
    right: Matrix


class RowInverse(ABC):
    """Products with the inverse of the covariance A (n, n) of rows, noise included."""

    @abstractmethod
    def solved(self, right: FloatArray) -> FloatArray:
        """`A^-1 B` (n, j) for B (n, j)."""

    @abstractmethod
    def explained(self, cross: Matrix) -> ExplainedPart:
        """What the rows explain at points of covariances C (p, n), which it may overwrite."""

    @abstractmethod
    def inverse_covariance(self, residuals: FloatArray) -> InverseCovariance:
        """`A^-1` by blocks, with `A^-1 y` (n, k)."""


class RowFactor(RowInverse):
    """Lower Cholesky factor L (n, n), computed at its first use.

    Parameters
    ----------
    make
        Computes the factor.
    """

    def __init__(self, make: Callable[[], Matrix]) -> None:
        self._make = make

    @cached_property
    def lower(self) -> Matrix:
        """L itself."""
        return self._make()

    @cached_property
    def inverse(self) -> FloatArray | None:
        """`L^-1` (n, n) on the CPU; None where L is near singular.

        A product with it takes half the time of a solve, and loses digits where L is near singular.
        """
        if isinstance(self.lower, Tensor):
            return None
        factor = np.asfortranarray(self.lower)
        reciprocal, _ = lapack.dtrcon(factor, uplo="L")
        if reciprocal < LEAST_RECIPROCAL:
            return None
        inverse, info = lapack.dtrtri(factor, lower=1)
        return inverse if info == 0 else None

    def whitened(self, cross: Matrix) -> Matrix:
        """`C L^-T` (p, n) of covariances C (p, n), which it may overwrite."""
        inverse = self.inverse
        if inverse is None:
            return solve_lower(self.lower, cross.T).T
        columns = np.ascontiguousarray(cross).T
        return blas.dtrmm(1.0, inverse, columns, lower=1, overwrite_b=1).T

    def explained(self, cross: Matrix) -> ExplainedPart:
        root = self.whitened(cross)
        return ExplainedPart((root * root).sum(1), root, root)

    def inverse_covariance(self, residuals: FloatArray) -> DenseInverse:
        return DenseInverse(as_numpy(self.lower), residuals)

    def solved(self, right: FloatArray) -> FloatArray:
        return as_numpy(cholesky_solve(beside(right, self.lower), self.lower))


class IteratedRows(RowInverse):
    """Products with `A^-1` by conjugate gradients: O(n^2) time a column, and O(n) memory.

    Parameters
    ----------
    system
        The equations in A.
    tolerance
        Largest relative residual of the solves.
    """

    def __init__(self, system: CovarianceSystem, tolerance: float) -> None:
        self.system, self.tolerance = system, tolerance

    def solution(self, right: FloatArray) -> Solution:
        """Solutions, and their true residuals."""
        return self.system.solve(right, self.tolerance)

    def solved(self, right: FloatArray) -> FloatArray:
        return self.solution(right).values

    def explained(self, cross: Matrix) -> ExplainedPart:
        """By `C A^-1 C' = X' (C' + R) + R' A^-1 R`, X solutions with residuals R.

        The last term, quadratic in the tolerance, is left out.
        """
        found = self.solution(cross.T)
        left, right = cross + found.residuals.T, found.values.T
        return ExplainedPart((left * right).sum(1), left, right)

    def inverse_covariance(self, residuals: FloatArray) -> SolvedInverse:
        advice = "ask for some rows only (rows=, or max_rows= of a report)"
        return SolvedInverse(self.solved, residuals, MOST_LEFT_OUT, advice)


# Steps in lengthscales.
MEAN_STEP, LAW_STEP = 1e-4, 1e-3
# Shifted points whose means are computed at once.
BATCH = 65536

Points: TypeAlias = NDArray[Any]


class Gradient(NamedTuple):
    """Gradients at p points in D columns of k outputs, units of y per unit of a column.

    Attributes
    ----------
    mean : FloatArray (p, D, k)
        Gradient of the mean.
    variance : FloatArray (p, D, k) or None
        Variances of the partial derivatives of f; None if only the mean was asked for.
    """

    mean: FloatArray
    variance: FloatArray | None


def mean_differences(
    mean: Callable[[Points], FloatArray], points: Points, lengthscale: FloatArray
) -> FloatArray:
    """Central differences (p, D, k) of means (p, k) at points (p, D)."""
    n_points, dim = points.shape
    found = []
    size = max(BATCH // (2 * dim), 1)
    for start in range(0, max(n_points, 1), size):
        shifted, widths = _shifted(points[start : start + size], MEAN_STEP * lengthscale)
        values = mean(shifted.reshape(-1, dim))
        ends = values.reshape(2, -1, dim, values.shape[1])
        found.append((ends[1] - ends[0]) / widths[..., None])
    return np.concatenate(found)


def _shifted(points: Points, steps: FloatArray) -> tuple[Points, FloatArray]:
    """Points (2, p, D, D) with one column lowered and raised, and the widths (p, D) as rounded."""
    dim = points.shape[1]
    ends = np.array([points[:, None, :] - np.diag(steps), points[:, None, :] + np.diag(steps)])
    columns = np.arange(dim)
    widths: FloatArray = ends[1][:, columns, columns] - ends[0][:, columns, columns]
    return ends, widths


def law_differences(
    covariance: Callable[[Points], FloatArray], points: Points, lengthscale: FloatArray
) -> FloatArray:
    """Variances (p, D, k) of central differences of f, from covariances (q, q, k) of points."""
    dim = points.shape[1]
    found = []
    for point in points:
        shifted, widths = _shifted(point[None], LAW_STEP * lengthscale)
        joint = covariance(shifted.reshape(-1, dim))
        own = np.einsum("iik->ik", joint)
        cross = joint[np.arange(dim), np.arange(dim) + dim]
        variance = own[:dim] + own[dim:] - 2 * cross
        found.append(np.maximum(variance, 0.0) / widths[0][:, None] ** 2)
    shape = (len(points), dim, found[0].shape[1] if found else 1)
    return np.array(found).reshape(shape)
