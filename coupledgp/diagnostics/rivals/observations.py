"""Observations at sites, their means, and the errors of predictions of them.

Observation i has a weight `w_i`, its count over its relative noise variance. Means are weighted by
w, and squared errors are averaged by counts c.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.problem import RowWeights
from coupledgp.core.target_maps import mapped_moments
from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.scoring.laws import TransformedLaws
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray


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

    def as_groups(self, groups: IntArray) -> IntArray:
        """Numbers (n,) from 0 on of groups.

        Raises
        ------
        InvalidInputError
            There is not one group for each observation, or only one in all.
        """
        given = np.asarray(groups)
        if given.shape != (len(self),) or given.dtype.kind not in "biu":
            raise InvalidInputError(
                f"groups: expected {len(self)} whole numbers, got shape {given.shape} of "
                f"{given.dtype}"
            )
        names, numbers = np.unique(given, return_inverse=True)
        if names.size < 2:
            raise InvalidInputError("groups: expected two groups at least, got one")
        return numbers.reshape(-1).astype(np.int64)

    def others_mean(self, groups: IntArray) -> FloatArray:
        """Weighted mean (g, k) of all observations but those of each group, from groups (n,)."""
        own = np.bincount(groups, self.weights)
        shifted = self.weights[:, None] * (self.y - self.mean)
        others = _sums(groups, shifted)
        found: FloatArray = self.mean - others / (self.weights.sum() - own)[:, None]
        return found

    def predicted_by_mean(self, n_points: int) -> BaselinePrediction:
        """The mean at any points, with the standard deviation of an observation about it."""
        total = self.counts.sum()
        mean = np.tile(self.mean, (n_points, 1))
        if len(self) < 2 or total <= 1:
            return BaselinePrediction("mean", mean)
        variance = self.counts @ np.square(self.y - self.mean) / (total - 1)
        leverage = (self.weights**2 / self.counts).sum() / self.weights.sum() ** 2
        std = positive(np.sqrt(variance * (1 + leverage)), self.y)
        return BaselinePrediction("mean", mean, np.tile(std, (n_points, 1)))

    def left_out_by_mean(self, groups: IntArray) -> BaselinePrediction:
        """The mean of the observations of other groups (n,), and its standard deviation."""
        mean = self.others_mean(groups)
        counts = self.counts.sum() - np.bincount(groups, self.counts)
        weights = self.weights.sum() - np.bincount(groups, self.weights)
        rows = len(self) - np.bincount(groups)
        if rows.min() < 2 or counts.min() <= 1:
            return BaselinePrediction("mean", mean[groups])
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
        return BaselinePrediction("mean", mean[groups], std[groups])

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


def first_seen(keys: NDArray[Any]) -> IntArray:
    """Numbers (n,) of equal keys (n, ...), in the order of their first ones."""
    _, first, numbers = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found: IntArray = np.argsort(np.argsort(first))[numbers.reshape(-1)].astype(np.int64)
    return found


def _sums(groups: IntArray, values: FloatArray, size: int = 0) -> FloatArray:
    """Sums (g, k) of values (n, k) over each group (n,)."""
    columns = [np.bincount(groups, column, size) for column in values.T]
    return np.column_stack(columns)


@dataclass(frozen=True, eq=False)
class BaselinePrediction:
    """A baseline's predictions.

    Attributes
    ----------
    name : str
        `"mean"`, `"nearest"`, `"linear"`, `"plain process"`, `"additive kernel"`,
        `"boosted trees"`, `"harmonic"` or `"position GP"`.
    mean : FloatArray (p,) or (p, k)
        Predictions, in units of y.
    std : FloatArray (p,) or (p, k), or None
        Standard deviations of observations; None where too few observations tell one.
    own : TransformedLaws or None
        The laws themselves, where the rival predicts transformed targets.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import baseline_predictions
    >>> road = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], lengths=[1.0, 2.0, 1.0])
    >>> sensors = road.at_vertices([0, 3])
    >>> mean, nearest, harmonic = baseline_predictions(road, sensors, [1.0, 5.0], sensors)
    >>> nearest.name, nearest.mean.tolist()
    ('nearest', [1.0, 5.0])
    """

    name: str
    mean: FloatArray
    std: FloatArray | None = None
    own: TransformedLaws | None = None

    def take(self, rows: IntArray) -> BaselinePrediction:
        """The predictions at some points, by their numbers (m,)."""
        std, own = self.std, self.own
        if own is not None:
            own = TransformedLaws(own.transform, own.mean[rows], own.std[rows])
        return BaselinePrediction(
            self.name, self.mean[rows], None if std is None else std[rows], own
        )

    def mapped(self, transform: TargetTransform) -> BaselinePrediction:
        """Predictions (p, 1) of y from these, with deviations, of transformed targets `g(y)`."""
        assert self.std is not None
        own = TransformedLaws(transform, self.mean, self.std)
        mean, variance = mapped_moments(transform, self.mean[:, 0], np.square(self.std[:, 0]))
        return BaselinePrediction(self.name, mean[:, None], np.sqrt(variance)[:, None], own)

    def first_output(self) -> BaselinePrediction:
        """The predictions (p,) of the first output, from those (p, k) of all."""
        return BaselinePrediction(
            self.name, self.mean[:, 0], None if self.std is None else self.std[:, 0]
        )


class Rivals(list[BaselinePrediction]):
    """Baselines that apply.

    Attributes
    ----------
    left_out : dict of str to str
        Names of baselines that are left out, and why.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import rivals_of
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> process = model.fit(X, 2 * X[:, 0]).process_
    >>> rivals = rivals_of(process, np.array([[2.5]]))
    >>> len(rivals), rivals.left_out["boosted trees"]
    (3, 'expected 60 rows at least, got 20')
    """

    def __init__(
        self, found: Iterable[BaselinePrediction] = (), left_out: dict[str, str] | None = None
    ) -> None:
        super().__init__(found)
        self.left_out = dict(left_out or {})

    def with_laws(self) -> Rivals:
        """Those that have a standard deviation; the others are left out."""
        lacking = {
            one.name: "too few observations to tell its error" for one in self if one.std is None
        }
        return Rivals((one for one in self if one.std is not None), self.left_out | lacking)

    def mapped(self, transform: TargetTransform | None) -> Rivals:
        """Those of y, from those of transformed targets; None: they are of y."""
        if transform is None:
            return self
        return Rivals((one.mapped(transform) for one in self), self.left_out)

    def first_outputs(self) -> Rivals:
        """The predictions (p,) of the first output."""
        return Rivals((one.first_output() for one in self), self.left_out)


def positive(std: FloatArray, y: FloatArray) -> FloatArray:
    """Standard deviations (k,) that are not zero: rounding of the targets (n, k) at least."""
    least = np.maximum(1e-9 * np.abs(y).max(axis=0, initial=0.0), 1e-300)
    found: FloatArray = np.maximum(std, least)
    return found
