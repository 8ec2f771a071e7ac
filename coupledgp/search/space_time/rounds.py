"""Fit of the hyperparameters of a space-time model: rounds of imputation and maximisation.

By Fisher's identity the gradient of the evidence of the observations is a mean over draws of the
gaps from their law: of the gradient of the evidence of complete data. Each round fits to a few
draws of the gaps (`whittle`; on irregular axes `filter_evidence`), then draws them anew. The first
round fills gaps along time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.evidence.problem import Box, Objective
from coupledgp.inference.space_time.filter_evidence import FilterEvidence
from coupledgp.inference.space_time.imputation import N_IMPUTATIONS, Imputer, SpaceTimeData
from coupledgp.inference.space_time.whittle import Gram, SpaceTimeParameters, Whittle, box
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Stopping
from coupledgp.search.search import Rounds, Search, SearchResult

# Rounds at least and at most, and gain in nats of a round that counts as none: new draws of the
# gaps move variables that hardly matter.
LEAST_ROUNDS, MOST_ROUNDS, SETTLED = 3, 8, 1.0
# Iterations of a round's search, and of the short searches from several starts.
STOPPING = Stopping(60, value_tolerance=1e-7, gradient_tolerance=1e-3)
SHORT = Stopping(12, value_tolerance=1e-6, gradient_tolerance=1e-2)


class SpaceTimeObjective(Objective[SpaceTimeParameters]):
    """Minus the log evidence of complete data, nats, near a start.

    Parameters
    ----------
    evidence
        The evidence, by frequencies or by filters.
    start
        Parameters whose terms it has.
    limits
        Bounds of the variables.
    """

    def __init__(
        self, evidence: Whittle | FilterEvidence, start: SpaceTimeParameters, limits: Box
    ) -> None:
        self.evidence, self.start, self.limits = evidence, start, limits

    def variables(self, point: SpaceTimeParameters) -> FloatArray:
        """Variables (q,) of the parameters, clipped to their bounds."""
        return np.clip(point.variables, *np.array(self.limits).T)

    def point(self, variables: FloatArray) -> SpaceTimeParameters:
        return self.start.at(variables)

    def box(self, start: SpaceTimeParameters) -> Box:
        return self.limits

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        return self.evidence.loss(variables)


class ImputationRounds(Rounds[SpaceTimeParameters]):
    """The search, in which gaps are drawn anew before each round.

    Parameters
    ----------
    data
        Observations.
    gram
        Covariance of the sensors by theta.
    bounds_of_sites
        Bounds of theta.
    own_scales
        Whether each sensor has a scale of its own for its noise and own terms.
    fixed_noise
        Whether the noise is kept.
    seed
        Seed of the imputations.
    report
        Progress.
    """

    most = MOST_ROUNDS

    def __init__(
        self,
        data: SpaceTimeData,
        gram: Gram,
        bounds_of_sites: Sequence[tuple[float, float]],
        *,
        own_scales: bool,
        fixed_noise: bool,
        seed: int,
        report: Progress = silent,
    ) -> None:
        self.data, self.gram, self.bounds_of_sites = data, gram, bounds_of_sites
        self.own_scales, self.fixed_noise, self.report = own_scales, fixed_noise, report
        self.imputer = Imputer(data, gram, np.random.default_rng(seed))
        self.complete = bool(data.observed.all())
        self.filled = data.interpolated()[None]

    def run(self, starts: Sequence[SpaceTimeParameters]) -> SearchResult[SpaceTimeParameters]:
        """Search from several starts, which may have different time kernels; keep the best.

        The value is the last one of the objective, in nats. The search has converged where the last
        round gained hardly any evidence.
        """
        search = Search(report=self.report)
        found = SearchResult(starts[0], np.inf)
        if len(starts) > 1:
            found = search.best(self.objective, starts, SHORT)
        found = search.in_rounds(self, found)
        return replace(found, converged=found.settled)

    def improved(
        self, search: Search, before: SearchResult[SpaceTimeParameters]
    ) -> SearchResult[SpaceTimeParameters]:
        n_rounds, start = before.n_rounds, before.point
        was_short = not n_rounds and before.n_evaluations > 0  # and has not used up the first gaps
        if not self.complete and not was_short:
            self.report(f"round {n_rounds + 1}: draws of the gaps")
            self.filled = self.imputer.drawn(start, N_IMPUTATIONS)
        objective = self.objective(start)
        value = objective.evidence.loss(start.variables)[0]
        found = search.improved(objective, start, STOPPING)
        is_settled = value - found.value < SETTLED and n_rounds + 1 >= LEAST_ROUNDS
        if self.own_scales:
            found = replace(found, point=self._whittle(found.point).rescaled(found.point))
        elif self.complete:
            is_settled = True
        return replace(found, settled=is_settled)

    def objective(self, start: SpaceTimeParameters) -> SpaceTimeObjective:
        """The evidence of complete data near a start, whose noise may be kept."""
        span = float(np.ptp(self.data.times))
        limits = box(start, self.bounds_of_sites, self.data.step, span)
        if self.fixed_noise:
            limits[-1] = (start.variables[-1], start.variables[-1])
        return SpaceTimeObjective(self._evidence(start), start, limits)

    def _whittle(self, start: SpaceTimeParameters) -> Whittle:
        return Whittle(self.filled, self.data.step, self.gram, start)

    def _evidence(self, start: SpaceTimeParameters) -> Whittle | FilterEvidence:
        """The evidence of complete data: by frequencies where steps are alike, else by filters."""
        if self.data.is_regular:
            return self._whittle(start)
        return FilterEvidence(self.filled, self.data.times, self.gram, start)
