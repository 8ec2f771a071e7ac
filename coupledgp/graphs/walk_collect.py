"""Walks of all rows, in blocks that threads share: to visits, or at once to weighted sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings.walkers.registry import WalkerCoupling
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_columns import WIDTH, SortedVisits, merge_columns, weigh_columns
from coupledgp.graphs.walk_lengths import LengthsOf
from coupledgp.graphs.walk_reference import plain_walk
from coupledgp.graphs.walk_steps import Moves, moves_of
from coupledgp.graphs.walk_visits import PackedForm, Store, Track, Visits, form_of, weigh
from coupledgp.graphs.walks import LEAST_ROWS, Engine
from coupledgp.ground.compiled import share_rows
from coupledgp.random import FloatArray, IntArray

# Visits of a block: their codes take half a megabyte, which stays in the cache until all is done.
BLOCK_VISITS = 2**17


@dataclass(frozen=True)
class WalkTask:
    """Settings of the walks to sample.

    Attributes
    ----------
    graph
        The graph.
    rows
        Start nodes (n,).
    n_walks, coupling
        Numbers of walkers of the start nodes (n,), and the joint law of those of one node.
    survival
        Chances (T + 1,) that a walk has at least t steps, T the maximum length.
    seed
        Seed of the walks, below 2^63.
    lengths_of
        Function of start nodes (k,) that draws their walkers' lengths (k, most), zero beyond the
        last walker of a node.
    """

    graph: Graph
    rows: IntArray
    n_walks: IntArray
    coupling: WalkerCoupling
    survival: FloatArray
    seed: int
    lengths_of: LengthsOf

    @property
    def longest(self) -> int:
        """Maximum length T."""
        return self.survival.size - 1

    @property
    def per_row(self) -> float:
        """Visits of a row on average, all walkers' start counted once."""
        return 1.0 + float(self.n_walks.mean()) * float(self.survival[1:].sum())

    @property
    def room(self) -> int:
        """Number of distinct visits that is expected at most."""
        most = self.rows.size + int(self.n_walks.sum()) * self.longest
        return min(int(1.02 * self.per_row * self.rows.size) + 2**16, most)

    @property
    def form(self) -> PackedForm:
        """Form of packed visits of this task."""
        return form_of(int(self.n_walks.max(initial=1)), self.longest)


class Weights(NamedTuple):
    """Weights of visits: of each step (T + 1,), each row (n,) and each node (n_nodes,)."""

    per_step: FloatArray
    row_scale: FloatArray
    node_scale: FloatArray


# For each track the numbers of items of some rows, and its arrays of items.
Found = tuple[Sequence[IntArray], Sequence[Sequence[NDArray[Any]]]]


class Tally(ABC):
    """Selected visits of a block of rows, made in one thread."""

    def __init__(self, task: WalkTask, *dtypes: Any) -> None:
        self.task = task
        self._room = [np.empty(0, dtype) for dtype in dtypes]

    def room(self, columns: SortedVisits) -> list[NDArray[Any]]:
        """Arrays with room for all codes, reused for the next block."""
        size = int(columns.n_codes.sum())
        if self._room[0].size < size:
            self._room = [np.empty(size + size // 8, array.dtype) for array in self._room]
        return self._room

    @abstractmethod
    def of_columns(self, first: int, columns: SortedVisits) -> Found:
        """The result for sorted codes of rows from `first` on."""

    @abstractmethod
    def of_visits(self, first: int, visits: Visits) -> Found:
        """The result for the visits of rows."""


class VisitCounts(Tally):
    """Visits of each (row, node) pair, in compact form."""

    def __init__(self, task: WalkTask) -> None:
        super().__init__(task, np.int32, task.form.dtype)

    def of_columns(self, first: int, columns: SortedVisits) -> Found:
        sizes = [np.empty_like(columns.n_codes) for _ in range(2)]
        nodes, entries = self.room(columns)
        out = nodes, entries, *sizes
        own = self.task.n_walks[first : first + columns.n_codes.size]
        merge_columns(*columns.read, *self.task.form, own, *out)
        return sizes, [[nodes], [entries]]

    def of_visits(self, first: int, visits: Visits) -> Found:
        sizes = [np.diff(visits.indptr), np.diff(visits.entry_start)]
        return sizes, [[visits.nodes], [visits.entries]]


class VisitSums(Tally):
    """The weighted sum of the visits of each (row, node)."""

    def __init__(self, task: WalkTask, weights: Weights) -> None:
        super().__init__(task, np.int32, np.float64)
        self.weights = weights

    def of_columns(self, first: int, columns: SortedVisits) -> Found:
        n_pairs = np.empty_like(columns.n_codes)
        nodes, values = self.room(columns)
        own = self.task.n_walks[first : first + n_pairs.size]
        given = self.task.form.step_bits, own, *self._part(first, n_pairs.size)
        weigh_columns(*columns.read, *given, nodes, values, n_pairs)
        return [n_pairs], [[nodes, values]]

    def of_visits(self, first: int, visits: Visits) -> Found:
        sizes = np.diff(visits.indptr)
        return [sizes], [[visits.nodes, weigh(visits, *self._part(first, sizes.size))]]

    def _part(self, first: int, n_rows: int) -> Weights:
        rows = self.weights.row_scale[first : first + n_rows]
        return self.weights._replace(row_scale=rows)


def collect_visits(task: WalkTask, block_visits: int = BLOCK_VISITS) -> Visits:
    """Walk from all rows, and store the visits."""
    tracks = [Track(task.rows.size, task.room, kind) for kind in (np.int32, task.form.dtype)]
    _fill(Store(*tracks), task, lambda: VisitCounts(task), block_visits)
    pairs, entries = (track.finish() for track in tracks)
    return Visits(pairs[0], pairs[1], entries[0], entries[1], task.form)


def collect_sums(
    task: WalkTask, weights: Weights, block_visits: int = BLOCK_VISITS
) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    """Walk, and store the weighted sum of the visits of each (row, node), as `visits.weigh` does.

    Returns
    -------
    tuple
        Offsets of the rows (n + 1,), nodes (pairs,) and sums (pairs,).
    """
    track = Track(task.rows.size, task.room, np.int32, np.float64)
    _fill(Store(track), task, lambda: VisitSums(task, weights), block_visits)
    starts, nodes, values = track.finish()
    return starts, nodes, values


def _fill(store: Store, task: WalkTask, result: Callable[[], Tally], block_visits: int) -> None:
    """Walk blocks of rows, and add their results to the store."""
    moves = moves_of(task.graph, task.per_row * task.rows.size)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        try:
            _work(blocks, store, task, moves, result())
        except BaseException:
            store.end()
            raise

    most = max(int(block_visits / task.per_row), 1)
    if most > WIDTH:
        most -= most % WIDTH
    share_rows(work, task.rows.size, min(LEAST_ROWS, most), most)


def _work(
    blocks: Iterator[tuple[int, int]], store: Store, task: WalkTask, moves: Moves, result: Tally
) -> None:
    """Do the work of one thread."""
    steps = task.coupling.steps
    engine = None
    if steps.compiled is not None:
        engine = Engine(task.seed, steps.compiled, moves, task.longest)
    for first, last in blocks:
        rows = task.rows[first:last]
        lengths = task.lengths_of(rows)
        if engine is None:
            own = task.n_walks[first:last]
            visits = plain_walk(task.seed, rows, lengths, steps, task.graph, task.longest, own)
            store.add(first, *result.of_visits(first, visits))
        else:
            store.add(first, *result.of_columns(first, engine.visits(rows, lengths)))
