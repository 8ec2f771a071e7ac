"""Laws of single observations of which some quantiles are stated, and nothing else.

Quantiles q(t) at chances t say how likely y lies between two of them. So the transform of a target
is drawn from the uniform law between the chances of the quantiles around it, and is uniform for a
right law. The score is the pinball loss (Koenker and Bassett, 1978),

    2 mean_t (1[y <= q(t)] - t) (q(t) - y) ,

whose limit for all chances is the continuous ranked probability score.

Laws of single observations that a distribution object states, as those of `scipy.stats`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from coupledgp.diagnostics.scoring.calibration import Intervals
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Seed of the uniform numbers between chances.
BETWEEN = 19
# Largest difference of two chances that count as the two ends of a central interval.
SAME_LEVEL = 1e-9


@dataclass(frozen=True, eq=False)
class QuantileLaws:
    """Laws of observations at p points, k outputs, by quantiles at l chances; see `OwnLaws`.

    Attributes
    ----------
    chances : FloatArray (l,)
        Ascending, between zero and one.
    values : FloatArray (p, k, l)
        Quantiles, which do not descend.
    """

    chances: FloatArray
    values: FloatArray
    # No density and no moments are known.
    lacks: ClassVar[frozenset[str]] = frozenset({"nlpd", "rmse", "sharpness"})

    def of_normal(self, mean: FloatArray, std: FloatArray) -> QuantileLaws:
        """Quantiles of normal laws at the same chances, so that both are scored alike."""
        return QuantileLaws(self.chances, mean[..., None] + std[..., None] * ndtri(self.chances))

    def take(self, rows: IntArray) -> QuantileLaws:
        """The laws at some of the points."""
        return QuantileLaws(self.chances, self.values[rows])

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Places of the two chances of each central interval that is stated, the widest last."""
        last = len(self.chances) - 1
        ends = [int(np.abs(self.chances - (1 - t)).argmin()) for t in self.chances]
        return [
            (low, high)
            for low, high in zip(range(last, -1, -1), ends[::-1], strict=True)
            if low < high and abs(self.chances[low] + self.chances[high] - 1) < SAME_LEVEL
        ]

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels of the central intervals that are stated, ascending."""
        return tuple(round(float(self.chances[b] - self.chances[a]), 12) for a, b in self._pairs)

    @property
    def intervals(self) -> Intervals:
        """Central intervals that are stated; without any those below or above each quantile."""
        if self._pairs:
            low, high = (self.chances[[pair[end] for pair in self._pairs]] for end in (0, 1))
            return Intervals(self.levels, low, high)
        upper = self.chances >= 0.5
        low, high = np.where(upper, 0.0, self.chances), np.where(upper, self.chances, 1.0)
        return Intervals(tuple((high - low).tolist()), low, high)

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Refuse: quantiles alone have no density.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError("predict: expected a law with a density, quantiles have none")

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Randomised transforms (p, k) of targets (p, k): uniform between the chances around.

        Of a target that equals quantiles only bounds of `F(y-)` and `F(y)` are stated, as where
        observations have atoms. Between these bounds they are the shares of targets below, and not
        above, among points whose quantiles are equal at the same chances.
        """
        p, k, l = self.values.shape  # noqa: E741, the letter of the shapes
        values, y = self.values.reshape(-1, l), targets.reshape(-1)
        below, atmost = _atoms(values, y, self.chances)
        n_below = (values < y[:, None]).sum(axis=1)
        n_atmost = (values <= y[:, None]).sum(axis=1)
        rows = np.arange(len(y))
        tied = n_atmost > n_below
        first, last = np.minimum(n_below, l - 1), np.maximum(n_atmost - 1, 0)
        # A target between quantiles lies above the atom below it and below the atom above it.
        low = np.where(tied, below[rows, first], np.where(n_below > 0, atmost[rows, last], 0.0))
        high = np.where(tied, atmost[rows, last], np.where(n_below < l, below[rows, first], 1.0))
        u = np.random.default_rng(BETWEEN).uniform(size=len(y))
        return np.asarray(low + u * np.maximum(high - low, 0.0)).reshape(p, k)

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, k, l) of the central intervals that are stated, whose levels these are."""
        widths = [self.values[..., b] - self.values[..., a] for a, b in self._pairs]
        return np.stack(widths, axis=-1) if widths else np.empty((*self.values.shape[:2], 0))

    def crps(self, targets: FloatArray) -> FloatArray:
        """Twice the mean pinball loss (p, k) over the stated chances, in units of y."""
        found: FloatArray = 2 * self.pinball(targets).mean(axis=-1)
        return found

    def pinball(self, targets: FloatArray) -> FloatArray:
        """Pinball losses (p, k, l) of each quantile, in units of y."""
        gaps = self.values - targets[..., None]
        found: FloatArray = ((gaps >= 0) - self.chances) * gaps
        return found

    def below(self, targets: FloatArray) -> dict[float, tuple[float, float]]:
        """By chance, the share of targets that are at most the quantile, and its pinball loss."""
        shares = (targets[..., None] <= self.values).mean(axis=(0, 1))
        losses = self.pinball(targets).mean(axis=(0, 1))
        return {
            float(chance): (float(share), float(loss))
            for chance, share, loss in zip(self.chances, shares, losses, strict=True)
        }

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Middles and scales (p, k): the median, and what normal quantiles would have.

        The median is a straight line between the chances around one half, or the mean of the ends
        if all chances lie on one side of it. The scale is that of normal laws with the same
        distance between the outermost quantiles, one above zero at least.
        """
        middle = _at(0.5, self.chances, self.values)
        reach = float(ndtri(self.chances[-1]) - ndtri(self.chances[0]))
        scale = (self.values[..., -1] - self.values[..., 0]) / max(reach, 1e-300)
        if reach <= 0:
            scale = np.abs(self.values[..., 0])
        usual = float(np.median(scale[scale > 0])) if (scale > 0).any() else 1.0
        return middle, np.where(scale > 0, scale, 1e-3 * usual)


def _at(chance: float, chances: FloatArray, values: FloatArray) -> FloatArray:
    """Quantiles (p, k) at a chance, by lines between those (p, k, l) of chances (l,)."""
    place = int(np.clip(np.searchsorted(chances, chance), 1, max(len(chances) - 1, 1)))
    if len(chances) == 1:
        return values[..., 0]
    low, high = chances[place - 1], chances[place]
    share = np.clip((chance - low) / (high - low), 0.0, 1.0)
    found: FloatArray = (1 - share) * values[..., place - 1] + share * values[..., place]
    return found


def _atoms(values: FloatArray, y: FloatArray, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Chances (p, l) of observations below each quantile (p, l), and of at most it.

    Both are the stated chance where no target equals the quantile, as for laws with a density.
    """
    l = len(chances)  # noqa: E741, the letter of the shapes
    edges = np.concatenate([[0.0], chances, [1.0]])
    first, last = _runs(values)
    below, atmost = chances[first], chances[last]
    equal = values == y[:, None]
    for code in np.unique((first * l + last)[equal]):
        a, b = divmod(int(code), l)
        rows = np.flatnonzero((first[:, a] == a) & (last[:, a] == b))
        under = np.clip((y[rows] < values[rows, a]).mean(), edges[a], edges[a + 1])
        upto = np.clip((y[rows] <= values[rows, a]).mean(), edges[b + 1], edges[b + 2])
        below[np.ix_(rows, np.arange(a, b + 1))] = under
        atmost[np.ix_(rows, np.arange(a, b + 1))] = upto
    return below, atmost


def _runs(values: FloatArray) -> tuple[IntArray, IntArray]:
    """Places (p, l) of the first and the last quantile that equals each one (p, l)."""
    places = np.arange(values.shape[1])
    starts = np.ones(values.shape, dtype=bool)
    starts[:, 1:] = values[:, 1:] != values[:, :-1]
    first = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
    ends = np.ones(values.shape, dtype=bool)
    ends[:, :-1] = starts[:, 1:]
    last = np.minimum.accumulate(np.where(ends, places, places[-1])[:, ::-1], axis=1)[:, ::-1]
    return first, last


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
