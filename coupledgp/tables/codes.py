"""Codes of columns: numbers with an indicator of missing values, points, cycles.

A code is learnt from a column of the training table and never changes. It makes the columns of one
or more parts, each of which has a lengthscale of its own, and is stored as values of JSON.

Points of categories, at equal distances from each other.

Under a kernel `kappa(|a - b| / l)` points at the distance sqrt(2) from each other make an index
kernel: one for equal categories and `kappa(sqrt(2) / l)` for different ones, which is
`exp(-1 / l^2)` for the Gaussian kernel. Over several columns it is a Hamming kernel with a weight
for each column.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.arrow import (
    CATEGORY,
    DATE,
    DURATION,
    NUMBERS,
    Column,
    days_of,
    held,
    kind_of,
    levels_of,
    numbers_of,
    zone_of,
)
from coupledgp.tables.globe import LATITUDE_ENDS, LONGITUDE_ENDS, Globe

# A dimension for each level is needed to tell the effects of many levels apart: with 600 levels of
# additive effects and 1500 rows the exact GP has an RMSE of .38 by it, and of .48 to .53 by codes
# of 62 or 122 dimensions, whatever their kind (docs/tables.md). It is given up where it costs too
# much: above this number of levels, or above 256 MB for the column; but not for 62 levels or fewer.
MOST_LEVELS, MOST_VALUES = 512, 2**25
# The points of more levels lie in as many dimensions as two times this prime.
PRIME = 31


def are_exact(n_levels: int, n_rows: int) -> bool:
    """Whether the levels of a column of n_rows get a dimension each."""
    if n_levels <= 2 * PRIME:
        return True
    return n_levels <= MOST_LEVELS and n_levels * n_rows <= MOST_VALUES


def category_points(n_levels: int, exact: bool) -> FloatArray:
    """Points (n_levels + 1, w) of the levels of a category, and last of every level not known.

    If they are `exact`, all distances are sqrt(2): level j is the unit vector e_j, w = n_levels,
    and a level not known is `a (1, ..., 1)` with `a = (1 - sqrt(1 + w)) / w`. Otherwise they are
    `polynomial_points`, w = 62, nearly so far from each other.
    """
    if not exact:
        return polynomial_points(n_levels + 1, PRIME)
    apart = np.full((1, n_levels), (1 - np.sqrt(1 + n_levels)) / n_levels)
    return np.vstack([np.eye(n_levels), apart])


def polynomial_points(n_points: int, prime: int) -> FloatArray:
    """Unit vectors (n_points, 2 prime) that are nearly orthogonal.

    The digits a_1, a_2, ... of the number j of a point, in base p = `prime`, are the coefficients
    of the polynomial `f_j(t) = a_1 t + a_2 t^2 + ...`, and the point is the complex vector

        exp(2 pi i f_j(t) / p) / sqrt(p) ,   t = 0, ..., p - 1 ,

    as real and imaginary parts. Two of them have an inner product of at most
    `(degree of f_i - f_j - 1) / sqrt(p)` by Weil's bound: zero among the first p points, at most
    `1 / sqrt(p)` among the first p^2. The bound holds for degrees below p.
    """
    number, t = np.arange(n_points), np.arange(prime)
    power, phase = t, np.zeros((n_points, prime), dtype=np.int64)
    while number.any():
        phase = (phase + np.outer(number % prime, power)) % prime
        number, power = number // prime, power * t % prime
    angle = 2 * np.pi / prime * phase
    points: FloatArray = np.hstack([np.cos(angle), np.sin(angle)]) / np.sqrt(prime)
    return points


# Cycles of dates by name, in days. A date gets a cycle if the training dates span two periods of
# it, and if half a period is longer than the median time between different dates.
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}
# Columns that are degrees.
DEGREES = ("latitude", "longitude")
# A day, a month and a year of four digits, and maybe a time of day, in no ISO form.
_TWO = r"(?:[0-2]?\d|3[01])"
WRITTEN_DATE = re.compile(
    rf"(?:\d{{4}}[./]{_TWO}[./]{_TWO}|{_TWO}[./-]{_TWO}[./-]\d{{4}})(?:[ T,]+\d{{1,2}}:\d{{2}}.*)?$"
)
# Largest mean or standard deviation of a column in a file.
LARGEST = 1e300


class CodedColumn(NamedTuple):
    """A column turned into numbers, and its values that the training column did not have.

    Attributes
    ----------
    values : FloatArray (n, w)
        Columns of all parts.
    n_missing : int
        Rows that are missing though no row of the training column was.
    unknown : tuple
        Levels that the training column did not have.
    """

    values: FloatArray
    n_missing: int = 0
    unknown: tuple[Any, ...] = ()


class ColumnCode(ABC):
    """The code that turns one column of a table into columns of numbers.

    Attributes
    ----------
    kind : str
        Kind of the column.
    """

    kind: str

    @property
    @abstractmethod
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Name and number of columns of each part; the name of the first is empty."""

    @property
    @abstractmethod
    def suffixes(self) -> tuple[str, ...]:
        """Endings (w,) that make names of the encoded columns from the name of the column."""

    @abstractmethod
    def encoded(self, column: Column, where: str) -> CodedColumn:
        """Return a column (n,) as columns (n, w); `where` names it in errors."""

    @abstractmethod
    def describe(self) -> str:
        """Return the code in words."""


@stored
@dataclass(frozen=True)
class NumberCode(ColumnCode):
    """A number as it is; a missing one as the mean of the others, with an indicator beside it.

    The indicator is one standard deviation where the number is missing and zero elsewhere. It is in
    the same part as the number: under their one lengthscale a row without the number is as far from
    the mean as a typical row.

    Attributes
    ----------
    kind : str
        `"number"`, `"boolean"` (0 and 1) or `"duration"` (days).
    fill : float or None
        Mean of the training column; None where missing numbers were refused.
    indicator : float
        Value of the indicator where the number is missing, the standard deviation of the training
        column; zero, and no indicator, where no training row was missing.
    empty : bool
        Whether every training row was missing: the column is then zero whatever it holds.
    """

    kind: str = "number"
    fill: float | None = None
    indicator: float = 0.0
    empty: bool = False

    def read_back(self) -> NumberCode:
        """The code of a file; numbers to fill in are refused where they are none."""
        check_choice(self.kind, NUMBERS, "kind")
        _check_filling(self)
        return self

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        return (("", 2 if self.indicator else 1),)

    @property
    def suffixes(self) -> tuple[str, ...]:
        return ("", " missing") if self.indicator else ("",)

    def encoded(self, column: Column, where: str) -> CodedColumn:
        found = kind_of(column, where)
        durations = (found == DURATION, self.kind == DURATION)
        if not self.empty and (found not in NUMBERS or durations == (True, False)):
            raise InvalidInputError(f"{where}: expected numbers as in the fit, got {held(found)}")
        if not self.empty and durations == (False, True) and not _all_missing(column):
            raise InvalidInputError(f"{where}: expected durations as in the fit, got numbers")
        if self.empty:
            return CodedColumn(np.zeros((len(column), 1)))
        return with_indicator(finite_numbers(column, where), self.fill, self.indicator)

    def describe(self) -> str:
        name = {"boolean": "Boolean, 0 and 1", "duration": "duration in days"}.get(
            self.kind, "number"
        )
        if self.empty:
            return f"{name}, all missing: left out"
        if self.indicator:
            return f"{name}; missing: the mean {self.fill:.6g} and an indicator"
        return name


@stored
@dataclass(frozen=True)
class PlaceCode(ColumnCode):
    """Latitude or longitude: kilometres on a plane, or both together as a point of space.

    On a plane latitude is the part north of the centre and longitude the part east of it. In space
    latitude has the one part of both, and longitude none.

    Attributes
    ----------
    name : str
        `"latitude"` or `"longitude"`.
    globe : Globe
        Their coordinates.
    """

    name: str
    globe: Globe
    kind: str = field(default="number", init=False)

    def read_back(self) -> PlaceCode:
        """The code of a file, of latitude or longitude."""
        check_choice(self.name, DEGREES, "name")
        return self

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        if self.globe.is_plane:
            return (("km north" if self.name == "latitude" else "km east", 1),)
        return (("with longitude, km", 3),) if self.name == "latitude" else ()

    @property
    def suffixes(self) -> tuple[str, ...]:
        if self.globe.is_plane:
            return tuple(f" ({part})" for part, _ in self.parts)
        return (" (x km)", " (y km)", " (z km)") if self.name == "latitude" else ()

    def encoded(self, column: Column, where: str) -> CodedColumn:
        """Degrees (n, 1), of which `TableEncoding` makes kilometres."""
        found = kind_of(column, where)
        if found not in NUMBERS or found == DURATION:
            raise InvalidInputError(f"{where}: expected degrees as in the fit, got {held(found)}")
        values = finite_numbers(column, where)
        low, high = LATITUDE_ENDS if self.name == "latitude" else LONGITUDE_ENDS
        bad = np.flatnonzero(~((values >= low) & (values <= high)))
        if bad.size:
            raise InvalidInputError(
                f"{where}, row {bad[0] + 1}: expected degrees of {self.name} from {low:g} to "
                f"{high:g}, got {values[bad[0]]:g}"
            )
        return CodedColumn(values[:, None])

    def describe(self) -> str:
        if not self.globe.is_plane:
            return f"{self.name}: point of a sphere, kilometres"
        return (
            f"{self.name}: {self.parts[0][0]} of latitude {self.globe.latitude:.4g}, longitude "
            f"{self.globe.longitude:.4g}"
        )


@stored
@dataclass(frozen=True)
class CategoryCode(ColumnCode):
    """A category as a point at equal, or nearly equal, distances from all others.

    A level that the training column did not have, or a missing one, is a point of its own.

    Attributes
    ----------
    levels : tuple
        Levels, the most frequent first; None is a missing value.
    exact : bool
        Whether each level has a dimension to itself, so that all distances are equal.
    """

    levels: tuple[Any, ...]
    exact: bool = True
    kind: str = field(default=CATEGORY, init=False)

    def read_back(self) -> CategoryCode:
        """The code of a file; levels that are not distinct, or too many, are refused."""
        single = all(level is None or isinstance(level, str | int | float) for level in self.levels)
        if not single or not self.levels or len(set(self.levels)) < len(self.levels):
            raise InvalidInputError("levels: expected distinct texts or numbers, got others")
        if self.exact and not are_exact(self.n_levels, 1):
            raise InvalidInputError(f"exact: expected False for {self.n_levels} levels, got True")
        return self

    @property
    def n_levels(self) -> int:
        """Number of levels, a missing value included if the training column had one."""
        return len(self.levels)

    @property
    def of_text(self) -> bool:
        """Whether the levels are text, as they are where no level is known."""
        known = [level for level in self.levels if level is not None]
        return not known or isinstance(known[0], str)

    @cached_property
    def of_dates(self) -> bool:
        """Whether the levels are text, each a date, and more than one."""
        known = [level for level in self.levels if level is not None]
        return self.of_text and len(known) > 1 and all(map(_is_date, known))

    @cached_property
    def points(self) -> FloatArray:
        """Points (n_levels + 1, w) of the levels, and last of every other."""
        return category_points(self.n_levels, self.exact)

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {level: place for place, level in enumerate(self.levels)}

    @property
    def width(self) -> int:
        """Number of columns w, which is known without the points."""
        return self.n_levels if self.exact else 2 * PRIME

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        return (("", self.width),)

    @property
    def suffixes(self) -> tuple[str, ...]:
        if not self.exact:
            return tuple(f"_{k}" for k in range(self.points.shape[1]))
        return tuple(" missing" if level is None else f"={level}" for level in self.levels)

    def encoded(self, column: Column, where: str) -> CodedColumn:
        places, listed = levels_of(column)
        self._check_type(listed, kind_of(column, where), where)
        last = self.n_levels
        of_listed = [self._places.get(level, last) for level in [*listed, None]]
        chosen: IntArray = np.array(of_listed)[places]
        if not (chosen == last).any():
            return CodedColumn(self.points[chosen])
        missing = places == -1
        others = np.unique(places[(chosen == last) & ~missing])
        n_missing = int(missing.sum()) if None not in self._places else 0
        return CodedColumn(self.points[chosen], n_missing, tuple(listed[k] for k in others))

    def _check_type(self, listed: list[Any], kind: str, where: str) -> None:
        """Refuse numbers where the levels are text, and text where they are numbers."""
        known = {isinstance(level, str) for level in self.levels if level is not None}
        given = {isinstance(level, str) for level in listed if level is not None}
        if kind == DATE or (known and given and known != given):
            wanted = "text" if True in known else "numbers"
            found = held(kind) if kind == DATE else "text" if True in given else "numbers"
            raise InvalidInputError(f"{where}: expected {wanted} as in the fit, got {found}")

    def describe(self) -> str:
        shown = ", ".join("missing" if x is None else str(x) for x in self.levels[:5])
        more = f", ... ({self.n_levels} levels)" if self.n_levels > 5 else ""
        width = self.points.shape[1]
        code = "one-hot" if self.exact else f"code of {width} columns"
        return f"category, {code}: {shown}{more}"


@stored
@dataclass(frozen=True)
class DateCode(ColumnCode):
    """A date as days since the first of the training table, and as places on cycles.

    A place on a cycle is its sine and cosine, each cycle a part of its own; on clocks of the time
    zone, if the dates have one. A missing date is the mean of the others with an indicator, as for
    numbers, and the centre of each cycle, as far from one time of the cycle as from another.

    Attributes
    ----------
    origin : float
        First training date, in days since 1970.
    zone : str or None
        Time zone of the training column.
    cycles : tuple of str
        Names of cycles, of `CYCLES`.
    fill, indicator, empty
        As for numbers, of the days since the first training date.
    """

    origin: float
    zone: str | None = None
    cycles: tuple[str, ...] = ()
    fill: float | None = None
    indicator: float = 0.0
    empty: bool = False
    kind: str = field(default=DATE, init=False)

    def read_back(self) -> DateCode:
        """The code of a file; a zone or cycle that is none is refused."""
        for cycle in self.cycles:
            check_choice(cycle, CYCLES, "cycles")
        if len(set(self.cycles)) < len(self.cycles) or not abs(self.origin) < LARGEST:
            raise InvalidInputError("origin, cycles: expected a number and distinct names")
        if self.zone is not None:
            check_zone(self.zone)
        _check_filling(self)
        return self

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        elapsed = ("", 2 if self.indicator else 1)
        return (elapsed, *((cycle, 2) for cycle in self.cycles))

    @property
    def suffixes(self) -> tuple[str, ...]:
        elapsed = ("", " missing") if self.indicator else ("",)
        turning = (f" ({cycle}) {name}" for cycle in self.cycles for name in ("sine", "cosine"))
        return (*elapsed, *turning)

    def encoded(self, column: Column, where: str) -> CodedColumn:
        if self.empty:
            return CodedColumn(np.zeros((len(column), 1)))
        self._check_type(column, where)
        days, local = days_of(column, self.zone)
        first = with_indicator(days - self.origin, self.fill, self.indicator)
        columns = [first.values]
        for cycle in self.cycles:
            angle = 2 * np.pi / CYCLES[cycle] * np.mod(local, CYCLES[cycle])
            columns.append(np.nan_to_num(np.column_stack([np.sin(angle), np.cos(angle)])))
        return CodedColumn(np.hstack(columns), first.n_missing)

    def _check_type(self, column: Column, where: str) -> None:
        found = kind_of(column, where)
        if found != DATE:
            if _all_missing(column):
                return
            raise InvalidInputError(f"{where}: expected dates as in the fit, got {held(found)}")
        if (zone_of(column) is None) != (self.zone is None):
            wanted = "without a time zone" if self.zone is None else "with a time zone"
            raise InvalidInputError(f"{where}: expected dates {wanted} as in the fit, got others")

    def describe(self) -> str:
        if self.empty:
            return "date, all missing: left out"
        first = np.datetime64(round(self.origin * 86400), "s").astype("datetime64[m]")
        since = str(first).removesuffix("T00:00")
        cycles = f" and place in the {', '.join(self.cycles)}" if self.cycles else ""
        zone, clock = ("", "") if self.zone is None else (f" ({self.zone})", " UTC")
        text = f"date{zone}: days since {since}{clock}{cycles}"
        return f"{text}; missing: the mean and an indicator" if self.indicator else text


def _check_filling(code: NumberCode | DateCode) -> None:
    """Refuse a code by which missing numbers cannot be filled in."""
    numbers = [code.indicator, 0.0 if code.fill is None else code.fill]
    if not all(abs(number) < LARGEST for number in numbers) or code.indicator < 0:
        raise InvalidInputError("fill, indicator: expected numbers, got others")
    if code.indicator and code.fill is None:
        raise InvalidInputError("fill: expected a number beside an indicator, got none")


def check_zone(zone: Any) -> None:
    """Refuse a value that names no time zone, or offset from UTC, of this machine's tables."""
    if not isinstance(zone, str) or not 0 < len(zone) <= 64:
        raise InvalidInputError("zone: expected the name of a time zone, got another value")
    days_of(_one_date(zone), zone)


def _one_date(zone: str) -> Column:
    """A column of one date in a time zone."""
    import pyarrow as pa

    return pa.array([0], pa.int64()).cast(pa.timestamp("s", tz=zone))


def cycles_of(dates: FloatArray, last: float) -> tuple[str, ...]:
    """Names of the cycles that a column shows, see `CYCLES`.

    Parameters
    ----------
    dates
        Its different dates in ascending order (u,), in days, or many of the earliest.
    last
        Its last date.
    """
    if dates.size < 2:
        return ()
    gap = float(np.median(np.diff(dates)))
    span = last - dates[0] + gap  # each date stands for the time until the next
    return tuple(name for name, days in CYCLES.items() if span >= 2 * days and gap < days / 2)


def with_indicator(values: FloatArray, fill: float | None, indicator: float) -> CodedColumn:
    """Numbers (n,), missing ones filled in, as (n, 1), or (n, 2) with the indicator."""
    missing = np.isnan(values)
    if not indicator and not missing.any():
        return CodedColumn(values[:, None])
    filled = np.where(missing, np.nan if fill is None else fill, values).astype(np.float64)
    if not indicator:
        return CodedColumn(filled[:, None], int(missing.sum()))
    return CodedColumn(np.column_stack([filled, indicator * missing]))


def finite_numbers(column: Column, where: str) -> FloatArray:
    """Numbers (n,) of a column, NaN where missing; infinite ones are refused by row."""
    values = numbers_of(column)
    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        raise InvalidInputError(
            f"{where}, row {row + 1}: expected a finite number, got {values[row]}"
        )
    return values


def _all_missing(column: Column) -> bool:
    return missing_rows(column).size == len(column)


def missing_rows(column: Column) -> IntArray:
    """Numbers of the rows of a column that are missing, from zero."""
    if isinstance(column, np.ndarray):
        return np.flatnonzero(np.isnan(column))
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return np.flatnonzero(np.isnan(column.to_numpy()))
    if not column.null_count:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(column.is_null().to_numpy())


def _is_date(text: str) -> bool:
    """Whether a text is a date with a year of four digits, with or without a time of day."""
    try:
        iso = text[4:5] == "-" and bool(datetime.fromisoformat(text))
    except ValueError:
        iso = False
    return iso or WRITTEN_DATE.match(text) is not None
