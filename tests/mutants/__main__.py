"""Run the tests against every fault: `python -m tests.mutants`, or `make mutants`."""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.faults import Fault, StaleFaultError, all_faults
from tests.mutants.runner import CAUGHT, SURVIVED, Copy, judge_all, prepare


def main(arguments: list[str] | None = None) -> int:
    """Print one line for each fault, and return 0 if all were caught, else 1."""
    options = parser().parse_args(arguments)
    faults = [f for f in all_faults(options.faults) if not options.only or wanted(f, options.only)]
    if not faults:
        print(f"--only: expected parts of names of faults, got {' '.join(options.only or [])}")
        return 1
    try:
        for fault in faults:
            fault.applied((options.root / fault.file).read_text(encoding="utf-8"))
    except (StaleFaultError, OSError) as error:
        print(error)
        return 1
    started = time.monotonic()
    prepare(options.bare)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folder = options.folder or Path(scratch)
        if not options.unchecked and not pass_without_faults(faults, folder, options):
            return 1
        missed = run(faults, folder, options)
    minutes = (time.monotonic() - started) / 60
    print(f"{len(faults)} faults, {len(missed)} not caught, {minutes:.1f} minutes")
    print("".join(f"  {name}\n" for name in missed), end="")
    return min(len(missed), 1)


def pass_without_faults(faults: list[Fault], folder: Path, options: argparse.Namespace) -> bool:
    """Whether the tests pass as long as nothing is broken: else their failures say nothing."""
    tests = options.tests or sorted({test for fault in faults for test in fault.tests})
    copy = Copy(folder / "copy0", options.root)
    outcome, output = copy.outcome(tests, limit=max(3600.0, options.limit), afresh=False)
    if outcome == SURVIVED:
        return True
    print(f"the tests do not pass without a fault:\n{output}")
    return False


def run(faults: list[Fault], folder: Path, options: argparse.Namespace) -> list[str]:
    """Judge every fault, and return the names of those that no test caught."""
    missed = []
    verdicts = judge_all(
        faults, options.jobs, options.limit, folder, root=options.root, tests=options.tests
    )
    for verdict in verdicts:
        print(f"{verdict.outcome:9} {verdict.seconds:6.1f} s  {verdict.fault.name}", flush=True)
        if verdict.outcome != CAUGHT:
            missed.append(verdict.fault.name)
        if verdict.outcome not in (CAUGHT, SURVIVED) or options.verbose:
            print(verdict.output[-2000:])
    return missed


def wanted(fault: Fault, patterns: list[str]) -> bool:
    """Whether a pattern is a part of a fault's name, or fits it."""
    return any(p in fault.name or fnmatch.fnmatch(fault.name, p) for p in patterns)


def parser() -> argparse.ArgumentParser:
    """Options of the command."""
    made = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    made.add_argument("--jobs", type=int, default=2, help="copies that run tests side by side")
    made.add_argument("--limit", type=float, default=300.0, help="seconds for one fault's tests")
    made.add_argument("--only", nargs="+", help="parts of names, or patterns such as 'bounds/*'")
    made.add_argument("--tests", nargs="+", default=(), help="tests in place of the named ones")
    made.add_argument("--unchecked", action="store_true", help="do not run the tests alone first")
    made.add_argument("--bare", action="store_true", help="import no libraries beforehand")
    made.add_argument("--verbose", action="store_true", help="print what pytest printed")
    made.add_argument("--folder", type=Path, help="where copies are kept after the run")
    made.add_argument("--faults", type=Path, default=Path(__file__).with_name("faults"))
    made.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    return made


if __name__ == "__main__":
    sys.exit(main())
