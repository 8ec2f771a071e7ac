"""Evidence of values at nodes, for all output scales and noises at once (MATH 6).

The model is `y = f + e`, `f ~ N(0, v K)`, `e ~ N(0, s I)`. At fixed kernel parameters the
eigenvectors of `v K + s I` are those of K for all v and s. So with the spectral measures of y and
of the trace in K, known from one eigendecomposition or from one Lanczos run, the evidence of every
(v, s) is a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg
from scipy.optimize import minimize_scalar

from coupledgp.errors import NumericalError
from coupledgp.graphs.priors import GraphPrior
from coupledgp.linalg.conjugate_gradients import (
    DiagonalPreconditioner,
    solve_columns,
)
from coupledgp.linalg.lanczos import lanczos_quadrature, widened_error
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
