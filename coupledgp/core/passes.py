"""Tables in batches, and sums over the parts of a table wherever the parts lie.

A `Pass` says what is added up; a new sum is one class of it. One process adds one part after the
other. On workers each part has a result of its own, and `in_tree` merges these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong

T = TypeVar("T")

# Results that one task of a reduction merges: as many as lie on a worker side by side.
BRANCHES = 4


class Pass(ABC, Generic[T]):
    """A sum over the parts of a table, with one result wherever the parts lie.

    For parts p_1, ..., p_n and their own results `r_i = add(start(), p_i)` it is

        finish(add(... add(start(), p_1) ..., p_n)) = finish(merge(... merge(r_1, r_2) ..., r_n)) .

    Attributes
    ----------
    name : str
        What is added up, in words for lines of progress.
    """

    name: ClassVar[str]

    @abstractmethod
    def start(self) -> T:
        """The result of no rows."""

    @abstractmethod
    def add(self, found: T, part: Any) -> T:
        """The result with one more part; `found` is not changed."""

    @staticmethod
    @abstractmethod
    def merge(one: Any, other: Any) -> Any:
        """The result of the parts of both, in this order."""

    def finish(self, found: T) -> Any:
        """The value of the result of all parts: the result itself."""
        return found


class PartwisePass(Pass[T | None], Generic[T]):
    """A pass whose result of a part depends on that part alone; None is the result of no rows."""

    @abstractmethod
    def of(self, part: Any) -> T | None:
        """The result of a part."""

    def start(self) -> None:
        """Return None, the result of no rows."""

    def add(self, found: T | None, part: Any) -> T | None:
        whole: T | None = self.merge(found, self.of(part))
        return whole

    @staticmethod
    def merge(one: Any, other: Any) -> Any:
        """See the base class; results merge by their own method, and None changes nothing."""
        if one is None or other is None:
            return one if other is None else other
        return one.merge(other)


@contextmanager
def named_part(name: str | None) -> Iterator[None]:
    """Let errors of values say in which part they are, such as `"batch 3"`; None: as they are."""
    try:
        yield
    except (TypeError, ValueError) as error:  # of scikit-learn and NumPy, for values they refuse
        if name is None:
            raise
        raise InvalidInputError(f"{name}: {error}") from None


def of_part(part: Any, sums: Pass[T]) -> T:
    """The result of one part alone, not finished."""
    return sums.add(sums.start(), part)


def in_tree(
    call: Callable[..., Any], merge: Callable[[Any, Any], Any], parts: Sequence[Any]
) -> Any:
    """Results of parts, at least one, merged in a tree of fixed form that keeps their order.

    Parameters
    ----------
    call
        `call(function, *arguments)` makes a task, whose value may be an argument of others.
    merge
        Associative function of two results.
    parts
        Tasks or values.
    """
    level = list(parts)
    while len(level) > 1:
        groups = [level[i : i + BRANCHES] for i in range(0, len(level), BRANCHES)]
        level = [call(_merged, merge, *g) if len(g) > 1 else g[0] for g in groups]
    return level[0]


def _merged(merge: Callable[[Any, Any], Any], *parts: Any) -> Any:
    return reduce(merge, parts)


def _finished(sums: Pass[T], found: T) -> Any:
    return sums.finish(found)


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
