"""Passes over a table on a cluster: each partition is summed where it lies, the sums merge."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone

from coupledgp.batches import TableBatch
from coupledgp.dask.partitions import Partitions, named_partition
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.gp.table_passes import MomentsPass, Pass, TablePasses, TableSummary
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress
from coupledgp.inference.weights.statistics import DataStatistics
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.models.table_parts import Reading, TablePart, n_rows_of
from coupledgp.random import IntArray

T = TypeVar("T")


class DaskPasses(TablePasses):
    """Passes over partitions: features are computed on the workers, and what moves are sums.

    Parameters
    ----------
    estimator
        Estimator, which messages name.
    partitions
        The table.
    missing
        Parameter `missing` of the estimator.
    report
        Told of each pass.

    Raises
    ------
    InvalidInputError
        A partition holds what `fit` refuses or does not fit the others, or there are no rows.
    """

    def __init__(
        self, estimator: Any, partitions: Partitions, missing: str, report: Progress
    ) -> None:
        self.partitions, self.report = partitions, report
        self.cluster = partitions.cluster
        estimator = clone(estimator, safe=False)  # an earlier fit stays here
        report(f"columns of {len(partitions)} partitions")
        parts = partitions.map(_part, self.cluster.shared(estimator), missing)
        counts = self.cluster.result([self.cluster.submit(_n_rows, part) for part in parts])
        self.ends = np.cumsum(counts)
        partitions.stay(parts)
        numbers = range(len(parts))
        numbered = [
            self.cluster.submit(_Numbered, n, part) for n, part in zip(numbers, parts, strict=True)
        ]
        whole = self.cluster.result(self.cluster.merged(numbered, _merged_parts)).part
        if whole is None:
            raise InvalidInputError("X: expected rows, got empty partitions only")
        columns, inputs = whole.encoded_columns(missing), whole.inputs
        self.reading = self.cluster.shared(Reading(estimator, columns, whole.level))
        if columns.encoding is not None:
            inputs = self.total(MomentsPass())
        self.summary: TableSummary = whole.summary(columns, inputs)

    def take(self, rows: IntArray) -> Data:
        self.report(f"{rows.size} rows")
        cuts = np.searchsorted(rows, self.ends)
        places = np.split(rows, cuts[:-1])
        starts = np.append(0, self.ends[:-1])
        which = [number for number, own in enumerate(places) if own.size]
        own = [places[number] - starts[number] for number in which]
        found = self.cluster.result(self.partitions.map(_taken, self.reading, own, which=which))
        return Data(tuple(batch for data in found for batch in data.batches)).as_one_batch()

    def total(self, sums: Pass[T]) -> T:
        self.report(sums.name)
        parts = self.partitions.map(_summed, self.reading, self.cluster.shared(sums))
        found: T = self.cluster.result(self.cluster.merged(parts, type(sums).merge))
        return found

    def statistics(self, stream: FeatureStream, units: Units) -> DataStatistics:
        """See the base class; partitions have to come out with as many rows as before."""
        found = super().statistics(stream, units)
        if found.n_rows != self.summary.n_rows:
            raise InvalidInputError(
                f"X: expected {self.summary.n_rows} rows in every pass, got {found.n_rows}; its "
                "partitions are computed anew for each pass and have to come out the same"
            )
        return found


def _part(batch: TableBatch, estimator: Any, missing: str) -> TablePart | None:
    return TablePart.of(estimator, batch, missing) if n_rows_of(batch) else None


def _n_rows(part: TablePart | None) -> int:
    return 0 if part is None or part.targets is None else part.targets.n_rows


class _Numbered(NamedTuple):
    """What partitions in a row tell, and the number of the first one that has rows."""

    number: int
    part: TablePart | None


def _merged_parts(a: _Numbered, b: _Numbered) -> _Numbered:
    """Merge what partitions tell; an error names the first that does not fit those before it."""
    if a.part is None or b.part is None:
        return b if a.part is None else a
    with named_partition(b.number):
        return _Numbered(a.number, a.part.merge(b.part))


def _taken(batch: TableBatch, reading: Reading, rows: IntArray) -> Data:
    data = reading.data(batch)
    assert data is not None  # it has the rows that are wanted
    return data.take(rows)


def _summed(batch: TableBatch, reading: Reading, sums: Pass[T]) -> T:
    data = reading.data(batch)
    return sums.start() if data is None else sums.add(sums.start(), data)
