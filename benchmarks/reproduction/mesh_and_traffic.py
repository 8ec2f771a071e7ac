"""Interpolation on meshes and roads: the papers' protocol (A9, A10), and the real task.

Meshes have faces as nodes and the z component of their normals as the signal, of which 5 % are
hidden. Traffic has 1016 nodes with 325 sensors, 250 of them for training.

`--protocol frozen` is that of the papers. The time of a heat kernel, the outputscale and the noise
maximise the evidence of 8 i.i.d. walkers (p = 0.4) and are then frozen. The exact posterior with
these is compared with m in {16, 32, 64} walkers ({4, 8, 16} for traffic): i.i.d., antithetic and
sigma (n = 50); stratified+systematic with the same lengths, also with 1 and 2 exact hops; matched
lengths without hops; and the defaults of this package. Printed are the relative Frobenius error of
the kernel on all nodes, the test RMSE, and KL(exact || approximate) over all hidden nodes jointly,
not per point, as in the papers. "KL distance" is the difference to i.i.d. in standard errors. The
papers claim that sigma gives better values. `--time` freezes a diffusion time instead, with
outputscale and noise by the exact evidence.

`--protocol real` fits each method by its own evidence. Printed are RMSE, NLPD, coverage of 95 %
intervals, KL per point to the method's own exact twin, and two ratios of the RMSE: to the exact
graph GP with the most evidence among heat, regularised Laplacian and Matern, and to the lowest RMSE
of the three, which is known from the hidden values only. RMSE is over all hidden nodes, the other
figures over the first `--joint` of them. `--show` prints the table of figures that `--json`
recorded.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/mesh_and_traffic.py --protocol frozen
    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/mesh_and_traffic.py --protocol real
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from graph_common import (
    PAPER_MESHES,
    JsonLines,
    mean_and_error,
    table,
    with_error,
)
from mesh_frozen import (
    FROZEN,
    PAPERS,
    SIGMA,
    Settings,
    Task,
    print_frozen,
    record_frozen,
    task,
)

from coupledgp import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.diagnostics import coverage, gaussian_kl, nlpd, rmse
from coupledgp.ground.parameters import folded
from coupledgp.ground.progress import reporter

Tick = Callable[[str], None]

KERNELS = ("heat", "regularized-laplacian", "matern")


def real_models(problem: Task, n_walks: int, seed: int) -> dict[str, Any]:
    """The methods of the real task, unfitted."""
    graph = problem.graph
    exact = {
        f"exact {kernel}": ExactGraphGPRegressor(graph, kernel, random_state=seed)
        for kernel in KERNELS
    }
    papers = GraphGPRegressor(
        graph, "heat", n_walks, SIGMA, random_state=seed, **folded(GraphGPRegressor, PAPERS)
    )
    return {
        **exact,
        "defaults": GraphGPRegressor(graph, random_state=seed),
        "defaults but heat": GraphGPRegressor(graph, "heat", random_state=seed),
        f"papers (sigma, m={n_walks})": papers,
    }


def real_row(
    name: str, split: int, problem: Task, method: str, model: Any, n_joint: int
) -> Settings:
    """Fit one method: its scores, and its distance to its own exact twin."""
    start = time.perf_counter()
    model.fit(problem.train, problem.y)
    seconds = time.perf_counter() - start
    joint, y = problem.test[:n_joint], problem.y_test[:n_joint]
    mean, cov = model.predict(joint, return_cov=True)
    std = np.sqrt(np.diag(cov))
    walked = model.method_ == "walks"
    kl = 0.0
    if walked:
        twin_mean, twin_cov = model.exact_twin().predict(joint, return_cov=True)
        kl = gaussian_kl(twin_mean, twin_cov, mean, cov)
    return {
        "data": name,
        "split": split,
        "method": method,
        "rmse": rmse(problem.y_test, model.predict(problem.test)),
        "nlpd": nlpd(y, mean, std),
        "coverage": coverage(y, mean, std)[0.95],
        "kl_per_point": kl / joint.size,
        "evidence": model.log_marginal_likelihood_value_,
        "kernel": repr(model.kernel_),
        "noise": model.noise_,
        "hops": model.plan_.n_hops if walked else None,
        "fit_s": seconds,
    }


def real(
    name: str, split: int, n_joint: int, n_walks: int, methods: list[str] | None, tick: Tick
) -> list[Settings]:
    """One row a method of one split."""
    problem, rows = task(name, split), []
    for method, model in real_models(problem, n_walks, split).items():
        if methods and not any(method.startswith(wanted) for wanted in methods):
            continue
        tick(f"{name}, split {split}: {method}")
        rows.append(real_row(name, split, problem, method, model, n_joint))
    return rows


def add_ratios(rows: list[Settings]) -> list[Settings]:
    """The rows with the best exact model of each split marked, and RMSEs over its and the lowest."""
    found = []
    for split in dict.fromkeys((row["data"], row["split"]) for row in rows):
        group = [row for row in rows if (row["data"], row["split"]) == split]
        exact = [row for row in group if row["method"].startswith("exact")]
        best = max(exact, key=lambda row: row["evidence"], default=None)
        lowest = min((row["rmse"] for row in exact), default=float("nan"))
        for row in group:
            ratio = row["rmse"] / best["rmse"] if best else float("nan")
            over_lowest = row["rmse"] / lowest
            new = {"best": row is best, "rmse_ratio": ratio, "rmse_over_lowest": over_lowest}
            found.append({**row, **new})
    return found


def real_table(rows: list[Settings]) -> str:
    """Means over splits, with their standard errors where there are several."""
    header = ["data", "method", "RMSE", "NLPD", "coverage", "KL per point", "RMSE / best exact",
              "RMSE / lowest exact", "best", "hops", "kernel", "fit s"]  # fmt: skip
    figures = ["rmse", "nlpd", "coverage", "kl_per_point", "rmse_ratio", "rmse_over_lowest"]
    lines = []
    for name, method in dict.fromkeys((row["data"], row["method"]) for row in rows):
        group = [row for row in rows if (row["data"], row["method"]) == (name, method)]
        cells = [with_error(*mean_and_error([row[f] for row in group])) for f in figures]
        best = f"{sum(row['best'] for row in group)} of {len(group)}"
        hops = "/".join(str(row["hops"]) for row in group) if group[0]["hops"] is not None else ""
        seconds = float(np.median([row["fit_s"] for row in group]))
        kernel = "; ".join(short(row["kernel"]) for row in group)
        lines.append([name, method, *cells, best, hops, kernel, seconds])
    return table(header, lines)


def recorded(paths: list[str]) -> list[Settings]:
    """Rows that earlier runs wrote."""
    texts = [Path(path).read_text(encoding="utf-8") for path in paths]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def short(kernel: str) -> str:
    """The parameters of a kernel's text, three digits each."""
    inside = kernel[kernel.index("(") + 1 : -1]
    pairs = [part.split("=") for part in inside.split(", ")]
    return ", ".join(f"{key} {float(value):.3g}" for key, value in pairs)


def main() -> None:
    """Print a table; JSON lines if asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--protocol", choices=["frozen", "real"], default="real")
    parser.add_argument("--names", nargs="+", default=[*PAPER_MESHES, "traffic"])
    parser.add_argument("--draws", type=int, default=10, help="draws of walkers (frozen)")
    parser.add_argument("--time", type=float, help="diffusion time to freeze, not fitted (frozen)")
    parser.add_argument(
        "--splits", nargs="+", type=int, default=[0, 1, 2], help="seeds of splits (real)"
    )
    parser.add_argument(
        "--walks", type=int, default=16, help="walkers of the papers' estimator (real)"
    )
    parser.add_argument(
        "--joint", type=int, default=256, help="hidden nodes in the joint law (real)"
    )
    parser.add_argument(
        "--methods", nargs="+", help="some of the methods only; by how they begin (real)"
    )
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of walkers (frozen)")
    parser.add_argument("--record", action="store_true", help="write the record (frozen)")
    parser.add_argument("--json", help="also write every figure to this file, one object a line")
    parser.add_argument("--show", nargs="+", help="files of --json to print, nothing else (real)")
    arguments = parser.parse_args()
    if arguments.show:
        print(real_table(add_ratios(recorded(arguments.show))))
        return
    lines = JsonLines(arguments.json)
    with reporter("mesh and traffic") as tick:
        if arguments.protocol == "frozen":
            methods = arguments.methods or list(FROZEN)
            found = print_frozen(
                arguments.names,
                arguments.draws,
                methods,
                arguments.time,
                arguments.sizes,
                lines,
                tick,
            )
            if arguments.record:
                record_frozen(found, arguments.draws)
            return
        rows: list[Settings] = []
        for name in arguments.names:
            for split in arguments.splits:
                new = real(name, split, arguments.joint, arguments.walks, arguments.methods, tick)
                for row in new:
                    lines.write(**row)
                rows.extend(new)
    print(real_table(add_ratios(rows)))


if __name__ == "__main__":
    main()
