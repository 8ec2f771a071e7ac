"""Times, durations, errors and terms in words that a reader of a page understands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from coupledgp.diagnostics.space_time.record import (
    AHEAD,
    GAPS,
    HIDDEN,
    SCATTERED,
    KindScore,
)
from coupledgp.random import FloatArray
from coupledgp.time.axis import TimeAxis

MINUTE, HOUR, DAY, WEEK = 60.0, 3600.0, 86_400.0, 604_800.0
# Words of a day and a month, which `strftime` would take from the language of the machine.
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PLACES = {
    GAPS: "in gaps",
    SCATTERED: "at single missing values",
    HIDDEN: "at hidden sensors",
    AHEAD: "ahead",
}


def stamps(axis: TimeAxis, numbers: FloatArray) -> list[datetime] | None:
    """The local times of numbers of an axis; None where times are numbers."""
    if axis.origin is None:
        return None
    labels = axis.labels(numbers)
    if isinstance(labels, np.ndarray) and labels.dtype.kind == "M":
        return labels.astype("datetime64[us]").tolist()
    return list(labels)


def time_texts(axis: TimeAxis, numbers: FloatArray, separator: str = " ") -> list[str]:
    """Texts of times: `Mon 5 Mar 2012 08:00`, or plain numbers.

    Hours are left out where all times are midnights, seconds where all are whole minutes.
    """
    found = stamps(axis, numbers)
    if found is None:
        return [f"{value:.6g}" for value in numbers.tolist()]
    dates = [f"{DAYS[t.weekday()]} {t.day} {MONTHS[t.month - 1]} {t.year}" for t in found]
    if all((t.hour, t.minute, t.second) == (0, 0, 0) for t in found):
        return dates
    form = "%H:%M" if all(t.second == 0 for t in found) else "%H:%M:%S"
    return [f"{date}{separator}{t.strftime(form)}" for date, t in zip(dates, found, strict=True)]


def duration_words(value: float, axis: TimeAxis) -> str:
    """A duration of the axis in the unit that suits it: `45 minutes`, `2.5 hours`, `12 units`."""
    if axis.origin is None:
        return f"{figure(value)} {'unit' if value == 1 else 'units'} of time"
    for size, name in ((WEEK, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        # A day and a half is 36 hours.
        if value >= (2 * size if name in ("day", "week") else 0.999 * size):
            return _counted(value / size, name)
    return _counted(value, "second")


def _counted(value: float, name: str) -> str:
    text = figure(value)
    return f"{text} {name}" if text == "1" else f"{text} {name}s"


def figure(value: float | None) -> str:
    """A number with three digits, in full where it is not extreme; nothing for None."""
    if value is None or np.isnan(value):
        return ""
    if 1e3 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{float(f'{value:.3g}'):.10g}"


def cell(value: float | None) -> str:
    """A number of a table, with three digits even where they are zeros; nothing for None."""
    if value is None or np.isnan(value):
        return ""
    return f"{value:#.3g}" if 0.01 <= abs(value) < 100 else figure(value)


def with_unit(value: float, unit: str) -> str:
    """A number of three digits and its unit, if there is one."""
    return f"{cell(value)} {unit}".strip()


def share_words(share: float) -> str:
    """A share in per cent, with a decimal below ten, on one line."""
    text = f"{100 * share:.1f}" if 0 < share < 0.0995 else f"{100 * share:.0f}"
    return f"{text}\N{NO-BREAK SPACE}%"


def ahead_words(steps: int, axis: TimeAxis) -> str:
    """How far ahead a number of steps is: `15 minutes ahead`."""
    if axis.origin is None or axis.step is None:
        return f"{_counted(float(steps), 'step')} ahead"
    return f"{duration_words(steps * axis.step, axis)} ahead"


def kind_words(one: KindScore, axis: TimeAxis) -> str:
    """Where a score was taken: `in gaps`, `at hidden sensors`, `15 minutes ahead`."""
    if one.kind == AHEAD:
        return PLACES[AHEAD] if one.ahead is None else ahead_words(one.ahead, axis)
    return PLACES.get(one.kind, one.kind)


def joined(parts: Sequence[str]) -> str:
    """Parts of a sentence: `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def zone_sentence(axis: TimeAxis) -> str:
    """In which zone the times of the page are."""
    if axis.origin is None:
        return "Times are numbers as they were given."
    return f"Times are those of {axis.zone}." if axis.zone else "Times are as they were given."


def ordinal(number: int) -> str:
    """A number as one of a sequence: 2nd, 3rd, 11th."""
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def signed(value: float) -> str:
    """A number of three digits with its sign."""
    return f"+{cell(value)}" if value > 0 else cell(value).replace("-", "\N{MINUS SIGN}")
