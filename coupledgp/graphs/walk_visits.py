"""Visits of walkers in compact form, weighed by a series.

A row's visits are its nodes in order, and for each node its steps in order with the number of
walkers that stood there. Features and their derivatives are sums over visits (`weigh`,
`weigh_back`).

Rows of any length that threads write side by side, into their final place.

Blocks of rows are worked on at once and finish in any order. Each takes its place when the blocks
before it have taken theirs, and is copied there at once: nothing is held twice but one block for
each thread. The arrays have room for the largest expected size. Memory that is never written to is
never given by the system, and the room that is left over goes back at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.compiled import compiled, share_rows
from coupledgp.random import FloatArray, IntArray

# Rows that one thread weighs at a time; their sums are added up in order.
WIDE_BLOCK_ROWS = 4096
# Distinct visits that are worth a call in a thread of its own.
LEAST_VISITS = 2**17


class PackedForm(NamedTuple):
    """Bits of a packed visit: `(is_first << step_bits | step) << count_bits | count - 1`.

    `is_first` marks the first visit of its node, `count` is the number of walkers.
    """

    step_bits: int
    count_bits: int

    @property
    def dtype(self) -> Any:
        """The smallest unsigned integers of at least two bytes that hold a visit."""
        n_bits = 1 + self.step_bits + self.count_bits
        return np.uint16 if n_bits <= 16 else np.uint32 if n_bits <= 32 else np.uint64


def form_of(n_walks: int, longest: int) -> PackedForm:
    """The form of visits of `n_walks` walkers that make at most `longest` steps."""
    return PackedForm(longest.bit_length(), (n_walks - 1).bit_length())


class Expanded(NamedTuple):
    """Visits without packing: for each (row, node) pair the steps and counts of its visits.

    `indptr` (rows + 1) delimits a row's nodes in `nodes`; `entry_ptr` (pairs + 1) delimits a
    pair's visits in `steps` and `counts`. Nodes and steps are sorted.
    """

    indptr: IntArray
    nodes: NDArray[np.int32]
    entry_ptr: IntArray
    steps: NDArray[np.uint16]
    counts: NDArray[np.uint32]


class Visits(NamedTuple):
    """Compact visits of some rows.

    `indptr` (rows + 1) delimits a row's nodes in `nodes` (pairs,), `entry_start` (rows + 1) its
    distinct visits in `entries`, which are packed as `form` says. Nodes and steps are sorted.
    """

    indptr: IntArray
    nodes: NDArray[np.int32]
    entry_start: IntArray
    entries: NDArray[Any]
    form: PackedForm

    @property
    def arrays(self) -> tuple[IntArray, NDArray[np.int32], IntArray, NDArray[Any]]:
        """Offsets, nodes, starts of entries and entries: the first four fields."""
        return self[:4]

    @property
    def steps(self) -> NDArray[np.uint16]:
        """Steps (v,) of the distinct visits."""
        steps = self.entries >> self.form.count_bits & (1 << self.form.step_bits) - 1
        return steps.astype(np.uint16)

    @property
    def counts(self) -> NDArray[np.uint32]:
        """Numbers (v,) of walkers of the distinct visits."""
        counts = self.entries & (1 << self.form.count_bits) - 1
        return counts.astype(np.uint32) + np.uint32(1)

    @property
    def entry_ptr(self) -> IntArray:
        """Offsets of each (row, node) pair's distinct visits (pairs + 1,)."""
        is_first = self.entries >> sum(self.form)
        return np.append(np.flatnonzero(is_first), self.entries.size)

    def expanded(self) -> Expanded:
        """The visits without packing."""
        return Expanded(self.indptr, self.nodes, self.entry_ptr, self.steps, self.counts)


def packed(visits: Expanded, form: PackedForm) -> Visits:
    """Pack visits into their compact form."""
    entries = visits.steps.astype(form.dtype) << form.count_bits | visits.counts - np.uint32(1)
    entries[visits.entry_ptr[:-1]] |= form.dtype(1 << sum(form))
    starts_of_rows = visits.entry_ptr[visits.indptr]
    return Visits(visits.indptr, visits.nodes, starts_of_rows, entries.astype(form.dtype), form)


def starts(sizes: IntArray) -> IntArray:
    """Offsets `0, s_0, s_0 + s_1, ...` (n + 1,) of consecutive runs of sizes s (n,)."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


@compiled
def _weigh(  # type: ignore[no-untyped-def]
    first, last, indptr, nodes, entry_start, entries, step_bits, count_bits,
    per_step, row_scale, node_scale, out,
):  # fmt: skip
    steps, counts = (1 << step_bits) - 1, (1 << count_bits) - 1
    for r in range(first, last):
        pair, total = indptr[r] - 1, 0.0
        for entry in range(entry_start[r], entry_start[r + 1]):
            code = np.int64(entries[entry])
            if code >> (step_bits + count_bits):
                pair += 1
                total = 0.0
            total += per_step[(code >> count_bits) & steps] * ((code & counts) + 1)
            out[pair] = total * (row_scale[r] * node_scale[nodes[pair]])


def weigh(
    visits: Visits, per_step: FloatArray, row_scale: FloatArray, node_scale: FloatArray
) -> FloatArray:
    """`row_scale * node_scale * sum_t per_step[t] * count_t` for each (row, node), (pairs,).

    Parameters
    ----------
    visits
        Visits of some rows.
    per_step
        Weights of the steps, (steps,).
    row_scale, node_scale
        Factors of the rows and of all nodes, (rows,) and (n_nodes,).
    """
    out = np.empty(visits.nodes.size)
    given = *visits.arrays, *visits.form, per_step, row_scale, node_scale, out

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for block in blocks:
            _weigh(*block, *given)

    share_rows(work, row_scale.size, _least_rows(visits), row_scale.size)
    return out


@compiled
def _weigh_back(  # type: ignore[no-untyped-def]
    first, last, indptr, nodes, entry_start, entries, step_bits, count_bits, left, right, sums
):
    n_rows = indptr.size - 1
    steps, counts = (1 << step_bits) - 1, (1 << count_bits) - 1
    for block in range(first, last):
        for r in range(block * WIDE_BLOCK_ROWS, min((block + 1) * WIDE_BLOCK_ROWS, n_rows)):
            pair, product = indptr[r] - 1, 0.0
            for entry in range(entry_start[r], entry_start[r + 1]):
                code = np.int64(entries[entry])
                if code >> (step_bits + count_bits):
                    pair += 1
                    product = 0.0
                    for k in range(left.shape[1]):
                        product += left[r, k] * right[nodes[pair], k]
                sums[block, (code >> count_bits) & steps] += product * ((code & counts) + 1)


def weigh_back(visits: Visits, left: FloatArray, right: FloatArray, n_steps: int) -> FloatArray:
    """`sum_(i, j) left_i . right_j count_t(i, j)` for each step t, shape (n_steps,).

    Blocks of rows are added up in order, so that the bits do not depend on the threads.

    Parameters
    ----------
    visits
        Visits of some rows.
    left, right
        Vectors of the rows and of all nodes, (rows, k) and (n_nodes, k).
    n_steps
        Number of steps.
    """
    n_blocks = -(-(visits.indptr.size - 1) // WIDE_BLOCK_ROWS)
    sums = np.zeros((n_blocks, n_steps))
    given = *visits.arrays, *visits.form, left, right, sums

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for block in blocks:
            _weigh_back(*block, *given)

    share_rows(work, n_blocks, least=1, most=1)
    return sums.sum(axis=0)


def _least_rows(visits: Visits) -> int:
    """Rows of `LEAST_VISITS` visits on average."""
    return -(-LEAST_VISITS * (visits.indptr.size - 1) // max(visits.entries.size, 1))


class Track:
    """Arrays of one value for each of a row's items, and the places where rows start.

    Parameters
    ----------
    n_rows
        Number of rows.
    room
        Number of items that are expected at most; more make the arrays grow.
    *dtypes
        Types of the arrays.
    """

    def __init__(self, n_rows: int, room: int, *dtypes: Any) -> None:
        self.starts = np.zeros(n_rows + 1, dtype=np.int64)
        self.arrays = [np.empty(room, dtype) for dtype in dtypes]

    def place(self, first: int, sizes: IntArray) -> slice:
        """Take a place for rows from `first` on of given sizes (n,), behind the rows before."""
        begin = self.starts[first]
        ends = self.starts[first + 1 : first + 1 + sizes.size]
        np.cumsum(sizes, out=ends)
        ends += begin
        return slice(int(begin), int(ends[-1]))

    def reach(self, size: int) -> None:
        """Make the arrays as large as `size` at least."""
        for k, array in enumerate(self.arrays):
            if array.size < size:
                larger = np.empty(size + size // 2, array.dtype)
                larger[: array.size] = array
                self.arrays[k] = larger

    def finish(self) -> list[NDArray[Any]]:
        """The starts and the arrays, which cannot be changed any more."""
        for array in self.arrays:
            array.resize(int(self.starts[-1]), refcheck=False)
        found = [self.starts, *self.arrays]
        for array in found:
            array.flags.writeable = False
        return found


class Store:
    """Tracks to which blocks of rows are added, in the order of the rows.

    Parameters
    ----------
    *tracks
        Tracks of the same rows.
    """

    def __init__(self, *tracks: Track) -> None:
        self.tracks = tracks
        self._turn = threading.Condition()
        self._next, self._copying, self._ended = 0, 0, False

    def add(
        self, first: int, sizes: Sequence[IntArray], values: Sequence[Sequence[NDArray[Any]]]
    ) -> None:
        """Add rows from `first` on as soon as all earlier rows are there.

        Parameters
        ----------
        first
            Number of the first row.
        sizes
            For each track the numbers of items of the rows, (n,).
        values
            For each track its arrays, the rows' items one after the other; room behind them is
            ignored.
        """
        with self._turn:
            self._turn.wait_for(lambda: self._next == first or self._ended)
            if self._ended:
                return
            taken = [track.place(first, n) for track, n in zip(self.tracks, sizes, strict=True)]
            self._grow(taken)
            self._next = first + sizes[0].size
            self._copying += 1
            self._turn.notify_all()
        try:
            for track, place, given in zip(self.tracks, taken, values, strict=True):
                for array, part in zip(track.arrays, given, strict=True):
                    array[place] = part[: place.stop - place.start]
        finally:
            with self._turn:
                self._copying -= 1
                self._turn.notify_all()

    def _grow(self, taken: list[slice]) -> None:
        """Make the arrays large enough, when no other block is being copied."""
        for track, place in zip(self.tracks, taken, strict=True):
            if any(array.size < place.stop for array in track.arrays):
                self._turn.wait_for(lambda: self._copying == 0)
                track.reach(place.stop)

    def end(self) -> None:
        """Let no block wait any longer for one that failed."""
        with self._turn:
            self._ended = True
            self._turn.notify_all()
