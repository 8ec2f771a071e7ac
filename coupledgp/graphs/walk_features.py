"""Walks sampled once, and features of any kernel from these walks (MATH 9).

Walk features as an operator: exact hops and walked rest, without powers of `W~`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from coupledgp.couplings.walkers.registry import LengthLawLike, WalkerCoupling, WalkerCouplingLike
from coupledgp.graphs import Graph
from coupledgp.graphs.hops import HopNodes, HopPlan, plan_hops, split_series
from coupledgp.graphs.spectral import by_column_blocks, column_blocks, fused_product
from coupledgp.graphs.walk_lengths import (
    ModulationLike,
    WalksLike,
    check_modulation,
    checked_task,
    coefficients,
    n_terms_for,
    tail_of,
)
from coupledgp.graphs.walk_visits import (
    Visits,
    Weights,
    collect_sums,
    collect_visits,
    weigh,
    weigh_back,
)
from coupledgp.ground.validation import wrong
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
    graph: Graph, nodes: IntArray, n_walks: int | IntArray, survival: FloatArray, f: ModulationLike
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


# Share of nonzeros above which products of sparse rows are no faster than those of dense ones.
DENSE_SHARE = 0.02


class WalkFeatures(LinearOperator):
    """Features `Phi` of some nodes, (len(nodes), n_nodes), with `E[Phi] = F(W~)` (MATH 9).

    On a graph with scales s of its nodes (`Graph.node_scale`) it is `diag(s) F(W~)`.
    `Phi v`, `Phi' v` and rows cost r products with `W~` and one with the walked loads. The kernel
    estimate `Phi Phi'` is positive semidefinite, and unbiased off the diagonal.

    Parameters
    ----------
    walks
        Sampled walks; best under a length law matched to the walked series (`walked_series`).
    f
        Modulation coefficients (n_terms,) or a graph kernel.
    exact_hops
        A number of hops, `"auto"`, or a `HopPlan`.
    hop_nodes
        Kind of the hop nodes, see `plan_hops`.

    Attributes
    ----------
    plan
        The hops in use and the reason for them.
    head, series
        Divided differences `a` (r,) and the walked series `c`.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.features import WalkFeatures, sample_walks
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> walks = sample_walks(ring, n_walks=4, generator=0)
    >>> phi = WalkFeatures(walks, [1.0, 0.5, 0.25], exact_hops=3)  # all of the series is computed
    >>> W = ring.normalized_adjacency.toarray()
    >>> bool(np.allclose(phi @ np.eye(8), np.eye(8) + 0.5 * W + 0.25 * W @ W))
    True
    """

    def __init__(
        self,
        walks: Walks,
        f: ModulationLike,
        exact_hops: int | Literal["auto"] | HopPlan = 0,
        hop_nodes: HopNodes = "chebyshev",
    ) -> None:
        series = check_modulation(f)
        if isinstance(exact_hops, HopPlan):
            self.plan = exact_hops
        else:
            self.plan = plan_hops(
                walks.graph, series, walks.equivalent_walks, exact_hops, hop_nodes
            )
        self._setup(walks, coefficients(series, n_terms_for(series)))

    def _setup(self, walks: Walks, f: FloatArray) -> None:
        self._setup_parts(walks, *split_series(f, np.array(self.plan.nodes)))

    def _setup_parts(self, walks: Walks, head: FloatArray, series: FloatArray) -> None:
        self.walks, self.head, self.series = walks, head, series
        self._walked = walks.features(series)
        scale = walks.graph.node_scale
        self._scale = None if scale is None else scale[walks.nodes]
        super().__init__(np.float64, self._walked.shape)

    @classmethod
    def from_parts(
        cls, walks: Walks, head: FloatArray, series: FloatArray, plan: HopPlan
    ) -> WalkFeatures:
        """Features of a series that is split already: `a` (r,) and `c` (n_terms,), see `hops`."""
        features = object.__new__(cls)
        features.plan = plan
        features._setup_parts(walks, head, series)
        return features

    def with_series(self, f: FloatArray) -> WalkFeatures:
        """The same walks and hops for another series (or its derivative), shape (n_terms,)."""
        head, series = split_series(np.asarray(f, dtype=np.float64), np.array(self.plan.nodes))
        return type(self).from_parts(self.walks, head, series, self.plan)

    @property
    def truncation(self) -> Truncation:
        """Size of the part of the walked series c that is beyond the longest walk."""
        return self.walks.truncation(self.series)

    def rows(self, positions: Any = None) -> FloatArray:
        """Dense rows of Phi, by position in `walks.nodes`, shape (len(positions), n_nodes)."""
        found = self._scaled_rows(positions)
        return found if isinstance(found, np.ndarray) else found.toarray()

    def sparse_rows(self, positions: Any = None) -> sparse.csr_array:
        """Rows of Phi in sparse form, shape (len(positions), n_nodes)."""
        found = self._scaled_rows(positions)
        return sparse.csr_array(found) if isinstance(found, np.ndarray) else found

    def _scaled_rows(self, positions: Any) -> sparse.csr_array | FloatArray:
        """Rows of Phi (p, n_nodes) with the scales of their nodes."""
        chosen = self._chosen(positions)
        found = self._rows(chosen)
        if self._scale is None:
            return found
        scale = self._scale[chosen]
        if isinstance(found, np.ndarray):
            return found * scale[:, None]
        return sparse.csr_array(sparse.diags_array(scale) @ found)

    def _times_scale(self, V: FloatArray) -> FloatArray:
        """`diag(s) V` for V (len(nodes), k), s being the scales of the nodes."""
        return V if self._scale is None else self._scale[:, None] * V

    def _rows(self, chosen: Any) -> sparse.csr_array | FloatArray:
        """Rows (p, n_nodes) without scales, sparse if each is nonzero only near its node.

        A hop is a product of sparse rows with `W~` as long as they are sparse: the cost of few rows
        of a large graph grows with the nodes within `n_hops` steps of their walkers, not with the
        graph.
        """
        current, hops = self._local_rows(chosen)
        if hops == 0:
            return current
        rows = np.empty((chosen.size, self.shape[1]))
        for part in column_blocks(self.shape[1], chosen.size):
            places = self.walks.nodes[chosen[part]]
            spread = np.zeros((self.shape[1], places.size))
            spread[places, np.arange(places.size)] = 1.0
            rows[part] = self._backward(current[part].T.toarray(), spread, hops).T
        return rows

    def _local_rows(self, chosen: Any) -> tuple[sparse.csr_array, int]:
        """Rows in sparse form after as many hops as keep it sparse, and the number of hops left."""
        limit = DENSE_SHARE * chosen.size * self.shape[1]
        matrix, hops = self.walks.graph.normalized_adjacency, self.head.size
        current = self._walked[chosen]
        places = sparse.csr_array(
            (np.ones(chosen.size), (np.arange(chosen.size), self.walks.nodes[chosen])),
            shape=current.shape,
        )
        while hops > 0 and current.nnz <= limit:
            hops -= 1
            moved = current @ matrix - self.plan.nodes[hops] * current
            current = sparse.csr_array(moved + self.head[hops] * places)
        return current, hops

    def _chosen(self, positions: Any) -> Any:
        chosen = np.arange(self.shape[0]) if positions is None else np.asarray(positions)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise wrong("positions", "a 1-D sequence of integers", positions)
        bad = chosen[(chosen < 0) | (chosen >= self.shape[0])]
        if bad.size:
            raise wrong("positions", f"numbers from 0 to {self.shape[0] - 1}", bad[0])
        return chosen

    def slopes(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives of `sum(left * (Phi right))` in `head` and `series`.

        Parameters
        ----------
        left, right
            Shapes (len(nodes), k) and (n_nodes, k).
        """
        graph, nodes = self.walks.graph, self.walks.nodes
        left = self._times_scale(left)
        current = np.ascontiguousarray(right, dtype=np.float64)
        heads = np.empty(self.head.size)
        for k, node in enumerate(self.plan.nodes):
            heads[k] = np.vdot(left, current[nodes])
            current = fused_product(graph, current, 1.0, -node)
        series = np.zeros(self.series.size)
        walked = self.walks.load_products(left, current)
        size = min(series.size, walked.size)
        series[:size] = walked[:size]
        return heads, series

    def _matmat(self, V: FloatArray) -> FloatArray:
        return by_column_blocks(self._forward, np.asarray(V, dtype=np.float64), self.shape[1])

    def _forward(self, current: FloatArray) -> FloatArray:
        total = np.zeros((self.shape[0], current.shape[1]))
        for coefficient, node in zip(self.head, self.plan.nodes, strict=True):
            total += coefficient * current[self.walks.nodes]
            current = fused_product(self.walks.graph, current, 1.0, -node)
        return self._times_scale(total + self._walked @ current)

    def _matvec(self, v: FloatArray) -> FloatArray:
        return self._matmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def _rmatmat(self, V: FloatArray) -> FloatArray:
        def blocks(values: FloatArray) -> FloatArray:
            given = self._times_scale(values)
            return self._backward(self._transposed @ given, self._spread(given))

        return by_column_blocks(blocks, np.asarray(V, dtype=np.float64), self.shape[1])

    def _backward(
        self, current: FloatArray, spread: FloatArray, hops: int | None = None
    ) -> FloatArray:
        """Apply the first hops by Horner's rule.

        `current` is the product of the hops that follow them and `spread` the values of the rows at
        their nodes, both (n_nodes, k).
        """
        for k in reversed(range(self.head.size if hops is None else hops)):
            node, coefficient = self.plan.nodes[k], self.head[k]
            current = fused_product(self.walks.graph, current, 1.0, -node, coefficient, spread)
        return current

    def _rmatvec(self, v: FloatArray) -> FloatArray:
        return self._rmatmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def _spread(self, values: FloatArray) -> FloatArray:
        """Values (len(nodes), k) of the rows, added up at their nodes (n_nodes, k)."""
        if not self.plan.nodes:
            return np.empty(0)
        rows = np.arange(self.shape[0])
        places = sparse.csr_array((np.ones(rows.size), (self.walks.nodes, rows)), self.shape[::-1])
        spread: FloatArray = places @ values
        return spread

    @property
    def _transposed(self) -> sparse.csc_array:
        return self._walked.T
