"""How far other values of a column move predictions: what they hang on, in the unit of y.

Partial dependence of a fitted function on the columns of a table, with intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.core.plotted import Plotted
from coupledgp.core.process import GaussianProcess
from coupledgp.random import FloatArray
from coupledgp.tables.codes import CYCLES, CategoryCode, ColumnCode, DateCode, PlaceCode
from coupledgp.tables.samplers import Columns

if TYPE_CHECKING:
    from coupledgp.diagnostics.render.figures import Picture

# Rows whose values are exchanged, and columns that a sentence names.
EXCHANGED, NAMED = 64, 3
# Share of the largest move below which a column is not named.
LEAST = 0.01


@dataclass(frozen=True, eq=False)
class ColumnMoves(Plotted):
    """Root mean square of the change of a mean where a column has the value of another row.

    `sqrt(mean_i (m(x_i) - m(x_i with column j of row i'))^2)` over at most 64 rows i of the fit,
    each with one other row i'. Columns that hang on each other are taken apart. This is the square
    root of twice the numerator of a total Sobol index (Jansen, 1999).

    Attributes
    ----------
    names : tuple of str (q,)
        Columns of the table, that of the largest move first.
    mean, error : FloatArray (q,)
        The moves, units of y, and their standard errors over the rows.
    """

    names: tuple[str, ...]
    mean: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, process: GaussianProcess, columns: Columns) -> ColumnMoves:
        """The moves of a process that holds its rows, with the columns of their table."""
        rows = process.data.points
        rows = rows[np.random.default_rng(0).permutation(len(rows))[:EXCHANGED]]
        names = columns.part_names
        groups = np.arange(rows.shape[1]) if columns.groups is None else columns.groups
        before = process.law(rows, "mean").mean
        squares = np.zeros((len(names), len(rows)))
        for part in range(len(names)):
            other = rows.copy()
            own = groups == part
            other[:, own] = np.roll(rows[:, own], len(rows) // 3, axis=0)
            squares[part] = ((process.law(other, "mean").mean - before) ** 2).mean(axis=1)
        mean = np.sqrt(squares.mean(axis=1))
        error = squares.std(axis=1) / np.sqrt(len(rows)) / np.maximum(2 * mean, 1e-300)
        order = np.argsort(-mean, kind="stable")
        return cls(tuple(names[k] for k in order), mean[order], error[order])

    def text(self) -> str:
        """The leading columns in a sentence."""
        if not self.mean[0] > 0:
            return "Predictions hang on no column."
        told = [
            f"{name} ({move:.3g})"
            for name, move in list(zip(self.names, self.mean, strict=True))[:NAMED]
            if move > LEAST * self.mean[0]
        ]
        listed = ", ".join(told)
        return f"Predictions hang most on {listed}: so far do values of other rows move them."

    def picture(self) -> Picture:
        """Bars of the moves, the largest on top, with two standard errors."""
        from coupledgp.diagnostics.render.pictures import move_bars

        return move_bars(self)


# Rows over which f is averaged, values of a number at which it is shown, and draws of the averages.
ROWS, GRID, DRAWS = 32, 16, 200


@dataclass(frozen=True, eq=False)
class Dependence:
    """Average of f over rows in which one column has a given value (Friedman, 2001).

    `d_j(x) = mean_i f(x_i with column j = x)`. Its standard deviation under the posterior is that
    of the averages of joint draws of f.

    Attributes
    ----------
    name : str
        The column.
    labels : tuple (g,)
        Numbers or levels at which it is stated.
    mean, std : FloatArray (g,)
        Mean and standard deviation of the average, units of y.
    """

    name: str
    labels: tuple[Any, ...]
    mean: FloatArray
    std: FloatArray


def dependences(
    process: GaussianProcess, columns: Columns, names: Sequence[str]
) -> list[Dependence]:
    """Partial dependence on the named columns of a process of one output that holds its rows."""
    rng = np.random.default_rng(0)
    rows = process.data.points
    rows = rows[rng.permutation(len(rows))[:ROWS]]
    every = list(columns.part_names)
    groups = np.arange(rows.shape[1]) if columns.groups is None else columns.groups
    encoding = columns.encoding
    codes: list[tuple[ColumnCode, str] | None] = [None] * len(every)
    if encoding is not None:
        codes = [(code, part) for code in encoding.codes for part, _ in code.parts]
    found = []
    for name in names:
        part = every.index(name)
        own = np.flatnonzero(groups == part)
        values, labels = _grid(np.unique(process.data.points[:, own], axis=0), codes[part])
        points = np.repeat(rows[None], len(values), axis=0)
        points[:, :, own] = values[:, None]
        draws = process.sample(points.reshape(-1, rows.shape[1]), DRAWS, rng, latent=True)
        averages = draws[:, 0].reshape(len(values), len(rows), DRAWS).mean(axis=1)
        found.append(Dependence(name, labels, averages.mean(axis=1), averages.std(axis=1)))
    return found


def _grid(
    values: FloatArray, code: tuple[ColumnCode, str] | None
) -> tuple[FloatArray, tuple[Any, ...]]:
    """Encoded values (g, c) at which dependence is shown, and labels, of sorted values (m, c)."""
    own, part = (None, "") if code is None else code
    if isinstance(own, CategoryCode):
        levels = [*own.levels, None]
        nearest = [int(np.argmin(np.abs(own.points - value).sum(axis=1))) for value in values]
        return values, tuple("missing" if levels[k] is None else str(levels[k]) for k in nearest)
    if isinstance(own, DateCode) and part:
        angles = np.linspace(0.0, 2 * np.pi, GRID, endpoint=False)
        days = angles / (2 * np.pi) * CYCLES[part]
        return np.column_stack([np.sin(angles), np.cos(angles)]), tuple(map(float, days))
    chosen = values[np.linspace(0, len(values) - 1, min(GRID, len(values))).astype(int)]
    if isinstance(own, PlaceCode) and not own.globe.is_plane:
        places = own.globe.degrees(chosen)
        return chosen, tuple(f"{latitude:.3g}, {longitude:.3g}" for latitude, longitude in places)
    has_gaps = chosen.shape[1] > 1 and own is not None
    return chosen, tuple(
        "missing" if has_gaps and value[-1] != 0 else float(value[0]) for value in chosen
    )
