"""Search for the kernel of a graph's process: compare on a part, then go on with the whole.

On a small graph every family is searched by the exact evidence of all observations. On a larger
one families are first compared on pieces of the graph, where an evaluation takes milliseconds; the
best goes on from there by the exact evidence of all observations, if that costs little enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from coupledgp.core.budget import Forecast, Step, current_budget
from coupledgp.core.minimise import Limited, Minimiser, lbfgs
from coupledgp.errors import NumericalError
from coupledgp.graphs.clusters import ClusterEvidence, choose_clusters, cluster_forecast
from coupledgp.graphs.exact_evidence import ExactKernelEvidence
from coupledgp.graphs.family_search import fit_families
from coupledgp.graphs.objectives import EvaluatedKernel, FixedHyperparameters
from coupledgp.graphs.pieces import (
    MOST_CUT,
    PiecesEvidence,
    choose_pieces,
    piece_sizes,
)
from coupledgp.graphs.routes import (
    EvidenceRoute,
    NodeObservations,
    cheapest_route,
    dense_route,
)
from coupledgp.ground.progress import tell
from coupledgp.kernels import GraphKernel

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


class FoundKernel(NamedTuple):
    """Result of a search.

    Attributes
    ----------
    point : EvaluatedKernel
        Best kernel and scales.
    is_whole : bool
        Whether its evidence is of all observations.
    n_rounds, n_evaluations : int
        Effort of the search.
    converged : bool
        Whether it ended by a tolerance, not by the budget.
    family : int or None
        Number of the kernel among the given ones; None: another kernel took their place.
    """

    point: EvaluatedKernel
    is_whole: bool
    n_rounds: int
    n_evaluations: int
    converged: bool
    family: int | None


class FamilyFit(NamedTuple):
    """A family after the comparison on a part of the graph.

    Attributes
    ----------
    family : int or None
        Its number among the given families.
    point : EvaluatedKernel
        Its best kernel and scales there.
    n_evaluations : int
        Effort of its search.
    """

    family: int | None
    point: EvaluatedKernel
    n_evaluations: int

    @property
    def ratio(self) -> float:
        """Ratio of noise and output scale."""
        return self.point.scales.noise / self.point.scales.outputscale


class PartialEvidence(NamedTuple):
    """Evidence of a part of the observations.

    Attributes
    ----------
    evidence : ExactKernelEvidence
    name : str
        The part, in words.
    """

    evidence: ExactKernelEvidence
    name: str


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
        if not self.stand_ins or self._may_condition(found.point):
            return found
        other = self._stand_in(compared, found.point)
        return found if other is None else self._finished([other])

    def _finished(self, compared: Sequence[FamilyFit]) -> FoundKernel:
        """Go on from the best of a comparison, best first, as far as the budget lasts."""
        best, *rest = compared[:2]
        route = self._route(best)
        if route is None:
            effort = sum(c.n_evaluations for c in compared)
            return FoundKernel(best.point, False, 1, effort, True, best.family)
        plans = [(best, route)]
        for other in rest:
            way = self._route(other) if self._is_close(best, other) else None
            if way is not None and self._may_add(route, way):
                plans.append((other, way))
        return self._go_on(plans)

    def _is_close(self, best: FamilyFit, other: FamilyFit) -> bool:
        """Whether the part cannot tell a family from the best one: by nats, or by chance.

        The differences of the pieces, which are independent, have a standard error.
        """
        gap = other.point.value - best.point.value
        evidence = self._part.evidence
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
        point, state = fit_families(route.make(), list(self.kernels), self.kept, limited)
        self._note("search", f"{route.name}: {route.reason}", route.forecast(n_evaluations), start)
        return FoundKernel(
            point, True, state.n_rounds, state.n_evaluations, not self._is_late(), state.family
        )

    @cached_property
    def _part(self) -> PartialEvidence:
        """The part of the observations on which families are compared."""
        graph, nodes, targets, seed = self.data
        distinct = np.unique(nodes)
        sizes = piece_sizes(graph.n_nodes, distinct.size)
        pieces = choose_pieces(graph, distinct, sizes, seed)
        cut = float(np.mean([piece.cut for piece in pieces]))
        n_inside = int(np.isin(nodes, np.concatenate([piece.nodes for piece in pieces])).sum())
        if cut <= MOST_CUT and n_inside >= min(LEAST_IN_PIECES, nodes.size):
            self._check(sizes.forecast())
            evidence: ExactKernelEvidence = PiecesEvidence(graph, pieces, nodes, targets)
            return PartialEvidence(evidence, f"{len(pieces)} pieces of {sizes.n_nodes} nodes")
        self._check(cluster_forecast(graph, distinct.size))
        chosen = choose_clusters(graph, nodes, seed)
        evidence = ClusterEvidence(graph, nodes[chosen], targets[chosen])
        return PartialEvidence(evidence, f"{chosen.size} observations")

    def _check(self, forecast: Forecast) -> None:
        """Refuse a comparison that is over the budget."""
        self._expected = forecast
        current_budget().check(
            forecast, "the comparison of kernels",
            "give a kernel with its hyperparameters and optimizer=None, or a larger budget",
        )  # fmt: skip

    def _compare(
        self, kernels: Sequence[GraphKernel], families: Sequence[int | None]
    ) -> list[FamilyFit]:
        """Search each family on the part; the best one first."""
        start = time.perf_counter()
        evidence, name = self._part
        found: list[FamilyFit] = []
        seconds = self._expected.seconds
        tell(f"compare {len(kernels)} kernels on {name}, forecast {seconds:.2g} s")
        with threadpool_limits(1, "blas"):  # matrices of a hundred rows: threads would only wait
            for kernel, family in zip(kernels, families, strict=True):
                point, state = fit_families(
                    evidence, [kernel], self.kept, self.minimise, n_starts=1
                )  # fmt: skip
                found.append(FamilyFit(family, point, state.n_evaluations))
        found.sort(key=lambda c: c.point.value)
        words = f"{len(found)} kernels on {name} with {evidence.n_targets} observations"
        self._note("compare", words, self._expected, start)
        return found

    def _posterior(self, point: EvaluatedKernel) -> Forecast:
        return self.posterior(point.kernel, point.scales.noise / point.scales.outputscale)

    def _may_condition(self, point: EvaluatedKernel) -> bool:
        """Whether the posterior of a kernel keeps to the budget."""
        forecast = self._posterior(point)
        if current_budget().seconds is None:
            return forecast.seconds <= POSTERIOR_SECONDS and current_budget().allows(forecast)
        return current_budget().allows(forecast, 1.0 - SEARCH_SHARE)

    def _stand_in(self, compared: Sequence[FamilyFit], point: EvaluatedKernel) -> FamilyFit | None:
        """The best kernel on the part whose posterior costs far less; None if there is none."""
        others = self._compare(self.stand_ins, [None] * len(self.stand_ins))
        seconds = self._posterior(point).seconds
        cheap = [c for c in others if self._posterior(c.point).seconds <= CHEAPER * seconds]
        cheap = [c for c in cheap if self._may_condition(c.point)]
        if not cheap:
            return None
        lost = cheap[0].point.value - compared[0].point.value
        side = "less" if lost > 0 else "more"
        words = (
            f"{cheap[0].point.kernel!r} in place of {point.kernel!r}, whose posterior takes "
            f"{seconds:.2g} s: {abs(lost):.3g} nats {side} on {self._part.evidence.n_targets} "
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

    def _route(self, compared: FamilyFit) -> EvidenceRoute | None:
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

    def _go_on(self, plans: Sequence[tuple[FamilyFit, EvidenceRoute]]) -> FoundKernel:
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
            point, state = fit_families(evidences, kernels, self.kept, limited, ratios)
        except NumericalError:
            if not any(evidence.n_refused for evidence in evidences):
                raise
            best, route = plans[0]
            words = f"{route.name}: {route.reason}, refused all kernels near {best.point.kernel!r}"
            self._note("search", words, forecast, start)
            return FoundKernel(best.point, False, 1, limited.n_evaluations, True, best.family)
        compared, route = plans[state.family]
        words = f"{route.name}: {route.reason}, {limited.n_evaluations} evaluations"
        self._note("search", words, forecast, start)
        return FoundKernel(
            point, True, state.n_rounds, state.n_evaluations, not self._is_late(), compared.family
        )

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
