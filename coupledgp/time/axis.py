"""The axis of times: rising numbers inside, the user's own times outside.

Durations are texts such as `"1h"`, `"90 s"` or `"PT15M"`, timedeltas of Python and NumPy. Grids are
found under stamps that mostly lie on one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import stored, stored_as
from coupledgp.ground.validation import check_positive
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.stamps import (
    Labelled,
    Stamps,
    as_datetimes,
    local_nanoseconds,
    read_stamps,
    seconds_of_day,
    zone_of_name,
)

SECONDS = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
    "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
}  # fmt: skip
PART = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+)", re.IGNORECASE)
ISO = re.compile(
    r"P(?=.)(?:(?P<w>[\d.]+)W)?(?:(?P<d>[\d.]+)D)?"
    r"(?:T(?=.)(?:(?P<h>[\d.]+)H)?(?:(?P<m>[\d.]+)M)?(?:(?P<s>[\d.]+)S)?)?"
)
EXPECTED = "a duration > 0 such as '1h', '7D', '90s' or a timedelta"


def seconds(value: Any, name: str = "duration") -> float:
    """Seconds of a duration: a text with units, a timedelta, or `np.timedelta64`.

    Raises
    ------
    InvalidInputError
        It is no duration, not above zero, or in months or years, which differ in length.
    """
    if isinstance(value, str):
        found = _of_text(value)
    elif isinstance(value, timedelta):
        found = value.total_seconds()
    elif isinstance(value, np.timedelta64):
        found = _of_numpy(value, name)
    else:
        found = None
    if found is None or not (math.isfinite(found) and found > 0):
        raise InvalidInputError(f"{name}: expected {EXPECTED}, got {value!r:.80}")
    return found


def has_unit(value: Any) -> bool:
    """Whether a value states a unit of time: a text that is no number, or a timedelta."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return True
        return False
    return isinstance(value, (timedelta, np.timedelta64))


def _of_text(text: str) -> float | None:
    """Seconds of a text, the sum of its parts; None if it is no duration."""
    iso = ISO.fullmatch(text.strip())
    if iso is not None:
        try:
            return sum(float(part) * SECONDS[unit] for unit, part in iso.groupdict("0").items())
        except ValueError:  # such as 1.2.3
            return None
    place, total = 0, 0.0
    while place < len(text.rstrip()):
        part = PART.match(text, place)
        unit = None if part is None else SECONDS.get(part[2].lower())
        if part is None or unit is None or part[2] == "M":  # M is a month elsewhere
            return None
        total += float(part[1]) * unit
        place = part.end()
    return total


def _of_numpy(value: np.timedelta64, name: str) -> float | None:
    unit = np.datetime_data(value.dtype)[0]
    if unit in ("M", "Y", "generic"):
        raise InvalidInputError(
            f"{name}: expected {EXPECTED}, got {value!r}, whose unit has no fixed length"
        )
    return None if np.isnat(value) else float(value / np.timedelta64(1, "s"))


# Share of the stamps that lie on a grid, and how far from it in steps that may be.
ON_GRID, TOLERANCE = 0.95, 0.01
# Most steps of a grid for each stamp: one that is mostly empty is none.
MOST_STEPS = 10
# Distinct stamps on no grid above which a resolution is asked for.
MOST_STAMPS = 100_000


def regular_step(times: FloatArray) -> float | None:
    """Step of rising times (n,) that are a grid to rounding; None for others and for one time."""
    if times.size < 2:
        return None
    step = float(times[-1] - times[0]) / (times.size - 1)
    exact = times[0] + step * np.arange(times.size)
    largest = max(abs(float(times[0])), abs(float(times[-1])))
    allowed = 1e-6 * step + 16 * np.finfo(float).eps * largest
    return step if np.abs(times - exact).max() <= allowed else None


def on_grid(times: FloatArray, name: str = "times") -> tuple[FloatArray, IntArray]:
    """The grid under distinct rising times (n,), or the times; and the place of each on it.

    The grid has the median step, or the step of a line through the times, if 95 % of the times lie
    within 1 % of a step of it. Its first and last point are the nearest to the first and last time.

    Returns
    -------
    grid : FloatArray (m,)
        Times, rising.
    places : IntArray (n,)
        Where each time is on the grid.

    Raises
    ------
    InvalidInputError
        There are more than 10^5 times, and no grid.
    """
    if times.size > 2:
        for step in _steps(times):
            offset = _offset(times, step)
            found = np.rint((times - offset) / step).astype(np.int64)
            away = np.abs(times - offset - found * step) / step
            n_steps = int(found[-1] - found[0]) + 1
            if (away <= TOLERANCE).mean() >= ON_GRID and n_steps <= MOST_STEPS * times.size:
                _remark(away, name)
                grid = offset + step * np.arange(found[0], found[-1] + 1)
                return grid, found - found[0]
    if times.size > MOST_STAMPS and regular_step(times) is None:
        raise InvalidInputError(
            f"{name}: expected at most {MOST_STAMPS} distinct times that are on no regular grid, "
            f"got {times.size}; a resolution, such as 1min, rounds them to a grid"
        )
    return times, np.arange(times.size)


def rounded(times: FloatArray, resolution: float) -> tuple[FloatArray, IntArray]:
    """The grid of a resolution from the first of rising times (n,), and the place of each on it."""
    places = np.floor((times - times[0]) / resolution + 0.5).astype(np.int64)
    if places[-1] + 1 > MOST_STEPS * times.size:  # mostly empty
        kept, places = np.unique(places, return_inverse=True)
        return times[0] + resolution * kept, places
    return times[0] + resolution * np.arange(places[-1] + 1), places


def _steps(times: FloatArray) -> list[float]:
    """The median step, and the slope of a line through the times, which evens jitter out."""
    gaps = np.diff(times)
    step = float(np.median(gaps))
    numbers = np.concatenate([[0.0], np.cumsum(np.rint(gaps / step))])
    centred = numbers - numbers.mean()
    spread = float(centred @ centred)
    return [step, float(centred @ (times - times.mean())) / spread] if spread > 0 else [step]


def _offset(times: FloatArray, step: float) -> float:
    """A point of the grid near the first time: the one around which most times lie."""
    turns = (times - times[0]) / step
    phase = float(np.angle(np.exp(2j * np.pi * turns).mean())) / (2 * np.pi)
    numbers = np.rint(turns - phase)
    middle = np.argsort(turns - phase - numbers)[times.size // 2]
    # From a time itself: whole seconds stay whole.
    return float(times[middle] - numbers[middle] * step)


def _remark(away: FloatArray, name: str) -> None:
    """Say how many times are moved to a grid by more than the tolerance."""
    moved = away > TOLERANCE
    if moved.any():
        warn(
            f"{name}: {int(moved.sum())} of {away.size} times lie off the regular grid of the "
            f"others and are moved to its nearest point, by at most {away.max():.0%} of a step"
        )


SECOND = 1_000_000_000  # nanoseconds
LARGEST_SECONDS = 2**63 / SECOND


@stored
@dataclass(frozen=True, eq=False)
class TimeAxis:
    """Times of a series.

    Attributes
    ----------
    values : FloatArray (n,)
        Rising and distinct: numbers of the user, or seconds since `origin`.
    origin : np.datetime64 or None
        The first time, in UTC if there is a zone; None if times are numbers.
    zone : str or None
        Name of the time zone of labels; None for numbers, and for times without a zone.
    tick : int
        Nanoseconds to which labels are rounded: 1000, or 1 where given times are finer.
    labelled : {"numpy", "python", "pandas"}
        What labels with a zone are made of: datetimes of Python, or an index of pandas.
    whole : bool
        Whether all given times were whole numbers.
    """

    values: FloatArray = field(repr=False)
    origin: np.datetime64 | None = None
    zone: str | None = None
    tick: int = 1000
    labelled: Labelled = "numpy"
    whole: bool = False

    def read_back(self) -> TimeAxis:
        """The axis of a file, whose first and last time are of the years 1678 to 2261."""
        if self.zone is not None:
            zone_of_name(self.zone)
        if not 1 <= self.tick <= 1000 or not (np.diff(self.values) > 0).all() or not self.n_times:
            raise ModelFileError("axis: expected rising times and a tick of labels, got others")
        if self.origin is not None:
            seconds = self.origin.astype("datetime64[s]").astype(np.int64)
            if not abs(seconds) < LARGEST_SECONDS - 1:
                raise ModelFileError(f"axis.origin: expected a time of 1678 to 2261, got {seconds}")
        self.labels(self.values[[0, -1]])
        return self

    @classmethod
    def of(cls, times: Any, resolution: Any = None, name: str = "times") -> TimeAxis:
        """The axis of times (m,) that may repeat and come in any order.

        They are put on a regular grid if 95 % of the distinct ones lie within 1 % of a step of it.

        Parameters
        ----------
        times
            `datetime64` of any resolution, times of pandas, datetimes of Python, texts by ISO 8601,
            or numbers.
        resolution
            A duration: times are rounded to multiples of it from the first one.
        name
            The argument's name in errors.

        Raises
        ------
        InvalidInputError
            There are none; one is missing or infinite; kinds or zones are mixed; or there are more
            than 10^5 on no regular grid, without a resolution.
        """
        return cls.placed(read_stamps(times, name), resolution, name)[0]

    @classmethod
    def placed(
        cls, stamps: Stamps, resolution: Any = None, name: str = "times"
    ) -> tuple[TimeAxis, IntArray]:
        """The axis of stamps (m,), and the place of each on it."""
        if not len(stamps):
            raise InvalidInputError(f"{name}: expected one time at least, got none")
        distinct, places = stamps.distinct()
        given = distinct.values
        raw = cls._raw(distinct)
        if resolution is None:
            values, moved = on_grid(raw.values, name)
        else:
            step = raw.duration(resolution, "resolution")
            values, moved = rounded(raw.values, step)
        whole = stamps.is_number and bool((given == np.rint(given)).all())
        axis = cls(values, raw.origin, raw.zone, raw.tick, raw.labelled, whole)
        return axis, moved[places]

    @classmethod
    def _raw(cls, distinct: Stamps) -> TimeAxis:
        """The axis of distinct stamps as they are."""
        if distinct.is_number:
            return cls(np.asarray(distinct.values, dtype=np.float64))
        ticks = distinct.values
        origin = np.datetime64(int(ticks[0]), "ns")
        tick = 1000 if not (ticks % 1000).any() else 1
        values = _seconds_after(ticks, int(ticks[0]))
        return cls(values, origin, distinct.zone, tick, distinct.labelled)

    @property
    def n_times(self) -> int:
        """Number of times."""
        return self.values.size

    @cached_property
    def step(self) -> float | None:
        """Step of a regular axis, in its unit; None for an irregular one, and for one time."""
        return regular_step(self.values)

    @property
    def unit(self) -> str:
        """The unit of `values` in words."""
        return "units of the times" if self.origin is None else "seconds"

    def numbers(self, times: Any, name: str = "times") -> FloatArray:
        """Numbers (m,) of the axis of any times (m,) of the user, in their order.

        Raises
        ------
        InvalidInputError
            Times are of another kind than the axis: numbers instead of timestamps, times without
            a zone instead of times with one, or the other way round.
        """
        stamps = read_stamps(times, name)
        if len(stamps) and self._kind != (stamps.is_number, stamps.zone is None):
            raise InvalidInputError(
                f"{name}: expected {self.kind}, as those of the fit, got {stamps.kind}"
            )
        if self.origin is None:
            return np.asarray(stamps.values, dtype=np.float64)
        return _seconds_after(stamps.values, self._start)

    def labels(self, numbers: Any) -> Any:
        """Times of the user's form at numbers (m,) of the axis.

        They are numbers; or `datetime64[ns]`; or, with a zone, an index of pandas if that was
        given, and else datetimes of Python.
        """
        found = np.atleast_1d(np.asarray(numbers, dtype=np.float64))
        if self.origin is None:
            whole = self.whole and bool((found == np.rint(found)).all())
            whole = whole and np.abs(found).max(initial=0) < 2**53
            return found.astype(np.int64 if whole else np.float64)
        ticks = self._nanoseconds(found)
        if self.zone is None:
            return ticks.astype("datetime64[ns]")
        if self.labelled != "pandas":
            return as_datetimes(ticks, self.zone)
        import pandas as pd

        instants = pd.DatetimeIndex(ticks.astype("datetime64[ns]"), tz="UTC")
        return instants.tz_convert(self.zone)

    def texts(self, numbers: Any) -> list[str]:
        """Labels as texts: ISO 8601 with the offset from UTC of zoned times, or numbers."""
        found = np.atleast_1d(np.asarray(numbers, dtype=np.float64))
        if self.origin is None:
            return [str(value) for value in self.labels(found).tolist()]
        ticks = self._nanoseconds(found)
        if self.zone is not None:
            return [value.isoformat() for value in as_datetimes(ticks, self.zone)]
        times = ticks.astype("datetime64[ns]")
        unit = "s" if not (ticks % SECOND).any() else "us" if not (ticks % 1000).any() else "ns"
        return times.astype(f"datetime64[{unit}]").astype(str).tolist()

    def instants(self, numbers: Any) -> IntArray:
        """Nanoseconds since 1970 (m,), in UTC if there is a zone, at numbers (m,) of the axis.

        Raises
        ------
        InvalidInputError
            Times are numbers, or beyond the years 1678 to 2261.
        """
        if self.origin is None:
            raise InvalidInputError("times: expected timestamps, got numbers")
        return self._nanoseconds(np.atleast_1d(np.asarray(numbers, dtype=np.float64)))

    def duration(self, value: Any, name: str = "duration") -> float:
        """A duration in the unit of the axis: `"1h"`, `"7D"`, a timedelta, or a number in it.

        Raises
        ------
        InvalidInputError
            It is no duration above zero; or it has a unit while times are numbers.
        """
        if not has_unit(value):
            if isinstance(value, str):
                value = float(value)
            return check_positive(value, name)
        if self.origin is None:
            raise InvalidInputError(
                f"{name}: expected a number in the unit of the times, which are numbers, got "
                f"{value!r}"
            )
        return seconds(value, name)

    def steps(self, value: Any, step: float, name: str = "duration") -> int:
        """Number of whole steps in a duration, one at least.

        Raises
        ------
        InvalidInputError
            It is no duration, or shorter than a step.
        """
        count = int(np.floor(self.duration(value, name) / step + 1e-9))
        if count < 1:
            raise InvalidInputError(
                f"{name}: expected a step of the data, {step:g} {self.unit}, or more, got {value!r}"
            )
        return count

    def seconds_of_day(self, numbers: Any) -> FloatArray | None:
        """Seconds since midnight (m,) on local clocks; None if times are numbers."""
        if self.origin is None:
            return None
        ticks = self.instants(numbers)
        return seconds_of_day(ticks if self.zone is None else local_nanoseconds(ticks, self.zone))

    def days(self, numbers: Any) -> IntArray:
        """Days since 1970 (m,) on local clocks, at numbers (m,) of the axis.

        Raises
        ------
        InvalidInputError
            Times are numbers, or beyond the years 1678 to 2261.
        """
        ticks = self.instants(numbers)
        local = ticks if self.zone is None else local_nanoseconds(ticks, self.zone)
        return np.asarray(local // (86400 * SECOND))

    @property
    def kind(self) -> str:
        """The kind of the times in words."""
        return Stamps(self.values, self.origin is None, self.zone).kind

    @property
    def _kind(self) -> tuple[bool, bool]:
        return self.origin is None, self.zone is None

    @property
    def _start(self) -> int:
        assert self.origin is not None
        return int(self.origin.astype("datetime64[ns]").astype(np.int64))

    def _nanoseconds(self, numbers: FloatArray) -> IntArray:
        """Nanoseconds since 1970 (m,), rounded to the tick."""
        bad = np.flatnonzero(~(np.abs(numbers + self._start / SECOND) < LARGEST_SECONDS))
        if bad.size:
            raise InvalidInputError(
                f"times: expected times of the years 1678 to 2261, got {numbers[bad[0]]:g} seconds "
                f"after {self.origin}"
            )
        parts = np.rint(numbers * (SECOND / self.tick)).astype(np.int64)
        return np.asarray(self._start + parts * self.tick)


def _seconds_after(ticks: Any, start: int) -> FloatArray:
    """Seconds from an instant to instants (n,), all in nanoseconds; they may be centuries apart."""
    whole = ticks // SECOND - start // SECOND
    return np.asarray(whole + (ticks % SECOND - start % SECOND) / SECOND, dtype=np.float64)


stored_as(np.datetime64, str, np.datetime64)
