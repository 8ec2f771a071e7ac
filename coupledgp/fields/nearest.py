"""Nearest places on triangles and segments of points in space, exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from coupledgp.fields.checks import check_coordinates
from coupledgp.random import FloatArray, IntArray

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
