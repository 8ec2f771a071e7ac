"""Gradient boosting on lags, other sensors and the time of day, pooled over the sensors.

A row is a value of a sensor that is to be predicted. Its columns are the last readings of the
sensor before it, the first one after it and the distances to both; the readings of its most
correlated sensors, at the same time and before; and means at the time of day. Trees take missing
columns as they are. Gaps have a model, and later steps another one, direct for each step: the
number of steps ahead is a column. Rows of known readings are hidden in the same way for the fit;
some blocks of time are kept back, whose errors are the law (Hyndman and Athanasopoulos 2021,
section 13.8, for direct forecasts).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coupledgp.diagnostics.space_time.simple import linear_in_time, mean_of_other_days
from coupledgp.diagnostics.space_time.splits import BoolArray, SensorReadings
from coupledgp.random import FloatArray, IntArray, as_rng

# Rows of the fit of either model, trees, and their rate.
MOST_ROWS, TREES, RATE = 48_000, 150, 0.1
# Steps before the last reading whose readings are columns, and sensors that help.
LAGS, N_PEERS = (0, 1, 2, 3, 5, 11), 6
# Blocks of time, of which every fifth is kept back for the errors.
N_BLOCKS, EVERY = 25, 5
# Share of single readings that are hidden for the fit beside patterns of gaps; such patterns; and
# errors that tell a standard deviation.
SINGLES, MOST_PATTERNS, FEWEST_ERRORS = 0.02, 8, 30
# Bins of the day to either side of which the mean at a time of day is.
WIDTH = 4


@dataclass(frozen=True, eq=False)
class LagColumns:
    """LagColumns of rows (sensor, time) given some readings.

    Attributes
    ----------
    readings : SensorReadings
        What is given.
    peers : IntArray (p, k)
        Rows of the sensors that are most correlated with each.
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
        return np.nan_to_num(mean_of_other_days(self.readings, WIDTH))

    @cached_property
    def level(self) -> FloatArray:
        """Mean (p,) of each sensor."""
        seen = self.readings.seen
        total = np.where(seen, self.readings.values, 0.0).sum(axis=1)
        return total / np.maximum(seen.sum(axis=1), 1)

    def of(self, rows: IntArray, times: IntArray, origins: IntArray, ahead: bool) -> FloatArray:
        """LagColumns (m, c) of values, of which readings up to the origins, or around, are given.

        `ahead`: readings after the origins (m,) are not given, else only the values themselves are
        not.
        """
        values, n = self.readings.values, self.readings.values.shape[1]
        last = self.before[rows, origins]
        known = np.maximum(last, 0)
        lags = [np.where(last >= lag, self.joined[rows, np.maximum(known - lag, 0)], np.nan)
                for lag in LAGS]  # fmt: skip
        parts = [*lags, np.where(last >= 0, times - last, np.nan)]
        peers = self.peers[rows]
        of_peers = self.before[peers, origins[:, None]]
        parts += list(np.where(of_peers >= 0, self.joined[peers, np.maximum(of_peers, 0)],
                               np.nan).T)  # fmt: skip
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


def boosted_trees(readings: SensorReadings) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (p, n) of what is missing, NaN elsewhere."""
    values, seen = readings.values, readings.seen
    mean, std = np.full((2, *values.shape), np.nan)
    usable: BoolArray = np.asarray(seen.any(axis=1))
    if not usable.any() or values.shape[1] < max(LAGS) + 2:
        return mean, std
    peers = most_correlated(readings)
    last = int(np.flatnonzero(seen.any(axis=0))[-1])
    unseen: BoolArray = np.logical_and(~seen, usable[:, None])
    for ahead, cells in ((False, unseen[:, : last + 1]), (True, unseen[:, last + 1 :])):
        rows, times = np.nonzero(cells)
        if not rows.size:
            continue
        if ahead:
            times = times + last + 1
            origins = np.full(times.size, last)
            made = _ahead_rows(readings, peers, int(times.max()) - last)
        else:
            origins = np.maximum(times - 1, 0)
            made = _gap_rows(readings, peers, unseen)
        if made is None:
            continue
        wanted = LagColumns(readings, peers).of(rows, times, origins, ahead)
        groups = times - last if ahead else depths(wanted, peers.shape[1])
        mean[rows, times], std[rows, times] = _fitted(*made, wanted, groups)
    return mean, std


def depths(columns: FloatArray, n_peers: int) -> IntArray:
    """Powers of two (m,) of the steps to the nearest reading of the sensor, of columns in gaps."""
    place = len(LAGS)
    nearest = np.fmin(columns[:, place], columns[:, place + n_peers + 2])
    return np.log2(np.maximum(np.nan_to_num(nearest, nan=1.0), 1.0)).astype(np.int64)


def most_correlated(readings: SensorReadings) -> IntArray:
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
    """LagColumns, values, steps ahead and blocks (m,) of known readings from earlier origins."""
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
    X = LagColumns(readings, peers).of(rows, times, times - steps, True)
    return X, readings.values[rows, times], steps, times * N_BLOCKS // n


def _gap_rows(readings: SensorReadings, peers: IntArray, unseen: BoolArray) -> Made | None:
    """LagColumns, values, depths and blocks (m,) of known readings in patterns of the gaps."""
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
        columns = LagColumns(readings.without(hidden), peers)
        X = columns.of(rows, times, np.maximum(times - 1, 0), False)
        found.append((X, readings.values[rows, times], depths(X, peers.shape[1]),
                      times * N_BLOCKS // n))  # fmt: skip
        left -= rows.size
        if left <= 0:
            break
    if not found:
        return None
    X, y, steps, blocks = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return X, y, steps, blocks


def _fitted(
    X: FloatArray, y: FloatArray, groups: IntArray, blocks: IntArray, wanted: FloatArray,
    of_wanted: IntArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Means and standard deviations (w,) at wanted columns of groups (w,).

    Standard deviations are root mean squared errors of the rows kept back, of the same group.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=TREES, learning_rate=RATE, early_stopping=False, random_state=0
    )
    kept_back = blocks % EVERY == EVERY // 2
    if not (0 < kept_back.sum() < kept_back.size):
        kept_back = np.arange(y.size) % EVERY == 0
    # LagColumns of sensors that never report tell nothing.
    told = np.isfinite(X[~kept_back]).sum(axis=0) > 1
    X, wanted = X[:, told], wanted[:, told]
    model.fit(X[~kept_back], y[~kept_back])
    errors = y[kept_back] - model.predict(X[kept_back])
    everywhere = float(np.sqrt(np.mean(errors**2))) or 1e-9
    std = np.full(of_wanted.size, everywhere)
    for group in np.unique(of_wanted).tolist():
        own = errors[groups[kept_back] == group]
        if own.size >= FEWEST_ERRORS:
            std[of_wanted == group] = float(np.sqrt(np.mean(own**2))) or 1e-9
    return np.asarray(model.predict(wanted)), std
