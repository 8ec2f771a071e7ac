"""Sums that every fit in passes makes, in one process and on workers: columns, rows by number."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from coupledgp.batches import TableBatch
from coupledgp.batches.passes import PartwisePass
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header
from coupledgp.gp.schema import Entries
from coupledgp.gp.table_passes import MomentsPass, SavedPass, TablePasses
from coupledgp.ground.progress import Progress
from coupledgp.models.checkpoint_states import part_from, part_state, rows_from, rows_state
from coupledgp.models.checkpoints import key_of
from coupledgp.models.record import FittedModel
from coupledgp.models.table_parts import Reading, TablePart, n_rows_of
from coupledgp.random import IntArray


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
