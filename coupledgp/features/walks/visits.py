"""Visits of walkers in compact form: merged, stored, and weighed by a series.

A row's visits come as codes `node * 2^16 + step`, one for each walker and step. Equal codes are
counted and written packed (`merge_rows`), and unpacked into `Visits` once all rows are walked.
Features and their derivatives are sums over visits (`weigh`, `weigh_back`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.compiled import compiled, part, share_rows
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
# Distinct visits that are worth a call in a thread of its own.
LEAST_VISITS = 2**17


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

    `table` (3, slots) is a hash table of nodes. `ids` (5, visits) has an entry for each node of the
    row in its first three rows, and for each distinct visit in the last two.
    """

    table: IntArray
    ids: IntArray


# Rows of `Tally.table`: the tag of the row that took a slot, its node, and the node's number.
TAG, NODE, NUMBER = range(3)
# Rows of `Tally.ids`. For each node: itself and its number in one word, its last distinct visit,
# and the number of these, later the place of the next one. For each distinct visit: the number of
# its node, and what is packed.
KEY, LAST, PLACE, OWNER, FOUND = range(5)


def tally_for(most: int) -> Tally:
    """Work arrays for rows of at most `most` visits."""
    size = 2
    while size < 2 * most:
        size *= 2
    return Tally(np.zeros((3, size), dtype=np.int64), np.empty((5, most), dtype=np.int64))


@part
def _count(begin, end, codes, tag, table, ids):  # type: ignore[no-untyped-def]
    """Count equal codes; return the numbers of nodes and of distinct visits.

    Codes come in order of step. Nodes are numbered as they first appear, through a hash table
    whose slots are free unless marked by this row's `tag`, above zero.
    """
    mask = table.shape[1] - 1
    n_ids, n_entries = 0, 0
    for k in range(begin, end):
        node, step = codes[k] >> STEP_BITS, codes[k] & STEP_MASK
        slot = np.int64((np.uint64(node) * GOLDEN) >> np.uint64(40)) & mask
        while table[TAG, slot] == tag and table[NODE, slot] != node:
            slot = (slot + 1) & mask
        if table[TAG, slot] != tag:
            table[TAG, slot] = tag
            table[NODE, slot] = node
            table[NUMBER, slot] = n_ids
            ids[KEY, n_ids] = (node << 32) | n_ids
            ids[LAST, n_ids] = -1
            ids[PLACE, n_ids] = 0
            n_ids += 1
        i = table[NUMBER, slot]
        entry = ids[LAST, i]
        if entry < 0 or (ids[FOUND, entry] >> COUNT_BITS) & STEP_MASK != step:
            ids[LAST, i] = n_entries
            ids[PLACE, i] += 1
            ids[OWNER, n_entries] = i
            ids[FOUND, n_entries] = (node << (STEP_BITS + COUNT_BITS)) | (step << COUNT_BITS) | 1
            n_entries += 1
        else:
            ids[FOUND, entry] += 1
    return n_ids, n_entries


@part
def _sort_keys(n_ids, ids):  # type: ignore[no-untyped-def]
    """Sort the keys, which are distinct, by Shell's method: numba's own sort compiles for long."""
    gap = 1
    while gap < n_ids:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for k in range(gap, n_ids):
            key, to = ids[KEY, k], k
            while to >= gap and ids[KEY, to - gap] > key:
                ids[KEY, to] = ids[KEY, to - gap]
                to -= gap
            ids[KEY, to] = key


@part
def _write(n_ids, n_entries, begin, ids, packed):  # type: ignore[no-untyped-def]
    """Write distinct visits `node, step, count`, by node and step, from `begin` on."""
    start = begin
    for k in range(n_ids):
        i = ids[KEY, k] & 0xFFFFFFFF
        size = ids[PLACE, i]
        ids[PLACE, i] = start
        start += size
    for entry in range(n_entries):
        i = ids[OWNER, entry]
        packed[ids[PLACE, i]] = ids[FOUND, entry]
        ids[PLACE, i] += 1


@compiled
def merge_rows(first, last, offsets, packed, n_pairs, n_entries, table, ids):  # type: ignore[no-untyped-def]
    """Merge the codes of each row, `n_entries` of them from its offset on, in place."""
    for r in range(first, last):
        begin = offsets[r]
        n_ids, n_found = _count(begin, begin + n_entries[r], packed, r + 1, table, ids)
        _sort_keys(n_ids, ids)
        _write(n_ids, n_found, begin, ids, packed)
        n_pairs[r], n_entries[r] = n_ids, n_found


@compiled
def _unpack(first, last, offsets, packed, entry_start, indptr, nodes, entry_ptr, step_of, counts):  # type: ignore[no-untyped-def]
    for r in range(first, last):
        pair, before = indptr[r] - 1, np.int64(-1)
        for entry in range(entry_start[r], entry_start[r + 1]):
            code = packed[offsets[r] + entry - entry_start[r]]
            node = code >> (STEP_BITS + COUNT_BITS)
            if node != before:
                before = node
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
        Visits as `merge_rows` packs them, one int64 each.
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

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for block in blocks:
            _unpack(*block, offsets, packed, entry_start, *visits)

    share_rows(work, n_pairs.size, _least_rows(visits), n_pairs.size)
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


@compiled
def _weigh(  # type: ignore[no-untyped-def]
    first, last, indptr, nodes, entry_ptr, steps, counts, per_step, row_scale, node_scale, out
):
    for r in range(first, last):
        for pair in range(indptr[r], indptr[r + 1]):
            total = 0.0
            for entry in range(entry_ptr[pair], entry_ptr[pair + 1]):
                total += per_step[steps[entry]] * counts[entry]
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

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for block in blocks:
            _weigh(*block, *visits, per_step, row_scale, node_scale, out)

    share_rows(work, row_scale.size, _least_rows(visits), row_scale.size)
    return out


@compiled
def _weigh_back(first, last, indptr, nodes, entry_ptr, steps, counts, left, right, sums):  # type: ignore[no-untyped-def]
    n_rows = indptr.size - 1
    for block in range(first, last):
        for r in range(block * WIDE_BLOCK_ROWS, min((block + 1) * WIDE_BLOCK_ROWS, n_rows)):
            for pair in range(indptr[r], indptr[r + 1]):
                product = 0.0
                for k in range(left.shape[1]):
                    product += left[r, k] * right[nodes[pair], k]
                for entry in range(entry_ptr[pair], entry_ptr[pair + 1]):
                    sums[block, steps[entry]] += product * counts[entry]


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

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for block in blocks:
            _weigh_back(*block, *visits, left, right, sums)

    share_rows(work, n_blocks, least=1, most=1)
    return sums.sum(axis=0)


def _least_rows(visits: Visits) -> int:
    """Rows of `LEAST_VISITS` visits on average."""
    return -(-LEAST_VISITS * (visits.indptr.size - 1) // max(visits.steps.size, 1))
