"""Which package a model is of, and its law and kernel by that package's adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from coupledgp.diagnostics.foreign import gpytorch, sklearn
from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.foreign.law import ForeignLaw, law_of_prediction
from coupledgp.diagnostics.foreign.table import ForeignTable
from coupledgp.diagnostics.scoring.laws import law_of
from coupledgp.diagnostics.scoring.subject import Subject, process_of
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.dense_prior import DenseProblem
from coupledgp.tables.exact_process import StationaryPrior


def is_model(value: Any) -> bool:
    """Whether a value is a fitted model of a package that has an adapter."""
    return any(one.is_one(value) for one in ADAPTERS)


def law_at_rows(predict: Any, test: ForeignTable, rows: IntArray) -> ForeignLaw:
    """Law of observations at some of the test rows, by their numbers (m,).

    Models and functions predict at these rows, predictions are those of all rows.

    Raises
    ------
    InvalidInputError
        The prediction is of no known form, or of several outputs.
    """
    if is_model(predict):
        points = test.take(rows)
        return law_of_model(predict, points.X, points.given)
    if callable(predict):
        return law_of_prediction(predict(test.take(rows).given), len(rows))
    if hasattr(predict, "predict"):
        raise InvalidInputError(
            f"predict: {type(predict).__name__} is no model whose law is known here; give its "
            "means and standard deviations at the test rows, or a function that returns them, "
            "such as lambda X: model.predict(X, return_std=True)"
        )
    return law_of_prediction(predict, len(test.y)).take(rows)


def law_of_model(predict: Any, X: FloatArray, given: Any) -> ForeignLaw:
    """Law of observations of a fitted model at test rows, X (p, d) or as they were given."""
    adapter = _adapter(predict)
    return adapter.law(predict, given if adapter.takes_given else X)


def kernel_of_model(model: Any, n_columns: int) -> StatedKernel:
    """The kernel that a model states, in units of y.

    Raises
    ------
    InvalidInputError
        The model states none that can be read.
    """
    return _adapter(model).kernel(model, n_columns)


def inducing_points_of(model: Any) -> FloatArray | None:
    """Inducing points (m, d) of a sparse variational model; None of any other."""
    return gpytorch.inducing_points(model) if gpytorch.is_one(model) else None


def _adapter(model: Any) -> Adapter:
    return next(one for one in ADAPTERS if one.is_one(model))


def _own_law(model: Any, X: Any) -> ForeignLaw:
    subject = Subject.of(model, X)
    assert subject.process is not None
    if not subject.process.is_gaussian or subject.process.units.n_outputs != 1:
        raise InvalidInputError(
            "predict: expected a Gaussian model of one output; posterior_report takes every model "
            "of this package"
        )
    law = law_of(subject, "predict")
    return ForeignLaw.of(law.mean[:, 0], law.cov[..., 0], len(law.mean))


def _own_kernel(model: Any, n_columns: int) -> StatedKernel:
    process = process_of(model)
    assert process is not None
    problem = process.exact_problem()
    prior = problem.prior if isinstance(problem, DenseProblem) else None
    if not isinstance(prior, StationaryPrior) or process.data.points.shape[1] != n_columns:
        raise wrong(
            "kernel", f"a model of one stationary kernel of {n_columns} columns", type(model)
        )
    own, scale = prior.hyperparameters, float(problem.scale[0])
    return StatedKernel.stationary(
        prior.spectrum, own.lengthscale, own.outputscale * scale**2, own.noise * scale**2,
        float(problem.offset[0]), n_columns,
    )  # fmt: skip


class Adapter(NamedTuple):
    """How fitted models of a package are understood.

    Attributes
    ----------
    is_one : callable
        Whether a value is such a model.
    law : callable
        Law of observations of a model at rows (p, d).
    kernel : callable
        The kernel that a model of a number of columns states, in units of y.
    takes_given : bool
        Whether the law is of rows as they were given, or of numbers.
    """

    is_one: Callable[[Any], bool]
    law: Callable[[Any, Any], ForeignLaw]
    kernel: Callable[[Any, int], StatedKernel]
    takes_given: bool = False


ADAPTERS = (
    Adapter(lambda model: process_of(model) is not None, _own_law, _own_kernel, takes_given=True),
    Adapter(gpytorch.is_one, gpytorch.law, gpytorch.kernel),
    Adapter(sklearn.is_one, sklearn.law, sklearn.kernel, takes_given=True),
)
