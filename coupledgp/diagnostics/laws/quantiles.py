"""Predictive distributions of which some quantiles are stated, and nothing else.

Quantiles q(t) at chances t say how likely y lies between two of them. So the transform of a target
is drawn from the uniform law between the chances of the quantiles around it, and is uniform for a
right law. The score is the pinball loss (Koenker and Bassett, 1978),

    2 mean_t (1[y <= q(t)] - t) (q(t) - y) ,

whose limit for all chances is the continuous ranked probability score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from coupledgp.diagnostics.calibration.coverage import Intervals
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Seed of the uniform numbers between chances.
BETWEEN = 19
# Largest difference of two chances that count as the two ends of a central interval.
SAME_LEVEL = 1e-9


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Laws of observations at p points, k outputs, by quantiles at l chances.

    Attributes
    ----------
    chances : FloatArray (l,)
        Ascending, between zero and one.
    values : FloatArray (p, k, l)
        Quantiles, which do not descend.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import Quantiles
    >>> Quantiles(np.array([0.1, 0.9]), np.array([[[0.0, 2.0]]])).levels
    (0.8,)
    """

    chances: FloatArray
    values: FloatArray

    has_density: ClassVar[bool] = False
    has_moments: ClassVar[bool] = False

    def of_normal(self, mean: FloatArray, std: FloatArray) -> Quantiles:
        """Quantiles of normal laws at the same chances, so that both are scored alike."""
        return Quantiles(self.chances, mean[..., None] + std[..., None] * ndtri(self.chances))

    def take(self, rows: IntArray) -> Quantiles:
        """The laws at some of the points."""
        return Quantiles(self.chances, self.values[rows])

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

    @property
    def mean(self) -> FloatArray:
        """Middles (p, k): a straight line between the chances around one half.

        It is the quantile at the nearest end where all chances lie on one side of one half.
        """
        return _at(0.5, self.chances, self.values)

    @property
    def std(self) -> FloatArray:
        """Scales (p, k) of normal distributions with the same distance of the outer quantiles."""
        reach = float(ndtri(self.chances[-1]) - ndtri(self.chances[0]))
        scale = (self.values[..., -1] - self.values[..., 0]) / max(reach, 1e-300)
        if reach <= 0:
            scale = np.abs(self.values[..., 0])
        usual = float(np.median(scale[scale > 0])) if (scale > 0).any() else 1.0
        return np.where(scale > 0, scale, 1e-3 * usual)

    def log_density(self, y: FloatArray) -> FloatArray:
        raise InvalidInputError("model: expected a density, quantiles alone have none")

    def cdf(self, y: FloatArray) -> FloatArray:
        """Randomised transforms (p, k) of y (p, k): uniform between the chances around.

        Of a target that equals quantiles only bounds of `F(y-)` and `F(y)` are stated, as where
        observations have atoms. Between these bounds they are the shares of y below, and not
        above, among points whose quantiles are equal at the same chances.
        """
        p, k, l = self.values.shape  # noqa: E741, the letter of the shapes
        values, y = self.values.reshape(-1, l), y.reshape(-1)
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

    def ppf(self, chances: FloatArray) -> FloatArray:
        """Quantiles (p, k, l), by lines between those that are stated."""
        return np.stack([_at(float(c), self.chances, self.values) for c in chances], axis=-1)

    def widths(self) -> FloatArray:
        """Widths (p, k, l) of the central intervals that are stated."""
        found = [self.values[..., b] - self.values[..., a] for a, b in self._pairs]
        return np.stack(found, axis=-1) if found else np.empty((*self.values.shape[:2], 0))

    def crps(self, y: FloatArray) -> FloatArray:
        """Twice the mean pinball loss (p, k) over the stated chances, in units of y."""
        found: FloatArray = 2 * self.pinball(y).mean(axis=-1)
        return found

    def pinball(self, y: FloatArray) -> FloatArray:
        """Pinball losses (p, k, l) of each quantile, in units of y."""
        gaps = self.values - y[..., None]
        found: FloatArray = ((gaps >= 0) - self.chances) * gaps
        return found

    def below(self, y: FloatArray) -> dict[float, tuple[float, float]]:
        """By chance, the share of y that are at most the quantile, and its pinball loss."""
        shares = (y[..., None] <= self.values).mean(axis=(0, 1))
        losses = self.pinball(y).mean(axis=(0, 1))
        return {
            float(chance): (float(share), float(loss))
            for chance, share, loss in zip(self.chances, shares, losses, strict=True)
        }


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
