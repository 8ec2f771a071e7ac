"""Arguments of sampled walks, checked and turned into the task of the engine."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings.walkers.lengths import LENGTH_LIMIT, LengthLaw, MatchedLaw, SigmaLengths
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
from coupledgp.graphs.walk_collect import WalkTask
from coupledgp.graphs.walk_lengths import (
    ModulationLike,
    coefficients,
    lengths_of,
    n_terms_for,
    spread_lengths_of,
)
from coupledgp.graphs.walk_visits import form_of
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import FloatArray, IntArray, Seed, as_rng

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
