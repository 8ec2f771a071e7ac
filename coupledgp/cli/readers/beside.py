"""Columns of a table that a model does not see, along which reports look at residuals."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

# Columns (n,) by name, such as `metadata` of reports takes them.
Beside = dict[str, NDArray[np.generic]]


def columns_beside(table: pa.Table, names: Iterable[str]) -> Beside:
    """Some columns of a table as numbers, times or labels; those of other types are left out."""
    found = {}
    for name in names:
        values = _values(table.column(name))
        if values is not None:
            found[name] = values
    return found


def _values(column: pa.ChunkedArray) -> NDArray[np.generic] | None:
    kind = column.type
    if types.is_dictionary(kind):
        return _values(column.cast(kind.value_type))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if types.is_timestamp(kind) or types.is_date(kind):
        times = column.cast(pa.timestamp("us"), safe=False).to_numpy()
        return None if np.isnat(times).any() else times
    if types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind):
        return np.array(["" if one is None else str(one) for one in column.to_pylist()])
    return None
