"""Models with the methods of GPflow's and of GPBoost's, by these methods alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.foreign.law import ForeignLaw
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

# Names of GPflow's stationary kernels.
KERNELS = {
    "SquaredExponential": "gaussian",
    "RBF": "gaussian",
    "Matern12": "matern-1/2",
    "Matern32": "matern-3/2",
    "Matern52": "matern-5/2",
}


# Names of GPBoost's, with the smoothness of the Matern ones as their shape.
GPBOOST = {"gaussian": "gaussian", "exponential": "matern-1/2", "matern": "matern"}


def is_gpflow(model: Any) -> bool:
    """Whether a model has the methods of one of GPflow."""
    return hasattr(model, "predict_y") and hasattr(model, "predict_f")


def gpflow_law(model: Any, X: FloatArray) -> ForeignLaw:
    """Law of observations; jointly where the covariance of f and one noise variance are known."""
    mean, variance = (np.asarray(part, dtype=np.float64) for part in model.predict_y(X))
    if mean.size != len(X):
        raise InvalidInputError(f"predict: expected one output, got means of shape {mean.shape}")
    noise = _noise(model)
    if noise is None:
        return ForeignLaw.of(mean, np.sqrt(variance.reshape(-1)), len(X))
    _, cov = model.predict_f(X, full_cov=True)
    cov = np.asarray(cov, dtype=np.float64).reshape(len(X), len(X))
    return ForeignLaw.of(mean, cov + noise * np.eye(len(X)), len(X))


def gpflow_kernel(model: Any, n_columns: int) -> StatedKernel:
    """Kernel, constant mean and Gaussian noise of a model of GPflow's form.

    Raises
    ------
    InvalidInputError
        The mean is no constant, or the noise is not Gaussian of one variance.
    """
    mean = getattr(model, "mean_function", None)
    constant = 0.0 if mean is None or type(mean).__name__ == "Zero" else getattr(mean, "c", None)
    noise = _noise(model)
    if noise is None or constant is None or np.size(constant) != 1:
        raise InvalidInputError(
            "kernel: expected it stated, the model's mean is no constant or its noise not "
            "Gaussian of one variance"
        )
    kernel, offset = model.kernel, float(np.asarray(constant).reshape(()))
    name = KERNELS.get(type(kernel).__name__)
    if name is None or getattr(kernel, "active_dims", slice(None)) != slice(None):
        text = type(kernel).__name__
        return StatedKernel.function(lambda a, b: np.array(kernel(a, b)), noise, offset, text)
    lengthscale, outputscale = (np.asarray(part) for part in (kernel.lengthscales, kernel.variance))
    scale = float(outputscale.reshape(()))
    return StatedKernel.stationary(name, lengthscale, scale, noise, offset, n_columns)


def _noise(model: Any) -> float | None:
    """Variance of the noise of a model of GPflow's form, if it is Gaussian of one variance."""
    likelihood = getattr(model, "likelihood", None)
    if type(likelihood).__name__ != "Gaussian":
        return None
    variance = getattr(likelihood, "variance", None)
    return None if variance is None or np.size(variance) != 1 else float(np.ravel(variance)[0])


def is_gpboost(model: Any) -> bool:
    """Whether a model is a `GPModel` of GPBoost."""
    return type(model).__name__ == "GPModel" and hasattr(model, "predict")


def gpboost_law(model: Any, X: FloatArray) -> ForeignLaw:
    """Joint law of observations at coordinates (p, d).

    Raises
    ------
    InvalidInputError
        The model has covariates, groups or an offset, which coordinates do not state, or a
        likelihood that is not Gaussian.
    """
    if not _of_coordinates(model):
        raise InvalidInputError(
            "predict: expected a GPModel of coordinates with Gaussian noise, without covariates, "
            "groups and offset; audit a function that returns what it predicts"
        )
    found = model.predict(gp_coords_pred=X, predict_cov_mat=True, predict_response=True)
    return ForeignLaw.of(found["mu"], found["cov"], len(X))


def gpboost_kernel(model: Any, n_columns: int) -> StatedKernel:
    """Kernel and noise of a `GPModel` of coordinates, whose mean is zero.

    Raises
    ------
    InvalidInputError
        The covariance function is another than Gaussian, exponential and Matern.
    """
    noise, *rest = np.ravel(model.get_cov_pars()).tolist()
    return _gpboost_prior(model, rest, noise, n_columns)


def gpboost_latent_kernel(model: Any, n_columns: int) -> StatedKernel:
    """Kernel of the function of a `GPModel` of classes, which has no noise: its unit is one.

    Raises
    ------
    InvalidInputError
        See `gpboost_kernel`.
    """
    return _gpboost_prior(model, np.ravel(model.get_cov_pars()).tolist(), 1.0, n_columns)


def _gpboost_prior(
    model: Any, parameters: list[float], noise: float, n_columns: int
) -> StatedKernel:
    base = model.cov_function.removesuffix("_ard")
    if base not in GPBOOST:
        raise InvalidInputError(
            f"kernel: expected it stated, the covariance function {model.cov_function} cannot be "
            "read"
        )
    outputscale, *ranges = parameters
    name = f"matern-{model.cov_fct_shape:g}" if base == "matern" else GPBOOST[base]
    # Its Gaussian covariance is exp(-(h / range)^2).
    lengthscale = np.asarray(ranges) / (np.sqrt(2) if base == "gaussian" else 1)
    return StatedKernel.stationary(name, lengthscale, outputscale, noise, 0.0, n_columns)


def _of_coordinates(model: Any) -> bool:
    """Whether a `GPModel` is one Gaussian process of coordinates with Gaussian noise."""
    return (
        model.num_gp == 1
        and not (model.num_group_re or model.num_gp_rand_coef)
        and not (model.has_covariates or model.has_offset)
        and model._get_likelihood_name() == "gaussian"
    )
