"""Summaries of columns from which codes are learnt, one part of a table after the other.

A summary is learnt from one part of a column. The summaries of all parts merge, in any order, into
the summary of the column, from which its code follows. Memory does not grow with the number of
rows, but with the number of levels of a category.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import varies
from coupledgp.random import FloatArray
from coupledgp.tables.arrow import (
    BOOLEAN,
    CATEGORY,
    DATE,
    DURATION,
    NUMBER,
    Column,
    days_of,
    held,
    kind_of,
    levels_of,
    zone_of,
)
from coupledgp.tables.codes import (
    CategoryCode,
    ColumnCode,
    DateCode,
    NumberCode,
    are_exact,
    cycles_of,
    finite_numbers,
)
from coupledgp.tables.globe import turned_ends

# Most levels of a category that are counted over the parts of a table: their points take 130 MB.
MOST_LEVELS = 2**18
# Most different dates that are kept over the parts of a table, the earliest: the median time
# between neighbouring ones says which cycles a column shows.
MOST_DATES = 2**16


@dataclass(frozen=True)
class KnownNumbers:
    """Moments of the numbers of a column that are not missing.

    Attributes
    ----------
    count : int
        How many there are.
    mean, std : float
        Mean and standard deviation; zero without any.
    low, high : float
        Least and greatest; zero without any.
    turned_low, turned_high : float
        The same of longitudes that are written in the other way; see `globe.turned_ends`.
    """

    count: int = 0
    mean: float = 0.0
    std: float = 0.0
    low: float = 0.0
    high: float = 0.0
    turned_low: float = 0.0
    turned_high: float = 0.0

    @classmethod
    def of(cls, values: FloatArray) -> KnownNumbers:
        """Moments of numbers (n,)."""
        if not values.size:
            return cls()
        low, high = values.min(), values.max()
        turned = turned_ends(values, low, high)
        found = np.clip(values.mean(), low, high), values.std(), low, high, *turned
        return cls(values.size, *map(float, found))

    def merge(self, other: KnownNumbers) -> KnownNumbers:
        """Moments of the numbers of both (Chan, Golub and LeVeque, 1979)."""
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        share, gap = other.count / count, other.mean - self.mean
        variance = (1 - share) * self.std**2 + share * other.std**2 + share * (1 - share) * gap**2
        mean = self.mean + share * gap
        ends = min(self.low, other.low), max(self.high, other.high)
        turned = (
            min(self.turned_low, other.turned_low), max(self.turned_high, other.turned_high)
        )  # fmt: skip
        return KnownNumbers(count, mean, float(np.sqrt(variance)), *ends, *turned)

    @property
    def ends(self) -> FloatArray:
        """Least and greatest numbers (2, 2), as they are written and turned."""
        return np.array([[self.low, self.high], [self.turned_low, self.turned_high]])

    @property
    def spread(self) -> float:
        """Standard deviation, or one where the numbers are constant to rounding."""
        return self.std if varies(np.array(self.low), np.array(self.high)) else 1.0


class ColumnSummary(ABC):
    """Summary of a column, or of a part of it.

    Attributes
    ----------
    kind : str
        Kind of the column.
    n_rows : int
        Number of rows.
    """

    kind: str
    n_rows: int

    @property
    @abstractmethod
    def n_missing(self) -> int:
        """Number of rows that are missing."""

    @abstractmethod
    def joined(self, other: Any, where: str) -> ColumnSummary:
        """Return the summary of the rows of both; `other` is of the same class."""

    @abstractmethod
    def followed_by_missing(self, n_rows: int) -> ColumnSummary:
        """Return the summary of these rows and so many that are missing."""

    @abstractmethod
    def code(self, fill: bool) -> ColumnCode:
        """Return the code of the column; `fill` says whether missing values are filled in."""

    def merge(self, other: ColumnSummary, where: str) -> ColumnSummary:
        """Return the summary of the rows of both; `where` names the column in errors.

        A part whose rows are all missing goes with every kind.

        Raises
        ------
        InvalidInputError
            The two parts hold values of different kinds, or too many levels.
        """
        for one, rest in ((other, self), (self, other)):
            if one.kind == NUMBER and one.n_missing == one.n_rows:
                return rest.followed_by_missing(one.n_rows)
        if type(self) is not type(other):
            raise InvalidInputError(
                f"{where}: expected {held(self.kind)} as in earlier rows, got {held(other.kind)}"
            )
        return self.joined(other, where)


@dataclass(frozen=True)
class NumberSummary(ColumnSummary):
    """Summary of numbers, Booleans or durations.

    Attributes
    ----------
    kind, n_rows
        See the base class.
    known : KnownNumbers
        Moments of those that are not missing.
    """

    kind: str
    n_rows: int
    known: KnownNumbers

    @classmethod
    def of(cls, column: Column, where: str) -> NumberSummary:
        """Summary of a column of numbers; infinite ones are refused by row."""
        kind, values = kind_of(column, where), finite_numbers(column, where)
        missing = np.isnan(values)
        known = values[~missing] if missing.any() else values
        return cls(kind, len(values), KnownNumbers.of(known))

    @property
    def n_missing(self) -> int:
        return self.n_rows - self.known.count

    def joined(self, other: NumberSummary, where: str) -> NumberSummary:
        """See the base class; Booleans and numbers are numbers."""
        kinds = {self.kind, other.kind}
        if DURATION in kinds and len(kinds) > 1:
            raise InvalidInputError(
                f"{where}: expected {held(self.kind)} as in earlier rows, got {held(other.kind)}"
            )
        kind = self.kind if len(kinds) == 1 else NUMBER
        return NumberSummary(kind, self.n_rows + other.n_rows, self.known.merge(other.known))

    def followed_by_missing(self, n_rows: int) -> NumberSummary:
        return replace(self, n_rows=self.n_rows + n_rows)

    def code(self, fill: bool) -> NumberCode:
        if not fill:
            return NumberCode(self.kind)
        if not self.known.count:
            return NumberCode(self.kind, empty=True)
        indicator = self.known.spread if self.n_missing else 0.0
        return NumberCode(self.kind, self.known.mean, indicator)

    @property
    def as_plain(self) -> NumberSummary:
        """The summary of the same column in a table of numbers, where Booleans are 0 and 1."""
        return replace(self, kind=NUMBER) if self.kind == BOOLEAN else self


@dataclass(frozen=True)
class CategorySummary(ColumnSummary):
    """Summary of a category.

    Attributes
    ----------
    counts : Counter
        Number of rows of each level; that of None counts missing ones.
    """

    counts: Counter[Any]
    kind: str = field(default=CATEGORY, init=False)

    @classmethod
    def of(cls, column: Column, where: str) -> CategorySummary:
        """Summary of a column of text or categories."""
        places, listed = levels_of(column)
        counts = np.bincount(places + 1, minlength=len(listed) + 1)
        found: Counter[Any] = Counter()
        for level, count in zip([None, *listed], counts.tolist(), strict=True):
            if count:
                found[level] += count
        return cls(found)

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows, those without a category included."""
        return self.counts.total()

    @property
    def n_missing(self) -> int:
        return self.counts[None]

    def joined(self, other: CategorySummary, where: str) -> CategorySummary:
        types = {isinstance(x, str) for s in (self, other) for x in s.counts if x is not None}
        if len(types) > 1:
            raise InvalidInputError(
                f"{where}: expected categories of text or of numbers, got both of them"
            )
        counts = self.counts + other.counts
        if len(counts) > MOST_LEVELS:
            raise InvalidInputError(
                f"{where}: expected at most {MOST_LEVELS} different values of a category, got "
                "more; leave the column out if it is an identifier"
            )
        return CategorySummary(counts)

    def followed_by_missing(self, n_rows: int) -> CategorySummary:
        return CategorySummary(self.counts + Counter({None: n_rows}))

    def code(self, fill: bool) -> CategoryCode:
        """See the base class; levels in the order of their frequencies, then of their text."""
        counts = self.counts
        levels = sorted(counts, key=lambda level: (-counts[level], level is None, str(level)))
        return CategoryCode(tuple(levels), are_exact(len(levels), self.n_rows))


@dataclass(frozen=True, eq=False)
class DateSummary(ColumnSummary):
    """Summary of dates.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    zone : str or None
        Time zone.
    origin, last : float
        First and last date, in days since 1970.
    elapsed : KnownNumbers
        Moments of the days since the first date.
    dates : FloatArray (u,)
        Different dates in ascending order, in days since 1970; the earliest ones if they are more
        than `MOST_DATES`.
    """

    n_rows: int
    zone: str | None
    origin: float
    last: float
    elapsed: KnownNumbers
    dates: FloatArray
    kind: str = field(default=DATE, init=False)

    @classmethod
    def of(cls, column: Column, where: str) -> DateSummary:
        """Summary of a column of dates."""
        zone = zone_of(column)
        days, _ = days_of(column, zone)
        known = days[~np.isnan(days)]
        dates = np.unique(known)
        origin, last = (float(dates[0]), float(dates[-1])) if dates.size else (0.0, 0.0)
        return cls(len(days), zone, origin, last, KnownNumbers.of(known - origin), dates)

    @property
    def n_missing(self) -> int:
        return self.n_rows - self.elapsed.count

    def joined(self, other: DateSummary, where: str) -> DateSummary:
        if self.zone != other.zone:
            raise InvalidInputError(
                f"{where}: expected dates of the time zone {self.zone} as in earlier rows, got "
                f"{other.zone}"
            )
        n_rows = self.n_rows + other.n_rows
        if not (self.elapsed.count and other.elapsed.count):
            return replace(self if self.elapsed.count else other, n_rows=n_rows)
        origin = min(self.origin, other.origin)
        dates = np.union1d(self.dates, other.dates)
        mine, its = (
            replace(
                s.elapsed,
                mean=s.elapsed.mean + s.origin - origin,
                low=s.elapsed.low + s.origin - origin,
                high=s.elapsed.high + s.origin - origin,
            )
            for s in (self, other)
        )
        last = max(self.last, other.last)
        return DateSummary(n_rows, self.zone, origin, last, mine.merge(its), dates[:MOST_DATES])

    def followed_by_missing(self, n_rows: int) -> DateSummary:
        return replace(self, n_rows=self.n_rows + n_rows)

    def code(self, fill: bool) -> DateCode:
        if not self.elapsed.count:
            return DateCode(0.0, self.zone, empty=True)
        cycles = cycles_of(self.dates, self.last)
        if not fill:
            return DateCode(self.origin, self.zone, cycles)
        indicator = self.elapsed.spread if self.n_missing else 0.0
        return DateCode(self.origin, self.zone, cycles, self.elapsed.mean, indicator)


def summary_of(column: Column, where: str) -> ColumnSummary:
    """Summary of a column, or of a part of it; `where` names it in errors."""
    kind = kind_of(column, where)
    kinds: dict[str, Any] = {CATEGORY: CategorySummary, DATE: DateSummary}
    found: ColumnSummary = kinds.get(kind, NumberSummary).of(column, where)
    return found
