"""How far other values of a column move predictions: what they hang on, in the unit of y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from coupledgp.diagnostics.plotted import Plotted
from coupledgp.features.sklearn import Columns
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

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
        from coupledgp.diagnostics.pages.dependence import move_bars

        return move_bars(self)
