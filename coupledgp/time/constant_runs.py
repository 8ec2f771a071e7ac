"""Sensors that stand still: runs of one reading that neither they nor others have by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coupledgp.random import FloatArray
from coupledgp.time.axis import TimeAxis

DAY = 86_400.0
# Fewest readings of a run; share of other sensors' steps without a change during it, from which all
# stand still; and expected number of such runs by chance.
FEWEST, OTHERS, CHANCE = 10, 0.5, 0.01


class ConstantRun(NamedTuple):
    """A run of one reading: its sensor, the value, its first and last time, and its length."""

    sensor: int
    value: float
    start: float
    stop: float
    n: int


def constant_runs(observed: FloatArray, times: FloatArray, axis: TimeAxis) -> list[ConstantRun]:
    """The longest run of each sensor of readings (p, T) at times (T,) that is no chance.

    A run has ten readings at least and lasts a day where times are dates. Others change during it,
    and with the share q of steps without a change, the larger of the sensor's own outside of the
    run and of the others' during it, fewer than `CHANCE` runs of m readings are expected among all
    n steps, `n q^(m - 1)`.
    """
    seen = ~np.isnan(observed)
    still, both = np.zeros((2, len(observed), max(times.size - 1, 0)), dtype=np.bool_)
    for k, row in enumerate(observed):  # steps between readings that follow each other
        at = np.flatnonzero(seen[k])
        both[k, at[1:] - 1] = True
        still[k, at[1:] - 1] = np.diff(row[at]) == 0
    n_steps, least = int(both.sum()), DAY if axis.origin is not None else 0.0
    found = []
    for k, row in enumerate(observed):
        at = np.flatnonzero(seen[k])
        ends = np.flatnonzero(np.diff(row[at], prepend=np.nan, append=np.nan) != 0)
        if ends.size < 2:
            continue
        longest = int(np.diff(ends).argmax())
        run = at[ends[longest] : ends[longest + 1]]
        start, stop = float(times[run[0]]), float(times[run[-1]])
        if run.size < FEWEST or stop - start < least:
            continue
        inside = np.zeros(times.size - 1, dtype=np.bool_)
        inside[run[0] : run[-1]] = True
        others = np.arange(len(observed)) != k
        beside = _share(still[others][:, inside], both[others][:, inside])
        q = max(beside, _share(still[k, ~inside], both[k, ~inside]))
        if beside < OTHERS and n_steps * q ** (run.size - 1) < CHANCE:
            found.append(ConstantRun(k, float(row[run[0]]), start, stop, run.size))
    return sorted(found, key=lambda one: -one.n)


def _share(still: FloatArray, both: FloatArray) -> float:
    """Share of steps without a change; a half of one more step, so that none is never certain."""
    return float((still.sum() + 0.5) / (both.sum() + 1))
