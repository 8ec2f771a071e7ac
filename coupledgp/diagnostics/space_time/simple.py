"""Predictions without a fit: in time, from the nearest sensor, and means."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.diagnostics.space_time.splits import DAY, SensorReadings
from coupledgp.fields.operator import LaplaceOperator
from coupledgp.random import FloatArray, IntArray

# Bins of a day in which readings are averaged where steps are shorter.
BINS_OF_DAY = 288


def linear_in_time(readings: SensorReadings) -> FloatArray:
    """Each sensor's readings joined by straight lines, constant before and after; (p, n)."""
    found = np.full(readings.values.shape, np.nan)
    for row, (values, seen) in enumerate(zip(readings.values, readings.seen, strict=True)):
        if seen.any():
            found[row] = np.interp(readings.times, readings.times[seen], values[seen])
    return found


def last_value(readings: SensorReadings) -> FloatArray:
    """Each sensor's last reading; its first one before there is any; (p, n)."""
    n = readings.times.size
    number = np.where(readings.seen, np.arange(n), -1)
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


def mean_at_the_time_of_day(readings: SensorReadings) -> FloatArray:
    """Each sensor's mean at the same time of other days, NaN where times are numbers; (p, n).

    A day has as many bins as steps, 288 at most. Where a bin has no reading it is the mean of all
    readings of the sensor.
    """
    bins, n_bins = bins_of_day(readings)
    if bins is None:
        return np.full(readings.values.shape, np.nan)
    usual = means_of_groups(readings, bins, n_bins)
    own = means_of_groups(readings, np.zeros_like(bins), 1)
    return np.where(np.isnan(usual), own, usual)


def mean_at_the_time_of_the_week(readings: SensorReadings) -> FloatArray:
    """Each sensor's mean at the same time of the same weekday in other weeks; (p, n).

    Where it has no reading then, its mean at the time of day. NaN where days are not known, or no
    weekday is there twice.
    """
    bins, n_bins = bins_of_day(readings)
    days = readings.days
    if bins is None or days is None or np.unique(days).size == np.unique(days % 7).size:
        return np.full(readings.values.shape, np.nan)
    usual = means_of_groups(readings, (days % 7) * n_bins + bins, 7 * n_bins)
    return np.where(np.isnan(usual), mean_at_the_time_of_day(readings), usual)


def mean_of_other_days(readings: SensorReadings, width: int) -> FloatArray:
    """Each sensor's mean about the same time of all other days, its own mean without any; (p, n).

    Readings of `width` bins before and after that time of day count, too. Where times are numbers
    it is the mean of the sensor.
    """
    own = means_of_groups(readings, np.zeros(readings.times.size, dtype=np.int64), 1)
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
    total, count = (
        total.sum(axis=1, keepdims=True) - total,
        count.sum(axis=1, keepdims=True) - count,
    )
    wide = [
        sum(np.roll(part, k, axis=2) for k in range(-width, width + 1)) for part in (total, count)
    ]
    total, count = (part.reshape(len(own), -1)[:, numbers] for part in wide)
    return np.divide(total, count, out=own.copy(), where=count > 0)


def bins_of_day(readings: SensorReadings) -> tuple[IntArray | None, int]:
    """Bin of the day (n,) of each time, and how many there are; None where times are numbers."""
    n_bins = int(np.clip(round(DAY / readings.step), 1, BINS_OF_DAY))
    if readings.seconds_of_day is None:
        return None, n_bins
    found = np.floor(readings.seconds_of_day * n_bins / DAY + 1e-6).astype(np.int64)
    return found % n_bins, n_bins


def means_of_groups(readings: SensorReadings, groups: IntArray, n_groups: int) -> FloatArray:
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
    distances = path_lengths(readings.domain, readings.sites)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")
    reachable = np.isfinite(np.take_along_axis(distances, order, axis=1))
    for rank in range(order.shape[1]):
        lacking = np.isnan(found) & reachable[:, rank, None]
        if not lacking.any():
            break
        found = np.where(lacking, readings.values[order[:, rank]], found)
    return found


def path_lengths(domain: object, sites: IntArray) -> FloatArray:
    """Lengths (p, p) of the shortest paths between sites of a graph or an operator.

    The length of an edge is one over its weight; that of an operator one over the entry of its
    stiffness, which on networks is the length of the road.
    """
    if isinstance(domain, LaplaceOperator):
        stiffness = sparse.csr_array(sparse.triu(domain.stiffness, k=1))
        weights = sparse.csr_array(np.abs(stiffness))
    else:
        weights = sparse.csr_array(sparse.triu(domain.adjacency, k=1))  # type: ignore[attr-defined]
    weights.eliminate_zeros()
    lengths = sparse.csr_array(
        (1.0 / weights.data, weights.indices, weights.indptr), shape=weights.shape
    )
    places, number = np.unique(sites, return_inverse=True)
    found: FloatArray = csgraph.dijkstra(lengths, directed=False, indices=places)[:, places]
    return found[np.ix_(number, number)]
