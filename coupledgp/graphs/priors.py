"""Priors over the nodes of a graph: products with a kernel, exact or walked, and draws.

All are of unit output scale. Nodes are given by number; `K[a, b]` is the kernel between two lists
of nodes.

Priors on graphs whose nodes have scales: `diag(s) K diag(s)` around any prior K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from coupledgp.core.budget import BLOCK_RATE
from coupledgp.couplings import LengthLaw, WalkerCoupling
from coupledgp.features import HopPlan, WalkFeatures, sample_walks
from coupledgp.graphs import Graph
from coupledgp.graphs.spectral import Eigenpairs, series_degree, series_diagonal
from coupledgp.graphs.walk_lengths import n_terms_for
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import torch
from coupledgp.kernels import GraphKernel, SeriesOperator, dense_spectrum
from coupledgp.random import FloatArray, IntArray

# Columns of a matrix that are formed at once.
BLOCK_COLUMNS = 256
# Entries of columns of a kernel that are kept: 256 MiB.
KEPT_COLUMNS = 2**26
# Entries of feature rows that are formed at once: 256 MiB.
DENSE_ROWS = 2**25


class GraphPrior(ABC):
    """A zero-mean Gaussian law of the values at nodes, given by products instead of matrices.

    Attributes
    ----------
    graph : Graph
        The graph.
    kernel : GraphKernel
        The kernel, with its parameters theta.
    """

    graph: Graph
    kernel: GraphKernel

    @abstractmethod
    def at(self, kernel: GraphKernel) -> GraphPrior:
        """The same prior at other parameters of its kernel; draws and factorisations shared."""

    @abstractmethod
    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        """`K[out, into] V`, shape (len(out), k), for V (len(into), k)."""

    @abstractmethod
    def gradient_products(self, nodes: IntArray, V: FloatArray) -> FloatArray:
        """`dK[nodes, nodes] / dtheta V`, shape (n_parameters, len(nodes), k)."""

    @abstractmethod
    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the values at nodes, shape (len(nodes), n_samples)."""

    def matrix(self, out: IntArray, into: IntArray) -> FloatArray:
        """`K[out, into]` as a matrix (len(out), len(into))."""
        return np.hstack([self.product(out, into, E) for E in unit_blocks(into.size)])

    def gradient_inner(self, nodes: IntArray, B: FloatArray) -> FloatArray:
        """`sum_ij B_ij dK[nodes, nodes]_ij / dtheta` for symmetric B, shape (n_parameters,)."""
        total = np.zeros(self.kernel.theta.size)
        start = 0
        for E in unit_blocks(nodes.size):
            columns = self.gradient_products(nodes, E)
            total += np.einsum("pij,ij->p", columns, B[:, start : start + E.shape[1]])
            start += E.shape[1]
        return total

    def diagonal(self, nodes: IntArray) -> FloatArray:
        """`K_ii` of nodes, shape (len(nodes),)."""
        parts = [
            np.diagonal(self.matrix(block, block))
            for block in np.array_split(nodes, -(-nodes.size // BLOCK_COLUMNS))
        ]
        return np.concatenate(parts)

    def rough_diagonal(self, nodes: IntArray, n_probes: int = 32) -> FloatArray:
        """Estimates of `K_ii`, (len(nodes),), of relative error `sqrt(2 / n_probes)`."""
        draws = self.sample(nodes, n_probes, np.random.default_rng(0))
        return (draws**2).mean(axis=1)


def unit_blocks(size: int) -> list[FloatArray]:
    """Columns of the identity (size, size), in blocks of at most `BLOCK_COLUMNS`."""
    blocks = []
    for start in range(0, size, BLOCK_COLUMNS):
        E = np.zeros((size, min(BLOCK_COLUMNS, size - start)))
        E[start + np.arange(E.shape[1]), np.arange(E.shape[1])] = 1.0
        blocks.append(E)
    return blocks


class SpectralPrior(GraphPrior):
    """Exact prior from all eigenvectors of `W~`, for graphs of up to some thousands of nodes."""

    def __init__(self, graph: Graph, kernel: GraphKernel) -> None:
        self.graph, self.kernel = graph, kernel

    @cached_property
    def _pairs(self) -> Eigenpairs:
        return dense_spectrum(self.graph)

    @property
    def _values(self) -> FloatArray:
        return self._pairs.values

    @property
    def _vectors(self) -> FloatArray:
        return self._pairs.vectors

    def at(self, kernel: GraphKernel) -> SpectralPrior:
        return SpectralPrior(self.graph, kernel)

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        g = self.kernel.spectral(self._values)[:, None]
        if 2 * into.size > self.graph.n_nodes:  # without copies of most rows
            return (self._vectors @ (g * (self._vectors.T @ spread(self.graph, into, V))))[out]
        return self._vectors[out] @ (g * (self._vectors[into].T @ V))

    def matrix(self, out: IntArray, into: IntArray) -> FloatArray:
        scaled = self._vectors[out] * self.kernel.spectral(self._values)
        return scaled @ self._vectors[into].T

    def diagonal(self, nodes: IntArray) -> FloatArray:
        return self._vectors[nodes] ** 2 @ self.kernel.spectral(self._values)

    def gradient_products(self, nodes: IntArray, V: FloatArray) -> FloatArray:
        vectors = self._vectors[nodes]
        slopes = self.kernel.spectral_gradient(self._values)
        inner = vectors.T @ V
        return np.stack([vectors @ (slope[:, None] * inner) for slope in slopes])

    def gradient_inner(self, nodes: IntArray, B: FloatArray) -> FloatArray:
        vectors = self._vectors[nodes]
        per_value = np.einsum("ij,ij->j", B @ vectors, vectors)
        return self.kernel.spectral_gradient(self._values) @ per_value

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        root = np.sqrt(self.kernel.spectral(self._values))
        return self._vectors[nodes] @ (root[:, None] * self.innovations(n_samples, rng))

    def innovations(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Standard normals (rank, n_samples) along the eigenvectors U: `U' z`, with z on the nodes.

        So `U diag(a) U' z` is the same whatever signs and vectors of repeated eigenvalues rounding
        gives to U.
        """
        return self._vectors.T @ rng.standard_normal((self.graph.n_nodes, n_samples))


class SeriesPrior(GraphPrior):
    """Prior by Chebyshev series of `W~`, exact to a tolerance; its cost grows with the edges.

    Parameters
    ----------
    graph, kernel
        The graph and the kernel.
    tolerance
        Error of the series, relative to the kernel's maximum.
    device
        Where products with the series are computed.
    """

    def __init__(
        self, graph: Graph, kernel: GraphKernel, tolerance: float = 1e-8, device: torch.device = CPU
    ) -> None:
        self.graph, self.kernel, self.tolerance, self.device = graph, kernel, tolerance, device
        self._kept: tuple[IntArray, FloatArray] | None = None

    def at(self, kernel: GraphKernel) -> SeriesPrior:
        return SeriesPrior(self.graph, kernel, self.tolerance, self.device)

    @cached_property
    def _operator(self) -> SeriesOperator:
        return SeriesOperator(self.graph, self.kernel.spectral, self.tolerance, self.device)

    @cached_property
    def _slopes(self) -> list[SeriesOperator]:
        return [
            SeriesOperator(
                self.graph, partial(slope_of, self.kernel, k), self.tolerance, self.device
            )
            for k in range(self.kernel.theta.size)
        ]

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        return self._operator.matmat(spread(self.graph, into, V))[out]

    def matrix(self, out: IntArray, into: IntArray) -> FloatArray:
        if into.size > out.size:  # a column costs the whole graph
            return self.matrix(into, out).T
        if into.size * self.graph.n_nodes > KEPT_COLUMNS:
            return super().matrix(out, into)
        if self._kept is None or not np.array_equal(self._kept[0], into):
            self._kept = into, super().matrix(np.arange(self.graph.n_nodes), into)
        return self._kept[1][out]

    def diagonal(self, nodes: IntArray) -> FloatArray:
        if nodes.size <= BLOCK_COLUMNS:  # from columns that are kept
            return super().diagonal(nodes)
        return series_diagonal(self.graph, self.kernel.spectral, self.tolerance, nodes)

    def diagonal_seconds(self, n_nodes: int) -> float:
        """Forecast of the seconds of `diagonal` at so many nodes."""
        work = float(self.graph.n_nodes + self.graph.indices.size)
        degree = series_degree(self.kernel.spectral, self.tolerance)
        return 0.5 * degree * work * n_nodes / BLOCK_RATE

    def gradient_products(self, nodes: IntArray, V: FloatArray) -> FloatArray:
        full = spread(self.graph, nodes, V)
        return np.stack([slope.matmat(full)[nodes] for slope in self._slopes])

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        # The root of a kernel may not be smooth. An error of a thousandth of a standard deviation
        # is not seen in draws, and takes a far shorter series.
        tolerance = max(self.tolerance, 1e-3)
        root = SeriesOperator(self.graph, self.kernel.root, tolerance, self.device)
        return root.matmat(rng.standard_normal((self.graph.n_nodes, n_samples)))[nodes]


def slope_of(kernel: GraphKernel, k: int, x: FloatArray) -> FloatArray:
    """`dg(x) / dtheta_k` at eigenvalues x of any shape."""
    return kernel.spectral_gradient(x)[k]


def spread(graph: Graph, nodes: IntArray, V: FloatArray) -> FloatArray:
    """Values V (len(nodes), k) as values (n_nodes, k) of all nodes; repeated nodes add up."""
    full = np.zeros((graph.n_nodes, V.shape[1]))
    np.add.at(full, nodes, V)
    return full


class WalkPrior(GraphPrior):
    """`K = Phi Phi'` from walk features; only requested nodes are walked.

    The walks of a node depend on the seed and the node alone, so that lists that are asked for one
    after another are parts of one draw.

    Parameters
    ----------
    graph, kernel
        The graph, and the kernel whose modulation weighs the walks.
    plan
        Exact hops.
    n_walks, coupling, law, max_length, seed
        Settings of the walks, see `sample_walks`; the lengths of a sigma coupling have to be solved
        for already.
    """

    def __init__(
        self,
        graph: Graph,
        kernel: GraphKernel,
        plan: HopPlan,
        n_walks: int,
        coupling: WalkerCoupling,
        law: LengthLaw,
        max_length: int | None,
        seed: int,
    ) -> None:
        self.graph, self.kernel, self.plan = graph, kernel, plan
        self.n_walks, self.coupling, self.law = n_walks, coupling, law
        self.max_length, self.seed = max_length, seed
        self._drawn: dict[bytes, WalkFeatures] = {}

    def at(self, kernel: GraphKernel) -> Self:
        other = type(self)(
            self.graph,
            kernel,
            self.plan,
            self.n_walks,
            self.coupling,
            self.law,
            self.max_length,
            self.seed,
        )
        f = kernel.modulation(n_terms_for(kernel))
        other._drawn = {key: phi.with_series(f) for key, phi in self._drawn.items()}
        return other

    def features(self, nodes: IntArray) -> WalkFeatures:
        """Rows `Phi` of nodes (p,), cached for the last few lists of nodes."""
        key = nodes.tobytes()
        if key not in self._drawn:
            if len(self._drawn) > 3:  # the first list, the training set, stays
                self._drawn.pop(next(reversed(self._drawn)))
            self._drawn[key] = self._sampled(nodes)
        return self._drawn[key]

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of `sample_walks` besides the graph and the nodes."""
        return {
            "n_walks": self.n_walks,
            "coupling": self.coupling,
            "length_law": self.law,
            "max_length": self.max_length,
            "generator": self.seed,
        }

    def _sampled(self, nodes: IntArray) -> WalkFeatures:
        walks = sample_walks(self.graph, nodes=self.graph.label_all(nodes), **self.settings)
        return WalkFeatures(walks, self.kernel, self.plan)

    def _slopes(self, nodes: IntArray) -> list[WalkFeatures]:
        phi = self.features(nodes)
        gradient = self.kernel.modulation_gradient(n_terms_for(self.kernel))
        return [phi.with_series(row) for row in gradient]

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        return self.features(out).matmat(self.features(into).rmatmat(V))

    def matrix(self, out: IntArray, into: IntArray) -> FloatArray:
        if max(out.size, into.size) * self.graph.n_nodes > DENSE_ROWS:
            return super().matrix(out, into)
        if np.array_equal(out, into):
            rows = self.features(out).rows()
            return rows @ rows.T
        # A row costs every hop: they are formed for the shorter list only.
        if into.size <= out.size:
            return self.features(out).matmat(self.features(into).rows().T)
        return self.features(into).matmat(self.features(out).rows().T).T

    def diagonal(self, nodes: IntArray) -> FloatArray:
        phi = self.features(nodes)
        positions = np.array_split(np.arange(nodes.size), -(-nodes.size // BLOCK_COLUMNS))
        return np.concatenate([(phi.rows(block) ** 2).sum(axis=1) for block in positions])

    def gradient_products(self, nodes: IntArray, V: FloatArray) -> FloatArray:
        phi = self.features(nodes)
        inner = phi.rmatmat(V)
        parts = [
            slope.matmat(inner) + phi.matmat(slope.rmatmat(V)) for slope in self._slopes(nodes)
        ]
        return np.stack(parts) if parts else np.empty((0, *V.shape))

    def gradient_inner(self, nodes: IntArray, B: FloatArray) -> FloatArray:
        weighted = B @ self.features(nodes).rows()
        return np.array([2.0 * np.vdot(weighted, slope.rows()) for slope in self._slopes(nodes)])

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        weights = rng.standard_normal((self.graph.n_nodes, n_samples))
        return self.features(nodes).matmat(weights)


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
