"""KL to an exact posterior whose matrix does not fit into memory: figures, errors, time, memory.

`kin40k`: 36 000 rows, and a sparse-spectrum model with hyperparameters fitted to some of them.
`synthetic`: rows of a standard normal law in 8 dimensions, 50 000 by default.
`grid`: a square grid of nodes, one million by default, with walk features. A tenth of the nodes is
observed; the test nodes are hidden patches of 4 x 4 nodes.

    COUPLEDGP_DATA=... python benchmarks/performance/kl_at_scale.py kin40k --points 128
    python benchmarks/performance/kl_at_scale.py grid --points 64 --tolerance 1e-3

The script prints one JSON object. It reports the steps of the solver on stderr; Ctrl-C ends it
after any step.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from typing import Any

import numpy as np
import torch

import coupledgp as cgp
from coupledgp.diagnostics import StochasticOptions
from coupledgp.kernels import HeatKernel
from data_loaders import uci

FITTED_ROWS = 3000


def kin40k(args: argparse.Namespace, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A sparse-spectrum model of kin40k, and test points."""
    data = uci.load("kin40k")
    order = rng.permutation(len(data.y))
    n = args.rows or 36_000
    train, test = order[:n], order[36_000 : 36_000 + args.points]
    return euclidean(args, data.X[train], data.y[train]), data.X[test], data.y[test]


def synthetic(args: argparse.Namespace, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A sparse-spectrum model of a smooth function of normal inputs."""
    n = (args.rows or 50_000) + args.points
    X = rng.normal(size=(n, 8))
    y = np.sin(X @ rng.normal(size=8) / 2) + np.cos(X @ rng.normal(size=8) / 2)
    y += 0.1 * rng.normal(size=n)
    return euclidean(args, X[args.points :], y[args.points :]), X[: args.points], y[: args.points]


def euclidean(args: argparse.Namespace, X: np.ndarray, y: np.ndarray) -> Any:
    """The model: hyperparameters from some rows, the posterior from all."""
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=args.features,
        options={"max_iter": 60, "n_restarts": 0},
        random_state=args.seed,
    )
    return gp.fit(X[:FITTED_ROWS], y[:FITTED_ROWS]).conditioned_on(X, y)


def grid(args: argparse.Namespace, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A walk-feature model of a smooth field on a grid."""
    n = args.rows or 1_000_000
    side = math.isqrt(n)
    node = np.arange(side * side).reshape(side, side)
    graph = cgp.Graph.from_edges(
        np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()]),
        np.concatenate([node[:, 1:].ravel(), node[1:].ravel()]),
    )
    i, j = np.divmod(np.arange(side * side), side)
    y = np.sin(i / 9) * np.cos(j / 7) + 0.3 * rng.normal(size=side * side)
    corners = rng.choice((side // 4) ** 2, -(-args.points // 16), replace=False)
    a, b = 4 * (corners // (side // 4)), 4 * (corners % (side // 4))
    patch = node[: side - side % 4, : side - side % 4]
    test = np.concatenate([patch[u : u + 4, v : v + 4].ravel() for u, v in zip(a, b, strict=True)])
    test = test[: args.points]
    observed = np.setdiff1d(rng.choice(side * side, side * side // 10, replace=False), test)
    gp = cgp.GraphGPRegressor(
        graph,
        HeatKernel(args.time),
        n_walks=16,
        exact_hops=args.hops,
        optimizer=None,
        outputscale=1.0,
        noise=0.15,
        options={"n_probes": 2},
        solver="iterative",
        random_state=args.seed,
    )
    return gp.fit(observed, y[observed]), test, y[test]


TASKS = {"kin40k": kin40k, "synthetic": synthetic, "grid": grid}


def main() -> None:
    """Fit, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--rows", type=int, help="training rows, or nodes of the grid")
    parser.add_argument("--points", type=int, default=128, help="test points")
    parser.add_argument("--columns", type=int, default=1024, help="of more points: by probes")
    parser.add_argument("--features", type=int, default=512, help="frequencies")
    parser.add_argument("--time", type=float, default=10.0, help="of the heat kernel")
    parser.add_argument("--hops", type=int, default=1, help="exact hops")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--rank", type=int, default=1500)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    start = time.perf_counter()
    model, X, y = TASKS[args.task](args, np.random.default_rng(args.seed))
    fitted, work = time.perf_counter(), time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    options = StochasticOptions(
        tolerance=args.tolerance,
        dtype=args.dtype,
        rank=args.rank,
        n_columns=args.columns,
        seed=args.seed,
    )
    report = cgp.report(model, X, y, exact=options, depth="scores", progress=True)
    result = {
        "task": args.task,
        "n_train": len(model.exact_problem().targets),
        "threads": args.threads,
        "seconds_model": fitted - start,
        "seconds_compare": time.perf_counter() - fitted,
        "cpu_seconds_compare": time.process_time() - work,
        "peak_gib_model": before,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        **report.to_dict(),
    }
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
