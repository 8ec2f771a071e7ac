"""Scores of Gaussian predictive laws against observed targets, in units of y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from coupledgp.diagnostics.divergences import covariance_root
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.validation import check_positive_int

# Nominal levels of the central intervals in a report: half of the targets, most, and all but few.
LEVELS = (0.5, 0.8, 0.95)
# Bins of the histogram of probability integral transforms: with a hundred points, ten in each.
PIT_BINS = 10


class MeanOverPoints(NamedTuple):
    """A mean over points, and its standard error; None for a single point."""

    mean: float
    standard_error: float | None


def rmse(y: FloatArray, mean: FloatArray) -> float:
    """Root mean squared error of means, in units of y; both (p,) or (p, k)."""
    return float(np.sqrt(np.mean(np.square(y - mean))))


def mae(y: FloatArray, mean: FloatArray) -> float:
    """Mean absolute error of means, in units of y; both (p,) or (p, k)."""
    return float(np.mean(np.abs(y - mean)))


def point_squared_error(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Squared error of each point's mean, in units of y squared; all (p, k)."""
    return np.square(y - mean)


def point_absolute_error(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Absolute error of each point's mean, in units of y; all (p, k)."""
    return np.abs(y - mean)


def point_nlpd(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Negative log predictive density of each point alone, nats; all (p,) or (p, k)."""
    return 0.5 * np.square((y - mean) / std) + np.log(std) + 0.5 * np.log(2 * np.pi)


def nlpd(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean negative log density of each point alone (marginal), nats per point.

    Targets, means and standard deviations are all (p,) or (p, k).
    """
    return float(np.mean(point_nlpd(y, mean, std)))


def nlpd_joint(y: FloatArray, mean: FloatArray, cov: FloatArray) -> float:
    """Negative log density of all points together, nats per point.

    Targets and means (p,), covariance (p, p).
    """
    root = covariance_root(cov, "predictive covariance")
    white = solve_triangular(root, y - mean, lower=True)
    logdet = 2 * np.log(np.diagonal(root)).sum()
    return float(0.5 * (white @ white + logdet + y.size * np.log(2 * np.pi)) / y.size)


def point_crps(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Continuous ranked probability score `int (F(t) - [t >= y])^2 dt` of each point, all (p, k).

    It is `std [ z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi) ]`, `z = (y - mean) / std` (Gneiting and
    Raftery, 2007, eq. 21, with the sign turned: smaller is better).
    """
    z = (y - mean) / std
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    return std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))


def crps(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean continuous ranked probability score, in units of y; smaller is better.

    Targets, means and standard deviations are all (p,) or (p, k).
    """
    return float(np.mean(point_crps(y, mean, std)))


def coverage(
    y: FloatArray, mean: FloatArray, std: FloatArray, levels: Sequence[float] = LEVELS
) -> dict[float, float]:
    """Share of targets inside the central interval of each nominal level.

    Targets, means and standard deviations are all (p,) or (p, k).
    """
    distance = np.abs(y - mean) / std
    return {level: float(np.mean(distance <= half_width(level))) for level in levels}


def interval_width(std: FloatArray, levels: Sequence[float] = LEVELS) -> dict[float, float]:
    """Mean width of the central interval of each nominal level, in units of y.

    Standard deviations (p,) or (p, k).
    """
    mean = float(np.mean(std))
    return {level: 2 * half_width(level) * mean for level in levels}


def squared_error_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least and greatest squared errors of the points, if means are off by `mean_error` at most."""
    least, most = _distance_bounds(y, mean, mean_error)
    return np.square(least), np.square(most)


def nlpd_bounds(
    y: FloatArray, mean: FloatArray, std: FloatArray, mean_error: FloatArray, least_std: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least and greatest negative log densities of the points, each term at its extreme.

    Means are off by `mean_error` at most, standard deviations lie between `least_std` and `std`;
    all arrays (p, k).
    """
    least, most = _distance_bounds(y, mean, mean_error)
    constant = 0.5 * np.log(2 * np.pi)
    return (
        0.5 * np.square(least / std) + np.log(least_std) + constant,
        0.5 * np.square(most / least_std) + np.log(std) + constant,
    )


def _distance_bounds(
    y: FloatArray, mean: FloatArray, mean_error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least and greatest distances of targets from means that are off by `mean_error` at most."""
    distance = np.abs(y - mean)
    return np.maximum(distance - mean_error, 0.0), distance + mean_error


def half_width(level: float) -> float:
    """Half the width of the central interval of a nominal level, in standard deviations."""
    if not 0 < level < 1:
        raise InvalidInputError(f"levels: expected numbers between 0 and 1, got {level}")
    return float(ndtri(0.5 + level / 2))


def sharpness(std: FloatArray) -> float:
    """Root mean predictive variance, in units of y: the expected RMSE if the law is true.

    Standard deviations (p,) or (p, k).
    """
    return float(np.sqrt(np.mean(np.square(std))))


def pit_histogram(
    y: FloatArray, mean: FloatArray, std: FloatArray, n_bins: int = PIT_BINS
) -> tuple[float, ...]:
    """Shares of the probability integral transforms `F(y)` in equal bins of [0, 1].

    Targets, means and standard deviations are all (p,) or (p, k). The histogram is uniform for a
    calibrated law; a hump in the middle shows intervals that are too wide, one at each end
    intervals that are too narrow, a slope a bias.
    """
    check_positive_int(n_bins, "n_bins")
    transforms = ndtr((y - mean) / std)
    counts, _ = np.histogram(transforms, bins=n_bins, range=(0.0, 1.0))
    return tuple(float(count) / transforms.size for count in counts)


def paired_difference(score: FloatArray, reference: FloatArray) -> MeanOverPoints:
    """Mean of `score - reference` over points, with the standard error of independent points.

    Both are scores of single points, (p,) or (p, k); the mean over outputs is taken first.
    """
    gap = (score - reference).reshape(len(score), -1).mean(axis=1)
    error = float(gap.std(ddof=1) / np.sqrt(gap.size)) if gap.size > 1 else None
    return MeanOverPoints(float(gap.mean()), error)


def kernel_error(approximate: FloatArray, exact: FloatArray) -> tuple[float, float]:
    """Errors of a Gram matrix (p, p) beside the exact one (p, p).

    Returns
    -------
    tuple of float
        Root mean squared error over entries, and Frobenius norm of the error relative to that of
        the exact matrix.
    """
    difference = approximate - exact
    return (
        float(np.sqrt(np.mean(np.square(difference)))),
        float(np.linalg.norm(difference) / np.linalg.norm(exact)),
    )
