"""Laws of single observations under a likelihood, with their scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Chance beyond each end of the grid that a ranked probability score is summed over, and points of
# the grid.
TAIL, GRID = 1e-3, 100


@dataclass(frozen=True, eq=False)
class ObservedLaws:
    """Laws of observations at p points, k outputs; see `OwnLaws`.

    Attributes
    ----------
    likelihood : Likelihood
    mean, variance : FloatArray (p, k)
        Moments of the functions, with the logarithms of exposures.
    seed : int
        Seed of the uniform numbers of randomised transforms.
    """

    likelihood: Likelihood
    mean: FloatArray
    variance: FloatArray
    seed: int = 0
    _found: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)

    @property
    def laws(self) -> PointLaws:
        """The laws with their moments."""
        mean, variance = self.likelihood.marginal_moments(self.mean, self.variance)
        return PointLaws(mean, np.sqrt(variance), self)

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log densities (p,), chances of discrete laws, outputs jointly."""
        found = self.likelihood.marginal_log_density(targets, self.mean, self.variance)
        return np.asarray(found.sum(axis=1))

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Transforms `F(y)` (p, k), randomised for discrete laws."""
        rng = np.random.default_rng(self.seed)
        found = self.likelihood.pit(targets, self.mean, self.variance, rng)
        return np.clip(found, 0.0, 1.0)

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, k, l) of the central intervals of l nominal levels."""
        tails = 0.5 - 0.5 * np.array(levels)
        below, above = np.split(self._quantiles(np.concatenate([tails, 1 - tails])), 2, axis=-1)
        return np.asarray(above - below)

    def crps(self, targets: FloatArray) -> FloatArray:
        """Ranked probability scores (p, k): `sum_z (F(z) - [y <= z])^2`, an integral over z.

        The sum is over whole numbers for discrete laws, over each m-th of them where there are more
        than `GRID`; the integral is by the middles of equal steps on each side of y. They are kept,
        since several scores ask for them.
        """
        key = targets.tobytes()
        if key not in self._found:
            self._found[key] = self._ranked(targets)
        return self._found[key]

    def _ranked(self, targets: FloatArray) -> FloatArray:
        """The scores of `crps`."""
        ends = self._quantiles(np.array([TAIL, 1 - TAIL]))
        low, high = np.minimum(ends[..., 0], targets), np.maximum(ends[..., 1], targets)
        if self.likelihood.is_discrete:
            width = max(1.0, float(np.ceil((high - low).max() / (GRID - 1))))
            count = int(np.ceil((high - low).max() / width)) + 1
            grid = low[..., None] + width * np.arange(count)
            middle = grid + np.floor(0.5 * (width - 1))
            cumulated = self.likelihood.marginal_cdf(middle, self.mean, self.variance)
            found = np.square(cumulated - (targets[..., None] <= middle)).sum(axis=-1) * width
            return np.asarray(found)
        below = self._squares(low, targets, lambda cumulated: cumulated)
        return below + self._squares(targets, high, lambda cumulated: 1 - cumulated)

    def _squares(
        self, low: FloatArray, high: FloatArray, part: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Integrals (p, k) of squares of F or of `1 - F` between ends (p, k)."""
        width = (high - low)[..., None] / GRID
        grid = low[..., None] + width * (np.arange(GRID) + 0.5)
        cumulated = self.likelihood.marginal_cdf(grid, self.mean, self.variance)
        return np.asarray((np.square(part(cumulated)) * width).sum(axis=-1))

    def _quantiles(self, chances: FloatArray) -> FloatArray:
        return self.likelihood.marginal_quantiles(chances, self.mean, self.variance)
