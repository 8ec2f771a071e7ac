"""Which package a model is of, and its law and kernel by that package's adapter."""

from __future__ import annotations

from typing import Any

from coupledgp.diagnostics.foreign import gpytorch, others, sklearn
from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.foreign.law import ForeignLaw, law_of_prediction
from coupledgp.diagnostics.foreign.table import ForeignTable
from coupledgp.diagnostics.scoring.laws import law_of
from coupledgp.diagnostics.scoring.subject import Subject, process_of
from coupledgp.errors import InvalidInputError
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.random import FloatArray, IntArray


def is_model(value: Any) -> bool:
    """Whether a value is a fitted model of a package that has an adapter."""
    return process_of(value) is not None or any(
        is_one(value)
        for is_one in (
            gpytorch.is_botorch, gpytorch.is_one, sklearn.is_one, others.is_gpflow,
            others.is_gpboost,
        )
    )  # fmt: skip


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
    return law_of_prediction(predict, len(test.y)).take(rows)


def law_of_model(predict: Any, X: FloatArray, given: Any) -> ForeignLaw:
    """Law of observations of a fitted model at test rows, X (p, d) or as they were given."""
    if process_of(predict) is not None:
        return _own_law(predict, given)
    if gpytorch.is_botorch(predict):
        return gpytorch.botorch_law(predict, X)
    if gpytorch.is_one(predict):
        return gpytorch.law(predict, X)
    if sklearn.is_one(predict):
        return sklearn.law(predict, given)
    if others.is_gpflow(predict):
        return others.gpflow_law(predict, X)
    return others.gpboost_law(predict, X)


def kernel_of_model(model: Any, n_columns: int) -> StatedKernel:
    """The kernel that a model states, in units of y.

    Raises
    ------
    InvalidInputError
        The model states none that can be read.
    """
    if process_of(model) is not None:
        return _own_kernel(model, n_columns)
    if gpytorch.is_botorch(model) or gpytorch.is_one(model):
        return gpytorch.kernel(model, n_columns)
    if sklearn.is_one(model):
        return sklearn.kernel(model, n_columns)
    if others.is_gpflow(model):
        return others.gpflow_kernel(model, n_columns)
    return others.gpboost_kernel(model, n_columns)


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
    if not isinstance(problem, ExactProblem) or problem.X.shape[1] != n_columns:
        raise InvalidInputError(
            f"kernel: expected a model of one stationary kernel of {n_columns} columns, got "
            f"{type(model).__name__}"
        )
    scale = float(problem.scale[0])
    return StatedKernel.stationary(
        problem.spectrum, problem.lengthscale, problem.outputscale * scale**2,
        problem.noise * scale**2, float(problem.offset[0]), n_columns,
    )  # fmt: skip
