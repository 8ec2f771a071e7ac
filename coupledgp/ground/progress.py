"""Progress of long work: one line on stderr or in a notebook, where a person watches."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.util import find_spec
from typing import TypeAlias

# Called at every step of long work, with the step in a few words.
Progress: TypeAlias = Callable[[str], None]
# How a message says how long the work takes, and how many of its parts are done.
TOTAL = re.compile(r"(?:about|forecast) (\d+(?:\.\d+)?) s\b")
COUNT = re.compile(r"(\d+) of (\d+)")
# Share that a bar ends at before the work does.
MOST_DONE = 0.97
# Seconds between two plain lines, and between two states of the line of a terminal.
EVERY_SECONDS, LEAST_SECONDS = 5.0, 0.1

# Called at every step of the work inside: in place of a terminal, and as it is shown.
_WATCH: ContextVar[Progress | None] = ContextVar("watch", default=None)
_SHOWN: ContextVar[Progress | None] = ContextVar("shown", default=None)


def silent(message: str) -> None:
    """Show nothing."""


def shown() -> Progress:
    """The function that shows the state of the work that `reporter` has named."""
    return _SHOWN.get() or silent


def tell(message: str) -> None:
    """Show a message as the state of the work that `reporter` has named."""
    shown()(message)


@contextmanager
def watched(watch: Progress) -> Iterator[None]:
    """Call a function at every step of the work inside; an error that it raises ends the work."""
    token = _WATCH.set(watch)
    try:
        with _showing(watch):
            yield
    finally:
        _WATCH.reset(token)


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Begin the messages of the work inside with a text."""
    with _showing(partial(_prefixed, shown(), prefix)):
        yield


@contextmanager
def _showing(show: Progress) -> Iterator[None]:
    token = _SHOWN.set(show)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def _prefixed(show: Progress, prefix: str, message: str) -> None:
    show(prefix + message)


class TimeLeft:
    """How far work is, by what its messages say of themselves.

    `about 40 s` is the time of the whole work. `3 of 12` counts a part of it, which begins anew
    where the words beside the numbers change.
    """

    def __init__(self) -> None:
        self._start = self._part = time.monotonic()
        self._total, self._words = 0.0, ""

    def of(self, message: str) -> tuple[float | None, str]:
        """The share that is done, from 0 to 1, and in words how long the rest takes by it."""
        now = time.monotonic()
        if found := TOTAL.search(message):
            self._start, self._total = now, float(found[1])
        if self._total:
            return self._left(now - self._start, self._total)
        found = COUNT.search(message)
        words = re.sub(r"[\d.]+", "", message)
        if words != self._words:
            self._part, self._words = now, words
        if not found or int(found[2]) < 1:
            return None, ""
        done, elapsed = (int(found[1]) - 1) / int(found[2]), now - self._part
        return self._left(elapsed, elapsed / done) if done > 0 else (0.0, "")

    @staticmethod
    def _left(elapsed: float, total: float) -> tuple[float, str]:
        if elapsed >= total:
            return MOST_DONE, "longer than forecast" if elapsed > 1.2 * total else ""
        share = min(elapsed / total, MOST_DONE) if total else 0.0
        return share, f"about {duration(total - elapsed)} left"


@contextmanager
def reporter(title: str, enabled: bool | None = None) -> Iterator[Progress]:
    """Yield a function that shows its argument as the state of the work named `title`.

    A terminal, and a notebook that has ipywidgets, show one line, which says how much longer the
    work takes where messages tell, see `TimeLeft`.

    Parameters
    ----------
    title
        Name of the work, such as "fit".
    enabled
        True shows progress everywhere: where there is neither a terminal nor a notebook as lines on
        stderr, at most one in five seconds. None shows it on a terminal and in a notebook, False
        nowhere.
    """
    watch = _WATCH.get()
    with ExitStack() as stack:
        if watch is not None:
            show = watch
        else:
            show = silent if enabled is False else _display(title, enabled, stack)
        stack.enter_context(_showing(show))
        yield show


def _display(title: str, enabled: bool | None, stack: ExitStack) -> Progress:
    forecast = TimeLeft()
    if sys.stderr.isatty() or ("ipykernel" in sys.modules and find_spec("ipywidgets")):
        line = _OneLine()
        stack.callback(line.clear)
        return lambda message: line.show(_line(title, message, forecast.of(message)[1]))
    return _lines(title, forecast) if enabled else silent


class _OneLine:
    """A line of a terminal that is written again at each message."""

    def __init__(self) -> None:
        self._length, self._last = 0, -LEAST_SECONDS

    def show(self, text: str) -> None:
        if (now := time.monotonic()) - self._last >= LEAST_SECONDS:
            self._last = now
            self._write(text[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        self._write("")
        sys.stderr.write("\r")
        sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._length))
        sys.stderr.flush()
        self._length = len(text)


def _line(title: str, message: str, left: str) -> str:
    return ", ".join(filter(None, (f"{title}: {message}", left)))


def _lines(title: str, forecast: TimeLeft) -> Progress:
    """Print the first message, and then one in some seconds."""
    last = -EVERY_SECONDS

    def show(message: str) -> None:
        nonlocal last
        left, now = forecast.of(message)[1], time.monotonic()
        if now - last >= EVERY_SECONDS:
            last = now
            print(_line(title, message, left), file=sys.stderr, flush=True)

    return show


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
