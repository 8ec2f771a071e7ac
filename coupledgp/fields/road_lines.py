"""Road networks from tables of lines (GeoPackage, GeoJSON, shapefile), cut where they meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from coupledgp.errors import InvalidInputError
from coupledgp.fields.projection import Plane
from coupledgp.fields.roads import RoadNetwork, RoadPieces, of_pieces, warn_of_unit
from coupledgp.ground.extras import library
from coupledgp.random import FloatArray, IntArray

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
        pieces = _measured(pieces, lines, rows, _lengths(table, length), length)
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


def _lengths(table: Any, name: str) -> FloatArray:
    """The column of lengths (rows,); NaN where it has none."""
    if name not in table.columns:
        raise InvalidInputError(
            f"length: expected one of the columns {[str(c) for c in table.columns]}, got {name!r}"
        )
    try:
        return np.array(table[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"length: column {name!r}: expected numbers: {error}") from error


def _measured(
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
