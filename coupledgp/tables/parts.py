"""Parts of a table too large for memory: summaries and rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from coupledgp.core.column_moments import ColumnMoments
from coupledgp.core.passes import TableBatch
from coupledgp.core.process import Data
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_spread
from coupledgp.random import FloatArray
from coupledgp.tables.arrow import NUMBER, table_values
from coupledgp.tables.encoding import TableEncoding, merged_summaries
from coupledgp.tables.globe import GeographicLike, geographic_columns
from coupledgp.tables.rows import (
    RowArguments,
    carrier_of,
    further_rows_with_targets,
    part_rows,
    plain_targets,
)
from coupledgp.tables.samplers import Columns
from coupledgp.tables.summaries import (
    ColumnSummary,
    NumberSummary,
)
from coupledgp.tables.table_passes import MomentsPass, TableSummary

NO_WEIGHT = "sample_weight: expected a weight that is not zero, all are zero"


@dataclass(frozen=True, eq=False)
class TablePart:
    """Summary of some rows of a table, before its encoding is known.

    Attributes
    ----------
    columns : Columns
        Columns, without an encoding.
    ndim : int
        Number of dimensions of y.
    is_plain : bool
        Whether all columns are plain numbers and Booleans.
    summaries : tuple of ColumnSummary
        Summary of each column.
    inputs, targets : ColumnMoments or None
        Moments of plain inputs without missing values, and of targets; None without rows of weight
        above zero.
    noise : float or None
        Sum of the known noise variances of the rows, where they are given.
    """

    columns: Columns
    ndim: int
    is_plain: bool
    summaries: tuple[ColumnSummary, ...]
    inputs: ColumnMoments | None
    targets: ColumnMoments | None
    noise: float | None

    @classmethod
    def of(cls, estimator: Any, batch: TableBatch, missing: str) -> TablePart:
        """Summary of a batch of at least one row; errors are as of `learn_rows`."""
        rows, targets, columns, summaries = part_rows(estimator, batch.X, batch.y, missing)
        is_plain, has_moments = rows is not None, missing == "raise" and rows is not None
        known = rows if rows is not None and has_moments else np.zeros((len(targets), 1))
        data = _data(known, targets, batch, None)
        noise = None
        if batch.sample_noise is not None:
            noise = float(np.asarray(batch.sample_noise, dtype=np.float64).sum())
        return cls(
            columns,
            targets.ndim,
            is_plain,
            tuple(summaries),
            None if data is None or not has_moments else _moments(data.points, data),
            None if data is None else _moments(data.targets, data),
            noise,
        )

    def merge(self, other: TablePart) -> TablePart:
        """Summary of the rows of both parts, the rows of this part first.

        Raises
        ------
        InvalidInputError
            The columns or their kinds, the outputs, or the known noise variances differ.
        """
        _check_alike(self, other)
        return TablePart(
            self.columns,
            self.ndim,
            self.is_plain and other.is_plain,
            tuple(merged_summaries(self.summaries, other.summaries, self.columns.names)),
            MomentsPass.merge(self.inputs, other.inputs),
            MomentsPass.merge(self.targets, other.targets),
            None if self.noise is None or other.noise is None else self.noise + other.noise,
        )

    def encoded_columns(self, missing: str, geographic: GeographicLike = None) -> Columns:
        """Columns of the table with the encoding that the summaries of all parts teach."""

        def ends(column: int) -> FloatArray | None:
            own = self.summaries[column]
            if not isinstance(own, NumberSummary) or own.kind != NUMBER or not own.known.count:
                return None
            return own.known.ends

        names = self.columns.names
        places = geographic_columns(geographic, names, len(self.summaries), ends)
        if self.is_plain and missing == "raise" and places is None:
            return self.columns
        summaries = self.summaries
        if self.is_plain:
            summaries = tuple(s.as_plain if isinstance(s, NumberSummary) else s for s in summaries)
        encoding = TableEncoding.of(summaries, self.columns.names, missing)
        return replace(self.columns, encoding=encoding.with_places(geographic, ends))

    @property
    def level(self) -> float | None:
        """Mean of the known noise variances, where they are known."""
        if self.noise is None or self.targets is None:
            return None
        return self.noise / self.targets.n_rows

    def summary(self, columns: Columns, inputs: ColumnMoments | None) -> TableSummary:
        """The table in numbers, given the moments of its encoded inputs.

        Raises
        ------
        InvalidInputError
            No row has a weight above zero, or a column or output varies by less than squares hold.
        """
        if self.targets is None or inputs is None:
            raise InvalidInputError(NO_WEIGHT)
        check_spread(np.stack([inputs.low, inputs.high]), "X", "column")
        check_spread(np.stack([self.targets.low, self.targets.high]), "y", "output")
        return TableSummary(columns, self.ndim, inputs, self.targets, self.level)


def row_values(batch: TableBatch) -> FloatArray:
    """Inputs, targets, weights and known noise variances (n, w) of a batch that was checked."""
    given = [part for part in (batch.sample_weight, batch.sample_noise) if part is not None]
    values = [table_values(batch.X), plain_targets(batch.y), *given]
    return np.column_stack([np.asarray(part, dtype=np.float64) for part in values])


def n_rows_of(batch: TableBatch) -> int:
    """Number of rows of a batch."""
    return int(_num_samples(batch.y))


class Reading:
    """How a batch becomes rows of numbers, wherever it is read.

    Parameters
    ----------
    estimator
        Estimator, which messages name.
    columns
        Columns of the table with their encoding.
    level
        Mean of the known noise variances of the table, where they are known.
    """

    def __init__(self, estimator: Any, columns: Columns, level: float | None) -> None:
        self.estimator, self.columns, self.level = estimator, columns, level

    @property
    def width(self) -> int:
        """Number D of encoded columns."""
        encoding = self.columns.encoding
        return self.columns.n_features if encoding is None else encoding.groups.size

    def data(self, batch: TableBatch) -> Data | None:
        """Rows of a batch (n, D), without rows of weight zero; None if no others are left.

        Raises
        ------
        InvalidInputError, ValueError
            As in `fit`.
        """
        if not n_rows_of(batch):
            return None
        rows, targets = further_rows_with_targets(
            self.estimator, batch.X, batch.y, self.columns, carrier_of(self.columns)
        )
        return _data(rows, targets, batch, self.level)


def _data(
    rows: FloatArray, targets: FloatArray, batch: TableBatch, level: float | None
) -> Data | None:
    given = batch.sample_weight
    if given is not None and batch.sample_noise is None:
        weights = np.asarray(given)
        if weights.shape == (len(rows),) and not weights.any():
            return None
    arguments = RowArguments(given, batch.sample_noise, level)
    data = arguments.data(rows, targets.reshape(len(targets), -1))
    if level is None or data.weights is None or batch.sample_noise is None:
        return data
    return Data.of(data.points, data.targets, weights=replace(data.weights, level=level))


def _moments(values: FloatArray, data: Data) -> ColumnMoments:
    return ColumnMoments.of(values, data.counts)


def _check_alike(one: TablePart, other: TablePart) -> None:
    mine, its = one.columns, other.columns
    if mine.n_features != its.n_features:
        raise InvalidInputError(
            f"X: expected {mine.n_features} columns as in earlier rows, got {its.n_features}"
        )
    names = [None if c.names is None else list(c.names) for c in (mine, its)]
    if names[0] != names[1]:
        raise InvalidInputError(
            f"X: expected the columns {names[0]} as in earlier rows, in their order, got {names[1]}"
        )
    widths = [None if part.targets is None else part.targets.mean.size for part in (one, other)]
    if one.ndim != other.ndim or (None not in widths and widths[0] != widths[1]):
        raise InvalidInputError("y: expected as many outputs as in earlier rows, got others")
    if (one.noise is None) != (other.noise is None):
        raise InvalidInputError("sample_noise: expected it in all batches or in none")
