"""The axis of times: rising numbers inside, the user's own times outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from coupledgp.core.codec import stored, stored_as
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.validation import check_positive
from coupledgp.random import FloatArray, IntArray
from coupledgp.time import durations
from coupledgp.time.grids import on_grid, regular_step, rounded
from coupledgp.time.stamps import (
    Labelled,
    Stamps,
    as_datetimes,
    local_nanoseconds,
    read_stamps,
    seconds_of_day,
    zone_of_name,
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
        if not durations.has_unit(value):
            if isinstance(value, str):
                value = float(value)
            return check_positive(value, name)
        if self.origin is None:
            raise InvalidInputError(
                f"{name}: expected a number in the unit of the times, which are numbers, got "
                f"{value!r}"
            )
        return durations.seconds(value, name)

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
