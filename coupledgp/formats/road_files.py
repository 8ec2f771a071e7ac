"""Road networks from files of lines, from GraphML and GML, and from networkx graphs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from coupledgp.errors import InvalidInputError
from coupledgp.formats.road_graphs import from_graph, parse_markup, with_int_names
from coupledgp.formats.road_lines import from_table, read_layer
from coupledgp.formats.roads import RoadNetwork
from coupledgp.ground.validation import check_positive

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
        A library of the extra `roads` is not installed.
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
        raise InvalidInputError(
            f"source: expected a path, a networkx graph or a GeoDataFrame, got "
            f"{type(source).__name__}"
        )
    path = Path(source)
    kind = path.suffix.lower()
    if kind not in (*LINES, *MARKUP):
        raise InvalidInputError(
            f"source: expected a file ending in {', '.join((*LINES, *MARKUP))}, got {str(path)!r}"
        )
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
