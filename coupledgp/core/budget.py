"""Costs of computations on graphs, known before they run, and the budget that they must keep to.

A forecast counts operations and divides them by rates of one core of a server of 2019. They are
meant to be right within a factor of two: enough to choose between ways of different cost, and to
refuse work that would take hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.ground.memory import available_bytes
from coupledgp.ground.validation import check_positive, wrong

# Multiply-adds a second: of dense products and factorisations, of products of a column with a
# sparse matrix and of a block of columns, and of all eigenvectors of a dense matrix.
DENSE_RATE, SPARSE_RATE, BLOCK_RATE, EIGEN_RATE = 3e10, 8e8, 2.5e9, 2e10
# The same of sparse factorisations and inverses in blocks: the more there are the larger the blocks
# are. The rate at a number of operations, the power by which it grows, and the largest one.
FACTOR_RATE, FACTOR_WORK, FACTOR_GROWTH, MOST_FACTOR_RATE = 1.7e10, 4.4e8, 0.25, 4e10
# Seconds for an entry of a sparse factor while its blocks are found.
ENTRY_SECONDS = 3e-8
# Multiply-adds of all eigenvectors of a symmetric matrix, over the cube of its size.
EIGEN_WORK = 4.5
SECONDS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
BYTES = {"mb": 2.0**20, "mib": 2.0**20, "gb": 2.0**30, "gib": 2.0**30}


class Forecast(NamedTuple):
    """Expected cost of a computation.

    Attributes
    ----------
    seconds : float
    bytes : float
        Memory that is alive at once.
    """

    seconds: float
    bytes: float = 0.0

    def plus(self, other: Forecast) -> Forecast:
        """Cost of both computations in turn: the sum of the seconds, the larger of the memories."""
        return Forecast(self.seconds + other.seconds, max(self.bytes, other.bytes))


@dataclass(frozen=True)
class Step:
    """A step of a fit, for `explain()`; steps are equal whatever seconds they took.

    Attributes
    ----------
    name : str
        `"compare"` kernels on a part of the data, `"replace"` one that costs too much, `"search"`
        with all observations, `"condition"` on them, or split the graph into `"components"`.
    method : str
        How it was done, and why.
    forecast : float
        Seconds that it was expected to take.
    seconds : float
        Seconds that it took.
    """

    name: str
    method: str
    forecast: float
    seconds: float = field(repr=False, compare=False)

    def __str__(self) -> str:
        if self.name in ("replace", "components"):
            return f"{self.name}: {self.method}"
        return f"{self.name}: {self.method}; {self.seconds:.2g} s, forecast {self.forecast:.2g} s"


@dataclass(frozen=True)
class Budget:
    """Seconds and bytes that a fit may take.

    Attributes
    ----------
    seconds, bytes : float or None
        None: no limit of seconds; memory that is free.
    """

    seconds: float | None = None
    bytes: float | None = None

    @classmethod
    def of(cls, budget: Any) -> Budget:
        """Read a budget: None, a number of seconds, or a text such as `"90s"` or `"5min, 6GB"`.

        Raises
        ------
        InvalidInputError
            It is something else.
        """
        if budget is None or isinstance(budget, cls):
            return budget or cls()
        if not isinstance(budget, str):
            return cls(check_positive(budget, "budget"))
        limits: dict[str, float] = {}
        for part in budget.split(","):
            found = re.fullmatch(r"\s*([0-9.eE+]+)\s*([a-zA-Z]+)\s*", part)
            unit = found[2].lower() if found else ""
            name = "seconds" if unit in SECONDS else "bytes" if unit in BYTES else ""
            if found is None or not name or name in limits:
                raise wrong(
                    "budget", "seconds, or a text such as '90s', '5min' or '5min, 6GB'", budget
                )
            limits[name] = check_positive(_number(found[1], budget), "budget") * {
                **SECONDS, **BYTES
            }[unit]  # fmt: skip
        return cls(**limits)

    def allows(self, forecast: Forecast, share: float = 1.0) -> bool:
        """Whether a computation keeps to a share of the seconds, and to the bytes."""
        limit = available_bytes() if self.bytes is None else self.bytes
        seconds = float("inf") if self.seconds is None else share * self.seconds
        return forecast.seconds <= seconds and forecast.bytes <= limit

    def check(self, forecast: Forecast, subject: str, advice: str) -> None:
        """Refuse a computation that is over the budget.

        Raises
        ------
        InvalidInputError
            It takes more seconds.
        MemoryLimitError
            It takes more bytes than the budget has.
        """
        if self.seconds is not None and forecast.seconds > self.seconds:
            raise InvalidInputError(
                f"budget: expected at least {forecast.seconds:.2g} s, which {subject} takes by "
                f"forecast, got {self.seconds:.2g} s; {advice}"
            )
        if self.bytes is not None and forecast.bytes > self.bytes:
            raise MemoryLimitError(
                f"budget: expected at least {forecast.bytes / 2**30:.2g} GiB, which {subject} "
                f"takes by forecast, got {self.bytes / 2**30:.2g} GiB; {advice}"
            )


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current_budget() -> Budget:
    """What the work that `within_budget` has named may take."""
    return _BUDGET.get() or Budget()


@contextmanager
def within_budget(budget: Any) -> Iterator[None]:
    """Let the work inside keep to a budget, as `Budget.of` reads it."""
    token = _BUDGET.set(Budget.of(budget))
    try:
        yield
    finally:
        _BUDGET.reset(token)


def seconds_of(budget: float | str) -> float:
    """Seconds of a budget, a number or a text such as `"90s"`."""
    seconds = Budget.of(budget).seconds
    if seconds is None:
        raise wrong("budget", "seconds, such as '60s'", budget)
    return seconds


def _number(text: str, budget: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"budget: expected a number in {text!r} of {budget!r}") from None


def eigen_forecast(size: int) -> Forecast:
    """All eigenvectors of a dense symmetric matrix (size, size)."""
    return Forecast(EIGEN_WORK * float(size) ** 3 / EIGEN_RATE, 32.0 * float(size) ** 2)


def factor_seconds(flops: float) -> float:
    """Seconds of a sparse factorisation in blocks, with the inverse on its pattern."""
    rate = FACTOR_RATE * (flops / FACTOR_WORK) ** FACTOR_GROWTH
    return flops / max(min(rate, MOST_FACTOR_RATE), 1e9)
