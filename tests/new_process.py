"""New processes that begin with other people's libraries in place, which take seconds to import.

They are forked from a server that has imported them, and nothing of this package: what a test runs
in one finds the package, its caches and its random numbers as a new interpreter does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

LIBRARIES = [
    "numba", "numpy", "pandas", "pyarrow.parquet", "safetensors.torch",
    "scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial", "scipy.special",
    "scipy.stats", "sklearn.base", "sklearn.utils.validation", "torch", "typer",
]  # fmt: skip
COMMAND = "from coupledgp.cli import main; main()"
LONGEST = 1200.0  # seconds; the machine of a test may be slow


class Started:
    """A new process that runs code.

    Parameters
    ----------
    code
        Text of a program.
    arguments
        What it finds in `sys.argv[1:]`.
    folder
        Folder that it works in; this process's if None.
    stdout
        File that it writes to: caught if None, closed if "closed", a pipe that nobody reads if
        "unread".
    environment
        Variables that it has besides those of this process.
    """

    def __init__(
        self,
        code: str,
        *arguments: object,
        folder: Path | None = None,
        stdout: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LIBRARIES)
        self.process: ForkServerProcess = context.Process(
            target=_run,
            args=(code, [os.fspath(a) if isinstance(a, Path) else str(a) for a in arguments]),
            kwargs={
                "folder": str(folder or Path.cwd()), "scratch": self._scratch.name,
                "stdout": stdout, "environment": dict(os.environ | (environment or {})),
            },
        )  # fmt: skip
        self.process.start()

    def finished(self) -> CompletedProcess[str]:
        """Wait for the end: exit code, as of `subprocess`, and what was caught."""
        self.process.join(LONGEST)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        with self._scratch as scratch:
            out, err = (
                path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
                for path in (Path(scratch, "out"), Path(scratch, "err"))
            )
        return CompletedProcess([], self.process.exitcode or 0, out, err)


def run_new(code: str, *arguments: object, **settings: Any) -> str:
    """What code, which must succeed, writes to stdout in a new process."""
    found = Started(code, *arguments, **settings).finished()
    assert found.returncode == 0, found.stderr
    return found.stdout


def _run(
    code: str,
    arguments: list[str],
    *,
    folder: str,
    scratch: str,
    stdout: str | None,
    environment: dict[str, str],
) -> None:
    """Run code as an interpreter with `-c` does."""
    # A server that was started in the background ignores them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    sys.path[:] = ["", *(path for path in sys.path if path)]
    _descriptors(Path(scratch), stdout)
    sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
    sys.stdout = None if stdout == "closed" else open(1, "w", closefd=False)  # noqa: SIM115
    exec(compile(code, "<new process>", "exec"), {"__name__": "__main__"})


def _descriptors(scratch: Path, stdout: str | None) -> None:
    """Let the three standard streams be what was asked for."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(scratch / "err", os.O_WRONLY | os.O_CREAT), 2)
    if stdout == "closed":
        os.close(1)
    elif stdout == "unread":
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
    else:
        os.dup2(os.open(stdout or scratch / "out", os.O_WRONLY | os.O_CREAT), 1)
