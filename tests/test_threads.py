"""Same seed, same result, whatever the number of threads: each in a process of its own.

Frequencies and features are the same to the bit. Sums over rows are not: matrix products split
them by threads, so that predictions agree to rounding, and results of an optimizer less closely.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

import networkx as nx
import numpy as np
import pytest
import torch
import trimesh
from threadpoolctl import threadpool_info, threadpool_limits

import coupledgp as cgp
from coupledgp.ground import threads as module
from coupledgp.ground.threads import FEW, _one_thread, numbers_of, suited_threads

SCRIPT = """
import sys
import numpy as np
import torch

torch.set_num_threads(int(sys.argv[1]))
from coupledgp import SparseSpectrumGPRegressor
from coupledgp.couplings import available_couplings, parse_coupling
from coupledgp.features import FourierFeatures, LaplaceFeatures

result = {}
for text in available_couplings():
    dim = 2 if text.startswith("quadrature") else 20
    result[f"frequencies {text}"] = parse_coupling(text).sample(50, dim, "gaussian", 0)
result["frequencies large"] = parse_coupling("orthogonal+pnc").sample(300, 200, "matern-5/2", 0)

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 5)) / 2
y = np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=600)
for kind in (FourierFeatures, LaplaceFeatures):
    for dtype in (torch.float64, torch.float32):
        feature_map = kind(5, 257, generator=0, dtype=dtype)
        result[f"features {kind.__name__} {dtype}"] = feature_map(X).numpy()

for name, options in {
    "fixed": {"optimizer": None, "lengthscale": 1.5},
    "optimised": {"max_iter": 2, "n_restarts": 0},
}.items():
    gp = SparseSpectrumGPRegressor(n_frequencies=100, random_state=0, progress=False, **options)
    mean, std = gp.fit(X, y).predict(X[:200], return_std=True)
    result[f"mean {name}"], result[f"std {name}"] = mean, std
    result[f"sample {name}"] = gp.sample_y(X[:50], 3, random_state=0)
np.savez(sys.argv[2], **result)
"""
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(threads: int, path: Path) -> dict[str, np.ndarray]:
    """Results of the script, with a given number of threads in torch and in numpy."""
    # Threads that wait for work must not take a busy machine's cores from those that have some.
    own = {"OMP_WAIT_POLICY": "PASSIVE"} | dict.fromkeys(VARIABLES, str(threads))
    environment = os.environ | own
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(threads), str(path)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    with np.load(path) as stored:
        return dict(stored)


def test_results_do_not_depend_on_threads(tmp_path: Path) -> None:
    one, two = (run(threads, tmp_path / f"{threads}.npz") for threads in (1, 2))
    same = [name for name in one if name.startswith(("frequencies", "features"))]
    assert len(same) > 20
    for name in same:
        assert one[name].tobytes() == two[name].tobytes(), name
    for fit, tolerance in (("fixed", 1e-9), ("optimised", 1e-4)):
        for what in ("mean", "std", "sample"):
            name = f"{what} {fit}"
            scale = np.abs(one[name]).max()
            np.testing.assert_allclose(one[name], two[name], rtol=0, atol=tolerance * scale)


def words_of(script: str, variables: dict[str, str]) -> list[str]:
    """What a script prints in a process of its own, in which these variables are set."""
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=False, env=os.environ | variables,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


ON_A_GRAPH = """
import networkx as nx
import numpy as np
import torch
import coupledgp as cgp

before = torch.get_num_threads()
graph = cgp.Graph.from_networkx(nx.cycle_graph(30))
gp = cgp.GraphGPRegressor(graph, n_walks=4, exact_hops=0, optimizer=None, random_state=0)
gp.fit(np.arange(20), np.arange(20.0)).predict(np.arange(30))
print(before, torch.get_num_threads())
"""


@pytest.mark.long
def test_walks_leave_the_number_of_threads_of_torch() -> None:
    """Numba's own threads, once started, would set that of all OpenMP code to theirs.

    Two threads where one was asked for take twenty times as long as one on a busy machine.
    """
    assert words_of(ON_A_GRAPH, {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}) == ["1", "1"]


@pytest.fixture
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits as they are for users: workers of tests have one thread for good."""
    monkeypatch.setattr(module, "_one_thread", _one_thread)


def threads_of(kind: str) -> set[int]:
    """Numbers of threads of the libraries of a kind."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == kind}


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize("kind", ["blas", "openmp"])
def test_small_work_has_one_thread_and_gives_the_others_back(kind: str) -> None:
    with threadpool_limits(2):
        with suited_threads(FEW, None, np.zeros(3)):
            assert threads_of(kind) == {1}
            with suited_threads(FEW):
                assert threads_of(kind) == {1}
            assert threads_of(kind) == {1}
        assert threads_of(kind) == {2}
        with suited_threads(10, FEW + 1):
            assert threads_of(kind) == {2}


@pytest.mark.usefixtures("_limits")
def test_bodies_in_several_threads_have_one_thread_of_blas_until_the_last_ends() -> None:
    entered, leave, seen = Event(), Event(), []

    def work() -> None:
        with suited_threads(1):
            entered.set()
            leave.wait()
            seen.append((threads_of("blas"), threads_of("openmp")))

    other = Thread(target=work)
    with threadpool_limits(2):
        with suited_threads(1):
            other.start()
            entered.wait()
        assert (threads_of("blas"), threads_of("openmp")) == ({1}, {2})
        leave.set()
        other.join()
        assert seen == [({1}, {1})]
        assert (threads_of("blas"), threads_of("openmp")) == ({2}, {2})
        other = Thread(target=work)
        other.start()
        other.join()
        assert seen[1:] == [({1}, {1})]
        assert threads_of("blas") == {2}


def test_sizes_are_those_of_the_work() -> None:
    graph = nx.path_graph(30)
    mesh = trimesh.creation.icosphere(2)
    own = cgp.Graph.from_networkx(graph)
    given = (7, 10**400, [1, 2], np.zeros((3, 4)), torch.zeros(5, 2), graph, own, mesh, object())
    found = [numbers_of(one) for one in given]
    assert found == [7, np.inf, 2, 12, 5, 30, 30, len(mesh.vertices), np.inf]


TORCH_LATER = """
import sys
import numpy as np
import coupledgp as cgp
from threadpoolctl import threadpool_info, threadpool_limits

X = np.linspace(0, 1, 30)[:, None]
assert "torch" not in sys.modules
seen = []
X_seen = cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None, random_state=0)
kept = type(X_seen)._fit

def fit(self, *given, **further):
    found = kept(self, *given, **further)
    seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp")
    return found

type(X_seen)._fit = fit
X_seen.fit(X, X[:, 0])
import torch
print(set(seen), torch.get_num_threads())
"""


@pytest.mark.usefixtures("_limits")
def test_limits_that_an_interrupt_left_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt in the first entry leaves BLAS limited, until the next body ends."""
    with threadpool_limits(2):
        monkeypatch.setattr(module._BLAS, "_limits", Interrupted())
        with pytest.raises(KeyboardInterrupt), suited_threads(1):
            pass
        assert threads_of("blas") == {1}
        with suited_threads(1):
            assert threads_of("blas") == {1}
        assert threads_of("blas") == {2}


class Interrupted(ExitStack):
    """Limits whose first entry is interrupted when it is done."""

    left = 1

    def enter_context(self, cm: object) -> object:
        found = super().enter_context(cm)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return found


@pytest.mark.long
def test_a_library_that_a_fit_loads_has_one_thread_in_it() -> None:
    assert words_of(TORCH_LATER, {"OMP_NUM_THREADS": "2"}) == ["{1}", "2"]
