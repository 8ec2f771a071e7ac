"""Passes over a table in batches by one process, in memory that does not grow with its rows.

Fits to tables of any number of rows, in passes over batches of them.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.budget import seconds_of, within_budget
from coupledgp.core.options import estimator
from coupledgp.core.passes import BatchSource, PartwisePass, Pass, TableBatch, named_part
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.stored import FittedModel, fitted_result
from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.parameters import check_declared, option
from coupledgp.ground.progress import duration, reporter, tell
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.members import with_parameters
from coupledgp.tables.parts import Reading, TablePart, n_rows_of, row_values
from coupledgp.tables.regressor_base import TableRegressor
from coupledgp.tables.spectrum_options import check_keeping
from coupledgp.tables.table_passes import BlockedPass, MomentsPass, TablePasses


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

    Attributes
    ----------
    no_rows : str
        The error of a table without rows.
    """

    no_rows: ClassVar[str]

    def __init__(self, estimator: Any, missing: str) -> None:
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
    estimator, missing
        As of `SummarisedPasses`.
    source
        The table; every pass has to give the same rows.

    Raises
    ------
    InvalidInputError
        A batch does not fit the others, or holds values that `fit` refuses, or there are no rows.
    """

    no_rows = "batches: expected rows, got none"

    def __init__(self, estimator: Any, source: BatchSource, missing: str) -> None:
        self.source = source
        self._rows: int | None = None
        self._digest: RowDigest | None = None
        super().__init__(estimator, missing)

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
                tell(f"{doing}: {done} rows read")
            else:
                left = (time.monotonic() - start) * max(self._rows / done - 1, 0.0)
                tell(f"{doing}: {done} of {self._rows} rows, {duration(left)} left")
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


@estimator
class FitInBatches(TableRegressor):
    """Part of an estimator whose fit needs sums over the rows, and not the rows themselves.

    Parameters
    ----------
    options
        Values by name for specialists; None: none.

        * `keep_rows`: whether the model holds the training rows, which the exact twin, left-out
          laws, further draws of the frequencies and `X_train_` need. None, the default: `fit` and
          its `partial_fit` keep them, `fit_batches` does not. Without them memory does not grow
          with the rows of `partial_fit`.
    """

    _: KW_ONLY
    options: Mapping[str, Any] | None = None
    keep_rows = option(None, lambda value, name: check_keeping(value))

    forecast_ = fitted_result("forecast_", "Forecast of a fit in passes, seconds of one core.")

    def check_parameters(self) -> None:
        super().check_parameters()
        check_declared(self)

    @abstractmethod
    def check_passes(self) -> None:
        """Refuse parameters for which all rows have to be in memory.

        Raises
        ------
        InvalidInputError
            A parameter has a value that a fit in passes does not take.
        """

    @abstractmethod
    def fit_passes(self, passes: TablePasses) -> tuple[GaussianProcess, dict[str, Any]]:
        """Fit to a table in passes; return the process, without rows, and further results.

        Parameters
        ----------
        passes
            The table.

        Raises
        ------
        InvalidInputError
            A parameter is invalid, or the forecast is above the budget.
        """

    def _fit(self, X: ArrayLike, y: ArrayLike, *weights: Any, **further: Any) -> FittedModel:
        if self.keep_rows is not False:
            return super()._fit(X, y, *weights, **further)
        keeping = with_parameters(self, keep_rows=True)
        record: FittedModel = keeping.fit(X, y, *weights, **further).fitted_
        return replace(record, process=record.process.without_data(), seen=record.extent)

    def fit_batches(self, batches: Any, *, budget: float | str | None = None) -> Self:
        """Fit to a table of any number of rows, in passes over batches of it.

        The result is that of `fit` to all rows, to rounding, whatever the size of the batches. With
        features lengthscales come from random rows of the whole table, on a ladder that ends where
        more rows do not pay; variances and posterior come from all rows. On a lattice all
        hyperparameters come from sums over all rows, a pass for each lattice. Memory is that of a
        batch, of some random rows (128 MiB at most, unless 65536 rows take more) and of what the
        fit needs whatever the number of rows. The rows are not kept unless `keep_rows` is True.

        Parameters
        ----------
        batches
            A function that returns an iterable of tuples `(X, y)` or `(X, y, sample_weight)` with
            X (b, d), y (b,) or (b, k), or an iterable of them that can be started again, such as a
            list. Every pass has to give the same rows in the same order.
        budget
            Most seconds of one core, or a text such as `"5min"`, that the fit may take by its
            forecast, which is made from the speed of the first pass and of products on this machine
            (`forecast_`); None for any number.

        Raises
        ------
        InvalidInputError
            A batch holds what `fit` refuses or does not fit the other batches, whose number the
            message gives; the passes differ; an iterable ends after one pass; or a parameter needs
            all rows in memory: fitted frequencies, averaged hyperparameters, `"auto"` and
            transforms of the targets; or the forecast is above the budget.
        MemoryLimitError
            Matrices of the features' order do not fit into memory.
        """
        self.check_parameters()
        self.check_passes()
        limit = None if budget is None else seconds_of(budget)
        source = BatchSource(batches)
        working = named_exhaustion("fit_batches"), reporter("fit", self.progress)
        with working[0], working[1], within_budget(limit):
            passes = BatchPasses(self, source, self.missing)
            process, results = self.fit_passes(passes)
            if self.keep_rows:
                kept: Any = process
                process = replace(kept, rows=passes.all_rows())
        self._warn_if_stopped(results)
        return self.holding(passes.fitted(process, results))
