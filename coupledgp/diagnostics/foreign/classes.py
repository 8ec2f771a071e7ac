"""Classifiers of other packages: chances, and laws of their functions where these are known.

| package | functions | observation given f |
|---|---|---|
| scikit-learn `GaussianProcessClassifier`, alone or at the end of a pipeline | Laplace's law, one function for two classes, one against all others for more | logistic |
| gpytorch, an approximate or exact model with `BernoulliLikelihood` | its own joint law, two classes | probit |
| any other with `predict_proba` and `classes_` | unknown | |
| a mapping with `chances` (p, K) and `classes` (K,), of all test rows | unknown | |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from coupledgp.diagnostics.foreign import gpytorch
from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.likelihoods.latent_kl import FunctionLaw
from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.bernoulli import Bernoulli, Probit
from coupledgp.random import FloatArray

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
