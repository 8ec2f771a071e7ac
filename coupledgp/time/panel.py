"""Values of sensors over times, read from arrays, tables and long forms."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import MOST_NAMED, check_magnitude, sentinels
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.axis import TimeAxis
from coupledgp.time.forms import (
    ArrayForm,
    Form,
    labels_of,
    long_form,
    read_wide,
    real_values,
    shown,
)
from coupledgp.time.stamps import Stamps, read_stamps

DAY = 86_400.0
# Fewest readings of a run; share of other sensors' steps without a change during it, from which all
# stand still; and expected number of such runs by chance.
FEWEST, OTHERS, CHANCE = 10, 0.5, 0.01


class ConstantRun(NamedTuple):
    """A run of one reading: its sensor, the value, its first and last time, and its length."""

    sensor: int
    value: float
    start: float
    stop: float
    n: int


def constant_runs(observed: FloatArray, times: FloatArray, axis: TimeAxis) -> list[ConstantRun]:
    """The longest run of each sensor of readings (p, T) at times (T,) that is no chance.

    A run has ten readings at least and lasts a day where times are dates. Others change during it,
    and with the share q of steps without a change, the larger of the sensor's own outside of the
    run and of the others' during it, fewer than `CHANCE` runs of m readings are expected among all
    n steps, `n q^(m - 1)`.
    """
    seen = ~np.isnan(observed)
    still, both = np.zeros((2, len(observed), max(times.size - 1, 0)), dtype=np.bool_)
    for k, row in enumerate(observed):  # steps between readings that follow each other
        at = np.flatnonzero(seen[k])
        both[k, at[1:] - 1] = True
        still[k, at[1:] - 1] = np.diff(row[at]) == 0
    n_steps, least = int(both.sum()), DAY if axis.origin is not None else 0.0
    found = []
    for k, row in enumerate(observed):
        at = np.flatnonzero(seen[k])
        ends = np.flatnonzero(np.diff(row[at], prepend=np.nan, append=np.nan) != 0)
        if ends.size < 2:
            continue
        longest = int(np.diff(ends).argmax())
        run = at[ends[longest] : ends[longest + 1]]
        start, stop = float(times[run[0]]), float(times[run[-1]])
        if run.size < FEWEST or stop - start < least:
            continue
        inside = np.zeros(times.size - 1, dtype=np.bool_)
        inside[run[0] : run[-1]] = True
        others = np.arange(len(observed)) != k
        beside = _share(still[others][:, inside], both[others][:, inside])
        q = max(beside, _share(still[k, ~inside], both[k, ~inside]))
        if beside < OTHERS and n_steps * q ** (run.size - 1) < CHANCE:
            found.append(ConstantRun(k, float(row[run[0]]), start, stop, run.size))
    return sorted(found, key=lambda one: -one.n)


def _share(still: FloatArray, both: FloatArray) -> float:
    """Share of steps without a change; a half of one more step, so that none is never certain."""
    return float((still.sum() + 0.5) / (both.sum() + 1))


FORMS = (
    "a DataArray of nodes and times, a wide table (rows times, columns nodes), nodes with times= "
    "and an array (nodes, times), or nodes, times and values of one length"
)
# Arrays of the size of the panel that are alive while one is made.
COPIES = 8


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


def as_panel(
    data: Any, times: Any = None, values: Any = None, resolution: Any = None,
    missing_values: Any = None, zone: str | None = None,
) -> Panel:  # fmt: skip
    """Read values of sensors over times.

    Parameters
    ----------
    data
        An `xarray.DataArray` with a dimension of nodes and one of times, in any order; a wide table
        of pandas (index times, columns nodes), of polars or Arrow (a column of times, one for each
        node); or nodes: labels (p,), with `values` (p, n) and `times` (n,), or labels (m,) of a
        long table. A `Panel` is returned as it is, but for its missing values.
    times
        Times (n,) of the columns of `values`, or (m,) of the rows of a long table; those of
        `TimeAxis.of`.
    values
        Values (p, n), or (m,) of a long table, NaN where missing.
    resolution
        A duration: times are rounded to it, and values of a node at one rounded time averaged.
    missing_values
        A number that stands for a missing value, or several, such as 0 or `[0, -1]`.
    zone
        Time zone of times that have none. The hour that comes twice when clocks are set back is
        resolved by the order of rows: the first one is summer time.

    Returns
    -------
    Panel
        Its times are a regular grid if 95 % of those given lie on one within 1 % of its step;
        steps without any time are columns of NaN. Rows of one node and time that agree are one.

    Raises
    ------
    InvalidInputError
        The forms are mixed, shapes differ, values are infinite or no numbers, a node has different
        values at one time, a node is missing or comes twice, no value is known; and as
        `TimeAxis.of`.
    MemoryLimitError
        The nodes times the times do not fit in memory.

    Warns
    -----
    UserWarning
        Nodes without any value are left out; times are moved to the grid; a number that is
        repeated far outside of all others seems to stand for missing values; or a sensor stands
        still for a day.
    """
    missing = missing_numbers(missing_values)
    if isinstance(data, Panel):
        return replace(data, values=_without(data.values, missing)) if missing.size else data
    if times is None and values is None:
        wide = read_wide(data)
        if wide is None:
            raise InvalidInputError(f"data: expected {FORMS}, got {type(data).__name__} alone")
        given = Given(
            wide.nodes, wide.stamps, _without(wide.values, missing), wide.value, wide.form
        )
        return _of_columns(given, resolution, zone)
    if times is None or values is None:
        lacking = "times" if times is None else "values"
        raise InvalidInputError(f"{lacking}: expected {FORMS}, got None")
    if read_wide_like(data):
        raise InvalidInputError(
            f"data: expected {FORMS}, got a {type(data).__name__} beside times and values"
        )
    numbers = _without(real_values(values, "values"), missing)
    if numbers.ndim == 2:
        given = Given(labels_of(data, "nodes"), read_stamps(times), numbers, None, ArrayForm())
        return _of_columns(given, resolution, zone)
    if numbers.ndim != 1:
        raise InvalidInputError(f"values: expected {FORMS}, got values of shape {numbers.shape}")
    name = getattr(values, "name", None)
    form = long_form(data, times, values)
    found = data if isinstance(data, Coded) else coded(data)
    stamps = read_stamps(times)
    lengths = (found.rows.size, len(stamps), numbers.size)
    if len(set(lengths)) > 1:
        raise InvalidInputError(
            f"values: expected nodes, times and values of one length, got lengths {lengths}"
        )
    stamps = stamps if zone is None else stamps.within(zone, nodes=found.rows)
    name = name if isinstance(name, str) else None
    given = Given(found.labels, stamps, numbers, name, form)
    return _placed(given, found.rows, np.arange(numbers.size), resolution)


class Given(NamedTuple):
    """Labels of nodes, stamps, values, their name and form."""

    nodes: list[Any]
    stamps: Stamps
    values: FloatArray
    name: str | None
    form: Form


def missing_numbers(given: Any) -> FloatArray:
    """Numbers (k,) that stand for missing values.

    Raises
    ------
    InvalidInputError
        One is none.
    """
    try:
        return np.atleast_1d(np.asarray([] if given is None else given, dtype=np.float64)).ravel()
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"missing_values: expected a number or several, got {given!r:.60}"
        ) from None


def _without(values: FloatArray, missing: FloatArray) -> FloatArray:
    return np.where(np.isin(values, missing), np.nan, values) if missing.size else values


def read_wide_like(data: Any) -> bool:
    """Whether data is a table or a `DataArray` of its own, rather than labels of nodes."""
    return len(getattr(data, "shape", ())) == 2 or hasattr(data, "data_vars")


def _of_columns(given: Given, resolution: Any, zone: str | None) -> Panel:
    """A panel of values (p, n) of nodes at stamps (n,)."""
    shape = (len(given.nodes), len(given.stamps))
    if given.values.shape != shape:
        raise InvalidInputError(
            f"values: expected the shape {shape} of {shape[0]} nodes and {shape[1]} times, got "
            f"{given.values.shape}"
        )
    _refuse_repeated(given.nodes)
    if zone is not None:
        given = given._replace(stamps=given.stamps.within(zone))
    rows, columns = np.nonzero(~np.isnan(given.values))
    cells = given._replace(values=given.values[rows, columns])
    return _placed(cells, rows, columns, resolution)


def _placed(given: Given, rows: IntArray, columns: IntArray, resolution: Any) -> Panel:
    """A panel of values (m,) of rows (m,) of nodes, at numbers (m,) of stamps."""
    nodes, stamps, values = given.nodes, given.stamps, given.values
    axis, places = TimeAxis.placed(stamps, resolution)
    check_memory(
        8.0 * COPIES * len(nodes) * axis.n_times,
        f"values: {len(nodes)} nodes at {axis.n_times} times",
        "give fewer times, or a coarser resolution",
    )
    for k in np.flatnonzero(np.isinf(values))[:1]:
        raise InvalidInputError(
            f"values: expected finite numbers, NaN where missing, got {values[k]} of "
            f"{nodes[rows[k]]!r} at {axis.texts(axis.values[places[columns[k]]])[0]}"
        )
    known = np.flatnonzero(~np.isnan(values))
    rows, columns, values = rows[known], columns[known], values[known]
    if resolution is None:
        kept = _distinct_cells(given, axis, places, rows, columns, values)
        rows, columns, values = rows[kept], columns[kept], values[kept]
    cells = _averaged(rows, places[columns], values, (len(nodes), axis.n_times))
    return _checked(nodes, axis, cells, given.name, given.form)


def _distinct_cells(
    given: Given, axis: TimeAxis, places: IntArray, rows: IntArray, columns: IntArray,
    values: FloatArray,
) -> IntArray:  # fmt: skip
    """Numbers (k,) of values (m,) of different nodes and stamps; those of one agree."""
    distinct, number = given.stamps.distinct()
    cells = rows * len(distinct) + number[columns]
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(np.diff(cells[order]) == 0)
    if not again.size:
        return np.arange(values.size)
    before, after = order[again], order[again + 1]
    differ = np.flatnonzero(values[before] != values[after])
    if differ.size:
        k, other = before[differ[0]], after[differ[0]]
        text = axis.texts(axis.values[places[columns[k]]])[0]
        hint = ""
        if axis.origin is not None and axis.zone is None:
            hint = "; an hour that daylight saving repeats needs zone= or times with a zone"
        raise InvalidInputError(
            f"times: expected one value of a node at one time, got {values[k]:g} and "
            f"{values[other]:g} of {given.nodes[rows[k]]!r} at {text} ({differ.size} such cases)"
            f"{hint}; a resolution, such as 1h, averages them"
        )
    return np.setdiff1d(order, after)


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


def _refuse_repeated(nodes: list[Any]) -> None:
    if len(set(nodes)) == len(nodes):
        return
    seen: set[Any] = set()
    repeated = list(dict.fromkeys(n for n in nodes if n in seen or seen.add(n)))  # type: ignore[func-returns-value]
    raise InvalidInputError(f"nodes: expected each node once, got {shown(repeated)} more than once")


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
    _warn_of_doubtful(nodes, axis, values)
    return Panel(nodes, axis, values, name, form)


def _warn_of_doubtful(nodes: list[Any], axis: TimeAxis, values: FloatArray) -> None:
    """Warn of numbers that seem to stand for missing values, and of sensors that stand still."""
    known, codes = values[~np.isnan(values)], []
    for value, count, low, high in sentinels(known, bulk=True):
        codes.append(value)
        warn(
            f"values: {count} of {known.size} are {value:g}, far outside of the others, most of "
            f"which are from {low:g} to {high:g}; where it stands for a missing value, "
            f"missing_values={value:g} (--missing-values {value:g}) makes it a gap"
        )
    if axis.origin is None:
        return
    for k, value, start, stop, n in constant_runs(
        _without(values, np.array(codes)), axis.values, axis
    )[:MOST_NAMED]:
        first, last = axis.texts(np.array([start, stop]))
        warn(
            f"values: {nodes[k]!r} stands still at {value:g} from {first} to {last}, {n} times in "
            "a row, while others change; NaN makes them gaps"
        )
