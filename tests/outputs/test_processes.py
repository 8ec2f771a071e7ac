"""Pooled processes, and threads that share a model."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import coupledgp as cgp
from coupledgp.features import sample_walks

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)


def model(**parameters: Any) -> Any:
    settings = {"n_frequencies": 16, "optimizer": None, "random_state": 0, "progress": False}
    return cgp.SparseSpectrumGPRegressor(**(settings | parameters))


def predicted(seed: int) -> np.ndarray:
    """Predictions of a fit, for pools."""
    return model(random_state=seed).fit(X, Y).predict(X[:5])


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_pools_of_processes(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this system")
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.map_async(predicted, [0, 1]).get(timeout=300)
    for seed in (0, 1):
        np.testing.assert_allclose(found[seed], predicted(seed), rtol=1e-9)


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_cross_validation_in_parallel(backend):
    alone = cross_val_score(model(), X, Y, cv=3)
    with joblib.parallel_config(backend, n_jobs=2):
        found = cross_val_score(model(), X, Y, cv=3)
    np.testing.assert_allclose(found, alone, rtol=1e-8)


def test_a_search_over_a_grid_in_parallel():
    grid = {"lengthscale": [0.5, 2.0]}
    alone = GridSearchCV(model(), grid, cv=2).fit(X, Y)
    found = GridSearchCV(model(), grid, cv=2, n_jobs=2).fit(X, Y)
    assert found.best_params_ == alone.best_params_
    np.testing.assert_allclose(found.predict(X[:9]), alone.predict(X[:9]), rtol=1e-8)


NODES = np.arange(0, 60, 2)
GRAPH = cgp.Graph.from_edges(np.arange(59), np.arange(1, 60))
KINDS = {
    "sparse": lambda: model(),
    "exact": lambda: cgp.ExactGPRegressor(optimizer=None),
    "local": lambda: cgp.LocalGPRegressor("matern-3/2", 5, random_state=0),
    "graph": lambda: cgp.GraphGPRegressor(
        GRAPH, kernel="heat", optimizer=None, n_walks=8, method="walks", random_state=0
    ),
}


def observed(name: str) -> tuple[Any, Any, Any]:
    """Places and values of a fit, and places of predictions."""
    if name == "graph":
        return NODES, np.sin(NODES / 9), np.arange(60)
    return X, Y, X[:40] + 0.1


@pytest.mark.parametrize("name", KINDS)
def test_predictions_of_several_threads_are_those_of_one(name):
    """To the bit, from one model that is shared, and that nobody has asked before."""
    places, values, new = observed(name)
    one = KINDS[name]().fit(places, values).predict(new, return_std=True)
    shared, barrier = KINDS[name]().fit(places, values), threading.Barrier(4)

    def ask(_: int) -> list[Any]:
        barrier.wait()
        return [shared.predict(new, return_std=True) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        for answers in pool.map(ask, range(4)):
            for mean, std in answers:
                assert mean.tobytes() == one[0].tobytes()
                assert std.tobytes() == one[1].tobytes()


def test_fits_of_several_threads_are_those_of_one():
    def fit(task: tuple[str, int]) -> bytes:
        name, _ = task
        places, values, new = observed(name)
        return bytes(KINDS[name]().fit(places, values).predict(new).tobytes())

    tasks = [(name, number) for number in range(3) for name in KINDS]
    with ThreadPoolExecutor(1) as pool:  # new threads share matrix products as OpenMP does
        alone = list(pool.map(fit, tasks))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fit, tasks)) == alone


def test_walks_do_not_depend_on_the_number_of_threads():
    """This process has as many as there are cores."""
    code = """
import sys
import numpy as np
import coupledgp as cgp
from coupledgp.features import sample_walks
graph = cgp.Graph.from_edges(np.arange(399), np.arange(1, 400))
visits = sample_walks(graph, 16, 0.1, generator=3).visits
sys.stdout.buffer.write(visits.nodes.tobytes() + visits.counts.tobytes())
"""
    environment = os.environ | {"NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    graph = cgp.Graph.from_edges(np.arange(399), np.arange(1, 400))
    visits = sample_walks(graph, 16, 0.1, generator=3).visits
    assert found == visits.nodes.tobytes() + visits.counts.tobytes()
