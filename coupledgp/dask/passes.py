"""Passes over a table on a cluster: each partition is summed where it lies, the sums merge."""

from __future__ import annotations

from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from coupledgp.batches import TableBatch
from coupledgp.batches.passes import Pass, named_part, of_part
from coupledgp.dask.partitions import Partitions
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress
from coupledgp.inference.weights.statistics import DataStatistics
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.models.batch_passes import ColumnsPass, RowsPass, SummarisedPasses
from coupledgp.models.table_parts import Reading, TablePart
from coupledgp.random import IntArray


class DaskPasses(SummarisedPasses):
    """Passes over partitions: features are computed on the workers, and what moves are sums.

    Parameters
    ----------
    estimator, missing, report
        As of `SummarisedPasses`.
    partitions
        The table.

    Raises
    ------
    InvalidInputError
        A partition holds what `fit` refuses or does not fit the others, or there are no rows.
    """

    no_rows = "X: expected rows, got empty partitions only"

    def __init__(
        self, estimator: Any, partitions: Partitions, missing: str, report: Progress
    ) -> None:
        self.partitions, self.cluster = partitions, partitions.cluster
        # An earlier fit of the estimator stays here.
        super().__init__(clone(estimator, safe=False), missing, report)

    @cached_property
    def everywhere(self) -> Any:
        """A future of how partitions are read, for tasks."""
        return self.cluster.shared(self.reading)

    def take(self, rows: IntArray) -> Data:
        self.report(f"{rows.size} rows")
        places = np.split(rows, np.searchsorted(rows, self.ends)[:-1])
        starts = np.append(0, self.ends[:-1])
        which = [number for number, own in enumerate(places) if own.size]
        sums = [RowsPass(places[number] - starts[number]) for number in which]
        parts = self.partitions.map(_summed, self.everywhere, sums, which, which=which)
        found = reduce(RowsPass.merge, (part.found for part in self.cluster.result(parts)))
        return sums[0].finish(found)

    def total(self, sums: Pass[Any]) -> Any:
        self.report(f"{sums.name} of {len(self.partitions)} partitions")
        of_columns, numbers = isinstance(sums, ColumnsPass), list(range(len(self.partitions)))
        reading = None if of_columns else self.everywhere
        parts = self.partitions.map(_summed, reading, self.cluster.shared(sums), numbers)
        if of_columns:
            self.ends = np.cumsum(self.cluster.result(self.cluster.map(_n_rows, parts)))
            self.partitions.stay(parts)
        whole = self.cluster.merged(parts, partial(_merged, type(sums).merge))
        return sums.finish(self.cluster.result(whole).found)

    def statistics(self, stream: FeatureStream, units: Units) -> DataStatistics:
        """See the base class; partitions have to come out with as many rows as before."""
        found = super().statistics(stream, units)
        if found.n_rows != self.summary.n_rows:
            raise InvalidInputError(
                f"X: expected {self.summary.n_rows} rows in every pass, got {found.n_rows}; its "
                "partitions are computed anew for each pass and have to come out the same"
            )
        return found


class NumberedResult(NamedTuple):
    """The result of partitions in a row, and the number of the first one that has any."""

    number: int
    found: Any


def _summed(
    batch: TableBatch, reading: Reading | None, sums: Pass[Any], number: int
) -> NumberedResult:
    """The result of a pass over a partition as it is given, or as it is read."""
    part = batch if reading is None else reading.data(batch)
    return NumberedResult(number, sums.start() if part is None else of_part(part, sums))


def _merged(merge: Any, a: NumberedResult, b: NumberedResult) -> NumberedResult:
    """Merge results; an error names the first partition that does not fit those before it."""
    with named_part(f"partition {b.number}"):
        return NumberedResult(b.number if a.found is None else a.number, merge(a.found, b.found))


def _n_rows(part: NumberedResult) -> int:
    own: TablePart | None = part.found
    return 0 if own is None or own.targets is None else own.targets.n_rows
