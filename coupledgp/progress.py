"""Progress of long work: one line on stderr, only where a person watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def reporter(title: str, enabled: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows its argument as the state of the work named `title`.

    Parameters
    ----------
    title
        What is going on, as in "fit".
    enabled
        True shows progress, False does not, None shows it if stderr is a terminal.
    """
    console = Console(stderr=True)
    if enabled is False or not console.is_terminal:
        yield lambda message: None
        return
    with console.status(title) as status:
        yield lambda message: status.update(f"{title}: {message}")
