"""Laws of single observations that a distribution object states, as those of `scipy.stats`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coupledgp.random import FloatArray, IntArray

# Seed of the uniform numbers of randomised transforms, and quantiles that a ranked probability
# score is summed over.
JUMPS, N_QUANTILES = 23, 200


def is_distribution(value: Any) -> bool:
    """Whether a value has a distribution function, quantiles and moments."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("cdf", "ppf", "mean", "std")
    )


@dataclass(frozen=True, eq=False)
class DistributionLaws:
    """Laws of observations at p points by a frozen distribution; see `OwnLaws`.

    Attributes
    ----------
    distribution : Any
        With `cdf`, `ppf` and `logpdf` or `logpmf`, of values (p,) for parameters (p,) or numbers.
    rows : IntArray (p,)
        Numbers of the points among those of the distribution.
    n_rows : int
        Number of points of the distribution.
    """

    distribution: Any
    rows: IntArray
    n_rows: int

    @classmethod
    def of(cls, distribution: Any, n_points: int) -> DistributionLaws:
        """Laws at all points of a distribution."""
        return cls(distribution, np.arange(n_points), n_points)

    def take(self, rows: Any) -> DistributionLaws:
        """The laws at some of the points."""
        return replace(self, rows=self.rows[rows])

    @property
    def is_discrete(self) -> bool:
        """Whether observations are whole numbers, with chances in place of densities."""
        one = getattr(self.distribution, "dist", self.distribution)
        return hasattr(one, "pmf") and not hasattr(one, "pdf")

    def _of(self, values: Any) -> FloatArray:
        """Values (p,) of the points, from those of all or from one for all."""
        return np.broadcast_to(np.asarray(values, dtype=np.float64), (self.n_rows,))[self.rows]

    def _at(self, function: Callable[[FloatArray], Any], targets: FloatArray) -> FloatArray:
        """Values (p,) of a function of targets (p,), that takes those of all points."""
        given = np.full(self.n_rows, targets[0])
        given[self.rows] = targets
        return self._of(function(given))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations (p,)."""
        return self._of(self.distribution.mean()), self._of(self.distribution.std())

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log densities (p,), or log chances of discrete laws, of targets (p, 1)."""
        own = self.distribution
        density = own.logpmf if self.is_discrete else own.logpdf
        return self._at(density, targets[:, 0])

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Transforms `F(y)` (p, 1), uniform between `F(y - 1)` and `F(y)` for discrete laws."""
        y = targets[:, 0]
        found = self._at(self.distribution.cdf, y)
        if self.is_discrete:
            u = np.random.default_rng(JUMPS).uniform(size=len(y))
            found = found - u * np.exp(self._at(self.distribution.logpmf, y))
        return np.asarray(np.clip(found, 0.0, 1.0)[:, None])

    def _quantile(self, chance: float) -> FloatArray:
        return self._of(self.distribution.ppf(chance))

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, 1, l) of the central intervals of l nominal levels."""
        widths = [self._quantile(0.5 + c / 2) - self._quantile(0.5 - c / 2) for c in levels]
        return np.stack(widths, axis=-1)[:, None]

    def crps(self, targets: FloatArray) -> FloatArray:
        """Ranked probability scores (p, 1), by the mean pinball loss of 200 quantiles."""
        y, total = targets[:, 0], np.zeros(len(targets))
        for chance in (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES:
            gap = self._quantile(chance) - y
            total += 2 * ((gap >= 0) - chance) * gap
        return np.asarray((total / N_QUANTILES)[:, None])
