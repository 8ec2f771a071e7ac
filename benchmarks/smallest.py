"""Every script of the benchmarks in its smallest run, each in a process of its own.

    python -m benchmarks.smallest                 all of them, two at a time
    python -m benchmarks.smallest walk_errors     those whose name contains a text

The table of arguments is `smallest.toml` beside this file. The exit status is the number of scripts
that failed; the end of their output is printed. `COUPLEDGP_DATA` names the folder of the data.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

FOLDER = Path(__file__).parent
LIMIT = 300.0  # seconds of one script


class Run(NamedTuple):
    """One script's end: seconds it took, and the end of its output where it failed."""

    script: str
    seconds: float
    fault: str


def table(name: str) -> dict[str, str]:
    """A table of `smallest.toml`, by the paths of scripts below `benchmarks/`."""
    with open(FOLDER / "smallest.toml", "rb") as file:
        return tomllib.load(file)[name]


def is_there(need: str) -> bool:
    """Whether this machine has what a script needs, a module or `cuda`."""
    return torch.cuda.is_available() if need == "cuda" else find_spec(need) is not None


def scripts() -> list[str]:
    """Paths of all scripts, those that can be started, below `benchmarks/`."""
    own = Path(__file__)
    found = [p for p in FOLDER.rglob("*.py") if '"__main__"' in p.read_text("utf-8") and p != own]
    return sorted(p.relative_to(FOLDER).as_posix() for p in found)


def run(script: str, options: str) -> Run:
    """Run a script in the repository's root, by path or as a module as its docstring says."""
    with tempfile.TemporaryDirectory() as folder:
        given = shlex.split(options.format(folder=folder))
        own = FOLDER / script
        module = ".".join(Path("benchmarks", script.removesuffix("/__main__.py")).parts)
        as_module = f"python -m {module.removesuffix('.py')}" in own.read_text("utf-8")
        how = ["-m", module.removesuffix(".py")] if as_module else [str(own)]
        start = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, *how, *given], cwd=FOLDER.parent, env=os.environ, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, check=False,
            )  # fmt: skip
            fault = done.stdout[-1500:] if done.returncode else ""
        except subprocess.TimeoutExpired:
            fault = f"took longer than {LIMIT:g} s"
        return Run(script, time.monotonic() - start, fault)


def main() -> int:
    """Run the scripts that were asked for; the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="texts, one of which the script's path contains")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    given = {
        script: text
        for script, text in table("arguments").items()
        if not options.names or any(name in script for name in options.names)
    }
    if not os.environ.get("COUPLEDGP_DATA"):
        parser.error("COUPLEDGP_DATA: expected the folder of the data, got nothing")
    for script, need in table("needs").items():
        if script in given and not is_there(need):
            del given[script]
            print(f"left out: {script} needs {need}")
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(run, given, given.values()):
            print(f"{done.seconds:6.1f} s  {'FAILED' if done.fault else 'ok':6}  {done.script}")
            if done.fault:
                failed += 1
                print("    " + done.fault.strip().replace("\n", "\n    "), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
