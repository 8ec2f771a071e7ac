"""Leading eigenpairs of `W~`: all that wide kernels on large graphs consist of."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import linalg

from coupledgp.graphs import Graph
from coupledgp.graphs.products import fused_product
from coupledgp.graphs.spectrum import Eigenpairs, lanczos_density
from coupledgp.random import FloatArray

SPARE = 1.25  # columns iterated per eigenpair wanted
MAX_GROWTH = 1e10  # of the filter over the wanted eigenvalues, so that no direction is rounded away
RESIDUAL = 1e-9
MAX_PASSES = 6


@lru_cache(maxsize=2)
def leading_eigenpairs(graph: Graph, n_pairs: int) -> Eigenpairs:
    """The greatest eigenvalues of `W~`, ascending, and their eigenvectors (n_nodes, n).

    Subspace iteration with Chebyshev filters and Rayleigh-Ritz steps (Zhou et al., 2006), until
    every pair has a residual below 1e-9 or the passes are used up; at most `n_pairs` are returned,
    fewer where the last ones have not converged: always those above some eigenvalue, none missed.
    """
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


def density_quantile(graph: Graph, n_above: int) -> float:
    """About the eigenvalue with `n_above` others above it."""
    density = lanczos_density(graph, n_steps=64)
    order = np.argsort(density.eigenvalues)[::-1]
    above = np.cumsum(density.weights[order]) * graph.n_nodes
    return float(min(density.eigenvalues[order][np.searchsorted(above, n_above)], 1.0 - 1e-6))


def chebyshev_filter(graph: Graph, V: FloatArray, edge: float) -> FloatArray:
    """`T_d` of `W~` with [-1, edge] mapped to [-1, 1]: what lies above grows by `MAX_GROWTH`."""
    half, middle = 0.5 * (1.0 + edge), 0.5 * (edge - 1.0)
    top = (1.0 - middle) / half
    degree = max(int(np.arccosh(MAX_GROWTH) / np.arccosh(top)), 2)
    before = V
    current = fused_product(graph, V, 1.0 / half, -middle / half)
    for _ in range(degree - 1):
        following = fused_product(graph, current, 2.0 / half, -2.0 * middle / half, -1.0, before)
        before, current = current, following
    return current
