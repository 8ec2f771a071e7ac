"""Rows and targets of an audit as numbers, beside the rows as they were given.

Classifiers of other packages: chances, and laws of their functions where these are known.

| package | functions | observation given f |
|---|---|---|
| scikit-learn `GaussianProcessClassifier`, alone or at the end of a pipeline | Laplace's law, one function for two classes, one against all others for more | logistic |
| gpytorch, an approximate or exact model with `BernoulliLikelihood` | its own joint law, two classes | probit |
| any other with `predict_proba` and `classes_` | unknown | |
| a mapping with `chances` (p, K) and `classes` (K,), of all test rows | unknown | |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from coupledgp.diagnostics.foreign import gpytorch
from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.likelihoods.latent_kl import FunctionLaw
from coupledgp.diagnostics.scoring.overlap import rows_at
from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import check_magnitude, real_array, wrong
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import Bernoulli, Probit
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.arrow import arrow_columns, special_columns
from coupledgp.tables.encoding import TableEncoding


class ForeignTable(NamedTuple):
    """Rows (n, d) and targets (n,) as numbers, as they were given, and names and categories."""

    X: FloatArray
    y: FloatArray
    given: Any
    encoded: tuple[str, ...] = ()
    categories: tuple[IntArray, ...] = ()

    @classmethod
    def of(
        cls, X: Any, y: Any, name: str, given: Any = None, encoded: Sequence[str] = ()
    ) -> ForeignTable:
        """A table whose numbers are checked; arrays, data frames and tensors of the CPU.

        Raises
        ------
        InvalidInputError
            Shapes do not fit, there are several outputs, or numbers are not finite.
        """
        try:
            rows = real_array(X, "X")
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"X_{name}: expected numbers, {error}") from None
        try:
            targets = real_array(y, "y")
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"y_{name}: expected numbers, {error}; chances of classes are a mapping with "
                "'chances' and 'classes'"
            ) from None
        targets = targets.reshape(-1) if targets.shape == (len(rows), 1) else targets
        if targets.ndim == 2 and len(targets) == len(rows):
            raise InvalidInputError(
                f"y_{name}: expected one output, got {targets.shape[1]}; audit the law of each "
                "output by itself"
            )
        if rows.ndim != 2 or not len(rows) or targets.shape != (len(rows),):
            raise InvalidInputError(
                f"X_{name}, y_{name}: expected shapes (n, d) and (n,), got {rows.shape} and "
                f"{targets.shape}"
            )
        if not (np.isfinite(rows).all() and np.isfinite(targets).all()):
            raise InvalidInputError(f"X_{name}, y_{name}: expected finite values, got NaN or inf")
        check_magnitude(rows, f"X_{name}")
        check_magnitude(targets, f"y_{name}")
        return cls(rows, targets, X if given is None else given, tuple(encoded))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, encoded or as they were given; empty where they have none."""
        return self.encoded or tuple(str(one) for one in getattr(self.given, "columns", ()))

    def take(self, rows: Any) -> ForeignTable:
        """Some of the rows, by their numbers."""
        return self._replace(X=self.X[rows], y=self.y[rows], given=rows_at(self.given, rows))


def tables(
    X_train: Any, y_train: Any, X_test: Any, y_test: Any
) -> tuple[ForeignTable, ForeignTable]:
    """Training and test rows; categories, dates and missing values are encoded as for a fit.

    Raises
    ------
    InvalidInputError
        The columns of both differ, or see `ForeignTable.of`.
    """
    if X_test is None:
        raise InvalidInputError("X_test: expected the test rows beside training rows, got None")
    if _is_plain(X_train) and _is_plain(X_test):
        test = ForeignTable.of(X_test, y_test, "test")
        train = ForeignTable.of(X_train, y_train, "train")
    else:
        train, test = _encoded(X_train, y_train, X_test, y_test)
    if test.X.shape[1] != train.X.shape[1]:
        raise wrong("X_test", f"{train.X.shape[1]} columns", test.X.shape[1])
    return train, test


def rows_alone(X_test: Any, y_test: Any) -> ForeignTable:
    """Test rows of which no training rows are known; without columns where `X_test` is None.

    Their own columns stand for those that a model has learned.

    Raises
    ------
    InvalidInputError
        There are fewer than two rows, or see `ForeignTable.of`.
    """
    shape = np.shape(y_test)
    if not shape or shape[0] < 2:
        raise InvalidInputError(
            f"y_test: expected two targets at least without training rows, got shape {shape}"
        )
    if X_test is None:
        X_test = np.empty((shape[0], 0))
    return tables(X_test, y_test, X_test, y_test)[1]


def _is_plain(X: Any) -> bool:
    """Whether rows are an array, or a table of numbers without missing ones."""
    if not hasattr(X, "columns"):
        return True
    return special_columns(X) is None and bool(np.isfinite(np.asarray(X, dtype=float)).all())


def _encoded(
    X_train: Any, y_train: Any, X_test: Any, y_test: Any
) -> tuple[ForeignTable, ForeignTable]:
    """Rows of tables by the codes of the training columns, found by name."""
    learned, columns = arrow_columns(X_train), dict(arrow_columns(X_test))
    names = [str(name) for name, _ in learned]
    if missing := [name for name in names if name not in columns]:
        raise InvalidInputError(f"X_test: expected columns {', '.join(map(repr, missing))}")
    special = [column for _, column in learned]
    encoding = TableEncoding.learn(special, names, "indicator")
    encoded = encoding.encode([columns[name] for name in names])
    named = encoding.column_names
    test = ForeignTable.of(encoded, y_test, "test", X_test, named)
    train = ForeignTable.of(encoding.encode(special), y_train, "train", X_train, named)
    kinds = encoding.categories
    return train._replace(categories=kinds), test._replace(categories=kinds)


SKLEARN = "sklearn.gaussian_process._gpc.GaussianProcessClassifier"


@dataclass(frozen=True, eq=False)
class ForeignFunctions:
    """The functions of a classifier at test rows, and the priors that it states.

    Attributes
    ----------
    law : FunctionLaw
        Joint law of the functions (p, k) at the rows.
    likelihood : Likelihood
        Law of an indicator given its function.
    priors : tuple of StatedKernel
        Kernel and constant mean of each function; their noise is a unit without meaning.
    inputs : callable
        Maps rows as the audit has them to those of the kernels.
    """

    law: FunctionLaw
    likelihood: Likelihood
    priors: tuple[StatedKernel, ...]
    inputs: Callable[[Any], FloatArray]


def is_classifier(model: Any) -> bool:
    """Whether a fitted model states chances of classes."""
    if isinstance(model, type):
        return False
    if isinstance(model, Mapping):
        return "chances" in model and "classes" in model
    has_chances = hasattr(model, "predict_proba") and hasattr(model, "classes_")
    return has_chances or _is_gpytorch(model)


def chances(model: Any, X: Any) -> tuple[Any, NDArray[Any]]:
    """Chances (p, K) of the classes at rows, and the classes; those of a mapping as they are."""
    if isinstance(model, Mapping):
        return model["chances"], np.asarray(model["classes"])
    if _is_gpytorch(model):
        found = functions(model, X)
        assert found is not None
        law = found.law
        one = found.likelihood.marginal_moments(law.mean, law.variance)[0][:, 0]
        return np.column_stack([1 - one, one]), np.arange(2)
    return model.predict_proba(X), np.asarray(model.classes_)


def functions(model: Any, X: Any) -> ForeignFunctions | None:
    """Laws of a classifier's functions at rows (p, d); None where they are not known.

    Raises
    ------
    InvalidInputError
        The kernel of the model cannot be read.
    """
    if isinstance(model, Mapping):
        return None
    if _is_gpytorch(model):
        return _of_gpytorch(model, X)
    last, transform = _last_step(model)
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(last).__mro__}
    return _of_sklearn(last, transform, X) if SKLEARN in names else None


def _last_step(model: Any) -> tuple[Any, Callable[[Any], FloatArray]]:
    """The last step of a pipeline, and what the other steps make of rows."""
    if hasattr(model, "steps") and hasattr(model, "__getitem__"):
        first = model[:-1]
        return model[-1], lambda rows: np.asarray(first.transform(rows), dtype=np.float64)
    return model, lambda rows: np.asarray(rows, dtype=np.float64)


def _of_sklearn(model: Any, transform: Callable[[Any], FloatArray], X: Any) -> ForeignFunctions:
    """Laplace's law of each function, with its joint covariance.

    The mean is `k' (y - pi)` and the covariance `K - v' v`, `v = L^-1 W^1/2 k`, with the matrices
    that the model keeps (Rasmussen and Williams 2006, algorithm 3.2).
    """
    base = model.base_estimator_
    parts = list(getattr(base, "estimators_", [base]))
    if model.n_classes_ > 2 and model.multi_class != "one_vs_rest":
        raise InvalidInputError(
            "predict: expected one function for each class against all others, got pairs of classes"
        )
    rows = transform(X)
    means, covariances, priors = [], [], []
    for one in parts:
        cross = one.kernel_(one.X_train_, rows)
        half = solve_triangular(one.L_, one.W_sr_[:, None] * cross, lower=True)
        means.append(cross.T @ (one.y_train_ - one.pi_))
        covariances.append(one.kernel_(rows) - half.T @ half)
        priors.append(StatedKernel.function(one.kernel_, 1.0, 0.0, repr(one.kernel_)))
    law = FunctionLaw(np.stack(means, axis=1), np.stack(covariances, axis=2))
    return ForeignFunctions(law, Bernoulli(), tuple(priors), transform)


def _is_gpytorch(model: Any) -> bool:
    """Whether a model is gpytorch's with a likelihood of two classes."""
    if not gpytorch.is_one(model):
        return False
    likelihood = model[1] if isinstance(model, tuple) else getattr(model, "likelihood", None)
    return type(likelihood).__name__ == "BernoulliLikelihood"


def _of_gpytorch(model: Any, X: Any) -> ForeignFunctions:
    network = model[0] if isinstance(model, tuple) else model
    rows = np.asarray(X, dtype=np.float64)
    with gpytorch.evaluating(network), torch.no_grad():
        found = network(gpytorch.as_tensor(network, rows))
        mean, cov = gpytorch.moments(found.mean, found.covariance_matrix)
    prior = gpytorch.latent_kernel(network, rows.shape[1])
    law = FunctionLaw(mean[:, None], cov[..., None])
    return ForeignFunctions(law, Probit(), (prior,), lambda given: np.asarray(given, np.float64))
