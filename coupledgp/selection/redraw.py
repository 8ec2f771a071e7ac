"""The same model with other frequencies or walks, its hyperparameters kept."""

from __future__ import annotations

from typing import Any

from coupledgp.errors import InvalidInputError
from coupledgp.models.nodes import GraphGPRegressor
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor

SIZES = {SparseSpectrumGPRegressor: "n_frequencies", GraphGPRegressor: "n_walks"}


def size_name(model: Any) -> str:
    """The parameter that says how many frequencies or walkers a model has.

    Raises
    ------
    InvalidInputError
        The model has neither.
    """
    for kind, name in SIZES.items():
        if isinstance(model, kind):
            return name
    raise InvalidInputError(
        "model: expected a SparseSpectrumGPRegressor or a GraphGPRegressor, "
        f"got {type(model).__name__}"
    )


def kept_hyperparameters(fitted: Any) -> dict[str, Any]:
    """Parameters that make another model keep the hyperparameters of a fitted one.

    Outputscale and noise are in units of the normalised y.
    """
    if hasattr(fitted, "_hyperparameters"):
        hyper = fitted._hyperparameters
        kept = {"lengthscale": hyper.lengthscale, "outputscale": hyper.outputscale}
        return {**kept, "noise": hyper.noise, "optimizer": None}
    posterior = fitted._posterior
    kept = {"kernel": fitted.kernel_, "outputscale": posterior.outputscale}
    return {**kept, "noise": posterior.noise, "optimizer": None}


def with_parameters(model: Any, **changes: Any) -> Any:
    """An unfitted copy with some parameters changed; the graph is shared, not copied."""
    return type(model)(**{**model.get_params(deep=False), **changes})


def redrawn(model: Any, kept: dict[str, Any], coupling: Any, size: int, seed: int) -> Any:
    """An unfitted copy of a model with another draw; `kept` are its hyperparameters."""
    name = size_name(model)
    quiet = {}
    if name == "n_frequencies":
        quiet = {"progress": False, "frequencies": "sampled", "objective": "evidence"}
    draw = {name: size, "coupling": coupling, "random_state": seed}
    return with_parameters(model, **draw, **kept, **quiet)
