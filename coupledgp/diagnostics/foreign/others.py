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


def is_gpflow(model: Any) -> bool:
    """Whether a model has the methods of one of GPflow."""
    return hasattr(model, "predict_y") and hasattr(model, "predict_f")


def gpflow_law(model: Any, X: FloatArray) -> ForeignLaw:
    """Law of observations; jointly where the covariance of f and one noise variance are known."""
    mean, variance = (np.asarray(part, dtype=np.float64) for part in model.predict_y(X))
    if mean.size != len(X):
        raise InvalidInputError(f"predict: expected one output, got means of shape {mean.shape}")
    noise = getattr(getattr(model, "likelihood", None), "variance", None)
    if noise is None or np.size(noise) != 1:
        return ForeignLaw.of(mean, np.sqrt(variance.reshape(-1)), len(X))
    _, cov = model.predict_f(X, full_cov=True)
    cov = np.asarray(cov, dtype=np.float64).reshape(len(X), len(X))
    return ForeignLaw.of(mean, cov + float(np.asarray(noise).reshape(())) * np.eye(len(X)), len(X))


def gpflow_kernel(model: Any, n_columns: int) -> StatedKernel:
    """Kernel, constant mean and noise of a model of GPflow's form."""
    name = KERNELS.get(type(model.kernel).__name__)
    mean = getattr(model, "mean_function", None)
    constant = 0.0 if mean is None or type(mean).__name__ == "Zero" else getattr(mean, "c", None)
    if name is None or constant is None or np.size(constant) != 1:
        raise InvalidInputError(
            f"kernel: expected it stated, {type(model.kernel).__name__} with its mean cannot be "
            "read"
        )
    lengthscale, outputscale, noise = (
        np.asarray(part, dtype=np.float64)
        for part in (model.kernel.lengthscales, model.kernel.variance, model.likelihood.variance)
    )
    return StatedKernel.stationary(
        name, lengthscale, float(outputscale.reshape(())), float(noise.reshape(())),
        float(np.asarray(constant).reshape(())), n_columns,
    )  # fmt: skip


def is_gpboost(model: Any) -> bool:
    """Whether a model is a `GPModel` of GPBoost."""
    return type(model).__name__ == "GPModel" and hasattr(model, "predict")


def gpboost_law(model: Any, X: FloatArray) -> ForeignLaw:
    """Joint law of observations at coordinates (p, d)."""
    found = model.predict(gp_coords_pred=X, predict_cov_mat=True, predict_response=True)
    return ForeignLaw.of(found["mu"], found["cov"], len(X))
