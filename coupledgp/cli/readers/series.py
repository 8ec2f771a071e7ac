"""Values over time from files: long and wide tables in CSV and Parquet, NetCDF and Zarr."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.files import about, on_disk
from coupledgp.cli.readers.guesses import (
    NODES,
    TIMES,
    guessed,
    node_column,
    plain,
    value_column,
)
from coupledgp.cli.readers.networks import found_nodes
from coupledgp.cli.readers.node_values import numbers_or_nan
from coupledgp.cli.readers.notices import notice
from coupledgp.cli.readers.tables import check_columns, listed, read_table
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import library
from coupledgp.ground.memory import check_memory
from coupledgp.random import IntArray
from coupledgp.series import Panel, as_panel
from coupledgp.series.panel import Coded
from coupledgp.series.stamps import Stamps, read_stamps

NETCDF, ZARR = (".nc", ".nc4", ".cdf", ".h5netcdf"), (".zarr",)
NODE = "node"


@dataclass(frozen=True)
class SeriesOptions:
    """Options of the command line that say how values over time are read.

    Attributes
    ----------
    time_column : str
        Column, or dimension, of times.
    node_column : str or None
        Column, or dimension, of nodes; None: `node` if there is one, else the table is wide.
    value_column : sequence of str or None
        Columns, or variables, of values.
    zone : str or None
        Time zone of times without one, and of the written times.
    resolution : str or None
        Duration to which times are rounded.
    """

    time_column: str
    node_column: str | None = None
    value_column: Sequence[str] | None = None
    zone: str | None = None
    resolution: str | None = None


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of a graph by the texts of their labels.

    Attributes
    ----------
    numbers : Mapping of str to int
    labels : Sequence
        Label of each number.
    kind : str
        Word for the nodes, in the plural.
    """

    numbers: Mapping[str, int]
    labels: Sequence[Any]
    kind: str = "nodes"

    def find(self, texts: Sequence[str], where: Callable[[int], str]) -> IntArray:
        """Numbers (m,) of texts (m,); an error names the place of an unknown text by `where`."""
        return found_nodes(texts, self.numbers, where, self.kind)


def read_series(path: Path, nodes: Nodes, options: SeriesOptions) -> dict[str, Panel]:
    """Values over time by the names of their columns; nodes are labels of the graph.

    Raises
    ------
    InvalidInputError
        A column is missing, a node is unknown, a time or value is none; and as
        `coupledgp.series.as_panel`.
    MissingLibraryError
        NetCDF or Zarr without xarray.
    """
    kind = path.suffix.lower()
    if kind in (*NETCDF, *ZARR):
        with about(path):
            return _of_xarray(path, nodes, options)
    texts = [options.time_column, options.node_column or NODE]
    table = read_table(path, as_text=texts, missing_text=True)
    check_columns(table, [options.time_column], f"--time-column: {path}")
    if not table.num_rows:
        raise InvalidInputError(f"{path}: expected rows below the header, got none")
    stamps = read_stamps_of(table.column(options.time_column), path, options)
    with about(path):
        if _is_long(table, nodes, options):
            name = node_column(path, table, options.node_column)
            if name not in texts:
                table = read_table(path, as_text=[*texts, name], missing_text=True)
            return _of_long(table, stamps, path, nodes, replace(options, node_column=name))
        return {"value": _of_wide(table, stamps, path, nodes, options)}


def _is_long(table: pa.Table, nodes: Nodes, options: SeriesOptions) -> bool:
    """Whether a table has a column of nodes, or else one for each node."""
    if options.value_column or options.node_column or NODE in table.column_names:
        return True
    others = [name for name in table.column_names if name != options.time_column]
    wide = all(name.strip() in nodes.numbers for name in others)
    return not wide and any(plain(name) in NODES[0] for name in others)


def guessed_times(path: Path) -> str:
    """The column or dimension of times, by its name or as the only one of timestamps.

    Raises
    ------
    InvalidInputError
        There is none, or there are several.
    """
    kind, stamped = path.suffix.lower(), list[str]()
    if kind in (*NETCDF, *ZARR):
        with _opened(path) as data:
            names = [str(name) for name in data.dims]
    else:
        table = read_table(path)
        names = table.column_names
        stamped = [one.name for one in table.schema if pa.types.is_temporal(one.type)]
    found = guessed(path, stamped or names, TIMES, "times", "--time-column")
    if found is None and len(stamped) == 1:
        notice(f"{path}: times are {stamped[0]!r} (--time-column names others)")
        return stamped[0]
    if found is None:
        raise InvalidInputError(
            f"--time-column: {path}: expected the column of times, got {listed(names)}"
        )
    return found[0]


def read_stamps_of(column: pa.ChunkedArray, path: Path, options: SeriesOptions) -> Stamps:
    """Times of a column: numbers if all its texts are such, else timestamps."""
    where = f"{path}: column {options.time_column!r}"
    if column.null_count:
        row = column.is_null().to_pylist().index(True) + 1
        raise InvalidInputError(f"{where}, data row {row}: expected a time, got a missing value")
    times: Any = column
    if pa.types.is_string(column.type):
        times = column.to_pylist()
        with suppress(ValueError):
            times = np.array(list(map(float, times)))
    return _in_zone(read_stamps(times, where), where, options)


def _in_zone(stamps: Stamps, where: str, options: SeriesOptions) -> Stamps:
    return stamps if options.zone is None else stamps.within(options.zone, f"--zone: {where}")


def _of_long(
    table: pa.Table, stamps: Stamps, path: Path, nodes: Nodes, options: SeriesOptions
) -> dict[str, Panel]:
    """Panels of a table with a row for each node and time."""
    name = options.node_column or NODE
    taken = [name, options.time_column]
    given = options.value_column or (None,)
    wanted = [value_column(path, table, taken, one) for one in given]
    coded = _coded(table.column(name), f"{path}: column {name!r}", nodes)
    return {
        value: as_panel(
            coded, stamps, numbers_or_nan(table.column(value), f"{path}: column {value!r}"),
            options.resolution,
        )
        for value in wanted
    }  # fmt: skip


def _coded(column: pa.ChunkedArray, where: str, nodes: Nodes) -> Coded:
    """Nodes of rows (m,), whose texts are looked up once each."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    texts = ["" if text is None else str(text) for text in whole.dictionary.to_pylist()]

    def place(k: int) -> str:
        return f"{where}, data row {int(np.flatnonzero(codes == k)[0]) + 1}"

    missing = np.flatnonzero(codes < 0)
    if missing.size:
        raise InvalidInputError(f"{where}, data row {missing[0] + 1}: expected a node, got none")
    found = nodes.find(texts, place)
    known = np.unique(found)
    return Coded([nodes.labels[k] for k in known.tolist()], np.searchsorted(known, found)[codes])


def _of_wide(
    table: pa.Table, stamps: Stamps, path: Path, nodes: Nodes, options: SeriesOptions
) -> Panel:
    """The panel of a table with a column for each node."""
    names = [name for name in table.column_names if name != options.time_column]
    if not names:
        raise InvalidInputError(
            f"{path}: expected columns of nodes beside {options.time_column!r}, or --node-column "
            "and --target of a long table, got none"
        )
    found = nodes.find(names, lambda k: f"{path}: column {names[k]!r} of a wide table")
    values = [numbers_or_nan(table.column(name), f"{path}: column {name!r}") for name in names]
    labels = [nodes.labels[k] for k in found.tolist()]
    return as_panel(labels, stamps, np.array(values), options.resolution)


def _of_xarray(path: Path, nodes: Nodes, options: SeriesOptions) -> dict[str, Panel]:
    """Panels of variables of a NetCDF file or a Zarr store."""
    with _opened(path) as data:
        if options.time_column not in data.dims:
            raise InvalidInputError(
                f"--time-column: {path}: expected one of the dimensions "
                f"{listed(sorted(map(str, data.dims)))}, got {options.time_column!r}"
            )
        over_time = [
            str(name) for name, found in data.data_vars.items()
            if options.time_column in found.dims and found.ndim == 2
        ]  # fmt: skip
        wanted = options.value_column or tuple(
            over_time if len(over_time) == 1 else [n for n in over_time if n == "value"]
        )
        unknown = [name for name in wanted if name not in over_time]
        if unknown or not wanted:
            raise InvalidInputError(
                f"--target: {path}: expected variables of nodes and times, of which there "
                f"are {listed(over_time) or 'none'}, got {listed(unknown) or 'none'}"
            )
        return {name: _of_variable(data[name], path, nodes, options) for name in wanted}


def _of_variable(data: Any, path: Path, nodes: Nodes, options: SeriesOptions) -> Panel:
    time = options.time_column
    (node,) = (dim for dim in data.dims if dim != time)
    check_memory(8.0 * data.size, f"{path}: its values", "give a part of the file")
    where = f"{path}: dimension {time!r}"
    stamps = read_stamps(data.coords[time].values if time in data.coords else
                         np.arange(data.sizes[time]), where)  # fmt: skip
    given = data.coords[node].values.tolist() if node in data.coords else range(data.sizes[node])
    texts = [label.decode() if isinstance(label, bytes) else str(label) for label in given]
    found = nodes.find(texts, lambda k: f"{path}: dimension {node!r}, place {k}")
    labels = [nodes.labels[k] for k in found.tolist()]
    values = data.transpose(node, time).values
    return as_panel(labels, _in_zone(stamps, where, options), values, options.resolution)


def _opened(path: Path) -> Any:
    """The content of a NetCDF file or a Zarr store."""
    xr = library("xarray", f"{path}: reading NetCDF and Zarr")
    is_store = path.suffix.lower() in ZARR
    if is_store and not path.is_dir():
        path.open("rb").close()  # an error of the system names the file
        raise InvalidInputError(f"{path}: expected the folder of a Zarr store, got a file")
    source = path if is_store else on_disk(path)
    try:
        return xr.open_zarr(source) if is_store else xr.open_dataset(source)
    except (ValueError, KeyError, OSError, RuntimeError, TypeError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        kind = "a Zarr store" if is_store else "a file of NetCDF"
        text = " ".join(str(error).split())
        raise InvalidInputError(f"{path}: expected {kind}: {text:.200}") from None
