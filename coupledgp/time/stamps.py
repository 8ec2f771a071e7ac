"""Times as people give them, read as numbers or as nanoseconds since 1970.

Times are numbers; or `datetime64` of any resolution, datetimes of Python, pandas, polars and Arrow,
or texts by ISO 8601. Times with a zone are instants, so that an hour that daylight saving repeats
is two hours; times without one are readings of a clock.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import product
from numbers import Real
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_magnitude
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

DAY = 86_400_000_000_000  # nanoseconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OFFSET = re.compile(r"[+-]\d\d(:?\d\d)?")
UTC_NAMES = ("Z", "UTC", "+00:00", "-00:00", "+0000", "+00")
# Years since 1970 that nanoseconds of 64 bits reach.
FIRST_YEAR, LAST_YEAR = 1678 - 1970, 2261 - 1970
# Units of NumPy below nanoseconds, in which NumPy has no years.
FINER_UNITS = ("ps", "fs", "as")
KINDS = "timestamps (datetime64, datetimes, ISO 8601 texts) or numbers"
ENDING = re.compile(r"(Z|[+-]\d\d(?::?\d\d)?)$")
Labelled = Literal["numpy", "python", "pandas"]


@dataclass(frozen=True, eq=False)
class Stamps:
    """Times of one kind.

    Attributes
    ----------
    values : FloatArray or IntArray (n,)
        Numbers; or nanoseconds since 1970, in UTC if there is a zone.
    is_number : bool
        Whether times are numbers.
    zone : str or None
        Name of the zone; None for numbers and readings of a clock without one.
    labelled : {"numpy", "python", "pandas"}
        What the times were given as: what labels are made of.
    """

    values: FloatArray | IntArray
    is_number: bool = False
    zone: str | None = None
    labelled: Labelled = "numpy"

    def __len__(self) -> int:
        return self.values.size

    @property
    def kind(self) -> str:
        """The kind in words."""
        if self.is_number:
            return "numbers"
        return "times without a zone" if self.zone is None else f"times in the zone {self.zone}"

    def distinct(self) -> tuple[Stamps, IntArray]:
        """The distinct times, rising, and the place of each of the n times among them."""
        values: Any
        values, places = np.unique(self.values, return_inverse=True)
        return replace(self, values=values), places

    def within(self, zone: str, name: str = "times", nodes: IntArray | None = None) -> Stamps:
        """The times in a zone: readings of its clocks if they have none, else the same instants.

        An hour that comes twice is resolved by the order of rows, those of a node (n,) by
        themselves where rows are not in order of time, see `instants`.

        Raises
        ------
        InvalidInputError
            They are numbers, there is no such zone, or its clocks never show a time.
        """
        if self.is_number:
            raise InvalidInputError(f"{name}: expected timestamps for a zone, got numbers")
        text = zone_name(zone, name)
        if self.zone is not None:
            return replace(self, zone=text)
        found = instants(self.values.astype(np.int64), text, name, nodes)
        return Stamps(found, False, text, "python")


def read_stamps(times: Any, name: str = "times") -> Stamps:
    """Read times (n,) of any of the kinds.

    Raises
    ------
    InvalidInputError
        They are of another kind or of several, not of one dimension, one is missing or infinite,
        some have a zone and others none, or zones differ.
    """
    if isinstance(times, Stamps):
        return times
    if isinstance(times, (str, datetime, date, np.datetime64)) or np.isscalar(times):
        times = [times]
    zone = getattr(getattr(times, "dtype", None), "tz", None)
    if zone is not None and hasattr(times, "to_numpy"):  # pandas
        found = times.to_numpy(dtype="datetime64[ns]")
        return Stamps(_nanoseconds(found, name), False, zone_name(zone, name), "pandas")
    own = hasattr(times, "iloc") or hasattr(times, "dims")  # of pandas or xarray
    if hasattr(times, "__arrow_c_stream__") and not own:
        return _of_arrow(times, name)
    # NumPy would make texts of numbers beside texts.
    mixed = isinstance(times, (list, tuple)) and any(isinstance(value, str) for value in times)
    array = np.asarray(times, dtype=object if mixed else None)
    if array.ndim != 1:
        raise InvalidInputError(
            f"{name}: expected one dimension of {KINDS}, got shape {array.shape}"
        )
    return _of_array(array, name)


def _of_array(array: NDArray[Any], name: str) -> Stamps:
    kind = array.dtype.kind
    if kind == "M":
        return Stamps(_nanoseconds(array, name))
    if kind in "iuf":
        return _of_numbers(array, name)
    if kind in "UT":
        return _of_texts(array.tolist(), name)
    if kind == "O":
        return _of_objects(array, name)
    raise InvalidInputError(f"{name}: expected {KINDS}, got {array.dtype}")


def _of_numbers(array: NDArray[Any], name: str) -> Stamps:
    values = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InvalidInputError(
            f"{name}: expected finite numbers, got {values[bad[0]]} at place {bad[0]}"
        )
    check_magnitude(values, name)
    return Stamps(values, is_number=True)


def _nanoseconds(array: NDArray[Any], name: str, firsts: Sequence[int] | None = None) -> IntArray:
    """Nanoseconds since 1970 (n,) of datetime64 (n,); `firsts` (n,) are their places in errors."""
    missing = np.flatnonzero(np.isnat(array))
    if missing.size:
        raise InvalidInputError(f"{name}: expected a time at place {missing[0]}, got NaT")
    unit, _ = np.datetime_data(array.dtype)
    if unit == "generic":
        raise InvalidInputError(f"{name}: expected times with a unit, got {array.dtype}")
    whole = array.astype("datetime64[ns]")
    if unit in FINER_UNITS:  # whose numbers cannot reach the ends of the years below
        bad, expected = whole.astype(array.dtype) != array, "whole nanoseconds"
    else:
        years = array.astype("datetime64[Y]").astype(np.int64)
        bad, expected = (years < FIRST_YEAR) | (years > LAST_YEAR), "years from 1678 to 2261"
    for cell in np.flatnonzero(bad)[:1]:
        place = cell if firsts is None else firsts[cell]
        raise InvalidInputError(f"{name}: expected {expected}, got {array[cell]} at place {place}")
    found: IntArray = whole.astype(np.int64)
    return found


def _of_objects(array: NDArray[Any], name: str) -> Stamps:
    values = array.tolist()
    for place, value in enumerate(values):
        if value is None or (not isinstance(value, str) and _is_not_itself(value)):
            raise InvalidInputError(f"{name}: expected a time at place {place}, got {value}")
    if all(isinstance(value, str) for value in values):
        return _of_texts(values, name)
    if all(isinstance(value, (date, np.datetime64)) for value in values):
        return _of_datetimes(values, name)
    if all(isinstance(value, Real) and not isinstance(value, bool) for value in values):
        return _of_numbers(array, name)
    kinds = sorted({type(value).__name__ for value in values})
    raise InvalidInputError(f"{name}: expected {KINDS}, of one kind, got {', '.join(kinds)}")


def _is_not_itself(value: Any) -> bool:
    """Whether a value is NaN, NaT, or missing in pandas."""
    try:
        return bool(value != value)
    except TypeError:
        return True


def _of_datetimes(values: list[Any], name: str) -> Stamps:
    """Times of datetimes of Python (or pandas), dates and scalars of NumPy."""
    aware = [isinstance(value, datetime) and value.tzinfo is not None for value in values]
    if not any(aware):
        return Stamps(_nanoseconds(np.array(values, dtype="datetime64[ns]"), name))
    if not all(aware):
        _refuse_mixed(name, values[aware.index(True)], values[aware.index(False)])
    zones = {value.tzinfo for value in values}
    names = {zone_name(zone, name) for zone in zones}
    if len(names) > 1 and not all(isinstance(zone, timezone) for zone in zones):
        raise InvalidInputError(
            f"{name}: expected times in one zone, got {', '.join(sorted(names)[:5])}; convert them "
            "to one, such as UTC"
        )
    found = [(value - EPOCH) // timedelta(microseconds=1) for value in values]
    micro = np.array(found, dtype="datetime64[us]")
    return Stamps(_nanoseconds(micro, name), False, _one_zone(names), "python")


def _one_zone(names: set[str]) -> str:
    """The zone of times: their own, or UTC if they have several offsets."""
    return next(iter(names)) if len(names) == 1 else "UTC"


def _refuse_mixed(name: str, zoned: Any, plain: Any) -> None:
    raise InvalidInputError(
        f"{name}: expected a zone with all times or with none, got {str(zoned)!r:.40} and "
        f"{str(plain)!r:.40}"
    )


def _of_texts(texts: list[str], name: str) -> Stamps:
    """Times of texts by ISO 8601, each distinct one parsed once."""
    firsts: dict[str, int] = {}
    for place, text in enumerate(texts):
        firsts.setdefault(text, place)
    distinct = {text: k for k, text in enumerate(firsts)}
    found = _parsed([text.strip() for text in distinct], list(firsts.values()), name)
    places = np.array([distinct[text] for text in texts], dtype=np.int64)
    return Stamps(found.values[places], False, found.zone, found.labelled)


def _parsed(distinct: list[str], firsts: list[int], name: str) -> Stamps:
    """Times (n,) of distinct texts (n,), which come first at the places `firsts` (n,)."""
    import pyarrow as pa

    column = pa.array(distinct, pa.string())
    # Nanoseconds last: they reach fewer years. With a zone through UTC, in which times of several
    # offsets are instants all the same.
    for zone, unit in product((None, "UTC"), ("us", "ns")):
        try:
            read = column.cast(pa.timestamp(unit, tz=zone)).cast(pa.timestamp(unit))
        except pa.ArrowInvalid:
            continue
        ticks = _nanoseconds(read.to_numpy(zero_copy_only=False), name, firsts)
        if zone is None:
            return Stamps(ticks)
        return Stamps(ticks, False, _one_zone({_ending(text) for text in distinct}), "python")
    cells = zip(distinct, firsts, strict=True)
    return _of_datetimes([_datetime(text, place, name) for text, place in cells], name)


def _ending(text: str) -> str:
    """Name of the offset from UTC at the end of a text."""
    found = ENDING.search(text)
    assert found is not None
    return zone_name(zone_of_name(found[1]))


def _datetime(text: str, place: int, name: str) -> datetime:
    """A time by the rules of ISO 8601 that Arrow lacks; refuse a text that is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(
            f"{name}: expected {KINDS}, got {text!r:.60} at place {place}"
        ) from None


def _of_arrow(times: Any, name: str) -> Stamps:
    """Times of a column of Arrow or polars."""
    import pyarrow as pa

    column = times if isinstance(times, pa.ChunkedArray) else pa.chunked_array(times)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        place = column.is_null().to_pylist().index(True)
        raise InvalidInputError(f"{name}: expected a time at place {place}, got a missing value")
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(column.type):
        return _of_array(np.asarray(column.to_numpy(zero_copy_only=False)), name)
    zone = column.type.tz
    array = column.cast(pa.timestamp(column.type.unit)).to_numpy()
    if zone is None:
        return Stamps(_nanoseconds(array, name))
    return Stamps(_nanoseconds(array, name), False, zone_name(zone, name), "python")


def zone_name(zone: tzinfo | str, name: str = "times") -> str:
    """Name of a time zone: of the IANA tables, or an offset such as `"+01:00"`.

    Raises
    ------
    InvalidInputError
        The zone has neither a name in the tables nor a fixed offset.
    """
    if isinstance(zone, str):
        text = "UTC" if zone in UTC_NAMES else zone
        zone_of_name(text, name)
        return text
    for attribute in ("key", "zone"):  # of zoneinfo, of pytz
        found = getattr(zone, attribute, None)
        if isinstance(found, str):
            return "UTC" if found in UTC_NAMES else found
    offset = zone.utcoffset(None)
    if offset is None:
        raise InvalidInputError(
            f"{name}: expected a time zone with a name or a fixed offset, got {zone!r}"
        )
    return offset_name(offset)


def offset_name(offset: timedelta) -> str:
    """An offset from UTC as text, such as `"-07:00"`."""
    whole = timedelta(minutes=round(offset / timedelta(minutes=1)))
    return str(timezone(whole)).removeprefix("UTC") or "UTC"


def zone_of_name(text: str, name: str = "zone") -> tzinfo:
    """The time zone of a name or an offset.

    Raises
    ------
    InvalidInputError
        This machine's tables have no such zone.
    """
    if text in UTC_NAMES:
        return UTC
    try:
        if OFFSET.fullmatch(text):
            return datetime.fromisoformat(f"1970-01-01T00:00{text}").tzinfo or UTC
        return ZoneInfo(text)
    except (OSError, ValueError, LookupError):
        raise InvalidInputError(
            f"{name}: expected a time zone such as 'Europe/Paris', 'UTC' or '+01:00', got {text!r}"
        ) from None


def as_datetimes(nanoseconds: IntArray, zone: str) -> np.ndarray[Any, Any]:
    """Instants (n,), nanoseconds since 1970 in UTC, as datetimes of Python in a zone."""
    clock = zone_of_name(zone)
    found = np.empty(nanoseconds.size, dtype=object)
    microseconds = (nanoseconds // 1000).tolist()
    found[:] = [(EPOCH + timedelta(microseconds=k)).astimezone(clock) for k in microseconds]
    return found


def local_nanoseconds(nanoseconds: IntArray, zone: str) -> IntArray:
    """Nanoseconds since 1970 (n,) on the clocks of a zone, at instants (n,) in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    instants = pa.array(nanoseconds, pa.int64()).cast(pa.timestamp("ns", tz=zone))
    found: IntArray = pc.local_timestamp(instants).cast(pa.int64()).to_numpy()
    return found


def instants(
    nanoseconds: IntArray, zone: str, name: str = "times", nodes: IntArray | None = None
) -> IntArray:
    """Instants in UTC (n,) of readings (n,) of the clocks of a zone, both in nanoseconds.

    Of an hour that comes twice the first one is summer time, until in the order of rows a reading
    comes again or an earlier one follows.

    Raises
    ------
    InvalidInputError
        A reading does not come at all, as the clocks were set ahead.

    Warns
    -----
    UserWarning
        Readings of an hour that comes twice are there once, and taken as summer time.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    zone_of_name(zone, "zone")
    readings = pa.array(nanoseconds, pa.int64()).cast(pa.timestamp("ns"))
    try:
        first, last = (
            pc.assume_timezone(readings, zone, ambiguous=which, nonexistent="raise")
            .cast(pa.int64()).to_numpy() for which in ("earliest", "latest")
        )  # fmt: skip
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"{name}: expected times that the clocks of {zone} show, got "
            f"{' '.join(str(error).split()):.160}; give times with their offset from UTC"
        ) from None
    twice = np.flatnonzero(first != last)
    if not twice.size:
        return np.asarray(first)
    later, single = _set_back(nanoseconds, twice, nodes)
    if single:
        warn(
            f"{name}: {single} times of an hour that the clocks of {zone} show twice come once; "
            "they are taken as the first, summer time"
        )
    found: IntArray = first.copy()
    found[twice[later]] = last[twice[later]]
    return found


def _set_back(
    readings: IntArray, twice: IntArray, nodes: IntArray | None
) -> tuple[NDArray[np.bool_], int]:
    """Which of the rows `twice` (k,) are after clocks were set back, and how many of no such night.

    Rows are in order of time if readings (n,) fall only between two of those rows.
    """
    if readings[0] > readings[-1]:  # the last ones first
        later, single = _set_back(
            readings[::-1], readings.size - 1 - twice[::-1], None if nodes is None else nodes[::-1]
        )
        return later[::-1], single
    falls = np.flatnonzero(np.diff(readings) < 0)
    in_order = bool(np.isin(falls, twice).all() and np.isin(falls + 1, twice).all())
    later = np.zeros(twice.size, dtype=np.bool_)
    before: dict[tuple[int, int], int] = {}
    seen: set[tuple[int, int]] = set()
    back: set[tuple[int, int]] = set()
    nights = (readings[twice] // DAY).tolist()
    for k, (row, night) in enumerate(zip(twice.tolist(), nights, strict=True)):
        node, reading = 0 if nodes is None else int(nodes[row]), int(readings[row])
        group = (0 if in_order else node, night)
        if reading < before.get(group, reading) or (node, reading) in seen:
            back.add(group)
        before[group] = reading
        seen.add((node, reading))
        later[k] = group in back
    with_both = {night for _, night in back}
    return later, sum(night not in with_both for night in nights)


def seconds_of_day(nanoseconds: IntArray) -> FloatArray:
    """Seconds since midnight (n,) of readings of a clock (n,), in nanoseconds since 1970."""
    return np.mod(nanoseconds, DAY) / 1e9
