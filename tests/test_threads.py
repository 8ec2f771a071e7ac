"""Same seed, same result, whatever the number of threads: each in a process of its own.

Frequencies and features are the same to the bit. Sums over rows are not: matrix products split
them by threads, so that predictions agree to rounding, and results of an optimizer less closely.
"""

import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
import trimesh
from threadpoolctl import threadpool_info, threadpool_limits

import coupledgp as cgp
from coupledgp.ground import threads as module
from coupledgp.ground.threads import FEW, numbers_of, suited_threads

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
    "optimised": {"options": {"max_iter": 2, "n_restarts": 0}},
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


@pytest.mark.long
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
    monkeypatch.setattr(module, "FEW", FEW)


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


def test_sizes_are_those_of_the_work() -> None:
    graph = nx.path_graph(30)
    mesh = trimesh.creation.icosphere(2)
    own = cgp.Graph.from_networkx(graph)
    given = (7, 10**400, [1, 2], np.zeros((3, 4)), torch.zeros(5, 2), graph, own, mesh, object())
    found = [numbers_of(one) for one in given]
    assert found == [7, np.inf, 2, 12, 5, 30, 30, len(mesh.vertices), np.inf]
