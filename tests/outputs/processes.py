"""Fits in forked children, run by `test_processes.py` in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

import coupledgp as cgp
from coupledgp.features import sample_walks

warnings.simplefilter("ignore")
SECONDS = 60.0  # of a child that hangs; the promise is 5, the machine of a test may be slow
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 5))
Y = np.sin(X[:, 0])
N_NODES = 400
GRAPH = cgp.Graph.from_edges(np.arange(N_NODES - 1), np.arange(1, N_NODES))
NODES = np.arange(0, N_NODES, 3)


def sparse() -> np.ndarray:
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=100, random_state=0, max_iter=1, n_restarts=0, progress=False
    )
    return model.fit(X, Y).predict(X[:5])


def exact() -> np.ndarray:
    return cgp.ExactGPRegressor(max_iter=1, n_restarts=0).fit(X[:400], Y[:400]).predict(X[:5])


def walks() -> np.ndarray:
    visits = sample_walks(GRAPH, 64, 0.1, generator=3).visits
    return np.asarray(visits.nodes[:50], dtype=float)


def graph() -> np.ndarray:
    model = cgp.GraphGPRegressor(
        GRAPH, kernel="heat", optimizer=None, n_walks=16, method="walks", random_state=0
    )
    return model.fit(NODES, np.sin(NODES / 50)).predict(np.arange(5))


WORK: dict[str, Callable[[], np.ndarray]] = {
    "sparse": sparse, "exact": exact, "walks": walks, "graph": graph,
}  # fmt: skip


def in_child(work: Callable[[], np.ndarray]) -> tuple[np.ndarray | None, float]:
    """What a forked child computes, and how long it takes; None if it fails or hangs."""
    reading, writing = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work().tobytes())
        finally:
            os._exit(0)
    os.close(writing)
    timer = threading.Timer(SECONDS, os.kill, (child, signal.SIGKILL))
    timer.start()
    with open(reading, "rb") as file:
        content = file.read()
    timer.cancel()
    os.waitpid(child, 0)
    return (np.frombuffer(content) if content else None), time.monotonic() - start


def main() -> int:
    """Compute with two threads, then each in a child; return the number of failures."""
    torch.set_num_threads(2)
    own = {name: work() for name, work in WORK.items()}
    failures = 0
    for name, work in WORK.items():
        found, seconds = in_child(work)
        close = found is not None and np.allclose(found, own[name], rtol=1e-4, atol=1e-6)
        failures += not close
        print(f"{name}: {'the same' if close else found} after {seconds:.1f} s", flush=True)
    assert torch.get_num_threads() == 2  # the parent keeps its own
    return failures


if __name__ == "__main__":
    sys.exit(main())
