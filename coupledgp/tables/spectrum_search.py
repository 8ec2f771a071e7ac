"""Frequencies sampled, drawn for a posterior or fitted to it, and their hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.optimize import OptimizationResult, maximise_evidence
from coupledgp.core.posterior_draw import (
    LEAST_KL,
    MOST_KL,
    SCOUTS,
    Pilot,
    WeighedPool,
    pilot_form,
    pilot_places,
)
from coupledgp.core.posterior_kl import Teacher
from coupledgp.core.problem import EvidenceProblem, Hyperparameters, RowWeights
from coupledgp.core.starts import SearchSpace
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.errors import PrecisionWarning
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.ground.progress import tell
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray
from coupledgp.tables.spectrum_descent import (
    KLSettings,
    QueryPoints,
    fit_posterior_kl,
)
from coupledgp.tables.weight_space import FeaturePrior

# Most unlabelled points per row of the teacher: more add nothing, since they are drawn with
# replacement.
FURTHER_POINTS = 20


@dataclass(frozen=True, eq=False)
class FittedFeatures:
    """Result of a fit of hyperparameters and frequencies.

    Attributes
    ----------
    prior : FeaturePrior
        The fitted prior.
    search : OptimizationResult
        The search for its hyperparameters.
    start_loss, loss : float or None
        KL per point from the teacher's posterior before and after frequencies were fitted; None
        where they were not.
    pilot : Pilot or None
        Why frequencies were drawn as they were; None where they were fitted.
    """

    prior: FeaturePrior
    search: OptimizationResult
    start_loss: float | None = None
    loss: float | None = None
    pilot: Pilot | None = None


@dataclass(frozen=True, eq=False)
class SpectrumFitter:
    """Problem, settings and methods of a fit of hyperparameters and frequencies.

    Attributes
    ----------
    problem : FeatureEvidence
        Evidence of the table under the sampled frequencies.
    space : SearchSpace
        Free hyperparameters and starts of the search.
    rng : numpy.random.Generator
        Source of all draws.
    n_restarts, max_iterations : int
        Number of starts besides the best one, and largest number of iterations, of the search for
        the hyperparameters.
    teacher_rows : int
        Largest number of rows of the exact GP to whose posterior a spectrum is fitted.
    queries : FloatArray (q, d) or None
        Points at which the posterior matters.
    kept : str
        Why frequencies are drawn from the kernel's spectrum, where they are.
    """

    problem: FeatureEvidence
    space: SearchSpace
    rng: np.random.Generator
    n_restarts: int
    max_iterations: int
    teacher_rows: int
    queries: FloatArray | None = None
    kept: str = "as asked for"

    @property
    def drawn(self) -> FeatureMap:
        """The sampled feature map."""
        return self.problem.stream.feature_map

    def sampled(self) -> FittedFeatures:
        """Hyperparameters of maximum evidence; frequencies stay as they were drawn."""
        found = self._maximise(self.problem, self.space)
        prior = self._prior(self.drawn, found.hyperparameters)
        return FittedFeatures(prior, found, pilot=Pilot(self.kept))

    def for_posterior(self, as_asked: bool) -> FittedFeatures:
        """Hyperparameters of maximum evidence, then frequencies drawn anew for the posterior.

        Unless asked for, the draw is made only where a pilot expects that it gains.
        """
        # A stream of its own, so that a fit in passes draws the same frequencies.
        (of_draws,) = self.rng.spawn(1)
        before, stream, problem = self.sampled(), self.problem.stream, self.problem
        weights, places = problem.weights, pilot_places(problem.n_rows, of_draws)
        n_counted = problem.n_rows if weights is None else weights.n_counted
        own = None if weights is None else weights.take(places)
        rows = PilotRows(stream.X[places], own, n_counted, self.queries)
        prior, search, pilot = drawn_for_posterior(
            before.prior, before.search, rows,
            lambda made: FeatureEvidence(
                replace(stream, feature_map=made), problem.targets, weights
            ),
            self.space, of_draws, as_asked,
        )  # fmt: skip
        return FittedFeatures(prior, search, pilot=pilot)

    def to_posterior(self) -> FittedFeatures:
        """Hyperparameters of an exact GP on some rows, and a spectrum fitted to its posterior."""
        stream, rng = self.problem.stream, self.rng
        n = self.problem.n_rows
        size = min(n, self.teacher_rows)
        rows = np.sort(rng.choice(n, size, replace=False))
        inputs = stream.X[rows] - stream.center
        further = self.queries
        if further is None:
            left = np.setdiff1d(np.arange(n), rows)
            chosen = rng.choice(left, min(len(left), FURTHER_POINTS * size), replace=False)
            further = stream.X[chosen]
        targets, spectrum = self.problem.targets[rows], self.drawn.spectrum
        weights = None if self.problem.weights is None else self.problem.weights.take(rows)
        found = self._maximise(ExactEvidence(spectrum, inputs, targets, weights), self.space)
        hyper, device = found.hyperparameters, self.drawn.device
        teacher = Teacher(inputs, targets, spectrum, hyper, device, weights)
        points = QueryPoints(inputs, further - stream.center, rng)

        def draw() -> FeatureMap:
            shape = self.drawn.dim, self.drawn.n_frequencies
            return FourierFeatures(
                *shape, self.drawn.coupling, spectrum, rng, device=self.drawn.device
            )

        fit = fit_posterior_kl(teacher, points, draw, KLSettings())
        moved = FourierFeatures.from_frequencies(
            fit.frequencies.to(self.drawn.frequencies.dtype), self.drawn.coupling, spectrum,
            fit.weights,
        )  # fmt: skip
        prior = self._prior(moved, found.hyperparameters)
        return FittedFeatures(prior, found, fit.start_loss, fit.loss)

    def _maximise(self, problem: EvidenceProblem, space: SearchSpace) -> OptimizationResult:
        return maximise_evidence(
            problem,
            space,
            n_restarts=self.n_restarts,
            max_iterations=self.max_iterations,
            rng=self.rng,
        )

    def _prior(self, feature_map: FeatureMap, hyperparameters: Hyperparameters) -> FeaturePrior:
        return FeaturePrior(feature_map, self.problem.stream.center, hyperparameters)


@dataclass(frozen=True, eq=False)
class PilotRows:
    """Rows of a table from which a pilot is drawn.

    Attributes
    ----------
    inputs : FloatArray (n, d)
        Some rows, or all.
    weights : RowWeights or None
        Their relative noise and counts; None for rows that are all alike.
    n_counted : float
        Number of rows that they stand for, each as often as it counts.
    queries : FloatArray (q, d) or None
        Further points at which the posterior matters.
    """

    inputs: FloatArray
    weights: RowWeights | None
    n_counted: float
    queries: FloatArray | None = None


def drawn_for_posterior(
    prior: FeaturePrior,
    search: OptimizationResult,
    rows: PilotRows,
    problem: Callable[[FeatureMap], EvidenceProblem],
    space: SearchSpace,
    rng: np.random.Generator,
    as_asked: bool,
) -> tuple[FeaturePrior, OptimizationResult, Pilot]:
    """Draw frequencies for the posterior at the hyperparameters of a prior.

    Lengthscales are kept, and the variances maximise the evidence under the new frequencies.

    Parameters
    ----------
    prior, search
        The prior with frequencies of the kernel's law, and the search for its hyperparameters.
    rows
        Where the pilot comes from.
    problem
        The evidence of the table under a feature map.
    space
        Free hyperparameters and their bounds.
    rng
        Source of pilot, pool and draw.
    as_asked
        Draw whatever the pilot expects; else the prior is kept where its second order does not
        hold, or where there is little to gain.

    Warns
    -----
    PrecisionWarning
        Frequencies are drawn as asked where the second order does not hold.
    """
    own, hyper, center = prior.feature_map, prior.hyperparameters, prior.center
    tell("a draw of frequencies for the posterior")
    form = pilot_form(
        rows.inputs - center, own.spectrum, hyper, rng, rows.weights,
        None if rows.queries is None else rows.queries - center, rows.n_counted,
    )  # fmt: skip
    (of_scouts,) = rng.spawn(1)
    scouts = WeighedPool.drawn(form, own.dim, SCOUTS, of_scouts)
    independent = scouts.independent_kl(own.n_frequencies)
    if not (as_asked or LEAST_KL <= independent <= MOST_KL):
        near = independent < LEAST_KL
        reason = (
            f"independent ones are {independent:.2g} nats per point from the exact posterior, "
            + ("which leaves little to gain" if near else "too far for a draw for it")
        )
        return prior, search, Pilot(reason)
    if independent > MOST_KL:
        warn(
            f"frequencies: expected a KL of at most {MOST_KL:g} nats per point by independent "
            f"frequencies, got {independent:.2g}; a draw for the posterior can predict "
            "worse there: take more frequencies, frequencies='auto', or ExactGPRegressor",
            PrecisionWarning,
        )
    pool = WeighedPool.of(form, own.dim, own.n_frequencies, rng)
    draw = pool.draw(own.n_frequencies, rng)
    moved = draw.features(own)
    kept = replace(space, free=space.free - {"lengthscale"}, lengthscale=hyper.lengthscale)
    found = maximise_evidence(problem(moved), kept, rng=rng)
    drawn = FeaturePrior(moved, center, found.hyperparameters)
    n_evaluations = search.n_evaluations + found.n_evaluations
    joined = replace(
        search, hyperparameters=found.hyperparameters, log_evidence=found.log_evidence,
        n_evaluations=n_evaluations,
    )  # fmt: skip
    reason = f"{own.n_frequencies} frequencies are enough for {own.dim} columns"
    pilot = Pilot(
        "as asked for" if as_asked else reason, draw.kl_per_point, draw.independent_kl,
        draw.largest_weight,
    )  # fmt: skip
    return drawn, joined, pilot
