"""Rows of any length that threads write side by side, into their final place.

Blocks of rows are worked on at once and finish in any order. Each takes its place when the blocks
before it have taken theirs, and is copied there at once: nothing is held twice but one block for
each thread. The arrays have room for the largest expected size. Memory that is never written to is
never given by the system, and the room that is left over goes back at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import IntArray


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
