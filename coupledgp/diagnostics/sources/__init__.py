"""Models and stated predictions at test points, with what is known of their training rows.

| model | law | kernel |
|---|---|---|
| of this package, or its process | its process's | its process's |
| scikit-learn `GaussianProcessRegressor`, `GaussianProcessClassifier` | joint; Laplace's | read |
| gpytorch with its likelihood, exact or variational | joint | read |
| with `predictive_law(X)`, a function of X, or `predict(X, return_cov=True)` | its | - |
| with `predict_proba` and `classes_` | chances | - |
| a prediction in any form of `law_of_prediction` | stated | - |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.latent import LatentGP
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.transformed import TransformedGP, forward
from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.laws import (
    Chances,
    Draws,
    Normal,
    Observed,
    law_of_prediction,
)
from coupledgp.diagnostics.laws.mixtures import law_of_process
from coupledgp.diagnostics.predictions import Law, checked_targets
from coupledgp.diagnostics.sources import gpytorch, own, sklearn
from coupledgp.diagnostics.sources.kernel import StatedKernel, both_rows, checked_column
from coupledgp.diagnostics.sources.own import Functions, correlations, process_of
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.fields.locations import Locations
from coupledgp.ground.validation import wrong
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.counts import Bernoulli, Probit
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.exact_process import ExactGP

UNITS = (
    "All figures are in units of the transformed targets; divergences are the same in units of y."
)


@dataclass(frozen=True, eq=False)
class Source:
    """A fitted model, or stated predictions, at test points.

    Attributes
    ----------
    model : object
        As it was given.
    given : object
        Test inputs as they were given.
    points : object
        Points (p, ...) of the process, or rows (p, d) as numbers.
    process : GaussianProcess or None
        Of a model of this package; the inner one where targets are transformed.
    stated : Law or None
        The law of all points, of predictions.
    kernel : StatedKernel or None
        The kernel of the exact process of a model that is none of this package.
    noise : float or None
        Noise variance that is added to the law, which is one of the function.
    names : tuple of str
        Names of the columns of the rows.
    categories : tuple of IntArray
        Numbers of the columns that are the code of each category.
    train_X, train_y : FloatArray (n, d), (n, k), or None
        Training rows of a table and their targets; codes of classes (n, 1).
    transforms : tuple of TargetTransform
        Those of the targets of the process; empty: none.
    exposure : FloatArray (p,) or None
        Exposures of counts.
    reason : str
        Why there is no exact process, as a sentence; empty: there is, or nobody asked.
    left_out : LeftOutRows or None
        The points are observations of the model, each predicted from those of other groups.
    """

    model: Any
    given: Any
    points: Any
    process: GaussianProcess | None = None
    stated: Law | None = None
    kernel: StatedKernel | None = None
    noise: float | None = None
    names: tuple[str, ...] = ()
    categories: tuple[IntArray, ...] = ()
    train_X: FloatArray | None = None  # noqa: N815
    train_y: FloatArray | None = None
    transforms: tuple[TargetTransform, ...] = ()
    exposure: FloatArray | None = None
    reason: str = ""
    left_out: own.LeftOutRows | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def is_own(self) -> bool:
        """Whether the model is one of this package, whose arguments advice may name."""
        return self.process is not None

    @property
    def is_fitted(self) -> bool:
        """Whether the law is that of a model, so that its scale is known up to an error only."""
        return self.stated is None and (self.is_own or _adapter(self.model) is not None)

    @property
    def X(self) -> FloatArray | None:  # noqa: N802
        """Rows (p, d) of a table as numbers; None of other points."""
        points = self.points
        is_table = isinstance(points, np.ndarray) and points.ndim == 2 and points.dtype.kind == "f"
        return points if is_table and points.shape[1] else None

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each column of `X`."""
        if self.X is None:
            return ()
        d = self.X.shape[1]
        named = len(self.names) == d
        return self.names if named else tuple(f"input {k + 1}" for k in range(d))

    @property
    def n_train(self) -> int | None:
        """Number of training rows, where it is known."""
        if self.train_y is not None:
            return len(self.train_y)
        try:
            return None if self.process is None else len(self.process.data)
        except CoupledGPError:
            return None

    @property
    def n_parameters(self) -> int:
        """Number of hyperparameters of a model of this package."""
        return 0 if self.process is None else own.n_hyperparameters(self.process)

    @property
    def likelihood(self) -> Likelihood | None:
        """The likelihood of a process whose observations are not normal."""
        return self.process.likelihood if isinstance(self.process, LatentGP) else None

    @property
    def classes(self) -> Any:
        """Labels of the classes of a classifier, or None."""
        if isinstance(self.stated, Chances):
            return self.stated.classes
        if self.process is not None:
            if not isinstance(self.likelihood, Bernoulli):
                return None
            k = self.process.units.n_outputs
            known = getattr(self.model, "classes_", None)
            return np.arange(2 if k == 1 else k) if known is None else np.asarray(known)
        if sklearn.is_classifier(self.model) or _states_chances(self.model):
            return np.asarray(self.model.classes_)
        return np.arange(2) if gpytorch.is_classifier(self.model) else None

    @cached_property
    def joint(self) -> Normal | None:
        """The joint normal law of observations, of the moments of the law; None: unknown."""
        found = self.law if isinstance(self.law, Normal) else getattr(self.law, "joint", None)
        return found if found is not None and found.cov is not None else None

    @cached_property
    def functions(self) -> Functions | None:
        """The functions of a model under a likelihood, where they are known."""
        if self.left_out is not None:
            return None
        if isinstance(self.process, LatentGP):
            return Functions.of(self.process, self.points)
        if sklearn.is_classifier(self.model):
            mean, cov, _, _ = sklearn.functions(self.model, self.given)
            return Functions(mean, cov, Bernoulli())
        if gpytorch.is_classifier(self.model):
            mean, cov, _ = gpytorch.functions(self.model, self.points)
            return Functions(mean, cov, Probit())
        return None

    @cached_property
    def law(self) -> Law:
        """The law of observations, noise included, joint where it is known."""
        if self.left_out is not None:
            return self.left_out.law()
        if self.process is not None:
            return self._own_law()
        found = self.stated
        if found is None:
            found = law_of_prediction(self._predicted(), len(self))
        if self.noise is None:
            return found
        if not isinstance(found, Normal):
            raise InvalidInputError(
                "latent: expected means and standard deviations or a covariance of f, got another "
                "form; add the noise to it"
            )
        if found.cov is not None:
            spread = self.noise * np.eye(len(self))[..., None]
            return Normal.joint(found.mean, found.cov + spread)
        return Normal(found.mean, np.sqrt(np.square(found.std) + self.noise))

    def _own_law(self) -> Law:
        if self.functions is None:
            assert self.process is not None
            return law_of_process(self.process, self.points)
        if self.classes is not None:
            power = float(getattr(self.model, "power_", 1.0))
            return Chances(self.functions.chances(power), self.classes)
        likelihood, shift = self.functions.likelihood, np.zeros((1, 1))
        if self.exposure is not None:
            shift = likelihood.log_exposure(self.exposure)[:, None]
        return Observed(likelihood, self.functions.mean + shift, self.functions.variance)

    def _predicted(self) -> Any:
        """What the model predicts at the points, in a form of `law_of_prediction`."""
        model = self.model
        if gpytorch.is_classifier(model) or sklearn.is_classifier(model) or _states_chances(model):
            if hasattr(model, "predict_proba"):
                return Chances.of(model.predict_proba(self.given), model.classes_, len(self))
            assert self.functions is not None
            moments = self.functions.likelihood.marginal_moments
            one = moments(self.functions.mean, self.functions.variance)[0][:, 0]
            return Chances(np.column_stack([1 - one, one]), np.arange(2))
        if gpytorch.is_one(model):
            return gpytorch.law(model, self.points)
        if sklearn.is_regressor(model):
            return sklearn.law(model, self.given)
        if hasattr(model, "predictive_law"):
            return model.predictive_law(self.given)
        if hasattr(model, "predict"):
            return _of_estimator(model, self.given)
        return model(self.given)

    @cached_property
    def correlation(self) -> FloatArray | None:
        """Correlations (p, p, k) of observations; None: unknown. Those of draws are shrunk."""
        if self.left_out is not None:
            return self.left_out.correlation(np.arange(len(self)))
        if self.functions is not None:
            return self.functions.correlation()
        if self.joint is not None:
            assert self.joint.cov is not None
            return correlations(self.joint.cov)
        return self.law.correlation() if isinstance(self.law, Draws) else None

    @property
    def is_stated(self) -> bool:
        """Whether the correlations are those of the law, so that residuals are whitened by them."""
        return isinstance(self.law, Normal) and self.law.cov is not None

    def take(self, rows: ArrayLike) -> Source:
        """The model at some of its points, by their numbers (m,)."""
        chosen = np.asarray(rows)
        return replace(
            self, given=rows_at(self.given, chosen), points=rows_at(self.points, chosen),
            stated=None if self.stated is None else self.stated.take(chosen),
            exposure=None if self.exposure is None else self.exposure[chosen],
            left_out=None if self.left_out is None else self.left_out.take(chosen),
        )  # fmt: skip

    def targets(self, y: Any, argument: str = "y") -> FloatArray:
        """Targets (p, k) as the law takes them: codes of classes, transformed targets.

        Raises
        ------
        InvalidInputError
            They do not fit the points, the likelihood or the classes.
        """
        if isinstance(self.law, Chances):
            return self.law.codes(y, argument)[:, None].astype(float)
        found = checked_targets(y, self.law.mean.shape, argument)
        if self.likelihood is not None:
            try:
                return self.likelihood.check_targets(found)
            except InvalidInputError as error:
                raise InvalidInputError(f"{argument}: {error}") from None
        return forward(found, self.transforms) if self.transforms else found

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know of the model."""
        found = () if self.process is None else own.remarks_at(self.process, self.points)
        if self.transforms:
            texts = ", ".join(str(one) for one in self.transforms)
            found += (f"The model's targets are transformed by {texts}.", UNITS)
        return found + ((self.reason,) if self.reason else ())


def source_of(
    model: Any,
    X: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    kernel: Any = None,
    lengthscale: ArrayLike | None = None,
    outputscale: float | None = None,
    noise: float | None = None,
    mean: float | None = None,
    latent: bool = False,
    exposure: ArrayLike | None = None,
) -> Source:
    """A model, or predictions, at test inputs.

    Parameters
    ----------
    model
        A model or a prediction; the table of `coupledgp.diagnostics.sources` has them.
    X
        Test inputs (p, ...); None for predictions without any.
    X_train, y_train
        Rows and targets that the model was fitted to; those of a model of this package are its own.
    kernel, lengthscale, outputscale, noise, mean
        The kernel of the exact process, as `audit` takes it; None: that of the model.
    latent
        The law is that of the function, to which the noise is added.
    exposure
        Exposures (p,) of counts; None: ones.

    Raises
    ------
    InvalidInputError
        The model is of no known form, or inputs do not fit it.
    """
    process = process_of(model)
    if process is not None:
        return _own_source(model, process, X, exposure)
    if X is None:
        X = np.empty((_n_points(model), 0))
    if X_train is None:
        train, test = None, both_rows(X, X)[1]
    else:
        train, test = both_rows(X_train, X)
    adapter = _adapter(model)
    is_called = adapter is not None or callable(model) or hasattr(model, "predictive_law")
    if not is_called and hasattr(model, "predict") and not _has_covariance(model):
        raise InvalidInputError(
            f"model: {type(model).__name__} is no model whose law is known here; give its means "
            "and standard deviations at the test rows, or a function that returns them, such as "
            "lambda X: model.predict(X, return_std=True)"
        )
    stated = None
    if not is_called and not hasattr(model, "predict"):
        stated = law_of_prediction(model, len(test.X))
    names, kinds = test.names, test.categories
    found = Source(
        model, test.given, test.X, stated=stated, names=names, categories=kinds,
        train_X=None if train is None else train.X,
    )  # fmt: skip
    if train is not None:
        found = replace(found, train_y=_train_targets(found, y_train, len(train.X)))
    return _with_kernel(found, kernel, lengthscale, outputscale, noise, mean, latent)


def left_out_source(
    model: Any, groups: ArrayLike | str | None = None, max_rows: int = 10_000, seed: int = 0
) -> Source:
    """The observations of a fitted model, each predicted from those of other groups.

    Raises
    ------
    InvalidInputError
        The model is none of this package, or the groups do not fit its observations.
    CoupledGPError
        The observations were not kept.
    """
    rows = own.LeftOutRows.of(model, groups, max_rows, seed)
    data, process = rows.process.data, process_of(model)
    transforms = process.transforms if isinstance(process, TransformedGP) else ()
    points = data.points[rows.rows]
    found = Source(
        model, points, points, rows.process, names=own.input_names(model),
        categories=own.categories(model), transforms=transforms, left_out=rows,
    )  # fmt: skip
    return found if found.X is None else replace(found, train_X=data.points, train_y=data.targets)


def _own_source(model: Any, process: GaussianProcess, X: Any, exposure: ArrayLike | None) -> Source:
    points = own.points_of(model, X)
    transforms = process.transforms if isinstance(process, TransformedGP) else ()
    process = process.inner if isinstance(process, TransformedGP) else process
    given = None
    if exposure is not None:
        given = np.asarray(exposure, dtype=np.float64).reshape(-1)
        if given.shape != (len(points),):
            raise wrong("exposure", f"{len(points)} numbers, one a test point", given.shape)
    found = Source(
        model, X, points, process, names=own.input_names(model), categories=own.categories(model),
        transforms=transforms, exposure=given,
    )  # fmt: skip
    if found.X is None:
        return found
    try:
        data = process.data
    except CoupledGPError:
        return found
    targets = data.targets
    if found.classes is not None:
        one = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
        targets = one.astype(float)[:, None]
    return replace(found, train_X=data.points, train_y=targets)


def _train_targets(found: Source, y: Any, n_rows: int) -> FloatArray:
    if y is None:
        raise InvalidInputError("X_train, y_train: expected both or None for both, got one")
    if found.classes is not None:
        uniform = np.full((n_rows, len(found.classes)), 1 / len(found.classes))
        return Chances(uniform, found.classes).codes(y, "y_train")[:, None].astype(float)
    return checked_column(y, n_rows, "y_train")[:, None]


def _with_kernel(
    found: Source, kernel: Any, lengthscale: Any, outputscale: Any, noise: Any, mean: Any,
    latent: bool,
) -> Source:  # fmt: skip
    """The source with the kernel of its exact process, stated or read, or the reason why not."""
    hyper = {"lengthscale": lengthscale, "outputscale": outputscale, "noise": noise, "mean": mean}
    given = [name for name, value in hyper.items() if value is not None]
    X, y = found.train_X, found.train_y
    is_class = found.classes is not None
    if is_class and (kernel is not None or given or latent):
        raise InvalidInputError("kernel: expected none for a classifier")
    if kernel is None and (extra := [one for one in given if not (latent and one == "noise")]):
        raise InvalidInputError(f"{', '.join(extra)}: expected a kernel beside it, got None")
    if X is None or y is None:
        if kernel is not None:
            raise InvalidInputError(
                "kernel: expected None without training rows, from which its exact process is made"
            )
        found = replace(found, reason="No training rows are given: there is no exact process.")
    elif is_class:
        pass
    elif kernel is None and _adapter(found.model) is None:
        found = replace(found, reason="No kernel is stated: there is no exact process.")
    elif kernel is None or process_of(kernel) is not None or _adapter(kernel) is not None:
        if kernel is not None and given:
            raise InvalidInputError(
                f"{', '.join(given)}: expected none beside a fitted model, which has its own"
            )
        try:
            stated = _kernel_of(found.model if kernel is None else kernel, X.shape[1])
            found = replace(found, kernel=stated)
        except InvalidInputError as error:
            if kernel is not None:
                raise
            found = replace(found, reason=f"There is no exact process ({error}).")
    else:
        stated = StatedKernel.of(kernel, X, y[:, 0], lengthscale, outputscale, noise, mean)
        found = replace(found, kernel=stated)
    if not latent:
        return found
    if noise is None and found.kernel is None:
        raise InvalidInputError("noise: expected beside latent=True, no kernel states one")
    return replace(found, noise=found.kernel.noise if found.kernel is not None else float(noise))


def _kernel_of(model: Any, n_columns: int) -> StatedKernel:
    if process_of(model) is not None:
        return own.kernel(model, n_columns)
    adapter = _adapter(model)
    return adapter.kernel(model, n_columns)


def exact_process(source: Source) -> GaussianProcess | None:
    """The exact process of the same hyperparameters and rows, by dense algebra; None: none."""
    if source.process is not None:
        return source.process.exact()
    if source.kernel is None or source.train_X is None or source.train_y is None:
        return None
    return source.kernel.process(source.train_X, source.train_y[:, 0])


def exact_points(source: Source) -> Any:
    """The points of a source as its exact process takes them."""
    return source.points if source.kernel is None else source.kernel.inputs(source.points)


def exact_functions(source: Source) -> Functions | None:
    """The functions of a classifier of another package under its kernel, with own sites.

    Raises
    ------
    NumericalError
        The sites do not converge.
    """
    X, y, functions = source.train_X, source.train_y, source.functions
    if functions is None or X is None or y is None:
        return None
    if sklearn.is_classifier(source.model):
        _, _, priors, inputs = sklearn.functions(source.model, source.given)
    else:
        priors, inputs = (gpytorch.functions(source.model, source.points)[2],), np.asarray
    k = len(priors)
    ones = np.eye(max(2, k))[y[:, 0].astype(int)][:, -k:]
    rows, at = inputs(X), inputs(source.given)
    means, covariances = [], []
    for prior, column in zip(priors, ones.T, strict=True):
        known = np.ascontiguousarray(prior.inputs(rows))
        row = Data.of(known[:1], np.full((1, 1), prior.mean))
        function = ExactGP.given(prior.prior, row, prior.units, False)
        process = LatentGP.given([function], functions.likelihood, Data.of(known, column[:, None]))
        law = Functions.of(process, np.ascontiguousarray(prior.inputs(at)))
        means.append(law.mean)
        covariances.append(law.cov)
    return Functions(
        np.concatenate(means, axis=1), np.concatenate(covariances, axis=2), functions.likelihood
    )


def in_units_of(source: Source, other: Source) -> Source:
    """A source of transformed targets, in units of y if another one has other transforms."""
    process = process_of(source.model)
    if source.transforms == other.transforms or process is None:
        return source
    return replace(source, process=process, transforms=(), train_X=None, train_y=None)


def rows_at(X: Any, chosen: IntArray) -> Any:
    """Rows of a table or array, labels or places, by their numbers (m,)."""
    if hasattr(X, "iloc"):
        return X.iloc[chosen]
    if hasattr(X, "column_names"):
        return X.take(chosen)
    return X[chosen] if isinstance(X, Locations) else np.asarray(X)[chosen]


def name_of(model: Any) -> str:
    """Package and class of a fitted model, or the name of a function."""
    if process_of(model) is not None:
        return type(model).__name__
    if hasattr(model, "__name__"):
        return f"function {model.__name__}"
    if not (callable(model) or hasattr(model, "predict") or _adapter(model) is not None):
        return "predictions"
    one = model[0] if isinstance(model, tuple) else model
    package = "gpytorch" if gpytorch.is_one(model) else type(one).__module__.partition(".")[0]
    return f"{package} {type(one).__name__}"


def _adapter(model: Any) -> Any:
    """The module that reads models of a package."""
    if gpytorch.is_one(model):
        return gpytorch
    is_sklearn = sklearn.is_regressor(model) or sklearn.is_classifier(model)
    return sklearn if is_sklearn or _states_chances(model) else None


def _states_chances(model: Any) -> bool:
    is_type = isinstance(model, type)
    return not is_type and hasattr(model, "predict_proba") and hasattr(model, "classes_")


def _has_covariance(model: Any) -> bool:
    """Whether a model's `predict` takes `return_cov`."""
    code = getattr(getattr(model.predict, "__func__", model.predict), "__code__", None)
    return code is not None and "return_cov" in code.co_varnames


def _of_estimator(model: Any, X: Any) -> Any:
    mean, cov = model.predict(X, return_cov=True)
    mean, cov = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
    p = len(mean)
    if cov.shape[:2] != (p, p):
        raise wrong("model", f"a covariance of shape ({p}, {p})", cov.shape)
    return Normal.joint(mean.reshape(p, -1), cov.reshape(p, p, -1))


def _n_points(prediction: Any) -> int:
    """Number of points of a prediction without inputs."""
    if isinstance(prediction, tuple | list):
        return int(np.shape(prediction[0])[-1])
    raise InvalidInputError("X: expected test inputs beside this form of predictions, got None")
