"""Evidence of the exact kernel, in its parameters and the noise ratio at once (MATH 6, 8).

With `A = K + r I` on the observed nodes T and `y ~ N(0, v A)`, a fit needs `Q = tr Y' A^-1 Y`,
`logdet A` and their slopes, which come from the block `K[T, T]` or from a sparse precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy import linalg

from coupledgp.graphs import Graph
from coupledgp.graphs.moments import (
    GraphMoments,
    SpectralFunction,
    SpectralMoments,
)
from coupledgp.graphs.spectrum import SpectralDensity, lanczos_density
from coupledgp.kernels import GraphKernel
from coupledgp.linalg.matrices import covariance_factor, log_determinant
from coupledgp.random import FloatArray, IntArray

# Error of functions of `W~` per noise ratio that the noise hides, with a margin.
TOLERANCE_PER_RATIO = 1e-6
# Nodes up to which all eigenvectors are computed: a few seconds.
SPECTRAL_LIMIT = 2048


def tolerance_for(ratio: float) -> float:
    """Relative error of functions of `W~` that the noise hides: an error counts divided by r."""
    return float(np.clip(TOLERANCE_PER_RATIO * ratio, 1e-12, 1e-8))


class EvidenceTerms(NamedTuple):
    """Terms of the evidence at one kernel and noise ratio r.

    Attributes
    ----------
    fit, log_determinant : float
        `Q` and `logdet A`.
    fit_slope, log_determinant_slope : FloatArray (n_parameters + 1,)
        Their gradients in (theta, log r).
    """

    fit: float
    log_determinant: float
    fit_slope: FloatArray
    log_determinant_slope: FloatArray


@lru_cache(maxsize=4)
def mean_density(graph: Graph) -> SpectralDensity:
    """Density of the eigenvalues of `W~`, cached for the last graphs."""
    return lanczos_density(graph)


class ExactKernelEvidence(ABC):
    """Terms of the evidence as functions of the kernel and the noise ratio.

    Attributes
    ----------
    graph : Graph
        The graph.
    moments : GraphMoments or None
        Blocks of functions of `W~` on the nodes in use; None where the evidence does not need them.
    n_targets, n_outputs : int
        Shape (n, k) of the targets.
    n_refused : int
        Number of kernels so far whose terms could not be computed.
    """

    graph: Graph
    moments: GraphMoments | None = None
    n_targets: int
    n_outputs: int
    n_refused: int = 0

    @abstractmethod
    def terms(self, kernel: GraphKernel, ratio: float) -> EvidenceTerms:
        """The terms at a kernel and `ratio = noise / outputscale`."""

    def traces(self, kernel: GraphKernel) -> FloatArray:
        """`tr K` over all nodes and its gradient in theta, shape (1 + n_parameters,).

        They set the unit of the noise in a search, and are estimates where not all eigenvectors
        are known.
        """
        functions = [kernel.spectral, *slopes_of(kernel)]
        if isinstance(self.moments, SpectralMoments):
            return np.array([f(self.moments.values).sum() for f in functions])
        density = mean_density(self.graph)
        means = [float(density.weights @ f(density.eigenvalues)) for f in functions]
        scale = self.graph.node_scale
        unit = 1.0 if scale is None else float(np.mean(scale**2))
        return self.graph.n_nodes * unit * np.array(means)


class ObservedEvidence(ExactKernelEvidence):
    """Terms from `K[T, T]`: O(n^3) for n observations. Nodes may repeat, and may have scales.

    Parameters
    ----------
    graph, nodes, Y
        The graph, node numbers (n,), centred targets (n, n_outputs).
    make_moments
        `SpectralMoments` or `ChebyshevMoments`.
    tolerance_for
        Function of the noise ratio: relative error of functions of `W~`.
    """

    moments: GraphMoments

    def __init__(
        self,
        graph: Graph,
        nodes: IntArray,
        Y: FloatArray,
        make_moments: Callable[[Graph, IntArray], GraphMoments],
        tolerance_for: Callable[[float], float] = tolerance_for,
    ) -> None:
        self.graph, (self.n_targets, self.n_outputs) = graph, Y.shape
        self._Y, self._tolerance_for = Y, tolerance_for
        unique, self._places = np.unique(nodes, return_inverse=True)
        self.moments = make_moments(graph, unique)
        scale = graph.node_scale
        self._scales = None if scale is None else np.outer(scale[unique], scale[unique])

    def terms(self, kernel: GraphKernel, ratio: float) -> EvidenceTerms:
        K, *slopes = self._placed(self._blocks(kernel, self._tolerance_for(ratio)))
        K[np.diag_indices_from(K)] += ratio
        factor = covariance_factor(K, ratio)
        alpha = linalg.cho_solve(factor, self._Y)
        inverse = linalg.cho_solve(factor, np.eye(self.n_targets))
        fit = [-np.vdot(alpha, slope @ alpha) for slope in slopes]
        logs = [np.vdot(inverse, slope) for slope in slopes]
        return EvidenceTerms(
            float(np.vdot(self._Y, alpha)),
            log_determinant(factor),
            np.array([*fit, -ratio * np.vdot(alpha, alpha)]),
            np.array([*logs, ratio * np.trace(inverse)]),
        )

    def covariance(self, kernel: GraphKernel, tolerance: float) -> FloatArray:
        """`K[T, T]`, (n, n), to a relative spectral error."""
        covariance: FloatArray = self._placed(self.moments.blocks([kernel.spectral], tolerance))[0]
        return covariance

    def _placed(self, blocks: FloatArray) -> FloatArray:
        """Blocks (m, n, n) of all observations, scaled, from blocks (m, u, u) of distinct nodes."""
        if self._scales is not None:
            blocks = blocks * self._scales
        return blocks[:, self._places[:, None], self._places[None, :]]

    def _blocks(self, kernel: GraphKernel, tolerance: float) -> FloatArray:
        """`g(W~)` of distinct nodes and its slopes, without scales: (1 + n_parameters, u, u)."""
        return self.moments.blocks([kernel.spectral, *slopes_of(kernel)], tolerance)


def slopes_of(kernel: GraphKernel) -> list[SpectralFunction]:
    """`dg / dtheta_k` for every parameter k, as functions of eigenvalues."""
    return [partial(_slope, kernel, k) for k in range(kernel.theta.size)]


def _slope(kernel: GraphKernel, k: int, x: FloatArray) -> FloatArray:
    return kernel.spectral_gradient(x)[k]
