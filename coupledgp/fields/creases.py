"""Meshes cut at creases: copies of vertices, one for each smooth side, and places among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.fields.columns import face_normals
from coupledgp.fields.locations import ElementLookup, as_points, split_points
from coupledgp.fields.meshes import mesh_matrices
from coupledgp.random import FloatArray, IntArray

# Weight up to which a corner of a place has no part in it.
NO_WEIGHT = 1e-9
# Width of a crease, relative to the diameter: the longest edge that refinement leaves by "auto".
CREASE_WIDTH = 1 / 25


@dataclass(frozen=True, eq=False)
class CreaseCut:
    """Triangles cut at creases.

    Attributes
    ----------
    elements : IntArray (m, 3)
        Vertices of the triangles. The first copy of a vertex keeps its number, all others come
        after the vertices there were.
    copies : IntArray (n,)
        The vertex, before the cut, of each vertex.
    links : IntArray (k, 2)
        Copies that face each other at an end of a side of a triangle on a crease.
    lengths : FloatArray (k,)
        Half the length of that side.
    """

    elements: IntArray
    copies: IntArray
    links: IntArray
    lengths: FloatArray

    def matrices(
        self, positions: FloatArray, factor: float, width: float
    ) -> tuple[sparse.csr_array, FloatArray]:
        """Stiffness and mass; see `LaplaceOperator.with_creases`."""
        stiffness, mass = mesh_matrices(positions[self.copies], self.elements)
        if factor == 0.0:
            return stiffness, mass
        weights = self.lengths * (factor / (1.0 - factor) / width)
        n, (i, j) = mass.size, self.links.T
        upper = sparse.coo_array((weights, (i, j)), shape=(n, n)).tocsr()
        joined = sparse.csr_array(upper + upper.T)
        degrees = sparse.diags_array(np.asarray(joined.sum(axis=1)).ravel(), format="csr")
        return sparse.csr_array(stiffness + degrees - joined), mass


def crease_cut(positions: FloatArray, elements: IntArray, angle: float) -> CreaseCut | None:
    """Cut triangles (m, 3) at sides whose dihedral angle exceeds `angle` degrees.

    The corners of triangles at a vertex are one vertex as far as sides that are no creases join
    them, and all of them where no crease meets the vertex. None: nothing comes apart.
    """
    n, (m, _) = len(positions), elements.shape
    first, second, is_crease, sides = _neighbours(positions, elements, angle)
    flat = elements.ravel()
    plain = np.ones(n, dtype=bool)
    plain[flat[first[is_crease]]] = False
    _, leading = np.unique(flat, return_index=True)  # the first corner at each vertex
    whole = np.flatnonzero(plain[flat])
    rows = np.concatenate([first[~is_crease], whole])
    columns = np.concatenate([second[~is_crease], leading[flat[whole]]])
    joined = sparse.coo_array((np.ones(rows.size), (rows, columns)), shape=(3 * m, 3 * m))
    count, label = csgraph.connected_components(joined, directed=False)
    if count == n:
        return None
    _, head = np.unique(label, return_index=True)  # the first corner of each copy
    is_first = np.zeros(count, dtype=bool)
    is_first[label[leading]] = True
    further = np.flatnonzero(~is_first)
    further = further[np.lexsort([head[further], flat[head[further]]])]
    number = np.empty(count, dtype=np.int64)
    number[is_first] = flat[head[is_first]]
    number[further] = n + np.arange(further.size)
    copies = np.concatenate([np.arange(n), flat[head[further]]])
    links = number[label[np.stack([first[is_crease], second[is_crease]], axis=1)]]
    apart = links[:, 0] != links[:, 1]
    return CreaseCut(number[label].reshape(m, 3), copies, links[apart], sides[is_crease][apart])


def _neighbours(
    positions: FloatArray, elements: IntArray, angle: float
) -> tuple[IntArray, IntArray, NDArray[np.bool_], FloatArray]:
    """Pairs (q,) of corners at the ends of sides that two triangles share.

    Also whether the side is a crease, and half its length. Triangles without area have no crease.
    Windings need not agree: the angle is that of triangles turned alike.
    """
    m = len(elements)
    starts, ends = np.arange(3 * m), np.roll(np.arange(3 * m).reshape(m, 3), -1, axis=1).ravel()
    flat = elements.ravel()
    forward = flat[starts] < flat[ends]
    low, high = np.where(forward, starts, ends), np.where(forward, ends, starts)
    order = np.lexsort([flat[high], flat[low]])
    low, high, forward = low[order], high[order], forward[order]
    normals = face_normals(positions, elements)
    pairs = []
    step = 1
    while True:  # more than two triangles may share a side
        same = (flat[low[:-step]] == flat[low[step:]]) & (flat[high[:-step]] == flat[high[step:]])
        here = np.flatnonzero(same)
        if not here.size:
            break
        pairs.append(np.stack([here, here + step], axis=1))
        step += 1
    if not pairs:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, np.zeros(0, dtype=bool), np.zeros(0)
    a, b = np.concatenate(pairs).T
    left, right = normals[low[a] // 3], normals[low[b] // 3]
    cosine = np.einsum("qd,qd->q", left, right) * np.where(forward[a] == forward[b], -1.0, 1.0)
    has_area = left.any(axis=1) & right.any(axis=1)
    is_crease = has_area & (cosine < np.cos(np.radians(angle)))
    half = np.linalg.norm(positions[flat[high[a]]] - positions[flat[low[a]]], axis=1) / 2
    return (
        np.concatenate([low[a], high[a]]), np.concatenate([low[b], high[b]]),
        np.tile(is_crease, 2), np.tile(half, 2),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CutPlaces:
    """Places of a mesh as places of the same mesh cut at creases.

    Attributes
    ----------
    elements : IntArray (m, 3)
        Vertices of the triangles, copies among them.
    copies : IntArray (n,)
        The vertex, before the cut, of each vertex.
    """

    elements: IntArray
    copies: IntArray

    def of(self, points: FloatArray) -> FloatArray:
        """Rows (p, 6) among the copies, of rows before the cut or after it.

        A place within a triangle is on its copies, one at a vertex the mean of all copies there (of
        the three of largest number of triangles, where there are more). A place on a crease is on
        the triangle that the row names, or on the first of those that share the side.
        """
        corners, weights = split_points(points)
        source = self.copies[corners]
        heavy = np.take_along_axis(source, weights.argmax(axis=1)[:, None], axis=1)
        used = np.where(weights > NO_WEIGHT, source, heavy)
        at_vertex = (used == heavy).all(axis=1)
        found, element = self._lookup.find(source)
        side, beside = self._sides.find(_as_sides(used))
        side &= ((used == used.min(axis=1)[:, None]) | (used == used.max(axis=1)[:, None])).all(
            axis=1
        )
        element = np.where(found, element, beside // 3)
        own = self.elements[element]
        same = source[:, :, None] == self.copies[own][:, None, :]
        # A corner without weight may be of no element that has the side: any corner serves.
        moved = np.take_along_axis(own, same.argmax(axis=2), axis=1)
        out = np.where((found | side)[:, None], moved, corners)
        members, shares = self._at_vertices
        out = np.where(at_vertex[:, None], members[heavy[:, 0]], out)
        return as_points(out, np.where(at_vertex[:, None], shares[heavy[:, 0]], weights))

    @cached_property
    def _lookup(self) -> ElementLookup:
        return ElementLookup.of(self.copies[self.elements], self.copies.size)

    @cached_property
    def _sides(self) -> ElementLookup:
        """Sides as triangles of two equal corners; side 3 e + k belongs to element e."""
        source = self.copies[self.elements]
        sides = np.stack([source, source, np.roll(source, -1, axis=1)], axis=2)
        return ElementLookup.of(_as_sides(sides.reshape(-1, 3)), self.copies.size)

    @cached_property
    def _at_vertices(self) -> tuple[IntArray, FloatArray]:
        """Three copies (v, 3) of each vertex before the cut, and their weights."""
        n_triangles = np.bincount(self.elements.ravel(), minlength=self.copies.size)
        order = np.lexsort([np.arange(self.copies.size), -n_triangles, self.copies])
        of = self.copies[order]
        first = np.searchsorted(of, np.arange(int(of.max()) + 1))
        count = np.clip(np.bincount(of), 1, 3)
        place = np.minimum(np.arange(3), count[:, None] - 1)
        shares = np.where(np.arange(3) < count[:, None], 1.0 / count[:, None], 0.0)
        return order[first[:, None] + place], shares


def _as_sides(corners: IntArray) -> IntArray:
    """Least, least and greatest (p, 3) of the vertices of rows with two different ones."""
    least, greatest = corners.min(axis=1), corners.max(axis=1)
    return np.stack([least, least, greatest], axis=1)


def bodies(stiffness: sparse.csr_array, copies: IntArray | None) -> IntArray:
    """Component (n,) of each vertex where all copies of a vertex are one."""
    if copies is None:
        return csgraph.connected_components(stiffness, directed=False)[1].astype(np.int64)
    entries = stiffness.tocoo()
    size = int(copies.max()) + 1
    ends = (copies[entries.row], copies[entries.col])
    whole = sparse.coo_array((np.ones(entries.nnz), ends), shape=(size, size))
    member = csgraph.connected_components(whole, directed=False)[1]
    return member[copies].astype(np.int64)
