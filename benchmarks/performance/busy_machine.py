"""Small fits on a machine whose cores are busy: one thread, as fits choose it, beside all threads.

    python benchmarks/performance/busy_machine.py --busy 2 --rounds 3

Each row is a fit in a process of its own while so many others count without end. "all threads" is
the same fit without that choice, with the threads that the libraries take by themselves.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median

FIT = """
import sys, time
from contextlib import nullcontext
import networkx as nx
import numpy as np
import coupledgp as cgp
from coupledgp.ground import threads

if sys.argv[2] == "all":
    threads.FEW = -1
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 4))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=400)
grid = nx.grid_2d_graph(20, 20)
nodes = list(grid)[::3]
fits = {
    "features": lambda: cgp.SparseSpectrumGPRegressor(n_frequencies=64, random_state=0).fit(X, y),
    "exact": lambda: cgp.ExactGPRegressor(random_state=0).fit(X, y),
    "local": lambda: cgp.LocalGPRegressor(random_state=0).fit(X, y),
    "classes": lambda: cgp.GPClassifier(random_state=0).fit(X[:200], y[:200] > 1),
    "graph": lambda: cgp.GraphGPRegressor(grid).fit(nodes, [a / 5 + b % 3 for a, b in nodes]),
}
cgp.ExactGPRegressor(optimizer=None).fit(X[:20], y[:20])  # imports
start = time.perf_counter()
fits[sys.argv[1]]()
print(time.perf_counter() - start)
"""
NAMES = ("features", "exact", "local", "classes", "graph")
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def seconds(name: str, threads: str) -> float:
    """Seconds of the clock of one fit."""
    left = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    command = [sys.executable, "-c", FIT, name, threads]
    return float(subprocess.run(command, env=left, check=True, capture_output=True).stdout)


def main() -> None:
    """Print a row for each fit, with nothing beside it, and with busy processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=os.cpu_count(), help="busy processes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fits", nargs="+", choices=NAMES, default=NAMES)
    options = parser.parse_args()
    print("| fit | busy processes | one thread, s | all threads, s | ratio |")
    print("|---|---|---|---|---|")
    for name in options.fits:
        for busy in (0, options.busy):
            beside = [subprocess.Popen([sys.executable, "-c", "while 1: pass"])
                      for _ in range(busy)]  # fmt: skip
            try:
                pairs = [(seconds(name, "one"), seconds(name, "all"))
                         for _ in range(options.rounds)]  # fmt: skip
            finally:
                for child in beside:
                    child.kill()
            one, every = (median(column) for column in zip(*pairs, strict=True))
            row = f"| {name} | {busy} | {one:.2f} | {every:.2f} | {every / one:.1f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
