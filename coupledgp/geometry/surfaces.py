"""From a mesh, or points on a surface, to the fields of an operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.geometry.checks import MaxEdge, chosen_length, surface_points
from coupledgp.geometry.cotangents import mesh_matrices, point_matrices
from coupledgp.geometry.locations import as_points
from coupledgp.geometry.meshes import CleanMesh, extent, read, weld
from coupledgp.geometry.nearest import nearest_places
from coupledgp.geometry.refinement import RefinedMesh, centroid_places, refine
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray

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
        raise InvalidInputError(
            f"n_neighbors: expected fewer than the {used.size} distinct points, got {n_neighbors}"
        )
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
