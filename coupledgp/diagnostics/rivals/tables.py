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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from coupledgp.core.left_out import rows_of_groups
from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals.flexible import (
    AdditiveRival,
    BoostedRival,
    FlexibleRival,
    PlainRival,
)
from coupledgp.diagnostics.rivals.nearest import RowFinder
from coupledgp.diagnostics.rivals.observations import (
    BaselinePrediction,
    Observations,
    Rivals,
    positive,
)
from coupledgp.diagnostics.rivals.rival import Baseline, Baselines, Maker
from coupledgp.errors import MemoryLimitError
from coupledgp.ground.validation import varies
from coupledgp.random import FloatArray, IntArray

# Smallest eigenvalue of the share of the other rows in a direction; below it a group is all that
# tells the direction, and the others are fitted anew.
TOLD_BY_OTHERS = 1e-8
# Memory of the design of a linear model beyond which rows are drawn at random: 256 MiB of float64.
MOST_ENTRIES = 2**25


def table_baselines(
    X: FloatArray, y: FloatArray, X_test: FloatArray, categories: Sequence[IntArray] = ()
) -> Rivals:
    """Predict (p,) at rows (p, d) from training rows (n, d) and targets (n,), by every baseline.

    One training row leaves none, and no column that varies leaves the mean only.
    """
    return (
        TableRivals.of(X, y[:, None], None, categories).predict(X_test).with_laws().first_outputs()
    )


def left_out_baselines(
    X: FloatArray, y: FloatArray, n_folds: int, seed: int = 0, categories: Sequence[IntArray] = ()
) -> Rivals:
    """Predict (n,) every one of n_folds parts, drawn at random, of rows (n, d) from the others."""
    folds = drawn_parts(len(y), n_folds, seed)
    return (
        TableRivals.of(X, y[:, None], None, categories).left_out(folds).with_laws().first_outputs()
    )


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
    categories : tuple of IntArray
        Numbers of the columns that are the code of each category.
    """

    X: FloatArray
    observations: Observations
    categories: tuple[IntArray, ...] = ()

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray,
        weights: RowWeights | None = None,
        categories: Sequence[IntArray] = (),
    ) -> TableRivals:
        """Baselines given rows (n, d) and targets (n, k)."""
        return cls(X, Observations.of(y, np.arange(len(X)), weights), tuple(categories))

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
        places = (np.flatnonzero(np.isin(self._columns, one)) for one in self.categories)
        coded = tuple(one for one in places if one.size)
        rival = kind(self._rows, self.observations, coded)
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


@dataclass(frozen=True, eq=False)
class LinearFit:
    """`y = b_0 + x' b + e` by least squares with weights w, from rows (n, d).

    Columns that follow from others are left out by the singular values.

    Attributes
    ----------
    rows : FloatArray (n, d)
        Columns of mean zero and unit variance.
    observations : Observations
    """

    rows: FloatArray
    observations: Observations

    @cached_property
    def _factors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Left vectors U (n, r) of the weighted design, singular values (r,), right vectors."""
        design = _design(self.rows) * self._root[:, None]
        U, s, Vt = np.linalg.svd(design, full_matrices=False)
        rank = int((s > s[0] * max(design.shape) * np.finfo(float).eps).sum())
        return U[:, :rank], s[:rank], Vt[:rank]

    @cached_property
    def _root(self) -> FloatArray:
        """Roots (n,) of the weights, which are divided by the greatest."""
        weights = self.observations.weights
        found: FloatArray = np.sqrt(weights / weights.max())
        return found

    @cached_property
    def _coefficients(self) -> FloatArray:
        """`U' y`, (r, k), targets about their mean."""
        found: FloatArray = self._factors[0].T @ (self._root[:, None] * self._targets)
        return found

    @property
    def _targets(self) -> FloatArray:
        return self.observations.y - self.observations.mean

    @property
    def rank(self) -> int:
        """Number of coefficients that the rows tell."""
        return len(self._factors[1])

    def predict(self, queries: FloatArray) -> BaselinePrediction:
        """Predictions at rows (p, d); deviations hold residuals and the error of the fit."""
        _, s, Vt = self._factors
        wanted = _design(queries) @ Vt.T / s
        residual = self._targets - self._fitted
        squares = self.observations.counts @ np.square(residual)
        free = max(self.observations.counts.sum() - self.rank, 1.0)
        std = positive(np.sqrt(squares / free), self.observations.y)
        # Rows are as sure as their weights say, which were divided by the greatest.
        leverage = np.square(wanted).sum(axis=1) / self.observations.weights.max()
        mean = self.observations.mean + wanted @ self._coefficients
        return BaselinePrediction("linear", mean, std * np.sqrt(1 + leverage)[:, None])

    @cached_property
    def _fitted(self) -> FloatArray:
        """Fitted targets (n, k), about their mean."""
        found: FloatArray = self._factors[0] @ self._coefficients / self._root[:, None]
        return found

    def left_out(self, groups: IntArray) -> BaselinePrediction:
        """Predictions of rows from those of other groups (n,), by downdates of the fit.

        With U_G the rows of U of a group and r_G its weighted residuals, those of the fit to the
        others are `r_G + U_G (I - U_G' U_G)^-1 U_G' r_G`. Standard deviations are the errors of
        the same predictions of the rows of other groups.

        Raises
        ------
        MemoryLimitError
            There are more rows, of which these were drawn.
        """
        if len(groups) > len(self.rows):
            raise MemoryLimitError(
                f"{len(groups)} rows of {self.rows.shape[1]} columns take too much memory"
            )
        U = self._factors[0]
        residual = self._root[:, None] * (self._targets - self._fitted)
        mean = np.empty_like(residual)
        left = 1 - np.square(U).sum(axis=1)
        single = (np.bincount(groups)[groups] == 1) & (left > TOLD_BY_OTHERS)
        scale = (left * self._root)[single, None]
        mean[single] = self.observations.y[single] - residual[single] / scale
        for rows in rows_of_groups(groups):
            if single[rows[0]]:
                continue
            own = U[rows]
            values, vectors = np.linalg.eigh(np.eye(self.rank) - own.T @ own)
            if values[0] < TOLD_BY_OTHERS:
                mean[rows] = self._without(rows).predict(self.rows[rows]).mean
                continue
            turned = own @ vectors
            gain = (turned / values) @ (turned.T @ residual[rows])
            error = (residual[rows] + gain) / self._root[rows, None]
            mean[rows] = self.observations.y[rows] - error
        errors = self.observations.errors_of_others(mean, groups)
        return BaselinePrediction("linear", mean, errors)

    def _without(self, rows: IntArray) -> LinearFit:
        """The fit to all other rows."""
        kept = np.delete(np.arange(len(self.rows)), rows)
        return LinearFit(self.rows[kept], self.observations.take(kept))


def _design(rows: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(rows)), rows])
