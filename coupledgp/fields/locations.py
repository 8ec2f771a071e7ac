"""Places on a surface or network: vertices of an element and barycentric weights.

Places are rows of an array `points` (p, 2 c), c = 3 corners of a triangle or 2 ends of a segment: c
vertex numbers, then c weights, which are non-negative and add up to one. A field f on the vertices
has the value `sum_k weight_k f(vertex_k)` there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import MOST_NAMED, real_array, wrong
from coupledgp.random import FloatArray, IntArray

# Digits of the weights by which places differ: more than a sensor's position has.
PLACE_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Locations:
    """Places on a surface or network.

    Attributes
    ----------
    points : FloatArray (p, 2 (dimension + 1))
        Vertex numbers of the element, then the barycentric weights.
    distances : FloatArray (p,)
        Straight distance from the point that was given to its place, in the unit of the positions;
        zeros where a place was given exactly.

    Examples
    --------
    >>> import trimesh
    >>> import coupledgp as cgp
    >>> box = cgp.LaplaceOperator.from_trimesh(trimesh.creation.box((2.0, 2.0, 2.0)))
    >>> places = box.project([[1.5, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> places.distances.round(6).tolist(), len(places[:1])  # from the surface, where x = 1
    ([0.5, 0.0], 1)
    """

    points: FloatArray
    distances: FloatArray

    def __len__(self) -> int:
        return int(self.points.shape[0])

    def __getitem__(self, rows: slice | IntArray) -> Locations:
        """The places of some rows, a slice or an array of numbers or booleans."""
        return Locations(np.atleast_2d(self.points[rows]), np.atleast_1d(self.distances[rows]))


@dataclass(frozen=True, eq=False)
class ElementLookup:
    """The element that has given corners, in any order.

    Attributes
    ----------
    n_vertices : int
        Number of vertices.
    pairs : IntArray (q,)
        Sorted numbers of the pairs of least and greatest corners.
    keys, order : IntArray (m,)
        Sorted numbers of the sets of corners, and the element of each.
    """

    n_vertices: int
    pairs: IntArray
    keys: IntArray
    order: IntArray

    @classmethod
    def of(cls, elements: IntArray, n_vertices: int) -> ElementLookup:
        """The lookup of elements (m, k) among so many vertices."""
        numbers, middle = _pairs(elements, n_vertices)
        pairs = np.unique(numbers)
        keys = np.searchsorted(pairs, numbers) * n_vertices + middle
        order = np.argsort(keys, kind="stable")
        return cls(n_vertices, pairs, keys[order], order)

    def find(self, corners: IntArray) -> tuple[NDArray[np.bool_], IntArray]:
        """Whether rows (p, k) are the corners of an element, and the first such element."""
        numbers, middle = _pairs(corners, self.n_vertices)
        pair = np.minimum(np.searchsorted(self.pairs, numbers), self.pairs.size - 1)
        keys = pair * self.n_vertices + middle
        place = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        found = (self.pairs[pair] == numbers) & (self.keys[place] == keys)
        return found, self.order[place]


def _pairs(elements: IntArray, n_vertices: int) -> tuple[IntArray, IntArray]:
    """A number (m,) of the least and greatest corner of each set (m, k), and the corner between."""
    sides = np.sort(elements, axis=1)
    return sides[:, 0] * n_vertices + sides[:, -1], sides[:, sides.shape[1] // 2]


def as_points(corners: IntArray, weights: FloatArray) -> FloatArray:
    """Rows of `points` (p, 2 c) from vertex numbers and weights, both (p, c)."""
    return np.hstack([corners.astype(np.float64), weights])


def refuse_far(distances: FloatArray, within: float) -> None:
    """Refuse points at distances (p,) of more than `within`.

    Raises
    ------
    InvalidInputError
        There are some: the message has their number, their rows, and the greatest distance.
    """
    far = np.flatnonzero(distances > within)
    if far.size:
        named = ", ".join(map(str, far[:MOST_NAMED])) + (", ..." if far.size > MOST_NAMED else "")
        raise InvalidInputError(
            f"points: expected all within {within:g} of the surface or network, got "
            f"{far.size} of {distances.size} farther away, rows {named}; the farthest is "
            f"{distances.max():.4g} away"
        )


def exact(points: FloatArray) -> Locations:
    """Places that were given exactly."""
    return Locations(points, np.zeros(points.shape[0]))


def at_corners(vertices: IntArray, n_corners: int) -> FloatArray:
    """Rows (p, 2 n_corners) of places at vertices (p,)."""
    weights = np.zeros((vertices.size, n_corners))
    weights[:, 0] = 1.0
    return as_points(np.repeat(vertices[:, None], n_corners, axis=1), weights)


def split_points(points: ArrayLike) -> tuple[IntArray, FloatArray]:
    """Vertex numbers and weights, both (p, c), of the rows of `points` (p, 2 c)."""
    rows = real_array(points, "points")
    if rows.ndim != 2 or rows.shape[1] not in (4, 6):
        raise wrong("points", "shape (p, 4) on networks or (p, 6) on surfaces", rows.shape)
    n_corners = rows.shape[1] // 2
    return rows[:, :n_corners].astype(np.int64), rows[:, n_corners:]


def location_rows(points: ArrayLike, n_vertices: int) -> sparse.csr_array:
    """The matrix A (p, n_vertices) with `f(places) = A f(vertices)`.

    Parameters
    ----------
    points
        Rows (p, 2 c): vertex numbers, then weights.
    n_vertices
        Number of vertices of the operator.
    """
    corners, weights = split_points(points)
    rows = np.repeat(np.arange(corners.shape[0]), corners.shape[1])
    entries = (weights.ravel(), (rows, corners.ravel()))
    matrix = sparse.coo_array(entries, shape=(corners.shape[0], n_vertices)).tocsr()
    matrix.eliminate_zeros()  # corners of weight zero
    return matrix


def location_positions(points: ArrayLike, positions: FloatArray) -> FloatArray:
    """Positions (p, d) of places, from the positions (n, d) of the vertices."""
    corners, weights = split_points(points)
    return np.einsum("pc,pcd->pd", weights, positions[corners])


def canonical(points: ArrayLike) -> FloatArray:
    """Rows (p, 2 c) in one form, so that equal places have equal rows.

    A vertex is a corner of several elements, and a place on an edge is on two triangles: corners
    without weight repeat the heaviest one, corners ascend, and weights have `PLACE_DIGITS` digits.
    """
    corners, weights = split_points(points)
    weights = weights.round(PLACE_DIGITS)
    heaviest = np.take_along_axis(corners, weights.argmax(axis=1)[:, None], axis=1)
    corners = np.where(weights > 0, corners, heaviest)
    order = np.lexsort([weights, corners], axis=1)
    return as_points(
        np.take_along_axis(corners, order, axis=1), np.take_along_axis(weights, order, axis=1)
    )


def place_numbers(points: ArrayLike) -> IntArray:
    """Numbers (p,) of the distinct places among rows (p, 2 c): the same number, the same place."""
    _, numbers = np.unique(canonical(points), axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64)
