"""How many nodes and times a map on a page holds."""

from __future__ import annotations

import numpy as np

from coupledgp.diagnostics.pages.scene import MAX_SENSORS
from coupledgp.random import IntArray

# Bytes of the values of a map over all times, and the fewest times that nodes give way to.
MAX_FRAME_BYTES, LEAST_TIMES = 1_500_000, 48
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
