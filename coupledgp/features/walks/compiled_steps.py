"""The compiled laws of steps, which move the walkers that stand together on a node.

They agree bit for bit with the laws of `couplings.walkers.steps` and treat all walkers of a start
node at a time: `INDEPENDENT` and `SYSTEMATIC` walkers move by a `quantile` of the edge weights,
`REPELLING` ones by `repel`. `group` finds the walkers that stand together.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coupledgp.counter import GOLDEN, uniform
from coupledgp.couplings.walkers.steps import INDEPENDENT
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray


class Moves(NamedTuple):
    """The graph as walkers use it: rows of neighbours and running sums of their weights.

    `cumulative` is empty for unweighted graphs. `targets` (edges, 2), for unweighted graphs only
    and empty where there are few walkers, describes the neighbour at the end of each edge: the
    first edge of its row, and its degree and number in one word. A step then needs one random
    access to memory instead of two.
    """

    indptr: IntArray
    indices: NDArray[np.int32]
    cumulative: FloatArray
    targets: IntArray


def moves_of(graph: Graph, n_moves: float = 0.0) -> Moves:
    """The arrays of a graph for walkers, with `targets` if they pay for about `n_moves` moves."""
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
def neighbour(indptr, indices, cumulative, node, v):  # type: ignore[no-untyped-def]
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


class Groups(NamedTuple):
    """Groups of one start node's walkers that stand together, and work arrays of their laws.

    `slot_of[w]` is walker w's group, `rank[w]` its place in it in order of walker number,
    `members[slot]` the group's size and `leader[slot]` the uniform of its member of rank 0.
    `table` and `stamp` are the hash table behind the groups; `taken`, `drawn` and `picked` are
    the places repelling walkers choose from.
    """

    slot_of: IntArray
    rank: IntArray
    members: IntArray
    leader: FloatArray
    table: IntArray
    stamp: IntArray
    taken: IntArray
    drawn: IntArray
    picked: IntArray


@numba.njit(cache=True)
def new_groups(n_walks):  # type: ignore[no-untyped-def]
    """Groups of at most `n_walks` walkers, none yet."""
    size = 2
    while size < 2 * n_walks:
        size *= 2
    return Groups(
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.zeros(size, np.int64),
        np.empty(n_walks + 1, np.int64),
        np.empty(n_walks, np.int64),
        np.empty(n_walks, np.int64),
    )


@numba.njit(cache=True)
def group(position, lengths, step, groups):  # type: ignore[no-untyped-def]
    """Gather the walkers that move at `step` by the node they stand on.

    A slot of the table is free unless stamped with this step: before the first step of a row,
    stamps must be zero.
    """
    slot_of, rank, members = groups.slot_of, groups.rank, groups.members
    table, stamp = groups.table, groups.stamp
    mask = np.uint64(table.shape[0] - 1)
    for w in range(position.size):
        if lengths[w] < step:
            continue
        slot = np.int64((np.uint64(position[w]) * GOLDEN >> np.uint64(32)) & mask)
        while stamp[slot] == step and table[slot] != position[w]:
            slot = (slot + 1) & np.int64(mask)
        if stamp[slot] != step:
            stamp[slot] = step
            table[slot] = position[w]
            members[slot] = 0
        slot_of[w] = slot
        rank[w] = members[slot]
        members[slot] += 1


@numba.njit(cache=True, inline="always")
def quantile(steps, key, w, slot_of, rank, members, leader):  # type: ignore[no-untyped-def]
    """Quantile of the edge weights of its node at which walker w moves.

    The walker is independent or systematic.
    """
    if steps == INDEPENDENT:
        return uniform(key, w)
    slot = slot_of[w]
    if rank[w] == 0:
        leader[slot] = uniform(key, w)
    v = leader[slot] + rank[w] / members[slot]
    return v - 1.0 if v >= 1.0 else v


@numba.njit(cache=True)
def repel(key, second, position, lengths, step, moves, slot_of, rank, taken, drawn, picked):  # type: ignore[no-untyped-def]
    """Move co-located walkers to neighbours that are distinct, as `RepellingSteps` says.

    The last five are arrays of `Groups`: to take them out of it at every step costs a tenth.
    """
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
    """Draw places without replacement, in blocks of as many walkers as the degree.

    The r-th walker of a block picks one of the `degree - r` places not yet taken in the block.
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
    """Draw one place from each of k equal cells of the running sums; walkers get them shuffled."""
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
