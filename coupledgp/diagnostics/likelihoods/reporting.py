"""Reports of models whose observations follow a likelihood, from the model and test points."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.latent import LatentGP
from coupledgp.core.process import Points
from coupledgp.diagnostics.likelihoods.class_laws import ClassLaws, ObservedLaws
from coupledgp.diagnostics.likelihoods.evidence import (
    class_draws,
    class_rival_beside,
    observation_rival_beside,
)
from coupledgp.diagnostics.likelihoods.latent_kl import (
    ExactReference,
    FunctionLaw,
    LatentKL,
    latent_process,
)
from coupledgp.diagnostics.likelihoods.reliability import Reliability
from coupledgp.diagnostics.likelihoods.report import ClassReport, LikelihoodReport
from coupledgp.diagnostics.likelihoods.rivals import ClassRival, class_rivals, observation_rivals
from coupledgp.diagnostics.probes import StochasticOptions
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.figures import (
    Accuracy,
    Figures,
    OwnScores,
    Predictions,
    versions,
)
from coupledgp.diagnostics.scoring.laws import check_targets
from coupledgp.diagnostics.scoring.measures import differences, marginal_scores
from coupledgp.diagnostics.scoring.overlap import Overlap, overlap_of, rows_at
from coupledgp.diagnostics.scoring.scores import paired_difference
from coupledgp.diagnostics.scoring.subject import Subject, process_of, some_rows
from coupledgp.diagnostics.verdicts.adequacy import SAME, Cost
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.gathering import correlations, usual_groups
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.validation import check_choice, wrong
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import Bernoulli, class_log_chances
from coupledgp.random import FloatArray, IntArray

# What to do where observations spread more, and less, than their law says.
COUNT_REMEDIES = (
    "Counts vary more than their law says: take a negative binomial law in place of Poisson's, or "
    "inputs and kernels that tell more.",
    "Counts vary less than their law says, which no law of more dispersion mends: compare "
    "GPRegressor, whose normal law is rounded.",
)
REMEDIES = (
    "Observations vary more than their law says: take a law of heavier tails, or another kernel.",
    "Observations vary less than their law says: take a law of lighter tails.",
)


def is_observed(model: Any) -> bool:
    """Whether a model's observations follow a likelihood."""
    return isinstance(process_of(model), LatentGP)


def sites_of(method: str) -> str:
    """Where sites of the exact process are from, by the method of a comparison.

    Raises
    ------
    InvalidInputError
        The method is unknown.
    """
    check_choice(method, ["auto", "dense", "stochastic"], "method")
    return {"auto": "auto", "dense": "own", "stochastic": "same"}[method]


@dataclass(frozen=True, eq=False)
class ObservedTask:
    """A model under a likelihood at test points, as a report is asked for.

    Attributes
    ----------
    model : object
        Fitted estimator, or process.
    X : object
        Test inputs as they were given.
    y : object or None
        Labels or observations.
    exposure : FloatArray (p,) or None
        Exposures of counts.
    options : StochasticOptions
        Most points, and tolerances of iterative solves.
    sites : str
        Where the sites of the exact process are from; see `LatentKL`.
    """

    model: Any
    X: Any
    y: Any = None
    exposure: FloatArray | None = None
    options: StochasticOptions = field(default_factory=StochasticOptions)
    sites: str = "auto"

    @property
    def process(self) -> LatentGP:
        """The model's process."""
        return latent_process(self.model)

    @property
    def classes(self) -> Any:
        """Labels of the classes."""
        known = getattr(self.model, "classes_", None)
        k = len(self.process.functions)
        return np.arange(2 if k == 1 else k) if known is None else np.asarray(known)

    @property
    def power(self) -> float:
        """Power of the chances of classes."""
        return float(getattr(self.model, "power_", 1.0))

    def targets(self) -> FloatArray | None:
        """Observations (p, k): indicators of labels for a classifier.

        Raises
        ------
        InvalidInputError
            They are none of the likelihood's, or as many as the points.
        """
        if self.y is None:
            return None
        process, n = self.process, len(self.X)
        k = len(process.functions)
        if isinstance(process.likelihood, Bernoulli):
            codes = _codes(self.y, self.classes, n)
            return np.eye(len(self.classes))[codes][:, -k:]
        found = check_targets(self.y, (n, k))
        try:
            return process.likelihood.check_targets(found)
        except InvalidInputError as error:
            raise InvalidInputError(f"y_test: {error}") from None

    def take(self, rows: IntArray) -> ObservedTask:
        """The task at some of the points."""
        y = None if self.y is None else np.asarray(self.y)[rows]
        exposure = None if self.exposure is None else self.exposure[rows]
        return ObservedTask(
            self.model, rows_at(self.X, rows), y, exposure, self.options, self.sites
        )

    def made(self) -> LikelihoodReport:
        """The report at all the points."""
        found: LikelihoodReport
        if isinstance(self.process.likelihood, Bernoulli):
            found = self._of_classes()
        else:
            found = self._of_observations()
        return found

    def _parts(self) -> tuple[Points, FunctionLaw, ExactReference, LatentKL]:
        """Points, the functions' law, the exact one, and their divergence."""
        process = self.process
        points = Subject.of(self.model, self.X).points
        own = FunctionLaw.of(process, points)
        exact = ExactReference.of(process, points, self.sites, self.options)
        return points, own, exact, LatentKL.between(
            exact.law, own, process.likelihood, exact.sites
        )  # fmt: skip

    def _of_classes(self) -> ClassReport:
        process = self.process
        points, own, exact, divergence = self._parts()
        laws = ClassLaws(chances_of(process.likelihood, own, self.power), self.classes)
        other = ClassLaws(chances_of(process.likelihood, exact.law, self.power), self.classes)
        targets = self.targets()
        tell("rivals and draws of labels")
        if targets is None:
            return class_report(laws, None, other, divergence, model=self.model, exact=exact.text)
        codes = _codes(self.y, self.classes, len(points))
        draws = class_draws(own, process.likelihood, laws, len(process.rows), self.power)
        rivals = class_rivals(process, points, self.classes)
        return class_report(
            laws, codes, other, divergence, draws=draws, rivals=rivals, model=self.model,
            exact=exact.text, n_train=len(process.rows), remarks=process.remarks,
        )  # fmt: skip

    def _of_observations(self) -> LikelihoodReport:
        process = self.process
        points, own, exact, divergence = self._parts()
        shift: Any = 0.0
        if self.exposure is not None:
            shift = process.likelihood.log_exposure(self.exposure)[:, None]
        laws, other = (
            ObservedLaws(process.likelihood, law.mean + shift, law.variance)
            for law in (own, exact.law)
        )
        if np.array_equal(laws.mean, other.mean) and np.array_equal(laws.variance, other.variance):
            other = laws  # an exact model is its own reference: scores are computed once
        y, both = self.targets(), (laws.laws, other.laws)
        scores: dict[str, Any] = {}
        if y is not None:
            tell("scores and rivals")
            scores = marginal_scores(y, both[0], "") | marginal_scores(y, both[1], "reference_")
            scores["differences"] = differences(y, *both)
        figures = Figures(
            len(points), len(process.functions), divergence.kl_per_point,
            divergence.reverse_kl_per_point, **scores,
        )  # fmt: skip
        predictions = Predictions(
            both[0].mean, both[0].std, both[1].mean, both[1].std, y, None, None, points,
            OwnScores.of(laws, y), OwnScores.of(other, y),
        )  # fmt: skip
        evidence = None if y is None else self._observed(points, own, laws, y, figures)
        return LikelihoodReport(
            figures, predictions, repr(self.model), _reference_text(self.model, exact.text),
            Accuracy("dense"), None, process.remarks, gather=evidence, divergence=divergence,
            likelihood=type(process.likelihood).__name__, n_train=len(process.rows),
        )  # fmt: skip

    def _observed(
        self, points: Points, own: FunctionLaw, laws: ObservedLaws, y: FloatArray, figures: Figures
    ) -> Evidence:
        """Rivals, calibration, and what the exact posterior gains."""
        process = self.process
        covariance = process.likelihood.marginal_moments(own.mean, own.cov)[1]
        matrix = correlations(covariance)
        moments = laws.laws
        groups = usual_groups(moments.mean, moments.std)
        calibration = Calibration.of_transforms(
            laws.transforms(y), matrix, groups, len(process.rows)
        )
        nlpd = -laws.log_density(y) / y.shape[1]
        # What points share: variance of a mean of residuals over that of independent ones.
        shared = max(1.0, float(matrix.sum() / (len(y) * matrix.shape[2])))
        beside: tuple[BesideBaseline, ...] = ()
        if y.shape[1] == 1:
            found = observation_rivals(process, points, y[:, 0], self.exposure)
            beside = tuple(
                observation_rival_beside(y[:, 0], moments.mean[:, 0], nlpd, one, shared)
                for one in found
            )
        assert figures.differences is not None
        gap = dict(figures.differences["nlpd"])
        cost = Cost(gap) if divergence_of(figures) >= SAME else None
        return Evidence(
            beside, calibration, None, cost, n_judged=len(y), n_points=len(y),
            remedies=COUNT_REMEDIES if process.likelihood.is_discrete else REMEDIES,
        )  # fmt: skip


def divergence_of(figures: Figures) -> float:
    """The KL of figures, zero where there is none."""
    return 0.0 if figures.kl_per_point is None else figures.kl_per_point


def _codes(labels: Any, classes: Any, n_points: int) -> IntArray:
    uniform = np.full((n_points, len(classes)), 1 / len(classes))
    return ClassLaws(uniform, np.asarray(classes)).codes(labels)


def chances_of(likelihood: Likelihood, law: FunctionLaw, power: float = 1.0) -> FloatArray:
    """Chances (p, K) of classes from the law of their functions, raised to a power."""
    found = [
        likelihood.marginal_log_density(np.full_like(law.mean, y), law.mean, law.variance)
        for y in (0.0, 1.0)
    ]
    return np.exp(class_log_chances(found[0], found[1], power))


def _reference_text(model: Any, how: str) -> str:
    return f"exact posterior of {model if isinstance(model, str) else repr(model)}, {how}"


def class_report(
    laws: ClassLaws,
    codes: IntArray | None,
    other: ClassLaws | None = None,
    divergence: LatentKL | None = None,
    *,
    draws: IntArray | None = None,
    rivals: Sequence[ClassRival] = (),
    model: Any = None,
    exact: str = "",
    n_train: int = 0,
    remarks: Sequence[str] = (),
    is_own: bool = True,
) -> ClassReport:
    """Report on chances of classes.

    Parameters
    ----------
    laws
        Chances (p, K) of the model.
    codes
        Places (p,) of the labels among the classes; None without labels.
    other, divergence
        Chances of the exact posterior, and the distance from it; None where there is none.
    draws
        Places (m, p) of labels drawn from the model; None: points are independent.
    rivals
        Classifiers that could be picked instead, the shares of the classes first.
    model
        The model, or its name.
    exact
        How the exact posterior was computed.
    n_train
        Number of training rows.
    remarks
        Sentences that a reader needs.
    is_own
        Whether the model is one of this package, whose methods advice may name.
    """
    spread = np.sqrt(laws.chances * (1 - laws.chances))
    truth, evidence, found = None, None, None
    scores: dict[str, Any] = {}
    if codes is not None:
        truth = np.eye(len(laws.classes))[codes]
        if draws is None:
            draws = class_draws(None, Bernoulli(), laws, n_train or None)
        found = Reliability.of(laws, codes, draws)
        scores = {"nlpd": _mean(laws.log_losses(codes)), "rmse": _root(laws, codes)}
        cost = None
        if other is not None:
            scores |= {
                "reference_nlpd": _mean(other.log_losses(codes)),
                "reference_rmse": _root(other, codes),
            }
            gap = _gap(laws, other, codes)
            scores["differences"] = gap
            if divergence is not None and divergence.kl_per_point >= SAME:
                cost = Cost(gap["nlpd"])
        beside = tuple(class_rival_beside(laws, codes, draws, one) for one in rivals)
        evidence = Evidence(
            beside,
            None,
            None,
            cost,
            n_judged=len(codes),
            n_points=len(codes),
            is_own=is_own,
            rmse_is=ClassReport.rmse_is,
        )
    kl, reverse = (None, None) if divergence is None else (
        divergence.kl_per_point, divergence.reverse_kl_per_point
    )  # fmt: skip
    figures = Figures(len(laws.chances), len(laws.classes), kl, reverse, **scores)
    reference = None if divergence is None else _reference_text(model, exact)
    return ClassReport(
        figures, Predictions(laws.chances, spread, None, None, truth),
        model if isinstance(model, str) else repr(model), reference, Accuracy("dense"), None,
        tuple(remarks), gather=evidence, divergence=divergence, likelihood="Bernoulli",
        n_train=n_train, laws=laws, codes=codes, reliability=found,
    )  # fmt: skip


def _mean(losses: FloatArray) -> float:
    return float(losses.mean())


def _root(laws: ClassLaws, codes: IntArray) -> float:
    return float(np.sqrt(laws.brier_losses(codes).mean()))


def _gap(laws: ClassLaws, other: ClassLaws, codes: IntArray) -> dict[str, Any]:
    """Paired differences of log losses and Brier scores."""
    pairs = {
        "nlpd": (laws.log_losses(codes), other.log_losses(codes)),
        "squared_error": (laws.brier_losses(codes), other.brier_losses(codes)),
    }
    return {name: paired_difference(*pair)._asdict() for name, pair in pairs.items()}


def likelihood_report(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None = None,
    *,
    exposure: ArrayLike | None = None,
    sites: str = "auto",
    options: StochasticOptions | None = None,
    title: str | None = None,
    data: str | None = None,
    leave_out_overlap: bool = False,
    progress: bool | None = None,
) -> LikelihoodReport:
    """Report on a classifier, or on a model of counts or other laws that are not normal.

    Parameters
    ----------
    model
        Fitted classifier, estimator with a likelihood, or its process.
    X_test, y_test
        Test points, and labels or observations if there are any. Of more than `options.n_columns`
        points a random part is judged.
    exposure
        Exposures (p,) of counts; None: ones.
    sites
        Where the sites of the exact posterior are from; see `latent_kl`.
    options
        Number of points, and tolerances of iterative solves above 5000 training rows.
    title, data
        Heading of the page, and a description of the data in words.
    leave_out_overlap
        Leave out test rows that are training rows.
    progress
        Show progress on stderr; None does so on a terminal.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or the model's observations are normal.
    """
    start, chosen = time.perf_counter(), StochasticOptions() if options is None else options
    process = latent_process(model)
    given = None if exposure is None else np.asarray(exposure, dtype=np.float64).reshape(-1)
    if given is not None and given.shape != (len(X_test),):
        raise wrong("exposure", f"{len(X_test)} numbers, one a test point", given.shape)
    with reporter("report", progress):
        task = ObservedTask(model, X_test, y_test, given, chosen, sites)
        overlap, task = _without_overlap(task, leave_out_overlap)
        n_points = len(task.X)
        rows = some_rows(n_points, chosen.n_columns, chosen.seed)
        task = task if rows.size == n_points else task.take(rows)
        found = task.made().with_overlap(overlap)
    remarks = found.remarks
    if rows.size < n_points:
        remarks += (f"Measured at {rows.size} of {n_points} test points, drawn at random.",)
    provenance = {
        "data": data, "training rows": len(process.rows), "model": repr(model),
        "options": asdict(chosen), "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - start, 2), **versions(),
    }  # fmt: skip
    return found.changed(
        title=title or f"Posterior of {type(model).__name__}", remarks=remarks,
        provenance=provenance,
    )  # fmt: skip


def _without_overlap(task: ObservedTask, leave_out: bool) -> tuple[Overlap, ObservedTask]:
    """How many test rows are training rows, and the task without them on request."""
    overlap, same = overlap_of(task.model, task.X, task.targets())
    if not (leave_out and overlap.n_rows):
        return overlap, task
    if overlap.n_rows == overlap.n_test:
        raise InvalidInputError(
            f"X_test: all {overlap.n_test} test rows are training rows, none is left"
        )
    left = Overlap(overlap.n_test, overlap.n_rows, overlap.n_inputs, True)
    return left, task.take(np.flatnonzero(~same))
