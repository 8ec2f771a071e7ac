"""Triangle meshes with values at vertices or faces: VTK, PLY and glTF.

Road networks with values, and laws over places and times, as GeoPackage and GeoJSON.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.fields.roads import LONLAT, RoadNetwork
from coupledgp.ground.extras import library
from coupledgp.ground.forms import mesh_arrays
from coupledgp.ground.output import written_whole
from coupledgp.ground.validation import check_choice, wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

Location = Literal["vertices", "faces"]
Columns = dict[str, FloatArray]
VTK = "writing .vtu and .vtk"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Red, green, blue and opacity of a place without a value.
GREY = (0xC9, 0xCE, 0xD3, 0xFF)
# Rounding of coordinates to single precision that goes without a warning, relative to the extent.
ROUNDING = 1e-6
# Names that the formats use themselves.
TAKEN = ("x", "y", "z", "red", "green", "blue", "alpha", "vertex_indices")


@dataclass(frozen=True)
class MeshFields:
    """A mesh and its fields, checked.

    Attributes
    ----------
    vertices : FloatArray (v, 3)
    faces : IntArray (f, 3)
    at_vertices, at_faces : dict of FloatArray (v,) and (f,)
        Fields by name.
    """

    vertices: FloatArray
    faces: IntArray
    at_vertices: dict[str, FloatArray]
    at_faces: dict[str, FloatArray]

    def coloured(self) -> tuple[str, FloatArray] | None:
        """Location and values of the field that gives colours: `mean`, else the first one."""
        for wanted in ("mean", None):
            for place, fields in (("vertices", self.at_vertices), ("faces", self.at_faces)):
                for name, values in fields.items():
                    if wanted in (name, None):
                        return place, values
        return None


def write_mesh(
    path: str | os.PathLike[str],
    mesh: Any,
    /,
    *,
    location: Location | None = None,
    **fields: ArrayLike,
) -> None:
    """Write a triangle mesh with fields; the extension of the path tells the format.

    | extension | fields | read by |
    |---|---|---|
    | .vtu, .vtk | point data and cell data, float64 | ParaView, PyVista, meshio |
    | .ply | properties of vertices and faces, float64; colours | MeshLab, Blender, trimesh |

    Colours are those of the field `mean`, or of the first one without it: viridis from its least to
    its greatest value, grey where it is NaN. Of a PLY, PyVista reads colours alone, and meshio no
    properties of faces; .vtu is the format for them. VTK files need the extra `geo`.

    Parameters
    ----------
    path
        Path of the file, which is written whole or not at all.
    mesh
        A mesh of trimesh, PyVista, meshio or open3d, anything with `vertices` (v, 3) and `faces`
        (f, 3), or a pair of these arrays.
    location
        `"vertices"` or `"faces"`, for meshes with as many vertices as faces. Else the number of
        values tells where they are.
    **fields
        Values by name, (v,) or (f,), NaN where missing. Names are letters, digits and underscores.

    Raises
    ------
    InvalidInputError
        The extension is unknown, the mesh is none, or a field has a wrong name, shape or value.
    MissingLibraryError
        meshio is not installed, for .vtu and .vtk.

    Examples
    --------
    >>> import tempfile
    >>> import trimesh
    >>> import coupledgp as cgp
    >>> sphere = trimesh.creation.icosphere(subdivisions=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cgp.write_mesh(f"{folder}/sphere.ply", sphere, height=sphere.vertices[:, 2])
    """
    kind = Path(path).suffix.lower()
    if kind not in WRITERS:
        raise wrong("path", f"a file ending in {', '.join(WRITERS)}", os.fspath(path))
    if kind in (".vtu", ".vtk"):
        library("meshio", VTK)
    vertices, faces = _geometry(mesh)
    if location is not None:
        check_choice(location, ("vertices", "faces"), "location")
    counts = {"vertices": len(vertices), "faces": len(faces)}
    placed: dict[str, Columns] = {"vertices": {}, "faces": {}}
    for name, given in fields.items():
        _check_name(name, fields)
        values = _values(given, name)
        placed[_location(name, values.size, counts, location)][name] = values
    checked = MeshFields(vertices, faces, placed["vertices"], placed["faces"])
    with written_whole(path) as temporary:
        WRITERS[kind](temporary, checked)


def _geometry(mesh: Any) -> tuple[FloatArray, IntArray]:
    """Vertices (v, 3) and faces (f, 3) of a mesh."""
    try:
        given = mesh_arrays(mesh)
        vertices, faces = np.asarray(given[0], np.float64), np.asarray(given[1], np.int64)
    except (TypeError, ValueError) as error:
        raise wrong(
            "mesh", "an object with vertices (v, 3) and faces (f, 3)", type(mesh)
        ) from error
    shapes = (vertices.shape, faces.shape)
    if any(len(shape) != 2 or shape[1] != 3 or not shape[0] for shape in shapes):
        raise InvalidInputError(
            f"mesh: expected vertices (v, 3) and faces (f, 3), got shapes {shapes[0]} and "
            f"{shapes[1]}"
        )
    if not np.isfinite(vertices).all():
        row = int(np.flatnonzero(~np.isfinite(vertices).all(axis=1))[0])
        raise InvalidInputError(f"mesh: expected finite vertices, got {vertices[row]} at {row}")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise InvalidInputError(
            f"mesh: expected faces of vertices 0 to {len(vertices) - 1}, got numbers "
            f"{faces.min()} to {faces.max()}"
        )
    return vertices, faces


def _check_name(name: str, fields: Mapping[str, ArrayLike]) -> None:
    if not NAME.fullmatch(name) or name.lower() in TAKEN:
        raise InvalidInputError(
            f"fields: expected a name of letters, digits and underscores that is none of "
            f"{', '.join(TAKEN)}, got {name!r}"
        )
    same = [other for other in fields if other.lower() == name.lower()]
    if len(same) > 1:
        raise InvalidInputError(
            f"fields: expected names that differ in more than upper and lower case, got {same}"
        )


def _values(given: ArrayLike, name: str) -> FloatArray:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: expected numbers: {error}") from error
    if values.ndim != 1 or np.isinf(values).any():
        raise InvalidInputError(
            f"{name}: expected a vector of numbers that are not infinite, got shape "
            f"{values.shape}" + (" with infinite ones" if values.ndim == 1 else "")
        )
    return values


def _location(name: str, size: int, counts: Mapping[str, int], given: str | None) -> str:
    """Location of the values of a field: vertices or faces."""
    fitting = [place for place, count in counts.items() if count == size]
    if given in fitting:
        return given
    if len(fitting) == 1 and given is None:
        return fitting[0]
    if len(fitting) == 2:
        raise InvalidInputError(
            f"{name}: expected location='vertices' or location='faces', as the mesh has "
            f"{size} of both"
        )
    expected = f"{counts[given]} values" if given else " or ".join(
        f"{count} values at its {place}" for place, count in counts.items()
    )  # fmt: skip
    raise wrong(name, expected, size)


def _write_vtk(path: Path, mesh: MeshFields, file_format: str) -> None:
    meshio = library("meshio", VTK)
    content = meshio.Mesh(
        mesh.vertices,
        [("triangle", mesh.faces)],
        point_data=mesh.at_vertices,
        cell_data={name: [values] for name, values in mesh.at_faces.items()},
    )
    meshio.write(path, content, file_format=file_format)


def _write_ply(path: Path, mesh: MeshFields) -> None:
    trimesh = importlib.import_module("trimesh")
    moved = np.abs(mesh.vertices - mesh.vertices.astype(np.float32)).max()
    if moved > ROUNDING * np.ptp(mesh.vertices, axis=0).max():
        warn(
            f"path: PLY has coordinates in single precision, which moves vertices by up to "
            f"{moved:.2g}; .vtu keeps them"
        )
    solid = trimesh.Trimesh(
        mesh.vertices, mesh.faces, process=False,
        vertex_attributes=mesh.at_vertices, face_attributes=mesh.at_faces,
    )  # fmt: skip
    if (found := mesh.coloured()) is not None:
        place, values = found
        setattr(solid.visual, {"vertices": "vertex", "faces": "face"}[place] + "_colors",
                value_colours(values))  # fmt: skip
    path.write_bytes(trimesh.exchange.ply.export_ply(solid, vertex_normal=False))


def value_colours(values: FloatArray) -> NDArray[np.uint8]:
    """Colours (n, 4) of values (n,), viridis from the least to the greatest; grey without value."""
    from matplotlib import colormaps

    known = np.isfinite(values)
    low, high = (values[known].min(), values[known].max()) if known.any() else (0.0, 1.0)
    spread = high - low
    levels = np.where(known, values - low, 0.0) / (spread if spread > 0 else 1.0)
    rgba: NDArray[np.uint8] = colormaps["viridis"](levels, bytes=True)
    rgba[~known] = GREY
    return rgba


WRITERS: dict[str, Callable[[Path, MeshFields], None]] = {
    ".vtu": lambda path, mesh: _write_vtk(path, mesh, "vtu"),
    ".vtk": lambda path, mesh: _write_vtk(path, mesh, "vtk"),
    ".ply": _write_ply,
}


# Most features of a file: GDAL takes about a second for a hundred thousand.
MAX_FEATURES = 5_000_000
DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON"}
# Columns that the files have besides the fields.
OWN = ("geometry", "fid", "id", "edge", "node", "source", "target", "length", "row")


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
    kind = map_format(path, roads.crs)
    at_edges, at_nodes = _sorted_fields(roads, location, fields)
    layers: dict[str, Any] = {}
    if at_edges or not at_nodes or kind == ".gpkg":
        layers["edges"] = _edge_table(roads, at_edges)
    if at_nodes:
        layers["nodes"] = _node_table(roads, at_nodes)
    with written_whole(path) as temporary:
        save_roads(temporary, kind, layers)


def map_format(path: str | os.PathLike[str], crs: str | None, name: str = "path") -> str:
    """The extension of a path for places of a coordinate system, which must be one of a format."""
    kind = Path(path).suffix.lower()
    if kind not in DRIVERS:
        raise wrong(name, f"a file ending in {' or '.join(DRIVERS)}", os.fspath(path))
    if kind == ".geojson" and crs is None:
        raise InvalidInputError(
            f"{name}: GeoJSON is in longitude and latitude, and the places have no coordinate "
            "system; write a .gpkg, or name their crs"
        )
    return kind


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
            raise wrong("fields", f"a name that is none of {', '.join(OWN)}", name)
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
    places = np.concatenate(roads.lines) / roads.plane.unit
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
    points = library("shapely", "writing roads").points(roads.positions / roads.plane.unit)
    return _table(roads, {"node": _names(roads), **fields}, points)


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


@dataclass(frozen=True, eq=False)
class TimeLayer:
    """Places of one kind, with values at T times.

    Attributes
    ----------
    places : sequence of FloatArray (k, 2) or (k, 3)
        A point (k = 1) or a line for each of N places.
    columns : mapping of str to sequence
        What does not change: names and values (N,).
    fields : mapping of str to array (N, T)
        What does: numbers, NaN where missing, or texts.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.fields import TimeLayer
    >>> stations = [np.array([[11.5, 48.1]]), np.array([[11.6, 48.2]])]
    >>> hourly = {"temperature": [[3.0, 4.5, 6.0], [2.0, 3.5, 5.0]]}  # 2 places, 3 times
    >>> layer = TimeLayer(stations, {"name": ["west", "east"]}, hourly)
    >>> len(layer.places), np.shape(layer.fields["temperature"])
    (2, (2, 3))
    """

    places: Sequence[FloatArray]
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)


def write_time_map(
    path: str | os.PathLike[str],
    layers: Mapping[str, TimeLayer],
    times: Sequence[Any],
    *,
    crs: str | None = None,
) -> None:
    """Write laws over places and times, one feature for each place and time.

    Features have a column `time`, which QGIS plays (temporal controller, "single field with
    date/time"). A .gpkg has a layer each; a .geojson, in longitude and latitude, all in one
    collection, with times as texts.

    Parameters
    ----------
    path
        Path of the file, which is written whole or not at all.
    layers
        Places and their values by the name of the layer.
    times
        Times (T,): `datetime64`, aware datetimes, or numbers.
    crs
        Coordinate reference system of the places; None: none.

    Raises
    ------
    InvalidInputError
        The extension is unknown, a .geojson is asked of places without a system, there are more
        than five million features, or values are not one for each place and time.
    MissingLibraryError
        A library of the extra `geo` is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import geopandas
    >>> import numpy as np
    >>> from coupledgp.fields import TimeLayer, write_time_map
    >>> layer = TimeLayer([np.array([[11.5, 48.1]])], fields={"temperature": [[3.0, 4.5]]})
    >>> times = np.array(["2026-03-02T06", "2026-03-02T07"], dtype="datetime64[s]")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_time_map(f"{folder}/map.gpkg", {"stations": layer}, times, crs="EPSG:4326")
    ...     geopandas.read_file(f"{folder}/map.gpkg")["temperature"].tolist()
    [3.0, 4.5]
    """
    kind = map_format(path, crs)
    count = len(times) * sum(len(one.places) for one in layers.values())
    if count > MAX_FEATURES:
        raise InvalidInputError(
            f"times: expected at most {MAX_FEATURES} features, places times times, got {count}; "
            "write fewer times"
        )
    stamps = _stamps(times, kind)
    with written_whole(path) as temporary:
        tables = {name: _time_table(one, stamps, crs) for name, one in layers.items()}
        save_roads(temporary, kind, tables)


def _stamps(times: Sequence[Any], kind: str) -> Any:
    """Times as a column: dates of pandas, texts by ISO 8601, or numbers."""
    import pandas

    values = np.asarray(times)
    if values.dtype.kind in "iuf":
        return values
    dates = pandas.DatetimeIndex(times)
    if kind == ".gpkg":
        return dates.as_unit("ms")
    return np.array([one.isoformat() for one in dates], dtype=object)


def _time_table(layer: TimeLayer, stamps: Any, crs: str | None) -> Any:
    """A table of all places at the first time, then at the second, and so on."""
    geopandas = library("geopandas", "writing maps over time")
    shapely = library("shapely", "writing maps over time")
    n, n_times = len(layer.places), len(stamps)
    shapes = dict.fromkeys(layer.columns, (n,)) | dict.fromkeys(layer.fields, (n, n_times))
    for name, values in (*layer.columns.items(), *layer.fields.items()):
        if np.shape(values) != shapes[name]:
            raise InvalidInputError(
                f"layers: expected {name!r} of shape {shapes[name]}, got {np.shape(values)}"
            )
    places = [
        shapely.points(one[0]) if len(one) == 1 else shapely.linestrings(one)
        for one in layer.places
    ]
    geometry = np.tile(np.array(places, dtype=object), n_times)
    columns: dict[str, Any] = {
        name: np.tile(np.asarray(values), n_times) for name, values in layer.columns.items()
    }
    columns["time"] = stamps.repeat(n)
    columns |= {name: np.asarray(values).T.ravel() for name, values in layer.fields.items()}
    return geopandas.GeoDataFrame(columns, geometry=geometry, crs=crs)
