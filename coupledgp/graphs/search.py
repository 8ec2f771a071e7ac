"""Minus the log evidence of a graph's kernel as a function of its free hyperparameters.

The output scale is profiled out. With an exact kernel the noise is a multiple of the kernel's mean
diagonal, `r = e^u tr K / N` for N nodes, so that one range of u serves every diffusion time.

Maximum evidence over a graph kernel's parameters, in rounds of redrawn walks.

A length law, a number of hops and so a draw of walks are made for one place in parameter space.
So the fit alternates (MATH 9): make the prior for the best parameters so far, move at most
a factor with its draw kept, and start again, until it stays.

Maximum evidence of an exact graph kernel: parameters and noise ratio at once.

The output scale is profiled out. The noise is searched as a multiple of the kernel's mean diagonal,
`r = e^u tr K / N` for N nodes, so that one range of u serves every diffusion time.

Search for the kernel of a graph's process: compare on a part, then go on with the whole.

On a small graph every family is searched by the exact evidence of all observations. On a larger
one families are first compared on pieces of the graph, where an evaluation takes milliseconds; the
best goes on from there by the exact evidence of all observations, if that costs little enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from threadpoolctl import threadpool_limits

from coupledgp.core.budget import Forecast, Step, current_budget
from coupledgp.core.minimise import Limited, Minimiser, Stopping, lbfgs
from coupledgp.core.problem import Box, VectorObjective
from coupledgp.core.search import Search, SearchResult
from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import (
    EvidenceTerms,
    ExactKernelEvidence,
    GraphEvidence,
    Scales,
    ratio_bounds,
)
from coupledgp.graphs.pieces import (
    MOST_CUT,
    ClusterEvidence,
    PiecesEvidence,
    choose_clusters,
    choose_pieces,
    cluster_forecast,
    piece_sizes,
)
from coupledgp.graphs.priors import GraphPrior
from coupledgp.graphs.routes import EvidenceRoute, NodeObservations, cheapest_route, dense_route
from coupledgp.ground.progress import tell
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

    def is_at_edge(self, point: FloatArray, start: FloatArray) -> bool:
        """Whether a run from a start ended at the edge of its own box, within the bounds."""
        ends = zip(point.tolist(), self.box(start), self.bounds, strict=True)
        return any(x in edge and x not in bounds for x, edge, bounds in ends)

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


# Change of every parameter, in log units, below which a round has stayed where it began.
SETTLED = 0.15
# Largest number of rounds: together they move a parameter by a factor of 256 at most.
MAX_ROUNDS = 8
ROUND_STOPPING = Stopping(max_iterations=60, gradient_tolerance=THETA_TOLERANCE)


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


# Evaluations of a family's search over starting points, and of one that goes on from a part; the
# fewest that are worth their preparations.
WHOLE_EVALUATIONS, MORE_EVALUATIONS, FEWEST = 45, 10, 3
# Most evaluations of a family with all observations: on expensive routes few are ever needed.
MOST_EVALUATIONS = 30
# Kernels that a way may refuse before a search ends.
MOST_REFUSED = 2
# Seconds, by forecast, within which a search over starting points is done with all observations.
QUICK = 3.0
# Seconds for going on with all observations where no budget is given, and more for each node.
PATIENCE, PATIENCE_PER_NODE = 12.0, 1e-4
# Seconds of a posterior, by forecast, beyond which a family gives way to one with a sparse
# precision where no budget is given, and the share of them that this one may take.
POSTERIOR_SECONDS, CHEAPER = 36.0, 0.2
# Nats on the part, and standard errors of the difference, below which the second best family goes
# on as well; how much dearer than the best that may be, or seconds that it may take.
CLOSE, CHANCE, DEARER, MODERATE = 6.0, 2.0, 3.0, 5.0
# Share of a budget that the search may take: the rest is for the posterior.
SEARCH_SHARE = 0.7
# Observations in the pieces that are enough for them to speak for the whole.
LEAST_IN_PIECES = 100

# Cost of the posterior of a kernel at a noise ratio, standard deviations of all nodes included.
PosteriorForecast = Callable[[GraphKernel, float], Forecast]


@dataclass(frozen=True)
class FoundKernel:
    """The best kernel of a search.

    Attributes
    ----------
    point : EvaluatedKernel
        Best kernel and scales.
    family : int or None
        Number of the kernel among the given ones; None: another kernel took their place.
    n_rounds, n_evaluations : int
        Effort of the search.
    is_whole : bool
        Whether its evidence is of all observations.
    converged : bool
        Whether the search ended by a tolerance, not by the budget.
    """

    point: EvaluatedKernel
    family: int | None
    n_rounds: int
    n_evaluations: int
    is_whole: bool = True
    converged: bool = True

    @property
    def ratio(self) -> float:
        """Ratio of noise and output scale."""
        return self.point.scales.noise / self.point.scales.outputscale


def fit_families(
    evidence: ExactKernelEvidence | Sequence[ExactKernelEvidence],
    starts: list[GraphKernel],
    kept: FixedHyperparameters,
    minimise: Minimiser = lbfgs,
    ratios: Sequence[float] | None = None,
    n_starts: int = N_STARTS,
) -> FoundKernel:
    """Maximise the evidence of exact kernels, and take the best of several families.

    For each family, the first round compares starting points; each of the best ones is then
    improved in rounds of its own.

    Parameters
    ----------
    evidence
        Terms of the evidence, for all families or for each.
    starts
        A kernel of each family; the first round tries it and the family's own starting points.
    kept
        Hyperparameters that are not searched for.
    minimise
        The optimiser.
    ratios
        Noise ratio of each family at which the search goes on from its start, which is then the
        only one: where both come from a search on a part of the graph. None: the search is whole.
    n_starts
        Number of starting points of each family that are improved.
    """
    each = evidence if isinstance(evidence, Sequence) else [evidence] * len(starts)
    search, stopping = Search(minimise), STOPPING if ratios is None else FINISHING
    found: list[tuple[SearchResult[FloatArray], ExactKernelObjective, int]] = []
    for family, (own, start) in enumerate(zip(each, starts, strict=True)):
        objective = ExactKernelObjective(own, start, kept, ratios is not None)
        if ratios is None:
            begun = _compared(search, objective, start)[:n_starts]
        else:
            begun = [_begun(search, objective, start, ratios[family])]
        best, n_rounds = begun[0], 1
        pending = [one.point for one in begun] if best.point.size else []
        tolerances = stopping.value_tolerance, stopping.gradient_tolerance
        scaled = replace(
            stopping,
            value_tolerance=tolerances[0] / objective.size,
            gradient_tolerance=tolerances[1] / objective.size,
        )
        while pending:
            origin = pending.pop(0)
            end = search.improved(objective, origin, scaled)
            n_rounds += 1
            if objective.is_at_edge(end.point, origin):  # of a round, which another one goes beyond
                pending.insert(0, end.point)
            best = min(best, end, key=lambda one: one.value)
        found.append((best, objective, n_rounds))
    family = min(range(len(found)), key=lambda k: found[k][0].value)
    n_evaluations = sum(objective.n_evaluations for _, objective, _ in found)
    best, objective, _ = found[family]
    n_rounds = sum(rounds for _, _, rounds in found)
    return FoundKernel(objective.at(best.point), family, n_rounds, n_evaluations)


def _compared(
    search: Search, objective: ExactKernelObjective, start: GraphKernel
) -> list[SearchResult[FloatArray]]:
    """Starting points, the best first, each kernel at the best noise ratio."""
    kernels = (
        [start, *start.scan_on(objective.evidence.graph)] if objective.n_parameters else [start]
    )
    ratios = START_RATIOS if objective.ratio is None else START_RATIOS[:1]
    best = [
        search.ranked(lambda _: objective, [objective.near(kernel, ratio) for ratio in ratios])[0]
        for kernel in dict.fromkeys(kernels)
    ]
    return sorted(best, key=lambda each: each.value)


def _begun(
    search: Search, objective: ExactKernelObjective, start: GraphKernel, ratio: float
) -> SearchResult[FloatArray]:
    """One starting point, with its noise ratio or, where that is tiny, a better one.

    A part of the observations hardly tells a small noise from none, and there the evidence is flat.
    """
    chosen = objective.at_ratio(start, ratio)
    if not chosen.size:
        return SearchResult(chosen, 0.0)
    candidates = [chosen]
    if objective.ratio is None and chosen[-1] < np.log(START_RATIOS[1]):
        candidates += [np.append(chosen[:-1], np.log(other)) for other in START_RATIOS[1:]]
    return search.ranked(lambda _: objective, candidates)[0]


def fit_kernel(
    start: GraphKernel,
    make_prior: Callable[[GraphKernel], GraphPrior],
    make_evidence: EvidenceFactory,
    outputscale: float | None = None,
    noise: float | None = None,
    max_rounds: int = MAX_ROUNDS,
    scan_starts: bool = True,
    minimise: Minimiser = lbfgs,
    graph: Graph | None = None,
) -> tuple[GraphKernel, SearchResult[FloatArray]]:
    """Maximise the evidence over the kernel's parameters, output scale and noise.

    A length law, a number of hops and so a draw of walks are made for one place in parameter space.
    So the fit alternates (MATH 9): make the prior for the best parameters so far, move at most
    a factor with its draw kept, and start again, until it stays.

    Parameters
    ----------
    start
        A kernel of the family; round zero tries it and the family's own starting points, each with
        its own walks.
    make_prior
        Makes the prior for a place in parameter space (plans hops, draws walks).
    make_evidence
        Makes the evidence of a prior.
    outputscale, noise
        Values to keep; None to fit.
    max_rounds
        Largest number of rounds, the scan not counted.
    scan_starts
        Whether the family's own starting points are tried too.
    minimise
        The optimiser, for kernels of several parameters.
    graph
        The graph, whose unit of time starting points are multiples of; None for one step.

    Raises
    ------
    NumericalError
        No starting point has a finite evidence.
    """
    search = Search(minimise)

    def objective(theta: FloatArray) -> RoundObjective:
        prior = make_prior(start.with_theta(theta))
        return RoundObjective(prior, make_evidence, outputscale, noise)

    def scanned(kernels: Sequence[GraphKernel]) -> SearchResult[FloatArray]:
        starts = list(dict.fromkeys(kernels))
        with suppress(NumericalError):  # walks are of no use to kernels that are too wide
            best = search.ranked(objective, [kernel.theta for kernel in starts])[0]
            if best.value < REFUSED:
                search.n_evaluations = len(starts)
                return best
        raise NumericalError(
            f"evidence: expected a finite value at one of {len(starts)} starting points, got "
            f"none (the first is {kernels[0]!r}); use length_law='matched'"
        )

    starts = start.scan() if graph is None else start.scan_on(graph)
    try:
        found = scanned([start, *starts] if scan_starts else [start])
    except NumericalError:
        if scan_starts:
            raise
        found = scanned(starts)
    theta, value, n_rounds, settled = found.point, found.value, 1, not found.point.size
    while n_rounds <= max_rounds and not settled:
        current = objective(theta)
        search.improved(current, theta, ROUND_STOPPING)
        (value, moved), before = current.best, theta
        theta, settled = moved, float(np.abs(moved - before).max()) < SETTLED
        n_rounds += 1
    return start.with_theta(theta), SearchResult(
        theta, value, converged=settled, n_evaluations=search.n_evaluations, n_rounds=n_rounds,
        settled=settled,
    )  # fmt: skip


@dataclass
class NodeSearcher:
    """A search for a graph kernel and its scales.

    Attributes
    ----------
    data : NodeObservations
    kernels : sequence of GraphKernel
        A kernel of each family.
    stand_ins : sequence of GraphKernel
        Kernels with a sparse precision that take the place of one whose posterior costs too much.
    kept : FixedHyperparameters
        Hyperparameters that are not searched for.
    posterior : PosteriorForecast
        Cost of a posterior.
    minimise : Minimiser
        The optimiser.
    steps : list of Step
        Steps so far, for `explain()`.
    """

    data: NodeObservations
    kernels: Sequence[GraphKernel]
    stand_ins: Sequence[GraphKernel]
    kept: FixedHyperparameters
    posterior: PosteriorForecast
    minimise: Minimiser = lbfgs
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin = time.perf_counter()

    def search(self) -> FoundKernel:
        """Find the kernel of greatest evidence, at a cost that is forecast before each step."""
        route = dense_route(self.data)
        n_evaluations = WHOLE_EVALUATIONS * len(self.kernels)
        if route is not None and route.forecast(n_evaluations).seconds <= QUICK:
            return self._search_all(route, n_evaluations)
        compared = self._compare(self.kernels, range(len(self.kernels)))
        found = self._finished(compared)
        if not self.stand_ins or self._may_condition(found):
            return found
        other = self._stand_in(compared, found)
        return found if other is None else self._finished([other])

    def _finished(self, compared: Sequence[FoundKernel]) -> FoundKernel:
        """Go on from the best of a comparison, best first, as far as the budget lasts."""
        best, *rest = compared[:2]
        route = self._route(best)
        if route is None:
            effort = sum(c.n_evaluations for c in compared)
            return replace(best, n_rounds=1, n_evaluations=effort, is_whole=False)
        plans = [(best, route)]
        for other in rest:
            way = self._route(other) if self._is_close(best, other) else None
            if way is not None and self._may_add(route, way):
                plans.append((other, way))
        return self._go_on(plans)

    def _is_close(self, best: FoundKernel, other: FoundKernel) -> bool:
        """Whether the part cannot tell a family from the best one: by nats, or by chance.

        The differences of the pieces, which are independent, have a standard error.
        """
        gap = other.point.value - best.point.value
        evidence, _ = self._part
        if gap <= CLOSE or not isinstance(evidence, PiecesEvidence) or len(evidence.parts) < 2:
            return gap <= CLOSE
        laws = [
            evidence.log_evidences(c.point.kernel, c.point.scales.outputscale, c.point.scales.noise)
            for c in (best, other)
        ]
        differences = laws[0] - laws[1]
        return gap <= CHANCE * float(differences.std(ddof=1)) * np.sqrt(differences.size)

    def _search_all(self, route: EvidenceRoute, n_evaluations: int) -> FoundKernel:
        """Search every family over its starting points with all observations."""
        start = time.perf_counter()
        limited = self._limited(10 * n_evaluations)
        found = fit_families(route.make(), list(self.kernels), self.kept, limited)
        self._note("search", f"{route.name}: {route.reason}", route.forecast(n_evaluations), start)
        return replace(found, converged=not self._is_late())

    @cached_property
    def _part(self) -> tuple[ExactKernelEvidence, str]:
        """The part of the observations on which families are compared, and its name."""
        graph, nodes, targets, seed = self.data
        distinct = np.unique(nodes)
        sizes = piece_sizes(graph.n_nodes, distinct.size)
        pieces = choose_pieces(graph, distinct, sizes, seed)
        cut = float(np.mean([piece.cut for piece in pieces]))
        n_inside = int(np.isin(nodes, np.concatenate([piece.nodes for piece in pieces])).sum())
        if cut <= MOST_CUT and n_inside >= min(LEAST_IN_PIECES, nodes.size):
            self._check(sizes.forecast())
            evidence: ExactKernelEvidence = PiecesEvidence(graph, pieces, nodes, targets)
            return evidence, f"{len(pieces)} pieces of {sizes.n_nodes} nodes"
        self._check(cluster_forecast(graph, distinct.size))
        chosen = choose_clusters(graph, nodes, seed)
        evidence = ClusterEvidence(graph, nodes[chosen], targets[chosen])
        return evidence, f"{chosen.size} observations"

    def _check(self, forecast: Forecast) -> None:
        """Refuse a comparison that is over the budget."""
        self._expected = forecast
        current_budget().check(
            forecast, "the comparison of kernels",
            "give a kernel with its hyperparameters and optimizer=None, or a larger budget",
        )  # fmt: skip

    def _compare(
        self, kernels: Sequence[GraphKernel], families: Sequence[int | None]
    ) -> list[FoundKernel]:
        """Search each family on the part; the best one first."""
        start = time.perf_counter()
        evidence, name = self._part
        found: list[FoundKernel] = []
        seconds = self._expected.seconds
        tell(f"compare {len(kernels)} kernels on {name}, forecast {seconds:.2g} s")
        with threadpool_limits(1, "blas"):  # matrices of a hundred rows: threads would only wait
            for kernel, family in zip(kernels, families, strict=True):
                own = fit_families(evidence, [kernel], self.kept, self.minimise, n_starts=1)
                found.append(replace(own, family=family, is_whole=False))
        found.sort(key=lambda c: c.point.value)
        words = f"{len(found)} kernels on {name} with {evidence.n_targets} observations"
        self._note("compare", words, self._expected, start)
        return found

    def _posterior(self, found: FoundKernel) -> Forecast:
        return self.posterior(found.point.kernel, found.ratio)

    def _may_condition(self, found: FoundKernel) -> bool:
        """Whether the posterior of a kernel keeps to the budget."""
        forecast = self._posterior(found)
        if current_budget().seconds is None:
            return forecast.seconds <= POSTERIOR_SECONDS and current_budget().allows(forecast)
        return current_budget().allows(forecast, 1.0 - SEARCH_SHARE)

    def _stand_in(self, compared: Sequence[FoundKernel], found: FoundKernel) -> FoundKernel | None:
        """The best kernel on the part whose posterior costs far less; None if there is none."""
        others = self._compare(self.stand_ins, [None] * len(self.stand_ins))
        seconds = self._posterior(found).seconds
        cheap = [c for c in others if self._posterior(c).seconds <= CHEAPER * seconds]
        cheap = [c for c in cheap if self._may_condition(c)]
        if not cheap:
            return None
        lost = cheap[0].point.value - compared[0].point.value
        side = "less" if lost > 0 else "more"
        words = (
            f"{cheap[0].point.kernel!r} in place of {found.point.kernel!r}, whose posterior takes "
            f"{seconds:.2g} s: {abs(lost):.3g} nats {side} on {self._part[0].n_targets} "
            "observations"
        )
        self.steps.append(Step("replace", words, 0.0, 0.0))
        return cheap[0]

    def _seconds(self) -> float:
        """Seconds that the search may take from now on."""
        limit = current_budget().seconds
        if limit is None:
            return PATIENCE + PATIENCE_PER_NODE * self.data.graph.n_nodes
        return SEARCH_SHARE * limit - (time.perf_counter() - self._begin)

    def _route(self, compared: FoundKernel) -> EvidenceRoute | None:
        """The cheapest way to all observations; None where it is over the budget."""
        route = cheapest_route(self.data, compared.point.kernel, compared.ratio, MORE_EVALUATIONS)
        if route is None or not current_budget().allows(route.forecast(1)):
            return None
        return route if route.forecast(FEWEST).seconds <= self._seconds() else None

    def _may_add(self, route: EvidenceRoute, other: EvidenceRoute) -> bool:
        """Whether a second way may be taken beside the way of the best family."""
        seconds = [way.forecast(MORE_EVALUATIONS).seconds for way in (route, other)]
        fewest = route.forecast(FEWEST).seconds + other.forecast(FEWEST).seconds
        return seconds[1] <= max(DEARER * seconds[0], MODERATE) and fewest <= self._seconds()

    def _go_on(self, plans: Sequence[tuple[FoundKernel, EvidenceRoute]]) -> FoundKernel:
        """Go on from the best kernels of the part with all observations.

        Where a way refuses all kernels, the result is the best kernel of the part.
        """
        start = time.perf_counter()
        forecast = Forecast(sum(r.forecast(MORE_EVALUATIONS).seconds for _, r in plans))
        for _, route in plans:
            tell(f"search, {route.name}: {route.reason}, forecast {forecast.seconds:.2g} s")
        evidences = [route.make() for _, route in plans]
        forecasts = [route.forecast(1).seconds for _, route in plans]
        room = (self._seconds() - sum(r.setup.seconds for _, r in plans)) / max(
            sum(forecasts), 1e-9
        )
        most = len(plans) * int(np.clip(room, FEWEST, MOST_EVALUATIONS))
        limited = self._limited(most, evidences)
        kernels, ratios = [c.point.kernel for c, _ in plans], [c.ratio for c, _ in plans]
        try:
            found = fit_families(evidences, kernels, self.kept, limited, ratios)
        except NumericalError:
            if not any(evidence.n_refused for evidence in evidences):
                raise
            best, route = plans[0]
            words = f"{route.name}: {route.reason}, refused all kernels near {best.point.kernel!r}"
            self._note("search", words, forecast, start)
            effort = limited.n_evaluations
            return replace(best, n_rounds=1, n_evaluations=effort, is_whole=False)
        assert found.family is not None
        compared, route = plans[found.family]
        words = f"{route.name}: {route.reason}, {limited.n_evaluations} evaluations"
        self._note("search", words, forecast, start)
        return replace(found, converged=not self._is_late(), family=compared.family)

    def _is_late(self) -> bool:
        """Whether the seconds that the search may take by its budget have passed."""
        return current_budget().seconds is not None and self._seconds() <= 0

    def _limited(self, most: int, evidences: Sequence[ExactKernelEvidence] = ()) -> Limited:
        """The optimiser, limited in evaluations, and in seconds if there is a budget."""
        end = None if current_budget().seconds is None else time.perf_counter() + self._seconds()
        times: list[float] = []

        def may_go_on(n_evaluations: int) -> bool:
            if n_evaluations >= most or any(e.n_refused > MOST_REFUSED for e in evidences):
                return False
            if end is None:
                return True
            times.append(time.perf_counter())
            each = times[-1] - times[-2] if len(times) > 1 else 0.0
            return times[-1] + each < end

        return Limited(self.minimise, may_go_on)

    def _note(self, name: str, method: str, forecast: Forecast, start: float) -> None:
        self.steps.append(Step(name, method, forecast.seconds, time.perf_counter() - start))
