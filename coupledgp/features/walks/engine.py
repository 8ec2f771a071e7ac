"""The compiled walk engine: every walker of every wanted node, in lockstep, on all cores.

A walker at node c moves along an edge with probability in proportion to its weight (uniformly on
an unweighted graph, as in the papers). Its load then telescopes,

    L_t = prod_k W~[c_(k-1), c_k] / (P[c_(k-1), c_k] S_k / S_(k-1)) = sqrt(D_c0 / D_ct) / S_t ,

so the engine only counts the walkers of node i that are at node j at step t. Every random number is
a function of (seed, node, walker, step), see `coupledgp.counter`. `compiled_steps` moves walkers
that stand together, `visits` counts and stores their visits; `reference` does the work of the three
in plain Python, bit for bit the same. The machine code of this file contains functions of the other
files that it inlines, and numba does not see a change there: `tests/features/conftest.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from coupledgp.counter import SECOND_STREAMS, stream_key
from coupledgp.couplings.walkers.steps import INDEPENDENT, REPELLING
from coupledgp.features.walks.compiled_steps import (
    Groups,
    Moves,
    group,
    neighbour,
    new_groups,
    quantile,
    repel,
)
from coupledgp.features.walks.visits import (
    STEP_BITS,
    Visits,
    merge,
    new_tally,
    starts,
    unpack,
    write,
)
from coupledgp.random import IntArray

# Start nodes that a thread walks in one go, with one set of work arrays.
BLOCK_ROWS = 64


class Walkers(NamedTuple):
    """Positions of one start node's walkers, and work arrays of their moves.

    `alive` holds the numbers of the walkers that have not halted. With `Moves.targets`, `edge` is
    the edge along which each moves, `first` and `degree` are the first edge and the number of edges
    of the node at its end.
    """

    position: IntArray
    alive: IntArray
    edge: IntArray
    first: IntArray
    degree: IntArray
    groups: Groups


@numba.njit(cache=True)
def _new_walkers(n_walks):  # type: ignore[no-untyped-def]
    return Walkers(
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        new_groups(n_walks),
    )


@numba.njit(cache=True)
def _walk_row(seed, node, lengths, steps, moves, walkers, codes):  # type: ignore[no-untyped-def]
    """Walk one node's walkers and write a code `node * 2^16 + step` for every visit.

    With `moves.targets` a step has two loops: one draws an edge for every walker, the other loads
    the node at its end. The loads, one for each walker, then wait for memory together.
    """
    indptr, indices, cumulative, targets = moves
    position, alive, edge, first, degree, groups = walkers
    slot_of, rank, members, leader, _, stamp, taken, drawn, picked = groups
    n_walks = lengths.size
    longest = 0
    for w in range(n_walks):
        position[w] = node
        codes[w] = node << STEP_BITS
        alive[w] = w
        first[w] = indptr[node]
        degree[w] = indptr[node + 1] - indptr[node]
        longest = max(longest, lengths[w])
    n_codes = n_alive = n_walks
    if indptr[node + 1] == indptr[node]:
        return n_codes
    quick = targets.shape[0] > 0
    stamp[:] = 0
    for step in range(1, longest + 1):
        key = stream_key(seed, node, step)
        n_left = 0
        for k in range(n_alive):
            alive[n_left] = alive[k]
            n_left += lengths[alive[k]] >= step
        n_alive = n_left
        if steps != INDEPENDENT:
            group(position, lengths, step, groups)
        if steps == REPELLING:
            second = stream_key(seed, node, SECOND_STREAMS + step)
            repel(key, second, position, lengths, step, moves, slot_of, rank, taken, drawn, picked)
        elif quick:
            for k in range(n_alive):
                w = alive[k]
                v = quantile(steps, key, w, slot_of, rank, members, leader)
                edge[k] = first[w] + min(np.int64(v * degree[w]), degree[w] - 1)
            for k in range(n_alive):
                w = alive[k]
                first[w] = targets[edge[k], 0]
                behind = targets[edge[k], 1]
                position[w] = behind & 0xFFFFFFFF
                degree[w] = behind >> 32
        else:
            for k in range(n_alive):
                w = alive[k]
                v = quantile(steps, key, w, slot_of, rank, members, leader)
                position[w] = neighbour(indptr, indices, cumulative, position[w], v)
        for k in range(n_alive):
            codes[n_codes] = (position[alive[k]] << STEP_BITS) | step
            n_codes += 1
    return n_codes


@numba.njit(parallel=True, cache=True)
def _walk_rows(seed, rows, lengths, steps, moves, offsets, packed, n_pairs, n_entries, most):  # type: ignore[no-untyped-def]
    """Walk all rows and write each row's distinct visits, packed, from its offset on."""
    n_blocks = (rows.size + BLOCK_ROWS - 1) // BLOCK_ROWS
    for block in numba.prange(n_blocks):
        walkers, tally = _new_walkers(lengths.shape[1]), new_tally(most)
        codes = np.empty(most, np.int64)
        for r in range(block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows.size)):
            n_codes = _walk_row(seed, rows[r], lengths[r], steps, moves, walkers, codes)
            n_pairs[r], n_entries[r] = merge(codes[:n_codes], r + 1, tally)
            write(tally, n_entries[r], offsets[r], packed)


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
    _walk_rows(
        np.uint64(seed), rows, lengths, steps, moves, offsets, packed, n_pairs, n_entries, most
    )
    return unpack(offsets, packed, n_pairs, n_entries)


@numba.njit(parallel=True, cache=True)
def _ends(seed, rows, lengths, steps, moves, ends):  # type: ignore[no-untyped-def]
    """Walk all rows and keep the node at which each walker halts."""
    n_blocks = (rows.size + BLOCK_ROWS - 1) // BLOCK_ROWS
    for block in numba.prange(n_blocks):
        walkers = _new_walkers(lengths.shape[1])
        for r in range(block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows.size)):
            codes = np.empty(lengths[r].sum() + lengths.shape[1], np.int64)
            _walk_row(seed, rows[r], lengths[r], steps, moves, walkers, codes)
            ends[r] = walkers.position


def walk_ends(seed: int, rows: IntArray, lengths: IntArray, steps: int, moves: Moves) -> IntArray:
    """Nodes where the walkers of `walk` halt, shape (n, m)."""
    ends = np.empty(lengths.shape, dtype=np.int64)
    _ends(np.uint64(seed), rows, lengths, steps, moves, ends)
    return ends
