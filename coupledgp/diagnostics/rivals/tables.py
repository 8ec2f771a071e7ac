"""Simple predictions of a table's targets that a model should beat, with laws of their own.

| name | prediction, and its standard deviation |
|---|---|
| mean | the mean of the training targets; theirs |
| nearest | the target of the nearest training row in inputs of unit variance; the error of the same among training rows |
| linear | least squares on the inputs; that of the residuals, with the error of the fit |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coupledgp.diagnostics.rivals.linear import LinearFit
from coupledgp.diagnostics.rivals.nearest import (
    RowFinder,
    left_out_by_nearest,
    predicted_by_nearest,
)
from coupledgp.diagnostics.rivals.observations import Observations
from coupledgp.diagnostics.rivals.prediction import BaselinePrediction, Rivals, gathered
from coupledgp.ground.validation import varies
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.random import FloatArray, IntArray

# Memory of the design of a linear model beyond which rows are drawn at random: 256 MiB of float64.
MOST_ENTRIES = 2**25


def table_baselines(X: FloatArray, y: FloatArray, X_test: FloatArray) -> Rivals:
    """Predict (p,) at rows (p, d) from training rows (n, d) and targets (n,), by every baseline.

    One training row leaves none, and no column that varies leaves the mean only.
    """
    return TableRivals.of(X, y[:, None]).predict(X_test).with_laws().first_outputs()


@dataclass(frozen=True, eq=False)
class TableRivals:
    """Baselines of a table.

    Attributes
    ----------
    X : FloatArray (n, d)
        Training rows.
    observations : Observations
        Targets, each row a site.
    """

    X: FloatArray
    observations: Observations

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray, weights: RowWeights | None = None) -> TableRivals:
        """Baselines given rows (n, d) and targets (n, k)."""
        return cls(X, Observations.of(y, np.arange(len(X)), weights))

    @cached_property
    def _columns(self) -> IntArray:
        """Numbers of the columns that vary."""
        found: IntArray = np.flatnonzero(varies(self.X.min(axis=0), self.X.max(axis=0)))
        return found

    @cached_property
    def _largest(self) -> FloatArray:
        """Largest magnitudes (d,) of the columns, so that no square overflows or is lost."""
        found: FloatArray = np.abs(self.X).max(axis=0, initial=0.0)
        return np.where(found > 0, found, 1.0)

    def _standardised(self, rows: FloatArray) -> FloatArray:
        """Columns that vary of rows (p, d), with the training rows' mean and deviation."""
        unit = self._largest[self._columns]
        known = self.X[:, self._columns] / unit
        found: FloatArray = (rows[:, self._columns] / unit - known.mean(axis=0)) / known.std(axis=0)
        return found

    @cached_property
    def _rows(self) -> FloatArray:
        return self._standardised(self.X)

    @cached_property
    def _linear(self) -> LinearFit | str:
        """The fit, of random rows where it takes much memory, or why there is none."""
        n, d = self._rows.shape
        if n <= d + 1:
            return f"expected more than {d + 1} rows for {d} columns, got {n}"
        chosen = np.arange(n)
        most = max(MOST_ENTRIES // (d + 1), 2 * (d + 1))
        if n > most:
            chosen = np.random.default_rng(0).choice(n, most, replace=False)
        return LinearFit(self._rows[chosen], self.observations.take(chosen))

    def predict(self, queries: FloatArray) -> Rivals:
        """Predictions (p, k) at rows (p, d)."""
        makers: dict[str, Callable[[], BaselinePrediction | str]] = {
            "mean": lambda: self.observations.predicted_by_mean(len(queries))
        }
        if len(self.X) < 2 or not self._columns.size:
            return gathered(makers | dict.fromkeys(("nearest", "linear"), _no_inputs))
        wanted = self._standardised(queries)
        finder = RowFinder(self._rows)

        def by_nearest() -> BaselinePrediction:
            number = finder.nearest_to(wanted).number
            return predicted_by_nearest(self.observations, finder, number)

        def by_line() -> BaselinePrediction | str:
            fit = self._linear
            return fit if isinstance(fit, str) else fit.predict(wanted)

        return gathered(makers | {"nearest": by_nearest, "linear": by_line})

    def left_out(self, groups: IntArray) -> Rivals:
        """Predictions (n, k) of each row from those of other groups (n,)."""
        numbers = self.observations.as_groups(groups)
        makers: dict[str, Callable[[], BaselinePrediction | str]] = {
            "mean": lambda: self.observations.left_out_by_mean(numbers)
        }
        if not self._columns.size:
            return gathered(makers | dict.fromkeys(("nearest", "linear"), _no_inputs))

        def by_line() -> BaselinePrediction | str:
            fit = self._linear
            if isinstance(fit, LinearFit) and len(fit.rows) < len(self.X):
                return f"{len(self.X)} rows of {fit.rows.shape[1]} columns take too much memory"
            return fit if isinstance(fit, str) else fit.left_out(numbers)

        finder = RowFinder(self._rows)
        return gathered(
            makers
            | {
                "nearest": lambda: left_out_by_nearest(self.observations, finder, numbers),
                "linear": by_line,
            }
        )


def _no_inputs() -> str:
    return "expected two rows at least, and a column that varies"
