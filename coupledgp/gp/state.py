"""Parts of processes as headers, whose values JSON can hold, and arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from coupledgp.couplings.frequencies.registry import coupling_text
from coupledgp.errors import InvalidInputError
from coupledgp.features.registry import features_text
from coupledgp.gp.protocol import Arrays, Data, Header
from coupledgp.gp.transforms import transform_text
from coupledgp.inference.search.optimize import Hyperparameters
from coupledgp.inference.search.rows import RowWeights
from coupledgp.inference.weights.statistics import DataStatistics, Moments
from coupledgp.inference.weights.weighted_sums import WeightedSums
from coupledgp.spectra import spectrum_text

# Functions that return the text of a parameter that is an object, by the parameter's name.
TEXTS: dict[str, Callable[[Any], str | None]] = {
    "kernel": spectrum_text,
    "coupling": coupling_text,
    "features": features_text,
    "target_transform": transform_text,
}


def tensors(record: Any) -> Arrays:
    """Fields of a dataclass that are arrays."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    return {k: v for k, v in values.items() if isinstance(v, (torch.Tensor, np.ndarray))}


def scalars(record: Any) -> Header:
    """Fields of a dataclass that are numbers."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    arrays = tensors(record)
    return {k: number(v) for k, v in values.items() if k not in arrays and v is not None}


def record_from(kind: type[Any], name: str, header: Header, arrays: Arrays) -> Any:
    """Make a dataclass of its stored fields; a field that was not stored is None."""
    found = {f.name: arrays.get(f"{name}.{f.name}") for f in fields(kind)}
    return kind(**{**found, **header[name]})


def number(value: Any) -> Any:
    """A Python number for one of NumPy; a float's shortest text restores all its bits."""
    return value.item() if isinstance(value, np.generic) else value


def hyperparameters_state(hyperparameters: Hyperparameters) -> tuple[Header, Arrays]:
    """Header and arrays of hyperparameters."""
    arrays = {f"hyperparameters.{k}": v for k, v in tensors(hyperparameters).items()}
    return {"hyperparameters": scalars(hyperparameters)}, arrays


def hyperparameters_from(header: Header, arrays: Arrays) -> Hyperparameters:
    """Hyperparameters of a header and arrays."""
    lengthscale = arrays["hyperparameters.lengthscale"].numpy()
    return Hyperparameters(lengthscale=lengthscale, **header["hyperparameters"])


# Array of a file with the relative noise and the count of each row, (n, 2), if rows differ in them.
ROW_WEIGHTS = "row_weights"


def data_arrays(data: Data) -> Arrays:
    """Arrays of observations; the weights of rows only where they have any."""
    arrays: Arrays = {"X": data.points, "y": data.targets}
    if data.weights is not None:
        arrays[ROW_WEIGHTS] = np.column_stack([data.weights.noise, data.weights.counts])
    return arrays


def data_from(arrays: Arrays) -> Data:
    """Observations of `data_arrays`."""
    weights = None
    if ROW_WEIGHTS in arrays:
        noise, counts = arrays[ROW_WEIGHTS].numpy().T
        weights = RowWeights(noise.copy(), counts.copy())
    return Data.of(arrays["X"].numpy(), arrays["y"].numpy(), weights=weights)


def statistics_state(statistics: DataStatistics) -> tuple[Header, Arrays]:
    """Header and arrays of sufficient statistics."""
    arrays: Arrays = {"offset": statistics.offset}
    moments = statistics.moments
    if moments is None:
        arrays["rows.features"], arrays["rows.targets"] = statistics.stacked()
        weights = statistics.stacked_weights()
        return {}, arrays if weights is None else arrays | {"rows.weights": weights}
    parts: dict[str, Any] = {"moments": replace(moments, weighted=None)}
    if moments.weighted is not None:
        parts["moments.weighted"] = moments.weighted
    for name, part in parts.items():
        arrays |= {f"{name}.{k}": v for k, v in tensors(part).items()}
    return {name: scalars(part) for name, part in parts.items()}, arrays


def statistics_from(
    header: Header, arrays: Arrays, n_features: int, dtype: torch.dtype
) -> DataStatistics:
    """Sufficient statistics of a header and arrays."""
    offset = arrays["offset"]
    if "rows.features" in arrays:
        names = ("rows.features", "rows.targets", "rows.weights")
        rows = tuple(arrays[name] for name in names if name in arrays)
        return DataStatistics(n_features, offset, (rows,), None, dtype)
    moments = record_from(Moments, "moments", header, arrays)
    if "moments.weighted" in header:
        sums = record_from(WeightedSums, "moments.weighted", header, arrays)
        moments = replace(moments, weighted=sums)
    return DataStatistics(n_features, offset, (), moments, dtype)


def text_of(value: Any, name: str) -> str:
    """Text of a coupling, spectrum or maker of features that stands for an equal one.

    Parameters
    ----------
    value
        The object.
    name
        `"kernel"`, `"coupling"` or `"features"`.

    Raises
    ------
    InvalidInputError
        No text names the object.
    """
    text = TEXTS[name](value)
    if text is None:
        raise InvalidInputError(
            f"{name}: expected an object with a text form that names it, since a file holds text "
            f"only, got {value!r}; register it under a name"
        )
    return text
