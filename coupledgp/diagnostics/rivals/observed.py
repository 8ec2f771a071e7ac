"""Observations at sites, their means, and the errors of predictions of them.

Observation i has a weight `w_i`, its count over its relative noise variance. Means are weighted by
w, and squared errors are averaged by counts c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from coupledgp.core.problem import RowWeights
from coupledgp.random import FloatArray, IntArray


class Predicted(NamedTuple):
    """Means (p, k) of a rival, and standard deviations of observations; None: unknown."""

    mean: FloatArray
    std: FloatArray | None = None


class Fitted(NamedTuple):
    """A fitted rival: predictions at points, and of observations from those of other groups."""

    predict: Callable[[Any], Predicted]
    left_out: Callable[[IntArray], Predicted]


class Kind(NamedTuple):
    """What may be picked at points of a kind: fits by name, each a rival or why there is none."""

    observations: Observations
    makers: dict[str, Callable[[], Fitted | str]]


@dataclass(frozen=True, eq=False)
class Observations:
    """Observations, each at a site of some number.

    Attributes
    ----------
    y : FloatArray (n, k)
        In units of y.
    site : IntArray (n,)
        Number of the site, from 0 on; every number occurs.
    weights, counts : FloatArray (n,)
        Counts over relative noise variances, and counts.
    """

    y: FloatArray
    site: IntArray
    weights: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, y: FloatArray, site: IntArray, weights: RowWeights | None = None) -> Observations:
        """Observations (n, k) at sites (n,) with relative noise and counts, or all alike."""
        weights = RowWeights.ones(len(y)) if weights is None else weights
        return cls(y, site, 1 / weights.relative_noise, weights.counts)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: IntArray) -> Observations:
        """Some observations (m,), each at a site of its own."""
        sites = np.arange(len(rows))
        return Observations(self.y[rows], sites, self.weights[rows], self.counts[rows])

    @cached_property
    def mean(self) -> FloatArray:
        """Weighted mean (k,) of all observations."""
        found: FloatArray = self.weights @ self.y / self.weights.sum()
        return found

    @cached_property
    def site_means(self) -> FloatArray:
        """Weighted means (g, k) of the observations at each site."""
        return self.units(np.zeros(len(self), dtype=np.int64)).means

    def units(self, groups: IntArray) -> ObservedUnits:
        """The observations of the same site and group (n,) put together."""
        return ObservedUnits.of(self, groups)

    def others_mean(self, groups: IntArray) -> FloatArray:
        """Weighted mean (g, k) of all observations but those of each group, from groups (n,)."""
        own = np.bincount(groups, self.weights)
        shifted = self.weights[:, None] * (self.y - self.mean)
        others = _sums(groups, shifted)
        found: FloatArray = self.mean - others / (self.weights.sum() - own)[:, None]
        return found

    def predicted_by_mean(self, n_points: int) -> Predicted:
        """The mean at any points, with the standard deviation of an observation about it."""
        total = self.counts.sum()
        mean = np.tile(self.mean, (n_points, 1))
        if len(self) < 2 or total <= 1:
            return Predicted(mean)
        variance = self.counts @ np.square(self.y - self.mean) / (total - 1)
        leverage = (self.weights**2 / self.counts).sum() / self.weights.sum() ** 2
        std = positive(np.sqrt(variance * (1 + leverage)), self.y)
        return Predicted(mean, np.tile(std, (n_points, 1)))

    def left_out_by_mean(self, groups: IntArray) -> Predicted:
        """The mean of the observations of other groups (n,), and its standard deviation."""
        mean = self.others_mean(groups)
        counts = self.counts.sum() - np.bincount(groups, self.counts)
        weights = self.weights.sum() - np.bincount(groups, self.weights)
        rows = len(self) - np.bincount(groups)
        if rows.min() < 2 or counts.min() <= 1:
            return Predicted(mean[groups])
        shift, away = mean - self.mean, self.y - self.mean
        first, second = (
            values.sum(axis=0) - _sums(groups, values)
            for values in (self.counts[:, None] * away, self.counts[:, None] * away**2)
        )
        squares = second - 2 * shift * first + shift**2 * counts[:, None]
        variance = np.maximum(squares, 0) / (counts - 1)[:, None]
        spread = self.weights**2 / self.counts
        leverage = (spread.sum() - np.bincount(groups, spread)) / weights**2
        std = positive(np.sqrt(variance * (1 + leverage)[:, None]), self.y)
        return Predicted(mean[groups], std[groups])

    def error(self, rows: IntArray, predicted: FloatArray) -> FloatArray:
        """Root mean squared error (k,) of predictions (m, k) of some observations (m,)."""
        counts = self.counts[rows]
        squares = counts @ np.square(self.y[rows] - predicted) / counts.sum()
        return positive(np.sqrt(squares), self.y)

    def errors_of_others(self, predicted: FloatArray, groups: IntArray) -> FloatArray:
        """Root mean squared error (n, k) of predictions (n, k) over all other groups (n,)."""
        squares = self.counts[:, None] * np.square(self.y - predicted)
        others = squares.sum(axis=0) - _sums(groups, squares)
        counts = self.counts.sum() - np.bincount(groups, self.counts)
        return positive(np.sqrt(np.maximum(others, 0) / counts[:, None]), self.y)[groups]


@dataclass(frozen=True, eq=False)
class ObservedUnits:
    """Observations of the same site and group put together.

    Attributes
    ----------
    number : IntArray (n,)
        Number of the unit of each observation.
    site, group : IntArray (u,)
        Site and group of each unit.
    weights : FloatArray (u,)
    means : FloatArray (u, k)
        Sum of the weights of its observations, and their weighted mean.
    """

    number: IntArray
    site: IntArray
    group: IntArray
    weights: FloatArray
    means: FloatArray

    @classmethod
    def of(cls, observations: Observations, groups: IntArray) -> ObservedUnits:
        """The units of observations by their site and group (n,)."""
        size = int(groups.max()) + 1
        keys, number = np.unique(observations.site * size + groups, return_inverse=True)
        number = number.reshape(-1)
        weights = np.asarray(np.bincount(number, observations.weights), dtype=np.float64)
        means = _sums(number, observations.weights[:, None] * observations.y) / weights[:, None]
        return cls(number, keys // size, keys % size, weights, means)

    def __len__(self) -> int:
        return len(self.site)

    @property
    def are_sites(self) -> bool:
        """Whether a group is all that was observed at one site."""
        n_groups = int(self.group.max()) + 1
        return len(self) == n_groups and len(np.unique(self.site)) == n_groups

    def means_without(self, groups: IntArray, chosen: IntArray) -> FloatArray:
        """Means (p, k) at the sites of chosen units (p,), without some groups (p,)."""
        size = int(self.group.max()) + 1
        n_sites = int(self.site.max()) + 1
        site = self.site[chosen]
        pulls = self.weights[:, None] * self.means
        weights = np.bincount(self.site, self.weights, n_sites)[site]
        sums = _sums(self.site, pulls, n_sites)[site]
        keys, wanted = self.site * size + self.group, site * size + groups
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        own = keys[place] == wanted
        weights = weights - np.where(own, self.weights[place], 0.0)
        found: FloatArray = (sums - np.where(own[:, None], pulls[place], 0.0)) / weights[:, None]
        return found


def _sums(groups: IntArray, values: FloatArray, size: int = 0) -> FloatArray:
    """Sums (g, k) of values (n, k) over each group (n,)."""
    columns = [np.bincount(groups, column, size) for column in values.T]
    return np.column_stack(columns)


def positive(std: FloatArray, y: FloatArray) -> FloatArray:
    """Standard deviations (k,) that are not zero: rounding of the targets (n, k) at least."""
    least = np.maximum(1e-9 * np.abs(y).max(axis=0, initial=0.0), 1e-300)
    found: FloatArray = np.maximum(std, least)
    return found
