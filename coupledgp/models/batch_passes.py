"""Passes over a table in batches by one process, in memory that does not grow with its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from coupledgp.batches import BatchSource, TableBatch
from coupledgp.batches.sources import rows_of_batch
from coupledgp.errors import InvalidInputError
from coupledgp.gp.column_moments import ColumnMoments
from coupledgp.gp.protocol import Arrays, Data, Header
from coupledgp.gp.schema import Entries
from coupledgp.gp.table_passes import FeaturePass, MomentsPass, Pass, TablePasses, TableSummary
from coupledgp.ground.progress import Progress
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.models.checkpoint_states import (
    answer_state,
    moments_from,
    moments_state,
    part_from,
    part_state,
    rows_from,
    rows_state,
    search_from,
    search_state,
    stored_answers,
)
from coupledgp.models.checkpoints import Checkpoint, key_of
from coupledgp.models.pass_forecast import duration
from coupledgp.models.table_parts import (
    NO_WEIGHT,
    Reading,
    TablePart,
    n_rows_of,
    row_values,
)
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.optimize import OptimizationResult

# Rows that features are made of between two looks at the clock.
BLOCK_ROWS = 65536
# Seconds between two checkpoints within a pass.
SECONDS = 120.0
# An odd number whose products spread the bits of values.
MIXER = np.uint64(0x9E3779B97F4A7C15)


T = TypeVar("T")


class State(NamedTuple, Generic[T]):
    """How a result of a pass is saved: as header and arrays, and back."""

    of: Callable[[T], tuple[Header, Arrays]]
    restored: Callable[[Entries], T]


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
    checkpoint
        Where states of the fit are saved and found; None saves none.

    Raises
    ------
    InvalidInputError
        A batch does not fit the others, or holds values that `fit` refuses, or there are no rows.
    """

    def __init__(
        self,
        estimator: Any,
        source: BatchSource,
        missing: str,
        report: Progress,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.estimator, self.source, self.report = estimator, source, report
        self.checkpoint = checkpoint
        self._rows: int | None = source.n_rows
        self._digest: RowDigest | None = None
        self._answers: dict[str, Any] = {}
        self._restore()
        self.summary = self._summarised(missing)

    def _restore(self) -> None:
        """Take the digest of the rows and evaluations of the evidence from the checkpoint."""
        if self.checkpoint is None:
            return
        self._digest = self.checkpoint.restored("digest", RowDigest.restored)
        self._answers = self.checkpoint.restored("answers", stored_answers) or {}
        if self._digest is not None:
            self._rows = self._digest.n_rows

    def _done(self, name: str, find: Callable[[], T], state: State[T]) -> T:
        """What is found by `find`, or what was found before and saved under a name."""
        if self.checkpoint is None:
            return find()
        stored = self.checkpoint.restored(name, state.restored)
        if stored is not None:
            return stored
        found = find()
        self.checkpoint.save(name, *state.of(found))
        return found

    def _summarised(self, missing: str) -> TableSummary:
        """The first pass, and a second one where inputs are encoded by what the first found."""

        def find() -> TablePart:
            whole, start = None, time.process_time()
            for number, batch in self._raw("columns"):
                with named_batch(number):
                    part = TablePart.of(self.estimator, batch, missing)
                    whole = part if whole is None else whole.merge(part)
            if whole is None:
                raise InvalidInputError("batches: expected rows, got none")
            self.seconds_a_pass = time.process_time() - start
            return whole

        whole = self._done("columns", find, State(part_state, part_from))
        columns, inputs = whole.encoded_columns(missing), whole.inputs
        self.reading = Reading(self.estimator, columns, whole.level)
        if columns.encoding is not None:
            inputs = self._done(
                "moments",
                self._encoded_moments,
                State(moments_state, lambda entries: moments_from(entries, self.reading.width)),
            )
        return whole.summary(columns, inputs)

    def _encoded_moments(self) -> ColumnMoments:
        found = self.total(MomentsPass())
        if found is None:
            raise InvalidInputError(NO_WEIGHT)
        return found

    def _raw(self, doing: str) -> Iterator[tuple[int, TableBatch]]:
        """Batches with rows, and their numbers from one."""
        done, digest, start = 0, RowDigest(), time.monotonic()
        for number, batch in enumerate(self.source, start=1):
            with named_batch(number):
                size = n_rows_of(batch)
            if not size:
                continue
            yield number, batch
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

    def _data(self, doing: str) -> Iterator[Data]:
        """Encoded rows of each batch, without those of weight zero."""
        for number, batch in self._raw(doing):
            with named_batch(number):
                data = self.reading.data(batch)
            if data is not None:
                yield data

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

        def find() -> Data:
            found, start = [], 0
            for data in self._data("random rows"):
                first, last = np.searchsorted(rows, [start, start + len(data)])
                if first < last:
                    found.append(data.take(rows[first:last] - start))
                start += len(data)
            return _joined(found)

        if rows.size == self.summary.n_rows:
            return find()
        sizes = {"n": rows.size, "d": self.reading.width, "k": self.summary.targets.mean.size}
        state = State(rows_state, lambda entries: rows_from(entries, **sizes))
        return self._done(f"rows-{key_of(rows)[:16]}", find, state)

    def total(self, sums: Pass[T]) -> T:
        """See the base class; sums of features do not depend on the size of batches."""
        if isinstance(sums, FeaturePass):
            return self._featured(sums)
        found = sums.start()
        for data in self._data(sums.name):
            found = sums.add(found, data)
        return found

    def _featured(self, sums: FeaturePass[T]) -> T:
        """A sum over blocks of rows; one that was begun before goes on where it was saved."""
        key, name = key_of(*sums.key), sums.name
        n_done, found = 0, sums.start()

        def restored(entries: Entries) -> tuple[int, T, bool] | None:
            if entries.text("key") != key:
                return None
            blocks = entries.integer("blocks", low=0, high=2**62)
            return blocks, sums.restored(entries), entries.flag("complete")

        stored = None if self.checkpoint is None else self.checkpoint.restored(name, restored)
        if stored is not None:
            n_done, found, complete = stored
            if complete:
                for _ in self._data(name):  # which compares the rows with those that were summed
                    pass
                return found

        def save(complete: bool) -> None:
            if self.checkpoint is not None:
                header, arrays = sums.state(found)
                own = {"key": key, "blocks": number, "complete": complete}
                self.checkpoint.save(name, header | own, arrays)

        number, saved = 0, time.monotonic()
        for number, block in enumerate(self._blocks(name, block_rows(sums.stream)), start=1):
            if number <= n_done:
                continue
            found = sums.add(found, block)
            if time.monotonic() - saved >= SECONDS:
                save(complete=False)
                saved = time.monotonic()
        save(complete=True)
        return found

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
        state = State(search_state, lambda entries: search_from(entries, self.reading.width))
        return self._done("search", find, state)


class RowDigest:
    """A number that tells whether two passes gave the same rows in the same order.

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


def block_rows(stream: FeatureStream) -> int:
    """Rows of a block: a multiple of those of a chunk of features, fewer of wide tables."""
    n_columns = stream.feature_map.dim
    chunk = replace(stream, X=np.broadcast_to(0.0, (BLOCK_ROWS, n_columns))).chunk_rows
    return -(-min(BLOCK_ROWS, rows_of_batch(n_columns)) // chunk) * chunk


@contextmanager
def named_batch(number: int) -> Iterator[None]:
    """Let errors of a batch say its number, from one."""
    try:
        yield
    except (TypeError, ValueError) as error:  # of scikit-learn and NumPy, for values they refuse
        raise InvalidInputError(f"batch {number}: {error}") from None


def _part(data: Data, start: int, stop: int) -> Data:
    """Rows of data in one batch, not copied."""
    (points, targets, weights) = data.batches[0]
    rows = slice(start, stop)
    own = None if weights is None else weights.take(rows)
    return Data.of(points[rows], targets[rows], weights=own)


def _joined(parts: list[Data]) -> Data:
    """Data of several batches as one."""
    return Data(tuple(batch for part in parts for batch in part.batches)).as_one_batch()
