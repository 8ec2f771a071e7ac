"""The compiled laws of steps, which move the walkers that stand together on a node.

They agree bit for bit with the laws of `couplings.walkers.steps` and treat all walkers of a start
node at a time: `INDEPENDENT` and `SYSTEMATIC` walkers move by a `quantile` of the edge weights,
`REPELLING` ones by `repel`. `group` finds the walkers that stand together.

An array that a law or a graph does not need is None: running sums of weights on an unweighted
graph, groups of independent walkers. Numba then leaves the code that reads it out, and no law waits
for the compilation of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.compiled import compiled, part
from coupledgp.counter import GOLDEN, uniform
from coupledgp.couplings.walkers.steps import INDEPENDENT, REPELLING, SYSTEMATIC
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray

# Rows of `Scratch.walkers`, with an entry for each walker: the node it stands on, the numbers of
# the walkers that have not halted, the edge along which each of these moves, the first edge and the
# degree of its node, its slot in `groups`, and its rank among the walkers there by their numbers.
POSITION, ALIVE, EDGE, FIRST, DEGREE, SLOT, RANK = range(7)
# Rows of `Scratch.groups`, a hash table of nodes: the step at which a slot was taken, its node, and
# the number of walkers there.
STAMP, NODE, MEMBERS = range(3)
# Rows of `Scratch.choices`: places taken, places drawn, and the place picked for each walker.
TAKEN, DRAWN, PICKED = range(3)


class Moves(NamedTuple):
    """The graph as walkers use it: rows of neighbours and running sums of their weights.

    `indptr` (nodes + 1,) delimits a node's row in `indices` (edges,) and `cumulative` (edges,), the
    latter None for unweighted graphs. `targets` (edges, 2), for unweighted graphs only and None
    where there are few walkers, describes the neighbour at the end of each edge: the first edge of
    its row, and its degree and number in one word. A step then needs one random access to memory
    instead of two.
    """

    indptr: IntArray
    indices: NDArray[np.int32] | None
    cumulative: FloatArray | None
    targets: IntArray | None


def moves_of(graph: Graph, n_moves: float = 0.0) -> Moves:
    """The arrays of a graph for walkers, with `targets` if they pay for about `n_moves` moves."""
    if graph.is_weighted:
        return Moves(graph.indptr, graph.indices, _row_sums(graph.indptr, graph.weights), None)
    if 4 * n_moves <= graph.indices.size:
        return Moves(graph.indptr, graph.indices, None, None)
    targets = np.empty((graph.indices.size, 2), dtype=np.int64)
    targets[:, 0] = graph.indptr[graph.indices]
    targets[:, 1] = (np.diff(graph.indptr) << 32)[graph.indices] | graph.indices
    return Moves(graph.indptr, graph.indices, None, targets)


def used(moves: Moves, steps: int) -> Moves:
    """The arrays that a law of steps reads; the others are None."""
    if steps == REPELLING or moves.targets is None:
        return moves._replace(targets=None)
    return moves._replace(indices=None)


@compiled
def _row_sums(indptr, weights):  # type: ignore[no-untyped-def]
    sums = np.empty_like(weights)
    for row in range(indptr.size - 1):
        total = 0.0
        for edge in range(indptr[row], indptr[row + 1]):
            total += weights[edge]
            sums[edge] = total
    return sums


class Scratch(NamedTuple):
    """Work arrays for the walkers of one start node at a time.

    `walkers` (7, m), `groups` (3, slots) and `choices` (3, m + 1) hold integers, `leader` (slots,)
    the uniform of each slot's walker of rank 0. `groups` is None for independent walkers, `leader`
    for all but systematic ones, and `choices` for all but repelling ones.
    """

    walkers: IntArray
    groups: IntArray | None
    leader: FloatArray | None
    choices: IntArray | None


def scratch_for(steps: int, n_walks: int) -> Scratch:
    """Work arrays for `n_walks` walkers under a law of steps."""
    walkers = np.zeros((7, n_walks), dtype=np.int64)
    if steps == INDEPENDENT:
        return Scratch(walkers, None, None, None)
    size = 2
    while size < 2 * n_walks:
        size *= 2
    leader = np.zeros(size) if steps == SYSTEMATIC else None
    choices = np.zeros((3, n_walks + 1), dtype=np.int64) if steps == REPELLING else None
    return Scratch(walkers, np.zeros((3, size), dtype=np.int64), leader, choices)


@part
def group(walkers, n_alive, step, groups):  # type: ignore[no-untyped-def]
    """Gather the walkers that move at `step` by the node they stand on.

    A slot of the table is free unless stamped with this step: before the first step of a row,
    stamps must be zero.
    """
    mask = groups.shape[1] - 1
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        node = walkers[POSITION, w]
        slot = np.int64(np.uint64(node) * GOLDEN >> np.uint64(32)) & mask
        while groups[STAMP, slot] == step and groups[NODE, slot] != node:
            slot = (slot + 1) & mask
        if groups[STAMP, slot] != step:
            groups[STAMP, slot] = step
            groups[NODE, slot] = node
            groups[MEMBERS, slot] = 0
        walkers[SLOT, w] = slot
        walkers[RANK, w] = groups[MEMBERS, slot]
        groups[MEMBERS, slot] += 1


@part
def quantile(key, w, walkers, groups, leader):  # type: ignore[no-untyped-def]
    """Quantile of the edge weights of its node at which walker w moves.

    The walker is independent or systematic.
    """
    if leader is None:
        return uniform(key, w)
    slot = walkers[SLOT, w]
    if walkers[RANK, w] == 0:
        leader[slot] = uniform(key, w)
    v = leader[slot] + walkers[RANK, w] / groups[MEMBERS, slot]
    return v - 1.0 if v >= 1.0 else v


@part
def move_quickly(key, n_alive, walkers, groups, leader, targets):  # type: ignore[no-untyped-def]
    """Move walkers by `Moves.targets`, in two loops.

    One draws an edge for every walker, the other loads the node at its end. The loads, one for each
    walker, then wait for memory together.
    """
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        edge = np.int64(quantile(key, w, walkers, groups, leader) * walkers[DEGREE, w])
        last = walkers[DEGREE, w] - 1
        walkers[EDGE, k] = walkers[FIRST, w] + (edge if edge < last else last)
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        edge = walkers[EDGE, k]
        walkers[FIRST, w] = targets[edge, 0]
        behind = targets[edge, 1]
        walkers[POSITION, w] = behind & 0xFFFFFFFF
        walkers[DEGREE, w] = behind >> 32


@part
def move(key, n_alive, walkers, groups, leader, indptr, indices, cumulative):  # type: ignore[no-untyped-def]
    """Move walkers to the neighbours at their quantiles of the edge weights."""
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        v = quantile(key, w, walkers, groups, leader)
        node = walkers[POSITION, w]
        first, last = indptr[node], indptr[node + 1] - 1
        if cumulative is None:
            edge = first + np.int64(v * (last + 1 - first))
            edge = edge if edge < last else last
        else:
            edge = _place(cumulative, first, last, v * cumulative[last])
        walkers[POSITION, w] = indices[edge]


@part
def _place(cumulative, first, last, goal):  # type: ignore[no-untyped-def]
    """The first place of `first..last` whose running sum is above `goal`, at most `last`."""
    while first < last:
        middle = (first + last) // 2
        if goal < cumulative[middle]:
            last = middle
        else:
            first = middle + 1
    return first


@part
def repel(key, second, n_alive, walkers, choices, indptr, indices, cumulative):  # type: ignore[no-untyped-def]
    """Move co-located walkers to neighbours that are distinct, as `RepellingSteps` says."""
    for k in range(n_alive):
        leader = walkers[ALIVE, k]
        if walkers[RANK, leader] != 0:
            continue
        node, slot = walkers[POSITION, leader], walkers[SLOT, leader]
        first, last = indptr[node], indptr[node + 1] - 1
        if cumulative is None:
            _distinct(key, k, n_alive, walkers, last + 1 - first, choices)
        else:
            size = 0
            for other in range(k, n_alive):
                w = walkers[ALIVE, other]
                if walkers[SLOT, w] == slot:
                    choices[TAKEN, size] = w
                    size += 1
            _cells(key, second, size, cumulative[first : last + 1], choices)
        for other in range(k, n_alive):
            w = walkers[ALIVE, other]
            if walkers[SLOT, w] == slot:
                choices[PICKED, w] = indices[first + choices[PICKED, w]]
    for k in range(n_alive):
        walkers[POSITION, walkers[ALIVE, k]] = choices[PICKED, walkers[ALIVE, k]]


@part
def _distinct(key, leader, n_alive, walkers, degree, choices):  # type: ignore[no-untyped-def]
    """Draw places without replacement, in blocks of as many walkers as the degree.

    The r-th walker of a block picks one of the `degree - r` places not yet taken in the block.
    """
    in_block = 0
    slot = walkers[SLOT, walkers[ALIVE, leader]]
    for other in range(leader, n_alive):
        w = walkers[ALIVE, other]
        if walkers[SLOT, w] != slot:
            continue
        if in_block == degree:
            in_block = 0
        left = degree - in_block
        pick = min(np.int64(uniform(key, w) * left), left - 1)
        place = 0
        while place < in_block and pick >= choices[TAKEN, place]:
            pick += 1
            place += 1
        for k in range(in_block, place, -1):
            choices[TAKEN, k] = choices[TAKEN, k - 1]
        choices[TAKEN, place] = pick
        in_block += 1
        choices[PICKED, w] = pick


@part
def _cells(key, second, size, sums, choices):  # type: ignore[no-untyped-def]
    """Draw one place from each of k equal cells of the running sums; walkers get them shuffled."""
    members, drawn, top = choices[TAKEN], choices[DRAWN], sums.size - 1
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
        choices[PICKED, members[cell]] = drawn[cell]
