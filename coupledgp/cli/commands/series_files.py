"""Laws over time as files, written in blocks of times: CSV, Parquet, JSON, NetCDF and Zarr."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from coupledgp.cli.readers.networks import label_column
from coupledgp.cli.readers.series import NETCDF, ZARR
from coupledgp.cli.readers.tables import DELIMITERS, JSON, PARQUET, is_parquet, table_writer
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import library
from coupledgp.ground.memory import check_memory
from coupledgp.ground.output import folder_written_whole, written_whole
from coupledgp.random import FloatArray
from coupledgp.series import TimeAxis

KINDS = ("observed", "gap", "forecast", "hidden")
NUMBERS = ("mean", "std", "lower", "upper")
# Standard deviations from the mean to the ends of a 95 % interval.
WIDTH = 1.959963984540054
ENDINGS = (*DELIMITERS, JSON, *PARQUET, *NETCDF, *ZARR)
# Bytes of a node at a time on a grid: four numbers and a kind.
CELL_BYTES = 33
# Characters for which a text of CSV needs quotes.
SPECIAL = set(',"\t\r\n')
# Files of which a Zarr store has one.
ZARR_MARKS = ("zarr.json", ".zgroup", ".zmetadata")


class SeriesLaw(NamedTuple):
    """The law at nodes and times.

    Attributes
    ----------
    mean, std : FloatArray (p, m)
    kinds : NDArray (p, m) of int8
        Places in `KINDS`.
    """

    mean: FloatArray
    std: FloatArray
    kinds: NDArray[np.int8]

    def at(self, times: slice) -> SeriesLaw:
        """The law at some of the times."""
        return SeriesLaw(self.mean[:, times], self.std[:, times], self.kinds[:, times])

    def columns(self) -> dict[str, FloatArray]:
        """Mean, standard deviation and the ends of the 95 % interval, each (p, m)."""
        ends = self.mean - WIDTH * self.std, self.mean + WIDTH * self.std
        return dict(zip(NUMBERS, (self.mean, self.std, *ends), strict=True))


@dataclass(frozen=True, eq=False)
class LawLayout:
    """Nodes and times of a file.

    Attributes
    ----------
    labels : Sequence of length p
        Labels of the nodes.
    axis : TimeAxis
        By which times are written.
    times : FloatArray (n,)
        Numbers of the axis.
    names : Sequence of str
        Names of the values; a single one is not written.
    """

    labels: Sequence[Any]
    axis: TimeAxis
    times: FloatArray
    names: Sequence[str]

    def column(self, name: str, quantity: str) -> str:
        """Name of the column of a quantity of a value."""
        return quantity if len(self.names) == 1 else f"{name}_{quantity}"


class LawWriter(ABC):
    """Writes laws at the times of a layout, block after block."""

    def __init__(self, path: Path, layout: LawLayout) -> None:
        self.path, self.layout, self.place = path, layout, 0

    def write(self, laws: Mapping[str, SeriesLaw]) -> None:
        """Write the laws of the next times, by the names of the values."""
        n_times = next(iter(laws.values())).mean.shape[1]
        self._write(slice(self.place, self.place + n_times), laws)
        self.place += n_times

    @abstractmethod
    def _write(self, where: slice, laws: Mapping[str, SeriesLaw]) -> None:
        """Write laws of the times in a slice."""

    @abstractmethod
    def close(self) -> None:
        """Write all buffered laws."""


def check_law_path(path: Path, name: str) -> None:
    """Refuse a path whose ending names no format, or one whose libraries are not installed."""
    kind = path.suffix.lower()
    if kind not in ENDINGS:
        raise InvalidInputError(
            f"{name}: expected a path ending in {', '.join(ENDINGS)}, got {str(path)!r}"
        )
    if kind in (*NETCDF, *ZARR):
        for needed in ("xarray", "h5netcdf" if kind in NETCDF else "zarr"):
            library(needed, f"{name}: {kind}")


@contextmanager
def law_written(path: Path) -> Iterator[Path]:
    """Yield a temporary file or folder, which replaces `path` unless an error is raised."""
    if path.suffix.lower() in ZARR:
        with folder_written_whole(path, ZARR_MARKS, "a Zarr store") as folder:
            yield folder
    else:
        with written_whole(path) as file:
            yield file


@contextmanager
def law_writer(path: Path, like: Path, layout: LawLayout) -> Iterator[LawWriter]:
    """A writer to `path` in the format that the ending of `like` names."""
    kind = like.suffix.lower()
    if kind in (*ZARR, *NETCDF):
        writer: LawWriter = _GridWriter(path, layout, kind in ZARR)
    else:
        writer = _TableWriter(path, layout, like)
    try:
        yield writer
    finally:
        writer.close()


class _TableWriter(LawWriter):
    """A long table: a row for each time and node, times outside."""

    def __init__(self, path: Path, layout: LawLayout, like: Path) -> None:
        super().__init__(path, layout)
        self._labels = label_column(layout.labels)
        self._kinds = pa.array(KINDS)
        self._like, self._stack = like, ExitStack()
        self._add: Callable[[pa.Table], None] | None = None
        if like.suffix.lower() in DELIMITERS:
            self._labels = self._labels.cast(pa.string())

    def _write(self, where: slice, laws: Mapping[str, SeriesLaw]) -> None:
        times = self.layout.times[where]
        n_nodes = len(self.layout.labels)
        nodes = pa.array(np.tile(np.arange(n_nodes), times.size))
        steps = pa.array(np.repeat(np.arange(times.size), n_nodes))
        columns = {"node": self._labels.take(nodes), "time": self._times(times).take(steps)}
        for name, law in laws.items():
            for quantity, values in law.columns().items():
                columns[self.layout.column(name, quantity)] = pa.array(values.T.ravel())
            kinds = self._kinds.take(pa.array(law.kinds.T.ravel()))
            columns[self.layout.column(name, "kind")] = kinds
        table = pa.table(columns)
        if self._add is None:
            self._add = self._opened(table.column_names)
        self._add(table)

    def _times(self, times: FloatArray) -> pa.Array:
        """Times as a column: of their own type in Parquet, by ISO 8601 in text."""
        axis = self.layout.axis
        if axis.origin is None:
            return pa.array(axis.labels(times))
        if not is_parquet(self._like):
            return pa.array(axis.texts(times))
        ticks = pa.array(axis.instants(times))
        unit = "ns" if axis.tick == 1 else "us"
        return ticks.cast(pa.timestamp("ns", tz=axis.zone)).cast(pa.timestamp(unit, tz=axis.zone))

    def _opened(self, names: list[str]) -> Callable[[pa.Table], None]:
        """A function that adds rows; text is written by pyarrow, which is quick."""
        delimiter = DELIMITERS.get(self._like.suffix.lower())
        if delimiter is None:
            return self._stack.enter_context(table_writer(self.path, self._like))
        sink = self._stack.enter_context(self.path.open("wb"))
        header = io.StringIO()
        csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(names)
        sink.write(header.getvalue().encode())
        # The other style puts quotes around every text.
        plain = not any(SPECIAL & set(str(label)) for label in self.layout.labels)
        options = pa.csv.WriteOptions(
            include_header=False, delimiter=delimiter, quoting_style="none" if plain else "needed"
        )

        def add(table: pa.Table) -> None:
            with pa.csv.CSVWriter(sink, table.schema, write_options=options) as rows:
                rows.write_table(table)

        return add

    def close(self) -> None:
        self._stack.close()


class _GridWriter(LawWriter):
    """Variables over nodes and times, by the conventions for climate and forecast data (CF)."""

    def __init__(self, path: Path, layout: LawLayout, is_store: bool) -> None:
        super().__init__(path, layout)
        size = layout.times.size * len(layout.labels) * len(layout.names)
        check_memory(2.0 * CELL_BYTES * size, "--output: laws on a grid", "choose fewer times")
        self._is_store = is_store
        self._blocks: dict[str, list[NDArray[Any]]] = {}

    def _write(self, where: slice, laws: Mapping[str, SeriesLaw]) -> None:
        for name, law in laws.items():
            found: dict[str, NDArray[Any]] = {**law.columns(), "kind": law.kinds}
            for quantity, values in found.items():
                self._blocks.setdefault(self.layout.column(name, quantity), []).append(values)

    def close(self) -> None:
        if self.place < self.layout.times.size:
            return  # an error ended the work
        import xarray as xr

        kinds = {"flag_values": np.arange(len(KINDS), dtype=np.int8),
                 "flag_meanings": " ".join(KINDS)}  # fmt: skip
        variables = {
            name: (("node", "time"), np.concatenate(blocks, axis=1),
                   kinds if name.endswith("kind") else {}, {"_FillValue": None})
            for name, blocks in self._blocks.items()
        }  # fmt: skip
        whole = xr.Dataset(variables, self._coordinates())
        if self._is_store:  # version 2 is what every reader knows
            whole.to_zarr(self.path, mode="w", zarr_format=2, consolidated=True)
        else:
            whole.to_netcdf(self.path, engine="h5netcdf")

    def _coordinates(self) -> dict[str, Any]:
        """Labels of nodes, and times with attributes that state their unit."""
        axis, labels = self.layout.axis, self.layout.labels
        whole = all(type(label) is int for label in labels)
        nodes = np.array(labels if whole else [str(label) for label in labels])
        if axis.origin is None:
            return {"node": nodes, "time": axis.labels(self.layout.times)}
        since = {"units": "nanoseconds since 1970-01-01", "calendar": "proleptic_gregorian"}
        if axis.zone is not None:
            since["time_zone"] = f"instants in UTC; local clocks are those of {axis.zone}"
        return {"node": nodes, "time": ("time", axis.instants(self.layout.times), since)}
