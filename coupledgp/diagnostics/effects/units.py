"""Parts of a table whose effects are asked for, with their own laws and grids.

The law of a part is that of its values in the rows, apart from all other parts. Effects and shares
of variance are integrals over the product of these laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc

from coupledgp.columns.codes import CYCLES, CategoryCode, ColumnCode, DateCode, PlaceCode
from coupledgp.columns.encoding import TableEncoding
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Points of the law of a part of more values.
LAW_POINTS = 64
# Median correlation of columns above which the product of laws is far from the rows' law.
CORRELATED = 0.5


@dataclass(frozen=True, eq=False)
class Unit:
    """A part of a table: a column, a category, or a cycle of a date.

    Attributes
    ----------
    name : str
        Its name.
    columns : IntArray (c,)
        Numbers of its columns in the encoded table.
    points : FloatArray (m, c)
        Points of its law.
    weights : FloatArray (m,)
        Their weights, of sum one.
    grid : FloatArray (g, c)
        Where effects are shown.
    labels : tuple (g,)
        Values or levels of the grid; days of a cycle.
    """

    name: str
    columns: IntArray
    points: FloatArray
    weights: FloatArray
    grid: FloatArray
    labels: tuple[Any, ...]

    @property
    def varies(self) -> bool:
        """Whether there is more than one value."""
        return len(self.points) > 1


def units_of(
    rows: FloatArray,
    counts: FloatArray | None,
    names: Sequence[str],
    groups: IntArray | None,
    encoding: TableEncoding | None,
    grid: int,
) -> list[Unit]:
    """The parts of encoded rows (n, D), with laws by how often each row counts (n,).

    Parameters
    ----------
    rows, counts
        The rows; None for counts of one.
    names
        Names (q,) of the parts.
    groups
        Number (D,) of the part of each column; None where each is a part.
    encoding
        How columns became numbers; None where they are taken as they are.
    grid
        Most points of a grid of numbers.
    """
    own = np.arange(rows.shape[1]) if groups is None else groups
    weights = np.ones(len(rows)) if counts is None else counts
    codes = [None] * len(names) if encoding is None else _codes(encoding)
    return [
        _unit(name, np.flatnonzero(own == part), rows, weights, codes[part], grid)
        for part, name in enumerate(names)
    ]


def _codes(encoding: TableEncoding) -> list[tuple[ColumnCode, str]]:
    """The code of each part, and the part's own name, which is empty for the first."""
    return [(code, part) for code in encoding.codes for part, _ in code.parts]


def _unit(
    name: str,
    columns: IntArray,
    rows: FloatArray,
    weights: FloatArray,
    code: tuple[ColumnCode, str] | None,
    grid: int,
) -> Unit:
    own = rows[:, columns]
    values, places = np.unique(own, axis=0, return_inverse=True)
    total = np.bincount(places.ravel(), weights, len(values))
    points, shares = _thinned(values, np.asarray(total, dtype=np.float64))
    shown, labels = _grid(values, code, grid)
    return Unit(name, columns, points, shares / shares.sum(), shown, labels)


def _thinned(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most `LAW_POINTS` of sorted values (m, c), as quantiles of equal weight."""
    if len(values) <= LAW_POINTS:
        return values, weights
    cumulated = np.cumsum(weights) / weights.sum()
    levels = (np.arange(LAW_POINTS) + 0.5) / LAW_POINTS
    return values[np.searchsorted(cumulated, levels)], np.ones(LAW_POINTS)


def _grid(
    values: FloatArray, code: tuple[ColumnCode, str] | None, size: int
) -> tuple[FloatArray, tuple[Any, ...]]:
    """Points (g, c) where effects are shown, and their labels, of sorted values (m, c)."""
    own, part = (None, "") if code is None else code
    if isinstance(own, CategoryCode):
        levels = [*own.levels, None]
        nearest = [int(np.argmin(np.abs(own.points - value).sum(axis=1))) for value in values]
        return values, tuple("missing" if levels[k] is None else str(levels[k]) for k in nearest)
    if isinstance(own, DateCode) and part:
        angles = np.linspace(0.0, 2 * np.pi, size, endpoint=False)
        days = angles / (2 * np.pi) * CYCLES[part]
        return np.column_stack([np.sin(angles), np.cos(angles)]), tuple(map(float, days))
    if isinstance(own, PlaceCode) and not own.globe.is_plane:
        chosen = values[np.linspace(0, len(values) - 1, min(size, len(values))).astype(int)]
        return chosen, tuple(
            f"{latitude:.3g}, {longitude:.3g}" for latitude, longitude in own.globe.degrees(chosen)
        )
    if values.shape[1] > 2:
        raise InvalidInputError(f"columns: expected a number, category or date, got {own}")
    known = values[values[:, -1] == 0] if values.shape[1] == 2 else values
    shown = known[:, 0]
    if shown.size > size:
        shown = np.linspace(shown[0], shown[-1], size)
    points = np.zeros((len(shown), values.shape[1]))
    points[:, 0] = shown
    labels: list[Any] = [float(value) for value in shown]
    if values.shape[1] == 2 and len(known) < len(values):
        points = np.vstack([points, values[values[:, -1] != 0][:1]])
        labels.append("missing")
    return points, tuple(labels)


def product_sample(units: Sequence[Unit], size: int, rng: np.random.Generator) -> list[IntArray]:
    """Places (size,) in the law of each unit: scrambled Sobol points of the product of laws.

    Parameters
    ----------
    units
        The parts, at most 21 201.
    size
        Number of points, a power of two.
    rng
        Of the scrambling.
    """
    uniforms = qmc.Sobol(len(units), rng=rng).random(size)
    found = []
    for unit, levels in zip(units, uniforms.T, strict=True):
        places = np.searchsorted(np.cumsum(unit.weights), levels)
        found.append(np.minimum(places, len(unit.weights) - 1))
    return found


def rows_of(units: Sequence[Unit], places: Sequence[IntArray], n_columns: int) -> FloatArray:
    """Encoded rows (p, D) of places (p,) in the laws of the units."""
    rows = np.zeros((len(places[0]), n_columns))
    for unit, own in zip(units, places, strict=True):
        rows[:, unit.columns] = unit.points[own]
    return rows


def median_correlation(rows: FloatArray) -> float:
    """Median over pairs of columns that vary of the absolute correlation; zero without pairs."""
    varying = rows[:, np.ptp(rows, axis=0) > 0]
    if varying.shape[1] < 2:
        return 0.0
    found = np.abs(np.corrcoef(varying.T))
    return float(np.median(found[np.triu_indices(len(found), 1)]))
