"""Preconditioners of `v K + s I` on observed nodes: the inverse of the exact kernel's.

The walked kernel of a fitted model is the exact one to a part in a thousand, so conjugate
gradients that are preconditioned by the exact inverse take a few steps whatever the condition
number. That inverse comes from the leading eigenpairs of `W~` where the kernel has no others, or
from the inverse on all nodes, a function of `W~`, and the block rule

    (A_TT)^-1 = Phi_TT - Phi_TH Phi_HH^-1 Phi_HT ,   Phi = A^-1 .
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import linalg

from coupledgp.graphs import Graph
from coupledgp.inference.nodes.exact_evidence import inverse_of, tolerance_for
from coupledgp.inference.nodes.moments import (
    CONSTANT,
    SERIES_DEGREE,
    BlockColumns,
    ChebyshevMoments,
    constant_below,
    leading_of,
)
from coupledgp.kernels import GraphKernel, SeriesOperator
from coupledgp.kernels.graph.exact import series_degree
from coupledgp.linalg.lanczos import Product
from coupledgp.linalg.matrices import covariance_factor
from coupledgp.random import FloatArray, IntArray

# Hidden nodes up to which the block of the inverse is factorised: a fraction of a second.
HIDDEN_LIMIT = 1024
# Nodes up to which the diagonal preconditioner is good enough: steps are cheap there.
LARGE_GRAPH = 2048


class LeadingPreconditioner:
    """Inverse of `v F F' + s I`, `F = U[T] sqrt(g)` from leading eigenpairs, by Woodbury's rule."""

    def __init__(
        self, graph: Graph, kernel: GraphKernel, nodes: IntArray, outputscale: float, noise: float
    ) -> None:
        values, vectors = leading_of(graph)
        self._F = vectors[nodes] * np.sqrt(kernel.spectral(values))
        if graph.node_scale is not None:
            self._F *= graph.node_scale[nodes, None]
        self._noise = noise
        inner = self._F.T @ self._F
        inner[np.diag_indices_from(inner)] += noise / outputscale
        self._factor = covariance_factor(inner, noise / outputscale)

    def __call__(self, R: FloatArray) -> FloatArray:
        return (R - self._F @ linalg.cho_solve(self._factor, self._F.T @ R)) / self._noise


class HiddenPreconditioner:
    """Inverse of the exact `v K + s I` on T, from its inverse on all nodes and the block of H."""

    def __init__(
        self, graph: Graph, kernel: GraphKernel, nodes: IntArray, outputscale: float, noise: float
    ) -> None:
        ratio = noise / outputscale
        inverse, tolerance = partial(inverse_of, kernel, ratio), tolerance_for(ratio)
        self._nodes, self._noise, self._n_nodes = nodes, noise, graph.n_nodes
        self._hidden = np.setdiff1d(np.arange(graph.n_nodes), nodes)
        columns = BlockColumns(graph, self._hidden, np.empty((graph.n_nodes, 0)))
        block = ChebyshevMoments(columns).blocks([inverse], tolerance)[0]
        self._factor = covariance_factor(block, ratio)
        self._inverse = SeriesOperator(graph, inverse, tolerance)

    def __call__(self, R: FloatArray) -> FloatArray:
        full = np.zeros((self._n_nodes, R.shape[1]))
        full[self._nodes] = R
        applied = self._inverse.matmat(full)
        full[:] = 0.0
        full[self._hidden] = linalg.cho_solve(self._factor, applied[self._hidden])
        rest: FloatArray = applied - self._inverse.matmat(full)
        return rest[self._nodes] / self._noise


def exact_preconditioner(
    graph: Graph, kernel: GraphKernel, nodes: IntArray, outputscale: float, noise: float
) -> Product | None:
    """Return the inverse of the exact kernel's covariance if it is cheap, else None.

    Parameters
    ----------
    graph, kernel
        The graph and the exact kernel.
    nodes
        Observed node numbers (n,).
    outputscale, noise
        v and s.
    """
    ratio = noise / outputscale
    if graph.n_nodes <= LARGE_GRAPH:
        return None
    inverse = partial(inverse_of, kernel, ratio)
    degree = series_degree(inverse, tolerance_for(ratio))
    if degree > SERIES_DEGREE and constant_below(leading_of(graph), [inverse], CONSTANT):
        return LeadingPreconditioner(graph, kernel, nodes, outputscale, noise)
    n_hidden = graph.n_nodes - nodes.size
    # With scales of the nodes the inverse on all nodes is no function of `W~`.
    distinct = np.unique(nodes).size == nodes.size and graph.node_scale is None
    if distinct and degree <= 2 * SERIES_DEGREE and n_hidden <= min(HIDDEN_LIMIT, nodes.size):
        return HiddenPreconditioner(graph, kernel, nodes, outputscale, noise)
    return None
