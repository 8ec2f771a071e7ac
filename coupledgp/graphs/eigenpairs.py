"""Leading eigenpairs of `W~`, of which wide kernels on large graphs consist."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from coupledgp.graphs import Graph
from coupledgp.graphs.elimination import ShiftedLaplacianFactor
from coupledgp.graphs.products import fused_product
from coupledgp.graphs.spectrum import Eigenpairs, lanczos_density
from coupledgp.inference.linalg.sparse_cholesky import minimum_degree
from coupledgp.random import FloatArray

# Columns that are iterated for each wanted eigenpair: the last of them converge slowly.
SPARE = 1.25
# Ratio of the filter's values at the largest and at the least wanted eigenvalue. A larger one would
# round the directions of the least ones away.
MAX_GROWTH = 1e10
# Residual of a converged pair; the error of its eigenvalue is about the square of that.
RESIDUAL = 1e-9
# Largest number of filters; pairs that have not converged after that are left out.
MAX_PASSES = 6


@lru_cache(maxsize=2)
def leading_eigenpairs(graph: Graph, n_pairs: int) -> Eigenpairs:
    """The greatest eigenvalues of `W~`, ascending, and their eigenvectors (n_nodes, n).

    Subspace iteration with Chebyshev filters and Rayleigh-Ritz steps (Zhou et al., 2006), until
    every pair has a residual below 1e-9 or the passes are used up. At most `n_pairs` are returned,
    and fewer where the last ones have not converged: always all pairs above some eigenvalue. On
    graphs of surfaces and networks they come from a sparse factor instead.

    Parameters
    ----------
    graph
        The graph.
    n_pairs
        Number of pairs wanted.
    """
    if graph.node_scale is not None:
        return inverse_eigenpairs(graph, min(n_pairs, graph.n_nodes - 2))
    size = min(int(np.ceil(SPARE * n_pairs)), graph.n_nodes)
    V = np.random.default_rng(0).standard_normal((graph.n_nodes, size))
    edge = density_quantile(graph, size)
    values, vectors, good = np.empty(0), V, 0
    for _ in range(MAX_PASSES):
        V = chebyshev_filter(graph, V, edge)
        Q = linalg.qr(V, mode="economic", overwrite_a=True)[0]
        WQ = fused_product(graph, Q)
        values, turn = linalg.eigh(Q.T @ WQ)
        vectors = Q @ turn
        residuals = np.linalg.norm(WQ @ turn - vectors * values, axis=0)
        bad = np.flatnonzero(residuals > RESIDUAL)
        good = values.size - (int(bad.max()) + 1 if bad.size else 0)
        if good >= min(n_pairs, size):
            break
        V, edge = vectors, min(float(values[0]), 1.0 - 1e-6)
    keep = min(good, n_pairs)
    first = values.size - keep
    return Eigenpairs(np.clip(values[first:], -1.0, 1.0), np.ascontiguousarray(vectors[:, first:]))


def inverse_eigenpairs(graph: Graph, n_pairs: int) -> Eigenpairs:
    """Leading eigenpairs by Lanczos steps with `(I + s L~)^-1`, s so large that they lie apart.

    On irregular triangulations they are so near to one that a filter would take thousands of
    products with `W~`.
    """
    # Diffusion over `time_unit` steps crosses a part of the graph: eigenvalues 1 / s and more.
    factor = ShiftedLaplacianFactor(graph, graph.time_unit, minimum_degree(graph.adjacency))
    shape = (graph.n_nodes, graph.n_nodes)
    inverse = LinearOperator(shape, matvec=factor.solve, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(graph.n_nodes)
    values, vectors = eigsh(inverse, n_pairs, v0=start, which="LA")
    order = np.argsort(values)
    distances = (1.0 / values[order] - 1.0) / graph.time_unit  # eigenvalues of L~
    return Eigenpairs(np.clip(1.0 - distances, -1.0, 1.0), np.ascontiguousarray(vectors[:, order]))


def density_quantile(graph: Graph, n_above: int) -> float:
    """Estimate of the eigenvalue that has `n_above` others above it."""
    density = lanczos_density(graph, n_steps=64)
    order = np.argsort(density.eigenvalues)[::-1]
    above = np.cumsum(density.weights[order]) * graph.n_nodes
    return float(min(density.eigenvalues[order][np.searchsorted(above, n_above)], 1.0 - 1e-6))


def chebyshev_filter(graph: Graph, V: FloatArray, edge: float) -> FloatArray:
    """`T_d(A) V` for V (n_nodes, k), A being `W~` with [-1, edge] mapped to [-1, 1].

    Components along eigenvalues in [-1, edge] stay below one, those of the largest eigenvalue grow
    by a factor of `MAX_GROWTH`.
    """
    half, middle = 0.5 * (1.0 + edge), 0.5 * (edge - 1.0)
    top = (1.0 - middle) / half
    degree = max(int(np.arccosh(MAX_GROWTH) / np.arccosh(top)), 2)
    before = V
    current = fused_product(graph, V, 1.0 / half, -middle / half)
    for _ in range(degree - 1):
        following = fused_product(graph, current, 2.0 / half, -2.0 * middle / half, -1.0, before)
        before, current = current, following
    return current
