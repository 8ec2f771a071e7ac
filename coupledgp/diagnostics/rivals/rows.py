"""Rivals of a table: the nearest row and least squares, with laws of their own.

| name | prediction, and its standard deviation |
|---|---|
| nearest | the target of the nearest training row in columns of unit variance; its error there |
| linear | least squares on the inputs; the residuals' deviation and the error of the fit |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coupledgp.core.left_out import rows_of_groups
from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals.near import RowFinder, by_nearest
from coupledgp.diagnostics.rivals.observed import (
    Fitted,
    Kind,
    Observations,
    Predicted,
    positive,
)
from coupledgp.diagnostics.rivals.processes import (
    AdditiveRival,
    BoostedRival,
    FlexibleRival,
    PlainRival,
)
from coupledgp.errors import MemoryLimitError
from coupledgp.ground.validation import varies
from coupledgp.random import FloatArray, IntArray

# Smallest eigenvalue of the share of the other rows in a direction; below it a group is all that
# tells the direction, and the others are fitted anew.
TOLD_BY_OTHERS = 1e-8
# Memory of the design of a linear model beyond which rows are drawn at random: 256 MiB of float64.
MOST_ENTRIES = 2**25
FLEXIBLE: dict[str, type[FlexibleRival]] = {
    one.name: one for one in (PlainRival, AdditiveRival, BoostedRival)
}


def table_kind(
    X: FloatArray, y: FloatArray, weights: RowWeights | None = None,
    categories: Sequence[IntArray] = (),
) -> Kind:  # fmt: skip
    """Rivals given rows (n, d) and targets (n, k); `categories` are codes, by their columns."""
    observations = Observations.of(y, np.arange(len(X)), weights)
    columns = np.flatnonzero(varies(X.min(axis=0), X.max(axis=0)))
    if len(X) < 2 or not columns.size:
        return Kind(observations, dict.fromkeys(("nearest", "linear", *FLEXIBLE), _no_inputs))
    # No square overflows or is lost.
    largest = np.abs(X).max(axis=0)[columns]
    known = X[:, columns] / largest
    center, spread = known.mean(axis=0), known.std(axis=0)

    def standardised(rows: FloatArray) -> FloatArray:
        found: FloatArray = (rows[:, columns] / largest - center) / spread
        return found

    own = standardised(X)

    def nearest() -> Fitted:
        finder = RowFinder(own)
        return by_nearest(
            observations, finder, lambda rows: finder.nearest_to(standardised(rows)).number
        )

    def linear() -> Fitted | str:
        n, d = own.shape
        if n <= d + 1:
            return f"expected more than {d + 1} rows for {d} columns, got {n}"
        chosen, most = np.arange(n), max(MOST_ENTRIES // (d + 1), 2 * (d + 1))
        if n > most:
            chosen = np.random.default_rng(0).choice(n, most, replace=False)
        fit = LinearFit(own[chosen], observations.take(chosen))
        return Fitted(lambda rows: fit.predict(standardised(rows)), fit.left_out)

    def flexible(kind: type[FlexibleRival]) -> Callable[[], Fitted | str]:
        def make() -> Fitted | str:
            places = (np.flatnonzero(np.isin(columns, one)) for one in categories)
            rival = kind(own, observations, tuple(one for one in places if one.size))
            made = rival.made()
            if isinstance(made, str):
                return made
            return made._replace(predict=lambda rows: rival.predict(standardised(rows)))

        return make

    makers = {name: flexible(kind) for name, kind in FLEXIBLE.items()}
    return Kind(observations, {"nearest": nearest, "linear": linear, **makers})


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

    def predict(self, queries: FloatArray) -> Predicted:
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
        return Predicted(mean, std * np.sqrt(1 + leverage)[:, None])

    @cached_property
    def _fitted(self) -> FloatArray:
        """Fitted targets (n, k), about their mean."""
        found: FloatArray = self._factors[0] @ self._coefficients / self._root[:, None]
        return found

    def left_out(self, groups: IntArray) -> Predicted:
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
        return Predicted(mean, errors)

    def _without(self, rows: IntArray) -> LinearFit:
        """The fit to all other rows."""
        kept = np.delete(np.arange(len(self.rows)), rows)
        return LinearFit(self.rows[kept], self.observations.take(kept))


def _design(rows: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(rows)), rows])
