"""Road networks from files of lines, from GraphML and GML, and from networkx graphs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.fields.degrees import are_degrees
from coupledgp.fields.projection import LONLAT, METRES, Plane
from coupledgp.fields.road_lines import from_table, read_layer
from coupledgp.fields.roads import RoadNetwork, RoadPieces, of_pieces, warn_of_unit
from coupledgp.ground.extras import library
from coupledgp.ground.validation import check_positive, wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

PLACES = (("x", "y"), ("longitude", "latitude"), ("lon", "lat"))
LENGTH = "length"
LINES = (".gpkg", ".geojson", ".json", ".shp", ".fgb")
MARKUP = (".graphml", ".gml")
# Distance in metres within which ends of lines are one node: what rounding to six decimals of a
# degree moves them, twice.
TOLERANCE = 0.25


def read_roads(
    source: Any,
    /,
    *,
    length: str | None = None,
    layer: str | None = None,
    crs: Any = None,
    tolerance: float = TOLERANCE,
) -> RoadNetwork:
    """Read a road network, in metres.

    Lines (GeoPackage, GeoJSON, shapefile, FlatGeobuf) meet where they end within `tolerance` of
    each other, where one ends on another, and in points that they share; lines that cross without
    a shared point (bridges) do not. Heights are left out, multi-part lines are taken apart, and a
    line that ends where it starts is one edge. Every road is taken once, whatever its directions,
    and however often the file has it.

    Coordinates are projected to metres: degrees to the zone of UTM (a wide area to Lambert's
    azimuthal projection), a projected system is kept if it is true to one percent, in its own unit.
    Lengths are then those on the ellipsoid, or those in the kept system.

    Parameters
    ----------
    source
        Path of a .gpkg, .geojson, .json, .shp, .fgb, .graphml or .gml file; or a networkx graph,
        such as osmnx makes (nodes with x and y, edges with `length` and maybe `geometry`), or a
        `geopandas.GeoDataFrame`.
    length
        Column or edge attribute of lengths in metres. None: for graphs `length`, if every edge has
        it, else, as for lines, the lengths of the lines. The parts into which a line is cut share
        its length.
    layer
        Layer of a file that has several layers of lines.
    crs
        Coordinate reference system of a source that has none of its own, such as `"EPSG:32633"`, or
        `"metres"` for metres of no known place. A graph without it is in degrees if all its
        coordinates can be longitudes and latitudes and, where edges have lengths, those fit
        degrees better than metres; and in metres if not.
    tolerance
        Distance in metres within which ends of lines are one node.

    Raises
    ------
    InvalidInputError
        The source is none of these or empty, its coordinate system is missing or unknown, a
        geometry is no line, or a length no number > 0; the message names the row or edge.
    MissingLibraryError
        A library of the extra `geo` is not installed.
    OSError
        The file cannot be read.

    Warns
    -----
    UserWarning
        Lengths of a column or attribute are more than three times those of the lines, or less than
        a third; a graph has lengths for some edges only; or nothing but the size of x and y tells
        that they are degrees.

    Examples
    --------
    >>> import json, tempfile
    >>> import coupledgp as cgp
    >>> corners = [[11.57, 48.13], [11.58, 48.13], [11.58, 48.14]]
    >>> line = {"type": "LineString", "coordinates": corners}
    >>> feature = {"type": "Feature", "properties": {}, "geometry": line}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/roads.geojson", "w") as file:
    ...         json.dump({"type": "FeatureCollection", "features": [feature]}, file)
    ...     roads = cgp.read_roads(f"{folder}/roads.geojson")
    >>> int(roads.lengths.sum().round(-2))  # metres
    1900
    """
    check_positive(tolerance, "tolerance")
    if hasattr(source, "nodes") and hasattr(source, "edges"):
        return from_graph(source, length, crs, tolerance)
    if hasattr(source, "geometry") and hasattr(source, "crs"):
        return from_table(source, length, crs, tolerance)
    if not isinstance(source, str | os.PathLike):
        raise wrong("source", "a path, a networkx graph or a GeoDataFrame", type(source))
    path = Path(source)
    kind = path.suffix.lower()
    if kind not in (*LINES, *MARKUP):
        raise wrong("source", f"a file ending in {', '.join((*LINES, *MARKUP))}", str(path))
    path.open("rb").close()  # an error of the system names the file
    try:
        if kind in MARKUP:
            if layer is not None:
                raise InvalidInputError("layer: expected it for a file of lines only")
            return from_graph(with_int_names(parse_markup(path)), length, crs, tolerance)
        return from_table(read_layer(path, layer), length, crs, tolerance)
    except InvalidInputError as error:
        text = str(error)
        raise InvalidInputError(text if str(path) in text else f"{path}: {text}") from error


def parse_markup(path: Path) -> Any:
    """Read GraphML or GML as a networkx graph, with names and attributes as they are written."""
    import networkx as nx

    try:
        if path.suffix.lower() == ".graphml":
            return nx.read_graphml(path)
        try:
            return nx.read_gml(path)
        except nx.NetworkXError:
            return nx.read_gml(path, label="id")  # nodes without names
    except Exception as error:  # whatever the parsers of XML and GML raise
        raise InvalidInputError(f"{path}: expected {path.suffix[1:]}: {error}") from error


def with_int_names(graph: Any) -> Any:
    """The graph with ints for names if all are written as ints, as osmnx writes them."""
    import networkx as nx

    names = list(graph.nodes)
    if all(isinstance(name, str) and name.isdigit() and str(int(name)) == name for name in names):
        return nx.relabel_nodes(graph, {name: int(name) for name in names})
    return graph


def from_graph(
    graph: Any, length: str | None, crs: Any, tolerance: float, unit: float = 1.0
) -> RoadNetwork:
    """The network of a networkx graph, directed or not, multi or not; as `read_roads` describes.

    `unit` is the number of metres in a unit of the attribute of lengths. Lengths of the network
    stay in that unit.
    """
    labels = list(graph.nodes)
    edges = list(graph.edges(data=True))
    if not edges:
        raise InvalidInputError("expected a graph with edges, got none")
    places = graph_positions(graph)
    if places is None:
        raise InvalidInputError(
            "nodes: expected every node to have finite numbers x and y (or longitude and latitude)"
        )
    coordinates, names = places
    number = {label: k for k, label in enumerate(labels)}
    ends = np.array([[number[edge[0]], number[edge[1]]] for edge in edges], dtype=np.int64)
    given = _lengths(edges, length)
    metres = None if given is None else unit * given
    own = graph.graph.get("crs") if crs is None else crs
    plane = _plane(own, coordinates, names, ends, metres)
    positions = plane.metres(coordinates)
    courses = [_course(edge, coordinates[pair]) for edge, pair in zip(edges, ends, strict=True)]
    lines, drawn = _measured(courses, plane)
    if metres is None:
        _check_drawn(edges, drawn)
    else:
        warn_of_unit(metres, drawn, f"attribute {length or LENGTH!r}")
    lengths = drawn if given is None else given
    kept = np.flatnonzero(lengths > 0)
    used, ends = np.unique(ends[kept], return_inverse=True)
    used_labels = [labels[k] for k in used]
    courses = [lines[k] for k in kept]
    pieces = RoadPieces(positions[used], ends.reshape(-1, 2), courses, lengths[kept], kept)
    return of_pieces(pieces, kept, plane, tolerance, used_labels)


def graph_positions(graph: Any) -> tuple[FloatArray, tuple[str, str]] | None:
    """Finite positions (n, 2) of the nodes, from attributes that may be text, and their names."""
    for names in PLACES:
        try:
            places = [[float(data[name]) for name in names] for _, data in graph.nodes(data=True)]
        except (KeyError, TypeError, ValueError):
            continue
        found = np.array(places)
        if np.isfinite(found).all():
            return found, names
    return None


def _plane(
    crs: Any,
    coordinates: FloatArray,
    names: tuple[str, str],
    ends: IntArray,
    lengths: FloatArray | None,
) -> Plane:
    """The plane of coordinates (n, 2); without a system, lengths (m,) in metres tell it."""
    if crs is None:
        named = names != PLACES[0]  # x and y may be anything, longitude and latitude are degrees
        degrees = are_degrees(coordinates, ends, None if named else lengths)
        if degrees and lengths is None and not named:
            warn(
                "crs: coordinates x and y of a graph without a coordinate system and lengths are "
                "taken for degrees; give it, such as crs='EPSG:4326' or crs='metres'"
            )
        crs = LONLAT if degrees else METRES
    return Plane.fitting(crs, coordinates)


def _course(edge: tuple[Any, Any, dict[str, Any]], ends: FloatArray) -> FloatArray:
    """Coordinates (k, 2) of an edge from its source to its target, by its geometry if it has one.

    The geometry may be text (WKT), and may start at the target.
    """
    given = edge[2].get("geometry")
    if given is None:
        return ends
    shapely = library("shapely", "reading of edges' geometries")
    try:
        line = shapely.from_wkt(given) if isinstance(given, str) else given
        course = shapely.get_coordinates(shapely.force_2d(line))
    except (TypeError, shapely.errors.ShapelyError) as error:
        raise wrong(f"edge {edge[0]!r}-{edge[1]!r}", "a line as its geometry", given) from error
    if len(course) < 2 or line.geom_type != "LineString" or not np.isfinite(course).all():
        raise InvalidInputError(
            f"edge {edge[0]!r}-{edge[1]!r}: expected a LineString as its geometry, got "
            f"{line.geom_type} of {len(course)} points"
        )
    start = np.linalg.norm(course[[0, -1]] - ends[0], axis=1)
    end = np.linalg.norm(course[[0, -1]] - ends[1], axis=1)
    course = course[::-1] if start[1] + end[0] < start[0] + end[1] else course
    return np.concatenate([ends[:1], course[1:-1], ends[1:]])


def _measured(courses: list[FloatArray], plane: Plane) -> tuple[list[FloatArray], FloatArray]:
    """Lines (k, 2) in the plane, and their lengths (m,)."""
    sizes = np.array([len(course) for course in courses])
    coordinates = np.concatenate(courses)
    places = plane.metres(coordinates)
    steps = np.append(plane.segment_lengths(coordinates, places), 0.0)
    last = np.cumsum(sizes) - 1
    steps[last] = 0.0
    return np.split(places, last[:-1] + 1), np.add.reduceat(steps, last - sizes + 1)


def _lengths(edges: list[Any], name: str | None) -> FloatArray | None:
    """Lengths (m,) of the edges by an attribute, which may be text; None: they are as drawn."""
    has = np.array([(LENGTH if name is None else name) in edge[2] for edge in edges])
    if name is None and not has.all():
        if has.any():
            warn(
                f"length: {int((~has).sum())} of {has.size} edges have no attribute {LENGTH!r}; "
                "lengths are those of the lines"
            )
        return None
    return edge_values(edges, LENGTH if name is None else name, "a number of metres > 0")


def _check_drawn(edges: list[Any], drawn: FloatArray) -> None:
    for (source, target, _), length in zip(edges, drawn, strict=True):
        if source != target and not length > 0:
            raise InvalidInputError(
                f"edge {source!r}-{target!r}: expected a length, or nodes at different places"
            )


def edge_values(edges: list[Any], name: str, what: str = "a number > 0") -> FloatArray:
    """An attribute (m,) of edges, which may be text; loops may have none, 0."""
    return np.array([_edge_value(edge, name, what) for edge in edges])


def _edge_value(edge: tuple[Any, Any, dict[str, Any]], name: str, what: str) -> float:
    given = edge[2].get(name)
    try:
        value = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = np.nan
    loop_of_nothing = edge[0] == edge[1] and value == 0
    if not np.isfinite(value) or not (value > 0 or loop_of_nothing):
        raise wrong(f"edge {edge[0]!r}-{edge[1]!r}", f"{what} as its {name!r}", given)
    return value
