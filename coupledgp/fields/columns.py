"""Columns of numbers at the places of a surface or network: normals, thickness, material."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.fields.locations import ElementLookup, split_points
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import check_choice, real_array, wrong
from coupledgp.random import FloatArray, IntArray

# Most kinds of a column of texts.
MOST_KINDS = 64
# Weight of a corner below which a place is on the side across from it: more than files round by.
ON_EDGE = 1e-4
ON = ("vertices", "elements")


@stored
@dataclass(frozen=True, eq=False)
class PlaceColumns:
    """Columns at every place of an operator, linear within its elements.

    A column may have several components, such as the three of a normal, and jump between elements.
    A place within an element has the value of that element. On its sides values are linear between
    those of the vertices, each of which has the mean over the elements that meet there.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    sizes : IntArray (c,)
        Number of components of each column.
    corners : FloatArray (m, dimension + 1, sum of sizes)
        Values at the corners of the operator's elements.
    """

    names: tuple[str, ...]
    sizes: IntArray
    corners: FloatArray

    @property
    def owner(self) -> IntArray:
        """Number of the column (sum of sizes,) that each component belongs to."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def scales(self, elements: IntArray, mass: FloatArray) -> FloatArray:
        """Standard deviation (c,) of each column over the surface or network.

        Of several components it is the root of the sum of their variances. One that is constant
        has the scale 1.
        """
        n = mass.size
        shares = (mass / np.maximum(np.bincount(elements.ravel(), minlength=n), 1))[elements]
        shares = shares / shares.sum()
        mean = np.einsum("mk,mkc->c", shares, self.corners)
        variance = np.einsum("mk,mkc->c", shares, (self.corners - mean) ** 2)
        total = np.bincount(self.owner, variance, minlength=self.sizes.size)
        return np.where(total > 0.0, np.sqrt(np.maximum(total, 0.0)), 1.0)


@dataclass(frozen=True, eq=False)
class ColumnLookup:
    """Values of columns at places.

    Attributes
    ----------
    columns : PlaceColumns
        The columns.
    elements : IntArray (m, dimension + 1)
        Vertices of the elements.
    lookup : ElementLookup
        The element of a set of corners.
    of_vertices : FloatArray (n, sum of sizes)
        Mean at each vertex over the elements that meet there.
    """

    columns: PlaceColumns
    elements: IntArray
    lookup: ElementLookup
    of_vertices: FloatArray

    @classmethod
    def of(cls, columns: PlaceColumns, elements: IntArray, n_vertices: int) -> ColumnLookup:
        """The lookup of columns on an operator's elements."""
        flat = elements.ravel()
        count = np.maximum(np.bincount(flat, minlength=n_vertices), 1)
        values = columns.corners.reshape(flat.size, -1)
        sums = [np.bincount(flat, part, minlength=n_vertices) for part in values.T]
        means = np.stack(sums, axis=1) / count[:, None]
        return cls(columns, elements, ElementLookup.of(elements, n_vertices), means)

    def at(self, points: FloatArray) -> FloatArray:
        """Values (p, sum of sizes) at places (p, 2 (dimension + 1))."""
        corners, weights = split_points(points)
        found = np.einsum("pk,pkc->pc", weights, self.of_vertices[corners])
        inside, elements = self.lookup.find(corners)
        # On an edge or at a vertex, rounding would choose one of several elements.
        inside &= (weights > ON_EDGE).all(axis=1) | (corners[:, -1] == corners[:, -2])
        inside &= weights.max(axis=1) < 1.0 - ON_EDGE
        element = elements[inside]
        # The order of the corners of a place need not be that of its element.
        same = corners[inside][:, :, None] == self.elements[element][:, None, :]
        own = np.take_along_axis(
            self.columns.corners[element], same.argmax(axis=2)[:, :, None], axis=1
        )
        found[inside] = np.einsum("pk,pkc->pc", weights[inside], own)
        return found


def named_columns(given: Mapping[str, Any], on: str | None, sizes: Mapping[str, int]) -> Any:
    """Checked columns as (name, place, values (size, k)), place being `"vertices"` or `"elements"`.

    Raises
    ------
    InvalidInputError
        A column has another length, a value that is not finite, or more than `MOST_KINDS` texts.
    """
    if not isinstance(given, Mapping) or not given:
        raise InvalidInputError(
            "columns: expected a dictionary of names and arrays, such as "
            f"{{'normal': operator.normals}}, got {given!r:.80}"
        )
    if on is not None:
        check_choice(on, ON, "on")
    found = []
    for name, values in given.items():
        if not isinstance(name, str) or not name:
            raise wrong("columns", "texts as names", name)
        array = _numbers(values, f"columns[{name!r}]")
        places = [place for place in ON if sizes[place] == len(array)] if on is None else [on]
        if len(places) > 1:
            raise InvalidInputError(
                f"on: expected 'vertices' or 'elements' for column {name!r}, as there are "
                f"{len(array)} of both, got None"
            )
        if not places or len(array) != sizes[places[0]]:
            raise InvalidInputError(
                f"columns[{name!r}]: expected a value of each of {sizes['vertices']} given "
                f"vertices or of each of {sizes['elements']} given faces or edges, got "
                f"{len(array)} values"
            )
        found.append((name, places[0], array))
    return found


def _numbers(values: Any, name: str) -> FloatArray:
    """Values (size, k) as numbers; texts become a component for each kind."""
    array = np.asarray(values)
    if array.ndim not in (1, 2) or not array.size:
        raise wrong(name, "shape (p,) or (p, k)", array.shape)
    if array.dtype.kind in "UOS" and array.ndim == 1:
        texts = np.array([str(value) for value in array.tolist()])
        kinds = np.unique(texts)
        if kinds.size > MOST_KINDS:
            raise InvalidInputError(
                f"{name}: expected at most {MOST_KINDS} kinds, got {kinds.size}: use numbers"
            )
        return (texts[:, None] == kinds).astype(np.float64)
    numbers = real_array(array, name).reshape(len(array), -1)
    bad = np.flatnonzero(~np.isfinite(numbers).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"{name}: expected finite numbers, got {numbers[bad[0]].tolist()} in row {bad[0]} "
            f"({bad.size} such rows)"
        )
    return numbers


def corner_weights(
    elements: IntArray,
    parents: IntArray,
    given: IntArray,
    positions: FloatArray | None,
    lengths: FloatArray | None,
) -> FloatArray:
    """Weights (m, k, k) of the corners of elements in the given element that they are a part of.

    Triangles take barycentric coordinates of positions (n, d), segments their order and equal
    lengths within an edge.
    """
    m, k = elements.shape
    if np.array_equal(elements, given[parents]):  # nothing was refined
        return np.broadcast_to(np.eye(k), (m, k, k))
    if lengths is not None:
        first = np.searchsorted(parents, parents)
        count = np.searchsorted(parents, parents, side="right") - first
        start = (np.arange(m) - first) / count
        shares = np.stack([start, start + 1.0 / count], axis=1)
        return np.stack([1.0 - shares, shares], axis=2)
    assert positions is not None
    corners = positions[given[parents]]
    u, v = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    offsets = positions[elements] - corners[:, :1]
    uu, uv, vv = (np.einsum("md,md->m", *pair) for pair in ((u, u), (u, v), (v, v)))
    det = np.maximum(uu * vv - uv * uv, np.finfo(float).tiny)
    ou, ov = np.einsum("mkd,md->mk", offsets, u), np.einsum("mkd,md->mk", offsets, v)
    b = (vv[:, None] * ou - uv[:, None] * ov) / det[:, None]
    c = (uu[:, None] * ov - uv[:, None] * ou) / det[:, None]
    weights = np.clip(np.stack([1.0 - b - c, b, c], axis=2), 0.0, 1.0)
    return weights / weights.sum(axis=2, keepdims=True)


def face_normals(positions: FloatArray, faces: IntArray) -> FloatArray:
    """Unit normals (g, 3) of triangles; zeros where a triangle has no area or no corner."""
    corners = positions[np.maximum(faces, 0)]
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(cross, axis=1, keepdims=True)
    usable = (length > 0) & (faces >= 0).all(axis=1, keepdims=True)
    return np.where(usable, cross / np.where(length > 0, length, 1.0), 0.0)
