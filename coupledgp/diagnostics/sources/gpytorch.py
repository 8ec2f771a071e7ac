"""Models of gpytorch, exact and variational, of numbers and of two classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from coupledgp.diagnostics.sources.kernel import StatedKernel
from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, is_module, torch
from coupledgp.random import FloatArray


def is_one(model: Any) -> bool:
    """Whether a model is one of gpytorch with its likelihood, or a pair of both."""
    if isinstance(model, tuple) and len(model) == 2:
        return all(_is_module(part) for part in model)
    return _is_module(model) and (
        hasattr(model, "likelihood") or hasattr(model, "variational_strategy")
    )


def is_classifier(model: Any) -> bool:
    """Whether a model is gpytorch's with a likelihood of two classes."""
    if not is_one(model):
        return False
    likelihood = model[1] if isinstance(model, tuple) else getattr(model, "likelihood", None)
    return type(likelihood).__name__ == "BernoulliLikelihood"


def law(model: Any, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and covariance of observations at rows (p, d), by the model's likelihood."""
    network, likelihood = _parts(model)
    with _evaluating(network), _evaluating(likelihood), torch.no_grad():
        return _moments(likelihood(network(_as_tensor(network, X))))


def functions(model: Any, X: Any) -> tuple[FloatArray, FloatArray, StatedKernel]:
    """Means (p, 1) and covariances (p, p, 1) of the function of a classifier, and its kernel."""
    network = model[0] if isinstance(model, tuple) else model
    rows = np.asarray(X, dtype=np.float64)
    with _evaluating(network), torch.no_grad():
        mean, cov = _moments(network(_as_tensor(network, rows)))
    return mean[:, None], cov[..., None], latent_kernel(network, rows.shape[1])


def kernel(model: Any, n_columns: int) -> StatedKernel:
    """Kernel, constant mean and noise of a model of gpytorch, in units of y.

    Raises
    ------
    InvalidInputError
        The mean is no constant, the noise not one number, or targets are transformed by more than
        their mean and standard deviation.
    """
    network, likelihood = _parts(model)
    _, scale = _outcome(network)
    noise = _one_number(getattr(likelihood, "noise", None), "noise") * scale**2
    return latent_kernel(network, n_columns, noise)


def latent_kernel(network: Any, n_columns: int, noise: float = 1.0) -> StatedKernel:
    """Kernel and constant mean of a model's function, with a noise variance; see `kernel`."""
    offset, scale = _outcome(network)
    mean = offset + scale * _constant(network.mean_module)
    inputs = _inputs(network)
    found = _stationary(network.covar_module)
    if found is not None:
        name, lengthscale, outputscale = found
        return StatedKernel.stationary(
            name, lengthscale, outputscale * scale**2, noise, mean, n_columns, inputs
        )
    return StatedKernel.function(
        lambda a, b: scale**2 * _covariance(network, a, b),
        noise, mean, type(network.covar_module).__name__, inputs,
    )  # fmt: skip


def inducing_points(model: Any) -> FloatArray | None:
    """Inducing points (m, d) of a sparse variational model as its kernel takes them, or None."""
    if not is_one(model):
        return None
    network = model[0] if isinstance(model, tuple) else model
    network = getattr(network, "model", network)
    points = getattr(getattr(network, "variational_strategy", None), "inducing_points", None)
    if points is None or points.dim() != 2:
        return None
    found: FloatArray = points.detach().double().cpu().numpy()
    return found


def _parts(model: Any) -> tuple[Any, Any]:
    """A model and its likelihood."""
    if isinstance(model, tuple):
        return model
    if not hasattr(model, "likelihood"):
        raise InvalidInputError(
            f"model: expected the pair (model, likelihood) of a variational model, got "
            f"{type(model).__name__} alone"
        )
    return model, model.likelihood


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Have a module in evaluation mode, and leave it in the mode that it was in."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


def _is_module(value: Any) -> bool:
    names = (kind.__module__.partition(".")[0] for kind in type(value).__mro__)
    return is_module(value) and "gpytorch" in set(names)


def _as_tensor(model: Any, X: FloatArray) -> Tensor:
    """Rows in the precision and on the device of a model."""
    like = next(model.parameters())
    return torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device)


def _moments(found: Any) -> tuple[FloatArray, FloatArray]:
    """Means (p,) and covariance (p, p) as arrays of double precision."""
    mean, cov = found.mean.double().cpu(), found.covariance_matrix.double().cpu()
    return mean.numpy().reshape(-1), cov.numpy()


def _outcome(model: Any) -> tuple[float, float]:
    """Offset and scale of the targets that a model was fitted to."""
    transform = getattr(model, "outcome_transform", None)
    if transform is None:
        return 0.0, 1.0
    if type(transform).__name__ != "Standardize":
        raise InvalidInputError(
            f"kernel: expected it stated for targets transformed by {type(transform).__name__}"
        )
    return float(transform.means.reshape(-1)[0]), float(transform.stdvs.reshape(-1)[0])


def _inputs(model: Any) -> Callable[[FloatArray], FloatArray]:
    """Rows as the kernel takes them."""
    if getattr(model, "input_transform", None) is None:
        return lambda rows: rows

    def transformed(rows: FloatArray) -> FloatArray:
        # In training mode a transform learns its bounds anew from what it is given.
        with _evaluating(model.input_transform), torch.no_grad():
            found: FloatArray = model.input_transform(_as_tensor(model, rows)).double().numpy()
        return found

    return transformed


def _constant(module: Any) -> float:
    name = type(module).__name__
    if name == "ZeroMean":
        return 0.0
    if name != "ConstantMean":
        raise InvalidInputError(f"kernel: expected it stated for a model of the mean {name}")
    return _one_number(module.constant, "mean")


def _one_number(value: Any, name: str) -> float:
    if value is None or value.numel() != 1:
        raise InvalidInputError(f"kernel: expected it stated, the model's {name} is not one number")
    return float(value.detach().reshape(()))


def _stationary(kernel: Any) -> tuple[str, FloatArray, float] | None:
    """Name, lengthscales and variance of a kernel that has them."""
    outputscale, name = 1.0, type(kernel).__name__
    if name == "ScaleKernel":
        outputscale = _one_number(kernel.outputscale, "outputscale")
        kernel, name = kernel.base_kernel, type(kernel.base_kernel).__name__
    if name not in ("RBFKernel", "MaternKernel") or kernel.active_dims is not None:
        return None
    text = "gaussian" if name == "RBFKernel" else f"matern-{kernel.nu:g}"
    return text, kernel.lengthscale.detach().double().cpu().numpy().reshape(-1), outputscale


def _covariance(model: Any, a: FloatArray, b: FloatArray) -> FloatArray:
    with torch.no_grad():
        found = model.covar_module(_as_tensor(model, a), _as_tensor(model, b)).to_dense()
    dense: FloatArray = found.double().cpu().numpy()
    return dense
