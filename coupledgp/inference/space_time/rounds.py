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
from coupledgp.inference.space_time.basis import Basis
from coupledgp.inference.space_time.filter_evidence import FilterEvidence
from coupledgp.inference.space_time.filters import SeriesFilter
from coupledgp.inference.space_time.gaps import BoolArray, CompleteSystem, GapSystem
from coupledgp.inference.space_time.whittle import Gram, SpaceTimeParameters, Whittle, box
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Stopping, around_failures, lbfgs

# Draws of the gaps in a round, and relative residuals of their means and deviations.
N_IMPUTATIONS, IMPUTATION_TOLERANCE, DEVIATION_TOLERANCE = 2, 1e-3, 1e-2
# Rounds at least and at most, and gain in nats of a round that counts as none: new draws of the
# gaps move variables that hardly matter.
LEAST_ROUNDS, MOST_ROUNDS, SETTLED = 3, 8, 1.0
# Iterations of a round's search, and of the short searches from several starts.
STOPPING = Stopping(60, value_tolerance=1e-7, gradient_tolerance=1e-3)
SHORT = Stopping(12, value_tolerance=1e-6, gradient_tolerance=1e-2)


@dataclass(frozen=True, eq=False)
class SpaceTimeData:
    """Values of sensors over time, and where something is known of them.

    Attributes
    ----------
    values : FloatArray (p, n)
        Observations in normalised units; zero where there is none.
    observed : BoolArray (p, n)
        Which cells were observed.
    times : FloatArray (n,)
        Rising times.
    """

    values: FloatArray
    observed: BoolArray
    times: FloatArray

    @property
    def seen(self) -> BoolArray:
        """Times (n,) at which some sensor reports."""
        return np.asarray(self.observed.any(axis=0))

    @property
    def gaps(self) -> BoolArray:
        """Cells (p, n) without an observation, at times at which another sensor reports."""
        return ~self.observed & self.seen

    @property
    def step(self) -> float:
        """Median time from one step to the next."""
        return float(np.median(np.diff(self.times))) if self.times.size > 1 else 1.0

    @property
    def is_regular(self) -> bool:
        """Whether steps are alike."""
        steps = np.diff(self.times)
        return bool(not steps.size or np.ptp(steps) <= 1e-6 * steps.mean())

    def interpolated(self) -> FloatArray:
        """Values (p, n) with gaps filled linearly along time, beyond the ends by the last value."""
        out = np.empty_like(self.values)
        for row, (values, there) in enumerate(zip(self.values, self.observed, strict=True)):
            known = self.times[there]
            out[row] = np.interp(self.times, known, values[there]) if known.size else 0.0
        return out


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


class Imputer:
    """Draws of the cells without an observation, given the others and parameters."""

    def __init__(self, data: SpaceTimeData, gram: Gram, rng: np.random.Generator) -> None:
        self.data, self.gram, self.rng = data, gram, rng

    def gap_system(self, parameters: SpaceTimeParameters) -> GapSystem:
        """The equations of complete data and gaps at parameters."""
        return gap_system(self.data, self.gram(parameters.theta), parameters)

    def drawn(self, parameters: SpaceTimeParameters, m: int) -> FloatArray:
        """Complete data (m, p, n), of which what was observed is kept."""
        data = self.data
        if data.observed.all():
            return data.values[None]
        gaps = self.gap_system(parameters)
        system = gaps.system
        filled, _ = gaps.filled(data.values[None], IMPUTATION_TOLERANCE)
        out = np.repeat(filled, m, axis=0)
        if gaps.size:
            d, _ = gaps.deviations(m, self.rng, DEVIATION_TOLERANCE)
            out += gaps.scattered(d)
        dark = ~data.seen
        if dark.any():
            alphas = system.solve(out)
            out[:, :, dark] = self._dark(system, alphas, dark)
        return out

    def _dark(self, system: CompleteSystem, alphas: FloatArray, dark: BoolArray) -> FloatArray:
        """Draws (m, p, dark) of observations at times at which nothing was observed."""
        drawn = system.drawn(len(alphas), self.rng)
        seen = np.where(dark, 0.0, drawn)
        rest = alphas - system.solve(seen)
        # `drawn` is a function with noise; the correction is that of the function alone.
        return drawn[:, :, dark] + system.applied(rest)[:, :, dark]


def gap_system(
    data: SpaceTimeData,
    gram: FloatArray,
    parameters: SpaceTimeParameters,
    extra: FloatArray | None = None,
) -> GapSystem:
    """The equations of complete data and gaps of data with a covariance (p, p) of the sensors.

    `extra` (p, n) is the variance of extra noise of observed cells; zero where there is none.
    """
    basis = Basis.of(gram, parameters.roots)
    series = SeriesFilter(
        parameters.terms, parameters.noise, basis.eigenvalues, data.times, data.seen
    )
    unknown, precision = data.gaps, None
    if extra is not None:
        noisy = data.observed & (extra > 0)
        unknown = unknown | noisy
        inverse = np.zeros(extra.shape)
        inverse[noisy] = 1.0 / extra[noisy]
        precision = inverse[unknown]
    return GapSystem(CompleteSystem(basis, series), unknown, precision)


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
