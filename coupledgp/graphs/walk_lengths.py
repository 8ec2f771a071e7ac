"""Lengths of walkers drawn by compiled loops, to the bit equal to `couplings.walkers.lengths`.

Modulation coefficients: the series `F(W~) = sum_t f_t W~^t` whose square is the kernel.

Arguments of sampled walks, checked and turned into the task of the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings.walkers.lengths import (
    LENGTH_LIMIT,
    AntitheticLengths,
    IidLengths,
    LengthLaw,
    Lengths,
    MatchedLaw,
    SigmaLengths,
    StratifiedLengths,
)
from coupledgp.couplings.walkers.registry import (
    LengthLawLike,
    WalkerCoupling,
    WalkerCouplingLike,
    parse_length_law,
    parse_walker_coupling,
)
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph, check_nodes
from coupledgp.graphs.walk_visits import LengthsOf, WalkTask, form_of
from coupledgp.ground.compiled import compiled, part
from coupledgp.ground.counter import (
    LENGTH_STREAMS,
    LengthUniforms,
    key_of_stream,
    node_key,
    uniform,
)
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import check_positive_int, check_vector, wrong
from coupledgp.random import FloatArray, IntArray, Seed, as_rng

# Equal parts of (0, 1), for each of which the shortest length is known; a power of two.
PARTS = 256
# Uniforms that are ordered by comparing each with all.
RUN = 32


def lengths_of(
    lengths: Lengths, law: LengthLaw, longest: int, seed: int, n_walks: int
) -> LengthsOf:
    """A function that draws the lengths (n, n_walks) of the walkers of start nodes (n,).

    Joint laws of this package run compiled unless the law of one length has a way of its own.
    """
    key, kind = np.uint64(seed), type(lengths)
    own = type(law)
    if kind is AntitheticLengths and own.hazards is LengthLaw.hazards:
        return partial(_drawn, _antithetic, n_walks, key, law.hazards(longest))
    if own.lengths is LengthLaw.lengths:
        cdf = 1.0 - law.survival(longest)[1:]
        least = np.searchsorted(cdf, np.arange(PARTS) / PARTS, side="right")
        table = key, cdf, least.astype(np.int64)
        if kind is IidLengths:
            return partial(_drawn, _apart, n_walks, *table)
        if kind is StratifiedLengths:
            return partial(_stratified_lengths, n_walks, *table)
        if isinstance(lengths, SigmaLengths) and kind is SigmaLengths and lengths.permutation:
            sigma = np.asarray(lengths.permutation, dtype=np.int64)
            return partial(_drawn, _sigma, n_walks, *table, sigma)
    return lambda rows: lengths.sample(law, longest, LengthUniforms(seed, rows, n_walks))


def spread_lengths_of(
    lengths: Lengths, law: LengthLaw, longest: int, seed: int, n_walks: IntArray, most: int
) -> LengthsOf:
    """A function that draws the lengths (n, most) of `n_walks[i]` walkers of each start node i.

    Those of a node are what `lengths_of` draws for as many walkers, and zeros beyond them.
    """
    own = lru_cache(maxsize=None)(partial(lengths_of, lengths, law, longest, seed))

    def draw(rows: IntArray) -> IntArray:
        found = np.zeros((rows.size, most), dtype=np.int64)
        counts = n_walks[rows]
        for m in np.unique(counts).tolist():
            alike = np.flatnonzero(counts == m)
            found[alike, :m] = own(m)(rows[alike])
        return found

    return draw


def _drawn(draw: Callable[..., None], n_walks: int, *arguments: Any) -> IntArray:
    *given, rows = arguments
    lengths = np.empty((rows.size, n_walks), dtype=np.int64)
    draw(rows, *given, np.empty(n_walks), lengths)
    return lengths


def _stratified_lengths(n_walks: int, *arguments: Any) -> IntArray:
    *given, rows = arguments
    order, spare = np.empty((2, n_walks), dtype=np.int64)
    return _drawn(_stratified, n_walks, *given, order, spare, rows)


@part
def _length(u, cdf, least):  # type: ignore[no-untyped-def]
    """The number of entries of `cdf` that are at most u."""
    t = least[np.int64(u * least.size)]
    while t < cdf.size and cdf[t] <= u:
        t += 1
    return t


@compiled
def _apart(rows, seed, cdf, least, u, lengths):  # type: ignore[no-untyped-def]
    for r in range(rows.size):
        key = key_of_stream(node_key(seed, rows[r]), LENGTH_STREAMS)
        for w in range(u.size):
            u[w] = uniform(key, w)
        for w in range(u.size):
            lengths[r, w] = _length(u[w], cdf, least)


@compiled
def _antithetic(rows, seed, hazards, u, lengths):  # type: ignore[no-untyped-def]
    """Every walker moves until the first coin below the hazard of its step."""
    for r in range(rows.size):
        key = node_key(seed, rows[r])
        for w in range(u.size):
            step = 0
            while step < hazards.size:
                u[w] = uniform(key_of_stream(key, LENGTH_STREAMS + step), w - w % 2)
                if w % 2 == 1:
                    u[w] += 0.5
                    u[w] -= u[w] >= 1.0
                if u[w] < hazards[step]:
                    break
                step += 1
            lengths[r, w] = step


@compiled
def _sigma(rows, seed, cdf, least, sigma, u, lengths):  # type: ignore[no-untyped-def]
    for r in range(rows.size):
        key = node_key(seed, rows[r])
        first, second = key_of_stream(key, LENGTH_STREAMS), key_of_stream(key, LENGTH_STREAMS + 1)
        quantile = np.int64(0)
        for w in range(lengths.shape[1]):
            if w % 2 == 0:
                u[w] = uniform(first, w)
                quantile = np.int64(u[w] * sigma.size)
            else:
                u[w] = (sigma[quantile] + uniform(second, w)) / sigma.size
            lengths[r, w] = _length(u[w], cdf, least)


@compiled
def _stratified(rows, seed, cdf, least, order, spare, u, lengths):  # type: ignore[no-untyped-def]
    m = u.size
    for r in range(rows.size):
        key = node_key(seed, rows[r])
        within, among = key_of_stream(key, LENGTH_STREAMS), key_of_stream(key, LENGTH_STREAMS + 1)
        for w in range(m):
            u[w] = uniform(among, w)
        _order(u, order, spare)
        for w in range(m):
            lengths[r, w] = _length((order[w] + uniform(within, w)) / m, cdf, least)


@part
def _order(u, order, spare):  # type: ignore[no-untyped-def]
    """Positions of u from the least to the largest, equal ones as they stand, by merging runs."""
    m, run = u.size, RUN
    for begin in range(0, m, run):
        _order_run(u, begin, min(begin + run, m), order)
    while run < m:
        for begin in range(0, m, 2 * run):
            middle, end = min(begin + run, m), min(begin + 2 * run, m)
            left, right = begin, middle
            for to in range(begin, end):
                if right == end or (left < middle and u[order[left]] <= u[order[right]]):
                    spare[to] = order[left]
                    left += 1
                else:
                    spare[to] = order[right]
                    right += 1
        for w in range(m):
            order[w] = spare[w]
        run *= 2


@part
def _order_run(u, begin, end, order):  # type: ignore[no-untyped-def]
    """Positions of the entries begin..end in rising order, equal entries in their given order."""
    for k in range(begin, end):
        place = begin
        for other in range(begin, k):
            place += u[other] <= u[k]
        for other in range(k + 1, end):
            place += u[other] < u[k]
        order[place] = k


SERIES_TOLERANCE = 1e-6


@runtime_checkable
class HasModulation(Protocol):
    """An object with modulation coefficients, such as a graph kernel.

    Attributes
    ----------
    max_terms : int
        Largest number of terms that are summed.
    """

    max_terms: int

    def modulation(self, n_terms: int) -> FloatArray:
        """`f_0, ..., f_(n_terms-1)` with `K = (sum_t f_t W~^t)^2`, shape (n_terms,)."""

    def tail(self, n_terms: int) -> float:
        """A bound of `sum_{t >= n_terms} |f_t|`."""


ModulationLike: TypeAlias = ArrayLike | HasModulation


def n_terms_for(modulation: ModulationLike, tolerance: float = SERIES_TOLERANCE) -> int:
    """The least number n of terms with `tail(n) <= tolerance * tail(0)`, at most `max_terms`.

    For an array (n_terms,) it is the number of all coefficients. `tail_of` bounds the part that is
    neglected.
    """
    if not isinstance(modulation, HasModulation):
        return check_vector(modulation, "modulation").size
    goal = tolerance * modulation.tail(0)
    high = 1
    while high < modulation.max_terms and modulation.tail(high) > goal:
        high *= 2
    low, high = high // 2, min(high, modulation.max_terms)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if modulation.tail(middle) <= goal else (middle, high)
    return high


def coefficients(modulation: ModulationLike, n_terms: int) -> FloatArray:
    """The first coefficients (n_terms,), with zeros after the last one of an array."""
    if isinstance(modulation, HasModulation):
        return modulation.modulation(n_terms)
    given = check_vector(modulation, "modulation")
    f = np.zeros(n_terms)
    size = min(n_terms, given.size)
    f[:size] = given[:size]
    return f


def tail_of(modulation: ModulationLike, n_terms: int) -> float:
    """`sum_{t >= n_terms} |f_t|`, a bound of the part of a series beyond `n_terms` terms."""
    if isinstance(modulation, HasModulation):
        return modulation.tail(n_terms)
    return float(np.abs(check_vector(modulation, "modulation")[n_terms:]).sum())


def check_modulation(modulation: object) -> ModulationLike:
    """Return a kernel with modulation coefficients, or an array (n_terms,) of coefficients."""
    if isinstance(modulation, HasModulation):
        return modulation
    if isinstance(modulation, str):
        raise InvalidInputError(
            f"modulation: expected coefficients or a graph kernel, got the text {modulation!r}"
        )
    return check_vector(modulation, "modulation")  # type: ignore[arg-type]


# Number of walkers of every node, or one for each node of the graph.
WalksLike: TypeAlias = int | ArrayLike
# Most walkers of a node.
WALKS_LIMIT = 2**16 - 1


def checked_task(
    graph: Graph,
    n_walks: WalksLike,
    p_halt: float,
    coupling: WalkerCouplingLike,
    length_law: LengthLawLike,
    max_length: int | None,
    nodes: Any,
    generator: Seed,
    modulation: ModulationLike | None,
    memory_limit: float | None,
) -> WalkTask:
    """The task of the arguments of `sample.sample_walks`.

    Raises
    ------
    InvalidInputError
        A value is out of range.
    MemoryLimitError
        The walks would not fit; the message says what would make them smaller.
    """
    check_graph(graph)
    given = check_n_walks(graph, n_walks)
    parsed = parse_walker_coupling(coupling)
    law = parse_length_law(length_law, p_halt, lambda: walked_coefficients(modulation))
    longest = check_max_length(max_length, law, modulation)
    rows = check_nodes(graph, nodes)
    counts = walks_of(graph, given, rows)
    check_walk_memory(counts, law.survival(longest), memory_limit)
    parsed = tuned(parsed, law, modulation, longest)
    seed = int(as_rng(generator).integers(2**63))
    return task_of(graph, rows, given, parsed, law, longest, seed)


def task_of(
    graph: Graph,
    rows: IntArray,
    n_walks: int | IntArray,
    coupling: WalkerCoupling,
    law: LengthLaw,
    max_length: int,
    seed: int,
) -> WalkTask:
    """The walks of start nodes `rows` (n,), whose lengths have a law of their own.

    `n_walks` is the number of walkers of each node, or has one number for each node of the graph.
    """
    counts = walks_of(graph, n_walks, rows)
    settings = coupling.lengths, law, max_length, seed
    if isinstance(n_walks, int):
        lengths = lengths_of(*settings, n_walks)
    else:
        lengths = spread_lengths_of(*settings, n_walks, int(counts.max(initial=1)))
    return WalkTask(graph, rows, counts, coupling, law.survival(max_length), seed, lengths)


def check_n_walks(graph: Graph, n_walks: WalksLike) -> int | IntArray:
    """Numbers of walkers, one for all nodes or one for each node of a graph (n_nodes,).

    Raises
    ------
    InvalidInputError
        A number is negative, no integer or above 65535, there is one for each node and not as many
        as there are nodes, or the one for all is zero.
    """
    if np.ndim(n_walks) == 0:
        if check_positive_int(n_walks, "n_walks") > WALKS_LIMIT:
            raise wrong("n_walks", f"at most {WALKS_LIMIT}", n_walks)
        return int(n_walks)  # type: ignore[arg-type]
    numbers = np.asarray(n_walks)
    if numbers.shape != (graph.n_nodes,) or numbers.dtype.kind not in "iu":
        raise InvalidInputError(
            f"n_walks: expected a number, or integers of shape ({graph.n_nodes},), one for each "
            f"node of the graph, got {numbers.dtype} of shape {numbers.shape}"
        )
    if numbers.min() < 0 or numbers.max() > WALKS_LIMIT:
        raise InvalidInputError(
            f"n_walks: expected numbers from 0 to {WALKS_LIMIT}, got {numbers.min()} to "
            f"{numbers.max()}"
        )
    return numbers.astype(np.int64)


def walks_of(graph: Graph, n_walks: int | IntArray, rows: IntArray) -> IntArray:
    """Numbers of walkers (n,) of start nodes (n,).

    Raises
    ------
    InvalidInputError
        A start node has none, with which its row has no estimate.
    """
    if isinstance(n_walks, int):
        return np.full(rows.size, n_walks)
    counts = n_walks[rows]
    without = rows[counts == 0]
    if without.size:
        raise InvalidInputError(
            f"n_walks: expected at least one walker at each start node, got none at "
            f"{graph.label_all(without[:1])[0]!r} and {without.size - 1} more; give them walkers, "
            "or leave these nodes out"
        )
    return np.asarray(counts)


def walked_coefficients(modulation: ModulationLike | None) -> FloatArray:
    """Coefficients of the series that is walked, shape (n_terms,), for laws that need them."""
    if modulation is None:
        raise InvalidInputError(
            "modulation: expected coefficients or a kernel, to which the law of lengths can be "
            "matched, got None"
        )
    return coefficients(modulation, min(n_terms_for(modulation), LENGTH_LIMIT + 1))


def check_max_length(
    max_length: int | None, law: LengthLaw, modulation: ModulationLike | None
) -> int:
    """The given maximum length, or the least with a tail below 1e-6 of the series."""
    if max_length is None:
        if modulation is None or isinstance(law, MatchedLaw):
            return min(law.natural_length(), LENGTH_LIMIT)
        return min(n_terms_for(modulation) - 1, LENGTH_LIMIT)
    check_positive_int(max_length, "max_length", minimum=0)
    if max_length > LENGTH_LIMIT:
        raise InvalidInputError(f"max_length: expected at most {LENGTH_LIMIT}, got {max_length}")
    return max_length


def tuned(
    coupling: WalkerCoupling, law: LengthLaw, modulation: ModulationLike | None, max_length: int
) -> WalkerCoupling:
    """The coupling with its lengths prepared for the series."""
    if modulation is None and isinstance(coupling.lengths, SigmaLengths):
        modulation = 0.5 ** (1.0 + np.arange(max_length + 1))
    series = np.ones(1) if modulation is None else coefficients(modulation, max_length + 1)
    return WalkerCoupling(coupling.lengths.prepare(law, series, max_length), coupling.steps)


def visit_bytes(n_walks: int, longest: int) -> float:
    """Most bytes of a visit: a node (4), its step and count, and a feature (8)."""
    return 12.0 + np.dtype(form_of(n_walks, longest).dtype).itemsize


def walk_bytes(n_rows: int, n_walks: int | IntArray, survival: FloatArray) -> float:
    """Upper estimate of the bytes of walks and their features.

    Every walker makes `1 + sum_{t>=1} S_t` visits on average; merging only makes them fewer.

    Parameters
    ----------
    n_rows
        Number of start nodes.
    n_walks
        Number of walkers of each, or one number for each (n_rows,).
    survival
        Probabilities `S_t` (max_length + 1,) that a walk has at least t steps.
    """
    own = np.broadcast_to(n_walks, n_rows)
    per_visit = visit_bytes(int(own.max(initial=1)), survival.size - 1)
    return per_visit * float(own.sum()) * float(survival.sum())


def check_walk_memory(n_walks: IntArray, survival: FloatArray, limit: float | None) -> None:
    """Refuse walks that need more than the limit in bytes, or than is available if it is None.

    The numbers of walkers of the start nodes (n_rows,) and the chances `survival` (max_length + 1,)
    of a walk to have at least t steps give the estimate.

    Raises
    ------
    MemoryLimitError
        The walks would not fit; the message says what would make them smaller.
    """

    def advice(share: float) -> str:
        fitting = int(mean * share)
        fewer = f"n_walks <= {fitting}, " if fitting else ""
        return f"use {fewer}fewer nodes, a larger p_halt or a smaller max_length"

    mean = float(n_walks.mean()) if n_walks.size else 0.0
    needed = walk_bytes(n_walks.size, n_walks, survival)
    check_memory(needed, f"walks: {mean:g} from each of {n_walks.size} nodes", advice, limit)
