"""Walk features as an operator: exact hops and walked rest, without powers of `W~`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from coupledgp.graphs.hops import HopNodes, HopPlan, plan_hops, split_series
from coupledgp.graphs.products import by_column_blocks, column_blocks, fused_product
from coupledgp.graphs.walk_lengths import (
    ModulationLike,
    check_modulation,
    coefficients,
    n_terms_for,
)
from coupledgp.graphs.walk_sample import Truncation, Walks
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray

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
