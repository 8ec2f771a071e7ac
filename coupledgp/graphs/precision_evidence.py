"""Evidence of kernels with sparse precisions, from one factor and the inverse on its pattern.

With `Q = (I + s L~)^p`, observations `y = P D f + e` (P picks the observed nodes, D holds the
scales of the nodes) and `M = Q + D P' P D / r`, the covariance `A = P D Q^-1 D P' + r I` has

    log|A| = log|M| - p log|I + s L~| + n log r,
    y' A^-1 y = min over f of |y - P D f|^2 / r + f' Q f,   at f^ = M^-1 D P' y / r.

The minimum is a sum of squares, in which errors of f^ count twice over. By the envelope theorem its
slopes are those of the sum at fixed f^; slopes of determinants are traces over the pattern.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coupledgp.graphs import Graph
from coupledgp.graphs.cholesky_prior import power_and_scale
from coupledgp.graphs.exact_evidence import EvidenceTerms, ExactKernelEvidence
from coupledgp.graphs.precision import (
    ObservedPrecision,
    PowerPattern,
    observed_precision,
    power_pattern,
    root_precision,
)
from coupledgp.ground.validation import wrong
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray, IntArray

# Random sign vectors from which the mean diagonal of a kernel is taken. It sets the unit of the
# noise in a search, and every kernel meets the same vectors.
N_PROBES = 4


class RootTerms(NamedTuple):
    """Values of `B = I + s L~` at one s.

    Attributes
    ----------
    scale : float
        s.
    log_determinant, inverse_trace : float
        `log|B|` and `tr B^-1`.
    mean : float
        Estimate of the mean of `d_i^2 (B^-p)_ii`, d being the scales of the nodes.
    mean_slope : float
        Its derivative in `log s`.
    """

    scale: float
    log_determinant: float
    inverse_trace: float
    mean: float
    mean_slope: float


class PrecisionEvidence(ExactKernelEvidence):
    """Terms by sparse factors, exact. Nodes may repeat, and may have scales.

    A factor of M and one of `I + s L~`, with the inverses on their patterns, are all that a value
    and its slopes take, however many nodes are observed.

    Parameters
    ----------
    graph, nodes, Y
        The closed graph, node numbers (n,), centred targets (n, n_outputs).
    power
        p, the exponent of the kernels.

    Raises
    ------
    MemoryLimitError
        The factor does not fit in memory.
    """

    def __init__(self, graph: Graph, power: int, nodes: IntArray, Y: FloatArray) -> None:
        self.graph, self.power, (self.n_targets, self.n_outputs) = graph, power, Y.shape
        self._Y, self._nodes = Y, nodes
        self._scales = np.ones(graph.n_nodes) if graph.node_scale is None else graph.node_scale
        self._observed = np.bincount(nodes, minlength=graph.n_nodes) * self._scales**2
        self._pulled = np.zeros((graph.n_nodes, self.n_outputs))
        np.add.at(self._pulled, nodes, self._scales[nodes, None] * Y)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (graph.n_nodes, N_PROBES))
        self._probes = self._scales[:, None] * signs
        self._root_terms: RootTerms | None = None
        self._last: ObservedPrecision | None = None

    @property
    def pattern(self) -> PowerPattern:
        """Pattern of the precisions."""
        return power_pattern(self.graph, self.power)

    def terms(self, kernel: GraphKernel, ratio: float) -> EvidenceTerms:
        """Terms of the evidence at a kernel and `ratio = noise / outputscale`, by sparse factors.

        Raises
        ------
        InvalidInputError
            The kernel has another exponent.
        NumericalError
            A matrix is not positive definite to rounding.
        """
        s, n, p = self._scale(kernel), self.graph.n_nodes, self.power
        root = self._root(s)
        given = self._precision(s, ratio)
        field, squares = self._fitted(given, ratio)
        penalty, penalty_slope = _penalty(given, field)
        log_slope = self.pattern.inner(given.inverse, self.pattern.slope(s))
        log_slope -= p * (n - root.inverse_trace)
        n_explained = float(given.weights @ given.variances)
        by_theta = scale_slopes(kernel)
        return EvidenceTerms(
            squares + penalty,
            given.log_determinant - p * root.log_determinant + self.n_targets * np.log(ratio),
            np.append(penalty_slope * by_theta, -squares),
            np.append(log_slope * by_theta, self.n_targets - n_explained),
        )

    def log_evidence(self, kernel: GraphKernel, outputscale: float, noise: float) -> float:
        """Log evidence at an output scale and a noise, summed over outputs, without slopes."""
        s, ratio = self._scale(kernel), noise / outputscale
        log_root = root_precision(self.graph, s).log_determinant
        given = self._precision(s, ratio)
        field, squares = self._fitted(given, ratio)
        fit = squares + _penalty(given, field)[0]
        log_determinant = given.log_determinant - self.power * log_root
        constant = self.n_targets * np.log(2 * np.pi * noise)
        return -0.5 * float(fit / outputscale + self.n_outputs * (log_determinant + constant))

    def _fitted(self, given: ObservedPrecision, ratio: float) -> tuple[FloatArray, float]:
        """The function f^ (n_nodes, k), and the squared residuals over r."""
        field = given.solve(self._pulled / ratio)
        residuals = self._Y - self._scales[self._nodes, None] * field[self._nodes]
        return field, float(np.vdot(residuals, residuals)) / ratio

    def traces(self, kernel: GraphKernel) -> FloatArray:
        """Estimate (1 + n_parameters,) of `tr D K D` and its slopes, by a few random signs."""
        root = self._root(self._scale(kernel))
        means = np.append(root.mean, root.mean_slope * scale_slopes(kernel))
        return self.graph.n_nodes * means

    def _scale(self, kernel: GraphKernel) -> float:
        power, scale = power_and_scale(kernel)
        if power != self.power:
            raise wrong("kernel", f"exponent {self.power}", kernel)
        return scale

    def _root(self, s: float) -> RootTerms:
        """Values of `I + s L~`, kept for the next call at the same s."""
        if self._root_terms is None or self._root_terms.scale != s:
            self._last = None  # one factor is alive at a time
            root = root_precision(self.graph, s)
            trace = float(root.variances.sum())
            spread = self._probes
            for _ in range(self.power):
                spread = root.solve(spread)
            size = self._probes.size
            mean = float(np.vdot(self._probes, spread)) / size
            # s d/ds of B^-p is -p (B^-p - B^-(p + 1)).
            further = float(np.vdot(self._probes, root.solve(spread))) / size
            slope = -self.power * (mean - further)
            self._root_terms = RootTerms(s, root.log_determinant, trace, mean, slope)
        return self._root_terms

    def _precision(self, s: float, ratio: float) -> ObservedPrecision:
        """The precision M, kept for the next call at the same s and noise ratio."""
        weights = self._observed / ratio
        last = self._last
        if last is None or last.scale != s or not np.array_equal(last.weights, weights):
            self._last = last = None
            last = observed_precision(self.pattern, s, weights)
            self._last = last
        return last


def _penalty(given: ObservedPrecision, field: FloatArray) -> tuple[float, float]:
    """`f' Q f` and its derivative in `log s`, for f (n_nodes, k)."""
    p, s = given.pattern.power, given.scale
    half, odd = divmod(p, 2)
    inner = given.root_product(field, half)
    rest = s * (given.pattern.laplacian @ inner)
    value = float(np.vdot(inner, inner + rest if odd else inner))
    # s dQ/ds is p B^(p - 1) s L~.
    if odd:
        slope = float(np.vdot(inner, rest))
    else:
        below = given.root_product(field, half - 1)
        slope = float(np.vdot(below, rest))
    return value, p * slope


def scale_slopes(kernel: GraphKernel) -> FloatArray:
    """`d log s / d theta` of a kernel `(I + s L~)^-p`, shape (n_parameters,)."""
    power, s = power_and_scale(kernel)
    at_one = np.zeros(1)  # eigenvalue zero of W~, where L~ is one
    value, slopes = kernel.spectral(at_one)[0], kernel.spectral_gradient(at_one)[:, 0]
    return np.asarray(-slopes * (1.0 + s) / (power * s * value))
