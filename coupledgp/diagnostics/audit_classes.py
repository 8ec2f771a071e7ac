"""Audit of classifiers of any origin: chances, and functions beside the exact posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.digests import RowDigests
from coupledgp.core.latent import LatentGP
from coupledgp.core.process import Data
from coupledgp.diagnostics.audit_figures import ALONE, FOLDS
from coupledgp.diagnostics.foreign.table import (
    ForeignFunctions,
    ForeignTable,
    chances,
    functions,
    rows_alone,
    tables,
)
from coupledgp.diagnostics.likelihoods.class_laws import ClassLaws
from coupledgp.diagnostics.likelihoods.evidence import class_draws
from coupledgp.diagnostics.likelihoods.latent_kl import FunctionLaw, LatentKL
from coupledgp.diagnostics.likelihoods.report import ClassReport
from coupledgp.diagnostics.likelihoods.reporting import chances_of, class_report
from coupledgp.diagnostics.likelihoods.rivals import left_out_class_rivals, table_class_rivals
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.probes import StochasticOptions
from coupledgp.diagnostics.scoring.overlap import counted
from coupledgp.diagnostics.scoring.subject import some_rows
from coupledgp.errors import CoupledGPError, InvalidInputError, NumericalError
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.validation import wrong
from coupledgp.likelihoods.counts import Bernoulli
from coupledgp.random import IntArray
from coupledgp.tables.exact_process import ExactGP

NO_FUNCTION = (
    "The model states chances alone: nothing is known of a function or of how errors of neighbours "
    "go together, and there is no exact posterior beside it."
)
TOO_LARGE = (
    f"There is no exact posterior beside it: its sites are found by dense algebra, up to "
    f"{DENSE_ROWS} training rows."
)


def audit_classifier(
    model: Any,
    X_train: Any,
    y_train: ArrayLike | None,
    X_test: Any,
    y_test: ArrayLike,
    *,
    options: StochasticOptions | None = None,
    leave_out_overlap: bool = False,
    title: str = "Audit of a classifier",
    progress: bool | None = None,
) -> ClassReport:
    """Audit a fitted classifier: chances beside labels and rivals, functions beside the exact ones.

    Parameters
    ----------
    model
        A fitted classifier: scikit-learn's `GaussianProcessClassifier`, alone or at the end of a
        pipeline; gpytorch's model with `BernoulliLikelihood`, or a pair of both; or any other with
        `predict_proba` and `classes_`, or a mapping with `chances` (p, K) of all test rows and
        `classes` (K,), of which only the chances are known.
    X_train, y_train
        Rows (n, d) and labels (n,) that the model was fitted to; None for both where they are not
        at hand, as in `audit`.
    X_test, y_test
        Rows (p, d) and labels (p,).
    options
        Number of points that are judged; of more a random part.
    leave_out_overlap
        Leave out test rows that are training rows.
    title
        Heading of the page.
    progress
        Show progress on stderr; None does so on a terminal.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or a label is none of the model's classes.
    NumericalError
        The sites of the exact posterior do not converge.
    """
    chosen = StochasticOptions() if options is None else options
    classes = _classes(model, y_train)
    codes = _codes(classes, y_test, "y_test").astype(float)
    train, overlap, same = None, None, np.zeros(len(codes), dtype=bool)
    if X_train is None:
        test = rows_alone(X_test, codes)
    else:
        own = _codes(classes, y_train, "y_train").astype(float)
        train, test = tables(X_train, own, X_test, codes)
        overlap, same = counted(RowDigests.of(train.X, train.y[:, None]), test.X, test.y[:, None])
    rows = np.arange(len(test.y))
    if leave_out_overlap and overlap is not None and overlap.n_rows:
        rows = np.flatnonzero(~same)
        if not rows.size:
            raise InvalidInputError(
                f"X_test: all {len(same)} test rows are training rows, none is left"
            )
        overlap = replace(overlap, left_out=True)
    judged = rows[some_rows(rows.size, chosen.n_columns, chosen.seed)]
    points = test.take(judged)
    if isinstance(model, Mapping):  # chances of all test rows
        stated = ClassLaws.of(model["chances"], classes, len(test.y))
        model = {**model, "chances": stated.take(judged).chances}
    with reporter("audit", progress):
        found = _audited(model, classes, train, points)
    remarks = found.remarks
    if judged.size < rows.size:
        remarks += (f"Measured at {judged.size} of {rows.size} test points, drawn at random.",)
    found = found.changed(title=title, remarks=remarks)
    return found if overlap is None else found.with_overlap(overlap)


def _audited(
    model: Any, classes: Any, train: ForeignTable | None, test: ForeignTable
) -> ClassReport:
    stated, _ = chances(model, test.given)
    laws = ClassLaws.of(stated, classes, len(test.y))
    codes, name = test.y.astype(int), model_name(model)
    tell("rivals")
    if train is None:
        return class_report(
            laws, codes, draws=class_draws(None, Bernoulli(), laws, None),
            rivals=left_out_class_rivals(test.X, codes, classes, FOLDS), model=name, is_own=False,
            remarks=[ALONE],
        )  # fmt: skip
    labels = train.y.astype(int)
    rivals = table_class_rivals(train.X, labels, test.X, classes)
    found, reason = _functions(model, test)
    if found is None:
        # Chances that somebody states are judged as they are stated: the scale of logits that a
        # model was fitted to is known up to an error.
        is_stated = isinstance(model, Mapping)
        return class_report(
            laws,
            codes,
            draws=class_draws(None, Bernoulli(), laws, None if is_stated else len(labels)),
            rivals=rivals,
            model=name,
            is_own=False,
            n_train=len(labels),
            remarks=[reason],
        )
    draws = class_draws(found.law, found.likelihood, laws, len(labels))
    if len(labels) > DENSE_ROWS:
        return class_report(
            laws, codes, draws=draws, rivals=rivals, model=name, is_own=False, n_train=len(labels),
            remarks=[TOO_LARGE],
        )  # fmt: skip
    tell("exact posterior")
    try:
        exact = _exact(found, labels, train, test)
    except NumericalError as error:
        return class_report(
            laws, codes, draws=draws, rivals=rivals, model=name, is_own=False, n_train=len(labels),
            remarks=[f"There is no exact posterior beside it ({error})."],
        )  # fmt: skip
    divergence = LatentKL.between(exact, found.law, found.likelihood, "own")
    other = ClassLaws(chances_of(found.likelihood, exact), classes)
    kernel = "; ".join(dict.fromkeys(one.text for one in found.priors))
    made = class_report(
        laws, codes, other, divergence, draws=draws, rivals=rivals, model=name, is_own=False,
        exact=f"{kernel}, variational sites of its own", n_train=len(labels),
    )  # fmt: skip
    return made.changed(likelihood=type(found.likelihood).__name__)


def model_name(model: Any) -> str:
    """Package and class of a fitted model, or of the model of a pair with its likelihood."""
    if isinstance(model, Mapping):
        return "predictions"
    one = model[0] if isinstance(model, tuple) else model
    package = "gpytorch" if one is not model else type(one).__module__.partition(".")[0]
    return f"{package} {type(one).__name__}"


def _functions(model: Any, test: ForeignTable) -> tuple[ForeignFunctions | None, str]:
    """Laws of the functions of a model, or None and the reason."""
    try:
        found = functions(model, test.given)
    except CoupledGPError as error:
        return None, f"There is no exact posterior beside it ({error})."
    return found, NO_FUNCTION if found is None else ""


def _exact(
    found: ForeignFunctions, labels: IntArray, train: ForeignTable, test: ForeignTable
) -> FunctionLaw:
    """The law of the functions under the stated kernels, with variational sites of their own."""
    k = len(found.priors)
    ones = np.eye(max(2, k))[labels][:, -k:]
    X, at = found.inputs(train.given), found.inputs(test.given)
    means, covariances = [], []
    for prior, column in zip(found.priors, ones.T, strict=True):
        rows = np.ascontiguousarray(prior.inputs(X))
        row = Data.of(rows[:1], np.full((1, 1), prior.mean))
        function = ExactGP.given(prior.prior, row, prior.units, False)
        process = LatentGP.given([function], found.likelihood, Data.of(rows, column[:, None]))
        law = FunctionLaw.of(process, np.ascontiguousarray(prior.inputs(at)))
        means.append(law.mean)
        covariances.append(law.cov)
    return FunctionLaw(np.concatenate(means, axis=1), np.concatenate(covariances, axis=2))


def _classes(model: Any, y_train: Any) -> Any:
    """Labels of the classes of a model; those of the training rows where it states none."""
    is_mapping = isinstance(model, Mapping)
    known = model["classes"] if is_mapping else getattr(model, "classes_", None)
    if known is None and y_train is None:
        raise InvalidInputError("y_train: expected labels for a model without classes_, got None")
    found = np.unique(np.asarray(y_train)) if known is None else np.asarray(known)
    if known is None and len(found) != 2:
        raise wrong("y_train", "two classes", len(found))
    return found


def _codes(classes: Any, labels: Any, name: str) -> IntArray:
    n = len(labels)
    return ClassLaws(np.full((n, len(classes)), 1 / len(classes)), classes).codes(labels, name)
