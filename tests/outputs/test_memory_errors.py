"""Memory that ends in the middle of a fit: one class of errors, and the model as it was before."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import MemoryLimitError
from tests.models.test_atomic import Calls, first, more, nodes, other, sparse, told
from tests.new_process import Started, run_new

TORCH = RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.")
COMPUTING = ("/inference/", "/features/", "/gp/", "/kernels/")
CASES = {
    "sparse": lambda: first(sparse(optimizer=None)),
    "exact": lambda: first(cgp.ExactGPRegressor(optimizer=None)),
    "local": lambda: first(cgp.LocalGPRegressor("matern-3/2", 2, random_state=0)),
    "graph": lambda: first(nodes(exact_hops=1, n_walks=4)),
    "exact graph": lambda: first(nodes(cgp.ExactGraphGPRegressor)),
}


class Exhausted(Calls):
    """Calls of which one finds no memory."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(place)
        self.error = lambda _: error  # type: ignore[assignment]


def outcome(model: Any, step: Any, calls: Calls) -> Exception | None:
    """The error of a step whose calls are counted, if there is one."""
    sys.setprofile(calls)
    try:
        step(model)
    except Exception as error:
        return error
    finally:
        sys.setprofile(None)
    return None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("step", [other, more])
def test_no_memory_leaves_the_model_as_it_was(name, step, tmp_path):
    model = CASES[name]()
    before, counted = told(model, tmp_path), Calls()
    assert outcome(copy.copy(model), step, counted) is None
    computing = [k for k, file in enumerate(counted.files) if any(c in file for c in COMPUTING)]
    places = np.random.default_rng(5).choice(computing, 6)
    tried = 0
    for number, place in enumerate(places.tolist()):
        attempt = copy.copy(model)
        error = TORCH if number % 2 else MemoryError("Unable to allocate 8 GiB")
        found = outcome(attempt, step, Exhausted(place, error))
        if found is None:  # a later run takes fewer calls
            continue
        tried += 1
        assert isinstance(found, MemoryLimitError), (place, counted.files[place], found)
        assert str(error) in str(found)
        assert told(attempt, tmp_path) == before
    assert tried >= 1


UNDER_A_LIMIT = """
import resource, warnings
import numpy as np, torch
import coupledgp as cgp
from coupledgp.ground import memory
from coupledgp.errors import MemoryLimitError

torch.set_num_threads(1)
rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 8))
y = np.sin(X[:, 0])
models = [
    cgp.ExactGPRegressor(optimizer=None),
    cgp.SparseSpectrumGPRegressor(n_frequencies=4000, optimizer=None, random_state=0),
]
small = [copied.fit(X[:100], y[:100]) if k == 0 else None for k, copied in enumerate(models)]
models[1].set_params(n_frequencies=50).fit(X[:100], y[:100])
before = [model.predict(X[:50]) for model in models]
models[1].set_params(n_frequencies=4000)
free = memory.available_bytes
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 80 * 2**20, resource.RLIM_INFINITY))
for available in (free, lambda *_: float("inf")):  # refused beforehand, and in the middle
    memory.available_bytes = available
    for model, law in zip(models, before):
        for step in (model.fit, model.partial_fit):
            if step == model.partial_fit and model is models[1]:
                continue
            try:
                step(X, y)
                print("fitted")
            except MemoryLimitError as error:
                print(str(error).split(":")[0])
            assert (model.predict(X[:50]) == law).all()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
memory.available_bytes = free
models[0].fit(X[:1500], y[:1500])
print("free again")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_real_limit():
    lines = run_new(UNDER_A_LIMIT).splitlines()
    assert lines[-1] == "free again"
    assert "fitted" not in lines
    assert len(lines) == 7


LIMITED = """
import os, resource, sys
import numpy as np, torch, pandas
import coupledgp.models, coupledgp.cli.commands.table_tasks, coupledgp.cli.show.table
from coupledgp.ground import compiled, memory
from coupledgp.cli import run

# The C library ends a process that has no memory left for a thread, and LLVM one without any for
# machine code, which a first fit loads.
compiled._number_of_threads = lambda: 1
torch.set_num_threads(1)
memory.available_bytes = lambda *_: float("inf")
X = np.random.default_rng(0).normal(size=(3000, 3))
np.savetxt("d.csv", np.c_[X, X[:, 0]], delimiter=",", header="a,b,c,y", comments="")
open("few.csv", "w").writelines(open("d.csv").readlines()[:60])
run("fit few.csv -t y --model exact --holdout 0 -o few.model --quiet".split())
os.remove("few.csv"), os.remove("few.model")
open("m.model", "w").write("old")
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100 * 2**20, resource.RLIM_INFINITY))
code = run("fit d.csv -t y --model exact --holdout 0 -o m.model --quiet".split())
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_line_says_so_in_one_line(tmp_path):
    found = Started(LIMITED, folder=tmp_path).finished()
    lines = found.stderr.splitlines()
    assert (found.returncode, len(lines)) == (2, 1), found.stderr
    assert lines[0].startswith("coupledgp: error: not enough memory: ")
    assert (tmp_path / "m.model").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.csv", "m.model"]
