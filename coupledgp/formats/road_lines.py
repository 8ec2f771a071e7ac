"""Road networks from tables of lines (GeoPackage, GeoJSON, shapefile)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.formats.libraries import library
from coupledgp.formats.noding import Polylines, RoadPieces, inserted, noded
from coupledgp.formats.projection import Plane
from coupledgp.formats.roads import RoadNetwork, of_pieces, warn_of_unit
from coupledgp.random import FloatArray, IntArray

KINDS = ("LineString", "MultiLineString", "LinearRing")
# Kinds of geometry that a layer may hold, in words.
WORDS = {"LineString": "lines", "Point": "points"}


def read_layer(path: Path, layer: str | None, kind: str = "LineString") -> Any:
    """Read the layer of lines, or of another kind of geometry, as a `geopandas.GeoDataFrame`.

    Raises
    ------
    InvalidInputError
        The file has no layer of this name or kind, or several; or it is none of geometries.
    MissingLibraryError
        A library of the extra `roads` is not installed.
    """
    geopandas = library("geopandas", "roads", f"reading {path.suffix} files")
    pyogrio = library("pyogrio", "roads", f"reading {path.suffix} files")
    shapely = library("shapely", "roads", f"reading {path.suffix} files")
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
    shapely = library("shapely", "roads", "reading of lines")
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
    pieces = noded(inserted(lines, tolerance), tolerance)
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
    once = _first_of_each(parts)
    parts, rows = parts[once], rows[once]
    if not len(parts):
        raise InvalidInputError("expected lines with a length, got none")
    return rows.astype(np.int64), parts


def _first_of_each(parts: Any) -> IntArray:
    """Numbers of the lines that are left when each is taken once, in either direction."""
    seen, kept = set(), []
    for k, part in enumerate(parts):
        course = np.asarray(part.coords)
        key = min(course.tobytes(), course[::-1].tobytes())
        if key not in seen and len(np.unique(course, axis=0)) > 1:
            kept.append(k)
            seen.add(key)
    return np.array(kept, dtype=np.int64)


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
