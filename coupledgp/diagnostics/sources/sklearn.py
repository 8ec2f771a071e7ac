"""Gaussian processes of scikit-learn, regressors and classifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from coupledgp.diagnostics.sources.kernel import StatedKernel
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

REGRESSOR = "sklearn.gaussian_process._gpr.GaussianProcessRegressor"
CLASSIFIER = "sklearn.gaussian_process._gpc.GaussianProcessClassifier"


def is_regressor(model: Any) -> bool:
    """Whether a model is a regressor of `sklearn.gaussian_process`."""
    return REGRESSOR in _kinds(model)


def is_classifier(model: Any) -> bool:
    """Whether a model is a classifier of `sklearn.gaussian_process`, or a pipeline that ends so."""
    return CLASSIFIER in _kinds(_last_step(model)[0])


def law(model: Any, X: Any) -> tuple[FloatArray, FloatArray]:
    """Means and covariance of observations; `alpha`, which the model leaves out, is added."""
    mean, cov = model.predict(X, return_cov=True)
    if np.ndim(mean) > 1:
        raise InvalidInputError("model: expected a model of one output, got one of several")
    return mean, cov + np.eye(len(mean)) * _alpha(model) * _scale(model) ** 2


def kernel(model: Any, n_columns: int) -> StatedKernel:
    """The kernel of the model, white noise apart, in units of y.

    Raises
    ------
    InvalidInputError
        The noise of the rows differs, or is within a product of kernels.
    """
    from sklearn.gaussian_process.kernels import WhiteKernel

    scale = _scale(model)
    mean = float(np.ravel(model._y_train_mean)[0])
    terms = _terms(model.kernel_)
    noise = sum(term.noise_level for term in terms if isinstance(term, WhiteKernel))
    parts = [term for term in terms if not isinstance(term, WhiteKernel)]
    if any("WhiteKernel" in repr(part) for part in parts) or not parts:
        raise InvalidInputError(f"kernel: expected it stated, {model.kernel_} cannot be read")
    noise = (noise + _alpha(model)) * scale**2
    if len(parts) == 1 and (found := _stationary(parts[0])) is not None:
        name, lengthscale, outputscale = found
        return StatedKernel.stationary(
            name, lengthscale, outputscale * scale**2, noise, mean, n_columns
        )
    return StatedKernel.function(
        lambda a, b: scale**2 * sum(part(a, b) for part in parts),
        noise, mean, " + ".join(map(repr, parts)),
    )  # fmt: skip


Functions = tuple[FloatArray, FloatArray, tuple[StatedKernel, ...], Callable[[Any], FloatArray]]


def functions(model: Any, X: Any) -> Functions:
    """Laplace's law of each function of a classifier: means, covariances, kernels, map of rows.

    The mean is `k' (y - pi)` and the covariance `K - v' v`, `v = L^-1 W^1/2 k`, with the matrices
    that the model keeps (Rasmussen and Williams 2006, algorithm 3.2).
    """
    model, transform = _last_step(model)
    base = model.base_estimator_
    if model.n_classes_ > 2 and model.multi_class != "one_vs_rest":
        raise InvalidInputError(
            "model: expected one function for each class against all others, got pairs of classes"
        )
    rows, means, covariances, priors = transform(X), [], [], []
    for one in getattr(base, "estimators_", [base]):
        cross = one.kernel_(one.X_train_, rows)
        half = solve_triangular(one.L_, one.W_sr_[:, None] * cross, lower=True)
        means.append(cross.T @ (one.y_train_ - one.pi_))
        covariances.append(one.kernel_(rows) - half.T @ half)
        priors.append(StatedKernel.function(one.kernel_, 1.0, 0.0, repr(one.kernel_)))
    return np.stack(means, axis=1), np.stack(covariances, axis=2), tuple(priors), transform


def _last_step(model: Any) -> tuple[Any, Callable[[Any], FloatArray]]:
    """The last step of a pipeline, and what the other steps make of rows."""
    if hasattr(model, "steps") and hasattr(model, "__getitem__"):
        first = model[:-1]
        return model[-1], lambda rows: np.asarray(first.transform(rows), dtype=np.float64)
    return model, lambda rows: np.asarray(rows, dtype=np.float64)


def _kinds(model: Any) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(model).__mro__}


def _alpha(model: Any) -> float:
    if np.ndim(model.alpha) > 0:
        raise InvalidInputError(
            "model: expected one alpha, got one for each row; audit a function that returns the "
            "law of observations"
        )
    return float(model.alpha)


def _scale(model: Any) -> float:
    return float(np.ravel(model._y_train_std)[0])


def _terms(kernel: Any) -> list[Any]:
    """Terms of a sum of kernels."""
    if type(kernel).__name__ == "Sum":
        return [*_terms(kernel.k1), *_terms(kernel.k2)]
    return [kernel]


def _stationary(kernel: Any) -> tuple[str, Any, float] | None:
    """Name, lengthscale and variance of a kernel that has them."""
    name = type(kernel).__name__
    if name == "Product":
        factors = {type(k).__name__: k for k in (kernel.k1, kernel.k2)}
        constant = factors.pop("ConstantKernel", None)
        if constant is None or len(factors) != 1:
            return None
        rest = _stationary(*factors.values())
        return None if rest is None else (rest[0], rest[1], rest[2] * constant.constant_value)
    if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
        return "gaussian", kernel.length_scale, 1.0
    return (f"matern-{kernel.nu:g}", kernel.length_scale, 1.0) if name == "Matern" else None
