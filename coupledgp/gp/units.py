"""Units of targets: processes compute in normalised units and answer in those of y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray
from coupledgp.validation import ROUNDING, check_spread


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
        """Units in which targets (n, k) have mean zero and variance one, or those of y itself.

        Each row enters mean and variance as often as it counts, (n,), whatever its noise.

        Raises
        ------
        InvalidInputError
            An output varies by less than squares can hold, but more than rounding.
        """
        check_spread(targets, "y", "output")
        if not normalize:
            return cls(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
        if counts is None:
            mean = targets.mean(axis=0)
            return cls(mean, safe_scale(targets.std(axis=0), mean))
        mean = np.average(targets, axis=0, weights=counts)
        variance = np.average(np.square(targets - mean), axis=0, weights=counts)
        return cls(mean, safe_scale(np.sqrt(variance), mean))

    @classmethod
    def of_moments(cls, mean: FloatArray, variance: FloatArray, normalize: bool) -> Units:
        """The units of targets whose means and variances (k,) are known; see `of`."""
        if not normalize:
            return cls(np.zeros(mean.size), np.ones(mean.size))
        return cls(mean, safe_scale(np.sqrt(variance), mean))

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
        """Log evidence of normalised targets minus that of the n_rows targets in units of y."""
        return n_rows * float(np.log(self.scale).sum())


def safe_scale(std: FloatArray, mean: FloatArray) -> FloatArray:
    """Standard deviations (k,), where one replaces a value that is zero to rounding."""
    return np.where(std > ROUNDING * np.abs(mean), std, 1.0)


def are_constant(targets: FloatArray, offset: FloatArray) -> bool:
    """Whether every output of targets (n, k) is its mean, offset (k,), to rounding.

    Such targets say nothing about a kernel or about scales: their evidence has no maximum.
    """
    return bool((np.abs(targets - offset) <= ROUNDING * np.abs(offset)).all())
