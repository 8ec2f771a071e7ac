"""Places on a surface or network: vertices of an element and barycentric weights.

Places are rows of an array `points` (p, 2 c), c = 3 corners of a triangle or 2 ends of a segment: c
vertex numbers, then c weights, which are non-negative and add up to one. A field f on the vertices
has the value `sum_k weight_k f(vertex_k)` there.

Nearest places on triangles and segments of points in space, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial import cKDTree

from coupledgp.errors import InvalidInputError
from coupledgp.fields.checks import check_coordinates
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


# Elements of one tree differ in radius by this factor at most.
RADIUS_RATIO = 2.0
# Pairs of points and candidate elements that are compared at a time.
PAIRS_AT_A_TIME = 2_000_000


class Nearest(NamedTuple):
    """Nearest elements (p,), barycentric weights (p, c) there and distances (p,)."""

    elements: IntArray
    weights: FloatArray
    distances: FloatArray


def nearest_places(points: FloatArray, corners: FloatArray) -> Nearest:
    """The nearest place on any element of each point.

    Trees of centroids give candidates: an element of radius r whose centroid is farther than
    `d + r` is farther than d. Elements of like radius share a tree, so that a few large elements do
    not make candidates of all small ones.

    Parameters
    ----------
    points
        Points (p, d).
    corners
        Corners of the elements (m, c, d): c = 3 triangles, 2 segments.
    """
    check_coordinates(points, "points")
    centre = corners.mean(axis=(0, 1))
    points, corners = points - centre, corners - centre
    centroids = corners.mean(axis=1)
    radii = np.linalg.norm(corners - centroids[:, None], axis=2).max(axis=1)
    groups = [ElementGroup.of(members, centroids, radii) for members in like_radii(radii)]
    found = Nearest(
        np.zeros(len(points), np.int64),
        np.zeros((len(points), corners.shape[1])),
        np.full(len(points), np.inf),
    )
    for group in groups:
        _, nearest = group.tree.query(points)
        compare(found, np.arange(len(points)), group.members[nearest], points, corners)
    for group in groups:
        search(found, group, points, corners)
    return found


class ElementGroup(NamedTuple):
    """Elements of like radius: their numbers (k,), a tree of centroids, the largest radius."""

    members: IntArray
    tree: cKDTree
    radius: float

    @classmethod
    def of(cls, members: IntArray, centroids: FloatArray, radii: FloatArray) -> ElementGroup:
        """The group of some elements."""
        return cls(members, cKDTree(centroids[members]), float(radii[members].max()))


def like_radii(radii: FloatArray) -> list[IntArray]:
    """Elements (m,) in groups by powers of `RADIUS_RATIO`; all tiny ones are one group."""
    relative = np.maximum(radii / max(float(radii.max()), np.finfo(float).tiny), 1e-6)
    level = np.floor(np.log(relative) / np.log(RADIUS_RATIO))
    return [np.flatnonzero(level == value) for value in np.unique(level)]


def search(found: Nearest, group: ElementGroup, points: FloatArray, corners: FloatArray) -> None:
    """Compare each point with all elements of a group that may be nearer than those found."""
    reach = (found.distances + group.radius) * (1 + 1e-12)
    counts = group.tree.query_ball_point(points, reach, return_length=True)
    ends = np.cumsum(counts)
    start = 0
    while start < len(points):
        done = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, done + PAIRS_AT_A_TIME)), start + 1)
        lists = group.tree.query_ball_point(points[start:stop], reach[start:stop])
        rows = np.repeat(np.arange(start, min(stop, len(points))), counts[start:stop])
        members = [np.asarray(candidates, dtype=np.int64) for candidates in lists]
        compare(found, rows, group.members[np.concatenate(members)], points, corners)
        start = stop


def compare(
    found: Nearest, rows: IntArray, elements: IntArray, points: FloatArray, corners: FloatArray
) -> None:
    """Update the nearest places by pairs (k,) of points and elements that may be nearer.

    At equal distances the element with the lowest number wins.
    """
    if not rows.size:
        return
    weights = closest_weights(points[rows], corners[elements])
    places = np.einsum("kc,kcd->kd", weights, corners[elements])
    distances = np.linalg.norm(places - points[rows], axis=1)
    order = np.lexsort([elements, distances, rows])
    first = order[np.unique(rows[order], return_index=True)[1]]
    target = rows[first]
    better = distances[first] < found.distances[target]
    tie = (distances[first] == found.distances[target]) & (elements[first] < found.elements[target])
    first, target = first[better | tie], target[better | tie]
    found.elements[target] = elements[first]
    found.weights[target] = weights[first]
    found.distances[target] = distances[first]


def closest_weights(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Barycentric weights (k, c) of the place nearest to points (k, d) on elements (k, c, d)."""
    if corners.shape[1] == 2:
        return segment_weights(points, corners[:, 0], corners[:, 1])
    best, least = np.empty((len(points), 3)), np.full(len(points), np.inf)
    for k in range(3):
        ends = [k, (k + 1) % 3]
        weights = np.zeros((len(points), 3))
        weights[:, ends] = segment_weights(points, corners[:, ends[0]], corners[:, ends[1]])
        keep_nearer(best, least, weights, points, corners)
    keep_nearer(best, least, plane_weights(points, corners), points, corners)
    return best


def keep_nearer(
    best: FloatArray,
    least: FloatArray,
    weights: FloatArray,
    points: FloatArray,
    corners: FloatArray,
) -> None:
    """Replace rows of `best` (k, 3) by rows of `weights` (k, 3) where the place is nearer."""
    inside = np.all(weights >= 0, axis=1)
    gap = np.einsum("kc,kcd->kd", np.where(inside[:, None], weights, 0.0), corners) - points
    distances = np.where(inside, np.einsum("kd,kd->k", gap, gap), np.inf)
    nearer = distances < least
    best[nearer], least[nearer] = weights[nearer], distances[nearer]


def segment_weights(points: FloatArray, start: FloatArray, end: FloatArray) -> FloatArray:
    """Weights (k, 2) of the place nearest to points (k, d) on segments; a point is a segment."""
    along = end - start
    squared = np.einsum("kd,kd->k", along, along)
    ahead = np.einsum("kd,kd->k", points - start, along)
    share = np.divide(ahead, squared, out=np.zeros(len(points)), where=squared > 0)
    share = np.clip(share, 0.0, 1.0)
    return np.stack([1.0 - share, share], axis=1)


def plane_weights(points: FloatArray, corners: FloatArray) -> FloatArray:
    """Barycentric weights (k, 3) of the projection on the triangle's plane, -1 if degenerate."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(a, b)
    squared = np.einsum("kd,kd->k", normal, normal)
    scale = np.einsum("kd,kd->k", a, a) * np.einsum("kd,kd->k", b, b)
    proper = squared > 1e-24 * scale
    gap = points - corners[:, 0]
    weights = np.full((len(points), 3), -1.0)
    share = np.where(proper, squared, 1.0)
    second = np.einsum("kd,kd->k", np.cross(gap, b), normal) / share
    third = np.einsum("kd,kd->k", np.cross(a, gap), normal) / share
    weights[proper] = np.stack([1.0 - second - third, second, third], axis=1)[proper]
    return weights
