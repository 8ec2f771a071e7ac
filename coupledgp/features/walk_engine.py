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

from coupledgp.counter import GOLDEN, SECOND_STREAMS, stream_key, uniform
from coupledgp.couplings.steps import INDEPENDENT, REPELLING
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray

IntArray = NDArray[np.int64]
STEP_BITS = 16
STEP_MASK = 2**STEP_BITS - 1
# A packed visit is node (31 bits), step (16) and count (16).
COUNT_BITS = 16
COUNT_MASK = 2**COUNT_BITS - 1
BLOCK_ROWS = 64
WIDE_BLOCK_ROWS = 4096


class Moves(NamedTuple):
    """What a walker needs of the graph: rows of neighbours and running sums of their weights.

    `cumulative` is empty for unweighted graphs. `targets` (edges, 2), for unweighted graphs only
    and empty where few are to walk, holds beside each edge what lies behind it: the first edge of
    the neighbour's row, and its degree and number in one word. A step then needs one random access
    to memory instead of two.
    """

    indptr: IntArray
    indices: NDArray[np.int32]
    cumulative: FloatArray
    targets: IntArray


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


def moves_of(graph: Graph, n_moves: float = 0.0) -> Moves:
    """The moves on a graph, laid out for about `n_moves` of them."""
    none = np.empty((0, 2), dtype=np.int64)
    if graph.is_weighted:
        sums = _row_sums(graph.indptr, graph.weights)
        return Moves(graph.indptr, graph.indices, sums, none)
    many = 4 * n_moves > graph.indices.size
    targets = _targets(graph.indptr, graph.indices) if many else none
    return Moves(graph.indptr, graph.indices, np.empty(0), targets)


@numba.njit(cache=True, parallel=True)
def _targets(indptr, indices):  # type: ignore[no-untyped-def]
    targets = np.empty((indices.size, 2), np.int64)
    for edge in numba.prange(indices.size):
        node = np.int64(indices[edge])
        targets[edge, 0] = indptr[node]
        targets[edge, 1] = ((indptr[node + 1] - indptr[node]) << 32) | node
    return targets


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
    indptr, indices, cumulative, _ = moves
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


@numba.njit(cache=True, inline="always")
def _quantile(steps, key, w, slot_of, rank, members, leader):  # type: ignore[no-untyped-def]
    """Where in the edge weights of its node walker w moves, independent or systematic."""
    if steps == INDEPENDENT:
        return uniform(key, w)
    slot = slot_of[w]
    if rank[w] == 0:
        leader[slot] = uniform(key, w)
    v = leader[slot] + rank[w] / members[slot]
    return v - 1.0 if v >= 1.0 else v


@numba.njit(cache=True)
def _walk_row(seed, node, lengths, steps, moves, scratch, codes):  # type: ignore[no-untyped-def]
    """Walk one node's walkers and write a code `node * 2^16 + step` for every visit.

    With `moves.targets` a step is two loops: one that draws an edge for every walker, one that
    loads what lies behind it. The loads, one each, then wait for memory together.
    """
    indptr, indices, cumulative, targets = moves
    position, slot_of, members, rank, table, stamp, taken, drawn, picked, leader = scratch[:10]
    alive, edge, first, degree = scratch[10:]
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
        elif quick:
            for k in range(n_alive):
                w = alive[k]
                v = _quantile(steps, key, w, slot_of, rank, members, leader)
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
                v = _quantile(steps, key, w, slot_of, rank, members, leader)
                position[w] = _neighbour(indptr, indices, cumulative, position[w], v)
        for k in range(n_alive):
            codes[n_codes] = (position[alive[k]] << STEP_BITS) | step
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
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
    )


@numba.njit(cache=True)
def _merge(codes, tag, table, stamp, id_of, keys, last, place, ids, out):  # type: ignore[no-untyped-def]
    """Count equal codes and write `node, step, count` in order of node and step, packed.

    `codes` come in order of step. Nodes are numbered as they first appear, through a hash table
    whose slots are free unless stamped with this row's `tag`.
    """
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
        if entry < 0 or (out[entry] >> COUNT_BITS) & STEP_MASK != step:
            last[i] = n_entries
            place[i] += 1
            ids[n_entries] = i
            out[n_entries] = (node << (STEP_BITS + COUNT_BITS)) | (step << COUNT_BITS) | 1
            n_entries += 1
        else:
            out[entry] += 1
    keys[:n_ids].sort()
    start = 0
    for k in range(n_ids):
        i = keys[k] & 0xFFFFFFFF
        place[i], start = start, start + place[i]
    return n_ids, n_entries


@numba.njit(parallel=True, cache=True)
def _walk_rows(seed, rows, lengths, steps, moves, offsets, packed, n_pairs, n_entries, most):  # type: ignore[no-untyped-def]
    """Walk all rows and write each row's distinct visits, packed, from its offset on."""
    n_blocks = (rows.size + BLOCK_ROWS - 1) // BLOCK_ROWS
    for block in numba.prange(n_blocks):
        scratch = _scratch(lengths.shape[1])
        size = 2
        while size < 2 * most:
            size *= 2
        table, stamp, id_of = (
            np.empty(size, np.int64),
            np.zeros(size, np.int64),
            np.empty(size, np.int64),
        )
        codes, found, ids = (
            np.empty(most, np.int64),
            np.empty(most, np.int64),
            np.empty(most, np.int64),
        )
        keys, last, place = (
            np.empty(most, np.int64),
            np.empty(most, np.int64),
            np.empty(most, np.int64),
        )
        for r in range(block * BLOCK_ROWS, min((block + 1) * BLOCK_ROWS, rows.size)):
            n_codes = _walk_row(seed, rows[r], lengths[r], steps, moves, scratch, codes)
            n_pairs[r], n_entries[r] = _merge(
                codes[:n_codes], r + 1, table, stamp, id_of, keys, last, place, ids, found
            )
            for entry in range(n_entries[r]):
                to = place[ids[entry]]
                place[ids[entry]] = to + 1
                packed[offsets[r] + to] = found[entry]


@numba.njit(parallel=True, cache=True)
def _compact(offsets, packed, indptr, entry_start, nodes, entry_ptr, step_of, counts):  # type: ignore[no-untyped-def]
    """Unpack each row to its place."""
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
        packed,
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
