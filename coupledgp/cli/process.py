"""Streams and signals of the command line's process.

The exit code is 130 after Ctrl-C, 143 after SIGTERM and 129 after SIGHUP, with one line on stderr
and without temporary files, at any time: signals do not raise exceptions, which libraries might
swallow, but end the process. Where whoever reads the output has left, as `head` does, it is 141 as
after SIGPIPE, and nothing is said.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from coupledgp.ground.output import discard_all

STDOUT = "standard output"
# Signals that end a process.
ENDING = tuple(getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n))
# Seconds that compiled code has to return to Python before the process ends without waiting for it.
GRACE = 1.0
_ending = threading.RLock()


def open_streams() -> None:
    """Make standard streams that encode any text, and whose errors name them.

    Descriptors that were closed are opened, as the next file would get their numbers otherwise:
    writing to such an output is an error, as writing to a full disk is. Errors of stderr are
    passed over, since there is nowhere to tell them.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)
    if os.name != "posix":
        return
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = _stream(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _stream(_Errors(2, "w", closefd=False), sys.stderr)


def watch_signals(early: Callable[..., None]) -> None:
    """Let SIGINT, SIGTERM and SIGHUP end the process, except for signals that are ignored already.

    Parameters
    ----------
    early
        Handler of SIGINT that was set while modules were imported.
    """
    usual = (signal.SIG_DFL, signal.default_int_handler, early)
    for number in (signal.SIGINT, *ENDING):
        if signal.getsignal(number) in usual:
            signal.signal(number, _end)
    # Python calls handlers between its own instructions, which compiled code may keep it from.
    receiving, sending = os.pipe()
    os.set_blocking(sending, False)
    signal.set_wakeup_fd(sending, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(receiving,), daemon=True).start()


def _watch(receiving: int) -> None:
    while True:
        for number in os.read(receiving, 1):
            if number in (signal.SIGINT, *ENDING) and signal.getsignal(number) is _end:
                time.sleep(GRACE)
                _end(number, None)


def _end(number: int, frame: Any) -> None:
    """End the process from the first thread that calls.

    Others wait: work that went on without its temporary files would end with an error of its own.
    """
    _ending.acquire()
    discard_all()
    reason = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    # Over the line of progress, whose cursor was hidden.
    start = "\r\x1b[2K\x1b[?25h" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{start}coupledgp: {reason}\n".encode())
    os._exit(128 + number)


class StreamError(OSError):
    """An error of a standard stream, without the number for which libraries end the process."""


class ReaderLeftError(StreamError):
    """Nobody reads standard output any more."""


class _Output(io.FileIO):
    """Standard output, whose errors name it. After an error it takes everything and keeps none."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content) or 0
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            kind = ReaderLeftError if isinstance(error, BrokenPipeError) else StreamError
            raise kind(f"{STDOUT}: {error.strerror}") from None


class _Errors(io.FileIO):
    """Standard error, which ignores errors of writing to it."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content) or 0
        except OSError:
            return len(content)


def _stream(raw: io.FileIO, old: TextIO | None) -> TextIO:
    """A stream of text in the old one's encoding; characters that it lacks become escapes."""
    encoding = "utf-8" if old is None else old.encoding
    lines = raw.isatty() or raw.fileno() == 2
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding, errors="backslashreplace", line_buffering=lines)


def no_more_signals() -> None:
    """Restore the signals, and ignore Ctrl-C: the work is done and its result printed."""
    for number in ENDING:
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
