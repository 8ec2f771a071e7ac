"""Passes over a table in batches by one process, in memory that does not grow with its rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coupledgp.batches import BatchSource, TableBatch
from coupledgp.batches.passes import PartwisePass, Pass, named_part
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.gp.table_passes import BlockedPass, MomentsPass, TablePasses
from coupledgp.ground.progress import Progress, duration
from coupledgp.models.record import FittedModel
from coupledgp.models.table_parts import (
    Reading,
    TablePart,
    n_rows_of,
    row_values,
)
from coupledgp.random import FloatArray, IntArray


class ColumnsPass(PartwisePass[TablePart]):
    """Kinds, levels, moments and names of the columns of a table as it is given.

    Parameters
    ----------
    estimator
        Estimator, which messages name.
    missing
        Parameter `missing` of the estimator.
    """

    name = "columns"

    def __init__(self, estimator: Any, missing: str) -> None:
        self.estimator, self.missing = estimator, missing

    def of(self, part: TableBatch) -> TablePart | None:
        return TablePart.of(self.estimator, part, self.missing) if n_rows_of(part) else None


class Taken(NamedTuple):
    """Number of rows that were gone through, and the wanted ones among them."""

    n_seen: int
    data: Data


class RowsPass(Pass[Taken]):
    """Rows of a table by their numbers.

    Parameters
    ----------
    rows
        Numbers (m,), which ascend.
    """

    name = "random rows"

    def __init__(self, rows: IntArray) -> None:
        self.rows = rows

    def start(self) -> Taken:
        return Taken(0, Data(()))

    def add(self, found: Taken, part: Data) -> Taken:
        start, stop = found.n_seen, found.n_seen + len(part)
        first, last = np.searchsorted(self.rows, [start, stop])
        if first == last:
            return found._replace(n_seen=stop)
        return self.merge(found, Taken(len(part), part.take(self.rows[first:last] - start)))

    @staticmethod
    def merge(one: Taken, other: Taken) -> Taken:
        data = Data((*one.data.batches, *other.data.batches))
        return Taken(one.n_seen + other.n_seen, data)

    def finish(self, found: Taken) -> Data:
        return found.data.as_one_batch()


class SummarisedPasses(TablePasses):
    """Passes over a table whose first ones find its columns, and moments of the encoded inputs.

    Parameters
    ----------
    estimator
        Estimator, which messages name.
    missing
        Parameter `missing` of the estimator.
    report
        Told how far each pass is.

    Attributes
    ----------
    no_rows : str
        The error of a table without rows.
    """

    no_rows: ClassVar[str]

    def __init__(self, estimator: Any, missing: str, report: Progress) -> None:
        self.report = report
        whole = self.total(ColumnsPass(estimator, missing))
        if whole is None:
            raise InvalidInputError(self.no_rows)
        columns, inputs = whole.encoded_columns(missing, estimator.geographic), whole.inputs
        self.reading = Reading(estimator, columns, whole.level)
        if columns.encoding is not None:
            inputs = self.total(MomentsPass())
        self.summary = whole.summary(columns, inputs)

    def all_rows(self) -> Data:
        """All rows, without those of weight zero, as one batch of encoded data."""
        return self.take(np.arange(self.summary.n_rows))

    def fitted(self, process: GaussianProcess, results: dict[str, Any]) -> FittedModel:
        """The record of a fit to the table, of a process and further results by name."""
        own = self.summary
        return FittedModel(process, own.ndim, results, own.columns, seen=own.seen)


# An odd number whose products spread the bits of values.
MIXER = np.uint64(0x9E3779B97F4A7C15)


class BatchPasses(SummarisedPasses):
    """Passes over a source of batches.

    Parameters
    ----------
    estimator, missing, report
        As of `SummarisedPasses`.
    source
        The table; every pass has to give the same rows.

    Raises
    ------
    InvalidInputError
        A batch does not fit the others, or holds values that `fit` refuses, or there are no rows.
    """

    no_rows = "batches: expected rows, got none"

    def __init__(self, estimator: Any, source: BatchSource, missing: str, report: Progress) -> None:
        self.source = source
        self._rows: int | None = None
        self._digest: RowDigest | None = None
        super().__init__(estimator, missing, report)

    def take(self, rows: IntArray) -> Data:
        """See the base class; one pass."""
        data: Data = self.total(RowsPass(rows))
        return data

    def total(self, sums: Pass[Any]) -> Any:
        """See the base class; sums of blocks do not depend on the size of batches."""
        found, start = sums.start(), time.process_time()
        for name, part in self._parts(sums):
            with named_part(name):
                found = sums.add(found, part)
        if isinstance(sums, ColumnsPass):
            self.seconds_a_pass = time.process_time() - start
        return sums.finish(found)

    def _parts(self, sums: Pass[Any]) -> Iterator[tuple[str | None, Any]]:
        """The parts that a pass adds up, with the name of each batch, or None for blocks."""
        if isinstance(sums, ColumnsPass):
            return self._raw(sums.name)
        if isinstance(sums, BlockedPass):
            return ((None, block) for block in self._blocks(sums.name, sums.block_rows))
        return self._data(sums.name)

    def _raw(self, doing: str) -> Iterator[tuple[str, TableBatch]]:
        """Batches with rows, and their names by numbers from one."""
        done, digest, start = 0, RowDigest(), time.monotonic()
        for number, batch in enumerate(self.source, start=1):
            name = f"batch {number}"
            with named_part(name):
                size = n_rows_of(batch)
            if not size:
                continue
            yield name, batch
            digest.add(row_values(batch))
            done += size
            if self._rows is None:
                self.report(f"{doing}: {done} rows read")
            else:
                left = (time.monotonic() - start) * max(self._rows / done - 1, 0.0)
                self.report(f"{doing}: {done} of {self._rows} rows, {duration(left)} left")
        if self._rows is not None and done != self._rows:
            raise InvalidInputError(
                f"batches: expected {self._rows} rows in every pass, got {done}; the source has "
                "changed"
            )
        self._rows = done
        if self._digest is None:
            self._digest = digest
        else:
            self._digest.check(digest)

    def _data(self, doing: str) -> Iterator[tuple[str, Data]]:
        """Encoded rows of each batch, without those of weight zero, and its name."""
        for name, batch in self._raw(doing):
            with named_part(name):
                data = self.reading.data(batch)
            if data is not None:
                yield name, data

    def _blocks(self, doing: str, size: int) -> Iterator[Data]:
        """The same rows in blocks of one size, but for the last, whatever that of batches."""
        held: list[Data] = []
        for _, data in self._data(doing):
            held.append(data)
            if sum(map(len, held)) >= size:
                whole = _joined(held)
                full = len(whole) - len(whole) % size
                yield from (whole.between(k, k + size) for k in range(0, full, size))
                held = [whole.between(full, len(whole))] if full < len(whole) else []
        if held:
            yield _joined(held)


class RowDigest:
    """A number that is the same for two passes that gave the same rows in the same order.

    The sum of the bits of all values, each times the number of its row, modulo 2^64; it does not
    depend on the size of the batches.
    """

    def __init__(self, n_rows: int = 0, total: int = 0) -> None:
        self.n_rows, self.total = n_rows, total

    def add(self, values: FloatArray) -> None:
        """Add rows of values (n, d)."""
        numbers = np.arange(self.n_rows + 1, self.n_rows + len(values) + 1, dtype=np.uint64)
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
        sums = ((bits * MIXER) >> np.uint64(7)).sum(axis=1, dtype=np.uint64)
        self.total = (self.total + int((sums * numbers).sum(dtype=np.uint64))) % 2**64
        self.n_rows += len(values)

    def check(self, other: RowDigest) -> None:
        """Refuse a pass that gave other rows."""
        if (self.n_rows, self.total) != (other.n_rows, other.total):
            raise InvalidInputError(
                f"batches: expected the same {self.n_rows} rows in every pass, in the same order, "
                "got others; the source has changed, or shuffles"
            )


def _joined(parts: list[Data]) -> Data:
    """Data of several batches as one."""
    return Data(tuple(batch for part in parts for batch in part.batches)).as_one_batch()
