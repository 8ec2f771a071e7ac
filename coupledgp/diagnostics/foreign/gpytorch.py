"""Models of gpytorch, exact and variational."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.diagnostics.foreign.law import ForeignLaw
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


def _parts(model: Any) -> tuple[Any, Any]:
    """A model and its likelihood.

    Raises
    ------
    InvalidInputError
        The likelihood is not known, as of a sparse variational model alone.
    """
    if isinstance(model, tuple):
        return model
    if not hasattr(model, "likelihood"):
        raise InvalidInputError(
            f"predict: expected the pair (model, likelihood) of a variational model, got "
            f"{type(model).__name__} alone"
        )
    return model, model.likelihood


def law(model: Any, X: FloatArray) -> ForeignLaw:
    """Joint law of observations at rows (p, d), by the model's likelihood."""
    network, likelihood = _parts(model)
    with evaluating(network), evaluating(likelihood), torch.no_grad():
        found = likelihood(network(as_tensor(network, X)))
        return ForeignLaw.of(*moments(found.mean, found.covariance_matrix), len(X))


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
    """Kernel and constant mean of a model's function, with a noise variance in units of y.

    Raises
    ------
    InvalidInputError
        See `kernel`.
    """
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
    network = model[0] if isinstance(model, tuple) else model
    network = getattr(network, "model", network)
    points = getattr(getattr(network, "variational_strategy", None), "inducing_points", None)
    if points is None or points.dim() != 2:
        return None
    found: FloatArray = points.detach().double().cpu().numpy()
    return found


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Have a module in evaluation mode, and leave it in the mode that it was in."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


def _is_module(value: Any) -> bool:
    names = (kind.__module__.partition(".")[0] for kind in type(value).__mro__)
    return is_module(value) and bool({"gpytorch"} & set(names))


def as_tensor(model: Any, X: FloatArray) -> Tensor:
    """Rows in the precision and on the device of a model."""
    like = next(model.parameters())
    return torch.as_tensor(np.asarray(X), dtype=like.dtype, device=like.device)


def moments(mean: Tensor, spread: Tensor) -> tuple[FloatArray, FloatArray]:
    """Means (p,) and variances or covariance as arrays of double precision."""
    return mean.double().cpu().numpy().reshape(-1), spread.double().cpu().numpy()


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
        with evaluating(model.input_transform), torch.no_grad():
            found: FloatArray = model.input_transform(as_tensor(model, rows)).double().numpy()
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
        found = model.covar_module(as_tensor(model, a), as_tensor(model, b)).to_dense()
    dense: FloatArray = found.double().cpu().numpy()
    return dense
