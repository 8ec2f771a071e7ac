"""The first lines of the command line: Ctrl-C may come before anything is imported."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from coupledgp.errors import MissingLibraryError
from coupledgp.ground.extras import named_extras

INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process.

    Examples
    --------
    >>> import subprocess, sys
    >>> code = "from coupledgp.cli import main; main()"  # as the command `coupledgp` does
    >>> done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True)
    >>> done.returncode, done.stdout.split()[0]
    (0, b'coupledgp')
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from coupledgp.cli.process import no_more_signals, open_streams, watch_signals

    open_streams()
    watch_signals(_interrupted)
    try:
        with named_extras():
            from coupledgp.cli.app import run  # slow to import

            code = run()
    except MissingLibraryError as error:
        code = 2
        print(f"coupledgp: {error}", file=sys.stderr)
    no_more_signals()
    sys.exit(code)


def _interrupted(number: int, frame: Any) -> None:
    os.write(2, b"coupledgp: interrupted\n")
    os._exit(INTERRUPTED)
