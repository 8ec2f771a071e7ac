"""Conforming refinement of triangle meshes: long edges are split at their midpoints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Largest number of vertices that a refinement may make.
MAX_VERTICES = 2_000_000


class RefinedMesh(NamedTuple):
    """A refined mesh.

    Attributes
    ----------
    positions : FloatArray (n, d)
        The given vertices first.
    faces : IntArray (m, 3)
    parents : IntArray (m,)
        The given face that each face is a part of.
    corners : FloatArray (m, 3, 3)
        Barycentric weights of each face's corners in its given face.
    """

    positions: FloatArray
    faces: IntArray
    parents: IntArray
    corners: FloatArray


def refine(positions: FloatArray, faces: IntArray, max_edge: float | None) -> RefinedMesh:
    """Split edges until none is longer than `max_edge`; faces stay conforming.

    An edge is split in all faces that share it, so that no vertex lies within the side of a face.
    One, two or three split edges cut a face into two, three or four; the quadrilateral that two
    split edges leave is cut by its shorter diagonal.

    Parameters
    ----------
    positions
        Positions (v, d).
    faces
        Vertex numbers (f, 3).
    max_edge
        Largest length of an edge, in the unit of the positions; None leaves the mesh as it is.

    Raises
    ------
    InvalidInputError
        The refined mesh would have more than two million vertices.
    """
    n_faces = faces.shape[0]
    corners = np.broadcast_to(np.eye(3), (n_faces, 3, 3)).copy()
    mesh = RefinedMesh(positions, faces, np.arange(n_faces), corners)
    if max_edge is None:
        return mesh
    refuse_many(estimate_vertices(positions, faces, max_edge), max_edge)
    while True:
        ends, edge_of = mesh_edges(mesh.faces)
        lengths = np.linalg.norm(mesh.positions[ends[:, 0]] - mesh.positions[ends[:, 1]], axis=1)
        long = lengths > max_edge
        if not long.any():
            return mesh
        mesh = split(mesh, ends, edge_of, long)
        refuse_many(mesh.positions.shape[0], max_edge)


def mesh_edges(faces: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct edges (e, 2), and the number (f, 3) of the edge from each corner to the next."""
    sides = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1), axis=-1)
    base = int(faces.max()) + 1
    keys, numbers = np.unique(sides[..., 0] * base + sides[..., 1], return_inverse=True)
    return np.stack([keys // base, keys % base], axis=1), numbers.reshape(faces.shape)


def split(mesh: RefinedMesh, ends: IntArray, edge_of: IntArray, long: np.ndarray) -> RefinedMesh:
    """Split the edges (e, 2) marked `long` (e,) at their midpoints."""
    n = mesh.positions.shape[0]
    middle = np.full(long.size, -1)
    middle[long] = n + np.arange(int(long.sum()))
    added = mesh.positions[ends[long]].mean(axis=1)
    positions = np.vstack([mesh.positions, added])
    marks = long[edge_of]
    count = marks.sum(axis=1)
    # Turn each face so that its pattern begins with a split edge and ends with an unsplit one.
    turn = np.where(count == 2, (np.argmin(marks, axis=1) + 1) % 3, np.argmax(marks, axis=1))
    order = (turn[:, None] + np.arange(3)) % 3
    rows = np.arange(turn.size)[:, None]
    # Six points of a face: its corners, then the midpoints of the edges that follow them.
    points = np.hstack([mesh.faces[rows, order], middle[edge_of][rows, order]])
    turned = mesh.corners[rows, order]
    weights = np.concatenate([turned, (turned + np.roll(turned, -1, axis=1)) / 2], axis=1)
    parts = [(np.flatnonzero(count == 0), [[0, 1, 2]]), (np.flatnonzero(count == 1), ONE)]
    two = np.flatnonzero(count == 2)
    a, b = positions[points[two][:, [0, 4]]], positions[points[two][:, [3, 2]]]
    first = np.linalg.norm(a[:, 0] - a[:, 1], axis=1) <= np.linalg.norm(b[:, 0] - b[:, 1], axis=1)
    parts += [(two[first], TWO_FIRST), (two[~first], TWO_SECOND)]
    parts += [(np.flatnonzero(count == 3), THREE)]
    return RefinedMesh(
        positions,
        np.concatenate([points[chosen][:, pattern].reshape(-1, 3) for chosen, pattern in parts]),
        np.concatenate([np.repeat(mesh.parents[c], len(pattern)) for c, pattern in parts]),
        np.concatenate([weights[c][:, pattern].reshape(-1, 3, 3) for c, pattern in parts]),
    )


# Parts of a face with corners 0, 1, 2 and midpoints 3 (of 0-1), 4 (of 1-2), 5 (of 2-0).
ONE = [[0, 3, 2], [3, 1, 2]]
TWO_FIRST = [[3, 1, 4], [0, 3, 4], [0, 4, 2]]  # the diagonal from 0 to 4
TWO_SECOND = [[3, 1, 4], [0, 3, 2], [3, 4, 2]]  # the diagonal from 3 to 2
THREE = [[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]]


def estimate_vertices(positions: FloatArray, faces: IntArray, max_edge: float) -> float:
    """Rough number of vertices after refinement, from the lengths of edges and the area."""
    ends, _ = mesh_edges(faces)
    lengths = np.linalg.norm(positions[ends[:, 0]] - positions[ends[:, 1]], axis=1)
    sides = positions[faces[:, 1:]] - positions[faces[:, :1]]
    gram = np.einsum("fid,fjd->fij", sides, sides)
    area = 0.5 * np.sqrt(np.maximum(np.linalg.det(gram), 0.0)).sum()
    along = (lengths[lengths > max_edge] / max_edge).sum()
    return float(positions.shape[0] + along + 2.0 * area / max_edge**2)


def refuse_many(n_vertices: float, max_edge: float) -> None:
    """Refuse a refinement with more than `MAX_VERTICES` vertices."""
    if n_vertices > MAX_VERTICES:
        raise InvalidInputError(
            f"max_edge: expected a length that makes at most {MAX_VERTICES} vertices, got "
            f"{max_edge:g}, which makes about {n_vertices:.2g}; max_edge='auto' takes the "
            "diameter / 25"
        )


def centroid_places(mesh: RefinedMesh, n_given: int) -> tuple[IntArray, FloatArray]:
    """For the centroid of each given face (g,) the refined face it lies in, and weights (g, 3).

    The computation takes barycentric coordinates within the given face, of which every part has
    a regular share, so that slivers are no worse than other faces.
    """
    # The corners' weights as columns: T w = (1/3, 1/3, 1/3).
    target = np.full((mesh.faces.shape[0], 3, 1), 1.0 / 3.0)
    weights = np.linalg.solve(mesh.corners.transpose(0, 2, 1), target)[..., 0]
    order = np.lexsort([-weights.min(axis=1), mesh.parents])
    first = np.searchsorted(mesh.parents[order], np.arange(n_given))
    best = order[first]
    inside = np.maximum(weights[best], 0.0)
    return best, inside / inside.sum(axis=1, keepdims=True)
