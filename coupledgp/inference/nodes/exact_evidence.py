"""Evidence of the exact kernel, in its parameters and the noise ratio at once (MATH 6, 8).

With `A = K + r I` on the observed nodes T and `y ~ N(0, v A)`, a fit needs `Q = tr Y' A^-1 Y`,
`logdet A` and their slopes. They come from the block `K[T, T]` or, where fewer nodes are hidden
than observed, from the block of the inverse on the hidden nodes H: A of all nodes is a function of
`W~`, so `Phi = (K + r I)^-1` is one too, and by the rules of block inverses

    logdet A_TT = logdet(K + r I) + logdet Phi_HH ,
    Q = min over x_H of tr X' Phi X ,   X = (y_T, x_H) .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy import linalg

from coupledgp.graphs import Graph
from coupledgp.graphs.spectrum import SpectralDensity, lanczos_density
from coupledgp.inference.nodes.moments import (
    BlockColumns,
    GraphMoments,
    SpectralFunction,
    SpectralMoments,
)
from coupledgp.kernels import GraphKernel
from coupledgp.linalg.matrices import covariance_factor, log_determinant
from coupledgp.random import FloatArray, IntArray

# Sweeps that continue targets to hidden nodes. The evidence is right after any number of them; a
# smooth continuation loses fewer digits.
FILL_STEPS = 200
# Error of functions of `W~` per noise ratio that the noise hides, with a margin.
TOLERANCE_PER_RATIO = 1e-6
# Error of the mean diagonal of a kernel, of which the noise is a multiple.
SCALE_TOLERANCE = 1e-8
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
    log_determinant_error : float
        Standard error of `logdet A`; zero if it is exact.
    """

    fit: float
    log_determinant: float
    fit_slope: FloatArray
    log_determinant_slope: FloatArray
    log_determinant_error: float


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
            return self.moments.traces(functions, SCALE_TOLERANCE).values
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
        make_moments: Callable[[BlockColumns], GraphMoments],
        tolerance_for: Callable[[float], float] = tolerance_for,
    ) -> None:
        self.graph, (self.n_targets, self.n_outputs) = graph, Y.shape
        self._Y, self._tolerance_for = Y, tolerance_for
        self._unique, self._places = np.unique(nodes, return_inverse=True)
        columns = BlockColumns(graph, self._unique, np.empty((graph.n_nodes, 0)))
        self.moments = make_moments(columns)
        scale = graph.node_scale
        self._scales = None if scale is None else np.outer(scale[self._unique], scale[self._unique])

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
            0.0,
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


class HiddenEvidence(ExactKernelEvidence):
    """Terms from `Phi[H, H]`: O(h^3) for h hidden nodes, whatever the number of observations.

    Targets are continued to the hidden nodes, harmonically, before `Phi` is applied: the minimum
    is the same for any continuation, and a smooth one loses no digits.

    Parameters
    ----------
    graph, nodes, Y
        The graph, node numbers (n,) without repetitions, centred targets (n, n_outputs).
    make_moments
        `SpectralMoments` or `ChebyshevMoments`.
    """

    moments: GraphMoments

    def __init__(
        self,
        graph: Graph,
        nodes: IntArray,
        Y: FloatArray,
        make_moments: Callable[[BlockColumns], GraphMoments],
    ) -> None:
        self.graph, (self.n_targets, self.n_outputs) = graph, Y.shape
        self._hidden = np.setdiff1d(np.arange(graph.n_nodes), nodes)
        filled = continued(graph, nodes, Y)
        self.moments = make_moments(BlockColumns(graph, self._hidden, filled))

    def terms(self, kernel: GraphKernel, ratio: float) -> EvidenceTerms:
        h = self._hidden.size
        inverse, noise_slope = partial(inverse_of, kernel, ratio), partial(_by_noise, kernel, ratio)
        by_theta = [partial(_by_theta, kernel, ratio, k) for k in range(kernel.theta.size)]
        tolerance = tolerance_for(ratio)
        G, *slopes = self.moments.blocks([inverse, *by_theta, noise_slope], tolerance)
        factor = covariance_factor(G[:h, :h], ratio)
        X = np.vstack([-linalg.cho_solve(factor, G[:h, h:]), np.eye(self.n_outputs)])
        inner = linalg.cho_solve(factor, np.eye(h))
        traces, errors = self.moments.traces(
            [
                partial(_log, kernel, ratio),
                *(partial(_log_by_theta, kernel, ratio, k) for k in range(kernel.theta.size)),
                inverse,
            ],
            tolerance,
        )
        fit = float(np.vdot(X, G @ X)) / ratio
        fit_slope = np.array([np.vdot(X, slope @ X) for slope in slopes]) / ratio
        fit_slope[-1] -= fit
        logs = traces[1:] + np.array([np.vdot(inner, slope[:h, :h]) for slope in slopes])
        n_log = self.n_targets * np.log(ratio)
        logs[-1] -= h
        return EvidenceTerms(
            fit,
            float(traces[0]) + log_determinant(factor) + n_log,
            fit_slope,
            logs,
            float(errors[0]),
        )


def slopes_of(kernel: GraphKernel) -> list[SpectralFunction]:
    """`dg / dtheta_k` for every parameter k, as functions of eigenvalues."""
    return [partial(_slope, kernel, k) for k in range(kernel.theta.size)]


def _slope(kernel: GraphKernel, k: int, x: FloatArray) -> FloatArray:
    return kernel.spectral_gradient(x)[k]


def inverse_of(kernel: GraphKernel, ratio: float, x: FloatArray) -> FloatArray:
    """`r / (g(x) + r)`, r times Phi, from 0 to 1, at eigenvalues x of any shape."""
    return ratio / (kernel.spectral(x) + ratio)


def _by_theta(kernel: GraphKernel, ratio: float, k: int, x: FloatArray) -> FloatArray:
    return -ratio * kernel.spectral_gradient(x)[k] / (kernel.spectral(x) + ratio) ** 2


def _by_noise(kernel: GraphKernel, ratio: float, x: FloatArray) -> FloatArray:
    g = kernel.spectral(x)
    return ratio * g / (g + ratio) ** 2


def _log(kernel: GraphKernel, ratio: float, x: FloatArray) -> FloatArray:
    """`log(1 + g(x) / r)` at eigenvalues x of any shape."""
    return np.log1p(kernel.spectral(x) / ratio)


def _log_by_theta(kernel: GraphKernel, ratio: float, k: int, x: FloatArray) -> FloatArray:
    return kernel.spectral_gradient(x)[k] / (kernel.spectral(x) + ratio)


def continued(graph: Graph, nodes: IntArray, Y: FloatArray) -> FloatArray:
    """Values of all nodes (n_nodes, q): Y at `nodes`, elsewhere nearly harmonic for `W~`.

    Each sweep replaces the values elsewhere by half themselves and half `W~` times all values.
    """
    values = np.zeros((graph.n_nodes, Y.shape[1]))
    values[nodes] = Y
    hidden = np.setdiff1d(np.arange(graph.n_nodes), nodes)
    rows = graph.normalized_adjacency[hidden]
    for _ in range(FILL_STEPS if hidden.size else 0):
        values[hidden] = 0.5 * (values[hidden] + rows @ values)
    return values
