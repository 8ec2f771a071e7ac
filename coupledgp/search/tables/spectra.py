"""Spectra fitted to a posterior, to the evidence or to a loss of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.errors import PrecisionWarning
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.gp.weight_space import FeaturePrior
from coupledgp.ground.progress import Progress
from coupledgp.ground.tensors import Tensor
from coupledgp.ground.visible import warn
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.evidence.problem import EvidenceProblem, Hyperparameters, RowWeights
from coupledgp.inference.spectra.evidence import SpectrumEvidence
from coupledgp.inference.spectra.posterior_draw import (
    LEAST_KL,
    MOST_KL,
    SCOUTS,
    Pilot,
    WeighedPool,
    pilot_form,
    pilot_places,
)
from coupledgp.inference.spectra.posterior_form import mixture_weights
from coupledgp.inference.spectra.posterior_kl import Teacher
from coupledgp.inference.weights.evidence import FeatureEvidence
from coupledgp.random import FloatArray
from coupledgp.search.optimize import OptimizationResult, maximise_evidence
from coupledgp.search.starts import SearchSpace
from coupledgp.search.tables.spectrum_descent import (
    KLSettings,
    QueryPoints,
    SpectrumFit,
    fit_loss,
    fit_posterior_kl,
)
from coupledgp.search.tables.spectrum_members import (
    EvidenceSettings,
    Member,
    UnseenRows,
    fit_members,
    hold_out,
    log_densities,
)

# Prior counts of the weights of members, in held-out rows: few held-out rows tell little about
# which members are over-confident, and then the sampled spectrum keeps a large weight.
SAMPLED_COUNT, ONE_FACTOR_COUNT, FITTED_COUNT = 4.0, 2.0, 1.0
# Most unlabelled points per row of the teacher: more add nothing, since they are drawn with
# replacement.
FURTHER_POINTS = 20

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class FittedPriors:
    """Results of a fit of hyperparameters and frequencies.

    Attributes
    ----------
    priors : tuple of FeaturePrior
        Fitted priors: one, or the K members of a mixture, the sampled spectrum first.
    weights : FloatArray (K,)
        Weights of the mixture, of sum one.
    search : OptimizationResult
        The search for the hyperparameters of the first prior.
    start_loss, loss : float or None
        Value of the objective that moved the frequencies, before and after the fit; None where no
        objective did.
    pilot : Pilot or None
        Why frequencies were drawn as they were; None where they were fitted.
    """

    priors: tuple[FeaturePrior, ...]
    weights: FloatArray
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
    report : Progress
        Function that is called with a few words at each step.
    n_restarts, max_iterations : int
        Number of starts besides the best one, and largest number of iterations, of the search for
        the hyperparameters.
    teacher_rows, batch_rows : int
        Largest number of rows of the exact GP to whose posterior a spectrum is fitted, and of one
        step on the evidence.
    queries : FloatArray (q, d) or None
        Points at which the posterior matters.
    kept : str
        Why frequencies are drawn from the kernel's spectrum, where they are.
    """

    problem: FeatureEvidence
    space: SearchSpace
    rng: np.random.Generator
    report: Progress
    n_restarts: int
    max_iterations: int
    teacher_rows: int
    batch_rows: int
    queries: FloatArray | None = None
    kept: str = "as asked for"

    @property
    def drawn(self) -> FeatureMap:
        """The sampled feature map."""
        return self.problem.stream.feature_map

    def sampled(self) -> FittedPriors:
        """Hyperparameters of maximum evidence; frequencies stay as they were drawn."""
        found = self._maximise(self.problem, self.space)
        prior = self._prior(self.drawn, found.hyperparameters)
        return FittedPriors((prior,), np.ones(1), found, pilot=Pilot(self.kept))

    def for_posterior(self, as_asked: bool) -> FittedPriors:
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
            before.priors[0], before.search, rows,
            lambda made: FeatureEvidence(
                replace(stream, feature_map=made), problem.targets, weights
            ),
            self.space, of_draws, self.report, as_asked,
        )  # fmt: skip
        return FittedPriors((prior,), np.ones(1), search, pilot=pilot)

    def to_loss(self, loss: Loss) -> FittedPriors:
        """Hyperparameters of maximum evidence, then frequencies that minimise a loss."""
        found = self._maximise(self.problem, self.space)
        return self._moved(found, fit_loss(loss, self.drawn, KLSettings(), self.report))

    def to_posterior(self) -> FittedPriors:
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

        return self._moved(
            found, fit_posterior_kl(teacher, points, draw, KLSettings(), self.report)
        )

    def to_evidence(self) -> FittedPriors:
        """Sampled spectrum, fitted ones, and the weights of their mixture.

        The first member is the prior that `sampled` gives. The hyperparameters of the sampled
        members are fitted to all rows, so that the held-out rows favour them a little.
        """
        stream, problem = self.problem.stream, self.problem
        found = self._maximise(problem, self.space)
        drawn = [_member(self.drawn, found.hyperparameters)]
        drawn += self._one_factor(found, drawn[0])
        train, held = hold_out(problem.n_rows, self.rng)
        inputs, targets, weights = stream.X - stream.center, problem.targets, problem.weights
        own, others = (None if weights is None else weights.take(rows) for rows in (train, held))
        centred = SpectrumEvidence(inputs[train], targets[train], own)
        held_out = UnseenRows(inputs[held], targets[held], others)
        settings = EvidenceSettings(batch_rows=self.batch_rows)
        fitted = fit_members(
            centred, held_out, drawn[0], self.space, self.drawn.spectrum, settings, self.rng,
            self.report,
        )  # fmt: skip
        members = [*drawn, *fitted]
        self.report("weights of the mixture")
        densities = np.array([log_densities(centred, m, held_out) for m in members])
        credit = [SAMPLED_COUNT, ONE_FACTOR_COUNT][: len(drawn)] + [FITTED_COUNT] * len(fitted)
        priors = [
            self._prior(_map(self.drawn, m.frequencies, m.weights), m.hyperparameters)
            for m in members
        ]
        priors[0] = self._prior(self.drawn, found.hyperparameters)
        shares = mixture_weights(densities, credit, None if others is None else others.counts)
        return FittedPriors(tuple(priors), shares, found)

    def _one_factor(self, found: OptimizationResult, sampled: Member) -> list[Member]:
        """The sampled spectrum with one free factor on all lengthscales, as a member or none.

        Maximum evidence overfits many lengthscales to few rows; this member, with one factor,
        cannot, and protects the mixture. It is left out where its evidence is lower by
        `(d - 1) log n` or more, twice Schwarz's criterion: there it would add only cost.
        """
        space = self.space
        if not (space.n_lengthscales > 1 and "lengthscale" in space.free):
            return []
        base = space.base if space.lengthscale is None else space.lengthscale
        narrow = replace(space, ard=False, base=base)
        result = self._maximise(self.problem, narrow, "one factor: ")
        least_loss = (space.n_lengthscales - 1) * np.log(self.problem.n_rows)
        if found.log_evidence - result.log_evidence >= least_loss:
            return []
        return [replace(sampled, hyperparameters=result.hyperparameters)]

    def _maximise(
        self, problem: EvidenceProblem, space: SearchSpace, prefix: str = ""
    ) -> OptimizationResult:
        return maximise_evidence(
            problem,
            space,
            n_restarts=self.n_restarts,
            max_iterations=self.max_iterations,
            rng=self.rng,
            report=lambda text: self.report(prefix + text),
        )

    def _moved(self, found: OptimizationResult, fit: SpectrumFit) -> FittedPriors:
        moved = _map(self.drawn, fit.frequencies, fit.weights)
        prior = self._prior(moved, found.hyperparameters)
        return FittedPriors((prior,), np.ones(1), found, fit.start_loss, fit.loss)

    def _prior(self, feature_map: FeatureMap, hyperparameters: Hyperparameters) -> FeaturePrior:
        return FeaturePrior(feature_map, self.problem.stream.center, hyperparameters)


def _member(feature_map: FeatureMap, hyperparameters: Hyperparameters) -> Member:
    frequencies = feature_map.frequencies.double()
    weights = feature_map.weights
    m = len(frequencies)
    equal = frequencies.new_full((m,), 1 / m)
    return Member(frequencies, equal if weights is None else weights.double(), hyperparameters)


def _map(like: FeatureMap, frequencies: Tensor, weights: Tensor) -> FourierFeatures:
    """Feature map of a fitted spectrum, in the dtype of another map."""
    return FourierFeatures.from_frequencies(
        frequencies.to(like.frequencies.dtype), like.coupling, like.spectrum, weights
    )


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
    report: Progress,
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
    report
        Progress.
    as_asked
        Draw whatever the pilot expects; else the prior is kept where its second order does not
        hold, or where there is little to gain.

    Warns
    -----
    PrecisionWarning
        Frequencies are drawn as asked where the second order does not hold.
    """
    own, hyper, center = prior.feature_map, prior.hyperparameters, prior.center
    report("a draw of frequencies for the posterior")
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
    found = maximise_evidence(problem(moved), kept, rng=rng, report=report)
    drawn = FeaturePrior(moved, center, found.hyperparameters, prior.likelihood)
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
