"""Time zones by name: of times of Python, pandas and Arrow, and of the clocks that people read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OFFSET = re.compile(r"[+-]\d\d(:?\d\d)?")
UTC_NAMES = ("Z", "UTC", "+00:00", "-00:00", "+0000", "+00")


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


def instants(nanoseconds: IntArray, zone: str, name: str = "times") -> IntArray:
    """Instants in UTC (n,) of readings (n,) of the clocks of a zone, both in nanoseconds.

    Raises
    ------
    InvalidInputError
        A reading comes twice, or not at all, as the clocks were set back or ahead.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    zone_of_name(zone, "zone")
    readings = pa.array(nanoseconds, pa.int64()).cast(pa.timestamp("ns"))
    try:
        zoned = pc.assume_timezone(readings, zone, ambiguous="raise", nonexistent="raise")
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"{name}: expected times that the clocks of {zone} show once, got "
            f"{' '.join(str(error).split()):.160}; give times with their offset from UTC"
        ) from None
    found: IntArray = zoned.cast(pa.int64()).to_numpy()
    return found


def seconds_of_day(nanoseconds: IntArray) -> FloatArray:
    """Seconds since midnight (n,) of readings of a clock (n,), in nanoseconds since 1970."""
    return np.mod(nanoseconds, 86_400_000_000_000) / 1e9
