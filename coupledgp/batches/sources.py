"""Tables in batches that can be gone through again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong

# Most rows of a batch, and most values unless these are fewer than 256 rows.
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


class BatchSource:
    """Batches of a table, the same rows in the same order in each pass.

    Parameters
    ----------
    batches
        A function without arguments that returns an iterable, or an iterable such as a list, of
        `(X, y)`, `(X, y, sample_weight)` or `TableBatch`.

    Raises
    ------
    InvalidInputError
        It is neither, or an iterator, which ends after one pass.
    """

    def __init__(self, batches: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        if not (callable(batches) or hasattr(batches, "__iter__")) or isinstance(batches, str):
            raise wrong(
                "batches", "a function that returns batches or an iterable of them", type(batches)
            )
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
            if not (isinstance(batch, tuple) and 2 <= len(batch) <= len(PARTS)):
                raise InvalidInputError(
                    f"batch {number + 1}: expected a tuple (X, y), (X, y, sample_weight) or a "
                    f"TableBatch, got {type(batch).__name__}"
                )
            yield TableBatch(*batch)
