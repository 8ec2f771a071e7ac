"""Road networks from files of lines, from GraphML and GML, and from networkx graphs.

Road networks from tables of lines (GeoPackage, GeoJSON, shapefile), cut where they meet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from coupledgp.errors import InvalidInputError
from coupledgp.fields.networks import are_degrees
from coupledgp.fields.roads import (
    LONLAT,
    METRES,
    Plane,
    RoadNetwork,
    RoadPieces,
    of_pieces,
    warn_of_unit,
)
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


KINDS = ("LineString", "MultiLineString", "LinearRing")
# Kinds of geometry that a layer may hold, in words.
WORDS = {"LineString": "lines", "Point": "points"}


@dataclass(frozen=True, eq=False)
class Polylines:
    """Lines, one after the other.

    Attributes
    ----------
    places : FloatArray (c, 2)
        Points of all lines, in metres.
    line : IntArray (c,)
        Number of the line that each point belongs to, ascending.
    steps : FloatArray (c - 1,)
        Length from each point to the next, in metres; that between two lines has no meaning.
    """

    places: FloatArray
    line: IntArray
    steps: FloatArray

    def ends(self) -> IntArray:
        """Numbers of the points at which lines start or end, ascending."""
        changes = np.flatnonzero(np.diff(self.line))
        last = len(self.line) - 1
        return np.unique(np.concatenate([[0], changes, changes + 1, [last]]))


def read_layer(path: Path, layer: str | None, kind: str = "LineString") -> Any:
    """Read the layer of lines, or of another kind of geometry, as a `geopandas.GeoDataFrame`.

    Raises
    ------
    InvalidInputError
        The file has no layer of this name or kind, or several; or it is none of geometries.
    MissingLibraryError
        A library of the extra `geo` is not installed.
    """
    geopandas = library("geopandas", f"reading {path.suffix} files")
    pyogrio = library("pyogrio", f"reading {path.suffix} files")
    shapely = library("shapely", f"reading {path.suffix} files")
    word = WORDS[kind]
    try:
        name = _layer_of(path, pyogrio.list_layers(path), layer, kind)
        with np.errstate(invalid="ignore"):  # coordinates that are no numbers are refused later
            return geopandas.read_file(path, layer=name, engine="pyogrio")
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
        why = str(error).partition(".; ")[0]  # what follows is a hint for programs
        raise InvalidInputError(f"{path}: expected a file of {word}: {why}") from error
    except shapely.errors.GEOSException as error:
        raise InvalidInputError(f"{path}: expected lines of two points or more: {error}") from error


def _layer_of(path: Path, layers: Any, wanted: str | None, kind: str) -> str:
    """Name of the layer that is wanted, or of the only one that may hold a kind of geometry."""
    names, word = [str(name) for name, _ in layers], WORDS[kind]
    if wanted is not None:
        if wanted not in names:
            raise InvalidInputError(f"layer: expected one of {names} of {path}, got {wanted!r}")
        return wanted
    found = [str(name) for name, own in layers if own and kind in own] or [
        str(name) for name, own in layers if own in ("Unknown", "GeometryCollection")
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        kinds = ", ".join(f"{name!r} of {own}" for name, own in layers) or "none"
        raise InvalidInputError(f"{path}: expected a layer of {word}, got {kinds}")
    raise InvalidInputError(f"layer: expected one of the layers of {word} {found} of {path}")


def from_table(table: Any, length: str | None, crs: Any, tolerance: float) -> RoadNetwork:
    """The network of the lines of a `geopandas.GeoDataFrame`; as `read_roads` describes."""
    shapely = library("shapely", "reading of lines")
    own = table.crs if crs is None else crs
    if own is None:
        raise InvalidInputError(
            "crs: expected a coordinate reference system, got a source without one; give it, such "
            "as crs='EPSG:4326' (degrees) or crs='metres'"
        )
    rows, parts = _parts(table.geometry, shapely)
    coordinates, line = shapely.get_coordinates(parts, return_index=True)
    if not np.isfinite(coordinates).all():
        bad = rows[line[np.flatnonzero(~np.isfinite(coordinates).all(axis=1))[0]]]
        raise InvalidInputError(f"row {bad + 1}: expected finite coordinates")
    plane = Plane.fitting(own, coordinates)
    places = plane.metres(coordinates)
    lines = Polylines(places, line, plane.segment_lengths(coordinates, places))
    pieces = noded(with_end_points(lines, tolerance), tolerance)
    if length is not None:
        pieces = _shared_lengths(pieces, lines, rows, _length_column(table, length), length)
    return of_pieces(pieces, rows[pieces.line], plane, tolerance)


def _parts(geometry: Any, shapely: Any) -> tuple[IntArray, Any]:
    """Row of each line, and the lines, apart, flat and each once; empty rows are left out."""
    kinds = geometry.geom_type
    wrong = np.flatnonzero(~(kinds.isin(KINDS) | kinds.isna() | geometry.is_empty).to_numpy())
    if wrong.size:
        raise InvalidInputError(
            f"row {wrong[0] + 1}: expected a LineString or MultiLineString, got "
            f"{kinds.iloc[wrong[0]]} ({wrong.size} such rows)"
        )
    parts, rows = shapely.get_parts(geometry.to_numpy(), return_index=True)
    parts = shapely.force_2d(parts)
    drawn = shapely.length(parts) > 0
    parts, rows = parts[drawn], rows[drawn]
    _, once = np.unique(shapely.to_wkb(shapely.normalize(parts)), return_index=True)
    once.sort()
    parts, rows = parts[once], rows[once]
    if not len(parts):
        raise InvalidInputError("expected lines with a length, got none")
    return rows.astype(np.int64), parts


def _length_column(table: Any, name: str) -> FloatArray:
    """The column of lengths (rows,); NaN where it has none."""
    if name not in table.columns:
        raise InvalidInputError(
            f"length: expected one of the columns {[str(c) for c in table.columns]}, got {name!r}"
        )
    try:
        return np.array(table[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"length: column {name!r}: expected numbers: {error}") from error


def _shared_lengths(
    pieces: RoadPieces, lines: Polylines, rows: IntArray, lengths: FloatArray, name: str
) -> RoadPieces:
    """Pieces whose lengths are shares of those (rows,) of a column, which its lines share."""
    row = rows[lines.line]
    inside = lines.line[:-1] == lines.line[1:]
    drawn = np.bincount(row[:-1], weights=lines.steps * inside, minlength=lengths.size)
    used = np.unique(rows)
    bad = used[~(np.isfinite(lengths[used]) & (lengths[used] > 0))]
    if bad.size:
        raise InvalidInputError(
            f"length: row {bad[0] + 1}: expected a length > 0 in metres, got {lengths[bad[0]]}"
        )
    warn_of_unit(lengths[used], drawn[used].astype(np.float64), f"column {name!r}")
    of_row = rows[pieces.line]
    shares = pieces.lengths / drawn[of_row]
    return replace(pieces, lengths=shares * lengths[of_row])


def noded(lines: Polylines, tolerance: float) -> RoadPieces:
    """Cut lines at the points they share, and number the nodes.

    Nodes are the ends of lines, those within `tolerance` of each other one node; points of other
    lines within `tolerance` of an end; and points in which two lines, or a line and itself, agree
    exactly. Lines that cross without a shared point (bridges) do not meet. Parts that start and end
    at one node and are no longer than twice the tolerance are left out.
    """
    node = _node_numbers(lines, tolerance)
    cuts = np.flatnonzero(node >= 0)
    starts, stops = cuts[:-1], cuts[1:]
    inside = lines.line[starts] == lines.line[stops]
    starts, stops = starts[inside], stops[inside]
    travelled = np.concatenate([[0.0], np.cumsum(lines.steps)])
    lengths = travelled[stops] - travelled[starts]
    kept = (lengths > 0) & ((node[starts] != node[stops]) | (lengths > 2 * tolerance))
    starts, stops, lengths = starts[kept], stops[kept], lengths[kept]
    ends = np.column_stack([node[starts], node[stops]])
    used, ends = np.unique(ends, return_inverse=True)
    ends = ends.reshape(-1, 2)
    numbers, first = np.unique(node, return_index=True)
    positions = lines.places[first[numbers >= 0]][used]
    courses = []
    for (start, stop), (a, b) in zip(np.column_stack([starts, stops]), ends, strict=True):
        course = lines.places[start : stop + 1].copy()
        course[0], course[-1] = positions[a], positions[b]
        courses.append(course)
    return RoadPieces(positions, ends, courses, lengths, lines.line[starts])


def _node_numbers(lines: Polylines, tolerance: float) -> IntArray:
    """Number of the node at each point (c,), -1 within a line."""
    node = np.full(len(lines.places), -1, dtype=np.int64)
    ends = lines.ends()
    tree = cKDTree(lines.places[ends])
    near = tree.query_pairs(tolerance, output_type="ndarray")
    links = coo_array((np.ones(len(near)), tuple(near.T)), shape=(ends.size, ends.size))
    n_nodes, node[ends] = connected_components(links, directed=False)
    inner = np.flatnonzero(node < 0)
    if not inner.size:
        return node
    distance, nearest = tree.query(lines.places[inner], distance_upper_bound=tolerance)
    at_end = np.isfinite(distance)
    found = np.full(inner.size, -1, dtype=np.int64)
    found[at_end] = node[ends[nearest[at_end]]]
    found[_beside_own_end(lines, node, inner, found, 2 * tolerance)] = -1
    node[inner] = found
    rest = inner[~at_end]
    _, shared, counts = np.unique(
        lines.places[rest], axis=0, return_inverse=True, return_counts=True
    )
    shared = shared.ravel()
    crossing = counts[shared] > 1
    _, numbers = np.unique(shared[crossing], return_inverse=True)
    node[rest[crossing]] = n_nodes + numbers
    return node


def _beside_own_end(
    lines: Polylines, node: IntArray, inner: IntArray, found: IntArray, room: float
) -> NDArray[np.bool_]:
    """Whether inner points are at the node of their own line's end because they lie beside it."""
    travelled = np.concatenate([[0.0], np.cumsum(lines.steps)])
    changes = np.flatnonzero(np.diff(lines.line))
    first, last = np.append(0, changes + 1), np.append(changes, lines.line.size - 1)
    own = np.searchsorted(last, inner)
    beside = np.zeros(inner.size, dtype=bool)
    for end in (first[own], last[own]):
        beside |= (node[end] == found) & (np.abs(travelled[inner] - travelled[end]) <= room)
    return beside


def with_end_points(lines: Polylines, tolerance: float) -> Polylines:
    """The lines with points where another line ends on them, so that `noded` cuts them there."""
    shapely = library("shapely", "reading of lines")
    inner = np.flatnonzero(lines.line[:-1] == lines.line[1:])
    segments = shapely.linestrings(np.stack([lines.places[inner], lines.places[inner + 1]], axis=1))
    ends = shapely.points(np.unique(lines.places[lines.ends()], axis=0))
    end, segment = shapely.STRtree(segments).query(ends, predicate="dwithin", distance=tolerance)
    spans = shapely.length(segments[segment])
    along = shapely.line_locate_point(segments[segment], ends[end])
    on = (along > tolerance) & (along < spans - tolerance)
    order = np.lexsort([end[on], along[on], inner[segment[on]]])
    end, segment, along, spans = (one[on][order] for one in (end, segment, along, spans))
    before = inner[segment]
    travelled = np.concatenate([[0.0], np.cumsum(lines.steps)])
    added = travelled[before] + along / spans * lines.steps[before]
    return Polylines(
        np.insert(lines.places, before + 1, shapely.get_coordinates(ends[end]), axis=0),
        np.insert(lines.line, before + 1, lines.line[before]),
        np.diff(np.insert(travelled, before + 1, added)),
    )
