"""Passes over a table in batches by one process, in memory that does not grow with its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coupledgp.batches import BatchSource, TableBatch
from coupledgp.batches.passes import PartwisePass, Pass, named_part
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header
from coupledgp.gp.schema import Entries
from coupledgp.gp.table_passes import BlockedPass, MomentsPass, SavedPass, TablePasses
from coupledgp.ground.progress import Progress, duration
from coupledgp.models.checkpoints import Checkpoint, key_of
from coupledgp.models.record import FittedModel
from coupledgp.models.table_parts import (
    Reading,
    TablePart,
    answer_state,
    n_rows_of,
    part_from,
    part_state,
    row_values,
    rows_from,
    rows_state,
    search_from,
    search_state,
    stored_answers,
)
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.optimize import OptimizationResult


class ColumnsPass(PartwisePass[TablePart], SavedPass[TablePart | None]):
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

    state = staticmethod(part_state)
    restored = staticmethod(part_from)


class Taken(NamedTuple):
    """Number of rows that were gone through, and the wanted ones among them."""

    n_seen: int
    data: Data


class RowsPass(SavedPass[Taken]):
    """Rows of a table by their numbers.

    Parameters
    ----------
    rows
        Numbers (m,), which ascend.
    whole
        Whether these are all rows.
    **sizes
        Numbers of encoded columns, d, and of targets, k.
    """

    name = "random rows"

    def __init__(self, rows: IntArray, whole: bool = False, **sizes: int) -> None:
        self.rows, self.whole, self.sizes = rows, whole, {"n": rows.size, **sizes}

    @property
    def file(self) -> str | None:
        return None if self.whole else f"rows-{key_of(self.rows)[:16]}"

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

    def state(self, found: Taken) -> tuple[Header, Arrays]:
        return rows_state(self.finish(found))

    def restored(self, entries: Entries) -> Taken:
        return Taken(self.rows[-1] + 1, rows_from(entries, **self.sizes))


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
            inputs = self.total(MomentsPass(self.reading.width))
        self.summary = whole.summary(columns, inputs)

    def all_rows(self) -> Data:
        """All rows, without those of weight zero, as one batch of encoded data."""
        return self.take(np.arange(self.summary.n_rows))

    def fitted(self, process: GaussianProcess, results: dict[str, Any]) -> FittedModel:
        """The record of a fit to the table, of a process and further results by name."""
        own = self.summary
        return FittedModel(process, own.ndim, results, own.columns, seen=own.seen)


# Seconds between two checkpoints within a pass.
SECONDS = 120.0
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
    checkpoint
        Where states of the fit are saved and found; None saves none.

    Raises
    ------
    InvalidInputError
        A batch does not fit the others, or holds values that `fit` refuses, or there are no rows.
    """

    no_rows = "batches: expected rows, got none"

    def __init__(
        self,
        estimator: Any,
        source: BatchSource,
        missing: str,
        report: Progress,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.source, self.checkpoint = source, checkpoint
        self._rows: int | None = source.n_rows
        self._digest: RowDigest | None = None
        self._answers: dict[str, Any] = {}
        if checkpoint is not None:
            self._digest = checkpoint.restored("digest", RowDigest.restored)
            self._answers = checkpoint.restored("answers", stored_answers) or {}
        if self._digest is not None:
            self._rows = self._digest.n_rows
        super().__init__(estimator, missing, report)

    def take(self, rows: IntArray) -> Data:
        """See the base class; one pass."""
        own = self.summary
        sizes = {"d": self.reading.width, "k": own.targets.mean.size}
        data: Data = self.total(RowsPass(rows, rows.size == own.n_rows, **sizes))
        return data

    def total(self, sums: Pass[Any]) -> Any:
        """See the base class; sums of blocks do not depend on the size of batches.

        A sum that was begun before goes on where it was saved. One of blocks that is complete is
        given the rows once more, which compares them with those that were summed.
        """
        in_blocks = isinstance(sums, BlockedPass)
        n_done, found, complete = self._restored(sums) or (0, sums.start(), False)
        if complete and not in_blocks:
            return sums.finish(found)
        number, start, saved = 0, time.process_time(), time.monotonic()
        parts = self._data(sums.name) if complete else self._parts(sums)
        for number, (name, part) in enumerate(parts, start=1):
            if complete or number <= n_done:
                continue
            with named_part(name):
                found = sums.add(found, part)
            if in_blocks and time.monotonic() - saved >= SECONDS:
                self._save(sums, found, number, complete=False)
                saved = time.monotonic()
        if isinstance(sums, ColumnsPass):
            self.seconds_a_pass = time.process_time() - start
        if not complete:
            self._save(sums, found, number, complete=True)
        return sums.finish(found)

    def _parts(self, sums: Pass[Any]) -> Iterator[tuple[str | None, Any]]:
        """The parts that a pass adds up, with the name of each batch, or None for blocks."""
        if isinstance(sums, ColumnsPass):
            return self._raw(sums.name)
        if isinstance(sums, BlockedPass):
            return ((None, block) for block in self._blocks(sums.name, sums.block_rows))
        return self._data(sums.name)

    def _restored(self, sums: Pass[Any]) -> tuple[int, Any, bool] | None:
        """Number of parts that were summed before, their result, and whether these were all."""
        if self.checkpoint is None or not isinstance(sums, SavedPass) or sums.file is None:
            return None

        def restored(entries: Entries) -> tuple[int, Any, bool] | None:
            if entries.text("key") != key_of(*sums.key):
                return None
            n_parts = entries.integer("n_parts", low=1, high=2**62)
            return n_parts, sums.restored(entries), entries.flag("complete")

        return self.checkpoint.restored(sums.file, restored)

    def _save(self, sums: Pass[Any], found: Any, n_parts: int, complete: bool) -> None:
        if self.checkpoint is None or not isinstance(sums, SavedPass):
            return
        if found is not None and sums.file is not None:
            header, arrays = sums.state(found)
            own = {"key": key_of(*sums.key), "n_parts": n_parts, "complete": complete}
            self.checkpoint.save(sums.file, header | own, arrays)

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
        self._check(digest)

    def _data(self, doing: str) -> Iterator[tuple[str, Data]]:
        """Encoded rows of each batch, without those of weight zero, and its name."""
        for name, batch in self._raw(doing):
            with named_part(name):
                data = self.reading.data(batch)
            if data is not None:
                yield name, data

    def _check(self, digest: RowDigest) -> None:
        """Compare the digest of a pass with that of the first one, which is noted."""
        if self._digest is not None:
            self._digest.check(digest)
            return
        self._digest = digest
        if self.checkpoint is not None:
            self.checkpoint.save("digest", vars(digest), {})

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

    def evaluated(self, key: tuple[Any, ...], find: Callable[[], Any]) -> Any:
        name = key_of(*key)
        if name in self._answers:
            return self._answers[name]
        found = find()
        if self.checkpoint is not None:
            self._answers[name] = found
            states = {key: answer_state(answer) for key, answer in self._answers.items()}
            self.checkpoint.save("answers", {"answers": states}, {})
        return found

    def searched(self, find: Callable[[], OptimizationResult]) -> OptimizationResult:
        if self.checkpoint is None:
            return find()
        width = self.reading.width
        found = self.checkpoint.restored("search", lambda entries: search_from(entries, width))
        if found is None:
            found = find()
            self.checkpoint.save("search", *search_state(found))
        return found


class RowDigest:
    """A number that is the same for two passes that gave the same rows in the same order.

    The sum of the bits of all values, each times the number of its row, modulo 2^64; it does not
    depend on the size of the batches.
    """

    def __init__(self, n_rows: int = 0, total: int = 0) -> None:
        self.n_rows, self.total = n_rows, total

    @classmethod
    def restored(cls, entries: Entries) -> RowDigest:
        """The digest of a checkpoint."""
        return cls(
            entries.integer("n_rows", low=1, high=2**62),
            entries.integer("total", low=0, high=2**64 - 1),
        )

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
