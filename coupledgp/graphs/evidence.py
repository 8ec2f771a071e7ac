"""Evidence of values at nodes, for all output scales and noises at once (MATH 6).

The model is `y = f + e`, `f ~ N(0, v K)`, `e ~ N(0, s I)`. At fixed kernel parameters the
eigenvectors of `v K + s I` are those of K for all v and s. So with the spectral measures of y and
of the trace in K, known from one eigendecomposition or from one Lanczos run, the evidence of every
(v, s) is a sum.

Evidence of the exact kernel, in its parameters and the noise ratio at once (MATH 6, 8).

With `A = K + r I` on the observed nodes T and `y ~ N(0, v A)`, a fit needs `Q = tr Y' A^-1 Y`,
`logdet A` and their slopes, which come from the block `K[T, T]` or from a sparse precision.

Evidence of kernels with sparse precisions, from one factor and the inverse on its pattern.

With `Q = (I + s L~)^p`, observations `y = P D f + e` (P picks the observed nodes, D holds the
scales of the nodes) and `M = Q + D P' P D / r`, the covariance `A = P D Q^-1 D P' + r I` has

    log|A| = log|M| - p log|I + s L~| + n log r,
    y' A^-1 y = min over f of |y - P D f|^2 / r + f' Q f,   at f^ = M^-1 D P' y / r.

The minimum is a sum of squares, in which errors of f^ count twice over. By the envelope theorem its
slopes are those of the sum at fixed f^; slopes of determinants are traces over the pattern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

import numpy as np
from scipy import linalg
from scipy.optimize import minimize_scalar

from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.laplacian_power import (
    ObservedPrecision,
    PowerPattern,
    observed_precision,
    power_and_scale,
    power_pattern,
    root_precision,
)
from coupledgp.graphs.priors import GraphPrior
from coupledgp.graphs.spectral import (
    GraphMoments,
    SpectralDensity,
    SpectralFunction,
    SpectralMoments,
    lanczos_density,
)
from coupledgp.ground.validation import wrong
from coupledgp.kernels import GraphKernel
from coupledgp.linalg.conjugate_gradients import DiagonalPreconditioner, solve_columns
from coupledgp.linalg.lanczos import lanczos_quadrature, widened_error
from coupledgp.linalg.matrices import covariance_factor, log_determinant
from coupledgp.random import FloatArray, IntArray

# Bounds of the noise as a multiple of the mean diagonal of the kernel: from next to none to far
# more than any signal.
RATIO_BOUNDS = (1e-7, 1e4)
# Where one of the variances is kept, the other may be the targets' variance times or over this.
ROOM = 1e4
# Least noise ratio at which anything is computed; below it covariances are singular to rounding.
LEAST_RATIO = 1e-13
# Mean diagonals outside belong to no kernel: they come from walks far longer or shorter than the
# kernel asks for.
SCALE_BOUNDS = (1e-12, 1e12)
# Output scale of targets that are all zero: times the least ratio it is still a positive number.
LEAST = 1e-280


@dataclass(frozen=True)
class SpectralMeasures:
    """Spectral measures of K: `y' h(K) y = sum_j y_weights_j h(y_eigenvalues_j)`, alike the trace.

    Attributes
    ----------
    y_eigenvalues, y_weights : FloatArray (r,)
        Measure of the targets: eigenvalues or Ritz values, and weights.
    trace_eigenvalues, trace_weights : FloatArray (n_probes, steps)
        Measure of the trace. Each row alone is an unbiased estimate of the trace; an exact measure
        has one row.
    n_outputs : int
        Number of independent outputs; the measure of the targets is the sum of the outputs'
        measures.
    """

    y_eigenvalues: FloatArray
    y_weights: FloatArray
    trace_eigenvalues: FloatArray
    trace_weights: FloatArray
    n_outputs: int = 1

    @property
    def size(self) -> float:
        """Number n of observations."""
        return float(self.trace_weights.sum(axis=1).mean())

    def scale(self) -> float:
        """Mean diagonal of K."""
        return float((self.trace_weights * self.trace_eigenvalues).sum(axis=1).mean() / self.size)

    def log_evidence(self, outputscale: float, noise: float) -> float:
        """`-1/2 [ y' A^-1 y + logdet A + n log 2 pi ]`, `A = v K + s I`, summed over outputs."""
        fit = (self.y_weights / (outputscale * self.y_eigenvalues + noise)).sum()
        logs = self._log_determinants(outputscale, noise).mean() + self.size * np.log(2 * np.pi)
        return -0.5 * float(fit + self.n_outputs * logs)

    def log_evidence_error(self, outputscale: float, noise: float) -> float:
        """Standard error of the log evidence from the probes of the trace, widened; else zero."""
        values = self._log_determinants(outputscale, noise)
        if values.size == 1:
            return 0.0
        return 0.5 * self.n_outputs * float(widened_error(values))

    def _log_determinants(self, outputscale: float, noise: float) -> FloatArray:
        logs = np.log(outputscale * self.trace_eigenvalues + noise)
        return (self.trace_weights * logs).sum(axis=1)

    def profile(self, outputscale: float | None = None, noise: float | None = None) -> Scales:
        """Return the (v, s) of greatest evidence; a given v or s stays as it is.

        The search is over the log of the noise ratio `s / v`, within `ratio_bounds` times the mean
        diagonal of K, which has to lie within `SCALE_BOUNDS`. So v and s are bounded by the
        targets.

        Raises
        ------
        NumericalError
            The mean diagonal of K lies outside of its bounds, or is not finite.
        """
        scale = self.scale()
        if not SCALE_BOUNDS[0] <= scale <= SCALE_BOUNDS[1]:
            raise NumericalError(
                f"evidence: expected a mean diagonal of the kernel from {SCALE_BOUNDS[0]:g} to "
                f"{SCALE_BOUNDS[1]:g}, got {scale:.3g}; walks are far too long or too short for "
                "this kernel: use length_law='matched' or a smaller kernel scale"
            )
        if outputscale is not None and noise is not None:
            return Scales(outputscale, noise, self.log_evidence(outputscale, noise))

        def pair(log_ratio: float) -> tuple[float, float]:
            ratio = float(np.exp(log_ratio))
            if outputscale is not None:
                return outputscale, ratio * outputscale
            if noise is not None:
                return noise / ratio, noise
            fit = float((self.y_weights / (self.y_eigenvalues + ratio)).sum())
            v = fit / (self.size * self.n_outputs)
            v = max(v, LEAST)
            return v, ratio * v

        unit = float(self.y_weights.sum()) / (self.size * self.n_outputs)
        given = None if outputscale is None else outputscale * scale
        low, high = np.log(scale) + np.log(ratio_bounds(given, noise, unit))
        best = maximise_on_grid(lambda x: self.log_evidence(*pair(x)), low, high)
        return Scales(*pair(best), self.log_evidence(*pair(best)))


def ratio_bounds(variance: float | None, noise: float | None, unit: float) -> tuple[float, float]:
    """Bounds of the noise as a multiple of the variance of the function.

    They are `RATIO_BOUNDS`, wider where a value is kept: however small a noise that is given, the
    function may have the size of the targets, and however large a function, so may the noise.

    Parameters
    ----------
    variance, noise
        Variance of the function and of the noise where they are kept, else None.
    unit
        Mean square of the targets; zero where they are all zero.
    """
    low, high = RATIO_BOUNDS
    if unit > 0.0:
        if noise is not None:
            low, high = min(low, noise / (ROOM * unit)), max(high, noise * ROOM / unit)
        elif variance is not None:
            low, high = min(low, unit / (ROOM * variance)), max(high, unit * ROOM / variance)
    return max(low, LEAST_RATIO), min(high, 1.0 / LEAST_RATIO)


@dataclass(frozen=True)
class Scales:
    """Output scale v and noise s in units of the normalised targets, and their log evidence."""

    outputscale: float
    noise: float
    log_evidence: float


def maximise_on_grid(
    function: Callable[[float], float], low: float, high: float, n_grid: int = 33
) -> float:
    """Return where a function of one number is greatest: a grid's best, polished by Brent."""
    grid = np.linspace(low, high, n_grid)
    values = [function(float(x)) for x in grid]
    best = int(np.argmax(values))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, n_grid - 1)])
    polished = minimize_scalar(
        lambda x: -function(float(x)), bounds=around, method="bounded", options={"xatol": 1e-6}
    )
    return float(polished.x) if -polished.fun > values[best] else float(grid[best])


def finite(K: FloatArray) -> FloatArray:
    """Return entries or products of a kernel, of any shape; numbers that overflow are refused."""
    if not np.isfinite(K).all():
        raise NumericalError(
            "evidence: expected finite entries of the kernel, got NaN or inf; walks are far too "
            "long for this kernel: use length_law='matched' or a smaller kernel scale"
        )
    return K


class GraphEvidence(Protocol):
    """Evidence at the kernel parameters of a prior, and its gradient in these parameters.

    Attributes
    ----------
    measures : SpectralMeasures
        From which the evidence at any scales follows.
    """

    measures: SpectralMeasures

    def gradient(self, scales: Scales) -> FloatArray:
        """`d log evidence / dtheta`, (n_parameters,), at fixed scales.

        By the envelope theorem it is the gradient of the profiled evidence at its best scales.
        """


class DenseEvidence:
    """Exact evidence, from the eigenvectors of `K[nodes, nodes]`: O(n^3).

    Parameters
    ----------
    prior, nodes, y
        The prior, node numbers (n,) and centred targets, (n,) or (n, n_outputs).
    """

    def __init__(self, prior: GraphPrior, nodes: IntArray, y: FloatArray) -> None:
        self._prior, self._nodes = prior, nodes
        Y = y.reshape(nodes.size, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            K = finite(prior.matrix(nodes, nodes))
        values, self._vectors = linalg.eigh(K, overwrite_a=True)
        self._values = np.maximum(values, 0.0)
        self._rotated = self._vectors.T @ Y
        energy = (self._rotated**2).sum(axis=1)
        ones = np.ones((1, nodes.size))
        self.measures = SpectralMeasures(
            self._values, energy, self._values[None, :], ones, Y.shape[1]
        )

    def gradient(self, scales: Scales) -> FloatArray:
        """`d log evidence / dtheta` (n_parameters,), exactly, from the eigendecomposition."""
        inverse = 1.0 / (scales.outputscale * self._values + scales.noise)
        alpha = self._vectors @ (inverse[:, None] * self._rotated)
        n_outputs = self.measures.n_outputs
        B = alpha @ alpha.T - n_outputs * (self._vectors * inverse) @ self._vectors.T
        return 0.5 * scales.outputscale * self._prior.gradient_inner(self._nodes, B)


class IterativeEvidence:
    """Evidence by products only: Lanczos quadrature, and conjugate gradients for the gradient.

    Both the fit term and the determinant are taken from the Lanczos rule that bounds them from
    above. So eigenvalues that Lanczos has not resolved make the evidence smaller, never larger, and
    a noise below the resolved eigenvalues is not mistaken for a good one. The number of steps is
    doubled until the bounds of the log evidence differ by at most `max(gap, standard error)` at
    the best scales.

    Parameters
    ----------
    prior, nodes, y
        The prior, node numbers (n,) and centred targets, (n,) or (n, n_outputs).
    n_probes
        Number of random sign vectors for the trace. `SpectralMeasures.log_evidence_error` is their
        error.
    n_steps, max_steps
        Number of Lanczos steps to begin with, and the largest one.
    seed
        Seed of the probes. They are the same for every parameter, so that the evidence is smooth.
    tolerance
        Relative residual of the conjugate gradients behind the gradient.
    gap
        Difference of the bounds of the log evidence, in nats, that is good enough.
    """

    def __init__(
        self,
        prior: GraphPrior,
        nodes: IntArray,
        y: FloatArray,
        n_probes: int = 16,
        n_steps: int = 64,
        max_steps: int = 512,
        seed: int = 0,
        tolerance: float = 1e-4,
        gap: float = 0.5,
    ) -> None:
        self._prior, self._nodes, self._tolerance = prior, nodes, tolerance
        Y = y.reshape(nodes.size, -1)
        self._n_outputs = Y.shape[1]
        probes = np.random.default_rng(seed).choice([-1.0, 1.0], (nodes.size, n_probes))
        self._starts = np.column_stack([np.where(Y.any(axis=0), Y, 1.0), probes])
        self._energy = (Y**2).sum(axis=0)
        while True:
            self.measures, upper = self._measure(n_steps)
            best = self.measures.profile()
            v, s = best.outputscale, best.noise
            allowed = max(gap, self.measures.log_evidence_error(v, s))
            if upper.log_evidence(v, s) - best.log_evidence <= allowed or n_steps >= max_steps:
                break
            n_steps *= 2

    def _measure(self, n_steps: int) -> tuple[SpectralMeasures, SpectralMeasures]:
        """Measures whose log evidence is a lower bound, and measures whose is an upper bound."""
        rule = lanczos_quadrature(self._product, self._starts, n_steps)
        n, q = self._nodes.size, self._n_outputs
        gauss = rule.values, rule.weights
        radau = rule.radau_values, rule.radau_weights

        def measures(
            fit: tuple[FloatArray, ...], trace: tuple[FloatArray, ...]
        ) -> SpectralMeasures:
            weights = self._energy[:, None] * fit[1][:q]
            return SpectralMeasures(
                fit[0][:q].ravel(), weights.ravel(), trace[0][q:], n * trace[1][q:], q
            )

        return measures(radau, gauss), measures(gauss, radau)

    def _product(self, V: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(self._prior.product(self._nodes, self._nodes, V))

    def gradient(self, scales: Scales) -> FloatArray:
        """`d log evidence / dtheta` (n_parameters,), with the trace by random probes."""
        v, s = scales.outputscale, scales.noise
        solved = solve_columns(
            lambda V: v * self._product(V) + s * V,
            DiagonalPreconditioner(v * self._prior.rough_diagonal(self._nodes) + s),
            self._starts,
            self._tolerance,
        )
        q = self._n_outputs
        right = np.column_stack([solved[:, :q], self._starts[:, q:]])
        slopes = self._prior.gradient_products(self._nodes, right)
        terms = np.einsum("ik,pik->pk", solved, slopes)
        return 0.5 * v * (terms[:, :q].sum(axis=1) - q * terms[:, q:].mean(axis=1))


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
