"""Progress of long work: one line on stderr, only where a person watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

# Called at every step of long work, with the step in a few words.
Progress: TypeAlias = Callable[[str], None]


# Called at every step in place of a terminal, see `watched`.
_WATCH: ContextVar[Progress | None] = ContextVar("watch", default=None)


def silent(message: str) -> None:
    """Show nothing."""


@contextmanager
def watched(watch: Progress) -> Iterator[None]:
    """Call a function at every step of the work inside; an error that it raises ends the work."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


@contextmanager
def reporter(title: str, enabled: bool | None = None) -> Iterator[Progress]:
    """Yield a function that shows its argument as the state of the work named `title`.

    Parameters
    ----------
    title
        Name of the work, such as "fit".
    enabled
        True shows progress, False does not, None shows it if stderr is a terminal.
    """
    watch = _WATCH.get()
    if watch is not None:
        yield watch
        return
    from rich.console import Console  # slow to import

    console = Console(stderr=True)
    if enabled is False or not console.is_terminal:
        yield silent
        return
    with console.status(title) as status:
        yield lambda message: status.update(f"{title}: {message}")


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
