"""Speeds of loop sensors over months: METR-LA (Los Angeles) and PEMS-BAY (San Francisco Bay).

Both were published with "Diffusion convolutional recurrent neural network" (Li, Yu, Shahabi and
Liu, 2018). Speeds are a file of HDF5 (`metr-la.h5`, `pems-bay.h5`, written by pandas) or of CSV, in
which zero stands for a missing value. The graph is a matrix of weights in CSV, or a table of road
distances between sensors (`distances_la_2012.csv`), to which the weights

    w_ij = exp(-(d_ij / sigma)^2), zero below 0.1,   sigma = standard deviation of all distances,

belong. The published pickle of the graph is not read: a pickle may run any program.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import DataNotFoundError, InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray
from data_loaders.files import ENVIRONMENT_VARIABLE, download, local_file

INSTALL = 'pip install "coupledgp[netcdf]"'
MINUTES = 5
LEAST_WEIGHT = 0.1
CHECKSUM = re.compile(r"#sha256=([0-9a-f]{64})", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class SpeedSeries:
    """Speeds of sensors over time, and the graph of the sensors.

    `GraphTimeGPRegressor(data.graph).fit(data.nodes, data.speeds, times=data.times)` fits them.

    Attributes
    ----------
    graph : Graph
        Its nodes are the sensors, and further nodes without a sensor.
    nodes : list of length n_sensors
        Labels of the sensors.
    times : NDArray (n_times,)
        `datetime64` by local clocks, or numbers of weeks.
    speeds : FloatArray (n_sensors, n_times)
        Miles per hour, NaN where missing.
    positions : FloatArray (n_nodes, 2) or None
        Longitude and latitude of each node of the graph in degrees.
    weights : FloatArray (n_sensors, n_sensors) or None
        Weights from sensor to sensor, which may differ by direction; the graph has the larger one.
    source : str
        Where the data came from, in words.
    """

    graph: Graph
    nodes: list[Any] = field(repr=False)
    times: NDArray[Any] = field(repr=False)
    speeds: FloatArray = field(repr=False)
    positions: FloatArray | None = field(repr=False)
    weights: FloatArray | None = field(repr=False)
    source: str


@dataclass(frozen=True)
class NetworkFiles:
    """Names of the files of a network, the best first, and the time of its first row."""

    name: str
    speeds: tuple[str, ...]
    graphs: tuple[str, ...]
    places: tuple[str, ...]
    start: str


METR_LA = NetworkFiles(
    "METR-LA",
    ("metr-la.h5", "METR-LA.csv", "metr_la.csv", "metr_la_speed_5days.csv"),
    ("distances_la_2012.csv", "metr_la_adjacency.csv"),
    ("graph_sensor_locations.csv",),
    "2012-03-01T00:00",
)
PEMS_BAY = NetworkFiles(
    "PEMS-BAY",
    ("pems-bay.h5", "PEMS-BAY.csv", "pems_bay.csv"),
    ("distances_bay_2017.csv", "pems_bay_adjacency.csv"),
    ("graph_sensor_locations_bay.csv", "graph_sensor_locations_pems_bay.csv"),
    "2017-01-01T00:00",
)


def load_metr_la(
    data_dir: str | Path | None = None,
    speeds: str | Path | None = None,
    graph: str | Path | None = None,
) -> SpeedSeries:
    """Load speeds of 207 sensors in Los Angeles, every five minutes from 1 March 2012 on.

    Parameters
    ----------
    data_dir
        Folder that holds a folder `traffic`; None means the folder that the environment variable
        COUPLEDGP_DATA names. Of the files there the first is read: `metr-la.h5`, `METR-LA.csv`,
        `metr_la.csv`, `metr_la_speed_5days.csv`; and of the graph `distances_la_2012.csv`,
        `metr_la_adjacency.csv`.
    speeds
        File of speeds instead: HDF5 as pandas writes it, or CSV with a header of sensors and, if
        its name is no number, a first column of times. Or its address with its checksum at the
        end, `https://host/metr-la.h5#sha256=...`, from which it is downloaded once.
    graph
        File of the graph instead, or its address: a matrix of weights without a header in the order
        of the sensors, or a table from, to, cost of distances, with or without a header.

    Returns
    -------
    SpeedSeries
        Zero speeds are missing.

    Raises
    ------
    DataNotFoundError
        There are no such files, or a download fails; or h5py is not installed.
    InvalidInputError
        A file is of another format, or an address has no checksum.
    """
    return _load(METR_LA, data_dir, speeds, graph)


def load_pems_bay(
    data_dir: str | Path | None = None,
    speeds: str | Path | None = None,
    graph: str | Path | None = None,
) -> SpeedSeries:
    """Load speeds of 325 sensors around San Jose, every five minutes from 1 January 2017 on.

    Files are `pems-bay.h5`, `PEMS-BAY.csv` or `pems_bay.csv`, and `distances_bay_2017.csv` or
    `pems_bay_adjacency.csv`; everything else is as in `load_metr_la`.
    """
    return _load(PEMS_BAY, data_dir, speeds, graph)


def _load(
    spec: NetworkFiles,
    data_dir: str | Path | None,
    speeds: str | Path | None,
    graph: str | Path | None,
) -> SpeedSeries:
    speed_file = _found(spec, data_dir, spec.speeds, speeds, "speeds")
    graph_file = _found(spec, data_dir, spec.graphs, graph, "graph")
    sensors, times, values = read_speeds(speed_file, spec.start)
    weights = read_weights(graph_file, sensors)
    within = np.where(np.eye(len(sensors), dtype=bool), 0.0, np.maximum(weights, weights.T))
    found = local_file(data_dir, "traffic", *spec.places)
    places = None if found is None else _positions(found, sensors)
    source = f"{spec.name}: files {speed_file.name}, {graph_file.name}"
    return SpeedSeries(
        Graph.from_scipy(within, sensors), sensors, times, values, places, weights, source
    )


def _found(
    spec: NetworkFiles,
    data_dir: str | Path | None,
    names: tuple[str, ...],
    given: str | Path | None,
    name: str,
) -> Path:
    """A file: the given one, a download, or the first of some names in a folder."""
    if given is not None and "://" in str(given):
        address = str(given)
        checksum = CHECKSUM.search(address)
        if checksum is None:
            raise InvalidInputError(
                f"{name}: expected the file's checksum at the end of its address, as in "
                f"{address.split('#')[0]}#sha256=..., got none"
            )
        url = address[: checksum.start()]
        return download(url, checksum[1].lower(), url.rsplit("/", 1)[-1] or f"{spec.name}-{name}")
    if given is not None:
        if not Path(given).is_file():
            raise DataNotFoundError(f"{name}: expected a file, got {str(given)!r}")
        return Path(given)
    found = local_file(data_dir, "traffic", *names)
    if found is not None:
        return found
    raise DataNotFoundError(
        f"{spec.name}: expected one of {', '.join(names)} in the folder `traffic` under the one "
        f"that {ENVIRONMENT_VARIABLE} names; or give {name}= as a path, or as the address of a "
        "copy with its checksum, https://...#sha256=..."
    )


def read_speeds(path: Path, start: str) -> tuple[list[Any], NDArray[Any], FloatArray]:
    """Sensors (p,), times (n,) and speeds (p, n) of a file; zero is missing.

    Parameters
    ----------
    path
        HDF5 (.h5, .hdf5, .hdf), or CSV.
    start
        Time of the first row of a CSV file without a column of times, of five-minute steps.
    """
    if path.suffix.lower() in (".h5", ".hdf5", ".hdf"):
        sensors, times, values = _of_hdf5(path)
    else:
        sensors, times, values = _of_csv(path, start)
    return _labels(sensors), times, np.where(values == 0, np.nan, values).T


def _of_csv(path: Path, start: str) -> tuple[list[Any], NDArray[Any], FloatArray]:
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(path)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path}: expected a CSV file of speeds: {error}") from None
    names = table.column_names
    times = np.datetime64(start) + np.timedelta64(MINUTES, "m") * np.arange(table.num_rows)
    if not names[0].strip().isdigit():
        stamps, names = table.column(0), names[1:]
        if pa.types.is_date(stamps.type):
            stamps = stamps.cast(pa.timestamp("s"))
        if not pa.types.is_timestamp(stamps.type):
            raise InvalidInputError(
                f"{path}: expected times in the first column {table.column_names[0]!r}, got "
                f"{stamps.type}"
            )
        times = stamps.to_numpy()
    try:
        columns = [table.column(name).cast(pa.float64()).to_numpy() for name in names]
    except (pa.ArrowInvalid, KeyError) as error:  # no number; a name that comes twice
        raise InvalidInputError(f"{path}: expected a column of speeds a sensor: {error}") from None
    return names, times, np.column_stack(columns)


def _of_hdf5(path: Path) -> tuple[list[Any], NDArray[Any], FloatArray]:
    """Read a table of pandas in its fixed format: axis0 are columns, axis1 times."""
    try:
        import h5py
    except ImportError as error:
        raise DataNotFoundError(
            f"{path.name}: files of HDF5 need h5py, from the extra `netcdf` ({INSTALL})"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            group = next((found for found in file.values() if "block0_values" in found), None)
            if group is None or "block1_values" in group:
                raise InvalidInputError(
                    f"{path}: expected one table of numbers in pandas' fixed format, got "
                    f"{sorted(file)}"
                )
            items, stamps = group["block0_items"], group["axis1"]
            if items.dtype.kind not in "iS" or stamps.dtype.kind != "i":
                raise InvalidInputError(
                    f"{path}: expected numbers or texts of sensors and times, got axes of "
                    f"{items.dtype} and {stamps.dtype}"
                )
            sensors, values = items[:].tolist(), np.asarray(group["block0_values"], np.float64)
            kind = stamps.attrs.get("kind", b"datetime64")
            times = stamps[:].astype(f"datetime64[{_unit(kind)}]")
    except OSError as error:
        raise InvalidInputError(f"{path}: expected a file of HDF5: {error}") from None
    names = [name.decode() if isinstance(name, bytes) else name for name in sensors]
    if values.shape != (times.size, len(names)):
        raise InvalidInputError(
            f"{path}: expected speeds of shape {(times.size, len(names))}, got {values.shape}"
        )
    return names, times, values


def _unit(kind: Any) -> str:
    """The resolution of pandas' times: `datetime64` are nanoseconds, others say theirs."""
    text = kind.decode() if isinstance(kind, bytes) else str(kind)
    found = re.search(r"datetime64\[(\w+)", text)
    return "ns" if found is None else found[1]


def _labels(names: list[Any]) -> list[Any]:
    """Numbers of sensors as ints where all are such."""
    texts = [str(name).strip() for name in names]
    return [int(text) for text in texts] if all(text.isdigit() for text in texts) else texts


def read_weights(path: Path, sensors: list[Any]) -> FloatArray:
    """Weights (p, p) between sensors (p,), by a matrix or a table of distances in CSV."""
    rows = _rows(path)
    n_sensors = len(sensors)
    if rows.shape == (n_sensors, n_sensors) and n_sensors != 3:
        if not (np.isfinite(rows).all() and (rows >= 0).all()):
            raise InvalidInputError(f"{path}: expected weights >= 0, got others")
        return rows
    if rows.shape[1] != 3:
        raise InvalidInputError(
            f"{path}: expected a matrix {(n_sensors, n_sensors)} of weights or a table from, to, "
            f"cost, got shape {rows.shape}"
        )
    number = {sensor: k for k, sensor in enumerate(sensors)}
    ends = [[number.get(int(value), -1) for value in rows[:, k].tolist()] for k in (0, 1)]
    start, end = np.array(ends)
    known = (start >= 0) & (end >= 0)
    return distance_weights(start[known], end[known], rows[known, 2], n_sensors)


def distance_weights(
    start: NDArray[np.int64], end: NDArray[np.int64], distances: FloatArray, n_sensors: int
) -> FloatArray:
    """Weights (p, p) by the thresholded Gaussian kernel of distances (m,) between sensors.

    Raises
    ------
    InvalidInputError
        There are no distances, they are all equal, or one is negative or not finite.
    """
    usable = distances.size > 0 and bool(np.isfinite(distances).all() and (distances >= 0).all())
    spread = float(np.std(distances)) if usable else 0.0
    if not spread > 0:
        raise InvalidInputError(
            "graph: expected finite distances >= 0 between the sensors, not all equal, got others"
        )
    weights = np.zeros((n_sensors, n_sensors))
    weights[start, end] = np.exp(-np.square(distances / spread))
    weights[weights < LEAST_WEIGHT] = 0.0
    return weights


def _positions(path: Path, sensors: list[Any]) -> FloatArray | None:
    """Longitude and latitude (p, 2) by a table of number, latitude, longitude; None if unknown."""
    rows = _rows(path)[:, -3:]
    places = {int(sensor): (lon, lat) for sensor, lat, lon in rows.tolist()}
    if not all(sensor in places for sensor in sensors):
        return None
    return np.array([places[sensor] for sensor in sensors])


def _rows(path: Path) -> FloatArray:
    """Numbers of a CSV file of any width, without its header if it has one."""
    with path.open(encoding="utf-8") as file:
        first = file.readline().split(",")[0].strip().strip('"')
    try:
        float(first)
        skipped = 0
    except ValueError:
        skipped = 1
    try:
        return np.loadtxt(path, delimiter=",", skiprows=skipped, ndmin=2, encoding="utf-8")
    except (ValueError, UnicodeError) as error:
        raise InvalidInputError(f"{os.fspath(path)}: expected rows of numbers: {error}") from None
