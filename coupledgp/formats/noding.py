"""Nodes and edges of lines on a map: where they end, and where they share a point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from coupledgp.random import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Polylines:
    """Lines, one after the other.

    Attributes
    ----------
    places : FloatArray (c, 2)
        Points of all lines, in metres.
    line : IntArray (c,)
        Number of the line that each point belongs to, ascending.
    steps : FloatArray (c - 1,)
        Length from each point to the next, in metres; that between two lines has no meaning.
    """

    places: FloatArray
    line: IntArray
    steps: FloatArray

    def ends(self) -> IntArray:
        """Numbers of the points at which lines start or end, ascending."""
        changes = np.flatnonzero(np.diff(self.line))
        last = len(self.line) - 1
        return np.unique(np.concatenate([[0], changes, changes + 1, [last]]))


@dataclass(frozen=True, eq=False)
class RoadPieces:
    """Parts of lines between nodes.

    Attributes
    ----------
    positions : FloatArray (n, 2)
        Places of the nodes.
    ends : IntArray (m, 2)
        Nodes of each part.
    lines : list of FloatArray (k, 2)
        Points of each part, the first and last at its nodes.
    lengths : FloatArray (m,)
        Length of each part.
    line : IntArray (m,)
        Number of the line that each part is from.
    """

    positions: FloatArray
    ends: IntArray
    lines: list[FloatArray]
    lengths: FloatArray
    line: IntArray


def noded(lines: Polylines, tolerance: float) -> RoadPieces:
    """Cut lines at the points they share, and number the nodes.

    Nodes are the ends of lines, those within `tolerance` of each other one node; points of other
    lines within `tolerance` of an end; and points in which two lines, or a line and itself, agree
    exactly. Lines that cross without a shared point (bridges) do not meet. Parts that start and end
    at one node and are no longer than twice the tolerance are left out.
    """
    node = _node_numbers(lines, tolerance)
    cuts = np.flatnonzero(node >= 0)
    starts, stops = cuts[:-1], cuts[1:]
    inside = lines.line[starts] == lines.line[stops]
    starts, stops = starts[inside], stops[inside]
    travelled = np.concatenate([[0.0], np.cumsum(lines.steps)])
    lengths = travelled[stops] - travelled[starts]
    kept = (lengths > 0) & ((node[starts] != node[stops]) | (lengths > 2 * tolerance))
    starts, stops, lengths = starts[kept], stops[kept], lengths[kept]
    ends = np.column_stack([node[starts], node[stops]])
    used, ends = np.unique(ends, return_inverse=True)
    ends = ends.reshape(-1, 2)
    positions = _first_places(lines.places, node)[used]
    courses = []
    for (start, stop), (a, b) in zip(np.column_stack([starts, stops]), ends, strict=True):
        course = lines.places[start : stop + 1].copy()
        course[0], course[-1] = positions[a], positions[b]
        courses.append(course)
    return RoadPieces(positions, ends, courses, lengths, lines.line[starts])


def _node_numbers(lines: Polylines, tolerance: float) -> IntArray:
    """Number of the node at each point (c,), -1 within a line."""
    node = np.full(len(lines.places), -1, dtype=np.int64)
    ends = lines.ends()
    tree = cKDTree(lines.places[ends])
    near = tree.query_pairs(tolerance, output_type="ndarray")
    n_nodes, node[ends] = _clusters(near, ends.size)
    inner = np.flatnonzero(node < 0)
    if not inner.size:
        return node
    distance, nearest = tree.query(lines.places[inner], distance_upper_bound=tolerance)
    at_end = np.isfinite(distance)
    found = np.full(inner.size, -1, dtype=np.int64)
    found[at_end] = node[ends[nearest[at_end]]]
    found[_beside_own_end(lines, node, inner, found, 2 * tolerance)] = -1
    node[inner] = found
    rest = inner[~at_end]
    _, shared, counts = np.unique(
        lines.places[rest], axis=0, return_inverse=True, return_counts=True
    )
    shared = shared.ravel()
    crossing = counts[shared] > 1
    _, numbers = np.unique(shared[crossing], return_inverse=True)
    node[rest[crossing]] = n_nodes + numbers
    return node


def _beside_own_end(
    lines: Polylines, node: IntArray, inner: IntArray, found: IntArray, room: float
) -> NDArray[np.bool_]:
    """Whether inner points are at the node of their own line's end because they lie beside it."""
    travelled = np.concatenate([[0.0], np.cumsum(lines.steps)])
    changes = np.flatnonzero(np.diff(lines.line))
    first, last = np.append(0, changes + 1), np.append(changes, lines.line.size - 1)
    own = np.searchsorted(last, inner)
    beside = np.zeros(inner.size, dtype=bool)
    for end in (first[own], last[own]):
        beside |= (node[end] == found) & (np.abs(travelled[inner] - travelled[end]) <= room)
    return beside


def _clusters(pairs: IntArray, size: int) -> tuple[int, IntArray]:
    """Number of clusters of `size` things of which pairs (p, 2) are the same, and each one's."""
    ones = np.ones(len(pairs))
    count, cluster = connected_components(
        coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(size, size)), directed=False
    )
    return int(count), cluster.astype(np.int64)


def _first_places(places: FloatArray, node: IntArray) -> FloatArray:
    """Place (n, 2) of each node: that of its first point."""
    known = np.flatnonzero(node >= 0)
    numbers, first = np.unique(node[known], return_index=True)
    found = np.empty((int(numbers.max()) + 1, 2))
    found[numbers] = places[known[first]]
    return found


def with_end_points(lines: Polylines, tolerance: float) -> tuple[IntArray, FloatArray, FloatArray]:
    """Ends of lines that lie on another line between two of its points.

    Returns the number of the point before each place (q,), its share (q,) of the step from there,
    and the place (q, 2) of the end, in ascending order along the lines.
    """
    inner = np.flatnonzero(lines.line[:-1] == lines.line[1:])
    start, change = lines.places[inner], lines.places[inner + 1] - lines.places[inner]
    spans = np.linalg.norm(change, axis=1)
    ends = np.unique(lines.places[lines.ends()], axis=0)
    found: list[tuple[int, float, int]] = []
    tree = cKDTree(ends)
    # Balls about the middle of each step hold every end that may lie on it.
    near = tree.query_ball_point(start + change / 2, spans / 2 + tolerance)
    for k, candidates in enumerate(near):
        if not candidates or not spans[k]:
            continue
        away = ends[candidates] - start[k]
        share = away @ change[k] / spans[k] ** 2
        off = np.linalg.norm(away - share[:, None] * change[k], axis=1)
        margin = tolerance / spans[k]
        on = (off <= tolerance) & (share > margin) & (share < 1 - margin)
        found += [(int(inner[k]), float(share[j]), candidates[j]) for j in np.flatnonzero(on)]
    found.sort()
    before = np.array([item[0] for item in found], dtype=np.int64)
    shares = np.array([item[1] for item in found])
    return before, shares, ends[[item[2] for item in found]].reshape(-1, 2)


def inserted(lines: Polylines, tolerance: float) -> Polylines:
    """The lines with points where another line ends on them, so that `noded` cuts them there."""
    before, shares, places = with_end_points(lines, tolerance)
    if not before.size:
        return lines
    along = np.concatenate([[0.0], np.cumsum(lines.steps)])
    added = along[before] + shares * lines.steps[before]
    moved = np.insert(along, before + 1, added)
    return Polylines(
        np.insert(lines.places, before + 1, places, axis=0),
        np.insert(lines.line, before + 1, lines.line[before]),
        np.diff(moved),
    )


def distinct(pieces: RoadPieces, tolerance: float) -> IntArray:
    """Numbers of the parts that are left when each road is taken once, in either direction.

    Two parts are one road if they have the same nodes, lengths within a thousandth or the
    tolerance, and their middles lie as close.
    """
    low, high = pieces.ends.min(axis=1), pieces.ends.max(axis=1)
    _, group, counts = np.unique(
        np.column_stack([low, high]), axis=0, return_inverse=True, return_counts=True
    )
    group = group.ravel()
    kept = np.ones(len(group), dtype=bool)
    seen: dict[int, list[int]] = {}
    for k in np.flatnonzero(counts[group] > 1).tolist():
        others = seen.setdefault(int(group[k]), [])
        if any(_same(pieces, k, other, tolerance) for other in others):
            kept[k] = False
        else:
            others.append(k)
    return np.flatnonzero(kept)


def _same(pieces: RoadPieces, a: int, b: int, tolerance: float) -> bool:
    room = max(tolerance, 1e-3 * float(pieces.lengths[a]))
    if abs(pieces.lengths[a] - pieces.lengths[b]) > room:
        return False
    gap = middle(pieces.lines[a]) - middle(pieces.lines[b])
    return float(np.linalg.norm(gap)) <= room


def middle(line: FloatArray) -> FloatArray:
    """Place (2,) half way along a line (k, 2)."""
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    return np.array([np.interp(along[-1] / 2, along, line[:, k]) for k in range(2)])
