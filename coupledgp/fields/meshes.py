"""Triangle meshes, checked and welded, and the fields of operators of meshes and points.

Stiffness and mass of a triangle mesh: intrinsic Delaunay cotangents, or plain ones.

A triangle (i, j, k) with the angle t at k and the area A adds `S_ij -= cot(t) / 2` and
`M_i += A / 3`, so that `f' S f = int |grad f|^2` for functions that are linear on triangles.

Conforming refinement of triangle meshes: long edges are split at their midpoints.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.fields.checks import MaxEdge, as_numbers, check_extent, chosen_length, surface_points
from coupledgp.fields.locations import as_points, nearest_places
from coupledgp.ground.extras import library
from coupledgp.ground.forms import mesh_arrays
from coupledgp.ground.validation import check_positive_int, plain_array, wrong
from coupledgp.ground.visible import warn
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
        Anything that `coupledgp.ground.forms.mesh_arrays` reads.

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


# Length, relative to the mean length of an edge, by which degenerate triangles are opened.
MOLLIFY = 1e-5
# Smallest mass of a vertex, relative to the largest one.
MASS_FLOOR = 1e-12
# Share of negative edge weights of plain cotangents above which a warning says so.
NEGATIVE_SHARE = 0.01
# Smallest sine of an angle, for cotangents of degenerate triangles.
LEAST_SINE = 1e-9


class Matrices(NamedTuple):
    """Stiffness (n, n) with rows that add up to zero, and lumped mass (n,)."""

    stiffness: sparse.csr_array
    mass: FloatArray


def mesh_matrices(positions: FloatArray, faces: IntArray) -> Matrices:
    """Stiffness and mass of a triangle mesh by intrinsic Delaunay triangulation.

    Sharp and Crane, "A Laplacian for nonmanifold triangle meshes" (2020), by the package
    robust_laplacian; without that package plain cotangents, of which negative weights are clipped.

    Parameters
    ----------
    positions
        Positions (n, 3), each a corner of a face.
    faces
        Vertex numbers (f, 3), different ones within a face.
    """
    # Any unit of length and any place: the matrices are made at unit size about the origin.
    low, high = positions.min(axis=0), positions.max(axis=0)
    size = float(np.linalg.norm(high - low))
    scaled = np.ascontiguousarray((positions - (low + high) / 2) / size)
    robust = robust_laplacian()
    if robust is None:
        stiffness, mass = plain_cotangents(scaled, faces)
    else:
        stiffness, diagonal = robust.mesh_laplacian(scaled, faces, mollify_factor=MOLLIFY)
        mass = diagonal.diagonal()
    return clean(stiffness, mass * size**2)


def point_matrices(positions: FloatArray, n_neighbors: int) -> Matrices:
    """Stiffness and mass of points (n, 3) on a surface, by robust_laplacian.

    The union of the points' local Delaunay triangulations, each in the tangent plane of
    `n_neighbors` neighbours.
    """
    robust = library("robust_laplacian", "points: an operator of points")
    low, high = positions.min(axis=0), positions.max(axis=0)
    size = float(np.linalg.norm(high - low))
    scaled = np.ascontiguousarray((positions - (low + high) / 2) / size)
    try:
        stiffness, mass = robust.point_cloud_laplacian(
            scaled, mollify_factor=MOLLIFY, n_neighbors=n_neighbors
        )
    except RuntimeError as error:  # points on a line, or otherwise without triangles
        raise InvalidInputError(f"points: expected points on a surface: {error}") from error
    return clean(stiffness, mass.diagonal() * size**2)


def robust_laplacian() -> ModuleType | None:
    """The package robust_laplacian, None where it is not installed."""
    try:
        import robust_laplacian
    except ImportError:
        return None
    return robust_laplacian


def clean(stiffness: sparse.sparray, mass: FloatArray) -> Matrices:
    """Symmetric to the bit, no positive entries off the diagonal, rows that add up to zero.

    Positive entries, which are rounding on intrinsic Delaunay triangulations, are dropped.
    """
    upper = sparse.triu(stiffness + stiffness.T, k=1).tocoo()
    keep = upper.data < 0
    return laplacian_matrices(
        upper.row[keep].astype(np.int64),
        upper.col[keep].astype(np.int64),
        -0.5 * upper.data[keep],
        np.maximum(mass, MASS_FLOOR * mass.max()),
    )


def laplacian_matrices(
    start: IntArray, end: IntArray, weights: FloatArray, mass: FloatArray
) -> Matrices:
    """`S_ij = -w_ij` summed over links (k,) between different vertices, `S_ii = sum_j w_ij`."""
    n = mass.size
    half = sparse.coo_array((-weights, (start, end)), shape=(n, n)).tocsr()
    off = sparse.csr_array(half + half.T)
    diagonal = sparse.diags_array(-np.asarray(off.sum(axis=1)).ravel(), format="csr")
    stiffness = sparse.csr_array(off + diagonal)
    stiffness.sort_indices()
    return Matrices(stiffness, mass)


def plain_cotangents(positions: FloatArray, faces: IntArray) -> tuple[sparse.csr_array, FloatArray]:
    """Stiffness and mass with the cotangents of the triangles as they are.

    Warns where more than one per cent of the edges have negative weights.
    """
    corners = positions[faces]  # (f, 3, 3)
    double_area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    n, parts = positions.shape[0], []
    for k in range(3):
        a = corners[:, (k + 1) % 3] - corners[:, k]
        b = corners[:, (k + 2) % 3] - corners[:, k]
        size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        cotangent = np.einsum("fd,fd->f", a, b) / np.maximum(double_area, LEAST_SINE * size)
        ends = np.sort(faces[:, [(k + 1) % 3, (k + 2) % 3]], axis=1)
        parts.append(sparse.coo_array((-cotangent / 2, (ends[:, 0], ends[:, 1])), shape=(n, n)))
    upper = sparse.csr_array(sum(part.tocsr() for part in parts))
    share = float((upper.data > 0).mean())
    if share > NEGATIVE_SHARE:
        warn(
            f"robust_laplacian is not installed, and {share:.0%} of the edges of this mesh have "
            "negative cotangent weights, which are left out; pip install 'coupledgp[geo]' "
            "makes a better operator"
        )
    mass = np.zeros(n)
    np.add.at(mass, faces, double_area[:, None] / 6)
    return sparse.csr_array(upper + upper.T), mass


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
