"""Stiffness and mass of a triangle mesh: intrinsic Delaunay cotangents, or plain ones.

A triangle (i, j, k) with the angle t at k and the area A adds `S_ij -= cot(t) / 2` and
`M_i += A / 3`, so that `f' S f = int |grad f|^2` for functions that are linear on triangles.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import library
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

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
