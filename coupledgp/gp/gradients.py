"""Gradients of the posterior of f with respect to the inputs, by central differences.

Differences of the mean have steps of 1e-4 lengthscales: relative to the change of f over a
lengthscale their error is near 1e-8, and near 1e-4 beside a row where the kernel is Matern-3/2, of
which the mean has no second derivative there. Variances are those of differences of f over 1e-3
lengthscales, from joint laws. Their error is near 1e-9 of the prior's variance of the slope by
rounding, and near one percent under Matern-3/2, whose slopes change within the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import FloatArray

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
