"""Walks sampled once, and the features of any kernel made of them (MATH 9)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from coupledgp.counter import LengthUniforms
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
from coupledgp.features.walks.compiled_steps import moves_of
from coupledgp.features.walks.engine import walk
from coupledgp.features.walks.memory import check_walk_memory
from coupledgp.features.walks.modulation import (
    ModulationLike,
    check_modulation,
    coefficients,
    n_terms_for,
    tail_of,
)
from coupledgp.features.walks.reference import plain_walk
from coupledgp.features.walks.visits import Visits, concatenate, weigh, weigh_back
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph, check_nodes
from coupledgp.random import FloatArray, IntArray, Seed, as_rng
from coupledgp.validation import check_positive_int

# Visits that are packed at once, 32 MiB.
CHUNK_VISITS = 2**22
# Most walkers of a node: a packed visit counts them in 16 bits.
WALKS_LIMIT = 2**16 - 1


@dataclass(frozen=True)
class Truncation:
    """Size of the part of a series that is beyond walks of at most `max_length` steps.

    Attributes
    ----------
    tail
        `sum_{t > max_length} |f_t|`, a bound of the spectral norm of that part of `F(W~)`.
    relative
        The tail divided by `sum_t |f_t|`.
    kernel_bound
        Bound of the bias of `K` in spectral norm, `tail * (2 sum_t |f_t| + tail)`.
    """

    tail: float
    relative: float
    kernel_bound: float


@dataclass(frozen=True)
class Walks:
    """Visits of the walkers of some nodes, in compact form.

    With `C_t[i, j]` the number of i's walkers at j after t steps, the loads of MATH 9 are
    `Psi_t[i, j] = C_t[i, j] sqrt(D_i / D_j) / (m S_t)`, and `E[Psi_t] = W~^t`. Features of every
    kernel are `sum_t f_t Psi_t`, so kernels, hyperparameters and gradients share one sample.

    Attributes
    ----------
    graph
        Graph on which the walkers move.
    nodes
        Start nodes by number, shape (n,).
    n_walks
        Number of walkers m per node.
    coupling
        Coupling of the walkers; a sigma coupling has its permutation.
    survival
        Chances `S_0, ..., S_T` (T + 1,) that a walk has at least t steps, T the maximum length.
    visits
        Counts of the visits, equal visits merged; see `visits.Visits`.
    seed
        Seed of the walks. The rows of a node depend on it and the node alone, not on other nodes.
    """

    graph: Graph
    nodes: IntArray
    n_walks: int
    coupling: WalkerCoupling
    survival: FloatArray
    visits: Visits
    seed: int

    @property
    def max_length(self) -> int:
        """Length T of the longest walk, in steps."""
        return self.survival.size - 1

    @property
    def nbytes(self) -> int:
        """Memory of the compact form in bytes."""
        return int(sum(array.nbytes for array in self.visits))

    @cached_property
    def _root_degrees(self) -> FloatArray:
        return np.sqrt(np.where(self.graph.degrees > 0, self.graph.degrees, 1.0))

    def features(self, f: ModulationLike) -> sparse.csr_array:
        """Features `Phi = sum_t f_t Psi_t`, so that `K ~ Phi Phi'` (MATH 9).

        Parameters
        ----------
        f
            Modulation coefficients `f_0, f_1, ...` (n_terms,), or a graph kernel. Those beyond
            `max_length` are neglected; `truncation` gives the size of that part.

        Returns
        -------
        scipy.sparse.csr_array
            Shape (len(nodes), n_nodes), columns sorted. The pattern is the same for every f, and
            shared: take a `copy()` before changing it in place.
        """
        given = coefficients(check_modulation(f), self.survival.size)
        scale = self.n_walks * self.survival
        per_step = np.divide(given, scale, out=np.zeros(scale.size), where=scale > 0)
        roots = self._root_degrees
        values = weigh(self.visits, per_step, roots[self.nodes], 1.0 / roots)
        matrix = sparse.csr_array(
            (values, self.visits.nodes, self.visits.indptr),
            shape=(self.nodes.size, self.graph.n_nodes),
        )
        matrix.has_sorted_indices = True
        return matrix

    def loads(self, step: int) -> sparse.csr_array:
        """`Psi_step`, the loads after `step` steps, shape (len(nodes), n_nodes)."""
        matrix = self.features((np.arange(step + 1) == step).astype(np.float64)).copy()
        matrix.eliminate_zeros()
        return matrix

    def load_products(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """`sum(left * (Psi_t right))` for t = 0..T, shape (T + 1,).

        Parameters
        ----------
        left, right
            Shapes (len(nodes), k) and (n_nodes, k).
        """
        roots = self._root_degrees
        products = weigh_back(
            self.visits,
            np.ascontiguousarray(left * roots[self.nodes, None]),
            np.ascontiguousarray(right / roots[:, None]),
            self.survival.size,
        )
        scale = self.n_walks * self.survival
        return np.divide(products, scale, out=np.zeros(scale.size), where=scale > 0)

    def truncation(self, f: ModulationLike) -> Truncation:
        """Size of the part of a series f (n_terms,), or of a kernel's, beyond these walks."""
        series = check_modulation(f)
        reached = int(np.flatnonzero(self.survival > 0).max()) + 1
        total, tail = tail_of(series, 0), tail_of(series, reached)
        return Truncation(tail, tail / total if total else 0.0, tail * (2 * total + tail))


def sample_walks(
    graph: Graph,
    n_walks: int = 32,
    p_halt: float = 0.1,
    coupling: WalkerCouplingLike = "stratified+systematic",
    length_law: LengthLawLike = "geometric",
    max_length: int | None = None,
    nodes: Any = None,
    generator: Seed = None,
    *,
    modulation: ModulationLike | None = None,
    memory_limit: float | None = None,
) -> Walks:
    """Sample coupled random walks from some nodes of a graph.

    Parameters
    ----------
    graph
        The graph.
    n_walks
        Number of walkers m per node.
    p_halt
        Chance of halting before each step under the geometric law.
    coupling
        `lengths[+steps]`, see `couplings.parse_walker_coupling`.
    length_law
        `"geometric"`, `"matched"` (to `modulation`), or others, as in `parse_length_law`.
    max_length
        Length at which walks end, in steps. By default the number of terms of the series for a
        given `modulation` (tail below 1e-6 of the whole), else the length that a geometric walker
        exceeds with chance 1e-6. `Walks.truncation` gives the size of the part that is lost.
    nodes
        Start nodes by label; all if left out. Only these are walked.
    generator
        Seed or generator. Rows depend on the seed and their node alone.
    modulation
        Series that the walks are for: coefficients (n_terms,) or a graph kernel. The matched law
        needs it; sigma is solved for it (for the 2-regularised Laplacian with s = 1 if left out).
    memory_limit
        Bytes the walks may take; the available memory if left out.

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
    survival = law.survival(longest)
    rows = check_nodes(graph, nodes)
    check_walk_memory(rows.size, n_walks, survival, memory_limit)
    parsed = tuned(parsed, law, modulation, longest)
    seed = int(as_rng(generator).integers(2**63))
    visits = walk_in_chunks(graph, rows, n_walks, parsed, law, longest, seed)
    return Walks(graph, rows, n_walks, parsed, survival, visits, seed)


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


def walk_in_chunks(
    graph: Graph,
    rows: IntArray,
    n_walks: int,
    coupling: WalkerCoupling,
    law: LengthLaw,
    max_length: int,
    seed: int,
    chunk_visits: int = CHUNK_VISITS,
) -> Visits:
    """Draw lengths and walk from start nodes `rows` (n,), in chunks of rows.

    A chunk has about `chunk_visits` visits on average, which bounds the memory for packed visits.
    """
    per_row = n_walks * (1.0 + law.survival(max_length)[1:].sum())
    size = max(int(chunk_visits / per_row), 1)
    moves, steps = moves_of(graph, per_row * rows.size), coupling.steps
    parts = []
    for start in range(0, rows.size, size):
        chunk = rows[start : start + size]
        uniforms = LengthUniforms(seed, chunk, n_walks)
        lengths = coupling.lengths.sample(law, max_length, uniforms)
        if steps.compiled is None:
            parts.append(plain_walk(seed, chunk, lengths, steps, graph))
        else:
            parts.append(walk(seed, chunk, lengths, steps.compiled, moves))
    visits = concatenate(parts)
    for array in visits:
        array.flags.writeable = False
    return visits
