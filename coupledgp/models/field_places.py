"""Places of sensors on an operator in the forms that a person has them, and warnings of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.geometry import LaplaceOperator, Locations
from coupledgp.gp.field_fit import FieldSelection
from coupledgp.gp.protocol import Points
from coupledgp.random import FloatArray

# Distance of a sensor from the surface, relative to the diameter, beyond which a warning is given.
FAR_SHARE = 0.01
# Edges that a range should be long, and the number of edges below which a warning is given: there
# the variance of finite elements is more than a tenth too large.
EDGES_A_RANGE, FEWEST_EDGES = 8.0, 5.0


def as_operator(value: Any) -> LaplaceOperator:
    """The operator, of a triangle mesh with edges of at most the diameter / 25.

    Raises
    ------
    InvalidInputError
        The value is neither.
    """
    if isinstance(value, LaplaceOperator):
        return value
    if hasattr(value, "faces") and hasattr(value, "vertices"):
        return LaplaceOperator.from_trimesh(value, max_edge="auto")
    raise InvalidInputError(
        "operator: expected a coupledgp.LaplaceOperator (from_trimesh, from_edges, from_networkx, "
        f"from_points) or a triangle mesh, got {type(value).__name__}"
    )


def located(operator: LaplaceOperator, places: Any, name: str) -> Points:
    """Locations of places that are given in any of the ways of `FieldGPRegressor.fit`."""
    if places is None:
        return operator.at_vertices().points
    if isinstance(places, Locations):
        wanted = 2 * (operator.dimension + 1)
        if places.points.shape[1] != wanted or not len(places):
            raise InvalidInputError(
                f"{name}: expected locations of this operator, rows of {wanted} numbers, got shape "
                f"{places.points.shape}"
            )
        return places.points
    array = places if isinstance(places, (list, tuple)) else np.asarray(places)
    if np.ndim(array) != 2:
        return operator.at_vertices(array).points
    try:
        positions = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{name}: expected positions as numbers, got {places!r:.80}"
        ) from None
    found = operator.project(positions)
    extent = operator.extent or operator.diameter
    far = np.flatnonzero(found.distances > FAR_SHARE * extent)
    if far.size:
        worst = far[np.argmax(found.distances[far])]
        warnings.warn(
            f"{name}: {far.size} of {len(positions)} positions are farther from the "
            f"{'surface' if operator.dimension == 2 else 'network'} than {FAR_SHARE:.0%} of its "
            f"size; the farthest, row {worst}, lies {found.distances[worst]:.4g} away and was "
            "moved to the nearest place on it: check the unit and the origin of the positions",
            stacklevel=4,
        )
    return found.points


def warn_of_parts(operator: LaplaceOperator, points: Points) -> None:
    """Warn of components without observations, which keep the prior along the surface."""
    count, member = operator.components()
    if count == 1:
        return
    seen = np.unique(member[points[:, : operator.dimension + 1].astype(np.int64)])
    alone = ~np.isin(member, seen)
    if alone.any():
        warnings.warn(
            f"places: {count - seen.size} of {count} components, with {int(alone.sum())} of "
            f"{operator.n_vertices} vertices, have no observation: along the surface nothing is "
            "known there, and their intervals are wide",
            stacklevel=3,
        )


def warn_of_edges(operator: LaplaceOperator, selection: FieldSelection) -> None:
    """Warn where kernels of more than half the weight have a range of few edges."""
    edge = typical_edge(operator)
    # With alpha = 1 the law at the vertices of a network is exact, however long its edges are.
    short = [
        (member.weight, member.kernel.surface.range_)
        for member in selection.members
        if member.kernel.surface is not None
        and member.kernel.surface.alpha != 1
        and member.kernel.surface.range_ is not None
        and member.kernel.surface.range_ < FEWEST_EDGES * edge
    ]
    if sum(weight for weight, _ in short) > 0.5:
        shortest = min(length for _, length in short)
        warnings.warn(
            f"operator: the fitted range ({shortest:.4g}) is shorter than {FEWEST_EDGES:.0f} "
            f"edges (median length {edge:.4g}), where finite elements are inaccurate; refine with "
            f"max_edge={shortest / EDGES_A_RANGE:.3g}",
            stacklevel=3,
        )


def typical_edge(operator: LaplaceOperator) -> float:
    """Median length of the edges of the elements."""
    if operator.element_lengths is not None:
        return float(np.median(operator.element_lengths))
    assert operator.positions is not None
    corners = operator.positions[operator.elements]
    return float(np.median(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)))


def spread_out(values: FloatArray, known: Any, size: int) -> FloatArray:
    """Values (p, ...) at the places `known` (p,) of a list of `size`, NaN elsewhere."""
    out = np.full((size, *values.shape[1:]), np.nan)
    out[known] = values
    return out
