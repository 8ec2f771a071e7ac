"""Parts of processes as headers, whose values JSON can hold, and arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from coupledgp.couplings.frequencies.registry import coupling_text
from coupledgp.errors import InvalidInputError
from coupledgp.features.registry import features_text
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.inference.search.optimize import Hyperparameters
from coupledgp.spectra import spectrum_text

# Functions that return the text of a parameter that is an object, by the parameter's name.
TEXTS: dict[str, Callable[[Any], str | None]] = {
    "kernel": spectrum_text,
    "coupling": coupling_text,
    "features": features_text,
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
