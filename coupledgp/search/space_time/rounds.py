"""Fit of the hyperparameters of a space-time model: rounds of imputation and maximisation.

By Fisher's identity the gradient of the evidence of what is observed is the mean, over draws of the
gaps from their law, of the gradient of the evidence of complete data. Each round fits to a few
draws of the gaps (`whittle`; on irregular axes `filter_evidence`), then draws them anew. The first
round fills gaps along time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.space_time.filter_evidence import FilterEvidence
from coupledgp.inference.space_time.imputation import N_IMPUTATIONS, Imputer, SpaceTimeData
from coupledgp.inference.space_time.whittle import Gram, SpaceTimeParameters, Whittle, box
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Stopping, around_failures, lbfgs

# Rounds at least and at most, and gain in nats of a round that counts as none: new draws of the
# gaps move variables that hardly matter.
LEAST_ROUNDS, MOST_ROUNDS, SETTLED = 3, 8, 1.0
# Iterations of a round's search, and of the short searches from several starts.
STOPPING = Stopping(60, value_tolerance=1e-7, gradient_tolerance=1e-3)
SHORT = Stopping(12, value_tolerance=1e-6, gradient_tolerance=1e-2)


@dataclass(frozen=True, eq=False)
class SpaceTimeFit:
    """Result of a search for hyperparameters.

    Attributes
    ----------
    parameters : SpaceTimeParameters
    n_rounds : int
    n_evaluations : int
        Evaluations of the evidence of complete data.
    converged : bool
        Whether the last round gained hardly any evidence.
    loss : float
        Last value of the loss, nats; it compares candidates after their first round.
    """

    parameters: SpaceTimeParameters
    n_rounds: int
    n_evaluations: int
    converged: bool
    loss: float


class Rounds:
    """The search.

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
    seed
        Seed of the imputations.
    report
        Progress.
    """

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
        self.n_evaluations = 0

    def run(self, starts: Sequence[SpaceTimeParameters]) -> SpaceTimeFit:
        """Search from several starts, which may have different time kernels; keep the best."""
        Z = self.data.interpolated()[None]
        found = starts[0]
        if len(starts) > 1:
            firsts = [self._searched(Z, start, SHORT) for start in starts]
            found = min(firsts, key=lambda item: item[1])[0]
        loss, settled, n_rounds = np.inf, False, 0
        complete = bool(self.data.observed.all())
        while n_rounds < MOST_ROUNDS and not (settled and n_rounds >= LEAST_ROUNDS):
            if (n_rounds or len(starts) == 1) and not complete:
                self.report(f"round {n_rounds + 1}: draws of the gaps")
                Z = self.imputer.drawn(found, N_IMPUTATIONS)
            start = self._evidence(Z, found).loss(found.variables)[0]
            found, loss = self._searched(Z, found, STOPPING)
            if self.own_scales:
                found = self._whittle(Z, found).rescaled(found)
            n_rounds += 1
            settled = start - loss < SETTLED
            if complete and not self.own_scales:
                settled = True
                break
        return SpaceTimeFit(found, n_rounds, self.n_evaluations, settled, loss)

    def _whittle(self, Z: FloatArray, start: SpaceTimeParameters) -> Whittle:
        return Whittle(Z, self.data.step, self.gram, start)

    def _evidence(self, Z: FloatArray, start: SpaceTimeParameters) -> Whittle | FilterEvidence:
        """The evidence of complete data: by frequencies where steps are alike, else by filters."""
        if self.data.is_regular:
            return self._whittle(Z, start)
        return FilterEvidence(Z, self.data.times, self.gram, start)

    def _searched(
        self, Z: FloatArray, start: SpaceTimeParameters, stopping: Stopping
    ) -> tuple[SpaceTimeParameters, float]:
        """The parameters of greatest evidence of complete data, and the loss."""
        evidence = self._evidence(Z, start)

        def loss(variables: FloatArray) -> tuple[float, FloatArray]:
            self.n_evaluations += 1
            self.report(f"evidence, evaluation {self.n_evaluations}")
            return evidence.loss(variables)

        span = float(np.ptp(self.data.times))
        limits = box(start, self.bounds_of_sites, self.data.step, span)
        x = start.variables
        if self.fixed_noise:
            limits[-1] = (x[-1], x[-1])
        x = np.clip(x, *np.array(limits).T)
        found = lbfgs(around_failures(loss), x, limits, stopping)
        return start.at(found.point), found.value
