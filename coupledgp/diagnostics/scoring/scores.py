"""Scores of Gaussian predictive laws against observed targets, in units of y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import (
    LARGEST_PRODUCT,
    SMALLEST_PRODUCT,
    check_magnitude,
    check_positive_int,
    check_sizes,
    real_array,
)
from coupledgp.random import FloatArray, IntArray

# Nominal levels of the central intervals in a report: half of the targets, most, and all but few.
LEVELS = (0.5, 0.8, 0.95)
# Bins of the histogram of probability integral transforms: with a hundred points, ten in each.
PIT_BINS = 10
# Nats per point beyond which a gain says no more than that something is wrong.
MOST_NATS = 5.0


def nats_text(gain: float, error: float | None = None, form: str = ".3g") -> str:
    """A gain with its standard error, nats; of one beyond five nats no more than that."""
    if abs(gain) > MOST_NATS:
        return f"more than {MOST_NATS:g}" if gain > 0 else f"less than -{MOST_NATS:g}"
    return f"{gain:{form}}" + ("" if error is None else f" ± {error:.1g}")


class MeanOverPoints(NamedTuple):
    """A mean over points, and its standard error; None for a single point."""

    mean: float
    standard_error: float | None


def check_law(y: FloatArray | None, mean: FloatArray | None, std: FloatArray | None = None) -> None:
    """Refuse targets, means and standard deviations that are no numbers or beyond the limits.

    Scores of what is within the limits of `coupledgp.ground.validation` are finite.

    Raises
    ------
    InvalidInputError
        A number is NaN or too large in magnitude, or a standard deviation is not positive or too
        small.
    """
    for name, values in (("y", y), ("mean", mean), ("std", std)):
        if values is None:
            continue
        values = real_array(values, name)
        if not np.isfinite(values).all():
            raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
        if name == "std":
            check_sizes(np.asarray(values), name, SMALLEST_PRODUCT, LARGEST_PRODUCT)
        else:
            check_magnitude(np.asarray(values), name)
    if y is not None and mean is not None and std is not None:
        distance = (np.asarray(y) - mean) / std
        check_magnitude(distance, "y: distance from mean over std", LARGEST_PRODUCT)


def rmse(y: FloatArray, mean: FloatArray) -> float:
    """Root mean squared error of means, in units of y; both (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import rmse
    >>> rmse(np.array([3.0, -4.0, 0.0, 0.0]), np.zeros(4))
    2.5
    """
    check_law(y, mean)
    return float(np.sqrt(np.mean(np.square(y - mean))))


def mae(y: FloatArray, mean: FloatArray) -> float:
    """Mean absolute error of means, in units of y; both (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import mae
    >>> mae(np.array([0.0, 1.0]), np.zeros(2))
    0.5
    """
    check_law(y, mean)
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

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import nlpd
    >>> round(nlpd(np.zeros(3), np.zeros(3), np.ones(3)), 4)  # log(2 pi) / 2
    0.9189
    """
    check_law(y, mean, std)
    return float(np.mean(point_nlpd(y, mean, std)))


def nlpd_joint(y: FloatArray, mean: FloatArray, cov: FloatArray) -> float:
    """Negative log density of all points together, nats per point.

    Targets and means (p,), covariance (p, p).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import nlpd, nlpd_joint
    >>> y, mean, std = np.array([0.0, 1.0]), np.zeros(2), np.array([1.0, 2.0])
    >>> alone, joint = nlpd(y, mean, std), nlpd_joint(y, mean, np.diag(std**2))
    >>> round(joint - alone, 9) == 0  # of independent points they are the same
    True
    """
    check_law(y, mean)
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

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import crps
    >>> y, mean, std = np.array([0.0, 1.0]), np.zeros(2), np.ones(2)
    >>> round(crps(y, mean, std), 3)
    0.418
    """
    check_law(y, mean, std)
    return float(np.mean(point_crps(y, mean, std)))


def coverage(
    y: FloatArray, mean: FloatArray, std: FloatArray, levels: Sequence[float] = LEVELS
) -> dict[float, float]:
    """Share of targets inside the central interval of each nominal level.

    Targets, means and standard deviations are all (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import coverage
    >>> y, mean, std = np.array([0.0, 1.0]), np.zeros(2), np.ones(2)
    >>> coverage(y, mean, std, levels=(0.5, 0.95))  # one of them is inside the narrow intervals
    {0.5: 0.5, 0.95: 1.0}
    """
    check_law(y, mean, std)
    inside = coverage_points(y, mean, std, levels)
    shares = inside.reshape(-1, len(levels)).mean(axis=0)
    return {level: float(share) for level, share in zip(levels, shares, strict=True)}


def coverage_points(
    y: FloatArray, mean: FloatArray, std: FloatArray, levels: Sequence[float] = LEVELS
) -> FloatArray:
    """One for targets inside the central interval of each of l levels, else zero, (p, k, l)."""
    halves = np.array([half_width(level) for level in levels])
    inside: FloatArray = ((np.abs(y - mean) / std)[..., None] <= halves).astype(np.float64)
    return inside


def interval_width(std: FloatArray, levels: Sequence[float] = LEVELS) -> dict[float, float]:
    """Mean width of the central interval of each nominal level, in units of y.

    Standard deviations (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import interval_width
    >>> round(interval_width(np.ones(3))[0.95], 2)
    3.92
    """
    check_law(None, None, std)
    mean = float(np.mean(std))
    return {level: 2 * half_width(level) * mean for level in levels}


def interval_width_points(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Widths (p, k, l) of the central intervals of a report's levels, in units of y."""
    return np.asarray(std)[..., None] * np.array([2 * half_width(level) for level in LEVELS])


def half_width(level: float) -> float:
    """Half the width of the central interval of a nominal level, in standard deviations."""
    if not 0 < level < 1:
        raise InvalidInputError(f"levels: expected numbers between 0 and 1, got {level}")
    return float(ndtri(0.5 + level / 2))


def sharpness(std: FloatArray) -> float:
    """Root mean predictive variance, in units of y: the expected RMSE if the law is true.

    Standard deviations (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import sharpness
    >>> sharpness(np.array([1.0, 7.0]))  # the root of (1 + 49) / 2
    5.0
    """
    check_law(None, None, std)
    return float(np.sqrt(np.mean(np.square(std))))


def pit_histogram(
    y: FloatArray, mean: FloatArray, std: FloatArray, n_bins: int = PIT_BINS
) -> tuple[float, ...]:
    """Shares of the probability integral transforms `F(y)` in equal bins of [0, 1].

    Targets, means and standard deviations are all (p,) or (p, k). The histogram is uniform for a
    calibrated law; a hump in the middle shows intervals that are too wide, one at each end
    intervals that are too narrow, a slope a bias.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import pit_histogram
    >>> y = np.random.default_rng(0).normal(size=10_000)
    >>> zero, one = np.zeros_like(y), np.ones_like(y)
    >>> [round(share, 1) for share in pit_histogram(y, zero, one, n_bins=5)]  # calibrated
    [0.2, 0.2, 0.2, 0.2, 0.2]
    >>> narrow = pit_histogram(y, zero, one / 2, n_bins=5)
    >>> narrow[0] > 0.3, narrow[2] < 0.1  # a hump at each end
    (True, True)
    """
    check_positive_int(n_bins, "n_bins")
    check_law(y, mean, std)
    bins = bins_of(ndtr((y - mean) / std), n_bins)
    counts = np.bincount(bins.reshape(-1), minlength=n_bins)
    return tuple(float(count) / bins.size for count in counts)


def pit_points(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """One for the bin of a report's histogram that each transform lies in, else zero (p, k, b)."""
    return inside_bins(ndtr((y - mean) / std))


def inside_bins(transforms: FloatArray) -> FloatArray:
    """One for the bin of a report's histogram that each transform (p, k) lies in, else zero."""
    inside: FloatArray = (bins_of(transforms)[..., None] == np.arange(PIT_BINS)).astype(np.float64)
    return inside


def inside_levels(transforms: FloatArray, levels: Sequence[float] = LEVELS) -> FloatArray:
    """One for transforms (p, k) inside the central interval of each of l levels, (p, k, l)."""
    distance = np.abs(2 * transforms - 1)[..., None]
    inside: FloatArray = (distance <= np.array(levels)).astype(np.float64)
    return inside


def bins_of(transforms: FloatArray, n_bins: int = PIT_BINS) -> IntArray:
    """Number of the equal bin of [0, 1] that each transform lies in; one lies in the last."""
    bins: IntArray = np.minimum((transforms * n_bins).astype(np.int64), n_bins - 1)
    return bins


def paired_difference(
    score: FloatArray, reference: FloatArray, groups: ArrayLike | None = None
) -> MeanOverPoints:
    """Mean of `score - reference` over points, with its standard error.

    Both are scores of single points, (p,) or (p, k); the mean over outputs is taken first. Points
    are independent, or by `error_over_groups` those of different groups (p,) are.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import paired_difference
    >>> gap = paired_difference(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 1.0]))
    >>> gap.mean, round(gap.standard_error, 3)
    (1.0, 0.577)
    """
    gap = (score - reference).reshape(len(score), -1).mean(axis=1)
    if groups is not None:
        return MeanOverPoints(float(gap.mean()), error_over_groups(gap, groups))
    error = float(gap.std(ddof=1) / np.sqrt(gap.size)) if gap.size > 1 else None
    return MeanOverPoints(float(gap.mean()), error)


def group_means(losses: FloatArray, number: IntArray, n_groups: int) -> FloatArray:
    """Mean (g,) of losses (m,) or (m, k) over each group, by its number (m,); NaN of none."""
    each = losses.reshape(len(losses), -1).mean(axis=1)
    counts = np.bincount(number, minlength=n_groups)
    return np.bincount(number, each, n_groups) / np.where(counts > 0, counts, np.nan)


def error_over_groups(losses: FloatArray, groups: ArrayLike) -> float | None:
    """Standard error of the mean of losses (m,) or (m, k) that go together in groups (m,).

    It is that of the sums of the G groups,

        se^2 = G / (G - 1) sum_g (sum_{i in g} (l_i - mean))^2 / m^2 ,

    which for groups of one is that of independent observations (Liang and Zeger, 1986, Biometrika
    73). None for a single group.
    """
    each = losses.reshape(len(losses), -1).mean(axis=1)
    _, numbers = np.unique(groups, return_inverse=True)
    sums = np.bincount(numbers.reshape(-1), each - each.mean())
    if sums.size < 2:
        return None
    return float(np.sqrt(np.square(sums).sum() * sums.size / (sums.size - 1)) / each.size)


def kernel_error(approximate: FloatArray, exact: FloatArray) -> tuple[float, float]:
    """Errors of a Gram matrix (p, p) beside the exact one (p, p).

    Returns
    -------
    tuple of float
        Root mean squared error over entries, and Frobenius norm of the error relative to that of
        the exact matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import kernel_error
    >>> exact = np.eye(2)
    >>> rmse, relative = kernel_error(1.1 * exact, exact)
    >>> round(rmse, 4), round(relative, 4)
    (0.0707, 0.1)
    """
    check_magnitude(np.asarray(approximate), "approximate", LARGEST_PRODUCT)
    check_magnitude(np.asarray(exact), "exact", LARGEST_PRODUCT)
    scale = float(np.abs(exact).max())
    if not scale > 0:
        raise InvalidInputError("exact: expected a matrix that is not zero")
    # Variances are squares already: their own squares might leave the range of numbers.
    exact, difference = exact / scale, (approximate - exact) / scale
    return (
        scale * float(np.sqrt(np.mean(np.square(difference)))),
        float(np.linalg.norm(difference) / np.linalg.norm(exact)),
    )
