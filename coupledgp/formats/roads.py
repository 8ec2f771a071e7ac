"""Road networks in metres: nodes, the roads between them, and their lines on the map."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.formats.libraries import library
from coupledgp.formats.noding import RoadPieces, distinct
from coupledgp.formats.projection import LONLAT, Plane
from coupledgp.geometry.checks import MaxEdge
from coupledgp.geometry.operator import LaplaceOperator
from coupledgp.ground.warned import warn
from coupledgp.random import FloatArray, IntArray

# Ratio of given lengths to the lines' lengths beyond which they are taken for another unit.
UNIT_RATIO = 3.0


class RoadPlaces(NamedTuple):
    """Places on roads: edge numbers (p,), offsets (p,) in metres, distances (p,) of the points."""

    edges: IntArray
    offsets: FloatArray
    distances: FloatArray


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
        operator = LaplaceOperator.from_edges(
            sources, targets, self.lengths, positions=self.positions, max_edge=max_edge, **naming
        )
        positions = np.array(operator.positions)
        positions[self.n_nodes :] = self._between(operator.parents)
        positions.flags.writeable = False
        return replace(operator, positions=positions)

    def _between(self, parents: IntArray) -> FloatArray:
        """Places within roads, at which they are cut into equal pieces; `parents` names each's."""
        counts = np.bincount(parents, minlength=self.n_edges)
        number = np.arange(parents.size) - (np.cumsum(counts) - counts)[parents]
        inner = number < counts[parents] - 1
        share = ((number + 1) / counts[parents])[inner]
        # Shares along all lines, one after the other; a road of number k goes from 2 k to 2 k + 1.
        along = [2 * k + shares_along(line) for k, line in enumerate(self.lines)]
        known, places = np.concatenate(along), np.concatenate(self.lines)
        wanted = 2 * parents[inner] + share
        return np.column_stack([np.interp(wanted, known, places[:, k]) for k in range(2)])

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
        shapely = library("shapely", "roads", "finding of places on roads")
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
            raise InvalidInputError(f"max_edge: expected a length > 0 in metres, got {max_edge}")
        counts = np.maximum(np.ceil(self.lengths / max_edge - 1e-9), 1).astype(np.int64)
        parents = np.repeat(np.arange(self.n_edges), counts)
        step = np.arange(parents.size) - np.repeat(np.cumsum(counts) - counts, counts)
        share = 1 / counts[parents]
        lines: list[FloatArray] = []
        added: list[FloatArray] = []
        ends = np.empty((parents.size, 2), dtype=np.int64)
        for k, (parent, part) in enumerate(zip(parents, step, strict=True)):
            line = piece(self.lines[parent], part * share[k], (part + 1) * share[k])
            last = part + 1 == counts[parent]
            ends[k, 0] = self.ends[parent, 0] if part == 0 else self.n_nodes + len(added) - 1
            ends[k, 1] = self.ends[parent, 1] if last else self.n_nodes + len(added)
            if not last:
                added.append(line[-1])
            lines.append(line)
        positions = np.concatenate([self.positions, np.reshape(added, (-1, 2))])
        lengths = self.lengths[parents] * share
        network = RoadNetwork(
            ends, lengths, positions, tuple(lines), self.rows[parents], None, self.plane
        )
        return network, RoadPlaces(parents, (step + 0.5) * lengths, np.zeros(parents.size))


def shares_along(line: FloatArray) -> FloatArray:
    """Shares (k,) of a line's length from its start to each of its points (k, 2)."""
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    travelled = np.concatenate([[0.0], np.cumsum(steps)])
    if not travelled[-1]:
        return np.linspace(0.0, 1.0, len(line))
    shares: FloatArray = travelled / travelled[-1]
    return shares


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
    kept = distinct(pieces, tolerance)
    lines = tuple(pieces.lines[k] for k in kept)
    names = None if labels is None else tuple(labels)
    ends, lengths = pieces.ends[kept], pieces.lengths[kept]
    return RoadNetwork(ends, lengths, pieces.positions, lines, rows[kept], names, plane)


def one_of_each(ends: IntArray, lengths: FloatArray) -> tuple[IntArray, IntArray]:
    """Each road once, where its course is not known: same nodes, and lengths within a thousandth.

    Returns the number (m,) of the road that each of m edges is, and the edge (r,) of each road.
    """
    nothing = np.zeros((2, 2))
    pieces = RoadPieces(nothing, ends, [nothing] * len(ends), lengths, np.arange(len(ends)))
    kept = distinct(pieces, 0.0)
    road = np.full(len(ends), -1, dtype=np.int64)
    road[kept] = np.arange(kept.size)
    by_nodes: dict[tuple[int, ...], list[int]] = {}
    for k in kept.tolist():
        by_nodes.setdefault(tuple(sorted(ends[k].tolist())), []).append(k)
    for k in np.flatnonzero(road < 0).tolist():
        others = np.array(by_nodes[tuple(sorted(ends[k].tolist()))])
        road[k] = road[others[np.argmin(np.abs(lengths[others] - lengths[k]))]]
    return road, kept


def piece(line: FloatArray, start: float, end: float) -> FloatArray:
    """The part (k, 2) of a line (j, 2) between two shares of its length."""
    along = shares_along(line)
    inner = (along > start) & (along < end)
    places = np.concatenate([[start], along[inner], [end]])
    return np.column_stack([np.interp(places, along, line[:, k]) for k in range(2)])
