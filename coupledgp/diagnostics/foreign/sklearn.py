"""`GaussianProcessRegressor` of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.foreign.law import ForeignLaw
from coupledgp.errors import InvalidInputError


def is_one(model: Any) -> bool:
    """Whether a model is a regressor of `sklearn.gaussian_process`."""
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(model).__mro__}
    return "sklearn.gaussian_process._gpr.GaussianProcessRegressor" in names


def law(model: Any, X: Any) -> ForeignLaw:
    """Joint law of observations; `alpha`, which the model's own law leaves out, is added."""
    mean, cov = model.predict(X, return_cov=True)
    if np.ndim(mean) > 1:
        raise InvalidInputError("predict: expected a model of one output, got one of several")
    return ForeignLaw.of(mean, cov + np.eye(len(mean)) * _alpha(model) * _scale(model) ** 2,
                         len(mean))  # fmt: skip


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


def _alpha(model: Any) -> float:
    if np.ndim(model.alpha) > 0:
        raise InvalidInputError(
            "predict: expected one alpha, got one for each row; audit a function that returns the "
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
