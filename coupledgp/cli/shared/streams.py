"""What commands say beside their result, and results on standard output.

Notices and steps of the work go to stderr. The result of an output `-` is written to a file that is
copied to standard output at the end, so that every format works, and nothing else is printed there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from typing import Any

from coupledgp.cli.readers.files import STDIN, own_folder
from coupledgp.cli.readers.notices import QUIET, SAID, notice
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import Progress, silent, watched

__all__ = ["DASH", "STDIN", "notice", "spoken", "standard_output"]
# The path that stands for standard input or output.
DASH = "-"
# Seconds between two lines on the steps of the work.
PAUSE = 1.0
# What a forecast of ten seconds or more says.
LONG = re.compile(r"about ([1-9]\d+ s|[\d.]+ (min|h))\b")


@contextmanager
def spoken(options: Any) -> Iterator[None]:
    """Show steps line by line in the body, or with `--quiet` nothing but JSON.

    By default long forecasts are said, and steps are shown on a terminal.
    """
    with ExitStack() as stack:
        stack.callback(SAID.clear)
        if options.spoken:
            stack.enter_context(watched(_lines()))
        elif options.spoken is not None:
            token = QUIET.set(True)
            stack.callback(QUIET.reset, token)
            stack.enter_context(watched(silent))
            if not getattr(options, "as_json", False):
                stack.enter_context(_unprinted())
        elif not sys.stderr.isatty():
            stack.enter_context(watched(_forecast))
        yield


def _forecast(message: str) -> None:
    """Say how long the work takes, if it is long."""
    if LONG.search(message):
        notice(message)


def _lines() -> Progress:
    """A function that prints at most a step a second."""
    last = [-PAUSE]

    def say(message: str) -> None:
        now = time.monotonic()
        if now - last[0] >= PAUSE:
            last[0] = now
            print(f"coupledgp: {message}", file=sys.stderr, flush=True)

    return say


@contextmanager
def _unprinted() -> Iterator[None]:
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


@contextmanager
def standard_output(options: Any) -> Iterator[Any]:
    """Yield the options with a file in place of an output `-`, and copy it when the body is done.

    Raises
    ------
    InvalidInputError
        Two outputs are standard output, JSON is asked for beside one, or a format without one.
    """
    outputs = {own.name: own.metadata["ending"] for own in options.declared()
               if own.metadata["ending"] and str(getattr(options, own.name)) == DASH}  # fmt: skip
    given = getattr(options, "format", None)
    if not outputs:
        if given is not None:
            raise InvalidInputError(
                "--format: expected --output - beside it; the ending of a path names the format"
            )
        yield options
        return
    named = [options.name_of(name) for name in outputs]
    if len(named) > 1 or getattr(options, "as_json", False):
        raise InvalidInputError(
            f"{', '.join(named)}: expected standard output once, and no --json beside it"
        )
    ((name, ending),) = outputs.items()
    if given is not None and name == "output":
        ending = f".{given.lstrip('.')}"
    path = own_folder() / f"output{ending}"
    try:
        with _unprinted():
            yield replace(options, **{name: path})
    except InvalidInputError as error:  # the file has a name that nobody gave
        text = str(error).replace("--output: expected a path ending in", "--format: expected")
        raise type(error)(text.replace(repr(str(path)), repr(given or DASH))) from error
    with path.open("rb") as file:
        sys.stdout.flush()
        shutil.copyfileobj(file, sys.stdout.buffer)
