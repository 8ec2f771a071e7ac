"""Compiled functions without a place for machine code, and rows that threads share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest
import torch

import coupledgp as cgp
from coupledgp.features import sample_walks
from coupledgp.ground import compiled as compiled_module
from coupledgp.ground.compiled import (
    _number_of_threads,
    compiled,
    part,
    share_rows,
    without_denormals,
)
from tests.stale_code import compiled_functions

N_NODES = 40
WALK = f"""
import numpy as np
import coupledgp as cgp
from coupledgp.features import sample_walks

graph = cgp.Graph.from_edges(np.arange({N_NODES - 1}), np.arange(1, {N_NODES}))
visits = sample_walks(graph, 4, 0.2, generator=3).visits
"""
NO_CACHE = f"""{WALK}
import numba
from coupledgp.graphs import walks as module

print(visits.nodes.sum(), visits.counts.sum(), cgp.__file__)
print(module.merge_columns.dispatcher.stats.cache_path)
try:
    numba.njit(cache=True)(module.columns_for)
except RuntimeError as error:
    print("refused:", error)
"""


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """A copy of the package whose folders take no machine code, whoever runs the test.

    Numba writes into `__pycache__` beside a source. A file of that name in every folder keeps it,
    and root too, from making the folder.
    """
    root = tmp_path / "site"
    shutil.copytree(
        Path(cgp.__file__).parent, root / "coupledgp", ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [root / "coupledgp", *(root / "coupledgp").rglob("*/")]:
        if folder.is_dir():
            (folder / "__pycache__").touch()
    return root


@pytest.mark.long
def test_walks_without_a_place_for_machine_code(installation: Path, tmp_path: Path) -> None:
    """Neither the installation nor a home can be written to: /dev/null is no folder."""
    places = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/none"}
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | places
    run = subprocess.run(
        [sys.executable, "-B", "-c", NO_CACHE],
        env=environment | {"PYTHONPATH": str(installation)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found, cache, refused = run.stdout.splitlines()
    graph = cgp.Graph.from_edges(np.arange(N_NODES - 1), np.arange(1, N_NODES))
    visits = sample_walks(graph, 4, 0.2, generator=3).visits
    path = installation / "coupledgp" / "__init__.py"
    assert found == f"{visits.nodes.sum()} {visits.counts.sum()} {path}"
    assert cache == "None"
    assert refused.startswith("refused: cannot cache function")


def misses(folder: Path) -> int:
    """Number of functions that a process compiles that keeps machine code in a folder."""
    code = f"""{WALK}
from tests.stale_code import compiled_functions
print(sum(sum(f.dispatcher.stats.cache_misses.values()) for f in compiled_functions()))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(run.stdout)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a process has left machine code."""
    folder = tmp_path_factory.mktemp("code")
    assert misses(folder) > 0
    return folder


@pytest.mark.long
def test_machine_code_is_kept_where_it_can_be(kept: Path) -> None:
    """A second process compiles nothing."""
    assert misses(kept) == 0


def test_other_errors_of_numba_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**options: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(numba, "njit", broken)
    with pytest.raises(RuntimeError, match="something else"):
        compiled(lambda x: x)(1)


def test_a_function_is_compiled_when_it_is_called() -> None:
    def refused(x):  # type: ignore[no-untyped-def]
        """No function that numba could compile."""
        return sys.modules[x]

    marked = compiled(refused)
    assert (marked.__name__, marked.__doc__) == ("refused", refused.__doc__)
    with pytest.raises(numba.core.errors.NumbaError):
        marked("sys")


@part
def _square(x):  # type: ignore[no-untyped-def]
    return x * x


@compiled
def _sum_of_squares(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in values:
        total += _square(value)
    return total


def test_parts_are_compiled_into_their_callers() -> None:
    assert _sum_of_squares(np.arange(5.0)) == 30.0
    assert _sum_of_squares.dispatcher.nopython_signatures  # type: ignore[attr-defined]
    assert _square.dispatcher.stats.cache_path is None  # type: ignore[attr-defined]


def test_many_threads_may_compile_at_once() -> None:
    found: list[float] = []

    @compiled
    def total(values):  # type: ignore[no-untyped-def]
        return values.sum()

    threads = [
        threading.Thread(target=lambda: found.append(total(np.arange(4.0)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [6.0] * 4
    assert len(total.dispatcher.signatures) == 1  # type: ignore[attr-defined]


@pytest.fixture(params=[1, 2, 4])
def n_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(compiled_module, "_number_of_threads", _number_of_threads)
    before = numba.get_num_threads()
    wanted = min(request.param, numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(wanted)
    yield wanted
    numba.set_num_threads(before)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 1000), (7, 30), (64, 64)])
def test_every_row_is_shared_out_once(n_threads: int, n_rows: int, least: int, most: int) -> None:
    seen = np.zeros(n_rows, dtype=int)
    sizes, threads = [], set()

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        threads.add(threading.get_ident())
        for first, last in blocks:
            seen[first:last] += 1
            sizes.append(last - first)

    share_rows(work, n_rows, least, most)
    assert (seen == 1).all()
    assert len(threads) <= n_threads
    assert threading.get_ident() in threads
    assert max(sizes, default=0) <= max(most, least)
    assert sum(size < least for size in sizes) <= 1  # the last block


def test_errors_of_any_thread_arrive_and_end_the_work(n_threads: int) -> None:
    done = []

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, _ in blocks:
            done.append(first)
            raise ValueError("broken block")

    with pytest.raises(ValueError, match="broken block"):
        share_rows(work, 10_000, 1, 1)
    assert len(done) <= n_threads


def test_every_compiled_function_is_found() -> None:
    """By the tests that look at all of them."""
    names = {function.__name__ for function in compiled_functions()}
    assert {"_walk_apart", "merge_columns", "uniform", "hadamard", "_search", "_sweep"} <= names


@pytest.mark.long
def test_machine_code_older_than_a_source_is_forgotten(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    code = f"""{WALK}
import os, pathlib, sys
from tests.stale_code import forget_stale_code
files = sorted(pathlib.Path(sys.argv[1]).rglob("*.nbc"))
forget_stale_code()
assert len(files) > 2 and all(file.exists() for file in files)
os.utime(files[0], (1, 1))
forget_stale_code()
assert [file.exists() for file in files] == [False] + [True] * (len(files) - 1)
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_denormals_count_as_zero_within_a_block_and_not_after_it():
    def product():
        return float(np.float64(3e-310) * np.float64(1.0))

    flushes = torch.set_flush_denormal(True)
    torch.set_flush_denormal(False)
    seen = []

    def interrupted():
        with without_denormals():
            seen.append(product())
            with without_denormals():
                pass
            seen.append(product())
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        interrupted()
    assert seen == 2 * [0.0 if flushes else 3e-310]
    assert product() == 3e-310
