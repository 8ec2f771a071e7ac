"""Arguments of sampled walks, checked and turned into the task of the engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.couplings.walkers.length_laws import LENGTH_LIMIT, LengthLaw, MatchedLaw
from coupledgp.couplings.walkers.lengths import SigmaLengths
from coupledgp.couplings.walkers.registry import (
    LengthLawLike,
    WalkerCoupling,
    WalkerCouplingLike,
    parse_length_law,
    parse_walker_coupling,
)
from coupledgp.errors import InvalidInputError
from coupledgp.features.walks.collect import WalkTask
from coupledgp.features.walks.lengths import lengths_of
from coupledgp.features.walks.memory import check_walk_memory
from coupledgp.features.walks.modulation import ModulationLike, coefficients, n_terms_for
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph, check_nodes
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, IntArray, Seed, as_rng

# Most walkers of a node.
WALKS_LIMIT = 2**16 - 1


def checked_task(
    graph: Graph,
    n_walks: int,
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
    if check_positive_int(n_walks, "n_walks") > WALKS_LIMIT:
        raise InvalidInputError(f"n_walks: expected at most {WALKS_LIMIT}, got {n_walks}")
    parsed = parse_walker_coupling(coupling)
    law = parse_length_law(length_law, p_halt, lambda: walked_coefficients(modulation))
    longest = check_max_length(max_length, law, modulation)
    rows = check_nodes(graph, nodes)
    check_walk_memory(rows.size, n_walks, law.survival(longest), memory_limit)
    parsed = tuned(parsed, law, modulation, longest)
    seed = int(as_rng(generator).integers(2**63))
    return task_of(graph, rows, n_walks, parsed, law, longest, seed)


def task_of(
    graph: Graph,
    rows: IntArray,
    n_walks: int,
    coupling: WalkerCoupling,
    law: LengthLaw,
    max_length: int,
    seed: int,
) -> WalkTask:
    """The walks of start nodes `rows` (n,), whose lengths have a law of their own."""
    lengths = lengths_of(coupling.lengths, law, max_length, seed, n_walks)
    return WalkTask(graph, rows, n_walks, coupling, law.survival(max_length), seed, lengths)


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
