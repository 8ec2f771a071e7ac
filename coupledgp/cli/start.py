"""The first lines of the command line: Ctrl-C may come before anything is imported."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from coupledgp.cli.process import no_more_signals, open_streams, watch_signals

    open_streams()
    watch_signals(_interrupted)
    from coupledgp.cli.app import run  # slow to import

    code = run()
    no_more_signals()
    sys.exit(code)


def _interrupted(number: int, frame: Any) -> None:
    os.write(2, b"coupledgp: interrupted\n")
    os._exit(INTERRUPTED)
