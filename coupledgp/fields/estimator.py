"""What estimators of functions on a surface or network share: operator, places and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import GaussianProcess, Points
from coupledgp.errors import InvalidInputError
from coupledgp.fields import LaplaceOperator, Locations
from coupledgp.fields.locations import at_corners
from coupledgp.fields.mixture import FieldSelection
from coupledgp.fields.precise_process import PreciseFieldGP
from coupledgp.fields.process import FieldGP
from coupledgp.graphs.forms import MESHES, SCENES, is_mesh, is_point_table, table_points
from coupledgp.ground.validation import real_array, wrong
from coupledgp.ground.visible import warn
from coupledgp.kernels.fields import FieldKernel
from coupledgp.random import FloatArray

# Distance of a sensor from the surface, relative to the diameter, beyond which a warning is given.
FAR_SHARE = 0.01
# Edges that a range should be long, and the number of edges below which a warning is given: there
# the variance of finite elements is more than a tenth too large.
EDGES_A_RANGE, FEWEST_EDGES = 8.0, 5.0
# Edges that a range should be long where there are places inside edges, for alpha = 1; and the
# weight of the lighter end of an edge from which a place is inside.
EDGES_INSIDE, LEAST_WEIGHT = 4.0, 1e-6


def members_of(process: GaussianProcess) -> tuple[FieldGP | PreciseFieldGP, ...]:
    """The fields that a process mixes, or the one that it is."""
    members: tuple[GaussianProcess, ...] = (process,)
    if isinstance(process, MixtureGP):
        members = tuple(process.members)
    return tuple(m for m in members if isinstance(m, (FieldGP, PreciseFieldGP)))


def as_operator(value: Any) -> LaplaceOperator:
    """The operator of a mesh, with edges of at most the diameter / 25, or of a network.

    Raises
    ------
    InvalidInputError
        The value is none of these.
    """
    if isinstance(value, LaplaceOperator):
        return value
    if is_mesh(value):
        return LaplaceOperator.from_trimesh(value, max_edge="auto")
    if hasattr(value, "nodes") and hasattr(value, "edges"):
        return LaplaceOperator.from_networkx(value, max_edge="auto")
    raise InvalidInputError(
        "operator: expected a coupledgp.LaplaceOperator (from_trimesh, from_edges, from_networkx, "
        f"from_points), {MESHES}, or a networkx graph whose edges have lengths, got "
        f"{type(value).__name__}; {SCENES}"
    )


def refined_places(operator: LaplaceOperator) -> Locations:
    """Places of all vertices, including those added by refinement."""
    points = at_corners(np.arange(operator.n_vertices), operator.dimension + 1)
    return Locations(points, np.zeros(operator.n_vertices))


def located(operator: LaplaceOperator, places: Any, name: str) -> Points:
    """Locations of places that are given in any of the ways of `FieldGPRegressor.fit`.

    On a mesh cut at creases they may also be locations of the whole mesh.
    """
    return operator.placed(_located(operator, places, name))


def _located(operator: LaplaceOperator, places: Any, name: str) -> Points:
    if places is None:
        return operator.at_vertices().points
    if isinstance(places, Locations):
        return checked_locations(operator, places, name)
    if is_point_table(places):
        places = table_points(places, operator.origin is not None, name)
    if hasattr(places, "columns"):  # of a table whose columns are named as axes, in any order
        axes = [str(column).strip().lower() for column in places.columns]
        places = np.asarray(places)
        if sorted(axes) == ["x", "y", "z"][: len(axes)]:
            places = places[:, np.argsort(axes)]
    array = places if isinstance(places, (list, tuple)) else np.asarray(places)
    if are_labels(operator, array):
        return operator.at_vertices(array).points
    try:
        positions = real_array(array, name)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise wrong(name, "positions as numbers", places) from None
    return projected(operator, positions, name)


def checked_locations(operator: LaplaceOperator, places: Locations, name: str) -> Points:
    """Locations on the operator; places that lie outside of it are refused."""
    wanted, points = 2 * (operator.dimension + 1), places.points
    if points.shape[1] != wanted or not len(places):
        raise InvalidInputError(
            f"{name}: expected locations of this operator, rows of {wanted} numbers, got shape "
            f"{points.shape}"
        )
    corners = points[:, : wanted // 2]
    if corners.min() < 0 or corners.max() >= operator.n_vertices:
        raise InvalidInputError(
            f"{name}: expected locations of this operator, which has {operator.n_vertices} "
            f"vertices, got one at vertex {int(corners.max())}: they are of another operator"
        )
    return points


def are_labels(operator: LaplaceOperator, places: Any) -> bool:
    """Whether places are vertices: a list of one dimension, or of labels that are tuples."""
    if np.ndim(places) != 2:
        if isinstance(places, np.ndarray) and places.dtype.kind == "f" and places.ndim == 1:
            raise InvalidInputError(
                f"places: expected positions of shape (p, d), or ints or labels of vertices (p,), "
                f"got an array of floats of shape {places.shape}"
            )
        return True
    known = operator.labels
    if known is None or not any(isinstance(label, tuple) for label in known):
        return False
    return all(isinstance(place, tuple) for place in places) and set(places) <= set(known)


def projected(operator: LaplaceOperator, positions: FloatArray, name: str) -> Points:
    """The nearest places of positions (p, d); see `check_distances`."""
    found = operator.project(positions)
    check_distances(operator, found.distances, name, "row {}".format, positions)
    return found.points


def check_distances(
    operator: LaplaceOperator,
    distances: FloatArray,
    name: str,
    row_name: Callable[[int], str],
    positions: FloatArray | None = None,
) -> None:
    """Warn of positions at distances (p,) that are far for the operator's size.

    `positions` (p, d) in the operator's system tell a unit in which all of them are one place.

    Raises
    ------
    InvalidInputError
        All positions are farther away than the operator is large: the unit or the origin differs.
        Or all are far for its size, and one place beside it: the unit is larger.
    """
    extent = operator.extent or operator.diameter
    if distances.min() > extent:
        raise InvalidInputError(
            f"{name}: expected positions near the {kind_of(operator)}, whose size is "
            f"{extent:.4g}, got none nearer than {distances.min():.4g}: check their unit, "
            "their origin and the order of the columns"
        )
    far = np.flatnonzero(distances > FAR_SHARE * extent)
    spread = 0.0 if positions is None else float(np.linalg.norm(np.ptp(positions, axis=0)))
    if distances.size > 2 and 0 < spread < FAR_SHARE * extent:
        said = (
            f"{name}: expected positions all over a {kind_of(operator)} whose size is "
            f"{extent:.4g}, got {distances.size} within {spread:.3g} of each other: check their "
            "unit"
        )
        if far.size == distances.size:
            raise InvalidInputError(said)
        warn(said)
    if far.size:
        worst = int(far[np.argmax(distances[far])])
        warn(
            f"{name}: {far.size} of {distances.size} positions are farther from the "
            f"{kind_of(operator)} than {FAR_SHARE:.0%} of its size; {row_name(worst)} lies "
            f"{distances[worst]:.4g} away, which is the farthest, and was moved to the nearest "
            "place on it: check the unit and the origin of the positions"
        )


def warn_of_parts(operator: LaplaceOperator, points: Points) -> None:
    """Warn of components without observations, which keep the prior along the surface."""
    count, member = operator.components()
    if count == 1:
        return
    seen = np.unique(member[points[:, : operator.dimension + 1].astype(np.int64)])
    alone = ~np.isin(member, seen)
    if alone.any():
        warn(
            f"places: {count - seen.size} of {count} components, with {int(alone.sum())} of "
            f"{operator.n_vertices} vertices, have no observation: along the {kind_of(operator)} "
            "nothing is known there, and their intervals are wide"
        )


def kind_of(operator: LaplaceOperator) -> str:
    """The word for an operator's domain."""
    return "surface" if operator.dimension == 2 else "network"


def warn_of_defaults(selection: FieldSelection) -> None:
    """Warn where no kernel was fitted."""
    if selection.is_default:
        warn(f"y: {selection.reason}: no evidence stands behind the intervals")


def warn_of_insides(
    operator: LaplaceOperator, points: Points, kernels: Sequence[FieldKernel]
) -> None:
    """Warn of places inside long edges, where only the vertices have the law of alpha = 1."""
    shortest = min(
        (k.surface.range_ or np.inf for k in kernels if k.surface and k.surface.alpha == 1),
        default=np.inf,
    )
    if operator.element_lengths is None or not np.isfinite(shortest):
        return
    inside = (points[:, 2:].min(axis=1) > LEAST_WEIGHT) & (points[:, 0] != points[:, 1])
    ends = np.sort(points[inside, :2].astype(np.int64), axis=1)
    if not len(ends):
        return
    keys = np.sort(operator.elements, axis=1) @ [operator.n_vertices, 1]
    order = np.argsort(keys)
    element = order[np.searchsorted(keys[order], ends @ [operator.n_vertices, 1])]
    longest = float(operator.element_lengths[element].max())
    if longest > shortest / EDGES_INSIDE:
        warn(
            f"places: some lie inside edges of length {longest:.4g}, longer than a quarter of the "
            f"range ({shortest:.4g}); between vertices the field is interpolated, and its "
            f"intervals are too narrow: use max_edge={shortest / EDGES_A_RANGE:.3g}"
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
        warn(
            f"operator: the fitted range ({shortest:.4g}) is shorter than {FEWEST_EDGES:.0f} "
            f"edges (median length {edge:.4g}), where finite elements are inaccurate; refine with "
            f"max_edge={shortest / EDGES_A_RANGE:.3g}"
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
