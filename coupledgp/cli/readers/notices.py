"""Notices on stderr of what is taken for granted, such as columns that are known by their names."""

from __future__ import annotations

import sys
from contextvars import ContextVar

# Whether notices are left out.
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
# What this command has said.
SAID: set[str] = set()


def notice(text: str) -> None:
    """Print a line on stderr, once a command, unless `--quiet` asks for silence."""
    if not QUIET.get() and text not in SAID:
        SAID.add(text)
        print(f"coupledgp: {text}", file=sys.stderr, flush=True)
