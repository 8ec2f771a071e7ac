"""Units of targets: processes compute in normalised units and answer in units of y.

Tails of laws of single observations: normal ones, and heavier ones of Student's law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from coupledgp.core.column_moments import ColumnMoments
from coupledgp.errors import ModelFileError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.validation import (
    LARGEST_PRODUCT,
    SMALLEST,
    SMALLEST_PRODUCT,
    check_spread,
    varies,
)
from coupledgp.likelihoods.gaussian import gaussian_log_density
from coupledgp.random import FloatArray

# Scale of constant targets over their magnitude, such that a tenth of its square is no rounding.
CONSTANT_SCALE = float(np.sqrt(np.finfo(float).eps))
# Fewest equal targets that are taken for a constant: after n of them the next one differs with a
# chance of about 1 / n (Laplace's rule of succession).
LEAST_CONSTANT = 10


@stored
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

    def read_back(self) -> Units:
        """The units of a file, of at least one output."""
        check_shapes(self, offset=("k",), scale=("k",))
        check_range(self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "scale")
        if not self.scale.size:
            raise ModelFileError("scale: expected at least one output, got none")
        return self

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


# Standard deviations of a normal variable between whose chances an integral over a law runs.
REACH = 5.2
# Growth of the steps of an integral from a target to the ends of a law with heavy tails.
GROWTH = 7.0


@stored
@dataclass(frozen=True)
class Tail:
    """Law of a residual over its scale: Student's t, which is normal for infinite degrees.

    Its density is proportional to `(1 + z^2 / nu)^(-(nu + 1) / 2)`. The scale is the standard
    deviation of the normal law whose variance a gamma law varies, not that of the residual.

    Attributes
    ----------
    degrees : float
        Degrees of freedom nu, above two, so that the residual has a variance.
    """

    degrees: float = field(default=math.inf, metadata={"finite": False})

    def read_back(self) -> Tail:
        """The law of a file, of more than two degrees of freedom."""
        if not self.degrees > 2:
            raise ModelFileError(f"degrees: expected more than two, got {self.degrees}")
        return self

    @property
    def is_normal(self) -> bool:
        """Whether the law is normal."""
        return math.isinf(self.degrees)

    @property
    def variance(self) -> float:
        """Variance of the residual over its squared scale, `nu / (nu - 2)`."""
        return 1.0 if self.is_normal else self.degrees / (self.degrees - 2.0)

    def cdf(self, z: FloatArray) -> FloatArray:
        """Chances (...) of at most z (...)."""
        found = special.ndtr(z) if self.is_normal else special.stdtr(self.degrees, z)
        return np.asarray(found)

    def quantiles(self, chances: FloatArray) -> FloatArray:
        """Values (...) of which chances (...) are at most these."""
        normal = self.is_normal
        return np.asarray(
            special.ndtri(chances) if normal else special.stdtrit(self.degrees, chances)
        )

    def log_density(self, y: FloatArray, mean: FloatArray, square: FloatArray) -> FloatArray:
        """Log densities (b,) of targets (b, k), outputs independent, of squared scales (b, k)."""
        if self.is_normal:
            return gaussian_log_density(y, mean, square)
        nu = self.degrees
        constant = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2)
        found = np.log1p(np.square(y - mean) / (nu * square))
        found = constant - 0.5 * (np.log(nu * np.pi * square) + (nu + 1) * found)
        return np.asarray(found.sum(axis=1))

    @property
    def ends(self) -> tuple[float, float]:
        """Values beyond which the chances are 1e-7 on each side."""
        if self.is_normal:
            return -REACH, REACH
        high = -float(special.stdtrit(self.degrees, special.ndtr(-REACH)))
        return -high, high

    def steps(self, n: int) -> FloatArray:
        """Places (n,) from zero to one of an integral away from a target, denser near it.

        They are equally spaced for a normal law.
        """
        even = np.linspace(0.0, 1.0, n)
        return even if self.is_normal else np.sinh(GROWTH * even) / math.sinh(GROWTH)


NORMAL = Tail()
