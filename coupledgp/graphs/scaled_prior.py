"""Priors on graphs whose nodes have scales: `diag(s) K diag(s)` around any prior K."""

from __future__ import annotations

import numpy as np

from coupledgp.graphs.priors import GraphPrior
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray, IntArray


class ScaledPrior(GraphPrior):
    """The law of `s_i f_i` for f of another prior.

    Parameters
    ----------
    inner
        The prior of f.
    scale
        Positive numbers s (n_nodes,).
    """

    def __init__(self, inner: GraphPrior, scale: FloatArray) -> None:
        self.graph, self.kernel = inner.graph, inner.kernel
        self.inner, self._scale = inner, scale

    def at(self, kernel: GraphKernel) -> ScaledPrior:
        return ScaledPrior(self.inner.at(kernel), self._scale)

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        inner = self.inner.product(out, into, self._scale[into, None] * V)
        return self._scale[out, None] * inner

    def matrix(self, out: IntArray, into: IntArray) -> FloatArray:
        return self.inner.matrix(out, into) * np.outer(self._scale[out], self._scale[into])

    def diagonal(self, nodes: IntArray) -> FloatArray:
        return self.inner.diagonal(nodes) * self._scale[nodes] ** 2

    def gradient_products(self, nodes: IntArray, V: FloatArray) -> FloatArray:
        scale = self._scale[nodes, None]
        return scale * self.inner.gradient_products(nodes, scale * V)

    def gradient_inner(self, nodes: IntArray, B: FloatArray) -> FloatArray:
        scale = self._scale[nodes]
        return self.inner.gradient_inner(nodes, B * np.outer(scale, scale))

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        return self._scale[nodes, None] * self.inner.sample(nodes, n_samples, rng)


def scaled(prior: GraphPrior) -> GraphPrior:
    """The prior with the scales of its graph's nodes; itself where there are none."""
    scale = prior.graph.node_scale
    return prior if scale is None else ScaledPrior(prior, scale)


def unscaled(prior: GraphPrior) -> GraphPrior:
    """The prior without the scales of its graph's nodes."""
    return prior.inner if isinstance(prior, ScaledPrior) else prior
