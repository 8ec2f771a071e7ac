"""The compiled walk engine: every walker of every wanted node, in lockstep, on all cores.

A walker at node c moves along an edge with probability in proportion to its weight (uniformly on
an unweighted graph, as in the papers). Its load then telescopes,

    L_t = prod_k W~[c_(k-1), c_k] / (P[c_(k-1), c_k] S_k / S_(k-1)) = sqrt(D_c0 / D_ct) / S_t ,

so the engine only counts: how many walkers of node i are at node j at step t. Every random number
is a function of (seed, node, walker, step), see `coupledgp.counter`. The plain twin of this file
is `walk_reference`; the two agree bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coupledgp.counter import SECOND_STREAMS, stream_key, uniform
from coupledgp.couplings.steps import INDEPENDENT, REPELLING
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray

IntArray = NDArray[np.int64]
STEP_BITS = 16
STEP_MASK = 2**STEP_BITS - 1
BLOCK_ROWS = 64
WIDE_BLOCK_ROWS = 4096


class Moves(NamedTuple):
    """What a walker needs of the graph: rows of neighbours and running sums of their weights.

    `cumulative` is empty for unweighted graphs.
    """

    indptr: IntArray
    indices: NDArray[np.int32]
    cumulative: FloatArray


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


def moves_of(graph: Graph) -> Moves:
    """The moves on a graph."""
    if not graph.is_weighted:
        return Moves(graph.indptr, graph.indices, np.empty(0))
    return Moves(graph.indptr, graph.indices, _row_sums(graph.indptr, graph.weights))


@numba.njit(cache=True)
def _row_sums(indptr, weights):  # type: ignore[no-untyped-def]
    sums = np.empty_like(weights)
    for row in range(indptr.size - 1):
        total = 0.0
        for edge in range(indptr[row], indptr[row + 1]):
            total += weights[edge]
            sums[edge] = total
    return sums


@numba.njit(cache=True, inline="always")
def _neighbour(indptr, indices, cumulative, node, v):  # type: ignore[no-untyped-def]
    """The neighbour of `node` at quantile v of its edge weights."""
    first, last = indptr[node], indptr[node + 1] - 1
    if cumulative.size == 0:
        return indices[min(first + np.int64(v * (last + 1 - first)), last)]
    return indices[_place(cumulative, first, last, v * cumulative[last])]


@numba.njit(cache=True, inline="always")
def _place(cumulative, first, last, goal):  # type: ignore[no-untyped-def]
    """The first place of `first..last` whose running sum is above `goal`, at most `last`."""
    while first < last:
        middle = (first + last) // 2
        if goal < cumulative[middle]:
            last = middle
        else:
            first = middle + 1
    return first


@numba.njit(cache=True)
def _group(position, lengths, step, table, stamp, slot_of, members, rank):  # type: ignore[no-untyped-def]
    """Gather the walkers that move at `step` by the node they stand on.

    `slot_of[w]` is walker w's group, `members[slot]` its size, `rank[w]` its place in it in order
    of walker number; a group is led by its member of rank 0.
    """
    mask = np.uint64(table.shape[0] - 1)
    for w in range(position.size):
        if lengths[w] < step:
            continue
        slot = np.int64(
            (np.uint64(position[w]) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
        )
        while stamp[slot] == step and table[slot] != position[w]:
            slot = (slot + 1) & np.int64(mask)
        if stamp[slot] != step:
            stamp[slot] = step
            table[slot] = position[w]
            members[slot] = 0
        slot_of[w] = slot
        rank[w] = members[slot]
        members[slot] += 1


@numba.njit(cache=True)
def _repel(key, second, position, lengths, step, slot_of, rank, moves, taken, drawn, picked):  # type: ignore[no-untyped-def]
    """Move co-located walkers to neighbours that are distinct, as `RepellingSteps` says."""
    indptr, indices, cumulative = moves
    for leader in range(position.size):
        if lengths[leader] < step or rank[leader] != 0:
            continue
        node = position[leader]
        first, last = indptr[node], indptr[node + 1] - 1
        if cumulative.size == 0:
            _distinct(key, leader, lengths, step, slot_of, last + 1 - first, taken, picked)
        else:
            size = 0
            for w in range(leader, position.size):
                if lengths[w] >= step and slot_of[w] == slot_of[leader]:
                    taken[size] = w
                    size += 1
            _cells(key, second, taken[:size], cumulative[first : last + 1], drawn, picked)
        for w in range(leader, position.size):
            if lengths[w] >= step and slot_of[w] == slot_of[leader]:
                picked[w] = indices[first + picked[w]]
    for w in range(position.size):
        if lengths[w] >= step:
            position[w] = picked[w]


@numba.njit(cache=True)
def _distinct(key, leader, lengths, step, slot_of, degree, taken, picked):  # type: ignore[no-untyped-def]
    """Places without replacement, in blocks of the degree.

    The r-th of a block picks one of the `degree - r` places not yet taken in the block.
    """
    in_block = 0
    for w in range(leader, lengths.size):
        if lengths[w] < step or slot_of[w] != slot_of[leader]:
            continue
        if in_block == degree:
            in_block = 0
        left = degree - in_block
        pick = min(np.int64(uniform(key, w) * left), left - 1)
        place = 0
        while place < in_block and pick >= taken[place]:
            pick += 1
            place += 1
        for k in range(in_block, place, -1):
            taken[k] = taken[k - 1]
        taken[place] = pick
        in_block += 1
        picked[w] = pick


@numba.njit(cache=True)
def _cells(key, second, members, sums, drawn, picked):  # type: ignore[no-untyped-def]
    """One place from each of k equal cells of the running sums, dealt out in random order."""
    size, top = members.size, sums.size - 1
    width = sums[top] / size
    across, share, taken = -1, 0.0, False
    for cell in range(size):
        low = cell * width
        high = low + width
        rest, chance = 0.0, 0.0
        if across >= 0:
            rest = max(min((sums[across] - low) / width, 1.0), 0.0)
        if rest > 0.0:
            if taken and share > 0.0:
                chance = max(share + rest - 1.0, 0.0) / share
            else:
                chance = rest / (1.0 - share) if rest < 1.0 - share else 1.0
        u = uniform(key, members[cell])
        if u < chance:
            drawn[cell] = across
        else:
            v = (u - chance) / (1.0 - chance)
            drawn[cell] = _place(sums, max(across, 0), top, low + width * (rest + v * (1.0 - rest)))
        following = _place(sums, max(across, 0), top, high)
        if following != across:
            before = sums[following - 1] if following > 0 else 0.0
            share = max(min((high - before) / width, 1.0), 0.0)
            across, taken = following, drawn[cell] == following
    for left in range(size, 1, -1):
        other = min(np.int64(uniform(second, members[left - 1]) * left), left - 1)
        drawn[left - 1], drawn[other] = drawn[other], drawn[left - 1]
    for cell in range(size):
        picked[members[cell]] = drawn[cell]


@numba.njit(cache=True)
def _walk_row(seed, node, lengths, steps, moves, scratch, codes):  # type: ignore[no-untyped-def]
    """Walk one node's walkers and write a code `node * 2^16 + step` for every visit."""
    indptr, indices, cumulative = moves
    position, slot_of, members, rank, table, stamp, taken, drawn, picked, leader = scratch
    n_walks = lengths.size
    n_codes = 0
    longest = 0
    for w in range(n_walks):
        position[w] = node
        codes[n_codes] = node << STEP_BITS
        n_codes += 1
        longest = max(longest, lengths[w])
    if indptr[node + 1] == indptr[node]:
        return n_codes
    stamp[:] = 0
    for step in range(1, longest + 1):
        key = stream_key(seed, node, step)
        if steps == INDEPENDENT:
            for w in range(n_walks):
                if lengths[w] >= step:
                    position[w] = _neighbour(
                        indptr, indices, cumulative, position[w], uniform(key, w)
                    )
        else:
            _group(position, lengths, step, table, stamp, slot_of, members, rank)
            if steps == REPELLING:
                second = stream_key(seed, node, SECOND_STREAMS + step)
                _repel(
                    key,
                    second,
                    position,
                    lengths,
                    step,
                    slot_of,
                    rank,
                    moves,
                    taken,
                    drawn,
                    picked,
                )
            else:
                for w in range(n_walks):
                    if lengths[w] >= step:
                        slot = slot_of[w]
                        if rank[w] == 0:
                            leader[slot] = uniform(key, w)
                        v = leader[slot] + rank[w] / members[slot]
                        position[w] = _neighbour(
                            indptr, indices, cumulative, position[w], v - 1.0 if v >= 1.0 else v
                        )
        for w in range(n_walks):
            if lengths[w] >= step:
                codes[n_codes] = (np.int64(position[w]) << STEP_BITS) | step
                n_codes += 1
    return n_codes


@numba.njit(cache=True)
def _scratch(n_walks):  # type: ignore[no-untyped-def]
    size = 2
    while size < 2 * n_walks:
        size *= 2
    return (
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(size, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.int64),
        np.empty(n_walks + 1, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(size, np.float64),
    )


@numba.njit(parallel=True, cache=True)
def _walk_rows(seed, rows, lengths, steps, moves, offsets, codes, n_pairs, n_entries):  # type: ignore[no-untyped-def]
    """Walk all rows, sort each row's codes, and count its distinct nodes and visits."""
    n_blocks = (rows.size + BLOCK_ROWS - 1) // BLOCK_ROWS
    for block in numba.prange(n_blocks):
        scratch = _scratch(lengths.shape[1])
        for r in range(block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows.size)):
            row_codes = codes[offsets[r] : offsets[r + 1]]
            n_codes = _walk_row(seed, rows[r], lengths[r], steps, moves, scratch, row_codes)
            row_codes[:n_codes].sort()
            row_codes[n_codes:] = -1
            pairs, entries = 1, 1
            for k in range(1, n_codes):
                if row_codes[k] != row_codes[k - 1]:
                    entries += 1
                    if row_codes[k] >> STEP_BITS != row_codes[k - 1] >> STEP_BITS:
                        pairs += 1
            n_pairs[r] = pairs
            n_entries[r] = entries


@numba.njit(parallel=True, cache=True)
def _compact(offsets, codes, indptr, entry_start, nodes, entry_ptr, step_of, counts):  # type: ignore[no-untyped-def]
    """Merge equal codes into counts and write each row to its place."""
    for r in numba.prange(offsets.size - 1):
        pair, entry = indptr[r] - 1, entry_start[r] - 1
        last = np.int64(-1)
        for k in range(offsets[r], offsets[r + 1]):
            code = codes[k]
            if code < 0:
                break
            if code != last:
                entry += 1
                counts[entry] = 0
                step_of[entry] = code & STEP_MASK
                if last < 0 or code >> STEP_BITS != last >> STEP_BITS:
                    pair += 1
                    nodes[pair] = code >> STEP_BITS
                    entry_ptr[pair] = entry
                last = code
            counts[entry] += np.uint32(1)


def starts(sizes: IntArray) -> IntArray:
    """Offsets `0, s_0, s_0 + s_1, ...` of consecutive runs."""
    offsets = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def walk(seed: int, rows: IntArray, lengths: IntArray, steps: int, moves: Moves) -> Visits:
    """Walk the given lengths from the given nodes.

    Parameters
    ----------
    seed
        Below 2^63.
    rows
        Start nodes, shape (n,).
    lengths
        Length of each walker, shape (n, m). A walker on an isolated node stays at its start.
    steps
        `INDEPENDENT`, `REPELLING` or `SYSTEMATIC`.
    moves
        The graph's moves.
    """
    offsets = starts((lengths + 1).sum(axis=1))
    codes = np.empty(int(offsets[-1]), dtype=np.int64)
    n_pairs, n_entries = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
    _walk_rows(np.uint64(seed), rows, lengths, steps, moves, offsets, codes, n_pairs, n_entries)
    indptr, entry_start = starts(n_pairs), starts(n_entries)
    visits = Visits(
        indptr,
        np.empty(int(indptr[-1]), np.int32),
        np.empty(int(indptr[-1]) + 1, np.int64),
        np.empty(int(entry_start[-1]), np.uint16),
        np.empty(int(entry_start[-1]), np.uint32),
    )
    _compact(
        offsets,
        codes,
        indptr,
        entry_start,
        visits.nodes,
        visits.entry_ptr,
        visits.steps,
        visits.counts,
    )
    visits.entry_ptr[-1] = entry_start[-1]
    return visits


@numba.njit(parallel=True, cache=True)
def _ends(seed, rows, lengths, steps, moves, ends):  # type: ignore[no-untyped-def]
    """Walk all rows and keep where each walker halts."""
    n_blocks = (rows.size + BLOCK_ROWS - 1) // BLOCK_ROWS
    for block in numba.prange(n_blocks):
        scratch = _scratch(lengths.shape[1])
        for r in range(block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows.size)):
            codes = np.empty(lengths[r].sum() + lengths.shape[1], np.int64)
            _walk_row(seed, rows[r], lengths[r], steps, moves, scratch, codes)
            ends[r] = scratch[0]


def walk_ends(seed: int, rows: IntArray, lengths: IntArray, steps: int, moves: Moves) -> IntArray:
    """Nodes where the walkers of `walk` halt, shape (n, m)."""
    ends = np.empty(lengths.shape, dtype=np.int64)
    _ends(np.uint64(seed), rows, lengths, steps, moves, ends)
    return ends


def concatenate(parts: list[Visits]) -> Visits:
    """Rows of several chunks, one after another."""
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
