"""Predictions without a fit: in time, from the nearest sensor, and means."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.diagnostics.space_time.readings import DAY, SensorReadings
from coupledgp.geometry.operator import LaplaceOperator
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
    seconds = readings.seconds_of_day
    if seconds is None:
        return np.full(readings.values.shape, np.nan)
    n_bins = int(np.clip(round(DAY / readings.step), 1, BINS_OF_DAY))
    bins = (np.floor(seconds * n_bins / DAY + 1e-6).astype(np.int64)) % n_bins
    member = sparse.csr_array(
        (np.ones(bins.size), (np.arange(bins.size), bins)), shape=(bins.size, n_bins)
    )
    total = np.where(readings.seen, readings.values, 0.0) @ member
    count = readings.seen.astype(np.float64) @ member
    usual = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)[:, bins]
    sums, counts = total.sum(axis=1), count.sum(axis=1)
    own = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return np.where(np.isnan(usual), own[:, None], usual)


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
