"""Visits of walkers in compact form, weighed by a series.

A row's visits are its nodes in order, and for each node its steps in order with the number of
walkers that stood there. Features and their derivatives are sums over visits (`weigh`,
`weigh_back`).

Rows of any length that threads write side by side, into their final place.

Blocks of rows are worked on at once and finish in any order. Each takes its place when the blocks
before it have taken theirs, and is copied there at once: nothing is held twice but one block for
each thread. The arrays have room for the largest expected size. Memory that is never written to is
never given by the system, and the room that is left over goes back at the end.

The walks in plain Python and numpy, a slow and short reference for the compiled engine.

The engine must give the same visits bit for bit (`tests/graphs/test_walk_engine.py`). Laws of
steps that are not compiled run here.

Walks of all rows, in blocks that threads share: to visits, or at once to weighted sums.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings.walkers.registry import WalkerCoupling
from coupledgp.couplings.walkers.steps import Steps
from coupledgp.errors import CoupledGPError
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_steps import Moves, moves_of
from coupledgp.graphs.walks import (
    LEAST_ROWS,
    WIDTH,
    Engine,
    SortedVisits,
    merge_columns,
    weigh_columns,
)
from coupledgp.ground.compiled import compiled, share_rows
from coupledgp.ground.counter import SECOND_STREAMS, counter_uniforms
from coupledgp.random import FloatArray, IntArray

# Lengths (n, m) of the walks of rows (n,).
LengthsOf = Callable[[IntArray], IntArray]
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


def paths(seed: int, node: int, lengths: IntArray, steps: Steps, graph: Graph) -> list[list[int]]:
    """Nodes at which each of one node's m walkers stands at steps 0, 1, ..., from lengths (m,)."""
    walked = [[node] for _ in lengths]
    if graph.indptr[node] == graph.indptr[node + 1]:
        return walked
    longest = int(lengths.max())
    start = np.array([node])
    for step in range(1, longest + 1):
        u = [counter_uniforms(seed, start, s, lengths.size) for s in (step, SECOND_STREAMS + step)]
        groups: dict[int, list[int]] = {}
        for walker in np.flatnonzero(lengths >= step).tolist():
            groups.setdefault(walked[walker][-1], []).append(walker)
        for here, walkers in groups.items():
            moved = move(here, np.concatenate(u)[:, walkers], steps, graph)
            for walker, there in zip(walkers, moved, strict=True):
                walked[walker].append(there)
    return walked


def visits_of(walked: list[list[int]]) -> Counter[tuple[int, int]]:
    """Number of walkers at each (node, step), step 0 included."""
    return Counter((node, step) for path in walked for step, node in enumerate(path))


def move(node: int, u: FloatArray, steps: Steps, graph: Graph) -> list[int]:
    """Next nodes of the k walkers that stand together on `node`, given uniforms (2, k)."""
    row = slice(graph.indptr[node], graph.indptr[node + 1])
    found = graph.indices[row]
    weights = graph.weights[row] if graph.is_weighted else None
    places = np.asarray(steps.choose(u, found.size, weights))
    ok = places.shape == (u.shape[1],) and places.dtype.kind in "iu"
    if not ok or places.min() < 0 or places.max() >= found.size:
        raise CoupledGPError(
            f"{type(steps).__name__}.choose returned {places!r}, expected {u.shape[1]} integers "
            f"from 0 to {found.size - 1}"
        )
    return [int(there) for there in found[places]]


def plain_walk(
    seed: int,
    rows: IntArray,
    lengths: IntArray,
    steps: Steps,
    graph: Graph,
    longest: int,
    n_walks: IntArray | None = None,
) -> Visits:
    """Visits as the engine finds them, for rows (n,), lengths (n, m) up to `longest`, any steps.

    Given `n_walks` (n,), start node r has as many walkers, with the first lengths of its row.
    """
    most = np.full(rows.size, lengths.shape[1]) if n_walks is None else n_walks
    walked = (
        paths(seed, int(node), lengths[r, : most[r]], steps, graph) for r, node in enumerate(rows)
    )
    visits = expanded_visits(visits_of(row) for row in walked)
    return packed(visits, form_of(lengths.shape[1], longest))


def plain_ends(
    seed: int, rows: IntArray, lengths: IntArray, steps: Steps, graph: Graph
) -> IntArray:
    """Nodes (n, m) where walkers halt, as from `engine.walk_ends`, for any law of steps."""
    walked = (paths(seed, int(node), lengths[r], steps, graph) for r, node in enumerate(rows))
    return np.array([[path[-1] for path in row] for row in walked], dtype=np.int64)


def expanded_visits(counted: Iterable[Counter[tuple[int, int]]]) -> Expanded:
    """Each row's counts of visits as arrays."""
    nodes: list[int] = []
    n_pairs, n_entries, steps, counts = [], [], [], []
    for row in counted:
        before = len(nodes)
        for node, step in sorted(row):
            if len(nodes) == before or nodes[-1] != node:
                nodes.append(node)
                n_entries.append(0)
            n_entries[-1] += 1
            steps.append(step)
            counts.append(row[node, step])
        n_pairs.append(len(nodes) - before)
    return Expanded(
        starts(np.array(n_pairs, dtype=np.int64)),
        np.array(nodes, dtype=np.int32),
        starts(np.array(n_entries, dtype=np.int64)),
        np.array(steps, dtype=np.uint16),
        np.array(counts, dtype=np.uint32),
    )


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
