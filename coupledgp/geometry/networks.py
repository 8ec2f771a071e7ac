"""Networks: edges with lengths, cut into pieces, and the matrices of their linear elements.

A piece of length l from vertex i to j adds `S_ij -= 1 / l`, `S_ii += 1 / l`, `M_i += l / 2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.errors import InvalidInputError
from coupledgp.geometry.checks import (
    MaxEdge,
    chosen_length,
    edge_courses,
    edge_lengths,
    node_positions,
)
from coupledgp.geometry.cotangents import MASS_FLOOR, Matrices, laplacian_matrices
from coupledgp.geometry.degrees import centre, local_metres
from coupledgp.geometry.refinement import MAX_VERTICES
from coupledgp.graphs.graph import list_like, number_ends
from coupledgp.random import FloatArray, IntArray

# A loop needs three pieces to enclose a length that is not zero between different vertices.
LOOP_PIECES = 3
# Positions (k, d) along an edge from one end to the other; None is a straight line.
Course = FloatArray | None
# "auto" cuts the network into about this number of pieces for each edge, and at least so many.
AUTO_PIECES_AN_EDGE, AUTO_PIECES = 4, 2000


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
