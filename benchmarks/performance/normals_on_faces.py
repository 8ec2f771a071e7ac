"""Normals of a mesh's faces, a twentieth of them hidden: unit weights, or a choice by evidence.

Nodes are the faces, values the z components of their normals. Of each split are fitted the walk
model on the graph of unit weights; the walk model on the graph that `choose_graph` takes, of unit
weights and of weights by distance of centroids; and the exact model on each graph, of which the
table has the better one by hindsight. RMSE and seconds are means over the splits.

    COUPLEDGP_DATA=FOLDER python benchmarks/performance/normals_on_faces.py --splits 4
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import coupledgp as cgp
from data_loaders import meshes

NAMES = ("teapot", "fuze", "unit_sphere", "idler_riser", "busted", "torus")
WEIGHTS = ("unit", "inverse-distance")
HIDDEN = 0.05


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the seconds that it took."""
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def split(name: str, graphs: dict[str, cgp.Graph], y: np.ndarray, seed: int) -> dict[str, Any]:
    """Errors at the hidden faces of one split, the chosen weights, and seconds of the fits."""
    order = np.random.default_rng(seed).permutation(y.size)
    n_hidden = round(HIDDEN * y.size)
    hidden, known = order[:n_hidden], order[n_hidden:]

    def error(model: Any) -> float:
        return float(np.sqrt(np.mean((model.predict(hidden) - y[hidden]) ** 2)))

    walks = cgp.GraphGPRegressor(graphs["unit"], random_state=0)
    unit, unit_seconds = timed(lambda: walks.fit(known, y[known]))
    (model, choice), seconds = timed(lambda: cgp.choose_graph(walks, graphs, known, y[known]))
    exact = {
        weights: error(cgp.ExactGraphGPRegressor(graph, random_state=0).fit(known, y[known]))
        for weights, graph in graphs.items()
    }
    return {
        "mesh": name, "seed": seed, "unit": error(unit), "chosen": error(model),
        "weights": choice.chosen, "best_exact": min(exact.values()), "exact": exact,
        "unit_seconds": unit_seconds, "chosen_seconds": seconds,
    }  # fmt: skip


def main() -> None:
    """Print a line for each mesh, then all splits as JSON if asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--meshes", default=",".join(NAMES))
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    print("mesh             unit  chosen  best exact  by distance in   seconds: unit  chosen")
    for name in args.meshes.split(","):
        data = meshes.load(name)
        graphs = {w: cgp.Graph.from_trimesh(data.mesh, "faces", w) for w in WEIGHTS}
        if not rows:  # numba compiles before anything is timed
            split(name, graphs, data.normal_z, 1000)
        found = [split(name, graphs, data.normal_z, seed) for seed in range(args.splits)]
        rows += found
        mean = {
            key: np.mean([row[key] for row in found])
            for key in ("unit", "chosen", "best_exact", "unit_seconds", "chosen_seconds")
        }
        taken = sum(row["weights"] != "unit" for row in found)
        print(
            f"{name:12} {mean['unit']:8.4f} {mean['chosen']:7.4f} {mean['best_exact']:11.4f} "
            f"{taken:9} of {args.splits} {mean['unit_seconds']:17.2f}"
            f" {mean['chosen_seconds']:7.2f}",
            flush=True,
        )
    if args.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
