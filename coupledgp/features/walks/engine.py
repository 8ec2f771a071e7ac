"""The compiled walk engine: every walker of every wanted node, in lockstep, on all cores.

A walker at node c moves along an edge with probability in proportion to its weight (uniformly on
an unweighted graph, as in the papers). Its load then telescopes,

    L_t = prod_k W~[c_(k-1), c_k] / (P[c_(k-1), c_k] S_k / S_(k-1)) = sqrt(D_c0 / D_ct) / S_t ,

so the engine only counts the walkers of node i that are at node j at step t. Every random number is
a function of (seed, node, walker, step), see `coupledgp.counter`. `compiled_steps` moves walkers
that stand together, `visits` counts and stores their visits; `reference` does the work of the three
in plain Python, bit for bit the same. The machine code of this file contains parts from the other
files, and numba does not see a change there: `tests/stale_code.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coupledgp.compiled import compiled, part, share_rows
from coupledgp.counter import SECOND_STREAMS, stream_key
from coupledgp.features.walks.compiled_steps import (
    ALIVE,
    DEGREE,
    FIRST,
    POSITION,
    STAMP,
    Moves,
    group,
    move,
    move_quickly,
    repel,
    scratch_for,
    used,
)
from coupledgp.features.walks.visits import (
    STEP_BITS,
    Visits,
    merge_rows,
    starts,
    tally_for,
    unpack,
)
from coupledgp.random import IntArray

# Least number of start nodes in a block: with fewer, calls take a noticeable share of the time.
LEAST_ROWS = 64
# Number of visits in a block: half a megabyte, which is still in the cache when they are merged.
BLOCK_VISITS = 2**16


@part
def _start(node, r, lengths, indptr, walkers, groups):  # type: ignore[no-untyped-def]
    """Put one node's walkers on it; return the length of the longest walk."""
    longest = 0
    for w in range(lengths.shape[1]):
        walkers[POSITION, w] = node
        walkers[ALIVE, w] = w
        walkers[FIRST, w] = indptr[node]
        walkers[DEGREE, w] = indptr[node + 1] - indptr[node]
        if lengths[r, w] > longest:
            longest = lengths[r, w]
    if groups is not None:
        for slot in range(groups.shape[1]):
            groups[STAMP, slot] = 0
    return longest if indptr[node + 1] > indptr[node] else 0


@part
def _record(step, n_alive, walkers, codes, to):  # type: ignore[no-untyped-def]
    """Write a code `node * 2^16 + step` for every walker that still walks, if codes are wanted."""
    if codes is None:
        return to
    for k in range(n_alive):
        codes[to + k] = (walkers[POSITION, walkers[ALIVE, k]] << STEP_BITS) | step
    return to + n_alive


@part
def _survivors(step, r, lengths, n_alive, walkers):  # type: ignore[no-untyped-def]
    """Drop the walkers that halt before a step; return the number of the others."""
    n_left = 0
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        walkers[ALIVE, n_left] = w
        n_left += lengths[r, w] >= step
    return n_left


@compiled
def _walk_rows(  # type: ignore[no-untyped-def]
    first, last, seed, rows, lengths,
    indptr, indices, cumulative, targets,
    walkers, groups, leader, choices,
    offsets, codes, n_codes, ends,
):  # fmt: skip
    """Walk some rows; write a code for every visit, from the row's offset on, or the last nodes.

    Either `codes` and `n_codes` or `ends` are None; so are `indices` or `targets`.
    """
    for r in range(first, last):
        node, to, n_alive = rows[r], offsets[r], lengths.shape[1]
        longest = _start(node, r, lengths, indptr, walkers, groups)
        for step in range(longest + 1):
            if step > 0:
                key = stream_key(seed, node, step)
                n_alive = _survivors(step, r, lengths, n_alive, walkers)
                if groups is not None:
                    group(walkers, n_alive, step, groups)
                if choices is not None:
                    second = stream_key(seed, node, SECOND_STREAMS + step)
                    repel(key, second, n_alive, walkers, choices, indptr, indices, cumulative)
                elif targets is not None:
                    move_quickly(key, n_alive, walkers, groups, leader, targets)
                elif indices is not None:
                    move(key, n_alive, walkers, groups, leader, indptr, indices, cumulative)
            to = _record(step, n_alive, walkers, codes, to)
        if n_codes is not None:
            n_codes[r] = to - offsets[r]
        if ends is not None:
            for w in range(lengths.shape[1]):
                ends[r, w] = walkers[POSITION, w]


def walk(seed: int, rows: IntArray, lengths: IntArray, steps: int, moves: Moves) -> Visits:
    """Walk the given lengths from the given nodes.

    Parameters
    ----------
    seed
        Below 2^63.
    rows
        Start nodes, shape (n,).
    lengths
        Length of each walker, shape (n, m), m below 2^16. A walker on an isolated node stays at its
        start.
    steps
        `INDEPENDENT`, `REPELLING` or `SYSTEMATIC`.
    moves
        The graph's moves.
    """
    offsets = starts((lengths + 1).sum(axis=1))
    packed = np.empty(int(offsets[-1]), dtype=np.int64)
    n_pairs, n_entries = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
    most = int(np.diff(offsets).max(initial=1))
    walked = (np.uint64(seed), rows, lengths, *used(moves, steps))

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        scratch, tally = scratch_for(steps, lengths.shape[1]), tally_for(most)
        for block in blocks:
            _walk_rows(*block, *walked, *scratch, offsets, packed, n_entries, None)
            merge_rows(*block, offsets, packed, n_pairs, n_entries, *tally)

    share_rows(work, rows.size, LEAST_ROWS, max(BLOCK_VISITS // most, LEAST_ROWS))
    return unpack(offsets, packed, n_pairs, n_entries)


def walk_ends(seed: int, rows: IntArray, lengths: IntArray, steps: int, moves: Moves) -> IntArray:
    """Nodes where the walkers of `walk` halt, shape (n, m)."""
    ends = np.empty(lengths.shape, dtype=np.int64)
    offsets = np.zeros(rows.size, dtype=np.int64)
    walked = (np.uint64(seed), rows, lengths, *used(moves, steps))

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        scratch = scratch_for(steps, lengths.shape[1])
        for block in blocks:
            _walk_rows(*block, *walked, *scratch, offsets, None, None, ends)

    share_rows(work, rows.size, LEAST_ROWS, rows.size)
    return ends
