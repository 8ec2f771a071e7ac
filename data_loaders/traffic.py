"""Traffic speeds on the highways of San Jose: a road graph, its positions, sensors and speeds.

The graph has 1016 nodes, 325 of them sensors, and 1173 roads (OpenStreetMap; Caltrans Performance
Measurement System, through the R package MetricGraph). The weight of an edge is mean length /
length, as in "Variance-reducing couplings", appendix F.2.

It is read from the tables `nodes.csv`, `edges.csv` and `speeds.csv` of `<folder>/traffic`, else
built from the file `pems.rda` there, else from a download of that file. `load_san_jose` gives the
speeds of all 26 Mondays; `load_metr_la` and `load_pems_bay` give speeds of other sensors, every
five minutes (`data_loaders.traffic_series`).
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv
from scipy.spatial import KDTree

from coupledgp.errors import DataNotFoundError, InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray
from data_loaders.files import INSTALL, download, local_file
from data_loaders.traffic_series import SpeedSeries as SpeedSeries
from data_loaders.traffic_series import load_metr_la as load_metr_la
from data_loaders.traffic_series import load_pems_bay as load_pems_bay

EARTH_RADIUS = 6_371_008.8  # mean radius in metres (IUGG)
_URL = (
    "https://raw.githubusercontent.com/davidbolin/MetricGraph/"
    "9aec28eece615b0540b5fd1b719e4f792bfece14/data/pems.rda"
)
_SHA256 = "c55598bc833888cd2c22ec009cbd3d6dacdb9ddd92b0303e64c81332ba49b1df"
_WEEKS_URL = _URL.replace("pems.rda", "pems_repl.rda")
_WEEKS_SHA256 = "c13fcda99d314eb84e522afac9751da679f1859bf4e751d3c2c5d26ac0eeef05"
# Degrees by which two positions of one sensor may differ: a centimetre.
_NEAR = 1e-7


@dataclass(frozen=True, eq=False)
class TrafficData:
    """A road graph with speeds at some of its nodes.

    Attributes
    ----------
    graph
        Nodes are numbers; weights are mean length over length.
    positions
        Longitude and latitude of each node in degrees, shape (n_nodes, 2).
    sensors
        Nodes with a sensor, shape (n_sensors,).
    speeds
        Speed at each sensor in miles per hour, the mean of 26 Mondays at 17:30, shape (n_sensors,).
    lengths
        Length of each road in metres, shape (n_roads,).
    ends
        Nodes at both ends of each road, shape (n_roads, 2).
    source
        Where the data came from, in words.
    """

    graph: Graph
    positions: FloatArray = field(repr=False)
    sensors: NDArray[np.int64] = field(repr=False)
    speeds: FloatArray = field(repr=False)
    lengths: FloatArray = field(repr=False)
    ends: NDArray[np.int64] = field(repr=False)
    source: str


def load(data_dir: str | Path | None = None) -> TrafficData:
    """Load the road graph and the speeds.

    Parameters
    ----------
    data_dir
        Folder that holds a folder `traffic`; None means the folder that the environment variable
        COUPLEDGP_DATA names.

    Raises
    ------
    DataNotFoundError
        Neither the tables nor `pems.rda` are on disk, and the download fails; or rdata, which reads
        `pems.rda`, is not installed.
    """
    path = local_file(data_dir, "traffic", "edges.csv", "pems.rda")
    if path is not None and path.name == "edges.csv":
        return from_tables(path.parent)
    return from_pems(path or download(_URL, _SHA256, "pems.rda"))


def load_san_jose(data_dir: str | Path | None = None) -> SpeedSeries:
    """Load the speeds of 26 Mondays at 17:30 on the graph of San Jose that `load` gives.

    They are in the file `pems_repl.rda` of `<folder>/traffic`, else in a download of it. 319 of the
    325 sensors report, each on all Mondays; they are found by their positions.

    Parameters
    ----------
    data_dir
        As in `load`.

    Returns
    -------
    SpeedSeries
        Nodes are numbers of the graph; times are the numbers 1 to 26 of the Mondays.

    Raises
    ------
    DataNotFoundError
        As in `load`; or rdata is not installed.
    InvalidInputError
        The file holds no table `pems_repl` of these sensors.
    """
    traffic = load(data_dir)
    path = local_file(data_dir, "traffic", "pems_repl.rda")
    path = path or download(_WEEKS_URL, _WEEKS_SHA256, "pems_repl.rda")
    content = _read_r_file(path)
    if "pems_repl" not in content:
        raise InvalidInputError(f"path: {path} should hold 'pems_repl', got {sorted(content)}")
    data = content["pems_repl"]["data"]
    places = data[[".coord_x", ".coord_y"]].to_numpy(dtype=np.float64)
    away, found = KDTree(traffic.positions[traffic.sensors]).query(places)
    if away.max() > _NEAR:
        raise InvalidInputError(
            f"path: {path} should hold sensors at nodes of the graph, got one {away.max():g} "
            "degrees away from the nearest"
        )
    numbers, rows = np.unique(found, return_inverse=True)
    weeks, columns = np.unique(data["repl"].to_numpy(dtype=np.int64), return_inverse=True)
    speeds = np.full((numbers.size, weeks.size), np.nan)
    speeds[rows, columns] = data["y"].to_numpy(dtype=np.float64)
    nodes = traffic.sensors[numbers].tolist()
    source = f"{traffic.source}; file {path.name}"
    return SpeedSeries(traffic.graph, nodes, weeks, speeds, traffic.positions, None, source)


def from_tables(folder: Path) -> TrafficData:
    """Read `nodes.csv`, `edges.csv` and `speeds.csv` in a folder."""
    nodes = csv.read_csv(folder / "nodes.csv")
    edges = csv.read_csv(folder / "edges.csv")
    speeds = csv.read_csv(folder / "speeds.csv")
    positions = np.column_stack([nodes["longitude"].to_numpy(), nodes["latitude"].to_numpy()])
    ends = np.column_stack([edges["source"].to_numpy(), edges["target"].to_numpy()])
    return _traffic(
        positions,
        ends.astype(np.int64),
        edges["length_m"].to_numpy(),
        speeds["node"].to_numpy().astype(np.int64),
        speeds["speed_mph_mean"].to_numpy(),
        "tables nodes.csv, edges.csv, speeds.csv",
    )


def from_pems(path: Path) -> TrafficData:
    """Build the graph from MetricGraph's `pems`: roads are polylines, cut where sensors stand.

    The first nodes are the junctions, which are the distinct ends of the polylines in order of
    appearance; the sensors follow. A sensor lies at a given fraction of its road's length.

    Raises
    ------
    DataNotFoundError
        rdata is not installed; the message says how to get it.
    InvalidInputError
        The file holds no table `pems`.
    """
    content = _read_r_file(path)
    if "pems" not in content:
        raise InvalidInputError(f"path: {path} should hold 'pems', got {sorted(content)}")
    pems = content["pems"]
    lines = [np.asarray(line, dtype=np.float64) for line in pems["edges"]["geometry"]]
    data = pems["data"]
    places = data[[".coord_x", ".coord_y"]].to_numpy(dtype=np.float64)
    roads = data[".edge_number"].to_numpy(dtype=np.int64) - 1
    fractions = data[".distance_on_edge"].to_numpy(dtype=np.float64)
    positions, ends, lengths = cut_roads(lines, places, roads, fractions)
    sensors = np.arange(len(positions) - len(places), len(positions))
    speeds = data["y"].to_numpy(dtype=np.float64)
    return _traffic(positions, ends, lengths, sensors, speeds, f"file {path.name}")


def _read_r_file(path: Path) -> dict[str, Any]:
    """Read the objects in a file of R by their names."""
    try:
        import rdata
    except ImportError as error:
        raise DataNotFoundError(
            f"{path.name}: files in R's format need rdata ({INSTALL}); or "
            "put nodes.csv, edges.csv and speeds.csv beside it"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rdata has no converter for the spatial classes
        return dict(rdata.read_rda(path))


def cut_roads(
    lines: list[FloatArray],
    places: FloatArray,
    roads: NDArray[np.int64],
    fractions: FloatArray,
) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
    """Cut polylines at places given by road and fraction.

    Parameters
    ----------
    lines
        Longitudes and latitudes in degrees of each road's points, n_lines arrays (n_points, 2).
    places
        Longitudes and latitudes of the cuts, shape (n_places, 2).
    roads
        Number of the line that each place lies on, shape (n_places,).
    fractions
        Where on its line a place lies, as a fraction of the line's length, shape (n_places,).

    Returns
    -------
    positions : FloatArray (n_nodes, 2)
        Longitudes and latitudes of the junctions, and then of the places.
    ends : NDArray[np.int64] (n_roads, 2)
        Nodes at both ends of each piece.
    lengths : FloatArray (n_roads,)
        Length of each piece in metres.
    """
    junctions: dict[tuple[float, float], int] = {}
    ends = [
        [junctions.setdefault(tuple(point.tolist()), len(junctions)) for point in line[[0, -1]]]
        for line in lines
    ]
    pairs: list[tuple[int, int]] = []
    lengths: list[float] = []
    for road, line in enumerate(lines):
        here = np.flatnonzero(roads == road)
        here = here[np.argsort(fractions[here])]
        stops = [ends[road][0], *(len(junctions) + here).tolist(), ends[road][1]]
        cuts = np.diff(np.concatenate([[0.0], fractions[here], [1.0]]))
        pairs.extend(itertools.pairwise(stops))
        lengths.extend((cuts * line_length(line)).tolist())
    positions = np.concatenate([np.array(list(junctions)), places])
    return positions, np.array(pairs, dtype=np.int64), np.array(lengths)


def line_length(line: FloatArray) -> float:
    """Return the length in metres of a polyline (n_points, 2) of longitudes and latitudes.

    Neighbouring points are joined by great circles (haversine formula).
    """
    radians = np.radians(line)
    step = np.diff(radians, axis=0)
    cosines = np.cos(radians[:-1, 1]) * np.cos(radians[1:, 1])
    half = np.sin(step[:, 1] / 2) ** 2 + cosines * np.sin(step[:, 0] / 2) ** 2
    return float(2 * EARTH_RADIUS * np.arcsin(np.sqrt(half)).sum())


def _traffic(
    positions: FloatArray,
    ends: NDArray[np.int64],
    lengths: FloatArray,
    sensors: NDArray[np.int64],
    speeds: Any,
    source: str,
) -> TrafficData:
    graph = Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=len(positions), lengths=lengths)
    return TrafficData(graph, positions, sensors, np.asarray(speeds), lengths, ends, source)
