"""Coordinates of the earth as metres in a plane, and back.

Road networks in metres: nodes, the roads between them, and their lines on the map.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.fields.checks import MaxEdge
from coupledgp.fields.networks import at_shares, cut, piece_positions
from coupledgp.fields.operator import LaplaceOperator
from coupledgp.ground.extras import library
from coupledgp.ground.forms import LONLAT as LONLAT
from coupledgp.ground.validation import wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

METRES = "metres"
# Largest difference of lengths in the plane and on the earth for which a projection is kept.
DISTORTION = 0.01
# Widest area in degrees of longitude, and latitude furthest from the equator, for a zone of UTM.
UTM_WIDTH, UTM_LATITUDE = 12.0, 80.0


@dataclass(frozen=True)
class Plane:
    """A plane in metres.

    Attributes
    ----------
    source : str or None
        Coordinate reference system of the coordinates that were given; None: metres of no known
        place.
    crs : str or None
        Projected system of the plane, as text that pyproj reads.
    unit : float
        Metres of a unit of `crs`: coordinates of `crs` times `unit` are places in the plane.
    geodesic : bool
        Lengths are those on the ellipsoid, not those in the plane.
    """

    source: str | None = None
    crs: str | None = None
    unit: float = 1.0
    geodesic: bool = False

    @classmethod
    def fitting(cls, crs: Any, coordinates: FloatArray) -> Plane:
        """The plane for coordinates (c, 2) of a system.

        A projected system is kept if lengths in it are within one percent of those on the
        ellipsoid. Any other system (degrees, or Web Mercator) gives way to the zone of UTM of the
        coordinates, or to Lambert's azimuthal projection about their centre if they are too wide or
        too near to a pole for it; lengths are then those on the ellipsoid.

        Raises
        ------
        InvalidInputError
            The system is unknown, neither geographic nor projected, or does not fit the
            coordinates.
        """
        if isinstance(crs, str) and crs == METRES:
            return cls()
        found = parsed_crs(crs)
        if not (found.is_projected or found.is_geographic):
            raise wrong("crs", "a geographic or a projected system", found.name)
        lonlat = transformed(coordinates, found, LONLAT)
        if found.is_projected and _is_true(found, lonlat):
            unit = float(found.axis_info[0].unit_conversion_factor)
            return cls(_text(found), _text(found), unit)
        _check_lonlat(lonlat)
        return cls(_text(found), _metric(lonlat), 1.0, geodesic=True)

    def metres(self, points: FloatArray, crs: str | None = None) -> FloatArray:
        """Places (p, 2) in the plane of coordinates (p, 2) in `crs`; None: in `source`."""
        crs = self.source if crs is None else crs
        if self.crs is None or crs is None:
            if crs is not None:
                raise InvalidInputError(
                    "crs: expected positions in metres, as the roads have no coordinate system"
                )
            return points
        return transformed(points, crs, self.crs) * self.unit

    def coordinates(self, places: FloatArray, crs: str) -> FloatArray:
        """Coordinates (p, 2) in `crs` of places (p, 2) in the plane."""
        if self.crs is None:
            raise InvalidInputError("crs: expected roads with a coordinate reference system")
        return transformed(places / self.unit, self.crs, crs)

    def segment_lengths(self, coordinates: FloatArray, places: FloatArray) -> FloatArray:
        """Lengths (c - 1,) between coordinates (c, 2) that follow each other; places (c, 2)."""
        if not self.geodesic:
            return np.linalg.norm(np.diff(places, axis=0), axis=1)
        return geodesic_lengths(coordinates, self.source)


def parsed_crs(crs: Any) -> Any:
    """Return the `pyproj.CRS` of a text, a number of EPSG, or an object of pyproj."""
    pyproj = library("pyproj", "reading of coordinate reference systems")
    try:
        found = pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise wrong(
            "crs", "a coordinate reference system such as 'EPSG:4326', or 'metres'", crs
        ) from error
    return found.sub_crs_list[0] if found.is_compound else found


def transformed(points: FloatArray, source: Any, target: Any) -> FloatArray:
    """Coordinates (p, 2) in another system, east or longitude first in both."""
    pyproj = library("pyproj", "projecting of coordinates")
    systems = parsed_crs(source), parsed_crs(target)
    try:
        change = pyproj.Transformer.from_crs(*systems, always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise InvalidInputError(
            f"crs: found no way from {systems[0].name!r} to {systems[1].name!r}: {error}"
        ) from error
    moved = np.column_stack(change.transform(points[:, 0], points[:, 1]))
    bad = np.flatnonzero(~np.isfinite(moved).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"crs: expected coordinates of {systems[0].name!r}, got {points[bad[0]]}, "
            "which it has no place for"
        )
    return moved


def geodesic_lengths(coordinates: FloatArray, crs: Any) -> FloatArray:
    """Lengths (c - 1,) on the ellipsoid WGS 84 between coordinates (c, 2) of `crs` that follow."""
    pyproj = library("pyproj", "lengths on the earth")
    longitudes, latitudes = transformed(coordinates, crs, LONLAT).T
    geodesic = pyproj.Geod(ellps="WGS84")
    _, _, lengths = geodesic.inv(longitudes[:-1], latitudes[:-1], longitudes[1:], latitudes[1:])
    return np.asarray(lengths, dtype=np.float64)


def _is_true(crs: Any, lonlat: FloatArray) -> bool:
    """Whether lengths in a projected system are those on the ellipsoid, within `DISTORTION`."""
    pyproj = library("pyproj", "lengths on the earth")
    factors = pyproj.Proj(crs).get_factors(*lonlat.T)
    scales = np.median([factors.meridional_scale, factors.parallel_scale], axis=1)
    return bool((np.abs(scales - 1) <= DISTORTION).all())


def _metric(lonlat: FloatArray) -> str:
    """A projected system in metres for longitudes and latitudes (c, 2)."""
    low, high = lonlat.min(axis=0), lonlat.max(axis=0)
    longitude, latitude = (low + high) / 2
    if high[0] - low[0] <= UTM_WIDTH and max(abs(low[1]), abs(high[1])) <= UTM_LATITUDE:
        zone = min(int((longitude + 180) // 6) + 1, 60)
        return f"EPSG:{(32600 if latitude >= 0 else 32700) + zone}"
    return f"+proj=laea +lat_0={latitude:.6f} +lon_0={longitude:.6f} +datum=WGS84 +units=m"


def _check_lonlat(lonlat: FloatArray) -> None:
    bad = np.flatnonzero((np.abs(lonlat) > [360, 90]).any(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"crs: expected longitudes and latitudes in degrees, got {lonlat[bad[0]]}"
        )


def _text(crs: Any) -> str:
    """A text from which pyproj makes the same system."""
    code = crs.to_authority(min_confidence=100)
    return ":".join(code) if code else str(crs.to_wkt())


# Ratio of given lengths to the lines' lengths beyond which they are taken for another unit.
UNIT_RATIO = 3.0


class RoadPlaces(NamedTuple):
    """Places on roads: edge numbers (p,), offsets (p,) in metres, distances (p,) of the points."""

    edges: IntArray
    offsets: FloatArray
    distances: FloatArray


@dataclass(frozen=True, eq=False)
class RoadPieces:
    """Parts of lines between nodes.

    Attributes
    ----------
    positions : FloatArray (n, 2)
        Places of the nodes.
    ends : IntArray (m, 2)
        Nodes of each part.
    lines : list of FloatArray (k, 2)
        Points of each part, the first and last at its nodes.
    lengths : FloatArray (m,)
        Length of each part.
    line : IntArray (m,)
        Number of the line that each part is from.
    """

    positions: FloatArray
    ends: IntArray
    lines: list[FloatArray]
    lengths: FloatArray
    line: IntArray


@dataclass(frozen=True, eq=False)
class RoadNetwork:
    """Roads between nodes, in metres.

    Attributes
    ----------
    ends : IntArray (m, 2)
        Node numbers at which each road starts and ends. Directions of traffic play no part: both
        directions of one road are one edge, separate carriageways are several.
    lengths : FloatArray (m,)
        Lengths in metres.
    positions : FloatArray (n, 2)
        Places of the nodes in `plane`, in metres.
    lines : tuple of FloatArray (k, 2)
        Course of each road in `plane`, from its first end to its second.
    rows : IntArray (m,)
        Row of the file, or number of the graph's edge, that each road is from.
    labels : tuple or None
        Names of the nodes; None: their numbers.
    plane : Plane
        Coordinate reference systems of the positions and of the file.

    Examples
    --------
    >>> import geopandas
    >>> from shapely import LineString
    >>> import coupledgp as cgp
    >>> lines = geopandas.GeoSeries([LineString([(0, 0), (120, 0)])], crs="EPSG:32632")
    >>> cgp.read_roads(lines.to_frame("geometry")).lengths.round().tolist()
    [120.0]
    """

    ends: IntArray
    lengths: FloatArray
    positions: FloatArray
    lines: tuple[FloatArray, ...] = field(repr=False)
    rows: IntArray = field(repr=False)
    labels: tuple[Any, ...] | None = None
    plane: Plane = field(default_factory=Plane)

    def __repr__(self) -> str:
        return (
            f"RoadNetwork({self.n_nodes} nodes, {self.n_edges} roads, "
            f"{self.lengths.sum() / 1000:.6g} km, crs={self.crs!r})"
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes n."""
        return len(self.positions)

    @property
    def n_edges(self) -> int:
        """Number of roads m."""
        return len(self.ends)

    @property
    def crs(self) -> str | None:
        """Coordinate reference system of the positions; None: metres of no known place."""
        return self.plane.crs

    @property
    def lonlat(self) -> FloatArray | None:
        """Longitudes and latitudes (n, 2) of the nodes in degrees; None if they are not known."""
        return None if self.crs is None else self.plane.coordinates(self.positions, LONLAT)

    def operator(self, max_edge: MaxEdge = "auto") -> LaplaceOperator:
        """The operator of the roads, cut into pieces of at most `max_edge` metres.

        Its given edges are the roads, so that places on it are `operator.at_edges(edges, offsets)`.
        Positions of vertices within a road are on its line.
        """
        sources, targets = self.ends.T
        naming: dict[str, Any] = {"n_nodes": self.n_nodes}
        if self.labels is not None:
            naming = {"labels": self.labels}
            sources, targets = ([self.labels[k] for k in side] for side in self.ends.T)
        return LaplaceOperator.from_edges(
            sources, targets, self.lengths, positions=self.positions, courses=self.lines,
            max_edge=max_edge, **naming,
        )  # fmt: skip

    def metres(self, points: FloatArray, crs: str | None = None) -> FloatArray:
        """Places (p, 2) in metres of coordinates (p, 2) in `crs`; None: the system of the file."""
        return self.plane.metres(points, crs)

    def project(self, points: FloatArray, crs: str | None = None) -> RoadPlaces:
        """The nearest places on the roads' lines of points (p, 2).

        Parameters
        ----------
        points
            Coordinates, east or longitude first.
        crs
            Their system, such as `"EPSG:4326"`; None means the one of the file.

        Raises
        ------
        InvalidInputError
            `points` are not finite or not (p, 2).
        MissingLibraryError
            shapely is not installed.
        """
        given = np.asarray(points, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != 2 or not np.isfinite(given).all():
            raise InvalidInputError(
                f"points: expected finite numbers (p, 2), got shape {given.shape}"
            )
        shapely = library("shapely", "finding of places on roads")
        lines = np.array([shapely.linestrings(line) for line in self.lines])
        places = shapely.points(self.metres(given, crs))
        edges = shapely.STRtree(lines).nearest(places) if len(places) else np.zeros(0, np.int64)
        along = shapely.line_locate_point(lines[edges], places, normalized=True)
        distances = shapely.distance(lines[edges], places)
        return RoadPlaces(edges, np.nan_to_num(along) * self.lengths[edges], distances)

    def split(self, max_edge: float) -> tuple[RoadNetwork, RoadPlaces]:
        """The same roads in pieces of at most `max_edge` metres, and the pieces' middles.

        The middles are places on the roads of this network: `operator.at_edges(middles.edges,
        middles.offsets)` for its operator. Nodes keep their numbers; those between pieces have none
        of the labels, so that the network of the pieces has none at all.
        """
        if not max_edge > 0:
            raise wrong("max_edge", "a length > 0 in metres", max_edge)
        # A length that fits a whole number of times is not cut once more by rounding.
        found = cut(self.ends, self.lengths, self.n_nodes, max_edge * (1 + 1e-9))
        shares = zip(found.parents, found.starts, found.ends, strict=True)
        lines = tuple(piece(self.lines[parent], start, end) for parent, start, end in shares)
        positions = piece_positions(found, self.ends, self.positions, self.lines)
        rows = self.rows[found.parents]
        network = RoadNetwork(
            found.elements, found.lengths, positions, lines, rows, None, self.plane
        )
        offsets = (found.starts + found.ends) / 2 * self.lengths[found.parents]
        return network, RoadPlaces(found.parents, offsets, np.zeros(offsets.size))


def warn_of_unit(given: FloatArray, drawn: FloatArray, name: str) -> None:
    """Warn where lengths (m,) that a source names and those drawn (m,) are of different units."""
    usable = (given > 0) & (drawn > 0)
    if not usable.any():
        return
    ratio = float(np.median(given[usable] / drawn[usable]))
    if not 1 / UNIT_RATIO <= ratio <= UNIT_RATIO:
        warn(
            f"length: lengths of the {name} are {ratio:.3g} times those of the lines in metres; "
            "expected metres"
        )


def of_pieces(
    pieces: RoadPieces, rows: IntArray, plane: Plane, tolerance: float, labels: Any = None
) -> RoadNetwork:
    """The network of pieces (m,) from rows (m,) of a file, every road once."""
    if not len(pieces.ends):
        raise InvalidInputError("expected roads with a length, got none")
    middles = np.concatenate([at_shares(line, np.array([0.5])) for line in pieces.lines])
    same = same_roads(pieces.ends, pieces.lengths, middles, tolerance)
    kept = np.flatnonzero(same == np.arange(same.size))
    lines = tuple(pieces.lines[k] for k in kept)
    names = None if labels is None else tuple(labels)
    ends, lengths = pieces.ends[kept], pieces.lengths[kept]
    return RoadNetwork(ends, lengths, pieces.positions, lines, rows[kept], names, plane)


def same_roads(
    ends: IntArray, lengths: FloatArray, middles: FloatArray, tolerance: float
) -> IntArray:
    """Number (m,) of the first of the parts that are the same road, in either direction.

    Two parts are one road if they have the same nodes, lengths within a thousandth or the
    tolerance, and their middles (m, 2) lie as close.
    """
    same = np.arange(len(ends))
    seen: dict[tuple[int, int], list[int]] = {}
    for k, (a, b) in enumerate(np.sort(ends, axis=1).tolist()):
        others = seen.setdefault((a, b), [])
        room = max(tolerance, 1e-3 * float(lengths[k]))
        for other in others:
            gap = np.linalg.norm(middles[k] - middles[other])
            if abs(lengths[k] - lengths[other]) <= room and gap <= room:
                same[k] = other
                break
        else:
            others.append(k)
    return same


def piece(line: FloatArray, start: float, end: float) -> FloatArray:
    """The part (k, 2) of a line (j, 2) between two shares of its length."""
    along = np.cumsum(np.append(0.0, np.linalg.norm(np.diff(line, axis=0), axis=1)))
    along /= along[-1] or 1.0
    inner = along[(along > start) & (along < end)]
    return at_shares(line, np.concatenate([[start], inner, [end]]))
