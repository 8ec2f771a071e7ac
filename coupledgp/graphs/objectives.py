"""Minus the log evidence of a graph's kernel as a function of its free hyperparameters.

The output scale is profiled out. With an exact kernel the noise is a multiple of the kernel's mean
diagonal, `r = e^u tr K / N` for N nodes, so that one range of u serves every diffusion time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coupledgp.core.problem import Box, VectorObjective
from coupledgp.errors import NumericalError
from coupledgp.graphs.evidence import GraphEvidence, Scales, ratio_bounds
from coupledgp.graphs.exact_evidence import EvidenceTerms, ExactKernelEvidence
from coupledgp.graphs.priors import GraphPrior
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray

# Largest change of a parameter in one round, in log units: a line search that steps further would
# ask for kernels that take far too long. A round that ends at its edge is followed by another one.
STEP = 1.5
# Objective, in nats for each target, of a place where the covariance has no Cholesky factor.
UNFIT = 1e4
# Factor by which one round moves a parameter at most: as far as a matched length law is made for,
# see `REDRAWN_FACTORS` of `gp.node_priors`.
REACH = 2.0
# Tolerance of the kernel's parameters, in log units: redrawn walks move the maximum by more.
THETA_TOLERANCE = 1e-3
# Objective, in nats, of a place where walks give no usable kernel.
REFUSED = 1e15

EvidenceFactory = Callable[[GraphPrior], GraphEvidence]


@dataclass(frozen=True)
class FixedHyperparameters:
    """Hyperparameters that a fit leaves alone.

    Attributes
    ----------
    kernel : bool
        Whether the parameters of the kernel are kept.
    outputscale, noise : float or None
        Values that are kept, normalised; None for each one that is searched for.
    unit : float
        Mean square of the normalised targets.
    """

    kernel: bool = False
    outputscale: float | None = None
    noise: float | None = None
    unit: float = 1.0


@dataclass(frozen=True)
class EvaluatedKernel:
    """A kernel at which the evidence was evaluated.

    Attributes
    ----------
    kernel : GraphKernel
    scales : Scales
        Output scale and noise, with the log evidence.
    value : float
        Objective: negative log evidence plus the kernel's penalty, in nats.
    gradient : FloatArray (n_free,)
        Gradient of the objective in the free variables.
    """

    kernel: GraphKernel
    scales: Scales
    value: float
    gradient: FloatArray


class ExactKernelObjective(VectorObjective):
    """Negative log evidence plus penalty, as a function of the free ones among `(theta, u)`.

    Parameters
    ----------
    evidence
        Terms of the evidence.
    start
        A kernel of the family.
    kept
        Hyperparameters that are not searched for.
    per_target
        Whether the objective is divided by the number of targets: then the first step of a run is
        in proportion to the mean slope.
    """

    def __init__(
        self,
        evidence: ExactKernelEvidence,
        start: GraphKernel,
        kept: FixedHyperparameters,
        per_target: bool = False,
    ) -> None:
        self.evidence, self.start, self.kept = evidence, start, kept
        self.size = float(evidence.n_targets * evidence.n_outputs) if per_target else 1.0
        self.n_parameters = 0 if kept.kernel else start.theta.size
        both = kept.outputscale is not None and kept.noise is not None
        self.ratio = kept.noise / kept.outputscale if both else None  # type: ignore[operator]
        self.n_evaluations = 0
        self.best: EvaluatedKernel | None = None
        self._known: dict[bytes, EvaluatedKernel] = {}

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Box of the free variables."""
        box = [] if self.kept.kernel else self.start.bounds_on(self.evidence.graph)
        low, high = np.log(ratio_bounds(self.kept.outputscale, self.kept.noise, self.kept.unit))
        return box if self.ratio is not None else [*box, (float(low), float(high))]

    @property
    def steps(self) -> list[float]:
        """Largest change of each free variable in one round, larger for the noise ratio."""
        kernel = [STEP] * self.n_parameters
        return kernel if self.ratio is not None else [*kernel, 4 * STEP]

    def box(self, start: FloatArray) -> Box:
        """Box of the free variables in a run, within `steps` of its start."""
        return [
            (max(low, float(t) - step), min(high, float(t) + step))
            for t, step, (low, high) in zip(start, self.steps, self.bounds, strict=True)
        ]

    def near(self, kernel: GraphKernel, start_ratio: float) -> FloatArray:
        """Free variables (n_free,) of a kernel and a noise that is a multiple of its diagonal."""
        theta = kernel.theta[: self.n_parameters]
        return theta if self.ratio is not None else np.append(theta, np.log(start_ratio))

    def at_ratio(self, kernel: GraphKernel, ratio: float) -> FloatArray:
        """Free variables (n_free,) of a kernel and a noise ratio, within their bounds."""
        mean = self.evidence.traces(kernel)[0] / self.evidence.graph.n_nodes
        variables = self.near(kernel, ratio / mean)
        return np.clip(variables, *np.transpose(self.bounds)) if variables.size else variables

    def at(self, variables: FloatArray) -> EvaluatedKernel:
        """Evaluate the objective at free variables (n_free,); each point once."""
        key = np.asarray(variables).tobytes()
        if key not in self._known:
            self._known[key] = self._evaluated(variables)
        return self._known[key]

    def _evaluated(self, variables: FloatArray) -> EvaluatedKernel:
        kernel = self.start
        if self.n_parameters:
            kernel = kernel.with_theta(variables[: self.n_parameters])
        ratio, scale_slope = self._ratio(kernel, variables)
        terms = self.evidence.terms(kernel, ratio)
        scales, gradient = self._assemble(terms, ratio)
        # u moves log r one to one, and theta moves it by the slope of the mean diagonal.
        by_theta = gradient[:-1] + gradient[-1] * scale_slope
        penalty, penalty_slope = kernel.penalty()
        free = (by_theta + penalty_slope)[: self.n_parameters]
        if self.ratio is None:
            free = np.append(free, gradient[-1])
        point = EvaluatedKernel(kernel, scales, penalty - scales.log_evidence, free)
        self.n_evaluations += 1
        if self.best is None or point.value < self.best.value:
            self.best = point
        return point

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """Objective and gradient (n_free,); `UNFIT` where the covariance has no Cholesky factor."""
        try:
            point = self.at(variables)
        except NumericalError:
            self.evidence.n_refused += 1
            worst = 0.0 if self.best is None else self.best.value
            refused = worst + UNFIT * self.evidence.n_targets
            return refused / self.size, np.zeros(variables.size)
        return point.value / self.size, point.gradient / self.size

    def _ratio(self, kernel: GraphKernel, variables: FloatArray) -> tuple[float, FloatArray]:
        """The ratio r, and `d log r / dtheta` at fixed u."""
        if self.ratio is not None:
            return self.ratio, np.zeros(kernel.theta.size)
        traces = self.evidence.traces(kernel)
        mean = traces[0] / self.evidence.graph.n_nodes
        return float(np.exp(variables[-1]) * mean), traces[1:] / traces[0]

    def _assemble(self, terms: EvidenceTerms, ratio: float) -> tuple[Scales, FloatArray]:
        """Best scales for a noise ratio, and the objective's gradient in (theta, log r)."""
        n, q, kept = self.evidence.n_targets, self.evidence.n_outputs, self.kept
        if kept.outputscale is not None:
            v = kept.outputscale
        elif kept.noise is not None:
            v = kept.noise / ratio
        else:
            v = max(terms.fit / (n * q), np.finfo(float).tiny)
        value = n * q * np.log(2 * np.pi * v) + q * terms.log_determinant + terms.fit / v
        slope = q * terms.log_determinant_slope + terms.fit_slope / v
        if kept.outputscale is None and kept.noise is not None:
            slope[-1] += terms.fit / v - n * q
        return Scales(v, ratio * v, -0.5 * float(value)), 0.5 * slope


class RoundObjective(VectorObjective):
    """Negative log evidence plus the kernel's penalty, as a function of theta, near one draw.

    The scales are profiled out.

    Parameters
    ----------
    prior
        A prior, which is evaluated at other parameters of its kernel with its draw kept.
    evidence
        Makes the evidence of a prior.
    outputscale, noise
        Values to keep; None to profile out.
    """

    def __init__(
        self,
        prior: GraphPrior,
        evidence: EvidenceFactory,
        outputscale: float | None,
        noise: float | None,
    ) -> None:
        self.prior, self._evidence = prior, evidence
        self._fixed = (outputscale, noise)
        self.line_tolerance = 10 * THETA_TOLERANCE
        self.best: tuple[float, FloatArray] = (np.inf, prior.kernel.theta)

    def box(self, start: FloatArray) -> Box:
        """Box of the parameters in a run, within a factor `REACH` of its start."""
        reach = np.log(REACH)
        bounds = self.prior.kernel.bounds_on(self.prior.graph)
        return [
            (max(low, float(t) - reach), min(high, float(t) + reach))
            for t, (low, high) in zip(start, bounds, strict=True)
        ]

    def value(self, point: FloatArray) -> float:
        """The objective at theta (n_parameters,); `REFUSED` without a usable kernel there."""
        try:
            return self._evaluate(point)[0]
        except NumericalError:
            return REFUSED

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective at theta (n_parameters,) and its gradient; `REFUSED` without a kernel."""
        try:
            value, evidence, scales, kernel = self._evaluate(variables)
            return value, kernel.penalty()[1] - evidence.gradient(scales)
        except NumericalError:
            return REFUSED, np.zeros(np.size(variables))

    def _evaluate(self, theta: FloatArray) -> tuple[float, GraphEvidence, Scales, GraphKernel]:
        kernel = self.prior.kernel.with_theta(np.asarray(theta))
        evidence = self._evidence(self.prior.at(kernel))
        scales = evidence.measures.profile(*self._fixed)
        value = kernel.penalty()[0] - scales.log_evidence
        if not np.isfinite(value):
            raise NumericalError(f"evidence: expected a finite value at {kernel!r}, got {value}")
        if value < self.best[0]:
            self.best = (value, kernel.theta)
        return value, evidence, scales, kernel
