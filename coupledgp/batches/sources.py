"""Tables in batches: their protocol, and tables of arrays and of iterables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from coupledgp.errors import InvalidInputError

# Most rows of a batch of files and arrays, and most values unless these are fewer than 256 rows.
BATCH_ROWS, BATCH_VALUES = 65536, 2**22
PARTS = ("X", "y", "sample_weight", "sample_noise")


class TableBatch(NamedTuple):
    """Some rows of a table.

    Attributes
    ----------
    X : Any (b, d)
        Inputs: an array, or a table of pandas, polars or Arrow.
    y : Any (b,) or (b, k)
        Targets.
    sample_weight, sample_noise : Any (b,) or None
        Weights and known noise variances, as in `fit`.
    """

    X: Any
    y: Any
    sample_weight: Any = None
    sample_noise: Any = None


def rows_of_batch(n_columns: int) -> int:
    """Rows of a batch of so many columns."""
    return min(BATCH_ROWS, max(BATCH_VALUES // max(n_columns, 1), 256))


class BatchSource(ABC):
    """A table in batches that can be started again; each pass gives the same rows in one order.

    Attributes
    ----------
    n_rows : int or None
        Number of rows; None where it is not known before a pass.
    """

    n_rows: int | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[TableBatch]:
        """Start a pass."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Values of JSON by which another table is told from this one, without a pass."""


class ArrayBatches(BatchSource):
    """Arrays, such as NumPy memory maps, or a table that is in memory, some rows at a time.

    Parameters
    ----------
    X
        Inputs (n, d).
    y
        Targets (n,) or (n, k).
    sample_weight, sample_noise
        Vectors (n,), see `TableBatch`.
    batch_rows
        Rows of a batch; None: 65536, and fewer of wide tables.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        sample_noise: Any = None,
        batch_rows: int | None = None,
    ) -> None:
        self.parts = TableBatch(X, y, sample_weight, sample_noise)
        n_columns = X.shape[1] if len(X.shape) > 1 else 1
        self.batch_rows = rows_of_batch(n_columns) if batch_rows is None else batch_rows
        self.n_rows: int = len(X)
        for name, part in zip(PARTS, self.parts, strict=True):
            if part is not None and len(part) != self.n_rows:
                raise InvalidInputError(
                    f"{name}: expected {self.n_rows} rows as X has, got {len(part)}"
                )

    def __iter__(self) -> Iterator[TableBatch]:
        for start in range(0, self.n_rows, self.batch_rows):
            rows = slice(start, start + self.batch_rows)
            yield TableBatch(*(_taken(part, rows) for part in self.parts))

    def identity(self) -> dict[str, Any]:
        shapes = [
            None if part is None else [str(getattr(part, "dtype", "")), *map(int, part.shape)]
            for part in self.parts
        ]
        return {"kind": "arrays", "shapes": shapes}


class IterableBatches(BatchSource):
    """Batches that a function, or an object that can be gone through again, gives.

    Parameters
    ----------
    batches
        A function without arguments that returns an iterable, or an iterable such as a list, of
        `(X, y)`, `(X, y, sample_weight)` or `TableBatch`.

    Raises
    ------
    InvalidInputError
        It is an iterator, which ends after one pass.
    """

    def __init__(self, batches: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        if not callable(batches) and iter(batches) is batches:
            raise InvalidInputError(
                "batches: expected an iterable that can be started again, since several passes are "
                f"made, got a {type(batches).__name__} that ends after one; give the function that "
                "makes it, or a list"
            )
        self.batches = batches

    def __iter__(self) -> Iterator[TableBatch]:
        found = self.batches() if callable(self.batches) else self.batches
        if not hasattr(found, "__iter__"):
            raise InvalidInputError(
                "batches: expected a function that returns an iterable of batches, got one that "
                f"returns {type(found).__name__}"
            )
        for number, batch in enumerate(found):
            yield self._checked(batch, number)

    def _checked(self, batch: Any, number: int) -> TableBatch:
        if isinstance(batch, tuple) and 2 <= len(batch) <= len(PARTS):
            return TableBatch(*batch)
        raise InvalidInputError(
            f"batch {number + 1}: expected a tuple (X, y), (X, y, sample_weight) or a TableBatch, "
            f"got {type(batch).__name__}"
        )

    def identity(self) -> dict[str, Any]:
        return {"kind": "iterable"}


def _taken(part: Any, rows: slice) -> Any:
    """Some rows of an array or a table; None of None."""
    if part is None:
        return None
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]
