"""How far a posterior is from a reference posterior, and what each of them predicts."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from coupledgp.diagnostics.figures import (
    kl_per_point,
    prior_figures,
    score_figures,
    solver_bounds,
)
from coupledgp.diagnostics.joint import compare_jointly
from coupledgp.diagnostics.kernel_errors import KernelErrors
from coupledgp.diagnostics.laws import Law, check_shapes, check_targets, law_of
from coupledgp.diagnostics.report import Accuracy, Figures, PosteriorReport, Predictions
from coupledgp.diagnostics.stochastic import StochasticOptions, laws_by_solves
from coupledgp.errors import InvalidInputError
from coupledgp.progress import reporter
from coupledgp.validation import check_choice, check_memory

# Matrices of p x p float64 alive at once.
MATRICES_AT_ONCE = 8
# Training rows up to which "auto" fits the exact twin.
DENSE_ROWS = 5000


def compare(
    model: Any,
    X_test: Any,
    y_test: ArrayLike | None = None,
    reference: Any = None,
    *,
    method: str = "auto",
    options: StochasticOptions | None = None,
    progress: bool | None = None,
) -> PosteriorReport:
    """Compare a fitted model's predictive law with a reference, by default its exact twin.

    Both laws speak of observations at the test points jointly, noise included. The figures are
    those of MATH section 7; with several outputs each is the mean over outputs.

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
        exact kernel, never stored, O(n) memory a test point. For up to `options.n_columns` points
        one solve a point, and nothing is random; for more, divergences of the joint laws at all
        points by random probes, scores at a random subset. Standard errors of the probes and
        bounds of what the solver leaves undone are in `report.accuracy`. `"auto"`: dense for given
        references and for up to 5000 training rows.
    options
        Tolerances and sizes of the stochastic method.
    progress
        Show the steps of the stochastic method on stderr; None does so on a terminal. It may be
        interrupted at any step.

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
    """
    check_choice(method, ["auto", "dense", "stochastic"], "method")
    options = StochasticOptions() if options is None else options
    source = model if reference is None else reference
    _check_reference(model, reference, method)
    check_memory(
        MATRICES_AT_ONCE * 8 * len(X_test) ** 2,
        f"X_test: {len(X_test)} points compared jointly",
        "compare on a subset of the points",
    )
    if method == "stochastic" or (method == "auto" and reference is None and _is_large(model)):
        name = f"exact GP of {source!r}" if reference is None else repr(reference)
        with reporter("compare", progress) as report:
            if len(X_test) > options.n_columns and not hasattr(model, "own_problem"):
                return compare_jointly(model, source, name, X_test, y_test, options, report)
            law, exact, settings = laws_by_solves(model, source, X_test, options, report)
        return _report(model, name, law, exact, y_test, settings)
    reference = model.exact_twin() if reference is None else reference
    law, exact = law_of(model, X_test, "model"), law_of(reference, X_test, "reference")
    return _report(model, repr(reference), law, exact, y_test, None)


def _check_reference(model: Any, reference: Any, method: str) -> None:
    if reference is None and not hasattr(model, "exact_twin"):
        raise InvalidInputError(
            f"reference: {type(model).__name__} has no exact_twin(); give a fitted estimator"
        )
    source = model if reference is None else reference
    if method == "stochastic" and not hasattr(source, "exact_problem"):
        raise InvalidInputError(
            f"method: 'stochastic' needs the exact kernel, which {type(source).__name__} does not "
            "state (it has no exact_problem()); use method='dense'"
        )


def _is_large(model: Any) -> bool:
    return hasattr(model, "exact_problem") and len(model.exact_problem().targets) > DENSE_ROWS


def _report(
    model: Any,
    reference: str,
    law: Law,
    exact: Law,
    y_test: ArrayLike | None,
    settings: dict[str, Any] | None,
) -> PosteriorReport:
    check_shapes(law.mean.shape, exact.mean.shape)
    y = None if y_test is None else check_targets(y_test, law.mean.shape)
    figures = Figures(
        n_test=law.mean.shape[0],
        n_outputs=law.mean.shape[1],
        kl_per_point=kl_per_point(exact, law),
        reverse_kl_per_point=kl_per_point(law, exact),
        **prior_figures(law, exact),
        **score_figures(law, exact, y),
    )
    accuracy = Accuracy("dense")
    if settings is not None:
        accuracy = Accuracy("stochastic", solver_bounds(law, exact, y), settings=settings)
    predictions = Predictions(law.mean, law.std, exact.mean, exact.std, y)
    errors = None
    if law.prior is not None and exact.prior is not None:
        errors = KernelErrors.of(law.prior[..., 0], exact.prior[..., 0])
    return PosteriorReport(figures, predictions, repr(model), reference, accuracy, errors)
