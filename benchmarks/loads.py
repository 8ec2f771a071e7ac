"""Large inputs through the API and the command line: seconds, CPU seconds and peak memory of each.

* a table of 10^6 rows and 10 columns (rough in one column, linear in another), by `GPRegressor` and
  by sparse-spectrum features;
* a graph of 10^6 edges (near points of a square, 332 500 nodes of mean degree 6) with values at
  20 000 nodes;
* an expander of 10^5 edges (preferential attachment, 33 333 nodes) with values at 8333 nodes: no
  part of it can be cut out, no factor is sparse, and its kernels are products of series;
* a table of 100 rows and 100 000 columns; ridge regression and the lasso of scikit-learn beside it.

Each runs in a process of its own, on one thread: fit, prediction, a saved file read again. The
memory is the peak of the process; that of the data and the imports alone is told beside it.

    python benchmarks/loads.py [--only table features graph expander wide]
                               [--ways api command rivals] [--small]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

# Rows and columns, or edges, of each load, and of its small form.
SIZES = {
    "table": ((1_000_000, 10), (20_000, 10)),
    "features": ((1_000_000, 10), (20_000, 10)),
    "graph": ((1_000_000, 0), (20_000, 0)),
    "expander": ((100_000, 0), (5000, 0)),
    "wide": ((100, 100_000), (50, 2000)),
}


GRAPHS = ("graph", "expander")


def table(n_rows: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, d) and targets (n,)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, dim))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=n_rows)


def edges(load: str, n_edges: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges (m, 2) of a graph without nodes alone, observed nodes and their values.

    `"graph"` joins near points of a square; in `"expander"` each node joins three earlier ones, the
    more likely the more neighbours they have.
    """
    rng = np.random.default_rng(0)
    n_nodes = n_edges // 3
    if load == "expander":
        import networkx as nx

        found = np.array(nx.barabasi_albert_graph(n_nodes, 3, seed=0).edges())
        truth = np.sin(np.arange(n_nodes) * 2e-3)
    else:
        from scipy.spatial import cKDTree

        places = rng.random((n_nodes, 2))
        near = np.sqrt(6 / (np.pi * n_nodes))
        pairs = cKDTree(places).query_pairs(near, output_type="ndarray")
        joined, found = np.unique(pairs, return_inverse=True)
        found, places = found.reshape(-1, 2), places[joined]
        truth = np.sin(8 * places[:, 0]) * np.cos(6 * places[:, 1])
    seen = rng.choice(len(truth), min(20_000, len(truth) // 4), replace=False)
    return found, seen, truth[seen] + 0.2 * rng.normal(size=len(seen))


def peak_mb() -> float:
    """Largest memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def by_api(load: str, size: tuple[int, int]) -> dict[str, float]:
    """Figures of a load in this process: fit, predict, save and load."""
    import scipy.sparse as sp
    import torch

    import coupledgp as cgp

    torch.set_num_threads(1)
    if load in GRAPHS:
        pairs, points, y = edges(load, size[0])
        ones = np.ones(len(pairs))
        n = int(pairs.max()) + 1
        half = sp.coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
        graph = cgp.Graph.from_scipy((half + half.T).tocsr())
        model = cgp.GraphGPRegressor(graph, random_state=0, progress=False)
        wanted: np.ndarray = np.arange(n)
    else:
        points, y = table(*size)
        kinds = {"features": cgp.SparseSpectrumGPRegressor}
        model = kinds.get(load, cgp.GPRegressor)(random_state=0, progress=False)
        wanted = points[:2000]
    before, start, cpu = peak_mb(), time.monotonic(), time.process_time()
    model.fit(points, y)
    fitted = time.monotonic()
    mean, std = model.predict(wanted, return_std=True)
    predicted = time.monotonic()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        file = path.stat().st_size / 1e6
        cgp.load_model(path)
    return {
        "data_mb": before,
        "fit_s": fitted - start,
        "predict_s": predicted - fitted,
        "save_and_load_s": time.monotonic() - predicted,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": peak_mb(),
        "file_mb": file,
    }


def by_command(load: str, size: tuple[int, int]) -> dict[str, float]:
    """Figures of the commands that fit and predict the same data from files."""
    import pandas as pd

    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = [sys.executable, "-m", "coupledgp"]
        if load in GRAPHS:
            pairs, seen, y = edges(load, size[0])
            pd.DataFrame({"source": pairs[:, 0], "target": pairs[:, 1]}).to_csv(
                folder / "edges.csv", index=False
            )
            pd.DataFrame({"node": seen, "value": y}).to_csv(folder / "values.csv", index=False)
            commands = [["interpolate", "edges.csv", "--values", "values.csv", "-o", "law.parquet"]]
        else:
            X, y = table(*size)
            frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])]).assign(y=y)
            ending = "csv" if load == "wide" else "parquet"
            getattr(frame, f"to_{ending}")(folder / f"rows.{ending}", index=False)
            fit = ["fit", f"rows.{ending}", "--target", "y", "-o", "y.model", "--holdout", "0.1"]
            if load == "features":
                fit += ["--model", "sparse-spectrum"]
            commands = [fit, ["predict", "y.model", f"rows.{ending}", "-o", "law.parquet"]]
        start = time.monotonic()
        for command in commands:
            subprocess.run([*program, *command], cwd=folder, env=environment, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "commands_s": time.monotonic() - start,
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak_mb": used.ru_maxrss / 1e3,
        }


def by_rivals(load: str, size: tuple[int, int]) -> dict[str, float]:
    """Seconds of the linear models of scikit-learn that people fit to wide tables."""
    from sklearn.linear_model import LassoCV, RidgeCV

    X, y = table(*size)
    figures = {}
    for name, model in (("ridge", RidgeCV()), ("lasso", LassoCV(cv=5, random_state=0))):
        start, cpu = time.monotonic(), time.process_time()
        model.fit(X, y)
        fitted = time.monotonic()
        assert np.isfinite(model.predict(X)).all()
        figures |= {
            f"{name}_fit_s": fitted - start,
            f"{name}_predict_s": time.monotonic() - fitted,
            f"{name}_cpu_s": time.process_time() - cpu,
        }
    return figures | {"peak_mb": peak_mb()}


WAYS: dict[str, Callable[[str, tuple[int, int]], dict[str, float]]] = {
    "api": by_api,
    "command": by_command,
    "rivals": by_rivals,
}


def main() -> None:
    """Run each load in a process of its own and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(SIZES), default=list(SIZES))
    parser.add_argument("--ways", nargs="+", choices=sorted(WAYS), default=sorted(WAYS))
    parser.add_argument("--small", action="store_true", help="sizes of seconds")
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        load, way = arguments.here
        print(json.dumps(WAYS[way](load, SIZES[load][arguments.small])))
        return
    shown = Table("load", "way", "figures", title="Large inputs, one thread")
    for load in arguments.only:
        for way in arguments.ways:
            if way == "rivals" and load != "wide":
                continue
            command = [sys.executable, __file__, "--here", load, way]
            command += ["--small"] * arguments.small
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            figures = json.loads(found.splitlines()[-1])
            text = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
            print(load, way, text, flush=True)
            shown.add_row(load, way, text)
    Console(width=160).print(shown)


if __name__ == "__main__":
    main()
