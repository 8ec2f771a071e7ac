"""Sparse factorisation of `I + s L~`, and its cost, counted before it is done."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import SuperLU, spilu, splu

from coupledgp.compiled import compiled
from coupledgp.graphs.graph import Graph
from coupledgp.random import IntArray

# Options under which SuperLU takes the diagonal as pivots: the matrix is positive definite.
SYMMETRIC = {"SymmetricMode": True}


def shifted_laplacian(graph: Graph, scale: float) -> sparse.csc_array:
    """`I + s L~ = (1 + s) I - s W~`, positive definite, shape (n_nodes, n_nodes)."""
    eye = sparse.eye_array(graph.n_nodes, format="csc")
    return sparse.csc_array((1.0 + scale) * eye - scale * graph.normalized_adjacency)


def elimination_order(graph: Graph) -> IntArray:
    """Order of the nodes (n_nodes,) in which elimination fills little: minimum degree, by SuperLU.

    The order is read off an incomplete factorisation that drops everything off the diagonal, which
    costs no more than the order itself.
    """
    # A large drop tolerance keeps the factors empty; the order depends on the pattern alone.
    thin = spilu(
        shifted_laplacian(graph, 1e-3), drop_tol=1.0, fill_factor=1.0, diag_pivot_thresh=0.0,
        permc_spec="MMD_AT_PLUS_A", options=SYMMETRIC,
    )  # fmt: skip
    order = np.empty(graph.n_nodes, dtype=np.int64)
    order[thin.perm_c] = np.arange(graph.n_nodes)
    return order


def factor_entries(graph: Graph, order: IntArray, budget: int) -> int:
    """Number of entries of the Cholesky factor L, its diagonal included, in a given order.

    They are counted row by row along the elimination tree, without forming L: O(nnz(L)) time, O(n)
    memory.

    Parameters
    ----------
    graph
        The graph.
    order
        Elimination order of the nodes (n_nodes,).
    budget
        Number beyond which counting stops.
    """
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return int(_count(graph.indptr, graph.indices, order, place, budget))


@compiled
def _count(indptr, indices, order, place, budget):  # type: ignore[no-untyped-def]
    n = order.size
    parent = np.full(n, -1, np.int64)
    mark = np.full(n, -1, np.int64)
    total = n
    for row in range(n):
        mark[row] = row
        node = order[row]
        for entry in range(indptr[node], indptr[node + 1]):
            column = place[indices[entry]]
            if column >= row:
                continue
            # Every node on the way up the tree that is new to this row is an entry of it.
            while mark[column] != row:
                mark[column] = row
                total += 1
                if parent[column] < 0:
                    parent[column] = row
                column = parent[column]
        if total > budget:
            break
    return total


class ShiftedLaplacianFactor:
    """Factors of `I + s L~`, for solves.

    Parameters
    ----------
    graph
        The graph.
    scale
        Factor s > 0.
    order
        Elimination order of the nodes (n_nodes,).
    """

    def __init__(self, graph: Graph, scale: float, order: IntArray) -> None:
        self._order = order
        permuted = shifted_laplacian(graph, scale)[order][:, order]
        self._factors: SuperLU = splu(
            sparse.csc_array(permuted), permc_spec="NATURAL", diag_pivot_thresh=0.0,
            options=SYMMETRIC,
        )  # fmt: skip

    @property
    def n_entries(self) -> int:
        """Number of entries of L."""
        return int(self._factors.L.nnz)

    def solve(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """`(I + s L~)^-1 V` for V (n_nodes, k)."""
        out = np.empty_like(V)
        out[self._order] = self._factors.solve(np.ascontiguousarray(V[self._order]))
        return out
