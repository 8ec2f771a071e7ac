"""Parts of processes as headers, of values that JSON can hold, and arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from coupledgp.couplings import parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.inference.search.optimize import Hyperparameters
from coupledgp.spectra import parse_spectrum

PARSERS: dict[str, Callable[..., Any]] = {"kernel": parse_spectrum, "coupling": parse_coupling}


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
    """Put a dataclass together again; a field that is found nowhere was None."""
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


def text_of(value: Any, name: str, given: Any = None) -> str:
    """Text form of a coupling or spectrum that parses back to an equal object.

    Parameters
    ----------
    value
        The object.
    name
        `"kernel"` or `"coupling"`.
    given
        A registered name it was made by, which serves an object without equality.

    Raises
    ------
    InvalidInputError
        No text names the object.
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
