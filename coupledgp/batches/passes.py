"""Sums over the parts of a table: mapped, merged and finished wherever the parts lie.

A `Pass` says what is added up; a new sum is one class of it. One process adds one part after the
other. On workers each part has a result of its own, and `in_tree` merges these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, ClassVar, Generic, TypeVar

from coupledgp.errors import InvalidInputError

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
