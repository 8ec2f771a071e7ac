"""Which series stand side by side in compiled loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.inference.space_time.factors import LANES
from coupledgp.random import FloatArray, IntArray

# Series of one kind from which on they have groups of their own.
MANY = 4


@dataclass(frozen=True, eq=False)
class Lanes:
    """Groups of kinds of series, a kind being series of equal covariance.

    Attributes
    ----------
    numbers : IntArray (q,)
        Number of each series' kind.
    groups : IntArray (G, LANES)
        Kind of each lane of each group. Each kind is in one group, in one or several of its lanes.
    """

    numbers: IntArray
    groups: IntArray

    def tasks(self, m: int) -> tuple[IntArray, IntArray]:
        """Return rows (T, LANES) of values (m q, n) to treat at once, and the group of each (T,).

        A lane without a row has -1.
        """
        q = self.numbers.size
        order = np.argsort(self.numbers, kind="stable")
        ends = np.cumsum(np.bincount(self.numbers))
        found = []
        for kinds in self.groups:
            shares = []
            for kind, its_lanes in _lanes_of(kinds):
                series = order[ends[kind - 1] if kind else 0 : ends[kind]]
                rows = (q * np.arange(m)[:, None] + series).ravel()
                padded = np.full(-(-rows.size // its_lanes.size) * its_lanes.size, -1)
                padded[: rows.size] = rows
                shares.append((its_lanes, padded.reshape(-1, its_lanes.size)))
            longest = max(len(share) for _, share in shares)
            tasks = np.full((longest, LANES), -1, dtype=np.int64)
            for its_lanes, share in shares:
                tasks[: len(share), its_lanes] = share
            found.append(tasks)
        return np.concatenate(found), np.repeat(np.arange(len(found)), [len(f) for f in found])


def lanes_of(eigenvalues: FloatArray) -> tuple[Lanes, FloatArray]:
    """Return groups of the series of these eigenvalues (q,), and the eigenvalue of each kind."""
    values, numbers = np.unique(eigenvalues, return_inverse=True)
    counts = np.bincount(numbers)
    alone = np.flatnonzero(counts >= MANY)
    few = np.flatnonzero(counts < MANY)
    few = few[np.argsort(counts[few], kind="stable")]
    groups = [np.full(LANES, kind) for kind in alone]
    starts = range(0, few.size, LANES)
    groups += [np.resize(few[first : first + LANES], LANES) for first in starts]
    return Lanes(numbers.astype(np.int64), np.array(groups, dtype=np.int64)), values


def rows_in_order(n: int) -> IntArray:
    """Return the rows 0..n-1 as tasks (T, LANES), with -1 in the lanes that are left over."""
    found = np.full(-(-n // LANES) * LANES, -1, dtype=np.int64)
    found[:n] = np.arange(n)
    return found.reshape(-1, LANES)


def _lanes_of(kinds: IntArray) -> list[tuple[int, IntArray]]:
    """Each kind of a group with its lanes."""
    return [(int(kind), np.flatnonzero(kinds == kind)) for kind in np.unique(kinds)]
