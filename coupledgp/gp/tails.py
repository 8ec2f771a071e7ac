"""Tails of laws of single observations: normal ones, and heavier ones of Student's law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from coupledgp.likelihoods.gaussian import gaussian_log_density
from coupledgp.random import FloatArray

# Standard deviations of a normal variable between whose chances an integral over a law runs.
REACH = 5.2
# Growth of the steps of an integral from a target to the ends of a law with heavy tails.
GROWTH = 7.0


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

    degrees: float = math.inf

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
