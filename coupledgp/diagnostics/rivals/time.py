"""What a user would predict readings of sensors over time with instead.

| name | prediction | at |
|---|---|---|
| last value | the sensor's last reading | forecasts |
| linear in time | the sensor's readings joined by straight lines | gaps, single readings |
| nearest sensor | the nearest sensor that reports at the time, by length of path | all but forecasts |
| mean of all sensors | mean of those that report at the time | all but forecasts |
| regression on the others | ridge regression on all others at the same time | gaps, single readings |
| same time of day | the sensor's mean at the same time of other days | forecasts, gaps |
| same time of the week | its mean at the same time of the same weekday | forecasts, gaps |
| boosted trees | gradient boosting on lags, other sensors and the time of day | forecasts, gaps |

Laws are normal about the predictions. Standard deviations are root mean squared errors of the same
predictions of readings that are known: the split is laid over other sensors and earlier times, and
forecasts begin at earlier origins; those of trees are the errors of blocks of time kept back.
"""  # noqa: E501

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.diagnostics.readings import (
    DAY,
    BoolArray,
    SensorReadings,
    SpaceTimeSplit,
)
from coupledgp.fields.operator import LaplaceOperator
from coupledgp.random import FloatArray, IntArray, as_rng

# How often a split is laid over other readings, earlier origins, and errors that tell a deviation.
N_LAID, N_EARLIER, FEWEST_ERRORS = 4, 20, 10
# Bins of a day in which readings are averaged where steps are shorter.
BINS_OF_DAY = 288
# Penalty of regressions, as a share of the number of times, for readings of unit variance; rounds
# in which missing readings are filled by the regressions that they enter.
RIDGE, ROUNDS = 0.07, 3

Point = Callable[[SensorReadings], FloatArray]


@dataclass(frozen=True, eq=False)
class Cells:
    """Readings that are scored: sensors, times, steps ahead of an origin, and kinds, all (m,).

    `origin` is the number of the last time that a forecast is given; -1 for other readings, whose
    `kind` is that of the split.
    """

    rows: IntArray
    columns: IntArray
    origin: IntArray
    kind: IntArray

    @classmethod
    def of(cls, readings: SensorReadings, split: SpaceTimeSplit) -> Cells:
        """The readings that a split hides, kind by kind, then forecasts from each origin."""
        found = []
        for number in range(len(split.kinds)):
            rows, columns = np.nonzero((split.kind == number) & readings.seen)
            found.append((rows, columns, np.full(rows.size, -1), np.full(rows.size, number)))
        kept = ~split.is_out & (readings.seen & ~split.hidden).any(axis=1)
        for origin in split.origins.tolist():
            part = readings.seen[:, origin + 1 : origin + 1 + split.horizon] & kept[:, None]
            rows, columns = np.nonzero(part)
            every = np.full(rows.size, origin)
            found.append((rows, columns + origin + 1, every, np.full(rows.size, -1)))
        return cls(*(np.concatenate(parts).astype(np.int64) for parts in zip(*found, strict=True)))

    def __len__(self) -> int:
        return self.rows.size

    @property
    def ahead(self) -> IntArray:
        """Steps ahead (m,), zero for readings that are no forecasts."""
        return np.where(self.origin >= 0, self.columns - self.origin, 0)


def time_rivals(
    readings: SensorReadings, split: SpaceTimeSplit, cells: Cells, asked: Any = "auto"
) -> dict[str, tuple[FloatArray, FloatArray, float]]:
    """Means and deviations (m,) of each rival at cells, NaN where it says nothing, and seconds.

    `asked` are names of some; `"auto"`: all.
    """
    names = [*POINTS, BOOSTED] if asked == "auto" else list(asked)
    given, found = readings.without(split.hidden), {}
    for name in names:
        start = time.perf_counter()
        if name == BOOSTED:
            mean, std = _boosted(given, readings, split, cells)
        else:
            mean, std = _of_point(name, given, readings, split, cells)
        if np.isfinite(mean).any():
            found[name] = (mean, std, time.perf_counter() - start)
    return found


def _of_point(
    name: str, given: SensorReadings, readings: SensorReadings, split: SpaceTimeSplit, cells: Cells
) -> tuple[FloatArray, FloatArray]:
    """Means of a rival at cells, and its errors at known readings as deviations."""
    function, of_gaps, of_forecasts, of_sensors = POINTS[name]
    mean, std = np.full((2, len(cells)), np.nan)
    wanted = _wanted(split, cells, of_gaps, of_sensors)
    if wanted.any():
        mean[wanted] = function(given)[cells.rows[wanted], cells.columns[wanted]]
        std[wanted] = _laid(function, given, split)[cells.kind[wanted]]
    if of_forecasts and split.origins.size:
        kept = readings.without(_always_hidden(split))
        for origin in split.origins.tolist():
            own = cells.origin == origin
            found = function(kept.until(origin, split.horizon))
            mean[own] = found[cells.rows[own], cells.columns[own]]
        steps = _earlier(function, given, int(split.origins[0]), split.horizon)
        own = cells.origin >= 0
        std[own] = steps[cells.ahead[own] - 1]
    known = np.isfinite(mean) & np.isfinite(std)
    return np.where(known, mean, np.nan), np.where(known, std, np.nan)


def _wanted(split: SpaceTimeSplit, cells: Cells, of_gaps: bool, of_sensors: bool) -> BoolArray:
    """Cells that are no forecasts and of a kind that a rival speaks of."""
    is_out = split.is_out[cells.rows]
    return np.asarray((cells.origin < 0) & np.where(is_out, of_sensors, of_gaps))


def _always_hidden(split: SpaceTimeSplit) -> BoolArray:
    """Readings (p, n) that no forecast is given."""
    found = split.kind >= 0
    found[split.is_out] = True
    return np.asarray(found)


def _laid(function: Point, given: SensorReadings, split: SpaceTimeSplit) -> FloatArray:
    """Root mean squared errors (kinds,) where the split is laid over other sensors and times."""
    rng, n_kinds = as_rng(0), len(split.kinds)
    last = int(split.origins[0]) + 1 if split.origins.size else given.times.size
    squares, counts = np.zeros((2, n_kinds))
    for _ in range(N_LAID):
        kind = split.kind[rng.permutation(len(split.kind))].copy()
        kind[:, :last] = np.roll(kind[:, :last], int(rng.integers(last)), axis=1)
        predicted = function(given.without(kind >= 0))
        known = given.seen & (kind >= 0) & np.isfinite(predicted)
        gaps = np.square(given.values[known] - predicted[known])
        squares += np.bincount(kind[known], gaps, n_kinds)
        counts += np.bincount(kind[known], minlength=n_kinds)
    return _roots(squares, counts)


def _earlier(function: Point, given: SensorReadings, last: int, horizon: int) -> FloatArray:
    """Root mean squared errors (h,) of forecasts from origins before a time, by steps ahead."""
    first = max(last // 2, 1)
    origins = np.unique(np.linspace(first, max(last - horizon, first), N_EARLIER).astype(int))
    squares, counts = np.zeros((2, horizon))
    for origin in origins.tolist():
        predicted = function(given.until(origin, horizon))[:, origin + 1 :]
        values = given.values[:, origin + 1 : origin + 1 + predicted.shape[1]]
        gaps = np.square(values - predicted)
        known = np.isfinite(gaps)
        squares[: gaps.shape[1]] += np.where(known, gaps, 0.0).sum(axis=0)
        counts[: gaps.shape[1]] += known.sum(axis=0)
    return _roots(squares, counts)


def _roots(squares: FloatArray, counts: FloatArray) -> FloatArray:
    """Root mean squares of groups; of groups of few the one of all; NaN without any."""
    total = counts.sum()
    every = squares.sum() / total if total else np.nan
    own = np.divide(squares, counts, out=np.full(squares.shape, every), where=counts > 0)
    found = np.where(counts >= FEWEST_ERRORS, own, every)
    return np.sqrt(np.maximum(found, 1e-18))


# Predictions without a fit.


def linear_in_time(readings: SensorReadings) -> FloatArray:
    """Each sensor's readings joined by straight lines, constant before and after; (p, n)."""
    found = np.full(readings.values.shape, np.nan)
    for row, (values, seen) in enumerate(zip(readings.values, readings.seen, strict=True)):
        if seen.any():
            found[row] = np.interp(readings.times, readings.times[seen], values[seen])
    return found


def last_value(readings: SensorReadings) -> FloatArray:
    """Each sensor's last reading; its first one before there is any; (p, n)."""
    number = np.where(readings.seen, np.arange(readings.times.size), -1)
    last = np.maximum.accumulate(number, axis=1)
    first = np.where(readings.seen.any(axis=1), readings.seen.argmax(axis=1), 0)
    found: FloatArray = np.take_along_axis(
        readings.values, np.where(last >= 0, last, first[:, None]), axis=1
    )
    return found


def mean_at_the_time(readings: SensorReadings) -> FloatArray:
    """Mean of all sensors that report at the time; (p, n)."""
    count = readings.seen.sum(axis=0)
    total = np.where(readings.seen, readings.values, 0.0).sum(axis=0)
    means = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    found: FloatArray = np.broadcast_to(means, readings.values.shape)
    return found


def same_time_of_day(readings: SensorReadings) -> FloatArray:
    """Each sensor's mean at the same time of other days, NaN where times are numbers; (p, n).

    A day has as many bins as steps, 288 at most. Where a bin has no reading it is the mean of all
    readings of the sensor.
    """
    bins, n_bins = bins_of_day(readings)
    if bins is None:
        return np.full(readings.values.shape, np.nan)
    usual = _means(readings, bins, n_bins)
    return np.where(np.isnan(usual), _means(readings, np.zeros_like(bins), 1), usual)


def same_time_of_week(readings: SensorReadings) -> FloatArray:
    """Each sensor's mean at the same time of the same weekday in other weeks; (p, n).

    Where it has no reading then, its mean at the time of day. NaN where days are not known, or no
    weekday is there twice.
    """
    bins, n_bins = bins_of_day(readings)
    days = readings.days
    if bins is None or days is None or np.unique(days).size == np.unique(days % 7).size:
        return np.full(readings.values.shape, np.nan)
    usual = _means(readings, (days % 7) * n_bins + bins, 7 * n_bins)
    return np.where(np.isnan(usual), same_time_of_day(readings), usual)


def bins_of_day(readings: SensorReadings) -> tuple[IntArray | None, int]:
    """Bin of the day (n,) of each time, and how many there are; None where times are numbers."""
    n_bins = int(np.clip(round(DAY / readings.step), 1, BINS_OF_DAY))
    if readings.seconds_of_day is None:
        return None, n_bins
    found = np.floor(readings.seconds_of_day * n_bins / DAY + 1e-6).astype(np.int64)
    return found % n_bins, n_bins


def _means(readings: SensorReadings, groups: IntArray, n_groups: int) -> FloatArray:
    """Mean (p, n) of each sensor over the times of the same group (n,); NaN without a reading."""
    total, count = _sums(readings, groups, n_groups)
    means = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return np.asarray(means[:, groups])


def _sums(
    readings: SensorReadings, groups: IntArray, n_groups: int
) -> tuple[FloatArray, FloatArray]:
    """Sums and counts (p, g) of the readings of each group of times."""
    member = sparse.csr_array(
        (np.ones(groups.size), (np.arange(groups.size), groups)), shape=(groups.size, n_groups)
    )
    total = np.where(readings.seen, readings.values, 0.0) @ member
    return total, readings.seen.astype(np.float64) @ member


def nearest_sensor(readings: SensorReadings) -> FloatArray:
    """Reading of the nearest other sensor that reports at the time, by length of path; (p, n).

    Of sensors that are equally near, the first. NaN where no other sensor of the component does.
    """
    found = np.full(readings.values.shape, np.nan)
    distances = _path_lengths(readings.domain, readings.sites)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")
    reachable = np.isfinite(np.take_along_axis(distances, order, axis=1))
    for rank in range(order.shape[1]):
        lacking = np.isnan(found) & reachable[:, rank, None]
        if not lacking.any():
            break
        found = np.where(lacking, readings.values[order[:, rank]], found)
    return found


def _path_lengths(domain: Any, sites: IntArray) -> FloatArray:
    """Lengths (p, p) of the shortest paths between sites of a graph or an operator.

    The length of an edge is one over its weight; that of an operator one over the entry of its
    stiffness, which on networks is the length of the road.
    """
    if isinstance(domain, LaplaceOperator):
        stiffness = sparse.csr_array(sparse.triu(domain.stiffness, k=1))
        weights = sparse.csr_array(np.abs(stiffness))
    else:
        weights = sparse.csr_array(sparse.triu(domain.adjacency, k=1))
    weights.eliminate_zeros()
    lengths = sparse.csr_array(
        (1.0 / weights.data, weights.indices, weights.indptr), shape=weights.shape
    )
    places, number = np.unique(sites, return_inverse=True)
    found: FloatArray = csgraph.dijkstra(lengths, directed=False, indices=places)[:, places]
    return found[np.ix_(number, number)]


def ridge_on_peers(readings: SensorReadings) -> FloatArray:
    """Each sensor's regression on all others at the same time, (p, n); NaN without readings.

    With `O = (Z Z' + lam I)^-1` it is `-sum_{j != i} O_ij / O_ii z_j`: one inverse serves all.
    Missing readings are those joined by straight lines at first, and then what this predicts.
    """
    found = np.full(readings.values.shape, np.nan)
    known = readings.seen.any(axis=1)
    if not known.any():
        return found
    values, seen = readings.values[known], readings.seen[known]
    mean = np.nanmean(values, axis=1, keepdims=True)
    spread = np.nanstd(values, axis=1, keepdims=True)
    spread = np.where(spread > 0, spread, 1.0)
    joined = (linear_in_time(readings)[known] - mean) / spread
    filled, answer = joined.copy(), joined
    penalty = RIDGE * joined.shape[1] * np.eye(len(joined))
    for _ in range(ROUNDS):
        precision = np.linalg.inv(filled @ filled.T + penalty)
        answer = filled - (precision @ filled) / np.diag(precision)[:, None]
        filled = np.where(seen, joined, answer)
    found[known] = mean + spread * answer
    return found


# Functions of readings that give means (p, n), NaN where they say nothing, and whether they speak
# of gaps and single readings, of forecasts, and of sensors without any reading.
POINTS: dict[str, tuple[Point, bool, bool, bool]] = {
    "last value": (last_value, False, True, False),
    "linear in time": (linear_in_time, True, False, False),
    "nearest sensor": (nearest_sensor, True, False, True),
    "mean of all sensors": (mean_at_the_time, True, False, True),
    "regression on the others": (ridge_on_peers, True, False, False),
    "same time of day": (same_time_of_day, True, True, False),
    "same time of the week": (same_time_of_week, True, True, False),
}
BOOSTED = "boosted trees"


# Gradient boosting, pooled over the sensors. Columns are the last readings of the sensor before a
# value, the first one after it and the distances to both, readings of its most correlated sensors
# at the same time and before, and means at the time of day. Gaps have a model, and later steps
# another one, direct for each step, whose number is a column (Hyndman and Athanasopoulos 2021,
# section 13.8). Rows of known readings are hidden in the same way for the fit.

# Rows of the fit of either model, trees, and their rate.
MOST_ROWS, TREES, RATE = 48_000, 150, 0.1
# Steps before the last reading whose readings are columns, and sensors that help.
LAGS, N_PEERS = (0, 1, 2, 3, 5, 11), 6
# Blocks of time, of which every fifth is kept back for the errors.
N_BLOCKS, EVERY = 25, 5
# Share of single readings that are hidden for the fit beside patterns of gaps; such patterns;
# errors that tell a deviation; bins of the day to either side of which the mean at a time is.
SINGLES, MOST_PATTERNS, FEWEST_OF_TREES, WIDTH = 0.02, 8, 30, 4


@dataclass(frozen=True, eq=False)
class _Columns:
    """Columns of rows (sensor, time) given some readings.

    `peers` (p, k) are rows of the sensors that are most correlated with each.
    """

    readings: SensorReadings
    peers: IntArray

    @cached_property
    def joined(self) -> FloatArray:
        """Readings (p, n) joined by lines."""
        return linear_in_time(self.readings)

    @cached_property
    def before(self) -> IntArray:
        """Number (p, n) of the last time up to each at which the sensor has a reading; or -1."""
        seen = self.readings.seen
        return np.maximum.accumulate(np.where(seen, np.arange(seen.shape[1]), -1), axis=1)

    @cached_property
    def after(self) -> IntArray:
        """Number (p, n) of the first time from each on at which it has one; or n."""
        seen = self.readings.seen
        n = seen.shape[1]
        numbers = np.where(seen, np.arange(n), n)
        return np.minimum.accumulate(numbers[:, ::-1], axis=1)[:, ::-1]

    @cached_property
    def usual(self) -> FloatArray:
        """Means (p, n) about the time of day on other days; of all where times are numbers."""
        return np.nan_to_num(_of_other_days(self.readings, WIDTH))

    @cached_property
    def level(self) -> FloatArray:
        """Mean (p,) of each sensor."""
        seen = self.readings.seen
        total = np.where(seen, self.readings.values, 0.0).sum(axis=1)
        return total / np.maximum(seen.sum(axis=1), 1)

    def of(self, rows: IntArray, times: IntArray, origins: IntArray, ahead: bool) -> FloatArray:
        """Columns (m, c) of values, of which readings up to the origins, or around, are given.

        `ahead`: readings after the origins (m,) are not given, else only the values themselves are
        not.
        """
        values, n = self.readings.values, self.readings.values.shape[1]
        last = self.before[rows, origins]
        known = np.maximum(last, 0)
        lags = [
            np.where(last >= lag, self.joined[rows, np.maximum(known - lag, 0)], np.nan)
            for lag in LAGS
        ]
        parts = [*lags, np.where(last >= 0, times - last, np.nan)]
        peers = self.peers[rows]
        of_peers = self.before[peers, origins[:, None]]
        beside = self.joined[peers, np.maximum(of_peers, 0)]
        parts += list(np.where(of_peers >= 0, beside, np.nan).T)
        if not ahead:
            following = self.after[rows, np.minimum(times + 1, n - 1)]
            there = (following < n) & (times + 1 < n)
            place = np.minimum(following, n - 1)
            parts += [np.where(there, values[rows, place], np.nan)]
            parts += [np.where(there, place - times, np.nan)]
            parts += list(values[peers, times[:, None]].T)
        parts += [self.usual[rows, times], self.usual[rows, known], self.level[rows]]
        if self.readings.seconds_of_day is not None:
            parts.append(self.readings.seconds_of_day[times])
        return np.stack(parts, axis=1)


def _boosted(
    given: SensorReadings, readings: SensorReadings, split: SpaceTimeSplit, cells: Cells
) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (m,) at gaps, single readings and forecasts."""
    mean, std = np.full((2, len(cells)), np.nan)
    n = int(split.origins[0]) + 1 if split.origins.size else given.times.size
    if not given.seen.any() or n < max(LAGS) + 2:
        return mean, std
    train = given.until(n - 1, 0)
    peers = _most_correlated(train)
    unseen = ~train.seen & np.any(train.seen, axis=1, keepdims=True)
    own = np.flatnonzero(_wanted(split, cells, True, False))
    made = _gap_rows(train, peers, unseen) if own.size else None
    if made is not None:
        rows, times = cells.rows[own], cells.columns[own]
        wanted = _Columns(train, peers).of(rows, times, np.maximum(times - 1, 0), False)
        mean[own], std[own] = _fitted(*made)(wanted, _depths(wanted, peers.shape[1]))
    made = _ahead_rows(train, peers, split.horizon) if split.origins.size else None
    if made is not None:
        predict = _fitted(*made)
        columns = _Columns(readings.without(_always_hidden(split)), peers)
        # Means at the time of day are those of the readings of the fit.
        columns.__dict__["usual"] = _Columns(given, peers).usual
        columns.__dict__["level"] = _Columns(given, peers).level
        own = np.flatnonzero(cells.origin >= 0)
        wanted = columns.of(cells.rows[own], cells.columns[own], cells.origin[own], True)
        mean[own], std[own] = predict(wanted, cells.ahead[own])
    return mean, std


def _of_other_days(readings: SensorReadings, width: int) -> FloatArray:
    """Each sensor's mean about the same time of all other days, its own mean without any; (p, n).

    Readings of `width` bins before and after that time of day count, too. Where times are numbers
    it is the mean of the sensor.
    """
    own = _means(readings, np.zeros(readings.times.size, dtype=np.int64), 1)
    bins, n_bins = bins_of_day(readings)
    if bins is None or readings.seconds_of_day is None:
        return own
    days = readings.days
    if days is None:
        days = np.cumsum(np.diff(readings.seconds_of_day, prepend=0.0) < 0)
    first = int(days.min())
    n_days = int(days.max()) - first + 1
    numbers = (days - first) * n_bins + bins
    total, count = (
        part.reshape(-1, n_days, n_bins) for part in _sums(readings, numbers, n_days * n_bins)
    )
    total, count = (part.sum(axis=1, keepdims=True) - part for part in (total, count))
    wide = [
        sum(np.roll(part, k, axis=2) for k in range(-width, width + 1)) for part in (total, count)
    ]
    total, count = (part.reshape(len(own), -1)[:, numbers] for part in wide)
    return np.divide(total, count, out=own.copy(), where=count > 0)


def _depths(columns: FloatArray, n_peers: int) -> IntArray:
    """Powers of two (m,) of the steps to the nearest reading of the sensor, of columns in gaps."""
    place = len(LAGS)
    nearest = np.fmin(columns[:, place], columns[:, place + n_peers + 2])
    return np.log2(np.maximum(np.nan_to_num(nearest, nan=1.0), 1.0)).astype(np.int64)


def _most_correlated(readings: SensorReadings) -> IntArray:
    """Rows (p, k) of the sensors with the greatest absolute correlation with each."""
    joined = linear_in_time(readings)
    joined = np.where(np.isnan(joined), 0.0, joined)
    away = joined - joined.mean(axis=1, keepdims=True)
    size = np.sqrt((away**2).sum(axis=1))
    size = np.where(size > 0, size, np.inf)
    found = np.abs(away @ away.T) / np.outer(size, size)
    np.fill_diagonal(found, -1.0)
    return np.argsort(-found, axis=1, kind="stable")[:, : min(N_PEERS, len(found) - 1)]


Made = tuple[FloatArray, FloatArray, IntArray, IntArray]


def _ahead_rows(readings: SensorReadings, peers: IntArray, horizon: int) -> Made | None:
    """Columns, values, steps ahead and blocks (m,) of known readings from earlier origins."""
    rng, seen = as_rng(0), readings.seen
    n = seen.shape[1]
    rows, times = np.nonzero(seen)
    late = times >= max(LAGS) + 1
    rows, times = rows[late], times[late]
    if not rows.size:
        return None
    chosen = np.sort(rng.choice(rows.size, min(MOST_ROWS, rows.size), replace=False))
    rows, times = rows[chosen], times[chosen]
    steps = rng.integers(1, horizon + 1, rows.size)
    inside = times >= steps
    rows, times, steps = rows[inside], times[inside], steps[inside]
    X = _Columns(readings, peers).of(rows, times, times - steps, True)
    return X, readings.values[rows, times], steps, times * N_BLOCKS // n


def _gap_rows(readings: SensorReadings, peers: IntArray, unseen: BoolArray) -> Made | None:
    """Columns, values, depths and blocks (m,) of known readings in patterns of the gaps."""
    rng, seen = as_rng(0), readings.seen
    p, n = seen.shape
    found: list[Made] = []
    left = MOST_ROWS
    inner = unseen & seen.any(axis=0)
    for _ in range(MOST_PATTERNS):
        hidden = np.roll(inner[rng.permutation(p)], int(rng.integers(n)), axis=1) & seen
        hidden |= seen & (rng.random((p, n)) < SINGLES)
        rows, times = np.nonzero(hidden)
        if not rows.size:
            continue
        chosen = np.sort(rng.choice(rows.size, min(left, rows.size), replace=False))
        rows, times = rows[chosen], times[chosen]
        columns = _Columns(readings.without(hidden), peers)
        X = columns.of(rows, times, np.maximum(times - 1, 0), False)
        depths = _depths(X, peers.shape[1])
        found.append((X, readings.values[rows, times], depths, times * N_BLOCKS // n))
        left -= rows.size
        if left <= 0:
            break
    if not found:
        return None
    X, y, steps, blocks = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return X, y, steps, blocks


def _fitted(
    X: FloatArray, y: FloatArray, groups: IntArray, blocks: IntArray
) -> Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]:
    """Means and standard deviations (w,) at columns of groups (w,), of trees.

    Standard deviations are root mean squared errors of the rows kept back, of the same group.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingRegressor(
        max_iter=TREES, learning_rate=RATE, early_stopping=False, random_state=0
    )
    kept_back = blocks % EVERY == EVERY // 2
    if not (0 < kept_back.sum() < kept_back.size):
        kept_back = np.arange(y.size) % EVERY == 0
    # Columns of sensors that never report tell nothing.
    told = np.isfinite(X[~kept_back]).sum(axis=0) > 1
    with threadpool_limits(1, user_api="openmp"):
        model.fit(X[~kept_back][:, told], y[~kept_back])
        errors = y[kept_back] - model.predict(X[kept_back][:, told])
    everywhere = float(np.sqrt(np.mean(errors**2))) or 1e-9
    of_kept = groups[kept_back]

    def predict(wanted: FloatArray, of_wanted: IntArray) -> tuple[FloatArray, FloatArray]:
        std = np.full(of_wanted.size, everywhere)
        for group in np.unique(of_wanted).tolist():
            own = errors[of_kept == group]
            if own.size >= FEWEST_OF_TREES:
                std[of_wanted == group] = float(np.sqrt(np.mean(own**2))) or 1e-9
        with threadpool_limits(1, user_api="openmp"):
            return np.asarray(model.predict(wanted[:, told])), std

    return predict
