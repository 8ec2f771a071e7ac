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
from coupledgp.graphs.forms import mesh_arrays
from coupledgp.ground.extras import library
from coupledgp.ground.output import written_whole
from coupledgp.ground.validation import check_choice, wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

Location = Literal["vertices", "faces"]
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Red, green, blue and opacity of a place without a value.
GREY = (0xC9, 0xCE, 0xD3, 0xFF)
# A dull surface that is seen from both sides and shows the vertices' colours as they are.
MATERIAL = {
    "name": "values",
    "doubleSided": True,
    "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0},
}
LINEAR = "_LINEAR_COLOUR"
# Rounding of coordinates to single precision that goes without a warning, relative to the extent.
ROUNDING = 1e-6
# Names that the formats use themselves.
TAKEN = ("x", "y", "z", "red", "green", "blue", "alpha", "vertex_indices", "color_0", "position")


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
    | .glb, .gltf | attributes `_MEAN`, `_STD`, float32; colours | browsers, Blender, trimesh |

    Colours are those of the field `mean`, or of the first one without it: viridis from its least to
    its greatest value, grey where it is NaN. Of a PLY, PyVista reads colours alone, and meshio no
    properties of faces; .vtu is the format for them. glTF has no values of faces: where there are
    any, every face gets three vertices of its own that carry them. VTK files need the extra
    `geo`.

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
        Values by name, (v,) or (f,). Names are letters, digits and underscores. NaN is allowed but
        in glTF, whose standard has no NaN. Vertices that no face uses are left out of glTF.

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
    kind = mesh_format(path)
    checked = checked_fields(mesh, location, fields)
    with written_whole(path) as temporary:
        save_mesh(temporary, kind, checked)


def mesh_format(path: str | os.PathLike[str], name: str = "path") -> str:
    """The extension of a path, which must be one of a format; `name` names the path in errors."""
    kind = Path(path).suffix.lower()
    if kind not in WRITERS:
        raise wrong(name, f"a file ending in {', '.join(WRITERS)}", os.fspath(path))
    if kind in (".vtu", ".vtk"):
        _meshio()
    return kind


def _meshio() -> Any:
    return library("meshio", "writing .vtu and .vtk")


def save_mesh(path: Path, kind: str, fields: MeshFields) -> None:
    """Write the file at a path of any name, in the format of an extension."""
    WRITERS[kind](path, fields)


def checked_fields(mesh: Any, location: str | None, fields: Mapping[str, ArrayLike]) -> MeshFields:
    """Check a mesh and fields of it, and sort the fields by their location."""
    vertices, faces = _geometry(mesh)
    if location is not None:
        check_choice(location, ("vertices", "faces"), "location")
    counts = {"vertices": len(vertices), "faces": len(faces)}
    placed: dict[str, dict[str, FloatArray]] = {"vertices": {}, "faces": {}}
    for name, given in fields.items():
        _check_name(name, fields)
        values = _values(given, name)
        placed[_location(name, values.size, counts, location)][name] = values
    return MeshFields(vertices, faces, placed["vertices"], placed["faces"])


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
    meshio = _meshio()
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


def _write_gltf(path: Path, mesh: MeshFields, binary: bool) -> None:
    vertices, faces, values = _corners(mesh)
    bad = [name for name, value in values.items() if np.isnan(value).any()]
    if bad:
        raise InvalidInputError(f"{bad[0]}: expected finite values, as glTF has no NaN")
    found = mesh.coloured()
    if found is not None:
        place, levels = found
        colours = value_colours(levels)
        if mesh.at_faces:
            colours = np.repeat(colours, 3, axis=0) if place == "faces" else (
                colours[mesh.faces.ravel()]
            )  # fmt: skip
        else:
            colours = colours[np.unique(mesh.faces)]
    path.write_bytes(gltf_bytes(vertices, faces, values, colours if found else None, binary))


def _corners(mesh: MeshFields) -> tuple[FloatArray, IntArray, dict[str, FloatArray]]:
    """The mesh with all fields at vertices; fields of faces give each face vertices of its own.

    Vertices that no face uses are left out.
    """
    if not mesh.at_faces:
        used, faces = np.unique(mesh.faces, return_inverse=True)
        values = {name: value[used] for name, value in mesh.at_vertices.items()}
        return mesh.vertices[used], faces.reshape(-1, 3), values
    corners = mesh.faces.ravel()
    values = {name: value[corners] for name, value in mesh.at_vertices.items()}
    values |= {name: np.repeat(value, 3) for name, value in mesh.at_faces.items()}
    return mesh.vertices[corners], np.arange(corners.size).reshape(-1, 3), values


def gltf_bytes(
    vertices: FloatArray,
    faces: IntArray,
    values: Mapping[str, FloatArray],
    colours: NDArray[np.uint8] | None,
    binary: bool,
) -> bytes:
    """Return the bytes of a .glb file, or of a .gltf file that holds its buffers itself.

    Attributes are named by an underscore and capitals, as the standard asks of an application's own
    ones, and are in single precision, as are coordinates: they are stored relative to the mesh's
    centre, which the node's translation holds. Colours (v, 4) are stored in linear light, in which
    the standard reads them.
    """
    trimesh = importlib.import_module("trimesh")
    exchange = trimesh.exchange.gltf
    centre = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    mesh = trimesh.Trimesh(vertices - centre, faces, process=False)
    for name, value in values.items():
        mesh.vertex_attributes[f"_{name.upper()}"] = value
    if colours is not None:
        mesh.vertex_attributes[LINEAR] = linear_light(colours)
    scene = trimesh.Scene()
    placed = np.eye(4)
    placed[:3, 3] = centre
    scene.add_geometry(mesh, node_name="mesh", geom_name="mesh", transform=placed)
    if binary:
        return bytes(
            exchange.export_glb(scene, include_normals=False, tree_postprocessor=_finished)
        )
    files = exchange.export_gltf(
        scene, include_normals=False, merge_buffers=True, embed_buffers=True,
        tree_postprocessor=_finished,
    )  # fmt: skip
    return bytes(files["model.gltf"])


def _finished(tree: dict[str, Any]) -> None:
    """Name the colours as the standard does, and give the mesh its material."""
    tree["materials"] = [MATERIAL]
    (part,) = tree["meshes"][0]["primitives"]
    part["material"] = 0
    if LINEAR in part["attributes"]:
        part["attributes"]["COLOR_0"] = part["attributes"].pop(LINEAR)


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


def linear_light(colours: NDArray[np.uint8]) -> FloatArray:
    """Colours (n, 4) from 0 to 1 in linear light, from those of a screen (sRGB, IEC 61966-2-1)."""
    shares = colours / 255.0
    rgb = shares[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.concatenate([linear, shares[:, 3:]], axis=1)


GLTF = (".glb", ".gltf")
WRITERS: dict[str, Callable[[Path, MeshFields], None]] = {
    ".vtu": lambda path, mesh: _write_vtk(path, mesh, "vtu"),
    ".vtk": lambda path, mesh: _write_vtk(path, mesh, "vtk"),
    ".ply": _write_ply,
    ".glb": lambda path, mesh: _write_gltf(path, mesh, binary=True),
    ".gltf": lambda path, mesh: _write_gltf(path, mesh, binary=False),
}


PURPOSE = "writing maps over time"
# Most features of a file: GDAL takes about a second for a hundred thousand.
MAX_FEATURES = 5_000_000
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
    return map_format(path, roads.crs, name)


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
    geopandas = library("geopandas", PURPOSE)
    shapely = library("shapely", PURPOSE)
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
