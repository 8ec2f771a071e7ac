"""Road networks with values as GeoPackage and GeoJSON."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.formats.projection import LONLAT
from coupledgp.formats.roads import RoadNetwork
from coupledgp.ground.extras import library
from coupledgp.ground.output import written_whole
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray

DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON"}
# Columns that the files have besides the fields.
OWN = ("geometry", "fid", "id", "edge", "node", "source", "target", "length", "row")
Columns = dict[str, FloatArray]


def write_roads(
    path: str | os.PathLike[str],
    roads: RoadNetwork,
    /,
    *,
    location: str | None = None,
    **fields: ArrayLike,
) -> None:
    """Write roads with values: lines with those of edges, points with those of nodes.

    A .gpkg has a layer `edges` (edge, source, target, length in metres, row of the source, fields)
    and, if there are fields of nodes, a layer `nodes`; it keeps the coordinate system of
    `roads.crs`. A .geojson holds the same lines and points in one collection, in longitude and
    latitude as its standard (RFC 7946) asks; without fields of edges it has points only. NaN
    becomes a missing value.

    For values along long roads write shorter pieces, with the values at their middles:

        pieces, middles = roads.split(100.0)
        places = operator.at_edges(middles.edges, middles.offsets)
        mean, std = gp.predict(places, return_std=True)
        cgp.write_roads("law.gpkg", pieces, mean=mean, std=std)

    Parameters
    ----------
    path
        Path of the file, which is written whole or not at all.
    roads
        The network.
    location
        `"edges"` or `"nodes"`, for networks with as many edges as nodes. Else the number of values
        tells where they are.
    **fields
        Values by name, (n_edges,) or (n_nodes,).

    Raises
    ------
    InvalidInputError
        The extension is unknown, a field has a wrong name, shape or value, or a .geojson is asked
        of roads without a coordinate system.
    MissingLibraryError
        A library of the extra `geo` is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import geopandas
    >>> from shapely import LineString
    >>> import coupledgp as cgp
    >>> lines = geopandas.GeoSeries([LineString([(0, 0), (120, 0)])], crs="EPSG:32632")
    >>> roads = cgp.read_roads(lines.to_frame("geometry"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cgp.write_roads(f"{folder}/speed.gpkg", roads, location="nodes", speed=[50.0, 30.0])
    """
    kind = road_format(path, roads)
    layers = road_layers(kind, roads, location, fields)
    with written_whole(path) as temporary:
        save_roads(temporary, kind, layers)


def road_format(path: str | os.PathLike[str], roads: RoadNetwork, name: str = "path") -> str:
    """The extension of a path, which must be one of a format; `name` names the path in errors."""
    kind = Path(path).suffix.lower()
    if kind not in DRIVERS:
        raise InvalidInputError(
            f"{name}: expected a file ending in {' or '.join(DRIVERS)}, got {os.fspath(path)!r}"
        )
    if kind == ".geojson" and roads.crs is None:
        raise InvalidInputError(
            f"{name}: GeoJSON is in longitude and latitude, and the roads have no coordinate "
            "system; write a .gpkg"
        )
    return kind


def road_layers(
    kind: str, roads: RoadNetwork, location: str | None, fields: Mapping[str, ArrayLike]
) -> dict[str, Any]:
    """The tables (`geopandas.GeoDataFrame`) of edges and nodes that a file of the kind holds."""
    at_edges, at_nodes = _sorted_fields(roads, location, fields)
    layers: dict[str, Any] = {}
    if at_edges or not at_nodes or kind == ".gpkg":
        layers["edges"] = _edge_table(roads, at_edges)
    if at_nodes:
        layers["nodes"] = _node_table(roads, at_nodes)
    return layers


def save_roads(path: Path, kind: str, layers: Mapping[str, Any]) -> None:
    """Write tables at a path of any name, as GeoPackage or GeoJSON."""
    library("pyogrio", "writing roads")
    if kind == ".geojson":
        path.write_bytes(_geojson(layers))
        return
    # Beside the file, and by its name: what a killed process leaves is removed with the file.
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as folder:
        made = Path(folder) / f"roads{kind}"
        _write_geopackage(made, layers)
        shutil.copyfile(made, path)


def _sorted_fields(
    roads: RoadNetwork, location: str | None, fields: Mapping[str, ArrayLike]
) -> tuple[Columns, Columns]:
    """Fields of edges, and fields of nodes."""
    if location is not None:
        check_choice(location, ("edges", "nodes"), "location")
    counts = {"edges": roads.n_edges, "nodes": roads.n_nodes}
    placed: dict[str, Columns] = {"edges": {}, "nodes": {}}
    for name, given in fields.items():
        if not name or name.lower() in OWN:
            raise InvalidInputError(
                f"fields: expected a name that is none of {', '.join(OWN)}, got {name!r}"
            )
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{name}: expected numbers: {error}") from error
        fitting = [
            place for place, count in counts.items()
            if values.shape == (count,) and location in (None, place)
        ]  # fmt: skip
        if len(fitting) != 1 or np.isinf(values).any():
            _refuse(name, values, counts, fitting)
        placed[fitting[0]][name] = values
    return placed["edges"], placed["nodes"]


def _refuse(name: str, values: FloatArray, counts: dict[str, int], fitting: list[str]) -> None:
    if len(fitting) == 2:
        raise InvalidInputError(
            f"{name}: expected location='edges' or location='nodes', as the network has "
            f"{values.size} of both"
        )
    if fitting:
        raise InvalidInputError(f"{name}: expected values that are not infinite")
    raise InvalidInputError(
        f"{name}: expected {counts['edges']} values at edges or {counts['nodes']} at nodes, got "
        f"shape {values.shape}"
    )


def _edge_table(roads: RoadNetwork, fields: Columns) -> Any:
    shapely = library("shapely", "writing roads")
    sizes = [len(line) for line in roads.lines]
    places = _coordinates(roads, np.concatenate(roads.lines))
    lines = shapely.linestrings(places, indices=np.repeat(np.arange(len(sizes)), sizes))
    names = _names(roads)
    columns = {
        "edge": np.arange(roads.n_edges),
        "source": names[roads.ends[:, 0]],
        "target": names[roads.ends[:, 1]],
        "length": roads.lengths,
        "row": roads.rows,
        **fields,
    }
    return _table(roads, columns, lines)


def _node_table(roads: RoadNetwork, fields: Columns) -> Any:
    shapely = library("shapely", "writing roads")
    points = shapely.points(_coordinates(roads, roads.positions))
    return _table(roads, {"node": _names(roads), **fields}, points)


def _coordinates(roads: RoadNetwork, places: FloatArray) -> FloatArray:
    """Places (p, 2) in the units of the roads' coordinate system."""
    return places / roads.plane.unit


def _names(roads: RoadNetwork) -> Any:
    """Names (n,) of the nodes: integers if all are, else texts."""
    labels = range(roads.n_nodes) if roads.labels is None else roads.labels
    if all(isinstance(label, int | np.integer) for label in labels):
        return np.array(labels, dtype=np.int64)
    return np.array([str(label) for label in labels], dtype=object)


def _table(roads: RoadNetwork, columns: dict[str, Any], geometry: Any) -> Any:
    geopandas = library("geopandas", "writing roads")
    return geopandas.GeoDataFrame(columns, geometry=geometry, crs=roads.crs)


def _geojson(layers: Mapping[str, Any]) -> bytes:
    """Tables one below the other. In memory, as GDAL says nothing of an end that did not fit."""
    import pandas

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "'crs' was not provided")  # metres of no known place
        joined = pandas.concat([table.to_crs(LONLAT) for table in layers.values()])
        joined.to_file(buffer, driver=DRIVERS[".geojson"], engine="pyogrio", RFC7946="YES")
    return buffer.getvalue()


def _write_geopackage(path: Path, layers: Mapping[str, Any]) -> None:
    """Write tables as layers; count their rows in the file and its index, as GDAL drops in silence.

    Raises
    ------
    OSError
        The file does not hold them all: the disk is full, or a limit is reached.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'crs' was not provided")
            for name, table in layers.items():
                table.to_file(path, layer=name, driver=DRIVERS[".gpkg"], engine="pyogrio")
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            (sound,) = database.execute("PRAGMA quick_check").fetchone()
            names = [(name, table) for table in layers for name in (table, f"rtree_{table}_geom")]
            for name, layer in names:
                (count,) = database.execute(f'SELECT count(*) FROM "{name}"').fetchone()
                if sound != "ok" or count != len(layers[layer]):
                    raise RuntimeError(f"{count} of {len(layers[layer])} {layer} are in the file")
    except (RuntimeError, sqlite3.Error) as error:  # pyogrio's errors are of the first class
        raise OSError(errno.EIO, f"the file could not be written whole: {error}") from error
