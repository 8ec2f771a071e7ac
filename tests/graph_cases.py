"""Small graphs for the tests of walks, and the statistics of replicated draws."""

from __future__ import annotations

import networkx as nx
import numpy as np
from scipy import sparse

from coupledgp.graphs import Graph


def plain_graph() -> Graph:
    """Unweighted graph of 14 nodes: two components, a hub, a self-loop and an isolated node."""
    edges = [(0, k) for k in range(1, 6)] + [(1, 2), (2, 3), (5, 5), (6, 7), (7, 8), (8, 6), (8, 9)]
    edges += [(9, 10), (10, 11), (11, 12), (12, 6), (4, 5)]
    return Graph.from_edges([a for a, _ in edges], [b for _, b in edges], n_nodes=14)


def weighted_graph() -> Graph:
    """The same edges with weights that differ by up to a factor of thirty."""
    plain = plain_graph()
    upper = sparse.triu(plain.adjacency).tocoo()
    weights = np.random.default_rng(5).uniform(0.1, 3.0, upper.data.size)
    return Graph.from_edges(
        upper.row.astype(np.int64), upper.col.astype(np.int64), weights, n_nodes=14
    )


def karate() -> Graph:
    """Zachary's karate club, 34 nodes, unweighted."""
    return Graph.from_networkx(nx.karate_club_graph(), weight=None)


def copies(graph: Graph, n_copies: int) -> Graph:
    """Disjoint copies of a graph, on which one draw of walks gives an independent draw each."""
    return Graph.from_scipy(sparse.block_diag([graph.adjacency] * n_copies, format="csr"))


def blocks(matrix: sparse.csr_array, n_copies: int) -> np.ndarray:
    """Diagonal blocks (n_copies, n, n) of the features of all copies."""
    size = matrix.shape[1] // n_copies
    coo = matrix.tocoo()
    out = np.zeros((n_copies, size, size))
    out[coo.row // size, coo.row % size, coo.col % size] = coo.data
    return out


def assert_mean_is(draws: np.ndarray, truth: np.ndarray) -> None:
    """Require the mean of draws (R, ...) to be as expected, within its Monte Carlo error.

    For errors with covariance C / R, `sum(error^2) / (tr C / R)` has mean one and variance
    `2 tr(C^2) / (tr C)^2`; six standard errors are allowed, plus rounding.
    """
    n_draws = draws.shape[0]
    samples = draws.reshape(n_draws, -1)
    error = samples.mean(axis=0) - truth.reshape(-1)
    covariance = np.atleast_2d(np.cov(samples.T))
    variance = np.trace(covariance) / n_draws
    if variance < 1e-25:
        assert np.abs(error).max() < 1e-10
        return
    spread = np.sqrt(2 * (covariance**2).sum()) / np.trace(covariance)
    ratio = (error @ error) / variance
    assert abs(ratio - 1) < 6 * spread, f"ratio {ratio:.3f}, one standard error {spread:.3f}"
