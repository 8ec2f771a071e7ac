"""The compiled walk engine: every walker of every wanted node, in lockstep, on all cores.

A walker at node c moves along an edge with probability in proportion to its weight (uniformly on
an unweighted graph, as in the papers). Its load then telescopes,

    L_t = prod_k W~[c_(k-1), c_k] / (P[c_(k-1), c_k] S_k / S_(k-1)) = sqrt(D_c0 / D_ct) / S_t ,

so the engine only counts the walkers of node i that are at node j at step t. Every random number is
a function of (seed, node, walker, step), see `coupledgp.ground.counter`. The rows that a thread
walks at a time step together, so that their loads from memory overlap; `compiled_steps` moves the
walkers, `columns` sorts and counts their visits, and `store` keeps the result in the order of the
rows. `reference` walks in plain Python, with the same result bit for bit. The machine code of this
file contains parts from the other files, and numba does not see a change there:
`tests/stale_code.py`.

Visits as codes, in columns that one loop sorts side by side.

A row's codes are `node * 2^step_bits + step`, one for each walker and step, and one for all walkers
at their start. `WIDTH` rows stand side by side, one to a column of a table, and a sorting network
(Batcher, 1968) orders all columns at once: an exchange of two lines is one vector instruction for
several rows. Rows that are too long for that lie one behind the other and are sorted by their
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings.walkers.steps import INDEPENDENT
from coupledgp.graphs.walk_steps import (
    ALIVE,
    BASE,
    EDGE,
    STAMP,
    WORD,
    Moves,
    arrive,
    choose_apart,
    choose_spread,
    group,
    repel,
    scratch_for,
    used,
    word_of,
)
from coupledgp.ground.compiled import compiled, part, share_rows
from coupledgp.ground.counter import (
    SECOND_STREAMS,
    key_of_stream,
    mix,
    node_key,
    shift_of,
    stream_key,
)
from coupledgp.random import IntArray

# Least number of start nodes in a block: with fewer, calls take a noticeable share of the time.
LEAST_ROWS = 64
# Walkers that step together: enough to wait for memory together, and few enough that their state
# stays in the cache nearest to the processor.
LOCKSTEP = 2048
# Rows of the table of independent walkers, with an entry for each: the word of its node, its row,
# its number, where its codes go, and the edge along which it moves.
AT, ROW, NUMBER, TO, ALONG = range(5)


@compiled
def _count_codes(rows, lengths, indptr, n_codes):  # type: ignore[no-untyped-def]
    """Count the codes of each row; return the most."""
    most = np.int64(1)
    for r in range(rows.size):
        n = np.int64(1)
        if indptr[rows[r] + 1] > indptr[rows[r]]:
            for w in range(lengths.shape[1]):
                n += lengths[r, w]
        n_codes[r] = n
        most = max(most, n)
    return most


@part
def _line_up(first, last, rows, lengths, indptr, walkers, until, width, height):  # type: ignore[no-untyped-def]
    """List the walkers of some rows, longest walks first; return the length of the longest walk.

    `until[t]` becomes the number of walkers that make step t; `until[0]` is the number of all
    walkers.
    """
    longest = np.int64(0)
    for r in range(first, last):
        for w in range(lengths.shape[1]):
            longest = max(longest, lengths[r, w])
    for length in range(longest + 1):
        until[length] = 0
    for r in range(first, last):
        moves = indptr[rows[r] + 1] > indptr[rows[r]]
        for w in range(lengths.shape[1]):
            until[lengths[r, w] if moves else 0] += 1
    before = np.int64(0)
    for shorter in range(longest + 1):
        size = until[longest - shorter]
        until[longest - shorter] = before
        before += size
    for r in range(first, last):
        moves = indptr[rows[r] + 1] > indptr[rows[r]]
        place = place_of(r, width, height)
        for w in range(lengths.shape[1]):
            length = lengths[r, w] if moves else 0
            k = until[length]
            until[length] += 1
            walkers[ROW, k], walkers[NUMBER, k], walkers[TO, k] = r, w, place
            place += width * length
    return longest


@compiled
def _walk_apart(  # type: ignore[no-untyped-def]
    seed, rows, lengths,
    indptr, indices, cumulative, targets, node_bits, edge_bits,
    walkers, shifts, bits, row_keys, keys, until, codes, width, height, step_bits, ends,
):  # fmt: skip
    """Walk independent walkers; at each step the moving walkers come first in their list."""
    word, row, to, along = walkers[AT], walkers[ROW], walkers[TO], walkers[ALONG]
    together = keys.size
    within = (np.int64(1) << node_bits) - 1
    for first in range(0, rows.size, together):
        last = min(first + together, rows.size)
        longest = _line_up(first, last, rows, lengths, indptr, walkers, until, width, height)
        for k in range(until[0]):
            word[k] = word_of(rows[row[k]], indptr, targets, node_bits, edge_bits)
            shifts[k] = shift_of(walkers[NUMBER, k])
        for r in range(first, last):
            row_keys[r - first] = node_key(seed, rows[r])
            if codes is not None:
                codes[place_of(r, width, height)] = rows[r] << step_bits
        for step in range(1, longest + 1):
            n = until[step]
            for r in range(last - first):
                keys[r] = key_of_stream(row_keys[r], step)
            for k in range(n):
                bits[k] = mix(keys[row[k] - first] + shifts[k])
            choose_apart(n, bits, word, along, indptr, cumulative, targets, node_bits, edge_bits)
            for k in range(n):
                there = arrive(along[k], indices, targets)
                word[k] = there
                if codes is not None:
                    codes[to[k] + width * step] = ((there & within) << step_bits) | step
        if ends is not None:
            for k in range(until[0]):
                ends[row[k], walkers[NUMBER, k]] = word[k] & within


@part
def _set_out(  # type: ignore[no-untyped-def]
    first, last, rows, lengths, indptr, targets, node_bits, edge_bits,
    walkers, n_alive, codes, width, height, step_bits,
):  # fmt: skip
    """Put the walkers of some rows on their nodes; return the length of the longest walk."""
    longest = np.int64(0)
    for r in range(first, last):
        node, own = rows[r], walkers[r - first]
        place = place_of(r, width, height)
        if codes is not None:
            codes[place] = node << step_bits
        n_alive[r - first] = lengths.shape[1] if indptr[node + 1] > indptr[node] else 0
        for w in range(lengths.shape[1]):
            own[WORD, w] = word_of(node, indptr, targets, node_bits, edge_bits)
            own[ALIVE, w], own[BASE, w] = w, place
            place += width * lengths[r, w]
            longest = max(longest, lengths[r, w])
    return longest


@compiled
def _walk_together(  # type: ignore[no-untyped-def]
    seed, rows, lengths,
    indptr, indices, cumulative, targets, node_bits, edge_bits,
    walkers, n_alive, groups, leader, choices, codes, width, height, step_bits, ends,
):  # fmt: skip
    """Walk walkers that a law joins where they stand together."""
    within = (np.int64(1) << node_bits) - 1
    stamp = np.int64(0)
    for slot in range(groups.shape[1]):
        groups[STAMP, slot] = 0
    for first in range(0, rows.size, n_alive.size):
        last = min(first + n_alive.size, rows.size)
        longest = _set_out(
            first, last, rows, lengths, indptr, targets, node_bits, edge_bits,
            walkers, n_alive, codes, width, height, step_bits,
        )  # fmt: skip
        for step in range(1, longest + 1):
            for r in range(first, last):
                own, n = walkers[r - first], n_alive[r - first]
                n = _survivors(step, lengths[r], n, own)
                n_alive[r - first] = n
                stamp += 1
                key = stream_key(seed, rows[r], step)
                group(own, n, stamp, node_bits, groups)
                if choices is not None:
                    second = stream_key(seed, rows[r], SECOND_STREAMS + step)
                    repel(
                        key, second, n, own, choices,
                        indptr, cumulative, targets, node_bits, edge_bits,
                    )  # fmt: skip
                if leader is not None:
                    choose_spread(
                        key, n, own, groups, leader,
                        indptr, cumulative, targets, node_bits, edge_bits,
                    )  # fmt: skip
            for r in range(last - first):
                own = walkers[r]
                for k in range(n_alive[r]):
                    w = own[ALIVE, k]
                    there = arrive(own[EDGE, k], indices, targets)
                    own[WORD, w] = there
                    if codes is not None:
                        codes[own[BASE, w] + width * step] = ((there & within) << step_bits) | step
        if ends is not None:
            for r in range(first, last):
                for w in range(lengths.shape[1]):
                    ends[r, w] = walkers[r - first, WORD, w] & within


@part
def _survivors(step, lengths, n_alive, walkers):  # type: ignore[no-untyped-def]
    """Drop the walkers that halt before a step; return the number of walkers left."""
    n_left = 0
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        walkers[ALIVE, n_left] = w
        n_left += lengths[w] >= step
    return n_left


class Engine:
    """Walks blocks of rows in one thread.

    Parameters
    ----------
    seed
        Below 2^63.
    steps
        `INDEPENDENT`, `REPELLING` or `SYSTEMATIC`.
    moves
        The graph's moves.
    longest
        Most steps of a walk, below 2^16.
    """

    def __init__(self, seed: int, steps: int, moves: Moves, longest: int) -> None:
        self.seed, self.steps, self.moves, self.longest = np.uint64(seed), steps, moves, longest
        self.step_bits = longest.bit_length()
        self._code_bits = int(moves.indptr.size - 1).bit_length() + self.step_bits
        self._scratch: tuple[Any, ...] = ()
        self._codes: CodeArray = np.empty(0, np.uint32)

    def visits(self, rows: IntArray, lengths: IntArray) -> SortedVisits:
        """Codes of all visits of the walkers of start nodes (n,), whose lengths are (n, m).

        They are sorted. A walker on an isolated node stays at its start.
        """
        n_codes = np.empty(rows.size, dtype=np.int64)
        height = int(_count_codes(rows, lengths, self.moves.indptr, n_codes))
        columns = columns_for(n_codes, height, self._code_bits, self._codes)
        self._codes = columns.codes
        form = columns.codes, columns.width, columns.height, self.step_bits, None
        self._walk(rows, lengths, *form)
        columns.sort()
        return columns

    def ends(self, rows: IntArray, lengths: IntArray) -> IntArray:
        """Nodes where the walkers halt, shape (n, m)."""
        ends = np.empty(lengths.shape, dtype=np.int64)
        self._walk(rows, lengths, None, 1, 0, 0, ends)
        return ends

    def _walk(self, rows: IntArray, lengths: IntArray, *out: object) -> None:
        given = self.seed, rows, lengths, *used(self.moves)
        walk = _walk_apart if self.steps == INDEPENDENT else _walk_together
        if not self._scratch:
            self._scratch = self._room(lengths.shape[1])
        walk(*given, *self._scratch, *out)

    def _room(self, n_walks: int) -> tuple[Any, ...]:
        """Work arrays for the rows that step together."""
        together = max(LOCKSTEP // n_walks, 1)
        if self.steps != INDEPENDENT:
            return scratch_for(self.steps, together, n_walks)
        draws = np.empty((2, together * n_walks), dtype=np.uint64)
        keys = np.empty((2, together), dtype=np.uint64)
        walkers = np.empty((5, together * n_walks), dtype=np.int64)
        return walkers, *draws, *keys, np.empty(self.longest + 1, dtype=np.int64)


def walk_ends(seed: int, rows: IntArray, lengths: IntArray, steps: int, moves: Moves) -> IntArray:
    """Nodes where walkers of the given lengths (n, m) from the given nodes (n,) halt, (n, m)."""
    ends = np.empty(lengths.shape, dtype=np.int64)
    longest = int(lengths.max(initial=0))

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        engine = Engine(seed, steps, moves, longest)
        for first, last in blocks:
            ends[first:last] = engine.ends(rows[first:last], lengths[first:last])

    share_rows(work, rows.size, LEAST_ROWS, max(2**16 // max(lengths.shape[1], 1), LEAST_ROWS))
    return ends


# Rows that are sorted side by side: four registers of sixteen words.
WIDTH = 64
# Longest rows that are; beyond it the network makes more exchanges than bytes are moved.
TALLEST = 1024

CodeArray = NDArray[np.unsignedinteger[Any]]


class SortedVisits(NamedTuple):
    """Codes of some rows.

    Code j of row r is `codes[(r // width) * height * width + j * width + r % width]`, for j below
    `n_codes[r]`; `spare` (height,) is room to sort long rows, and a code has `code_bits`.
    """

    codes: CodeArray
    spare: CodeArray
    n_codes: IntArray
    width: int
    height: int
    code_bits: int

    def sort(self) -> None:
        """Sort the codes of every row."""
        if self.width == 1:
            ends = np.empty(256, dtype=np.int64)
            _sort_long(self.codes, self.n_codes, self.height, self.code_bits, self.spare, ends)
        else:
            tables = -(-self.n_codes.size // WIDTH)
            size = tables * self.height * WIDTH
            lines = self.codes[:size].reshape(tables, self.height, WIDTH)
            _sort_columns(lines, self.n_codes, ~self.codes.dtype.type(0))

    @property
    def read(self) -> tuple[CodeArray, IntArray, int, int]:
        """The visits that sorted columns hold."""
        return self.codes, self.n_codes, self.width, self.height


def columns_for(n_codes: IntArray, height: int, code_bits: int, codes: CodeArray) -> SortedVisits:
    """Columns of rows of given lengths (n,), in the memory of `codes` if it is large enough."""
    width = WIDTH if height <= TALLEST else 1
    needed = -(-n_codes.size // width) * width * height
    dtype: Any = np.uint32 if code_bits <= 32 else np.uint64
    if codes.size < needed or codes.dtype != dtype:
        codes = np.empty(needed, dtype)
    spare = np.empty(height if width == 1 else 0, dtype)
    return SortedVisits(codes, spare, n_codes, width, height, code_bits)


@part
def place_of(r, width, height):  # type: ignore[no-untyped-def]
    """The place of the first code of row r."""
    return (r // width) * width * height + r % width


@part
def _exchange(lines, first, last, by):  # type: ignore[no-untyped-def]
    """Exchange entries of lines first..last with those `by` lines below where these are less."""
    for line in range(first, last):
        upper, lower = lines[line], lines[line + by]
        for k in range(WIDTH):  # a constant, so that the loop becomes vector instructions
            a, b = upper[k], lower[k]
            upper[k] = a if a < b else b
            lower[k] = b if a < b else a


@part
def _sort_lines(lines, n):  # type: ignore[no-untyped-def]
    """Sort the columns of the first n lines by Batcher's merges of odd and even places."""
    span = 1
    while span < n:
        by = span
        while by >= 1:
            first = by & (span - 1)
            while first + by < n:
                if (first + by) & (2 * span - 1) != 0:
                    _exchange(lines, first, first + min(by, n - first - by), by)
                first += 2 * by
            by >>= 1
        span <<= 1


@compiled
def _sort_columns(tables, n_codes, largest):  # type: ignore[no-untyped-def]
    """Sort the columns of tables (k, height, WIDTH); `largest` fills them below their codes."""
    for table in range(tables.shape[0]):
        lines, first = tables[table], table * WIDTH
        last, most = min(first + WIDTH, n_codes.size), np.int64(0)
        for r in range(first, last):
            most = max(most, n_codes[r])
        for r in range(first, last):
            for j in range(n_codes[r], most):
                lines[j, r - first] = largest
        _sort_lines(lines, most)


@compiled
def _sort_long(codes, n_codes, height, code_bits, spare, ends):  # type: ignore[no-untyped-def]
    """Sort rows, one stored behind the other, by the bytes of their codes, lowest first."""
    for r in range(n_codes.size):
        begin = r * height
        for shift in range(0, code_bits, 8):
            for byte in range(256):
                ends[byte] = 0
            for k in range(n_codes[r]):
                ends[(np.int64(codes[begin + k]) >> shift) & 255] += 1
            for byte in range(1, 256):
                ends[byte] += ends[byte - 1]
            for k in range(n_codes[r] - 1, -1, -1):
                own = (np.int64(codes[begin + k]) >> shift) & 255
                ends[own] -= 1
                spare[ends[own]] = codes[begin + k]
            for k in range(n_codes[r]):
                codes[begin + k] = spare[k]


@compiled
def merge_columns(  # type: ignore[no-untyped-def]
    codes, n_codes, width, height, step_bits, count_bits, n_walks,
    nodes, entries, n_pairs, n_entries,
):  # fmt: skip
    """Count equal codes: write nodes and packed visits of all rows, and how many there are.

    All walkers of a row, `n_walks[r]`, share the code of their start. Entries are written as
    `visits.Form` says.
    """
    pair, entry = np.int64(-1), np.int64(-1)
    for r in range(n_codes.size):
        at = place_of(r, width, height)
        pairs, found = pair, entry
        node_before, code_before, packed = np.int64(-1), np.int64(-1), np.int64(0)
        for j in range(n_codes[r]):
            code = np.int64(codes[at + j * width])
            node, step = code >> step_bits, code & ((1 << step_bits) - 1)
            is_pair, is_entry = node != node_before, code != code_before
            pair += is_pair
            entry += is_entry
            begun = (((is_pair << step_bits) | step) << count_bits) + (n_walks[r] - 1) * (step == 0)
            packed = begun if is_entry else packed + 1
            nodes[pair] = node
            entries[entry] = packed
            node_before, code_before = node, code
        n_pairs[r], n_entries[r] = pair - pairs, entry - found


@compiled
def weigh_columns(  # type: ignore[no-untyped-def]
    codes, n_codes, width, height, step_bits, n_walks, per_step, row_scale, node_scale,
    nodes, values, n_pairs,
):  # fmt: skip
    """Sum `per_step` over equal nodes: write nodes and values of all rows, and how many there are.

    The sums are those of `visits.weigh`, to the last bit: equal codes count at once.
    """
    pair = np.int64(-1)
    for r in range(n_codes.size):
        at = place_of(r, width, height)
        pairs, scale = pair, row_scale[r]
        node_before, code_before = np.int64(-1), np.int64(-1)
        before, total, count = 0.0, 0.0, np.int64(0)
        for j in range(n_codes[r]):
            code = np.int64(codes[at + j * width])
            node, step = code >> step_bits, code & ((1 << step_bits) - 1)
            is_pair, is_entry = node != node_before, code != code_before
            pair += is_pair
            before = (0.0 if is_pair else total) if is_entry else before
            count = np.int64(n_walks[r] if step == 0 else 1) if is_entry else count + 1
            total = before + per_step[step] * count
            nodes[pair] = node
            values[pair] = total * (scale * node_scale[node])
            node_before, code_before = node, code
        n_pairs[r] = pair - pairs
