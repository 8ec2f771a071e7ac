"""Simple predictions of a table's targets that a model should beat, with laws of their own.

| name | prediction, and its standard deviation |
|---|---|
| mean | the mean of the training targets; their deviation |
| nearest | the target of the nearest training row in inputs of unit variance; the error of the same among training rows |
| linear | least squares on the inputs; the deviation of the residuals and the error of the fit |
| plain process | an exact process of the Matern-5/2 kernel of one lengthscale; its own law |
| additive kernel | a process of functions of single columns and pairs; its own law |
| boosted trees | the mean of the trees of five folds; the error of rows outside of their folds |
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from coupledgp.diagnostics.rivals.baselines import Baseline, Baselines, Maker
from coupledgp.diagnostics.rivals.flexible import (
    AdditiveRival,
    BoostedRival,
    FlexibleRival,
    PlainRival,
)
from coupledgp.diagnostics.rivals.linear import LinearFit
from coupledgp.diagnostics.rivals.nearest import RowFinder
from coupledgp.diagnostics.rivals.observations import Observations
from coupledgp.diagnostics.rivals.prediction import Rivals
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


def left_out_baselines(X: FloatArray, y: FloatArray, n_folds: int, seed: int = 0) -> Rivals:
    """Predict (n,) every one of n_folds parts, drawn at random, of rows (n, d) from the others."""
    folds = drawn_parts(len(y), n_folds, seed)
    return TableRivals.of(X, y[:, None]).left_out(folds).with_laws().first_outputs()


def drawn_parts(n_rows: int, n_parts: int, seed: int = 0) -> IntArray:
    """Number of the part of each row (n,), drawn at random, of parts of equal size to one row."""
    found: IntArray = np.random.default_rng(seed).permutation(n_rows) % min(n_parts, n_rows)
    return found


@dataclass(frozen=True, eq=False)
class TableRivals(Baselines):
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

    def makers(self) -> dict[str, Maker]:
        kinds = {one.name: one for one in (PlainRival, AdditiveRival, BoostedRival)}
        if len(self.X) < 2 or not self._columns.size:
            return dict.fromkeys(("nearest", "linear", *kinds), _no_inputs)
        makers: dict[str, Maker] = {"nearest": self._by_nearest_row, "linear": self._by_line}
        return makers | {name: partial(self._flexible, kind) for name, kind in kinds.items()}

    def _flexible(self, kind: type[FlexibleRival]) -> Baseline | str:
        rival = kind(self._rows, self.observations)
        made = rival.made()
        if isinstance(made, str):
            return made
        return made._replace(predict=lambda rows: rival.predict(self._standardised(rows)))

    def _by_nearest_row(self) -> Baseline:
        finder = RowFinder(self._rows)
        return self.by_nearest(
            finder, lambda rows: finder.nearest_to(self._standardised(rows)).number
        )

    def _by_line(self) -> Baseline | str:
        n, d = self._rows.shape
        if n <= d + 1:
            return f"expected more than {d + 1} rows for {d} columns, got {n}"
        chosen = np.arange(n)
        most = max(MOST_ENTRIES // (d + 1), 2 * (d + 1))
        if n > most:
            chosen = np.random.default_rng(0).choice(n, most, replace=False)
        fit = LinearFit(self._rows[chosen], self.observations.take(chosen))
        return Baseline(lambda rows: fit.predict(self._standardised(rows)), fit.left_out)


def _no_inputs() -> str:
    return "expected two rows at least, and a column that varies"
