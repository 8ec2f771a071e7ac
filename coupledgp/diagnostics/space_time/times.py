"""How many nodes and times a map on a page holds, and which times stand side by side."""

from __future__ import annotations

import numpy as np

from coupledgp.diagnostics.pages.scene import MAX_SENSORS
from coupledgp.diagnostics.space_time.record import SpaceTimePage
from coupledgp.random import FloatArray, IntArray

# Number of small maps, and seconds between them that are round: 10 minutes to 4 hours.
N_MAPS = 6
ROUND = (600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0, 10_800.0, 14_400.0)
# Bytes of the values of a map over all times, and the fewest times that nodes give way to.
MAX_FRAME_BYTES, LEAST_TIMES = 1_600_000, 48
# How far a map is from its median, relative to the median distance, if it tells more than others.
TELLING = 1.5
# Bytes of a mean and a standard deviation of one node and time, and of a value of a sensor.
CELL_BYTES, VALUE_BYTES = 3, 2


def most_times(n_nodes: int, n_sensors: int) -> int:
    """Number of times that fit; nodes that are too many will be merged to as many as fit."""
    n_kept = min(n_nodes, MAX_FRAME_BYTES // (CELL_BYTES * LEAST_TIMES))
    return MAX_FRAME_BYTES // (CELL_BYTES * n_kept + VALUE_BYTES * min(n_sensors, MAX_SENSORS))


def thinned_times(n_times: int, limit: int) -> IntArray:
    """Numbers of every k-th of the times, at most `limit` of them, the last one included."""
    step = -(-n_times // max(limit, 1))
    return np.arange((n_times - 1) % step, n_times, step)


def chosen_times(report: SpaceTimePage) -> IntArray:
    """Numbers of six times: every four hours of the last day, or round hours, or evenly spread.

    The last of them is a forecast, if there are any.
    """
    n = report.times.size
    if n <= N_MAPS:
        return np.arange(n)
    wanted = _round_hours(report)
    if wanted is None:
        wanted = np.linspace(report.times[0], report.times[-1], N_MAPS)
    return np.unique(np.abs(report.times[:, None] - wanted).argmin(axis=0))


def _round_hours(report: SpaceTimePage) -> FloatArray | None:
    """Six times at round hours, numbers of the axis; None if times are numbers, few or sparse."""
    times = report.times
    last = float(times[last_observed(report)])
    clock = report.axis.seconds_of_day(np.array([last]))
    fitting = [one for one in ROUND if (N_MAPS - 1) * one <= last - times[0]]
    if clock is None or not fitting or np.median(np.diff(times)) > fitting[-1] / 2:
        return None
    every = fitting[-1]
    hours = np.asarray(last - float(clock[0]) % every - every * np.arange(N_MAPS)[::-1], float)
    if times[-1] > last:
        hours = np.append(hours[1:], times[-1])
    return hours[hours >= times[0]]


def telling_time(report: SpaceTimePage, frames: IntArray | None = None) -> int:
    """Number of the frame with data at which means are farthest from each node's median.

    The distance is the mean over nodes. Where no frame is `TELLING` times as far as the median one,
    none tells more than the others, and it is the last with data.
    """
    frames = np.arange(report.times.size) if frames is None else frames
    seen = np.isfinite(report.observed[:, frames]).any(axis=0)
    if not seen.any():
        return 0
    means = report.mean[:, frames[seen]]
    far = np.abs(means - np.median(means, axis=1, keepdims=True)).mean(axis=0)
    best = int(np.argmax(far))
    if far[best] < TELLING * np.median(far):
        return last_observed(report, frames)
    return int(np.flatnonzero(seen)[best])


def last_observed(report: SpaceTimePage, frames: IntArray | None = None) -> int:
    """Number of the last of the frames at which a sensor reports."""
    observed = report.observed if frames is None else report.observed[:, frames]
    seen = np.flatnonzero(np.isfinite(observed).any(axis=0))
    return int(seen[-1]) if seen.size else 0
