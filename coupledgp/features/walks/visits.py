"""Visits of walkers in compact form: merged, stored, and weighed by a series.

A row's visits come as codes `node * 2^16 + step`, one for each walker and step. Equal codes are
counted (`merge`), written packed (`write`), and unpacked into `Visits` once all rows are walked.
Features and their derivatives are sums over visits (`weigh`, `weigh_back`).
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coupledgp.counter import GOLDEN
from coupledgp.random import FloatArray, IntArray

# A code is a node times 2^16 plus a step, so that walks have fewer than 2^16 steps.
STEP_BITS = 16
STEP_MASK = 2**STEP_BITS - 1
# A packed visit is node (31 bits), step (16) and count (16).
COUNT_BITS = 16
COUNT_MASK = 2**COUNT_BITS - 1
# Rows that one thread weighs at a time; their sums are added up in order.
WIDE_BLOCK_ROWS = 4096


class Visits(NamedTuple):
    """Compact visits of some rows: for each (row, node) pair the steps and counts of its visits.

    `indptr` (rows + 1) delimits a row's nodes in `nodes`; `entry_ptr` (pairs + 1) delimits a
    pair's visits in `steps` and `counts`. Nodes and steps are sorted.
    """

    indptr: IntArray
    nodes: NDArray[np.int32]
    entry_ptr: IntArray
    steps: NDArray[np.uint16]
    counts: NDArray[np.uint32]


class Tally(NamedTuple):
    """Work arrays in which one row's visits are counted.

    `table`, `stamp` and `id_of` are a hash table of nodes. `keys`, `last` and `place` have an entry
    for each node of the row; `ids` and `found` have one for each distinct visit.
    """

    table: IntArray
    stamp: IntArray
    id_of: IntArray
    keys: IntArray
    last: IntArray
    place: IntArray
    ids: IntArray
    found: IntArray


@numba.njit(cache=True)
def new_tally(most):  # type: ignore[no-untyped-def]
    """Work arrays for rows of at most `most` visits."""
    size = 2
    while size < 2 * most:
        size *= 2
    return Tally(
        np.empty(size, np.int64),
        np.zeros(size, np.int64),
        np.empty(size, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
    )


@numba.njit(cache=True)
def merge(codes, tag, tally):  # type: ignore[no-untyped-def]
    """Count equal codes; return the numbers of nodes and of distinct visits.

    `codes` come in order of step. Nodes are numbered as they first appear, through a hash table
    whose slots are free unless stamped with this row's `tag`, above zero. Each node is then given
    its place in order of nodes, for `write`.
    """
    table, stamp, id_of, keys, last, place, ids, found = tally
    mask = table.size - 1
    n_ids, n_entries = 0, 0
    for code in codes:
        node, step = code >> STEP_BITS, code & STEP_MASK
        slot = np.int64((np.uint64(node) * GOLDEN) >> np.uint64(40)) & mask
        while stamp[slot] == tag and table[slot] != node:
            slot = (slot + 1) & mask
        if stamp[slot] != tag:
            stamp[slot] = tag
            table[slot] = node
            id_of[slot] = n_ids
            keys[n_ids] = (node << 32) | n_ids
            last[n_ids] = -1
            place[n_ids] = 0
            n_ids += 1
        i = id_of[slot]
        entry = last[i]
        if entry < 0 or (found[entry] >> COUNT_BITS) & STEP_MASK != step:
            last[i] = n_entries
            place[i] += 1
            ids[n_entries] = i
            found[n_entries] = (node << (STEP_BITS + COUNT_BITS)) | (step << COUNT_BITS) | 1
            n_entries += 1
        else:
            found[entry] += 1
    keys[:n_ids].sort()
    start = 0
    for k in range(n_ids):
        i = keys[k] & 0xFFFFFFFF
        place[i], start = start, start + place[i]
    return n_ids, n_entries


@numba.njit(cache=True)
def write(tally, n_entries, offset, packed):  # type: ignore[no-untyped-def]
    """Write merged visits `node, step, count`, by node and step, to `packed` from `offset` on."""
    place, ids, found = tally.place, tally.ids, tally.found
    for entry in range(n_entries):
        to = place[ids[entry]]
        place[ids[entry]] = to + 1
        packed[offset + to] = found[entry]


@numba.njit(parallel=True, cache=True)
def _unpack(offsets, packed, entry_start, indptr, nodes, entry_ptr, step_of, counts):  # type: ignore[no-untyped-def]
    for r in numba.prange(offsets.size - 1):
        pair, last = indptr[r] - 1, np.int64(-1)
        for entry in range(entry_start[r], entry_start[r + 1]):
            code = packed[offsets[r] + entry - entry_start[r]]
            node = code >> (STEP_BITS + COUNT_BITS)
            if node != last:
                last = node
                pair += 1
                nodes[pair] = node
                entry_ptr[pair] = entry
            step_of[entry] = (code >> COUNT_BITS) & STEP_MASK
            counts[entry] = code & COUNT_MASK


def unpack(offsets: IntArray, packed: IntArray, n_pairs: IntArray, n_entries: IntArray) -> Visits:
    """The compact form of packed visits.

    Parameters
    ----------
    offsets
        Offsets of each row's visits in `packed`, (rows + 1,); there may be room behind them.
    packed
        Visits as `write` packs them, one int64 each.
    n_pairs, n_entries
        Number of distinct nodes, and of distinct visits, of each row, (rows,).
    """
    indptr, entry_start = starts(n_pairs), starts(n_entries)
    visits = Visits(
        indptr,
        np.empty(int(indptr[-1]), np.int32),
        np.empty(int(indptr[-1]) + 1, np.int64),
        np.empty(int(entry_start[-1]), np.uint16),
        np.empty(int(entry_start[-1]), np.uint32),
    )
    _unpack(offsets, packed, entry_start, *visits)
    visits.entry_ptr[-1] = entry_start[-1]
    return visits


def starts(sizes: IntArray) -> IntArray:
    """Offsets `0, s_0, s_0 + s_1, ...` (n + 1,) of consecutive runs of sizes s (n,)."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def concatenate(parts: list[Visits]) -> Visits:
    """Join the rows of several chunks."""
    if len(parts) == 1:
        return parts[0]
    pairs = starts(np.array([part.nodes.size for part in parts]))
    entries = starts(np.array([part.steps.size for part in parts]))
    indptr = [part.indptr[:-1] + pairs[k] for k, part in enumerate(parts)]
    entry_ptr = [part.entry_ptr[:-1] + entries[k] for k, part in enumerate(parts)]
    return Visits(
        np.concatenate([*indptr, pairs[-1:]]),
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([*entry_ptr, entries[-1:]]),
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )


@numba.njit(parallel=True, cache=True)
def weigh(indptr, nodes, entry_ptr, steps, counts, per_step, row_scale, node_scale, out):  # type: ignore[no-untyped-def]
    """`out[pair] = row_scale * node_scale * sum_t per_step[t] * count_t` for each (row, node)."""
    for r in numba.prange(indptr.size - 1):
        for pair in range(indptr[r], indptr[r + 1]):
            total = 0.0
            for entry in range(entry_ptr[pair], entry_ptr[pair + 1]):
                total += per_step[steps[entry]] * counts[entry]
            out[pair] = total * (row_scale[r] * node_scale[nodes[pair]])


@numba.njit(parallel=True, cache=True)
def _weigh_back(indptr, nodes, entry_ptr, steps, counts, left, right, sums):  # type: ignore[no-untyped-def]
    n_rows = indptr.size - 1
    for block in numba.prange(sums.shape[0]):
        first, last = block * WIDE_BLOCK_ROWS, min((block + 1) * WIDE_BLOCK_ROWS, n_rows)
        for r in range(first, last):
            for pair in range(indptr[r], indptr[r + 1]):
                product = 0.0
                for k in range(left.shape[1]):
                    product += left[r, k] * right[nodes[pair], k]
                for entry in range(entry_ptr[pair], entry_ptr[pair + 1]):
                    sums[block, steps[entry]] += product * counts[entry]


def weigh_back(
    indptr: IntArray,
    nodes: NDArray[np.int32],
    entry_ptr: IntArray,
    steps: NDArray[np.uint16],
    counts: NDArray[np.uint32],
    left: FloatArray,
    right: FloatArray,
    n_steps: int,
) -> FloatArray:
    """`sum_(i, j) left_i . right_j count_t(i, j)` for each step t, shape (n_steps,).

    Blocks of rows are added up in order, so that the bits do not depend on the threads.
    """
    sums = np.zeros((-(-(indptr.size - 1) // WIDE_BLOCK_ROWS), n_steps))
    _weigh_back(indptr, nodes, entry_ptr, steps, counts, left, right, sums)
    return sums.sum(axis=0)
