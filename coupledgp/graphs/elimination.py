"""Sparse factorisation of `I + s L~`."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from coupledgp.graphs.graph import Graph


def shifted_laplacian(graph: Graph, scale: float) -> sparse.csc_array:
    """`I + s L~ = (1 + s) I - s W~`, positive definite, shape (n_nodes, n_nodes)."""
    if graph.node_scale is not None:
        return loopless_laplacian(graph, scale)
    eye = sparse.eye_array(graph.n_nodes, format="csc")
    return sparse.csc_array((1.0 + scale) * eye - scale * graph.normalized_adjacency)


def loopless_laplacian(graph: Graph, scale: float) -> sparse.csc_array:
    """`I + s L~` without the self-loops, see `graph_laplacian`."""
    eye = sparse.eye_array(graph.n_nodes, format="csr")
    return sparse.csc_array(eye + scale * graph_laplacian(graph))


def graph_laplacian(graph: Graph) -> sparse.csr_array:
    """`L~`, shape (n_nodes, n_nodes), from edges without the self-loops, which cancel in it.

    Self-loops of an irregular triangulation are so large that `1 - W~_ii` has few digits left.
    Nodes without edges and without self-loops have `L~_ii = 1`.
    """
    matrix = graph.adjacency.tocoo()
    links = matrix.row != matrix.col
    rows, columns, weights = matrix.row[links], matrix.col[links], matrix.data[links]
    n, degrees = graph.n_nodes, graph.degrees
    between = np.ones(n)
    np.divide(np.bincount(rows, weights, minlength=n), degrees, out=between, where=degrees > 0)
    roots = np.sqrt(degrees)
    off = sparse.coo_array((-weights / (roots[rows] * roots[columns]), (rows, columns)), (n, n))
    return sparse.csr_array(off + sparse.diags_array(between))
