"""Signals as a shell hands them on: a suite under `nohup` or in the background ignores some."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

NAMES = ("SIGHUP", "SIGINT", "SIGQUIT")


@pytest.fixture(autouse=True)
def signals_that_are_not_ignored() -> Iterator[None]:
    """Give children of the tests the usual handling; they keep what their parent ignores."""
    ignored = [
        number
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name))
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
