"""One run of tests in a copy of the repository, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

# What most tests import and takes seconds; a process starts with these in place.
PRELOADED = [
    "torch", "numba", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats",
    "sklearn.linear_model", "sklearn.model_selection", "networkx", "gpytorch", "pytest",
    "safetensors.numpy",
]  # fmt: skip
OPTIONS = [
    "-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist",
    "-m", "",  # long ones too
    # Of plugins that were imported before pytest began.
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
]  # fmt: skip


def run_tests(copy: str, tests: list[str], log: str, machine_code: str | None) -> None:
    """Run tests with the package of a copy, write their output to a log, and exit as pytest does.

    Nothing of the package, nor of the tests, may come from the tree that this process began in.
    """
    os.setsid()  # the time limit ends processes that the tests start, too
    os.chdir(copy)
    os.environ["PYTHONPATH"] = copy
    # Two faults of one file may be written within one second, and be of one size.
    sys.dont_write_bytecode = True
    if machine_code is not None:
        os.environ["NUMBA_CACHE_DIR"] = machine_code
        _numba_takes(machine_code)
    here = Path(__file__).resolve().parents[2]
    sys.path[:] = [copy, *(path for path in sys.path if path and Path(path).resolve() != here)]
    for name in [n for n in sys.modules if n.partition(".")[0] in {"tests", "coupledgp"}]:
        del sys.modules[name]
    with open(log, "w", encoding="utf-8") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            import pytest

            status = int(pytest.main([*OPTIONS, *tests]))
    os._exit(status)


def _numba_takes(folder: str) -> None:
    """Numba has read the variable when it was imported."""
    import numba

    numba.config.CACHE_DIR = folder
