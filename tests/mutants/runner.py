"""Faults are put into a copy of the repository, one by one, and their tests are run."""

from __future__ import annotations

import multiprocessing
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.faults import ROOT, Fault
from tests.mutants.trial import PRELOADED, run_tests

CAUGHT, SURVIVED, BROKEN, TOO_LONG = "caught", "SURVIVED", "BROKEN", "TOO LONG"
# pytest's exit codes: all passed, some failed; others mean that tests could not be collected.
OUTCOMES = {0: SURVIVED, 1: CAUGHT}
COMPILED = ("coupledgp.ground.compiled", "coupledgp/couplings/walkers/")


@dataclass(frozen=True)
class Verdict:
    """What became of one fault: the outcome, the seconds and the end of pytest's output."""

    fault: Fault
    outcome: str
    seconds: float
    output: str


class Copy:
    """A copy of the repository's files whose package may be broken.

    Parameters
    ----------
    folder
        An empty folder, or one that was a copy before: machine code in it stays valid.
    root
        The repository.
    """

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        wanted = set(_files(root))
        for path in wanted:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, target)
        for path in folder.rglob("*.py"):
            if path.relative_to(folder) not in wanted:
                path.unlink()

    @contextmanager
    def broken_by(self, fault: Fault) -> Iterator[bool]:
        """Put a fault in; the result says whether compiled code may depend on it.

        Raises
        ------
        StaleFaultError
            If the fault's text is not in its file exactly once.
        """
        path = self.folder / fault.file
        content, before = path.read_bytes(), path.stat()
        text = content.decode("utf-8")
        path.write_bytes(fault.applied(text).encode("utf-8"))
        # No two contents of a file share a time, or Python would take the older one's byte code.
        os.utime(path, ns=(before.st_atime_ns, time.time_ns()))
        try:
            yield any(mark in text or mark in fault.file for mark in COMPILED)
        finally:
            path.write_bytes(content)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            for code in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
                code.unlink()

    def outcome(self, tests: Sequence[str], limit: float, afresh: bool) -> tuple[str, str]:
        """Outcome of tests, ended after a number of seconds, and what they printed.

        With `afresh`, numba compiles into a folder of its own: nothing that was compiled before is
        used, and nothing that is compiled now is used later.
        """
        with tempfile.TemporaryDirectory() as scratch:
            log = Path(scratch, "log")
            code = scratch if afresh else None
            context = multiprocessing.get_context("forkserver")
            process = context.Process(
                target=run_tests, args=(str(self.folder), list(tests), str(log), code)
            )
            process.start()
            process.join(limit)
            late = process.exitcode is None
            if late and process.pid is not None:
                with suppress(ProcessLookupError):  # it has no group of its own yet
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.join()
            output = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            name = TOO_LONG if late else OUTCOMES.get(process.exitcode or 0, BROKEN)
            return name, output


def judge(copy: Copy, fault: Fault, limit: float, tests: Sequence[str] = ()) -> Verdict:
    """Run the tests that a fault names, or others, with the fault in a copy."""
    started = time.monotonic()
    with copy.broken_by(fault) as afresh:
        outcome, output = copy.outcome(tests or fault.tests, limit, afresh)
    return Verdict(fault, outcome, time.monotonic() - started, output)


def judge_all(
    faults: Sequence[Fault],
    jobs: int,
    limit: float,
    folder: Path,
    *,
    root: Path = ROOT,
    tests: Sequence[str] = (),
) -> Iterator[Verdict]:
    """Verdicts in the order of the faults, by several processes with a copy each.

    Parameters
    ----------
    faults
        The faults.
    jobs
        Number of copies, and of processes that run tests at the same time.
    limit
        Seconds that the tests of one fault may take.
    folder
        Where the copies go.
    root
        The repository.
    tests
        Tests to run in place of those that the faults name.

    `prepare` comes first.
    """
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for job in range(jobs):
        copies.put(Copy(folder / f"copy{job}", root))

    def work(fault: Fault) -> Verdict:
        copy = copies.get()
        try:
            return judge(copy, fault, limit, tests)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(work, faults)


def prepare(bare: bool = False) -> None:
    """Set what libraries read when they are imported, and import them once for all processes.

    With `bare` each process imports what it needs itself.
    """
    os.environ.setdefault("SCIPY_ARRAY_API", "1")
    os.environ.setdefault("NUMBA_NUM_THREADS", "4")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    multiprocessing.get_context("forkserver").set_forkserver_preload([] if bare else PRELOADED)


def _files(root: Path) -> list[Path]:
    """Files of a repository that git knows, or would add; every file where there is no git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode()
        paths = [Path(name) for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path.relative_to(root) for path in root.rglob("*")]
    return [path for path in paths if (root / path).is_file()]
