"""Networks: edges with lengths, cut into pieces, and the matrices of their linear elements.

A piece of length l from vertex i to j adds `S_ij -= 1 / l`, `S_ii += 1 / l`, `M_i += l / 2`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.errors import InvalidInputError
from coupledgp.geometry.cotangents import MASS_FLOOR, Matrices, laplacian_matrices
from coupledgp.geometry.refinement import MAX_VERTICES
from coupledgp.random import FloatArray, IntArray

# A loop needs three pieces to enclose a length that is not zero between different vertices.
LOOP_PIECES = 3
# "auto" cuts the network into about this number of pieces for each edge, and at least so many.
AUTO_PIECES_AN_EDGE, AUTO_PIECES = 4, 2000


class Pieces(NamedTuple):
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

    At most five pieces an edge and 2000 more come of it, however the lengths are spread.
    """
    return float(lengths.sum() / max(AUTO_PIECES_AN_EDGE * lengths.size, AUTO_PIECES))


def cut(ends: IntArray, lengths: FloatArray, n_nodes: int, max_edge: float | None) -> Pieces:
    """Cut edges (g, 2) of lengths (g,) into pieces of at most `max_edge`; loops into three or more.

    Raises
    ------
    InvalidInputError
        More than two million pieces would come of it.
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
    return Pieces(
        n_vertices=n_nodes + int((count - 1).sum()),
        elements=np.stack([start, end], axis=1),
        lengths=lengths[parents] / pieces,
        parents=parents,
        starts=place / pieces,
        ends=(place + 1) / pieces,
    )


def network_matrices(pieces: Pieces) -> Matrices:
    """Stiffness and lumped mass of linear elements."""
    start, end = pieces.elements.T
    mass = np.bincount(pieces.elements.ravel(), np.repeat(pieces.lengths / 2, 2))
    mass = np.maximum(mass, MASS_FLOOR * mass.max())
    return laplacian_matrices(start, end, 1.0 / pieces.lengths, mass)


def piece_positions(pieces: Pieces, ends: IntArray, positions: FloatArray) -> FloatArray:
    """Positions (n_vertices, d) of nodes (n, d) and of the vertices between, on straight edges."""
    inner = pieces.ends < 1.0
    share = pieces.ends[inner, None]
    start, end = ends[pieces.parents[inner]].T
    return np.vstack([positions, (1.0 - share) * positions[start] + share * positions[end]])


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
