"""The forms in which data come, and in which results go back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import MOST_NAMED, plain_array, real_array
from coupledgp.random import FloatArray
from coupledgp.time.stamps import Stamps, read_stamps

TIME_NAMES = ("time", "times", "t", "date", "datetime", "timestamp")
Arrays = Mapping[str, NDArray[Any]]


class Form(ABC):
    """A form of data, into which results (nodes, times, ...) are put.

    Attributes
    ----------
    name : str
        The form in a word.
    """

    name: str

    @abstractmethod
    def restored(self, nodes: list[Any], times: Any, arrays: Arrays) -> Any:
        """Results in this form, at labels of nodes and labels of times."""


class SeparateForm(Form):
    """A form that has an object for each result: the one, or a tuple of several."""

    def restored(self, nodes: list[Any], times: Any, arrays: Arrays) -> Any:
        found = tuple(self.one(nodes, times, values) for values in arrays.values())
        return found[0] if len(found) == 1 else found

    @abstractmethod
    def one(self, nodes: list[Any], times: Any, values: NDArray[Any]) -> Any:
        """One result (nodes, times), or (nodes, times, samples), in this form."""


@dataclass(frozen=True)
class ArrayForm(SeparateForm):
    """Arrays (nodes, times): one, or a tuple of several outputs."""

    name: str = "arrays"

    def one(self, nodes: list[Any], times: Any, values: NDArray[Any]) -> Any:
        return values


@dataclass(frozen=True, eq=False)
class FrameForm(SeparateForm):
    """Wide tables of pandas, rows times and columns nodes: one, or a tuple of several outputs."""

    index: Any
    columns: Any
    name: str = "pandas"

    def one(self, nodes: list[Any], times: Any, values: NDArray[Any]) -> Any:
        import pandas as pd

        if values.ndim > 2:
            return values
        if isinstance(self.columns, pd.MultiIndex):
            columns = pd.MultiIndex.from_tuples(nodes, names=self.columns.names)
        else:
            columns = pd.Index(nodes, name=self.columns.name, tupleize_cols=False)
        return pd.DataFrame(values.T, index=_like_index(times, self.index), columns=columns)


def _like_index(times: Any, index: Any) -> Any:
    """An index of labels of times, named as another and of its resolution where that is enough."""
    import pandas as pd

    found = pd.Index(times, name=index.name)
    unit = getattr(index, "unit", None)
    if unit is not None and isinstance(found, pd.DatetimeIndex):
        coarser = found.as_unit(unit)
        return coarser if bool((coarser == found).all()) else found
    return found


@dataclass(frozen=True)
class LongFrameForm(Form):
    """Long tables of pandas with columns of nodes, times and each result."""

    node: str = "node"
    time: str = "time"
    name: str = "long"

    def restored(self, nodes: list[Any], times: Any, arrays: Arrays) -> Any:
        import pandas as pd

        n_times = len(times)
        columns = {
            self.node: pd.Index(nodes, tupleize_cols=False).repeat(n_times),
            self.time: pd.Index(times)[np.tile(np.arange(n_times), len(nodes))],
        }
        flat = {name: values.reshape(len(nodes) * n_times, -1) for name, values in arrays.items()}
        for name, values in flat.items():
            if values.shape[1] == 1:
                columns[name] = values[:, 0]
            else:
                columns |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
        return pd.DataFrame(columns)


@dataclass(frozen=True)
class TableForm(SeparateForm):
    """Wide tables of Arrow or polars, a column of times and one for each node."""

    kind: Any
    time: str
    name: str = "arrow"

    def one(self, nodes: list[Any], times: Any, values: NDArray[Any]) -> Any:
        import pyarrow as pa

        if values.ndim > 2:
            return values
        columns = {str(node): row for node, row in zip(nodes, values, strict=True)}
        found = pa.table({self.time: pa.array(times), **columns})
        return found if isinstance(found, self.kind) else self.kind(found)


@dataclass(frozen=True, eq=False)
class XarrayForm(Form):
    """A `DataArray` of one result, a `Dataset` of several, with what the data say about themselves.

    Results have the `attrs` of the data, such as units; `long_name` of a result that is not the
    mean begins with the result's name, and `standard_name`, which is that of the quantity, is left
    out there. Coordinates of the data beside labels and times are kept: those of one value, and
    those along nodes or times where each label has one, or a missing value that numbers have.
    """

    dims: tuple[str, str]
    node: str
    time: str
    value: str | None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    coords: Mapping[str, Any] = field(default_factory=dict)
    name: str = "xarray"

    def restored(self, nodes: list[Any], times: Any, arrays: Arrays) -> Any:
        import xarray as xr

        coords = {self.node: (self.node, label_array(nodes)), self.time: (self.time, times)}
        plain = xr.Dataset(coords=coords)
        known = {name: self._at(found, plain) for name, found in self.coords.items()}
        kept = {name: found for name, found in known.items() if found is not None}

        def named(values: NDArray[Any], name: str | None, result: str) -> Any:
            order = (self.node, self.time, *(("sample",) if values.ndim == 3 else ()))
            attrs = self._attrs(result)
            found = xr.DataArray(values, coords=coords, dims=order, name=name, attrs=attrs)
            for dim in (self.node, self.time):
                if dim in self.coords:
                    found[dim].attrs.update(self.coords[dim].attrs)
            return found.assign_coords(kept).transpose(*self.dims, ...)

        if len(arrays) == 1:
            result, values = next(iter(arrays.items()))
            return named(values, self.value, result)
        return xr.Dataset({name: named(values, name, name) for name, values in arrays.items()})

    def _attrs(self, result: str) -> dict[str, Any]:
        """Attributes of a result."""
        attrs = dict(self.attrs)
        if result in ("mean", "sample"):
            return attrs
        attrs.pop("standard_name", None)
        if "long_name" in attrs:
            attrs["long_name"] = f"{result} of {attrs['long_name']}"
        return attrs

    def _at(self, coordinate: Any, plain: Any) -> Any:
        """A coordinate of the data at the labels of a result; None where it cannot be told."""
        if coordinate.name in (self.node, self.time):
            return None
        if not coordinate.dims:
            return coordinate.variable
        (dim,) = coordinate.dims
        if dim not in coordinate.indexes:
            return None
        index = coordinate.indexes[dim]
        places = index.get_indexer(plain.indexes[dim])
        if (places < 0).any() and coordinate.dtype.kind not in "fM":
            return None
        found = coordinate.variable[np.maximum(places, 0)].copy()
        if (places < 0).any():
            found[places < 0] = np.nan if coordinate.dtype.kind == "f" else np.datetime64("NaT")
        return found


@dataclass(frozen=True, eq=False)
class Wide:
    """Values of nodes at stamps, as given: (p, n) with NaN where missing."""

    nodes: list[Any]
    stamps: Stamps
    values: FloatArray
    value: str | None
    form: Form


def read_wide(data: Any) -> Wide | None:
    """Read a `DataArray`, or a wide table of pandas, polars or Arrow; None for everything else."""
    if hasattr(data, "dims") and hasattr(data, "coords"):
        return _of_xarray(data)
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _of_frame(data)
    if hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return _of_table(data)
    return None


def _of_xarray(data: Any) -> Wide:
    variables = getattr(data, "data_vars", None)
    if variables is not None:
        if len(variables) != 1:
            raise InvalidInputError(
                f"data: expected one DataArray, got a Dataset of {sorted(map(str, variables))}; "
                "choose one of them, or fit a model to each"
            )
        data = next(iter(variables.values()))
    dims = tuple(data.dims)
    if len(dims) != 2:
        raise InvalidInputError(
            f"data: expected a DataArray of nodes and times, got the dimensions {dims}"
        )
    time = _time_dimension(data, dims)
    node = dims[1 - dims.index(time)]
    values = data.transpose(node, time).values
    nodes = data.coords[node].values if node in data.coords else range(data.sizes[node])
    times = data.coords[time].values if time in data.coords else np.arange(data.sizes[time])
    value = data.name if data.name is not None else getattr(data, "attrs", {}).get("units")
    beside = {
        str(name): found for name, found in data.coords.items()
        if found.ndim == 0 or (found.ndim == 1 and found.dims[0] in dims)
    }  # fmt: skip
    named = None if data.name is None else str(data.name)
    form = XarrayForm(dims, node, time, named, dict(data.attrs), beside)
    return Wide(
        labels_of(nodes, "data"),
        read_stamps(times, f"data: dimension {time!r}"),
        real_values(values, "data"),
        None if value is None else str(value),
        form,
    )


def _time_dimension(data: Any, dims: tuple[str, ...]) -> str:
    """The dimension of times: the one whose coordinate holds timestamps, or is called time."""
    stamped = [d for d in dims if d in data.coords and _holds_times(data.coords[d].values)]
    named = [d for d in dims if str(d).lower() in TIME_NAMES]
    found = stamped if len(stamped) == 1 else named
    if len(found) != 1:
        raise InvalidInputError(
            f"data: expected one dimension of timestamps, or one called time, got {dims}"
        )
    return found[0]


def _holds_times(values: Any) -> bool:
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind == "O" and len(values):
        return hasattr(values[0], "isoformat")  # datetimes, also those of other calendars
    return kind == "M"


def _of_frame(data: Any) -> Wide:
    plain_array(data, "data")  # refuses columns of equal names
    stamped = [str(n) for n, t in zip(data.columns, data.dtypes, strict=True) if t.kind in "Mm"]
    if stamped:
        raise InvalidInputError(
            "data: expected a wide table, whose index is times and whose columns are values of "
            f"nodes, got times in the column {stamped[0]!r}; set_index makes it the index, or give "
            "nodes, times and values of a long table"
        )
    if getattr(data.columns.dtype, "kind", "") == "M" and data.index.dtype.kind != "M":
        raise InvalidInputError(
            "data: expected times in the index and nodes in the columns, got times in the "
            "columns; give the table transposed (.T)"
        )
    values = real_values(data, "data").T
    nodes = labels_of(data.columns, "data")
    stamps = read_stamps(data.index, "data: index")
    return Wide(nodes, stamps, values, None, FrameForm(data.index, data.columns))


def _of_table(data: Any) -> Wide:
    import pyarrow as pa

    table = data if isinstance(data, pa.Table) else pa.table(data)
    times = [
        name for name, kind in zip(table.column_names, table.schema.types, strict=True)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    ]  # fmt: skip
    times = times or [name for name in table.column_names if name.lower() in TIME_NAMES]
    if len(times) != 1:
        raise InvalidInputError(
            f"data: expected one column of times beside one for each node, got {times or 'none'}"
        )
    nodes = [name for name in table.column_names if name != times[0]]
    columns = [real_values(table.column(name), f"data: column {name!r}") for name in nodes]
    values = np.array(columns).reshape(len(nodes), table.num_rows)
    stamps = read_stamps(table.column(times[0]), f"data: column {times[0]!r}")
    return Wide(nodes, stamps, values, None, TableForm(type(data), times[0]))


def long_form(nodes: Any, times: Any, values: Any) -> Form:
    """The form of results of a long table given as columns."""
    if hasattr(values, "iloc") or hasattr(times, "iloc"):
        names = [getattr(column, "name", None) for column in (nodes, times)]
        return LongFrameForm(*(n if isinstance(n, str) else d for n, d in
                               zip(names, ("node", "time"), strict=True)))  # fmt: skip
    return ArrayForm("long")


def real_values(values: Any, name: str) -> FloatArray:
    """Values of any shape as float64, NaN where missing.

    Raises
    ------
    InvalidInputError
        They are no numbers, or complex.
    """
    values = plain_array(values, name)
    expected = f"{name}: expected numbers, NaN where missing"
    kinds = getattr(values, "dtypes", None)
    try:
        if kinds is not None and hasattr(values, "iloc"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        if hasattr(values, "iloc"):
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        array = np.asarray(values)
        if array.dtype.kind in "mMUST":
            raise InvalidInputError(f"{expected}, got {array.dtype}")
        return real_array(array, name)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{expected}, got others ({error})") from None


def labels_of(labels: Any, name: str) -> list[Any]:
    """Labels as a list of plain values of Python.

    Raises
    ------
    InvalidInputError
        One is missing, or cannot be a key.
    """
    labels = np.asarray(labels) if hasattr(labels, "dims") else labels  # of xarray
    found = labels.tolist() if hasattr(labels, "tolist") else _listed(labels)
    found = [label.item() if isinstance(label, np.generic) else label for label in found]
    for place, label in enumerate(found):
        try:
            hash(label)
            missing = label is None or bool(label != label)
        except TypeError:
            missing = True
        if missing:
            raise InvalidInputError(f"{name}: expected a node at place {place}, got {label!r:.60}")
    return found


def _listed(labels: Any) -> list[Any]:
    return labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)


def label_array(labels: Sequence[Any]) -> NDArray[Any]:
    """Labels (n,) as an array of one dimension, of objects if they are tuples or mixed."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {int, str, float}:
        return np.array(labels)
    found = np.empty(len(labels), dtype=object)
    for place, label in enumerate(labels):
        found[place] = label
    return found


def shown(labels: Sequence[Any]) -> str:
    """The first of some labels, and how many more there are."""
    first = ", ".join(repr(label) for label in labels[:MOST_NAMED])
    more = len(labels) - MOST_NAMED
    return first if more <= 0 else f"{first} and {more} more"
