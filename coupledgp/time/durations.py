"""Durations: texts such as `"1h"`, `"90 s"` or `"PT15M"`, timedeltas of Python and NumPy."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError

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
