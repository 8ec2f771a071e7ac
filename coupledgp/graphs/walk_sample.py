"""Walks sampled once, and features of any kernel from these walks (MATH 9)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coupledgp.couplings.walkers.registry import (
    LengthLawLike,
    WalkerCoupling,
    WalkerCouplingLike,
)
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_collect import Weights, collect_sums, collect_visits
from coupledgp.graphs.walk_lengths import (
    ModulationLike,
    check_modulation,
    coefficients,
    tail_of,
)
from coupledgp.graphs.walk_settings import WalksLike, checked_task
from coupledgp.graphs.walk_visits import Visits, weigh, weigh_back
from coupledgp.random import FloatArray, IntArray, Seed


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

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.features import sample_walks
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> walks = sample_walks(ring, n_walks=4, max_length=1, generator=0)
    >>> walks.truncation([1.0, 0.5, 0.25, 0.25])
    Truncation(tail=0.5, relative=0.25, kernel_bound=2.25)
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
        Number of walkers m per node, or the numbers m_i of the start nodes (n,).
    coupling
        Coupling of the walkers; a sigma coupling has its permutation.
    survival
        Chances `S_0, ..., S_T` (T + 1,) that a walk has at least t steps, T the maximum length.
    visits
        Counts of the visits, equal visits merged; see `visits.Visits`.
    seed
        Seed of the walks. The rows of a node depend on it and the node alone, not on other nodes.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.features import sample_walks
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> walks = sample_walks(ring, n_walks=2000, max_length=3, generator=0)
    >>> W = ring.normalized_adjacency.toarray()
    >>> bool(np.abs(walks.loads(2).toarray() - W @ W).max() < 0.1)  # E[Psi_t] = W^t
    True
    """

    graph: Graph
    nodes: IntArray
    n_walks: int | IntArray
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
        return int(sum(array.nbytes for array in self.visits.arrays))

    @cached_property
    def _root_degrees(self) -> FloatArray:
        return root_degrees(self.graph)

    def features(self, f: ModulationLike) -> sparse.csr_array:
        """Features `Phi = sum_t f_t Psi_t`, so that `K ~ Phi Phi'` (MATH 9).

        Parameters
        ----------
        f
            Modulation coefficients `f_0, f_1, ...` (n_terms,), or a graph kernel. Coefficients
            beyond `max_length` are neglected; `truncation` gives the size of that part.

        Returns
        -------
        scipy.sparse.csr_array
            Shape (len(nodes), n_nodes), columns sorted. The pattern is the same for every f, and
            shared: take a `copy()` before changing it in place.
        """
        weights = weights_of(self.graph, self.nodes, self.n_walks, self.survival, f)
        values = weigh(self.visits, *weights)
        return as_matrix(self.visits.indptr, self.visits.nodes, values, self.graph.n_nodes)

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
            np.ascontiguousarray(left * (roots[self.nodes] / self.n_walks)[:, None]),
            np.ascontiguousarray(right / roots[:, None]),
            self.survival.size,
        )
        scale = self.survival
        return np.divide(products, scale, out=np.zeros(scale.size), where=scale > 0)

    @property
    def equivalent_walks(self) -> float:
        """Equal number of walkers of the same mean variance: the harmonic mean of the numbers."""
        return float(1.0 / np.mean(1.0 / np.asarray(self.n_walks, dtype=np.float64)))

    def truncation(self, f: ModulationLike) -> Truncation:
        """Size of the part of a series f (n_terms,), or of a kernel's, beyond these walks."""
        return truncation_of(self.survival, f)


def sample_walks(
    graph: Graph,
    n_walks: WalksLike = 32,
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
        Number of walkers m per node, or one number for each node of the graph (n_nodes,). Weights
        of the walkers of node i are then 1 / m_i; nodes that are not walked may have zero.
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

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.features import sample_walks
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> walks = sample_walks(ring, n_walks=4, nodes=[0, 3], max_length=5, generator=0)
    >>> walks.features([1.0, 0.5]).shape  # of two nodes, and of any series
    (2, 8)
    >>> walks.loads(0).toarray()[1].tolist()  # before the first step all are at home
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """
    task = checked_task(
        graph, n_walks, p_halt, coupling, length_law, max_length, nodes, generator, modulation,
        memory_limit,
    )  # fmt: skip
    visits = collect_visits(task)
    own = task.n_walks if np.ndim(n_walks) else int(n_walks)  # type: ignore[arg-type]
    return Walks(graph, task.rows, own, task.coupling, task.survival, visits, task.seed)


def sample_walk_features(
    graph: Graph,
    modulation: ModulationLike,
    n_walks: WalksLike = 32,
    p_halt: float = 0.1,
    coupling: WalkerCouplingLike = "stratified+systematic",
    length_law: LengthLawLike = "geometric",
    max_length: int | None = None,
    nodes: Any = None,
    generator: Seed = None,
    *,
    memory_limit: float | None = None,
) -> sparse.csr_array:
    """Features `Phi = sum_t f_t Psi_t` of one series, weighed while the walkers walk (MATH 9).

    They are `sample_walks(..., modulation=modulation).features(modulation)`, bit for bit, in less
    time and memory: visits are not kept, so that no other series can be taken with the same walks.

    Parameters
    ----------
    graph
        The graph.
    modulation
        Modulation coefficients `f_0, f_1, ...` (n_terms,), or a graph kernel. Coefficients beyond
        `max_length` are neglected.
    n_walks, p_halt, coupling, length_law, max_length, nodes, generator, memory_limit
        As in `sample_walks`.

    Returns
    -------
    scipy.sparse.csr_array
        Shape (len(nodes), n_nodes), columns sorted.

    Raises
    ------
    InvalidInputError
        A value is out of range.
    MemoryLimitError
        The walks would not fit; the message says what would make them smaller.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.features import sample_walk_features, sample_walks
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> f = [1.0, 0.5, 0.25]
    >>> phi = sample_walk_features(ring, f, n_walks=4, generator=0)
    >>> walks = sample_walks(ring, n_walks=4, generator=0, modulation=f)
    >>> (phi != walks.features(f)).nnz  # not one entry differs
    0
    """
    f = check_modulation(modulation)
    task = checked_task(
        graph, n_walks, p_halt, coupling, length_law, max_length, nodes, generator, f, memory_limit
    )
    weights = weights_of(graph, task.rows, task.n_walks, task.survival, f)
    return as_matrix(*collect_sums(task, weights), graph.n_nodes)


def truncation_of(survival: FloatArray, f: ModulationLike) -> Truncation:
    """Size of the part of a series beyond walks of given chances (T + 1,) of their lengths."""
    series = check_modulation(f)
    reached = int(np.flatnonzero(survival > 0).max()) + 1
    total, tail = tail_of(series, 0), tail_of(series, reached)
    return Truncation(tail, tail / total if total else 0.0, tail * (2 * total + tail))


def root_degrees(graph: Graph) -> FloatArray:
    """Roots of the degrees (n_nodes,), 1 for isolated nodes."""
    return np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0))


def weights_of(
    graph: Graph,
    nodes: IntArray,
    n_walks: int | IntArray,
    survival: FloatArray,
    f: ModulationLike,
) -> Weights:
    """Weight of a visit at step t of a walker from i to j: `f_t sqrt(D_i / D_j) / (m_i S_t)`."""
    given = coefficients(check_modulation(f), survival.size)
    per_step = np.divide(given, survival, out=np.zeros(survival.size), where=survival > 0)
    roots = root_degrees(graph)
    return Weights(per_step, roots[nodes] / n_walks, 1.0 / roots)


def as_matrix(
    starts: NDArray[Any], nodes: NDArray[np.int32], values: FloatArray, n_nodes: int
) -> sparse.csr_array:
    """Rows from their offsets (n + 1,), their nodes in order (pairs,) and values (pairs,).

    Offsets of the type of the nodes leave the nodes where they are: scipy would copy them.
    """
    if starts[-1] <= np.iinfo(np.int32).max:
        starts = starts.astype(np.int32)
    matrix = sparse.csr_array((values, nodes, starts), shape=(starts.size - 1, n_nodes))
    matrix.has_sorted_indices = True
    return matrix
