"""Fitted models to files and back, without pickle.

A file holds the arrays from which predictions are computed, bit for bit and in the memory order
they were computed in, and the sufficient statistics, so that `partial_fit` can go on. Its header
holds the class, the constructor's parameters, fitted numbers and the names of the columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from importlib.metadata import version
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from coupledgp.couplings import parse_coupling
from coupledgp.errors import CoupledGPError, InvalidInputError, ModelFileError
from coupledgp.gp.container import Arrays, Header, pack, read, written_whole
from coupledgp.inference.search.optimize import Hyperparameters
from coupledgp.inference.weights.posterior import WeightPosterior
from coupledgp.inference.weights.statistics import DataStatistics, Moments
from coupledgp.models.base import StationaryGPRegressor
from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.graph_base import GraphRegressor
from coupledgp.models.graph_persistence import GRAPH_MODELS, graph_state, restore_graph_model
from coupledgp.models.sparse_spectrum import FEATURE_MAPS, SparseSpectrumGPRegressor
from coupledgp.models.stack import Stack
from coupledgp.spectra import parse_spectrum

MODEL_CLASSES: dict[str, type[SparseSpectrumGPRegressor] | type[ExactGPRegressor]] = {
    "SparseSpectrumGPRegressor": SparseSpectrumGPRegressor,
    "ExactGPRegressor": ExactGPRegressor,
}
PARSERS: dict[str, Callable[..., Any]] = {"kernel": parse_spectrum, "coupling": parse_coupling}
MAP_ARRAYS = ("frequencies", "weights")
# Attributes that are plain numbers; those a model lacks stay out of its file.
SCALARS = "n_features_in_ n_evaluations_ n_iter_ converged_ log_marginal_likelihood_value_ _y_ndim"
SCALARS += " spectrum_start_loss_ spectrum_loss_"


def save_model(
    model: StationaryGPRegressor | GraphRegressor,
    path: str | os.PathLike[str],
    include_data: bool = False,
) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model
        Fitted `SparseSpectrumGPRegressor`, `ExactGPRegressor`, `GraphGPRegressor` or
        `ExactGraphGPRegressor`.
    path
        File to write; one that exists is replaced.
    include_data
        Store the training rows too, which `exact_twin()` needs. An `ExactGPRegressor` predicts
        from its rows and always stores them.

    Raises
    ------
    InvalidInputError
        The model is of another class, or has a coupling or kernel that no text form names.
    CoupledGPError
        `include_data` is set, but the model was loaded from a file without data.
    OSError
        The file cannot be written.
    """
    name = type(model).__name__
    known = {**MODEL_CLASSES, **GRAPH_MODELS}
    if known.get(name) is not type(model):
        raise InvalidInputError(f"model: expected one of {', '.join(known)}, got {name}")
    check_is_fitted(model)
    if isinstance(model, GraphRegressor):
        header, arrays = graph_state(model)
        _write({"class": name, "coupledgp": version("coupledgp"), **header}, arrays, path)
        return
    sparse = isinstance(model, SparseSpectrumGPRegressor)
    arrays, fitted = _sparse_state(model) if sparse else _exact_state(model)
    if sparse and model._stack is not None:
        more, fitted["members"] = _stack_state(model._stack)
        arrays |= more
    arrays |= {f"hyperparameters.{k}": v for k, v in _tensors(model._hyperparameters).items()}
    arrays |= {"y_mean": model._y_mean, "y_scale": model._y_scale}
    if include_data or not sparse:
        arrays["X"], arrays["y"] = model._training_rows()
    header = {
        "class": name,
        "coupledgp": version("coupledgp"),
        "parameters": {k: _plain(k, v) for k, v in model.get_params(deep=False).items()},
        "feature_names": _names(model),
        "scalars": {k: _number(getattr(model, k)) for k in SCALARS.split() if hasattr(model, k)},
        "hyperparameters": _scalars(model._hyperparameters),
        **fitted,
    }
    _write(header, arrays, path)


def _write(header: Header, arrays: Arrays, path: str | os.PathLike[str]) -> None:
    content = pack(header, arrays)
    with written_whole(path) as temporary:
        temporary.write_bytes(content)


def load_model(
    path: str | os.PathLike[str],
) -> Any:
    """Read a model that `save_model` wrote; its predictions are the same to the bit.

    Parameters
    ----------
    path
        File to read. Reading runs no code from the file.

    Returns
    -------
    SparseSpectrumGPRegressor, ExactGPRegressor, GraphGPRegressor or ExactGraphGPRegressor
        The fitted model. A `random_state` that was no int is None.

    Raises
    ------
    ModelFileError
        The file is damaged, of another kind or of an unknown version.
    OSError
        The file cannot be read.
    """
    header, arrays = read(Path(path))
    try:
        if header["class"] in GRAPH_MODELS:
            return restore_graph_model(header, arrays)
        return _restore(header, arrays)
    except (CoupledGPError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path}: cannot restore the model in this file: {error}") from error


def _exact_state(model: Any) -> tuple[Arrays, Header]:
    arrays = {"factor": model._factor, "alpha": model._alpha}
    return arrays, {"kernel": _text(model._spectrum, model.kernel, "kernel")}


def _sparse_state(model: Any) -> tuple[Arrays, Header]:
    feature_map, posterior, statistics = model.features_, model._posterior, model._statistics
    kind = next(name for name, made in FEATURE_MAPS.items() if type(feature_map) is made)
    arrays = {"center": model._center, **feature_map.state_dict()}
    arrays |= {f"posterior.{k}": v for k, v in _tensors(posterior).items()}
    arrays["offset"] = statistics.offset
    scalars = {"posterior": _scalars(posterior), "n_rows": statistics.n_rows}
    if statistics.moments is None:
        arrays["rows.features"], arrays["rows.targets"] = statistics.stacked()
    else:
        arrays |= {f"moments.{k}": v for k, v in _tensors(statistics.moments).items()}
        scalars["moments"] = _scalars(statistics.moments)
    return arrays, {
        "features": kind,
        "n_frequencies": feature_map.n_frequencies,
        "kernel": _text(feature_map.spectrum, model.kernel, "kernel"),
        "coupling": _text(feature_map.coupling, model.coupling, "coupling"),
        **scalars,
    }


def _stack_state(stack: Stack) -> tuple[Arrays, list[Header]]:
    """The members besides the first, whose state is the model's own."""
    arrays: Arrays = {"member_weights": stack.weights}
    headers = []
    for k, member in enumerate(stack.members[1:]):
        own, fitted = _sparse_state(member)
        own |= {f"hyperparameters.{n}": v for n, v in _tensors(member._hyperparameters).items()}
        arrays |= {f"member.{k}.{name}": value for name, value in own.items()}
        headers.append({**fitted, "hyperparameters": _scalars(member._hyperparameters)})
    return arrays, headers


def _restore(header: Header, arrays: Arrays) -> SparseSpectrumGPRegressor | ExactGPRegressor:
    model: Any = MODEL_CLASSES[header["class"]](**header["parameters"])
    if model.fixed is not None:
        model.fixed = tuple(model.fixed)
    vars(model).update(header["scalars"])
    if header["feature_names"] is not None:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    model._hyperparameters = Hyperparameters(
        lengthscale=arrays["hyperparameters.lengthscale"].numpy(), **header["hyperparameters"]
    )
    model._y_mean, model._y_scale = arrays["y_mean"].numpy(), arrays["y_scale"].numpy()
    model._rows_kept = "X" in arrays
    model._X_parts = [arrays["X"].numpy()] if model._rows_kept else []
    model._y_parts = [arrays["y"].numpy()] if model._rows_kept else []
    if isinstance(model, ExactGPRegressor):
        model._spectrum = parse_spectrum(header["kernel"], "kernel")
        model._factor, model._alpha = arrays["factor"], arrays["alpha"]
        return model
    _restore_sparse(model, header, arrays)
    if "members" in header:
        model._stack = _restored_stack(model, header["members"], arrays)
    return model


def _restored_stack(model: Any, headers: list[Header], arrays: Arrays) -> Stack:
    members = [model._sibling()]
    for k, header in enumerate(headers):
        prefix = f"member.{k}."
        own = {n.removeprefix(prefix): v for n, v in arrays.items() if n.startswith(prefix)}
        member = model._sibling()
        member._hyperparameters = Hyperparameters(
            lengthscale=own["hyperparameters.lengthscale"].numpy(), **header["hyperparameters"]
        )
        _restore_sparse(member, header, own)
        members.append(member)
    return Stack(members, arrays["member_weights"].numpy())


def _restore_sparse(model: Any, header: Header, arrays: Arrays) -> None:
    coupling = parse_coupling(header["coupling"], "coupling")
    model._stack = None
    own = {k: v for k, v in arrays.items() if k in MAP_ARRAYS or k.startswith("transform.")}
    size = model.n_features_in_, header["n_frequencies"]
    kind = FEATURE_MAPS[header["features"]]
    model.features_ = kind.from_state(*size, coupling, header["kernel"], own)
    model._center = arrays["center"].numpy()
    model._posterior = _record(WeightPosterior, "posterior", header, arrays)
    few = "rows.features" in arrays
    model._statistics = DataStatistics(
        model.features_.n_features,
        arrays["offset"],
        ((arrays["rows.features"], arrays["rows.targets"]),) if few else (),
        None if few else _record(Moments, "moments", header, arrays),
        model.features_.dtype,
    )


def _tensors(record: Any) -> Arrays:
    """Fields of a dataclass that are arrays."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    return {k: v for k, v in values.items() if isinstance(v, (torch.Tensor, np.ndarray))}


def _scalars(record: Any) -> Header:
    """Fields of a dataclass that are numbers."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    return {k: _number(v) for k, v in values.items() if k not in _tensors(record) and v is not None}


def _record(kind: type[Any], name: str, header: Header, arrays: Arrays) -> Any:
    """Put a dataclass together again; a field found nowhere was None."""
    tensors = {f.name: arrays.get(f"{name}.{f.name}") for f in fields(kind)}
    return kind(**{**tensors, **header[name]})


def _number(value: Any) -> Any:
    """A Python number for one of NumPy; a float's shortest text restores all its bits."""
    return value.item() if isinstance(value, np.generic) else value


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _plain(name: str, value: Any) -> Any:
    """A constructor parameter as JSON can hold it."""
    if name == "random_state":
        seed = isinstance(value, Integral) and not isinstance(value, bool)
        return int(value) if seed else None
    if name == "objective" and callable(value):
        raise InvalidInputError(
            f"objective: expected a name, since a file holds text only, got {value!r}; set "
            "model.objective to a name before saving, which changes no prediction"
        )
    if name in PARSERS:
        return value if isinstance(value, str) else _text(value, value, name)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain("", item) for item in value]
    return value


def _text(value: Any, given: Any, name: str) -> str:
    """Text form of a coupling or spectrum that parses back to an equal object.

    `given` is the constructor's parameter: a registered name serves an object without equality.
    """
    for text in (str(value), given):
        if not isinstance(text, str):
            continue
        try:
            parsed = PARSERS[name](text, name)
        except InvalidInputError:
            continue
        if parsed == value or (text is given and type(parsed) is type(value)):
            return text
    raise InvalidInputError(
        f"{name}: expected an object with a text form that names it, since a file holds text only, "
        f"got {value!r}; register its class under a name"
    )
