"""Triangle meshes, checked and welded, and the fields of operators of meshes and points."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.fields.checks import (
    MaxEdge,
    as_numbers,
    check_extent,
    chosen_length,
    surface_points,
)
from coupledgp.fields.cotangents import mesh_matrices, point_matrices
from coupledgp.fields.locations import as_points
from coupledgp.fields.nearest import nearest_places
from coupledgp.fields.refinement import RefinedMesh, centroid_places, refine
from coupledgp.graphs.forms import mesh_arrays
from coupledgp.ground.validation import check_positive_int, plain_array, wrong
from coupledgp.random import FloatArray, IntArray

# Area, relative to the squared diameter, below which a mesh counts as a curve or a point.
LEAST_AREA = 1e-14
# "auto" of surfaces: the diameter over this number.
AUTO_SHARE = 25.0


def surface_parts(mesh: Any, max_edge: MaxEdge) -> dict[str, Any]:
    """Fields of the operator of a mesh; see `LaplaceOperator.from_trimesh`."""
    clean = read(mesh)
    length = chosen_length(max_edge, lambda: extent(clean.positions) / AUTO_SHARE)
    refined = refine(clean.positions, clean.faces, length)
    stiffness, mass = mesh_matrices(refined.positions, refined.faces)
    _, first = np.unique(clean.face_of, return_index=True)
    given = first[-clean.faces.shape[0] :]  # without the first one of those that have no face
    return {
        "stiffness": stiffness,
        "mass": mass,
        "dimension": 2,
        "positions": refined.positions,
        "elements": refined.faces,
        "parents": given[refined.parents],
        "given_vertices": clean.given_vertices,
        "given_elements": clean.given_faces,
        "centroids": face_centroids(clean, refined),
    }


def face_centroids(clean: CleanMesh, refined: RefinedMesh) -> FloatArray:
    """Places (g, 6) of the centroids of all given faces.

    A face with equal corners is a segment or a point: the place is the nearest one to its centroid.
    """
    elements, weights = centroid_places(refined, clean.faces.shape[0])
    points = as_points(refined.faces[elements], weights)[clean.face_of]
    flat = np.flatnonzero(clean.face_of < 0)
    if flat.size:
        found = nearest_places(clean.given_centroids[flat], refined.positions[refined.faces])
        points[flat] = as_points(refined.faces[found.elements], found.weights)
    return points


def point_parts(points: ArrayLike, n_neighbors: int) -> dict[str, Any]:
    """Fields of the operator of points on a surface; see `LaplaceOperator.from_points`.

    The elements are the links of neighbours, triangles of which two corners are equal.
    """
    given = surface_points(points)
    used, number = np.unique(weld(given), return_inverse=True)
    check_positive_int(n_neighbors, "n_neighbors", 3)
    if n_neighbors >= used.size:
        raise wrong("n_neighbors", f"fewer than the {used.size} distinct points", n_neighbors)
    positions = np.ascontiguousarray(given[used])
    stiffness, mass = point_matrices(positions, n_neighbors)
    links = sparse.triu(stiffness, k=1).tocoo()
    elements = np.stack([links.row, links.col, links.col], axis=1).astype(np.int64)
    return {
        "stiffness": stiffness,
        "mass": mass,
        "dimension": 2,
        "positions": positions,
        "elements": elements,
        "parents": np.arange(len(elements)),
        "given_vertices": number.reshape(-1).astype(np.int64),
        "given_elements": elements.copy(),
    }


class CleanMesh(NamedTuple):
    """A mesh of distinct vertices, each the corner of a face.

    Attributes
    ----------
    positions : FloatArray (n, 3)
        Distinct positions in the order in which they are given first.
    faces : IntArray (m, 3)
        Faces with three distinct corners, each once.
    given_vertices : IntArray (v,)
        The vertex of each given one; -1 where that is no corner of a face.
    given_faces : IntArray (g, 3)
        All given faces, in the numbers of the distinct vertices.
    face_of : IntArray (g,)
        The face of each given one; -1 where that has no three distinct corners.
    given_centroids : FloatArray (g, 3)
        Centroids of all given faces.
    """

    positions: FloatArray
    faces: IntArray
    given_vertices: IntArray
    given_faces: IntArray
    face_of: IntArray
    given_centroids: FloatArray


def read(mesh: Any) -> CleanMesh:
    """Check a mesh and weld vertices at the same position.

    Parameters
    ----------
    mesh
        Anything that `coupledgp.graphs.forms.mesh_arrays` reads.

    Raises
    ------
    InvalidInputError
        There are no such arrays, a face is no triangle, has a vertex number out of range or a
        corner whose position is not finite, or no face has an area.
    """
    vertices, faces = arrays(mesh)
    distinct = weld(vertices)
    faces = distinct[faces]
    proper = np.all(faces != np.roll(faces, 1, axis=1), axis=1)
    if not proper.any():
        raise InvalidInputError("mesh: expected a face with three different corners, got none")
    face_of = np.full(faces.shape[0], -1)
    _, first, copy = np.unique(
        np.sort(faces[proper], axis=1), axis=0, return_index=True, return_inverse=True
    )
    order = np.sort(first)  # each face where it is given first
    face_of[proper] = np.searchsorted(order, first[copy.reshape(-1)])
    kept = faces[proper][order]
    used, corners = np.unique(kept, return_inverse=True)
    number = np.full(vertices.shape[0], -1)
    number[used] = np.arange(used.size)
    positions = np.ascontiguousarray(vertices[used])
    refuse_flat(positions, corners.reshape(kept.shape))
    # A degenerate face may have corners that belong to no other one: number -1.
    return CleanMesh(
        positions, corners.reshape(kept.shape), number[distinct], number[faces], face_of,
        vertices[faces].mean(axis=1),
    )  # fmt: skip


def arrays(mesh: Any) -> tuple[FloatArray, IntArray]:
    """Checked vertices (v, 3) and faces (g, 3), copied."""
    given_vertices, given_faces = mesh_arrays(mesh)
    vertices = as_numbers(plain_array(given_vertices, "mesh"), "mesh")
    faces = np.asarray(plain_array(given_faces, "mesh"))
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        raise wrong("mesh", "vertices of shape (v, 3)", vertices.shape)
    if faces.ndim != 2 or faces.shape[0] == 0 or faces.shape[1] != 3:
        raise InvalidInputError(
            f"mesh: expected triangles, faces of shape (f, 3), got {faces.shape}; trimesh.Trimesh("
            "vertices, faces) triangulates quadrilaterals"
        )
    if faces.dtype.kind not in "iu":
        raise InvalidInputError(f"mesh: expected faces of integers, got {faces.dtype}")
    faces = faces.astype(np.int64)
    bad = np.flatnonzero(((faces < 0) | (faces >= vertices.shape[0])).any(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"mesh: expected vertex numbers from 0 to {vertices.shape[0] - 1} in its faces, got "
            f"{faces[bad[0]].tolist()} in face {bad[0]}"
        )
    finite = np.all(np.isfinite(vertices), axis=1)
    bad = np.flatnonzero(~finite[faces].all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"mesh: expected finite positions, got a corner of face {bad[0]} without one "
            f"({bad.size} such faces)"
        )
    vertices[~finite] = 0.0  # no corner of any face
    check_extent(vertices[np.unique(faces)], "mesh")
    return vertices, faces


def weld(vertices: FloatArray) -> IntArray:
    """For each vertex (v,) the first one at the same position."""
    order = np.lexsort(vertices.T)
    ordered = vertices[order]
    new = np.concatenate([[True], np.any(ordered[1:] != ordered[:-1], axis=1)])
    first = np.minimum.reduceat(order, np.flatnonzero(new))
    out = np.empty(order.size, dtype=np.int64)
    out[order] = first[np.cumsum(new) - 1]
    return out


def extent(positions: FloatArray) -> float:
    """Diagonal of the bounding box of positions (n, d)."""
    return float(np.linalg.norm(positions.max(axis=0) - positions.min(axis=0)))


def area(positions: FloatArray, faces: IntArray) -> float:
    """Total area of triangles."""
    sides = positions[faces[:, 1:]] - positions[faces[:, :1]]
    return float(np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1).sum() / 2)


def refuse_flat(positions: FloatArray, faces: IntArray) -> None:
    """Refuse a mesh without area."""
    if not area(positions, faces) > LEAST_AREA * extent(positions) ** 2:
        raise InvalidInputError(
            f"mesh: expected faces with an area, got {faces.shape[0]} faces whose corners lie on "
            "lines"
        )
