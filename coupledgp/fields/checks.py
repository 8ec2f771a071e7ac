"""Checks of the arguments of operators, whose errors name the argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.graphs.readers import check_edge_values
from coupledgp.ground.validation import check_choice, check_positive, real_array, wrong
from coupledgp.random import FloatArray, IntArray

MaxEdge = float | Literal["auto"] | None
# Offset beyond an edge's ends, relative to its length, that passes for rounding.
OFFSET_ROUNDING = 1e-9
# Largest coordinate and length, and the least length and extent: their eighth powers, of which a
# precision is made, are numbers.
LARGEST_COORDINATE, LEAST_EXTENT = 1e30, 1e-30


def chosen_length(max_edge: MaxEdge, automatic: Callable[[], float]) -> float | None:
    """The largest length of an element, None for no refinement."""
    if max_edge is None:
        return None
    if isinstance(max_edge, str):
        check_choice(max_edge, ("auto",), "max_edge")
        return automatic()
    return check_positive(max_edge, "max_edge")


def as_numbers(values: Any, name: str) -> FloatArray:
    """A copy as floats, of any shape; texts and lists of several lengths are refused."""
    try:
        return np.array(real_array(values, name))
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise wrong(name, "an array of numbers", values) from None


def edge_lengths(lengths: ArrayLike, sources: Any, targets: Any) -> FloatArray:
    """Checked lengths (g,)."""
    try:
        values = np.array(real_array(lengths, "lengths"))
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"lengths: expected numbers, one an edge: {error}") from None
    if len(sources) != len(targets):
        raise wrong("targets", f"{len(sources)} ends to match sources", len(targets))
    if not len(sources):
        raise InvalidInputError("sources: expected at least one edge, got none")
    if values.shape != (len(sources),):
        raise wrong("lengths", f"shape ({len(sources)},), one an edge", values.shape)
    check_edge_values(
        values,
        "lengths",
        lambda edge: f"edge {sources[edge]!r}-{targets[edge]!r}",
        (LEAST_EXTENT, LARGEST_COORDINATE),
    )
    return values


def check_coordinates(positions: FloatArray, name: str) -> None:
    """Refuse finite positions (n, d) so large that squares of their distances are not numbers."""
    largest = float(np.abs(positions).max(initial=0.0))
    if largest > LARGEST_COORDINATE:
        raise InvalidInputError(
            f"{name}: expected coordinates up to {LARGEST_COORDINATE:g}, got {largest:.3g}; use "
            "another unit"
        )


def check_extent(positions: FloatArray, name: str) -> None:
    """Refuse finite positions (n, d) so large or so close that their products are not numbers."""
    check_coordinates(positions, name)
    extent = float(np.ptp(positions, axis=0).max(initial=0.0)) if len(positions) else 0.0
    if 0 < extent < LEAST_EXTENT:
        raise InvalidInputError(
            f"{name}: expected positions that differ by {LEAST_EXTENT:g} at least, got "
            f"{extent:.3g}; use another unit"
        )


def surface_points(points: ArrayLike) -> FloatArray:
    """Checked points (n, 3), finite."""
    values = as_numbers(points, "points")
    if values.ndim != 2 or values.shape[1] != 3 or not len(values):
        raise wrong("points", "shape (n, 3)", values.shape)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"points: expected finite positions, got {values[bad[0]].tolist()} in row {bad[0]} "
            f"({bad.size} such rows)"
        )
    check_coordinates(values, "points")
    return values


def node_positions(positions: ArrayLike, n_nodes: int) -> FloatArray:
    """Checked positions (n_nodes, 2 or 3)."""
    values = as_numbers(positions, "positions")
    if values.ndim != 2 or values.shape[0] != n_nodes or values.shape[1] not in (2, 3):
        raise wrong("positions", f"shape ({n_nodes}, 2 or 3), one a node", values.shape)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"positions: expected finite numbers, got {values[bad[0]].tolist()} at node {bad[0]} "
            f"({bad.size} such nodes)"
        )
    check_extent(values, "positions")
    return values


def edge_courses(
    courses: Sequence[Any], n_edges: int, positions: FloatArray | None
) -> list[FloatArray | None]:
    """Checked courses: n_edges arrays (k, d), k > 1, or None."""
    if positions is None or len(courses) != n_edges:
        raise wrong("courses", f"{n_edges} (one an edge) beside positions", len(courses))
    found: list[FloatArray | None] = []
    for edge, course in enumerate(courses):
        line = None if course is None else as_numbers(course, "courses")
        d = positions.shape[1]
        if line is not None and line.ndim == 2 and line.shape[1] > d:
            line = line[:, :d]  # heights on a plane
        if line is not None and not (
            line.ndim == 2 and line.shape[1] == d and len(line) > 1 and np.isfinite(line).all()
        ):
            raise InvalidInputError(
                f"courses: expected finite positions of shape (k, {d}), k > 1, or None, got shape "
                f"{line.shape} at edge {edge}"
            )
        if line is not None:
            check_coordinates(line, "courses")
        found.append(line)
    return found


def element_numbers(numbers: ArrayLike | None, count: int, name: str) -> IntArray:
    """Checked numbers (p,) of given elements, all for None."""
    if numbers is None:
        return np.arange(count)
    try:
        values = np.asarray(numbers)
    except ValueError:  # lists of several lengths
        raise wrong(name, "integers of shape (p,)", numbers) from None
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name}: expected integers of shape (p,), got {values.dtype} of shape {values.shape}"
        )
    bad = values[(values < 0) | (values >= count)]
    if bad.size:
        raise wrong(name, f"numbers from 0 to {count - 1}", bad[:3].tolist())
    return values.astype(np.int64)


def edge_offsets(offsets: ArrayLike, lengths: FloatArray, edges: IntArray) -> FloatArray:
    """Checked offsets (p,) on edges of lengths (p,); rounding beyond the ends is cut off."""
    values = as_numbers(offsets, "offsets")
    if values.shape != lengths.shape:
        raise wrong("offsets", f"shape {lengths.shape}", values.shape)
    slack = OFFSET_ROUNDING * lengths
    bad = np.flatnonzero(~((values >= -slack) & (values <= lengths + slack)))
    if bad.size:
        raise InvalidInputError(
            f"offsets: expected distances from 0 to the edge's length, got {values[bad[0]]} on "
            f"edge {edges[bad[0]]} of length {lengths[bad[0]]} ({bad.size} such places)"
        )
    return np.clip(values, 0.0, lengths)
