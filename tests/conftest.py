"""Fixtures for all tests, and settings that numerical libraries read when they are imported."""

import gc
import os
import re
import sys
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# scikit-learn's check_estimator looks at it, and scipy reads it once, when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# Read when numba is first imported: lets tests ask for 4 threads on a smaller machine.
os.environ.setdefault("NUMBA_NUM_THREADS", "4")
# Threads of processes that parallel workers start would fight over the cores.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Processes that tests start import the package: without byte code each compiles it from source.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import numpy as np
import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from coupledgp.diagnostics.rivals import processes
from coupledgp.ground import compiled, threads
from coupledgp.tables import expression_members
from coupledgp.tables.local_search import Round
from tests.stale_code import forget_stale_code

sys.dont_write_bytecode = False  # as the variable would have it
forget_stale_code()

SEED_VARIABLE = "COUPLEDGP_TEST_SEED"
DEFAULT_SEED = "20250"

# With a seed of one's own, hypothesis looks for new examples too.
settings.register_profile(
    "coupledgp",
    deadline=None,
    database=None,
    max_examples=40,
    derandomize=SEED_VARIABLE not in os.environ,
)
settings.load_profile("coupledgp")


def _seeds() -> list[int]:
    """Seeds for the statistical tests, written as `7`, `1,2,3` or `0-4` in the variable."""
    text = os.environ.get(SEED_VARIABLE, DEFAULT_SEED)
    seeds = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


@pytest.fixture(params=_seeds())
def seed(request: pytest.FixtureRequest) -> int:
    """Seed for a statistical test, which must hold for any other seed as well."""
    return int(request.param)


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> np.random.Generator:
    """Generator with a separate stream for each test and each seed."""
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.encode())])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker neighbouring tests: models that tests share are then fitted once."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


# Benchmarks, fuzz, hostile files, magnitudes, wheels, clusters, other processors, scikit-learn's
# checks, long simulations and the examples of the docs: `make long`.
LONG = (
    "tests/test_processors.py", "tests/test_reproductions.py",
    "tests/test_memory.py", "tests/test_wheel.py",
    "tests/test_readme.py::test_code_blocks_of_the_docs_run_in_order",
    "tests/outputs/",
    "tests/test_odd_arguments.py",
    "tests/dask/", "tests/core/test_estimator_checks.py", "tests/tables/test_table_encoder.py",
    "tests/graphs/test_averaged_graphs.py", "tests/graphs/test_choose_graph.py",
    "tests/tables/test_classifier.py::test_scikit_learns_checks",
    "tests/features/test_estimates.py", "tests/test_theory_simulation.py",
)  # fmt: skip


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that a run leaves out and names as deselected."""
    if item.nodeid.startswith(LONG):
        item.add_marker("long")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are all long, and those of torch where it is not installed.

    Imports of the former, dask among them, would take seconds in each worker.
    """
    path = collection_path.as_posix()
    if config.option.markexpr == "not long" and any(f"/{each}" in f"{path}/" for each in LONG):
        return True
    if find_spec("torch") is None and collection_path.suffix == ".py":  # as in `make light`
        text = collection_path.read_text(encoding="utf-8")
        return bool(re.search(r"^(import|from) (torch|gpytorch)", text, re.MULTILINE)) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import modules and make tests, none of which becomes garbage, without its collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over modules and tests, which are there for good.

    At its usual rate it takes a fifteenth of the time: libraries that draw make many objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def _few_steps_of_additive_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let additive members of the front door search on few rows: their own tests search more."""
    monkeypatch.setattr(expression_members, "EXPRESSION_MEMBER_ROUNDS", (Round(96, 8),))


@pytest.fixture(autouse=True)
def _few_trees_of_rivals(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rivals that stand beside a model in reports be small: their own tests fit large ones."""
    if not re.search("/rivals/|test_golden", request.node.nodeid):
        monkeypatch.setattr(processes, "FOLDS", 2)
        monkeypatch.setattr(processes, "TREES", 6)


@pytest.fixture(autouse=True, scope="session")
def _one_thread_a_worker() -> Iterator[None]:
    """Keep parallel test workers from fighting over the cores.

    Blocks of rows that threads would share are many and small in tests, so that threads cost more
    than they compute: tests of threads ask for some. Libraries have one thread for good, which
    each fit would ask them for again.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    if find_spec("torch") is not None:  # `make light` runs without it
        import torch

        torch.set_num_threads(1)
    with threadpool_limits(1), pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_number_of_threads", lambda: 1)
        patch.setattr(threads, "FEW", -1)
        yield
