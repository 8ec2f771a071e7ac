"""Values of sensors over times, read from arrays, tables and long forms."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import check_magnitude
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray
from coupledgp.series.axis import TimeAxis
from coupledgp.series.forms import (
    ArrayForm,
    Form,
    labels_of,
    long_form,
    read_wide,
    real_values,
    shown,
)
from coupledgp.series.stamps import Stamps, read_stamps

FORMS = (
    "a DataArray of nodes and times, a wide table (rows times, columns nodes), nodes with times= "
    "and an array (nodes, times), or nodes, times and values of one length"
)
# Arrays of the size of the panel that are alive while one is made.
COPIES = 4


@dataclass(frozen=True, eq=False)
class Coded:
    """Labels of rows as numbers of distinct ones.

    Attributes
    ----------
    labels : list of length p
        Distinct labels.
    rows : IntArray (m,)
        Number of the label of each row.
    """

    labels: list[Any]
    rows: IntArray


@dataclass(frozen=True, eq=False)
class Panel:
    """Values of sensors over times.

    Attributes
    ----------
    nodes : list of length p
        Labels of the sensors, as given.
    axis : TimeAxis
        The n times.
    values : FloatArray (p, n)
        NaN where nothing was measured.
    name : str or None
        Name of the value, or its unit, such as `"mph"`.
    form : str
        `"xarray"`, `"pandas"`, `"arrow"`, `"long"` or `"arrays"`.
    """

    nodes: list[Any] = field(repr=False)
    axis: TimeAxis
    values: FloatArray = field(repr=False)
    name: str | None
    given: Form = field(default_factory=ArrayForm, repr=False)

    @property
    def form(self) -> str:
        """Name of the form in which the data came."""
        return self.given.name

    def restored(self, nodes: Any, times: Any, **arrays: Any) -> Any:
        """Results in the form in which the data came.

        Parameters
        ----------
        nodes
            Labels (p,).
        times
            Numbers (n,) of the axis, or times (n,) of the user.
        arrays
            Results (p, n), or (p, n, s) for s samples, by their names.

        Returns
        -------
        object
            Of a `DataArray`: one, or a `Dataset` of several. Of a wide table: one, or a tuple. Of
            a long table of pandas: one with columns of nodes, times and results. Else: one array,
            or a tuple.
        """
        labels = list(nodes)
        stamps = np.asarray(times)
        numbers = stamps if stamps.dtype.kind == "f" else self.axis.numbers(times)
        shape = (len(labels), len(numbers))
        found = {name: np.asarray(values) for name, values in arrays.items()}
        for name, values in found.items():
            if values.shape[:2] != shape:
                raise InvalidInputError(
                    f"{name}: expected the shape {shape} of nodes and times, got {values.shape}"
                )
        return self.given.restored(labels, self.axis.labels(numbers), found)

    def with_values(self, values: FloatArray) -> Panel:
        """The same sensors and times with other values (p, n)."""
        return replace(self, values=values)


def as_panel(data: Any, times: Any = None, values: Any = None, resolution: Any = None) -> Panel:
    """Read values of sensors over times.

    Parameters
    ----------
    data
        An `xarray.DataArray` with a dimension of nodes and one of times, in any order; a wide table
        of pandas (index times, columns nodes), of polars or Arrow (a column of times, one for each
        node); or nodes: labels (p,), with `values` (p, n) and `times` (n,), or labels (m,) of a
        long table. A `Panel` is returned as it is.
    times
        Times (n,) of the columns of `values`, or (m,) of the rows of a long table; those of
        `TimeAxis.of`.
    values
        Values (p, n), or (m,) of a long table, NaN where missing.
    resolution
        A duration: times are rounded to it, and values of a node at one rounded time averaged.

    Returns
    -------
    Panel
        Its times are a regular grid if 95 % of those given lie on one within 1 % of its step;
        steps without any time are columns of NaN.

    Raises
    ------
    InvalidInputError
        The forms are mixed, shapes differ, values are infinite or no numbers, a node has two
        values at one time, a node is missing or comes twice, no value is known; and as
        `TimeAxis.of`.
    MemoryLimitError
        The nodes times the times do not fit in memory.

    Warns
    -----
    UserWarning
        Nodes without any value are left out; or times are moved to the grid.
    """
    if isinstance(data, Panel):
        return data
    if times is None and values is None:
        return _of_wide(data, resolution)
    if times is None or values is None:
        lacking = "times" if times is None else "values"
        raise InvalidInputError(f"{lacking}: expected {FORMS}, got None")
    if read_wide_like(data):
        raise InvalidInputError(
            f"data: expected {FORMS}, got a {type(data).__name__} beside times and values"
        )
    numbers = real_values(values, "values")
    if numbers.ndim == 2:
        stamps = read_stamps(times)
        nodes = labels_of(data, "nodes")
        return _of_columns(nodes, stamps, numbers, None, ArrayForm(), resolution)
    if numbers.ndim != 1:
        raise InvalidInputError(f"values: expected {FORMS}, got values of shape {numbers.shape}")
    name = getattr(values, "name", None)
    return _of_rows(
        data, read_stamps(times), numbers, name, long_form(data, times, values), resolution
    )


def read_wide_like(data: Any) -> bool:
    """Whether data is a table or a `DataArray` of its own, rather than labels of nodes."""
    return len(getattr(data, "shape", ())) == 2 or hasattr(data, "data_vars")


def _of_wide(data: Any, resolution: Any) -> Panel:
    wide = read_wide(data)
    if wide is None:
        raise InvalidInputError(f"data: expected {FORMS}, got {type(data).__name__} alone")
    return _of_columns(wide.nodes, wide.stamps, wide.values, wide.value, wide.form, resolution)


def _of_columns(
    nodes: list[Any], stamps: Stamps, values: FloatArray, name: str | None, form: Form,
    resolution: Any,
) -> Panel:  # fmt: skip
    """A panel of values (p, n) of nodes at stamps (n,)."""
    shape = (len(nodes), len(stamps))
    if values.shape != shape:
        raise InvalidInputError(
            f"values: expected the shape {shape} of {shape[0]} nodes and {shape[1]} times, got "
            f"{values.shape}"
        )
    _refuse_repeated(nodes)
    axis, places = TimeAxis.placed(stamps, resolution)
    order = np.argsort(stamps.values, kind="stable")
    rising = stamps.values[order]
    same = np.flatnonzero(rising[1:] == rising[:-1])
    if same.size and resolution is None:
        _refuse_duplicate(axis, places[order[same[0]]], None, int(same.size))
    for row, column in np.argwhere(np.isinf(values))[:1]:
        _refuse_infinite(values[row, column], nodes[row], axis, places[column])
    _check_room(len(nodes), axis)
    found = np.full((len(nodes), axis.n_times), np.nan)
    if np.unique(places).size == places.size:
        found[:, places] = values
    else:
        rows, columns = np.nonzero(~np.isnan(values))
        found = _averaged(rows, places[columns], values[rows, columns], found.shape)
    return _checked(nodes, axis, found, name, form)


def _of_rows(
    data: Any, stamps: Stamps, values: FloatArray, name: Any, form: Form, resolution: Any
) -> Panel:
    """A panel of rows (m,) of nodes, stamps and values."""
    found = data if isinstance(data, Coded) else coded(data)
    labels, rows = found.labels, found.rows
    lengths = (rows.size, len(stamps), values.size)
    if len(set(lengths)) > 1:
        raise InvalidInputError(
            f"values: expected nodes, times and values of one length, got lengths {lengths}"
        )
    distinct, raw = stamps.distinct()
    axis, places = TimeAxis.placed(stamps, resolution)
    _check_room(len(labels), axis)
    for row in np.flatnonzero(np.isinf(values))[:1]:
        _refuse_infinite(values[row], labels[rows[row]], axis, places[row])
    known = np.flatnonzero(~np.isnan(values))
    if resolution is None:
        places_known = rows[known] * len(distinct) + raw[known]
        order = np.argsort(places_known, kind="stable")
        same = np.flatnonzero(np.diff(places_known[order]) == 0)
        if same.size:
            row = known[order[same[0]]]
            _refuse_duplicate(axis, places[row], labels[rows[row]], int(same.size))
    shape = len(labels), axis.n_times
    cells = _averaged(rows[known], places[known], values[known], shape)
    return _checked(labels, axis, cells, name if isinstance(name, str) else None, form)


def _averaged(
    rows: IntArray, columns: IntArray, values: FloatArray, shape: tuple[int, ...]
) -> FloatArray:
    """Means of the values (m,) at each row and column of a table of a shape; NaN without any."""
    size, flat = math.prod(shape), rows * shape[1] + columns
    counts = np.bincount(flat, minlength=size)
    sums = np.bincount(flat, weights=values, minlength=size)
    cells = np.full(size, np.nan)
    return np.divide(sums, counts, out=cells, where=counts > 0).reshape(shape)


def coded(labels: Any) -> Coded:
    """Labels (m,) as numbers of distinct ones, which are sorted where they can be."""
    listed = labels_of(labels, "nodes")
    distinct = list(dict.fromkeys(listed))
    with suppress(TypeError):  # of several types
        distinct = sorted(distinct)
    number = {label: k for k, label in enumerate(distinct)}
    rows = np.fromiter((number[label] for label in listed), np.int64, len(listed))
    return Coded(distinct, rows)


def _check_room(n_nodes: int, axis: TimeAxis) -> None:
    check_memory(
        8.0 * COPIES * n_nodes * axis.n_times,
        f"values: {n_nodes} nodes at {axis.n_times} times",
        "give fewer times, or a coarser resolution",
    )


def _refuse_repeated(nodes: list[Any]) -> None:
    if len(set(nodes)) == len(nodes):
        return
    seen: set[Any] = set()
    repeated = list(dict.fromkeys(n for n in nodes if n in seen or seen.add(n)))  # type: ignore[func-returns-value]
    raise InvalidInputError(f"nodes: expected each node once, got {shown(repeated)} more than once")


def _refuse_duplicate(axis: TimeAxis, place: Any, node: Any, count: int) -> None:
    """Refuse several values of a node at one time, or columns of one time."""
    text = axis.texts(axis.values[place])[0]
    where = f"at {text}" if node is None else f"of {node!r} at {text}"
    hint = ""
    if axis.origin is not None and axis.zone is None:
        hint = "; an hour that daylight saving repeats needs times with a zone"
    raise InvalidInputError(
        f"times: expected one value of a node at one time, got more {where} ({count} such cases)"
        f"{hint}; a resolution, such as 1h, averages them"
    )


def _refuse_infinite(value: Any, node: Any, axis: TimeAxis, place: Any) -> None:
    raise InvalidInputError(
        f"values: expected finite numbers, NaN where missing, got {value} of {node!r} at "
        f"{axis.texts(axis.values[place])[0]}"
    )


def _checked(
    nodes: list[Any], axis: TimeAxis, values: FloatArray, name: str | None, form: Form
) -> Panel:
    """A panel without nodes that have no value; refuse one without any value."""
    check_magnitude(values, "values")
    known = np.asarray((~np.isnan(values)).any(axis=1))
    if not known.any():
        raise InvalidInputError("values: expected a number somewhere, got none")
    if not known.all():
        gone = [node for node, kept in zip(nodes, known, strict=True) if not kept]
        warn(f"nodes: {len(gone)} without any value are left out: {shown(gone)}")
        nodes = [node for node, kept in zip(nodes, known, strict=True) if kept]
        values = values[known]
    return Panel(nodes, axis, values, name, form)
