"""Laws of single observations, whatever gives them, with the losses of every score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from coupledgp.diagnostics.scoring.score_table import OwnLaws, PointScore
from coupledgp.diagnostics.scoring.scores import half_width, point_nlpd
from coupledgp.gp.back_transformed import mapped_back
from coupledgp.gp.transforms import TargetTransform
from coupledgp.random import FloatArray

# Quantiles of a transformed law that its ranked probability score is summed over.
N_QUANTILES = 64


@dataclass(frozen=True, eq=False)
class PointLaws:
    """Laws of single observations at p points, k outputs.

    Attributes
    ----------
    mean, std : FloatArray (p, k)
        Means and standard deviations of observations, noise included, in units of y.
    own : OwnLaws or None
        The laws themselves where they are not normal.
    """

    mean: FloatArray
    std: FloatArray
    own: OwnLaws | None = None

    def losses(self, score: PointScore, y: FloatArray) -> FloatArray:
        """Losses of targets (p, k) by a score, (p, k), or (p,) of laws that are not normal."""
        return score.losses(y, self.mean, self.std, self.own)

    def beside(self, other: PointLaws) -> PointLaws:
        """These laws in the form of others: normal ones by quantiles where these are all known."""
        reduced = getattr(other.own, "of_normal", None)
        if self.own is not None or reduced is None:
            return self
        return PointLaws(self.mean, self.std, reduced(self.mean, self.std))


@dataclass(frozen=True, eq=False)
class TransformedLaws:
    """Laws of single observations y for which `g(y)` is normal; see `OwnLaws`.

    Attributes
    ----------
    transform : TargetTransform
        The map g.
    mean, std : FloatArray (p, k)
        Means and standard deviations of `g(y)`.
    """

    transform: TargetTransform
    mean: FloatArray
    std: FloatArray

    def log_density(self, targets: FloatArray) -> FloatArray:
        """`log N(g(y); mean, std^2) + log g'(y)`, summed over outputs (p,)."""
        density = -point_nlpd(self.transform.forward(targets), self.mean, self.std)
        found: FloatArray = (density + self.transform.log_slope(targets)).sum(axis=1)
        return found

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Distribution functions `F(y)` (p, k)."""
        z = (self.transform.forward(targets) - self.mean) / self.std
        return np.asarray(ndtr(z))

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, k, l) of the central intervals of l nominal levels."""
        reach = np.array([half_width(level) for level in levels]) * self.std[..., None]
        middle = self.mean[..., None]
        ends = (mapped_back(self.transform, middle + sign * reach) for sign in (1, -1))
        return np.asarray(next(ends) - next(ends))

    def crps(self, targets: FloatArray) -> FloatArray:
        """`2 int (1(y <= q) - tau) (q - y) dtau` by a midpoint rule over quantiles q(tau)."""
        total = np.zeros(targets.shape)
        for level in (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES:
            quantile = mapped_back(self.transform, self.mean + self.std * ndtri(level))
            total += 2 * ((targets <= quantile) - level) * (quantile - targets)
        return total / N_QUANTILES
