"""Comparison of a posterior with a reference posterior: divergences, and scores of both."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from numpy.typing import ArrayLike, NDArray

from coupledgp.core.process import GaussianProcess
from coupledgp.diagnostics.joint import compare_jointly
from coupledgp.diagnostics.likelihoods.reporting import is_observed, likelihood_report, sites_of
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.probes import StochasticOptions, own_law, solved_law
from coupledgp.diagnostics.residuals.columns import kept_columns, with_row_order
from coupledgp.diagnostics.score_errors import solver_errors
from coupledgp.diagnostics.scoring.divergences import KernelErrors
from coupledgp.diagnostics.scoring.figures import Accuracy, Figures, OwnScores, Predictions
from coupledgp.diagnostics.scoring.laws import Law, check_shapes, check_targets, law_of, mixture_of
from coupledgp.diagnostics.scoring.measures import (
    kl_per_point,
    prior_figures,
    score_figures,
)
from coupledgp.diagnostics.scoring.overlap import overlap_of, without_overlap
from coupledgp.diagnostics.scoring.subject import (
    Subject,
    checked_groups,
    in_suited_threads,
    process_of,
)
from coupledgp.diagnostics.sections.place_map import PlacesOf, moves_of
from coupledgp.diagnostics.sections.posterior import Comparison, PosteriorReport
from coupledgp.diagnostics.verdicts.closing import closings
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.gathering import gathered, with_cost
from coupledgp.diagnostics.verdicts.result import judged
from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.validation import check_choice

# Matrices (p, p) of float64 alive at once at the peak of a comparison: covariances, priors, factors
# and correlations of both laws.
MATRICES_AT_ONCE = 11


@in_suited_threads
def compare(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None = None,
    reference: Any = None,
    *,
    method: str = "auto",
    options: StochasticOptions | None = None,
    progress: bool | None = None,
    leave_out_overlap: bool = False,
    groups: ArrayLike | Mapping[str, ArrayLike] | None = None,
    metadata: Any = None,
) -> PosteriorReport:
    """Compare a fitted model's predictive law with a reference, by default its exact twin.

    Both are joint laws of observations at the test points, noise included. The figures are
    those of MATH section 7; with several outputs each is the mean over outputs. Models of
    transformed targets are compared in units of the transformed targets, where divergences are the
    same as in those of y. Models whose observations follow a likelihood have a report of their own,
    of the function's posterior (`ClassReport`, `LikelihoodReport`).

    Parameters
    ----------
    model
        Fitted estimator with `predict(X, return_cov=True)`.
    X_test
        Test inputs (p, d), or whatever the estimator predicts at. Time O(p^3), memory O(p^2).
    y_test
        Targets (p,) or (p, k); without them no score of predictions is given.
    reference
        Fitted estimator to compare with. None: `model.exact_twin()`.
    method
        `"dense"`: both laws from the estimators' `predict`; the exact twin of n rows takes O(n^3)
        time and O(n^2) memory. `"stochastic"`: the reference's law by iterative solves with its
        exact kernel, which is never stored, in O(n) memory for each test point. Up to
        `options.n_columns` points have one solve each, and nothing is random; for more points the
        divergences of the joint laws are computed by random probes, and the scores at a random
        subset. Standard errors of the probes and bounds of the solver's errors are in
        `report.accuracy`. `"auto"`: dense for given references and for up to 5000 training rows.
    options
        Tolerances and sizes of the stochastic method.
    progress
        Show the steps of the stochastic method on stderr; None does so on a terminal. It may be
        interrupted at any step.
    leave_out_overlap
        Leave out test rows that are training rows, with the same inputs and targets. They are
        counted in any case (`report.overlap`), and the verdict begins with their number.
    groups
        Labels (p,) of the test points, such as sensors or categories, or several by name: the
        group whose intervals hold the most wrong share is looked for among them, and among thirds
        of the points by standard deviation and by mean.
    metadata
        Columns (p,) of the test rows that the model does not see, such as times, sites or depths:
        a data frame or a mapping by name. Residuals are looked at along these, the order of the
        rows, the inputs and the prediction (docs/verdicts.md).

    Returns
    -------
    PosteriorReport

    Raises
    ------
    InvalidInputError
        `model` has no `exact_twin` and no reference is given, shapes do not fit, or memory does
        not suffice; then the message says how much would be needed.
    NumericalError
        A predictive covariance is singular (it must include the noise), or the solver does not
        reach its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import compare
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.SparseSpectrumGPRegressor(
    ...     n_frequencies=32, optimizer=None, lengthscale=1.5, noise=0.02, random_state=0
    ... )
    >>> report = compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])  # against the exact process
    >>> report.kl_per_point < 0.01, report.rmse < 0.15
    (True, True)
    """
    if reference is None and is_observed(model):
        for name, given in (("groups", groups), ("metadata", metadata)):
            if given is not None:
                raise InvalidInputError(f"{name}: expected none for a model under a likelihood")
        return likelihood_report(
            model, X_test, y_test, sites=sites_of(method), options=options,
            leave_out_overlap=leave_out_overlap, progress=progress,
        )  # fmt: skip
    options, given = StochasticOptions() if options is None else options, y_test
    labels = checked_groups(groups, len(X_test))
    columns = with_row_order(metadata, len(X_test))
    overlap, rows = overlap_of(model, X_test, y_test, reference)
    if leave_out_overlap:
        overlap, X_test, y_test = without_overlap(overlap, rows, X_test, y_test)
        if overlap.left_out:
            labels, columns = (kept_columns(one, ~rows) for one in (labels, columns))
    found = compared(model, X_test, y_test, reference, method, options, progress, labels, columns)
    found = found.changed(moves=moves_of(model), places=PlacesOf.of(model))
    return found.with_overlap(overlap).with_target(given, model)


def compared(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None,
    reference: Any,
    method: str,
    options: StochasticOptions,
    progress: bool | None,
    groups: Mapping[str, NDArray[Any]] | None = None,
    metadata: Mapping[str, NDArray[Any]] | None = None,
) -> PosteriorReport:
    """Compare as `compare` does, without a look for test rows that are training rows."""
    asked = Comparison.of(model, X_test, y_test, reference)
    model, X_test, y_test, reference = asked.model, asked.X, asked.y, asked.reference
    solved = by_solves(model, reference, method)
    _check_points(len(X_test))
    subject = replace(asked.subject, groups=groups or {}, metadata=metadata or {})
    with reporter("compare", progress if solved else False):
        if solved and by_probes(model, len(X_test), options):
            source, name = _source(model, reference), _text(model, reference)
            found = compare_jointly(subject, source, name, y_test, options)
        else:
            exact = reference_law(subject, X_test, reference, solved, options)
            found = report_beside(subject, y_test, exact, options)
        return asked.report(found)


@dataclass(frozen=True)
class ReferenceLaw:
    """The law that models are compared with at given test points.

    Attributes
    ----------
    law : Law
    text : str
        Text of the reference.
    subject : Subject or None
        The fitted reference at its points; None where its law came from iterative solves.
    settings : dict or None
        Settings of the iterative solves and the work they took; None for dense algebra.
    """

    law: Law
    text: str
    subject: Subject | None
    settings: dict[str, Any] | None


def by_solves(model: Any, reference: Any = None, method: str = "auto") -> bool:
    """Whether a comparison's reference law is computed by iterative solves.

    Raises
    ------
    InvalidInputError
        `method` is unknown, there is no reference, or it does not state its exact kernel.
    """
    check_choice(method, ["auto", "dense", "stochastic"], "method")
    _check_reference(model, reference, method)
    return method == "stochastic" or (method == "auto" and reference is None and _is_large(model))


def by_probes(model: Any, n_points: int, options: StochasticOptions) -> bool:
    """Whether there are too many points for one solve each."""
    process = process_of(model)
    solves = process is not None and process.own_problem() is not None
    return n_points > options.n_columns and not solves


def reference_law(
    subject: Subject,
    X_test: Any,
    reference: Any,
    solved: bool,
    options: StochasticOptions,
) -> ReferenceLaw:
    """Law of the reference, by default the exact process, by iterative solves or dense algebra."""
    _check_points(len(X_test))
    if not solved:
        tell("exact GP")
        dense = _dense_reference(subject, X_test, reference)
        return ReferenceLaw(law_of(dense, "reference"), repr(dense.model), dense, None)
    start = time.perf_counter()
    problem = _source(subject.model, reference).exact_problem()
    law, steps = solved_law(problem, subject.points, options)
    seconds = time.perf_counter() - start
    settings = asdict(options) | {"reference_iterations": steps, "seconds": seconds}
    return ReferenceLaw(law, _text(subject.model, reference), None, settings)


def _dense_reference(subject: Subject, X_test: Any, reference: Any) -> Subject:
    """The reference, fitted, at the test points."""
    if reference is not None:
        return Subject.of(reference, X_test)
    if subject.process is None:
        return Subject.of(subject.model.exact_twin(), X_test)
    exact = subject.process.exact()
    return Subject(exact, subject.points, exact)


def _source(model: Any, reference: Any) -> GaussianProcess:
    """The process that states its exact kernel."""
    process = process_of(model if reference is None else reference)
    assert process is not None
    return process


def report_beside(
    subject: Subject,
    y_test: ArrayLike | None,
    exact: ReferenceLaw,
    options: StochasticOptions,
) -> PosteriorReport:
    """Report on a model beside a law that is known at the same points."""
    start = time.perf_counter()
    law, steps = law_of_model(subject, exact, options)
    seconds = time.perf_counter() - start
    check_shapes(law.mean.shape, exact.law.mean.shape)
    y = None if y_test is None else check_targets(y_test, law.mean.shape)
    mixtures = (None, None) if y is None else (mixture_of(subject), mixture_of(exact.subject))
    figures = Figures(
        n_test=law.mean.shape[0],
        n_outputs=law.mean.shape[1],
        kl_per_point=kl_per_point(exact.law, law),
        reverse_kl_per_point=kl_per_point(law, exact.law),
        **prior_figures(law, exact.law),
        **score_figures(law, exact.law, y, mixtures),
    )
    accuracy = Accuracy("dense")
    if exact.settings is not None:
        work = {"model_iterations": steps, "seconds": exact.settings["seconds"] + seconds}
        found = solver_errors(law, exact.law, y)
        accuracy = Accuracy(
            "stochastic", found.bounds, unbounded=found.unbounded, settings=exact.settings | work
        )
    predictions = Predictions(
        law.mean, law.std, exact.law.mean, exact.law.std, y,
        law.cov, exact.law.cov, subject.points,
        *(OwnScores.of(one, y) for one in mixtures),
    )  # fmt: skip
    kept, targets = subject.kept(), None if y is None else y.copy()

    def gather_evidence() -> Evidence:
        assert targets is not None
        found = with_cost(gathered(kept, targets, law, mixtures[0]), exact.law, law, figures,
                          accuracy)  # fmt: skip
        beside_a_member = kept.is_mixture and exact.settings is not None
        found = replace(found, beside_a_member=beside_a_member)
        if judged(figures, accuracy, found)[2].colour != "green":
            found = replace(found, closings=closings(kept, exact.law, targets))
        return found

    errors = None
    if law.prior is not None and exact.law.prior is not None:
        errors = KernelErrors.of(law.prior[..., 0], exact.law.prior[..., 0])
    return PosteriorReport(
        figures, predictions, repr(subject.model), exact.text, accuracy, errors, subject.remarks,
        gather=None if y is None else gather_evidence,
    )  # fmt: skip


def law_of_model(
    subject: Subject, exact: ReferenceLaw, options: StochasticOptions
) -> tuple[Law, int]:
    """Law of a model, computed by the method of the reference's, and the steps of its solves."""
    if exact.settings is None:
        return law_of(subject, "model"), 0
    return own_law(subject, options)


def _text(model: Any, reference: Any) -> str:
    """Text of the reference in a report."""
    return f"exact GP of {model!r}" if reference is None else repr(reference)


def _check_points(n_points: int) -> None:
    """Refuse no points, and more than memory suffices for."""
    if n_points == 0:
        raise InvalidInputError("X_test: expected at least one point, got none")
    check_memory(
        MATRICES_AT_ONCE * 8 * n_points**2,
        f"X_test: {n_points} points compared jointly",
        "compare on a subset of the points",
    )


def _check_reference(model: Any, reference: Any, method: str) -> None:
    """Refuse models without a reference, and references without the kernel that solves need."""
    source = model if reference is None else reference
    if reference is None and process_of(model) is None and not hasattr(model, "exact_twin"):
        raise InvalidInputError(
            f"reference: {type(model).__name__} has no exact_twin(); give a fitted estimator"
        )
    if method == "stochastic" and process_of(source) is None:
        raise InvalidInputError(
            f"method: 'stochastic' needs the exact kernel, which {type(source).__name__} does not "
            "state (it is no model of this package); use method='dense'"
        )


def _is_large(model: Any) -> bool:
    """Whether the exact twin of a model has too many rows for dense algebra by default."""
    process = process_of(model)
    return process is not None and len(process.data) > DENSE_ROWS
