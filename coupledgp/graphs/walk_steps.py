"""The compiled laws of steps, which move the walkers of many start nodes side by side.

They agree bit for bit with the laws of `couplings.walkers.steps`. A step has two parts: every
walker chooses an edge, and then all walkers load the node at its end (`arrive`), so that the loads
wait for memory together. Independent walkers choose by `choose_apart`; walkers that a law joins
choose row by row, after `group` has gathered the walkers of each node: `SYSTEMATIC` ones by a
`quantile` of the edge weights, `REPELLING` ones by `repel`.

An array that a law or a graph does not need is None: running sums of weights on an unweighted
graph, groups of independent walkers. Numba then leaves the code that reads it out, and no law waits
for the compilation of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings.walkers.steps import REPELLING, SYSTEMATIC
from coupledgp.graphs import Graph
from coupledgp.ground.compiled import compiled, part, share_rows
from coupledgp.ground.counter import GOLDEN, as_uniform, uniform
from coupledgp.random import FloatArray, IntArray

# Rows of a node's table of walkers, with an entry for each walker: the word of the node it stands
# on, the numbers of the walkers that have not halted, the edge along which each of these moves, its
# slot in `groups`, its rank among the walkers there by their numbers, and where its codes go.
WORD, ALIVE, EDGE, SLOT, RANK, BASE = range(6)
# Rows of `groups`, a hash table of nodes: the stamp of the row and step that took a slot, its node,
# and the number of walkers there.
STAMP, NODE, MEMBERS = range(3)
# Rows of `choices`: places taken, places drawn, and the place picked for each walker.
TAKEN, DRAWN, PICKED = range(3)
# Bits of a word, whose sign is not used.
WORD_BITS = 63
# Edges that a thread describes at a time.
LEAST_EDGES, MOST_EDGES = 2**15, 2**18


class Moves(NamedTuple):
    """The graph as walkers use it: rows of neighbours and running sums of their weights.

    `indptr` (nodes + 1,) delimits a node's row in `indices` (edges,) and `cumulative` (edges,), the
    latter None for unweighted graphs. A walker keeps the word of its node. `targets` (edges,) has
    the word of the neighbour at the end of each edge: its number in the lowest `node_bits`, the
    first edge of its row in the next `edge_bits`, and its degree above them, so that a step needs
    one random access to memory. Without `targets`, where few walkers would not pay for them, a word
    is the number of the node alone.
    """

    indptr: IntArray
    indices: NDArray[np.int32] | None
    cumulative: FloatArray | None
    targets: IntArray | None
    node_bits: int
    edge_bits: int


def moves_of(graph: Graph, n_moves: float = 0.0) -> Moves:
    """The arrays of a graph for walkers, with `targets` if they pay for about `n_moves` moves."""
    sums = _row_sums(graph.indptr, graph.weights) if graph.is_weighted else None
    moves = Moves(graph.indptr, graph.indices, sums, None, WORD_BITS - 1, 0)
    if 4 * n_moves <= graph.indices.size:
        return moves
    node_bits, edge_bits = graph.n_nodes.bit_length(), graph.indices.size.bit_length()
    largest = int(np.diff(graph.indptr).max(initial=0))
    if node_bits + edge_bits + largest.bit_length() > WORD_BITS:
        return moves
    targets = np.empty(graph.indices.size, dtype=np.int64)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for block in blocks:
            _describe(*block, graph.indptr, graph.indices, node_bits, edge_bits, targets)

    share_rows(work, targets.size, LEAST_EDGES, MOST_EDGES)
    return moves._replace(targets=targets, node_bits=node_bits, edge_bits=edge_bits)


def used(moves: Moves) -> Moves:
    """The arrays that a step reads; all others are None."""
    return moves if moves.targets is None else moves._replace(indices=None)


@compiled
def _row_sums(indptr, weights):  # type: ignore[no-untyped-def]
    sums = np.empty_like(weights)
    for row in range(indptr.size - 1):
        total = 0.0
        for edge in range(indptr[row], indptr[row + 1]):
            total += weights[edge]
            sums[edge] = total
    return sums


@compiled
def _describe(first, last, indptr, indices, node_bits, edge_bits, targets):  # type: ignore[no-untyped-def]
    for edge in range(first, last):
        node = np.int64(indices[edge])
        start = indptr[node]
        degree = indptr[node + 1] - start
        targets[edge] = (((degree << edge_bits) | start) << node_bits) | node


@part
def word_of(node, indptr, targets, node_bits, edge_bits):  # type: ignore[no-untyped-def]
    """The word of a node: its number, and, with `targets`, its first edge and degree."""
    if targets is None:
        return np.int64(node)
    start = indptr[node]
    return ((((indptr[node + 1] - start) << edge_bits) | start) << node_bits) | node


@part
def edges_of(word, indptr, targets, node_bits, edge_bits):  # type: ignore[no-untyped-def]
    """First edge and degree of the node of a word."""
    if targets is None:
        return indptr[word], indptr[word + 1] - indptr[word]
    start = (word >> node_bits) & ((np.int64(1) << edge_bits) - 1)
    return start, word >> (node_bits + edge_bits)


@part
def arrive(edge, indices, targets):  # type: ignore[no-untyped-def]
    """The word of the neighbour at the end of an edge; `indices` or `targets` is None."""
    there = np.int64(edge)
    if targets is not None:
        there = targets[edge]
    if indices is not None:
        there = np.int64(indices[edge])
    return there


@part
def edge_at(v, first, degree, cumulative):  # type: ignore[no-untyped-def]
    """The edge of a node at a quantile v of their weights."""
    if cumulative is None:
        return first + min(np.int64(v * degree), degree - 1)
    last = first + degree - 1
    return _place(cumulative, first, last, v * cumulative[last])


@part
def choose_apart(n, bits, word, edge, indptr, cumulative, targets, node_bits, edge_bits):  # type: ignore[no-untyped-def]
    """Choose edges of the first n walkers of a list, each by random bits of its own."""
    for k in range(n):
        first, degree = edges_of(word[k], indptr, targets, node_bits, edge_bits)
        edge[k] = edge_at(as_uniform(bits[k]), first, degree, cumulative)


class Scratch(NamedTuple):
    """Work arrays of walkers that a law joins, for the rows that step together.

    `walkers` (rows, 6, m), `n_alive` (rows,), `groups` (3, slots) and `choices` (3, m + 1) hold
    integers, `leader` (slots,) the uniform of each slot's walker of rank 0. `leader` is None for
    all but systematic walkers, `choices` for all but repelling ones.
    """

    walkers: IntArray
    n_alive: IntArray
    groups: IntArray
    leader: FloatArray | None
    choices: IntArray | None


def scratch_for(steps: int, n_rows: int, n_walks: int) -> Scratch:
    """Work arrays for `n_walks` walkers of each of some rows under a law of steps."""
    size = 2
    while size < 4 * n_walks:
        size *= 2
    return Scratch(
        np.zeros((n_rows, 6, n_walks), dtype=np.int64),
        np.zeros(n_rows, dtype=np.int64),
        np.zeros((3, size), dtype=np.int64),
        np.zeros(size) if steps == SYSTEMATIC else None,
        np.zeros((3, n_walks + 1), dtype=np.int64) if steps == REPELLING else None,
    )


@part
def group(walkers, n_alive, stamp, node_bits, groups):  # type: ignore[no-untyped-def]
    """Gather the walkers of a row that move by the node they stand on.

    A slot of the table is free unless marked with this stamp, which no other row or step has.
    """
    mask = groups.shape[1] - 1
    within = (np.int64(1) << node_bits) - 1
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        node = walkers[WORD, w] & within
        slot = np.int64(np.uint64(node) * GOLDEN >> np.uint64(32)) & mask
        while groups[STAMP, slot] == stamp and groups[NODE, slot] != node:
            slot = (slot + 1) & mask
        if groups[STAMP, slot] != stamp:
            groups[STAMP, slot] = stamp
            groups[NODE, slot] = node
            groups[MEMBERS, slot] = 0
        walkers[SLOT, w] = slot
        walkers[RANK, w] = groups[MEMBERS, slot]
        groups[MEMBERS, slot] += 1


@part
def choose_spread(  # type: ignore[no-untyped-def]
    key, n_alive, walkers, groups, leader, indptr, cumulative, targets, node_bits, edge_bits
):
    """Choose edges at quantiles spread evenly, as `SystematicSteps` says."""
    for k in range(n_alive):
        w = walkers[ALIVE, k]
        slot, rank = walkers[SLOT, w], walkers[RANK, w]
        u = uniform(key, w)
        u = u if rank == 0 else leader[slot]
        leader[slot] = u
        v = u + rank / groups[MEMBERS, slot]
        first, degree = edges_of(walkers[WORD, w], indptr, targets, node_bits, edge_bits)
        walkers[EDGE, k] = edge_at(v - 1.0 if v >= 1.0 else v, first, degree, cumulative)


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
def repel(  # type: ignore[no-untyped-def]
    key, second, n_alive, walkers, choices, indptr, cumulative, targets, node_bits, edge_bits
):
    """Choose edges to neighbours that are distinct, as `RepellingSteps` says."""
    for k in range(n_alive):
        leader = walkers[ALIVE, k]
        if walkers[RANK, leader] != 0:
            continue
        slot = walkers[SLOT, leader]
        first, degree = edges_of(walkers[WORD, leader], indptr, targets, node_bits, edge_bits)
        if cumulative is None:
            _distinct(key, k, n_alive, walkers, degree, choices)
        else:
            size = 0
            for other in range(k, n_alive):
                w = walkers[ALIVE, other]
                if walkers[SLOT, w] == slot:
                    choices[TAKEN, size] = w
                    size += 1
            _cells(key, second, size, cumulative[first : first + degree], choices)
        for other in range(k, n_alive):
            w = walkers[ALIVE, other]
            if walkers[SLOT, w] == slot:
                walkers[EDGE, other] = first + choices[PICKED, w]


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
