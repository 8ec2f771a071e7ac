"""Interpolation on meshes and roads: the papers' protocol (A9, A10), and the real task.

Meshes: nodes are faces, the signal is the z component of their normals, 5 % are hidden. Traffic:
1016 nodes, 325 sensors, 250 of them for training.

`--protocol frozen`: hyperparameters by the evidence of 8 i.i.d. walkers (p = 0.4), then frozen;
the exact posterior with those against m in {16, 32, 64} ({4, 8, 16} for traffic) walkers, i.i.d.,
antithetic or sigma (n = 50), and beside them this package's defaults. Kernel error on the observed
and hidden nodes, test RMSE, KL to the exact posterior (not per point, as in the papers).

`--protocol real`: each method fitted by its own evidence: RMSE, NLPD, coverage, KL per point to
its own exact twin, and RMSE over that of the best exact graph GP (exact evidence). RMSE is over all
hidden nodes, the other figures over the first `--joint` of them.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/mesh_and_traffic.py --protocol real
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
from graph_common import PAPER_MESHES, cell, gaussian_kl, mean_and_error, scores, table

from coupledgp import ExactGraphGPRegressor, Graph, GraphGPRegressor
from coupledgp.couplings import SigmaLengths, WalkerCoupling
from coupledgp.random import FloatArray
from data_loaders import meshes, traffic

PAPERS: dict[str, Any] = {"length_law": "geometric", "p_halt": 0.4, "exact_hops": 0}
SIGMA = WalkerCoupling(SigmaLengths(order=50))


def task(name: str, seed: int) -> tuple[Graph, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Graph, training nodes, their values, test nodes, their values."""
    rng = np.random.default_rng(seed)
    if name == "traffic":
        data = traffic.load()
        order = rng.permutation(data.sensors.size)
        nodes, y, n_test = data.sensors, data.speeds, 75
        graph = data.graph
    else:
        mesh = meshes.load(name)
        graph, y, nodes = mesh.graph, mesh.normal_z, np.arange(mesh.graph.n_nodes)
        order = rng.permutation(nodes.size)
        n_test = round(0.05 * nodes.size)
    test, train = order[:n_test], order[n_test:]
    return graph, nodes[train], y[train], nodes[test], y[test]


def frozen(name: str, n_draws: int) -> list[list[Any]]:
    """Rows of the papers' protocol: method, m, kernel error, RMSE, KL, each with its error."""
    graph, train, y, test, y_test = task(name, 0)
    teacher = GraphGPRegressor(graph, n_walks=8, coupling="iid", random_state=0, **PAPERS)
    teacher.fit(train, y)
    exact = teacher.exact_twin()
    truth = exact.predict(test, return_cov=True)
    every = np.concatenate([train, test])
    K = exact.prior_covariance(every) if every.size <= 4000 else None
    exact_scores = scores(*truth, y_test)
    rows: list[list[Any]] = [[name, "exact", "", "", cell(exact_scores["rmse"]), ""]]
    methods: dict[str, dict[str, Any]] = {
        "iid": {"coupling": "iid", **PAPERS},
        "antithetic": {"coupling": "antithetic", **PAPERS},
        "sigma": {"coupling": SIGMA, **PAPERS},
        "defaults": {},
    }
    for m in (4, 8, 16) if name == "traffic" else (16, 32, 64):
        for method, settings in methods.items():
            found: dict[str, list[float]] = {"kernel": [], "rmse": [], "kl": []}
            for seed in range(n_draws):
                gp = GraphGPRegressor(
                    graph,
                    teacher.kernel_,
                    n_walks=m,
                    optimizer=None,
                    outputscale=exact._posterior.outputscale,
                    noise=exact._posterior.noise,
                    random_state=seed,
                    **settings,
                ).fit(train, y)
                law = gp.predict(test, return_cov=True)
                found["rmse"].append(scores(*law, y_test)["rmse"])
                found["kl"].append(gaussian_kl(truth, law))
                if K is not None:
                    gap = np.linalg.norm(gp.prior_covariance(every) - K) / np.linalg.norm(K)
                    found["kernel"].append(float(gap))
            cells = [
                "{:.3g} ({:.1g})".format(*mean_and_error(v)) if v else "" for v in found.values()
            ]
            rows.append([name, method, m, *cells])
    return rows


def real(name: str, seed: int, n_joint: int, methods: list[str] | None) -> list[dict[str, Any]]:
    """One row a method: its own fit, its scores, and its distance to its own exact twin."""
    graph, train, y, test, y_test = task(name, seed)
    models: dict[str, Any] = {
        "exact": ExactGraphGPRegressor(graph, random_state=0),
        "defaults": GraphGPRegressor(graph, random_state=0),
        "papers (sigma, m=32)": GraphGPRegressor(
            graph, n_walks=32, coupling=SIGMA, random_state=0, **PAPERS
        ),
    }
    rows = []
    joint, y_joint = test[:n_joint], y_test[:n_joint]
    for method, model in models.items():
        if methods and method not in methods:
            continue
        print(f"{name}: {method}", file=sys.stderr, flush=True)
        start = time.perf_counter()
        model.fit(train, y)
        seconds = time.perf_counter() - start
        law = model.predict(joint, return_cov=True)
        twin = model.exact_twin().predict(joint, return_cov=True) if method != "exact" else law
        rows.append(
            {
                "data": name,
                "method": method,
                **scores(*law, y_joint),
                "rmse": float(np.sqrt(np.mean((model.predict(test) - y_test) ** 2))),
                "kl_per_point": gaussian_kl(twin, law) / joint.size,
                "kernel": repr(model.kernel_),
                "noise": model.noise_,
                "hops": model.plan_.n_hops if method != "exact" else "",
                "fit_s": seconds,
            }
        )
        rows[-1]["rmse/best exact"] = rows[-1]["rmse"] / rows[0]["rmse"]
    return rows


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocol", choices=["frozen", "real"], default="real")
    parser.add_argument("--names", nargs="+", default=[*PAPER_MESHES, "traffic"])
    parser.add_argument("--draws", type=int, default=5, help="draws of walkers (frozen)")
    parser.add_argument("--split", type=int, default=0, help="seed of the split (real)")
    parser.add_argument(
        "--joint", type=int, default=256, help="hidden nodes in the joint law (KL, NLPD, coverage)"
    )
    parser.add_argument("--methods", nargs="+", help="some of the methods only (real)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.protocol == "frozen":
        header = ["data", "method", "m", "kernel error", "RMSE", "KL"]
        print(table(header, [r for name in arguments.names for r in frozen(name, arguments.draws)]))
        return
    for name in arguments.names:
        rows = real(name, arguments.split, arguments.joint, arguments.methods)
        if arguments.json:
            print(json.dumps(rows, indent=2), flush=True)
        else:
            print(table(list(rows[0]), [list(row.values()) for row in rows]), "\n", flush=True)


if __name__ == "__main__":
    main()
