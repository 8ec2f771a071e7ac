"""Maximum evidence of an exact graph kernel: parameters and noise ratio at once.

The output scale is profiled out. The noise is searched as a multiple of the kernel's mean diagonal,
`r = e^u tr K / N` for N nodes, so that one range of u serves every diffusion time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.inference.nodes.evidence import Scales, ratio_bounds
from coupledgp.inference.nodes.exact_evidence import EvidenceTerms, ExactKernelEvidence
from coupledgp.inference.nodes.rounds import Checkpoint, FitState
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Minimiser, Stopping, lbfgs

# Multiples of the mean diagonal from which the noise starts: next to none, little, much.
START_RATIOS = (1e-5, 1e-3, 1e-1)
# Number of starting points that are improved: the evidence has more than one maximum.
N_STARTS = 2
# The search ends when a step gains less than this part of the evidence, or the slope, in nats a
# log unit, is flat.
STOPPING = Stopping(max_iterations=60, value_tolerance=1e-8, gradient_tolerance=1e-3)
# A search that goes on from the maximum of a part of the graph, in nats: a hundredth of one is far
# below what would be seen in any prediction.
FINISHING = Stopping(max_iterations=12, value_tolerance=1e-3, gradient_tolerance=1e-1)
# Largest change of a parameter in one round, in log units: a line search that steps further would
# ask for kernels that take far too long. A round that ends at its edge is followed by another one.
STEP = 1.5
# Name of this search in a checkpoint.
STAGE = "exact"
# Objective, in nats for each target, of a place where the covariance has no Cholesky factor.
UNFIT = 1e4


@dataclass(frozen=True)
class FixedHyperparameters:
    """Hyperparameters that a fit leaves alone.

    Attributes
    ----------
    kernel : bool
        Whether the parameters of the kernel are kept.
    outputscale, noise : float or None
        Values that are kept, normalised; None for those that are searched for.
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
    error : float
        Standard error of the log evidence.
    """

    kernel: GraphKernel
    scales: Scales
    value: float
    gradient: FloatArray
    error: float


class ExactKernelObjective:
    """Negative log evidence plus penalty, as a function of the free ones among `(theta, u)`.

    Parameters
    ----------
    evidence
        Terms of the evidence.
    start
        A kernel of the family.
    kept
        Hyperparameters that are not searched for.
    report
        Called with a line of progress after each evaluation.
    """

    def __init__(
        self,
        evidence: ExactKernelEvidence,
        start: GraphKernel,
        kept: FixedHyperparameters,
        report: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.evidence, self.start, self.kept, self.report = evidence, start, kept, report
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
        """Largest change of each free variable in one round; that of the noise ratio is larger."""
        kernel = [STEP] * self.n_parameters
        return kernel if self.ratio is not None else [*kernel, 4 * STEP]

    def variables(self, kernel: GraphKernel, start_ratio: float) -> FloatArray:
        """Free variables (n_free,) of a kernel and a noise that is a multiple of its diagonal."""
        theta = kernel.theta[: self.n_parameters]
        return theta if self.ratio is not None else np.append(theta, np.log(start_ratio))

    def at_ratio(self, kernel: GraphKernel, ratio: float) -> FloatArray:
        """Free variables (n_free,) of a kernel and a noise ratio, within their bounds."""
        mean = self.evidence.traces(kernel)[0] / self.evidence.graph.n_nodes
        variables = self.variables(kernel, ratio / mean)
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
        error = 0.5 * self.evidence.n_outputs * terms.log_determinant_error
        point = EvaluatedKernel(kernel, scales, penalty - scales.log_evidence, free, error)
        self.n_evaluations += 1
        self.report(f"evaluation {self.n_evaluations}, log evidence {scales.log_evidence:.2f}")
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
            return worst + UNFIT * self.evidence.n_targets, np.zeros(variables.size)
        return point.value, point.gradient

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


def fit_families(
    evidence: ExactKernelEvidence | Sequence[ExactKernelEvidence],
    starts: list[GraphKernel],
    kept: FixedHyperparameters,
    checkpoint: Checkpoint,
    report: Callable[[str], None] = lambda message: None,
    minimise: Minimiser = lbfgs,
    ratios: Sequence[float] | None = None,
    n_starts: int = N_STARTS,
) -> tuple[EvaluatedKernel, FitState]:
    """Maximise the evidence of exact kernels, and take the best of several families.

    For each family, the first round compares starting points; each of the best ones is then
    improved in rounds of its own. Finished rounds are kept in the checkpoint.

    Parameters
    ----------
    evidence
        Terms of the evidence, for all families or for each.
    starts
        A kernel of each family; the first round tries it and the family's own starting points.
    kept
        Hyperparameters that are not searched for.
    checkpoint
        File of finished rounds.
    report
        Called with a line of progress after each evaluation.
    minimise
        The optimiser.
    ratios
        Noise ratio of each family at which the search goes on from its start, which is then the
        only one: where both come from a search on a part of the graph. None: the search is whole.
    n_starts
        Number of starting points of each family that are improved.

    Returns
    -------
    (EvaluatedKernel, FitState)
        The best kernel, and the state of the search; its `family` is that of the kernel.
    """
    state = checkpoint.load()
    each = evidence if isinstance(evidence, Sequence) else [evidence] * len(starts)
    objectives = [
        ExactKernelObjective(own, start, kept, report)
        for own, start in zip(each, starts, strict=True)
    ]

    def begin(family: int) -> FitState:
        if ratios is None:
            return _compare(objectives[family], starts[family], n_starts)
        return _begin_at(objectives[family], starts[family], ratios[family])

    stopping = STOPPING if ratios is None else FINISHING
    family = 0 if state is None else state.family
    while True:
        if state is None:
            state = begin(family)
            checkpoint.save(state)
        while not state.settled:
            state = _improve(objectives[family], state, minimise, stopping)
            checkpoint.save(state)
        results = [*state.finished, (state.theta, state.objective)]
        if len(results) == len(starts):
            break
        family = len(results)
        following = begin(family)
        state = replace(
            following,
            n_rounds=state.n_rounds + 1,
            n_evaluations=state.n_evaluations + following.n_evaluations,
            family=family,
            finished=results,
        )
        checkpoint.save(state)
    best = max(range(len(results)), key=lambda k: results[k][1])
    point = objectives[best].at(np.array(results[best][0]))
    return point, replace(state, family=best)


def _compare(objective: ExactKernelObjective, start: GraphKernel, n_starts: int) -> FitState:
    """Round one: the state of the best starting point, the best ones of all kernels pending."""
    graph = objective.evidence.graph
    kernels = [start, *start.scan_on(graph)] if objective.n_parameters else [start]
    ratios = START_RATIOS if objective.ratio is None else START_RATIOS[:1]
    best: list[tuple[float, list[float]]] = []
    for kernel in dict.fromkeys(kernels):
        found = []
        for ratio in ratios:
            variables = objective.variables(kernel, ratio)
            found.append((objective.value_and_gradient(variables)[0], variables.tolist()))
        best.append(min(found))
    best.sort()
    value, chosen = best[0]
    pending = [start for _, start in best[:n_starts]] if chosen else []
    return FitState(chosen, -value, 1, objective.n_evaluations, not pending, pending, STAGE)


def _begin_at(objective: ExactKernelObjective, start: GraphKernel, ratio: float) -> FitState:
    """The state of one starting point, with its noise ratio or, where that is tiny, a better one.

    A part of the observations hardly tells a small noise from none, and there the evidence is flat.
    """
    chosen = objective.at_ratio(start, ratio)
    if not chosen.size:
        return FitState([], 0.0, 1, 0, True, [], STAGE)
    candidates = [chosen]
    if objective.ratio is None and chosen[-1] < np.log(START_RATIOS[1]):
        candidates += [np.append(chosen[:-1], np.log(other)) for other in START_RATIOS[1:]]
    values = [objective.value_and_gradient(variables)[0] for variables in candidates]
    best = int(np.argmin(values))
    point = candidates[best].tolist()
    return FitState(point, -values[best], 1, objective.n_evaluations, False, [point], STAGE)


def _improve(
    objective: ExactKernelObjective, state: FitState, minimise: Minimiser, stopping: Stopping
) -> FitState:
    """Search from the first pending start."""
    origin, *pending = state.pending
    before = objective.n_evaluations
    box = [
        (max(low, t - step), min(high, t + step))
        for t, step, (low, high) in zip(origin, objective.steps, objective.bounds, strict=True)
    ]
    # A search that goes on takes steps in proportion to the slope of the mean over observations.
    unit = 1.0
    if stopping is FINISHING:
        unit = float(objective.evidence.n_targets * objective.evidence.n_outputs)
        stopping = replace(
            stopping,
            value_tolerance=stopping.value_tolerance / unit,
            gradient_tolerance=stopping.gradient_tolerance / unit,
        )

    def function(variables: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective.value_and_gradient(variables)
        return value / unit, gradient / unit

    found = minimise(function, np.array(origin), box, stopping)
    found = replace(found, value=found.value * unit)
    better = -found.value > state.objective
    if any(
        x in ends and x not in bounds
        for x, ends, bounds in zip(found.point.tolist(), box, objective.bounds, strict=True)
    ):
        pending = [found.point.tolist(), *pending]
    return replace(
        state,
        theta=found.point.tolist() if better else state.theta,
        objective=max(-found.value, state.objective),
        n_rounds=state.n_rounds + 1,
        n_evaluations=state.n_evaluations + objective.n_evaluations - before,
        settled=not pending,
        pending=pending,
    )
