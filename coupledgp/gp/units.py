"""Units of targets: processes compute in normalised units and answer in units of y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.gp.column_moments import ColumnMoments
from coupledgp.ground.validation import SMALLEST, check_spread, varies
from coupledgp.random import FloatArray

# Scale of constant targets over their magnitude, such that a tenth of its square is no rounding.
CONSTANT_SCALE = float(np.sqrt(np.finfo(float).eps))
# Fewest equal targets that are taken for a constant: after n of them the next one differs with a
# chance of about 1 / n (Laplace's rule of succession).
LEAST_CONSTANT = 10


@dataclass(frozen=True, eq=False)
class Units:
    """Offset and scale of each output: `y = offset + scale * normalised`.

    Attributes
    ----------
    offset, scale : FloatArray (k,)
        Mean and standard deviation of each of the k outputs, or zeros and ones.
    """

    offset: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, targets: FloatArray, normalize: bool, counts: FloatArray | None = None) -> Units:
        """Units in which targets (n, k) have mean zero and variance one, or the units of y itself.

        Each row enters mean and variance as often as it counts, (n,), whatever its noise.

        Raises
        ------
        InvalidInputError
            An output varies by less than squares can hold, but more than rounding.
        """
        check_spread(targets, "y", "output")
        if not normalize:
            return cls(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
        low, high = targets.min(axis=0), targets.max(axis=0)
        if counts is None:
            mean, std = targets.mean(axis=0), targets.std(axis=0)
        else:
            mean = np.average(targets, axis=0, weights=counts)
            std = np.sqrt(np.average(np.square(targets - mean), axis=0, weights=counts))
        return cls(np.clip(mean, low, high), safe_scale(std, low, high, len(targets)))

    @classmethod
    def of_moments(cls, moments: ColumnMoments, normalize: bool) -> Units:
        """The units of targets whose moments are known; see `of`."""
        mean, low, high = moments.mean, moments.low, moments.high
        if not normalize:
            return cls(np.zeros(mean.size), np.ones(mean.size))
        return cls(
            np.clip(mean, low, high),
            safe_scale(np.sqrt(moments.variance), low, high, moments.n_rows),
        )

    @property
    def n_outputs(self) -> int:
        """Number of outputs k."""
        return self.scale.size

    def normalized(self, targets: FloatArray) -> FloatArray:
        """Targets (n, k) in normalised units."""
        return (targets - self.offset) / self.scale

    def mean(self, normalized: FloatArray) -> FloatArray:
        """Means (p, k) in units of y."""
        return self.offset + self.scale * normalized

    def spread(self, normalized: FloatArray | float) -> FloatArray:
        """Variances or covariances that the outputs share, in units of y squared: (..., k)."""
        return np.multiply.outer(np.asarray(normalized), self.scale**2)

    def samples(self, normalized: FloatArray) -> FloatArray:
        """Draws (p, k, n_samples) in units of y."""
        return self.offset[:, None] + self.scale[:, None] * normalized

    def log_jacobian(self, n_rows: float) -> float:
        """Log evidence of n_rows targets in normalised units minus that in units of y."""
        return n_rows * float(np.log(self.scale).sum())


def safe_scale(std: FloatArray, low: FloatArray, high: FloatArray, n_rows: float) -> FloatArray:
    """Standard deviations (k,) of n_rows targets from `low` to `high`, or scales of constants.

    A constant has no spread but for its digits, so that its scale is `CONSTANT_SCALE` of its
    magnitude, in every unit the same. Zeros have no magnitude either; there it is that of one. Few
    equal targets do not tell that all are equal: their scale is one.
    """
    if n_rows < LEAST_CONSTANT:
        return np.where(varies(low, high), std, 1.0)
    largest = np.maximum(np.abs(low), np.abs(high))
    rounded = np.maximum(CONSTANT_SCALE * np.where(largest > 0, largest, 1.0), SMALLEST)
    return np.where(varies(low, high), std, rounded)


def are_constant(targets: FloatArray, offset: FloatArray | None = None) -> bool:
    """Whether every output of targets (n, k) is constant to rounding, and equal to `offset` (k,).

    Such targets say nothing about a kernel or about scales: their evidence has no maximum.
    """
    low, high = targets.min(axis=0), targets.max(axis=0)
    if offset is not None:
        low, high = np.minimum(low, offset), np.maximum(high, offset)
    return not varies(low, high).any()
