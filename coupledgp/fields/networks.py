"""Networks: edges with lengths, cut into pieces, their linear elements, and roads of OSMnx.

A piece of length l from vertex i to j adds `S_ij -= 1 / l`, `S_ii += 1 / l`, `M_i += l / 2`.
A road of two directions is one edge.

Longitudes and latitudes as positions in metres about a centre.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.errors import InvalidInputError
from coupledgp.fields.checks import (
    MaxEdge,
    chosen_length,
    edge_courses,
    edge_lengths,
    node_positions,
)
from coupledgp.fields.meshes import MASS_FLOOR, MAX_VERTICES, Matrices, laplacian_matrices
from coupledgp.graphs.graph import list_like, number_ends
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray

# A loop needs three pieces to enclose a length that is not zero between different vertices.
LOOP_PIECES = 3
# Positions (k, d) along an edge from one end to the other; None is a straight line.
Course = FloatArray | None
# "auto" cuts the network into about this number of pieces for each edge, and at least so many.
AUTO_PIECES_AN_EDGE, AUTO_PIECES = 4, 2000
# Relative difference of lengths, and difference of positions relative to the way's extent, of both
# directions of one road.
SAME_LENGTH, SAME_COURSE = 1e-6, 1e-6


class Roads(NamedTuple):
    """Nodes and edges of a road network.

    Attributes
    ----------
    nodes : list
        Labels.
    sources, targets : list
        Labels of the edges' ends.
    lengths : FloatArray (g,)
    positions : FloatArray (n, 2) or None
        Positions x, y of the nodes, as given.
    courses : list of FloatArray (k, 2 or 3) or None
        Each edge's course, where the graph has it.
    is_geographic : bool
        Whether positions are longitudes and latitudes in degrees.
    """

    nodes: list[Hashable]
    sources: list[Hashable]
    targets: list[Hashable]
    lengths: FloatArray
    positions: FloatArray | None
    courses: list[Course]
    is_geographic: bool


def read_networkx(graph: Any, length: str) -> Roads:
    """Read a networkx graph of any kind.

    In a directed graph an edge and one in the other direction between the same nodes are one road
    if their lengths are equal, and their courses (`geometry`) where both have one. Other
    parallel edges are roads of their own.

    Parameters
    ----------
    graph
        `networkx.Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`.
    length
        Name of the edge attribute with the length.

    Raises
    ------
    InvalidInputError
        It is no such graph, an edge has no length, or some of the nodes have no position.
    """
    if not hasattr(graph, "is_directed") or not hasattr(graph, "edges"):
        raise wrong("graph", "a networkx graph", type(graph))
    edges = list(graph.edges(data=True))
    if not edges:
        raise InvalidInputError(
            f"graph: expected at least one edge, got none between {len(graph)} nodes"
        )
    lengths = np.array([edge_length(a, b, found, length) for a, b, found in edges])
    courses = [course(attributes.get("geometry")) for *_, attributes in edges]
    ends = [(source, target) for source, target, _ in edges]
    if graph.is_directed():
        kept = one_of_both_directions(ends, lengths, courses)
        ends, lengths = [ends[k] for k in kept], lengths[kept]
        courses = [courses[k] for k in kept]
    nodes = list(graph.nodes)
    positions = attribute_positions(graph, nodes)
    number = {node: k for k, node in enumerate(nodes)}
    pairs = np.array([(number[a], number[b]) for a, b in ends], dtype=np.int64)
    return Roads(
        nodes=nodes,
        sources=[source for source, _ in ends],
        targets=[target for _, target in ends],
        lengths=lengths,
        positions=positions,
        courses=courses,
        is_geographic=positions is not None
        and are_degrees(positions, pairs, lengths, graph.graph.get("crs")),
    )


def edge_length(source: Any, target: Any, attributes: dict[str, Any], name: str) -> float:
    """The length of an edge; texts of numbers, as GraphML may have them, are read."""
    if name not in attributes:
        raise InvalidInputError(
            f"length: expected an attribute {name!r} of every edge, edge {source!r}-{target!r} has "
            f"{sorted(map(str, attributes)) or 'none'}"
        )
    try:
        return float(attributes[name])
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"length: expected a number, edge {source!r}-{target!r} has {attributes[name]!r}"
        ) from None


def course(geometry: Any) -> Course:
    """Positions along a line of shapely, or None."""
    points = np.array(getattr(geometry, "coords", []), dtype=np.float64)
    return points if points.ndim == 2 and len(points) > 1 else None


def one_of_both_directions(
    ends: list[tuple[Any, Any]], lengths: FloatArray, courses: Sequence[Course]
) -> list[int]:
    """Numbers of the edges, ascending, with one number for both directions of a road.

    Every edge is the other direction of one other edge at most; the first edge of a pair counts.
    """
    waiting: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    kept = []
    for number, (source, target) in enumerate(ends):
        others = waiting[target, source]
        match = next((k for k in others if is_reverse(k, number, lengths, courses)), None)
        if match is None:
            kept.append(number)
            waiting[source, target].append(number)
        else:
            others.remove(match)
    return kept


def is_reverse(a: int, b: int, lengths: FloatArray, courses: Sequence[Course]) -> bool:
    """Whether two edges with exchanged ends are one road."""
    if not abs(lengths[a] - lengths[b]) <= SAME_LENGTH * max(lengths[a], lengths[b]):
        return False
    one, other = courses[a], courses[b]
    if one is None or other is None:
        return True
    if one.shape != other.shape:
        return False
    size = np.ptp(one, axis=0).max()
    return bool(np.abs(one - other[::-1]).max() <= SAME_COURSE * size)


def attribute_positions(graph: Any, nodes: list[Hashable]) -> FloatArray | None:
    """Positions (n, 2) of node attributes x and y; None if no node has them."""
    found = [(attributes.get("x"), attributes.get("y")) for _, attributes in graph.nodes(data=True)]
    missing = [node for node, pair in zip(nodes, found, strict=True) if None in pair]
    if len(missing) == len(nodes):
        return None
    if missing:
        raise InvalidInputError(
            f"graph: expected attributes x and y of every node or of none, node {missing[0]!r} has "
            f"none ({len(missing)} such nodes)"
        )
    try:
        return np.array(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"graph: expected numbers x and y of nodes: {error}") from None


class EdgePieces(NamedTuple):
    """A network of which every edge is cut into pieces of equal length.

    Attributes
    ----------
    n_vertices : int
        Number of vertices: nodes first, then those within edges, edge by edge from its source.
    elements : IntArray (m, 2)
        Ends of the pieces, edge by edge from its source.
    lengths : FloatArray (m,)
    parents : IntArray (m,)
        The edge that each piece is a part of, ascending.
    starts, ends : FloatArray (m,)
        Shares of the edge's length at which the piece starts and ends.
    """

    n_vertices: int
    elements: IntArray
    lengths: FloatArray
    parents: IntArray
    starts: FloatArray
    ends: FloatArray


def auto_max_edge(lengths: FloatArray) -> float:
    """Total length / max(4 edges, 2000): about four pieces an edge, and 2000 in small networks.

    It gives at most five pieces an edge and 2000 more, however the lengths are spread.
    """
    return float(lengths.sum() / max(AUTO_PIECES_AN_EDGE * lengths.size, AUTO_PIECES))


def cut(ends: IntArray, lengths: FloatArray, n_nodes: int, max_edge: float | None) -> EdgePieces:
    """Cut edges (g, 2) of lengths (g,) into pieces of at most `max_edge`; loops into three or more.

    Raises
    ------
    InvalidInputError
        There would be more than two million pieces.
    """
    loops = ends[:, 0] == ends[:, 1]
    needed = np.ones(lengths.size) if max_edge is None else np.ceil(lengths / max_edge)
    needed = np.maximum(needed, np.where(loops, LOOP_PIECES, 1))
    if needed.sum() > MAX_VERTICES:
        raise InvalidInputError(
            f"max_edge: expected a length that makes at most {MAX_VERTICES} pieces, got "
            f"{max_edge:g}, which makes {needed.sum():.2g}; max_edge='auto' takes "
            f"{auto_max_edge(lengths):.3g}"
        )
    count = needed.astype(np.int64)
    parents = np.repeat(np.arange(lengths.size), count)
    first = np.cumsum(count) - count
    place = np.arange(parents.size) - first[parents]  # number of the piece within its edge
    # The vertices within edge e are numbered from n_nodes + (pieces before it) - (edges before it).
    inner = n_nodes + first[parents] - parents + place
    start = np.where(place == 0, ends[parents, 0], inner - 1)
    end = np.where(place == count[parents] - 1, ends[parents, 1], inner)
    pieces = count[parents]
    return EdgePieces(
        n_vertices=n_nodes + int((count - 1).sum()),
        elements=np.stack([start, end], axis=1),
        lengths=lengths[parents] / pieces,
        parents=parents,
        starts=place / pieces,
        ends=(place + 1) / pieces,
    )


def network_matrices(pieces: EdgePieces) -> Matrices:
    """Stiffness and lumped mass of linear elements."""
    start, end = pieces.elements.T
    mass = np.bincount(pieces.elements.ravel(), np.repeat(pieces.lengths / 2, 2))
    mass = np.maximum(mass, MASS_FLOOR * mass.max())
    return laplacian_matrices(start, end, 1.0 / pieces.lengths, mass)


def piece_positions(
    pieces: EdgePieces, ends: IntArray, positions: FloatArray, courses: Sequence[Course] | None
) -> FloatArray:
    """Positions (n_vertices, d) of nodes (n, d) and of the vertices within edges.

    Vertices lie at their shares of an edge's course, a straight line where that is None.
    """
    inner = pieces.ends < 1.0
    share = pieces.ends[inner, None]
    edges = pieces.parents[inner]
    start, end = ends[edges].T
    between = (1.0 - share) * positions[start] + share * positions[end]
    if courses is not None:
        for edge in np.unique(edges):  # edges of one piece have no vertices within
            course = courses[edge]
            if course is not None:
                rows = slice(*np.searchsorted(edges, [edge, edge + 1]))
                course = forward(course, positions[ends[edge, 0]], positions[ends[edge, 1]])
                between[rows] = at_shares(course, share[rows, 0])
    return np.vstack([positions, between])


def forward(course: FloatArray, source: FloatArray, target: FloatArray) -> FloatArray:
    """A course (k, d) from source to target, reversed if it runs the other way."""
    ahead = np.linalg.norm(course[0] - source) + np.linalg.norm(course[-1] - target)
    back = np.linalg.norm(course[0] - target) + np.linalg.norm(course[-1] - source)
    return course[::-1] if back < ahead else course


def at_shares(course: FloatArray, shares: FloatArray) -> FloatArray:
    """Positions (s, d) at shares (s,) of the length of a course (k, d)."""
    steps = np.linalg.norm(np.diff(course, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    return np.stack([np.interp(shares * along[-1], along, x) for x in course.T], axis=1)


def longest_way(elements: IntArray, lengths: FloatArray, n_vertices: int) -> float:
    """A distance along the network that is close to its largest one, in the largest component.

    The largest distance from a vertex that is the farthest one from an arbitrary vertex.
    """
    graph = shortest_links(elements, lengths, n_vertices)
    member = csgraph.connected_components(graph, directed=False)[1]
    weight = np.bincount(member[elements[:, 0]], lengths, minlength=int(member.max()) + 1)
    start = int(np.flatnonzero(member == np.argmax(weight))[0])
    for _ in range(2):
        distances = csgraph.dijkstra(graph, directed=False, indices=start)
        distances[~np.isfinite(distances)] = -1.0
        start = int(np.argmax(distances))
    return float(distances.max())


def shortest_links(elements: IntArray, lengths: FloatArray, n_vertices: int) -> sparse.csr_array:
    """Matrix (n_vertices, n_vertices) of the shortest of parallel pieces, upper triangle."""
    ends = np.sort(elements, axis=1)
    order = np.lexsort([lengths, ends[:, 1], ends[:, 0]])
    _, first = np.unique(ends[order], axis=0, return_index=True)
    chosen = order[first]
    entries = (lengths[chosen], (ends[chosen, 0], ends[chosen, 1]))
    return sparse.coo_array(entries, shape=(n_vertices, n_vertices)).tocsr()


def network_parts(
    sources: Any,
    targets: Any,
    lengths: ArrayLike,
    positions: ArrayLike | None,
    courses: Sequence[Any] | None,
    labels: Iterable[Any] | None,
    n_nodes: int | None,
    max_edge: MaxEdge,
    is_geographic: bool,
) -> dict[str, Any]:
    """Fields of the operator of a network; see `LaplaceOperator.from_edges`."""
    sources, targets = list_like(sources, "sources"), list_like(targets, "targets")
    values = edge_lengths(lengths, sources, targets)
    start, end, size, found = number_ends(sources, targets, n_nodes, labels)
    places = None if positions is None else node_positions(positions, size)
    if places is not None and found is not None and labels is None:
        raise InvalidInputError(
            "labels: expected the nodes' labels in the order of `positions`, got none"
        )
    lines = None if courses is None else edge_courses(courses, values.size, places)
    origin = centre(places) if is_geographic and places is not None else None
    if origin is not None and places is not None:
        places = local_metres(places, origin)
        lines = lines and [None if x is None else local_metres(x, origin) for x in lines]
    used, ends = np.unique(np.stack([start, end], axis=1), return_inverse=True)
    ends = ends.reshape(-1, 2)
    pieces = cut(ends, values, used.size, chosen_length(max_edge, lambda: auto_max_edge(values)))
    number = np.full(size, -1)
    number[used] = np.arange(used.size)
    stiffness, mass = network_matrices(pieces)
    return {
        "stiffness": stiffness,
        "mass": mass,
        "dimension": 1,
        "positions": None if places is None else piece_positions(pieces, ends, places[used], lines),
        "elements": pieces.elements,
        "parents": pieces.parents,
        "given_vertices": number,
        "given_elements": ends,
        "labels": found,
        "element_lengths": pieces.lengths,
        "given_lengths": values,
        "origin": origin,
    }


# Mean radius of the earth in metres, as OSMnx computes lengths with.
EARTH_RADIUS = 6_371_009.0


def centre(degrees: FloatArray) -> FloatArray:
    """Longitude and latitude (2,) amid positions (n, 2)."""
    longitude = degrees[0, 0] + wrap(degrees[:, 0] - degrees[0, 0])
    latitude = degrees[:, 1]
    return np.array(
        [(longitude.min() + longitude.max()) / 2, (latitude.min() + latitude.max()) / 2]
    )


def local_metres(degrees: FloatArray, origin: FloatArray) -> FloatArray:
    """Equirectangular projection of longitudes and latitudes (n, 2) about a centre (2,), in metres.

    `x = R cos(latitude0) (longitude - longitude0)`, `y = R (latitude - latitude0)`. Lengths are
    right near the centre's latitude. At 45 degrees, 100 km north or south of it, lengths from west
    to east are 1.6 % off. The projection serves to find the road next to a point and to draw, not
    to measure lengths.
    """
    east = np.radians(wrap(degrees[:, 0] - origin[0])) * np.cos(np.radians(origin[1]))
    north = np.radians(degrees[:, 1] - origin[1])
    return EARTH_RADIUS * np.stack([east, north], axis=1)


def local_degrees(metres: FloatArray, origin: FloatArray) -> FloatArray:
    """Longitudes and latitudes (n, 2) of places (n, 2) in metres about a centre (2,)."""
    east, north = np.degrees(metres.T / EARTH_RADIUS)
    longitude = origin[0] + east / np.cos(np.radians(origin[1]))
    return np.stack([wrap(longitude), origin[1] + north], axis=1)


def wrap(degrees: FloatArray) -> FloatArray:
    """Differences of longitudes, of any shape, in [-180, 180)."""
    return (degrees + 180.0) % 360.0 - 180.0


def are_degrees(
    positions: FloatArray, ends: IntArray, lengths: FloatArray | None, crs: Any = None
) -> bool:
    """Whether positions (n, 2) of a network's nodes are longitudes and latitudes.

    The coordinate system `crs` says so. Without one they are if they may be (|x| <= 180,
    |y| <= 90) and the edges' lengths are nearer to those between positions on the earth than
    between plain ones; without lengths, if they may be.

    Parameters
    ----------
    positions
        Positions (n, 2), as given.
    ends
        Nodes (m, 2) between which edges run.
    lengths
        Lengths (m,) of the edges in metres; None: not known.
    crs
        Coordinate reference system, or its name; None: not known.
    """
    if crs is not None:
        return is_geographic(crs)
    if not (np.abs(positions) <= [180.0, 90.0]).all():  # NaN is none either
        return False
    if lengths is None:
        return True
    gaps = []
    for places in (positions, local_metres(positions, centre(positions))):
        straight = np.linalg.norm(places[ends[:, 0]] - places[ends[:, 1]], axis=1)
        usable = (straight > 0) & (lengths > 0)
        ratios = np.log(lengths[usable] / straight[usable])
        gaps.append(abs(np.median(ratios)) if usable.any() else 0.0)
    return bool(gaps[1] < gaps[0])


def is_geographic(crs: Any) -> bool:
    """Whether a coordinate reference system, or its name, is one of longitudes and latitudes."""
    found = getattr(crs, "is_geographic", None)
    if found is not None:
        return bool(found)
    return str(crs).upper().replace(" ", "") in {
        "EPSG:4326", "4326", "WGS84", "OGC:CRS84", "CRS84", "EPSG:4269", "EPSG:4258",
    }  # fmt: skip
