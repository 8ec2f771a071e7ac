"""Least and greatest losses of laws that are known up to bounds.

Every function takes targets, means and standard deviations, bounds of the errors of the means and
lower bounds of the standard deviations, all (p, k), and returns two arrays: the mean of a point's
law lies within `mean_error` of `mean`, its standard deviation between `least_std` and `std`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import ndtr

from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.diagnostics.scoring.scores import (
    LEVELS,
    PIT_BINS,
    bins_of,
    half_width,
    interval_width_points,
    point_crps,
)
from coupledgp.random import FloatArray

Pair = tuple[FloatArray, FloatArray]
# The CRPS of a distance d from the mean is least at the standard deviation d / CRPS_RATIO, where
# its derivative 2 phi(z) - 1 / sqrt(pi) is zero.
CRPS_RATIO = float(np.sqrt(np.log(2)))


def squared_error_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Least and greatest squared errors of the points."""
    least, most = _distances(y, mean, mean_error)
    return np.square(least), np.square(most)


def absolute_error_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Least and greatest absolute errors of the points."""
    return _distances(y, mean, mean_error)


def nlpd_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Least and greatest negative log densities of the points, each term at its extreme."""
    least, most = _distances(y, mean, mean_error)
    constant = 0.5 * np.log(2 * np.pi)
    return (
        0.5 * np.square(least / std) + np.log(least_std) + constant,
        0.5 * np.square(most / least_std) + np.log(std) + constant,
    )


def crps_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Least and greatest continuous ranked probability scores of the points.

    The score grows with the distance; as a function of the standard deviation it has one minimum.
    """
    least, most = _distances(y, mean, mean_error)
    best = np.clip(least / CRPS_RATIO, least_std, std)
    ends = [point_crps(most, np.zeros_like(most), end) for end in (least_std, std)]
    return point_crps(least, np.zeros_like(least), best), np.maximum(*ends)


def variance_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Least and greatest variances of the points."""
    return np.square(least_std), np.square(std)


def coverage_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Whether each target lies for certain, and whether it may lie, in its intervals (p, k, l)."""
    least, most = _distances(y, mean, mean_error)
    halves = np.array([half_width(level) for level in LEVELS])
    certain = most[..., None] <= halves * least_std[..., None]
    possible = least[..., None] <= halves * std[..., None]
    return certain.astype(np.float64), possible.astype(np.float64)


def interval_width_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Least and greatest widths (p, k, l) of the central intervals of the points."""
    return interval_width_points(y, mean, least_std), interval_width_points(y, mean, std)


def pit_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> Pair:
    """Whether each transform lies for certain, and whether it may lie, in each bin (p, k, bins)."""
    ends = []
    for gap, inner, outer in (
        (y - mean - mean_error, std, least_std),
        (y - mean + mean_error, least_std, std),
    ):
        # The lower end is lowest where a negative gap is divided by the smallest deviation.
        ends.append(bins_of(ndtr(np.where(gap < 0, gap / outer, gap / inner)))[..., None])
    bins = np.arange(PIT_BINS)
    possible = (ends[0] <= bins) & (bins <= ends[1])
    certain = possible & (ends[0] == ends[1])
    return certain.astype(np.float64), possible.astype(np.float64)


def nlpd_joint_bounds(
    y: FloatArray, mean: FloatArray, cov: FloatArray, floor: FloatArray, radius: float
) -> tuple[float, float]:
    """Distances below and above the joint NLPD within which that of the true law lies.

    The true covariance lies between `floor` and `cov`, (p, p), and the error e of the mean (p,)
    has `e e' <= radius^2 (cov - floor)`. With S = cov, B = floor, `|d|_A^2 = d' A^-1 d`,
    `d = y - mean` and `h = radius tr(B^-1 (S - B))^1/2`, per point,

        below: 1/2 [logdet S - logdet B + |d|_S^2 - (|d|_S - h)_+^2],
        above: 1/2 [(|d|_B + h)^2 - |d|_S^2].

    Raises
    ------
    NumericalError
        The floor is not positive definite: the solver needs a smaller tolerance.
    """
    high = covariance_root(cov, "predictive covariance")
    low = covariance_root(floor, "lower bound of the predictive covariance")
    gap = cov - floor
    h = radius * np.sqrt(max(float(np.trace(cho_solve((low, True), gap))), 0.0))
    logdet = 2 * float(np.log(np.diagonal(high) / np.diagonal(low)).sum())
    near = float(np.linalg.norm(solve_triangular(high, y - mean, lower=True)))
    far = float(np.linalg.norm(solve_triangular(low, y - mean, lower=True)))
    below = logdet + near**2 - max(near - h, 0.0) ** 2
    above = (far + h) ** 2 - near**2
    return 0.5 * max(below, 0.0) / y.size, 0.5 * max(above, 0.0) / y.size


def _distances(y: FloatArray, mean: FloatArray, mean_error: FloatArray) -> Pair:
    """Least and greatest distances of targets from means that are off by `mean_error` at most."""
    distance = np.abs(y - mean)
    return np.maximum(distance - mean_error, 0.0), distance + mean_error
