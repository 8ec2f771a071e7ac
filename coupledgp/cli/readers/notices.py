"""Notices on stderr of what is taken for granted, such as columns that are known by their names."""

from __future__ import annotations

import sys
from contextvars import ContextVar

from coupledgp.ground.progress import duration

# Whether notices are left out.
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
# Expected seconds of work that is announced.
LONG_SECONDS = 10.0
# What this command has said.
SAID: set[str] = set()


def notice(text: str) -> None:
    """Print a line on stderr, once a command, unless `--quiet` asks for silence."""
    if not QUIET.get() and text not in SAID:
        SAID.add(text)
        print(f"coupledgp: {text}", file=sys.stderr, flush=True)


def announce(work: str, seconds: float, hint: str = "") -> None:
    """Say before long work how many seconds of one core it is expected to take."""
    if seconds >= LONG_SECONDS:
        notice(f"{work}: about {duration(seconds)} of one core{hint}")
