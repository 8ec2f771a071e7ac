"""Passes over a table in batches by one process, in memory that does not grow with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from coupledgp.batches import BatchSource, TableBatch
from coupledgp.errors import InvalidInputError
from coupledgp.gp.column_moments import ColumnMoments
from coupledgp.gp.protocol import Data
from coupledgp.gp.table_passes import (
    Solved,
    TablePasses,
    TableSummary,
    no_statistics,
    part_gradient,
    part_statistics,
)
from coupledgp.gp.units import Units
from coupledgp.inference.weights.statistics import DataStatistics
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.models.table_parts import (
    TablePart,
    data_moments,
    encoded_data,
    n_rows_of,
    raw_targets,
)
from coupledgp.progress import Progress
from coupledgp.random import FloatArray, IntArray

# Rows that features are made of between two looks at the clock.
BLOCK_ROWS = 65536
# An odd number whose products spread the bits of values.
MIXER = np.uint64(0x9E3779B97F4A7C15)


class BatchPasses(TablePasses):
    """Passes over a source of batches.

    Parameters
    ----------
    estimator
        Estimator, which messages name.
    source
        The table; every pass has to give the same rows.
    missing
        Parameter `missing` of the estimator.
    report
        Told how far each pass is.

    Raises
    ------
    InvalidInputError
        A batch does not fit the others, or holds values that `fit` refuses, or there are no rows.
    """

    def __init__(self, estimator: Any, source: BatchSource, missing: str, report: Progress) -> None:
        self.estimator, self.source, self.report = estimator, source, report
        self._rows: int | None = source.n_rows
        self._digests: dict[str, RowDigest] = {}
        self.summary = self._summarised(missing)

    def _summarised(self, missing: str) -> TableSummary:
        """The first pass, and a second one where inputs are encoded by what the first found."""
        whole: TablePart | None = None
        for number, batch in self._raw("columns"):
            with named_batch(number):
                part = TablePart.of(self.estimator, batch, missing)
                whole = part if whole is None else whole.merge(part)
        if whole is None:
            raise InvalidInputError("batches: expected rows, got none")
        columns, inputs = whole.encoded_columns(missing), whole.inputs
        if columns.encoding is not None:
            self._columns, self._level = columns, whole.level
            inputs = _total(data_moments(data) for data in self._data("encoded columns"))
        self._columns, self._level = columns, whole.level
        return whole.summary(columns, inputs)

    def _raw(self, doing: str) -> Iterator[tuple[int, TableBatch]]:
        """Batches with rows, and their numbers from one."""
        done, digest = 0, RowDigest()
        for number, batch in enumerate(self.source, start=1):
            with named_batch(number):
                size = n_rows_of(batch)
            if not size:
                continue
            yield number, batch
            digest.add(raw_targets(batch))
            done += size
            of = "" if self._rows is None else f" of {self._rows}"
            self.report(f"{doing}: {done}{of} rows read")
        if self._rows is not None and done != self._rows:
            raise InvalidInputError(
                f"batches: expected {self._rows} rows in every pass, got {done}; the source has "
                "changed"
            )
        self._rows = done
        self._digests.setdefault("targets", digest).check(digest)

    def _data(self, doing: str) -> Iterator[Data]:
        """Encoded rows of each batch, without those of weight zero."""
        digest = RowDigest()
        for number, batch in self._raw(doing):
            with named_batch(number):
                data = encoded_data(self.estimator, batch, self._columns, self._level)
            if data is not None:
                digest.add(data.points)
                yield data
        self._digests.setdefault("inputs", digest).check(digest)

    def _blocks(self, doing: str, size: int) -> Iterator[Data]:
        """The same rows in blocks of one size, but for the last, whatever that of batches."""
        held: list[Data] = []
        for data in self._data(doing):
            held.append(data)
            if sum(map(len, held)) >= size:
                whole = _joined(held)
                full = len(whole) - len(whole) % size
                yield from (_part(whole, k, k + size) for k in range(0, full, size))
                held = [_part(whole, full, len(whole))] if full < len(whole) else []
        if held:
            yield _joined(held)

    def take(self, rows: IntArray) -> Data:
        """See the base class; one pass."""
        found, start = [], 0
        for data in self._data("random rows"):
            first, last = np.searchsorted(rows, [start, start + len(data)])
            if first < last:
                found.append(data.take(rows[first:last] - start))
            start += len(data)
        return _joined(found)

    def statistics(self, stream: FeatureStream, units: Units) -> DataStatistics:
        """See the base class; one pass, whose sums do not depend on the size of batches."""
        found = no_statistics(stream, units, self.summary.targets.mean)
        for block in self._blocks("posterior", block_rows(stream)):
            found = part_statistics(found, stream, units, block)
        return found

    def lengthscale_gradient(
        self, stream: FeatureStream, units: Units, solved: Solved
    ) -> FloatArray:
        """See the base class; one pass."""
        found = np.zeros(stream.feature_map.dim)
        for block in self._blocks("gradient", block_rows(stream)):
            found = found + part_gradient(stream, units, solved, block)
        return found


class RowDigest:
    """A number that tells whether two passes gave the same rows in the same order.

    The sum of the bits of all values, each times the number of its row, modulo 2^64; it does not
    depend on the size of the batches.
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self.total = 0

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


def block_rows(stream: FeatureStream) -> int:
    """Rows of a block: a multiple of those of a chunk of features."""
    n_columns = stream.feature_map.dim
    chunk = replace(stream, X=np.broadcast_to(0.0, (BLOCK_ROWS, n_columns))).chunk_rows
    return -(-BLOCK_ROWS // chunk) * chunk


@contextmanager
def named_batch(number: int) -> Iterator[None]:
    """Let errors of a batch say its number, from one."""
    try:
        yield
    except (TypeError, ValueError) as error:  # of scikit-learn and NumPy, for values they refuse
        raise InvalidInputError(f"batch {number}: {error}") from None


def _total(parts: Iterator[ColumnMoments]) -> ColumnMoments | None:
    found: ColumnMoments | None = None
    for part in parts:
        found = part if found is None else found.merge(part)
    return found


def _part(data: Data, start: int, stop: int) -> Data:
    """Rows of data in one batch, not copied."""
    (points, targets, weights) = data.batches[0]
    rows = slice(start, stop)
    own = None if weights is None else weights.take(rows)
    return Data.of(points[rows], targets[rows], weights=own)


def _joined(parts: list[Data]) -> Data:
    """Data of several batches as one."""
    return Data(tuple(batch for part in parts for batch in part.batches)).as_one_batch()
