"""Groups of training rows by a column that is an input of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.columns.codes import CategoryCode
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.random import FloatArray


def column_groups(model: Any, name: str, data: Data) -> NDArray[Any]:
    """Group (n,) of each training row: the value of the input column of a name.

    Raises
    ------
    InvalidInputError
        The model has no named columns, or none of this name.
    """
    names = [str(one) for one in getattr(model, "feature_names_in_", ())]
    if name not in names:
        known = f"one of {', '.join(names)}" if names else "an array, since inputs have no names"
        raise InvalidInputError(f"groups: expected {known}, got {name!r}")
    encoding, place = getattr(model, "encoding_", None), names.index(name)
    if encoding is None:
        return data.points[:, place]
    widths = [sum(width for _, width in code.parts) for code in encoding.codes]
    start = sum(widths[:place])
    values = data.points[:, start : start + widths[place]]
    code = encoding.codes[place]
    if isinstance(code, CategoryCode):
        return _levels(code, values)
    if values.shape[1] == 1:
        return values[:, 0]
    first, number = np.unique(values, axis=0, return_index=True, return_inverse=True)[1:]
    return np.array([f"as in row {row}" for row in first])[number.reshape(-1)]


def _levels(code: CategoryCode, values: FloatArray) -> NDArray[Any]:
    """The level (n,) of each of the points (n, w) of a category, as text."""
    texts = ["missing" if level is None else str(level) for level in code.levels]
    distances = np.square(values[:, None] - code.points[None]).sum(axis=2)
    found: NDArray[Any] = np.array([*texts, "other"])[distances.argmin(axis=1)]
    return found
