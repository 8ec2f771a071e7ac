"""Interpolation on meshes and roads: the papers' protocol (A9, A10), and the real task.

Meshes: nodes are faces, the signal is the z component of their normals, 5 % are hidden. Traffic:
1016 nodes, 325 sensors, 250 of them for training.

`--protocol frozen`: heat kernel, its time, outputscale and noise by the evidence of 8 i.i.d.
walkers (p = 0.4), then frozen; the exact posterior with those against m in {16, 32, 64} ({4, 8, 16}
for traffic) walkers: i.i.d., antithetic, sigma (n = 50), and beside them stratified+systematic with
the same lengths, the same with 1 and 2 exact hops, and this package's defaults. Relative Frobenius
error of the kernel on all nodes, test RMSE, and KL(exact || approximate) over all hidden nodes
jointly, not per point, as in the papers. "Distance" is (sigma - i.i.d.) in standard errors. The
papers' claim: sigma gives better values.

`--protocol real`: each method fitted by its own evidence: RMSE, NLPD, coverage of 95 % intervals,
KL per point to its own exact twin, and RMSE over that of the best exact graph GP, best by its own
evidence among heat, regularised Laplacian and Matern. RMSE is over all hidden nodes, the other
figures over the first `--joint` of them.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/mesh_and_traffic.py --protocol frozen
    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/mesh_and_traffic.py --protocol real
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from graph_common import (
    PAPER_MESHES,
    JsonLines,
    mean_and_error,
    n_errors,
    relative_error,
    table,
    with_error,
)
from numpy.typing import NDArray

from coupledgp import ExactGraphGPRegressor, Graph, GraphGPRegressor
from coupledgp.couplings import SigmaLengths, WalkerCoupling
from coupledgp.diagnostics import coverage, gaussian_kl, nlpd, rmse
from coupledgp.progress import reporter
from coupledgp.random import FloatArray
from data_loaders import meshes, traffic

Tick = Callable[[str], None]
Settings = dict[str, Any]

PAPERS: Settings = {"length_law": "geometric", "p_halt": 0.4, "exact_hops": 0}
SIGMA = WalkerCoupling(SigmaLengths(order=50))
OURS: Settings = {**PAPERS, "coupling": "stratified+systematic", "hop_nodes": "power"}
FROZEN: dict[str, Settings] = {
    "iid": {"coupling": "iid", **PAPERS},
    "antithetic": {"coupling": "antithetic", **PAPERS},
    "sigma": {"coupling": SIGMA, **PAPERS},
    "stratified+systematic": OURS,
    "the same, 1 exact hop": {**OURS, "exact_hops": 1},
    "the same, 2 exact hops": {**OURS, "exact_hops": 2},
    "defaults": {},
}
EXACT_KERNELS = ("heat", "regularized-laplacian", "matern")
DENSE_ERROR_LIMIT = 2000
N_PROBES = 64


@dataclass(frozen=True)
class Task:
    """A graph, observed nodes with their values, and hidden ones."""

    graph: Graph
    train: NDArray[np.int64]
    y: FloatArray
    test: NDArray[np.int64]
    y_test: FloatArray


def task(name: str, seed: int) -> Task:
    """A random split of a mesh or of the traffic speeds."""
    rng = np.random.default_rng(seed)
    if name == "traffic":
        data = traffic.load()
        graph, y, nodes, n_test = data.graph, data.speeds, data.sensors, 75
    else:
        mesh = meshes.load(name)
        graph, y, nodes = mesh.graph, mesh.normal_z, np.arange(mesh.graph.n_nodes)
        n_test = round(0.05 * nodes.size)
    order = rng.permutation(nodes.size)
    test, train = order[:n_test], order[n_test:]
    return Task(graph, nodes[train], y[train], nodes[test], y[test])


@dataclass(frozen=True)
class Truth:
    """The exact posterior at frozen hyperparameters, and what is needed to compare with it."""

    task: Task
    gp: ExactGraphGPRegressor
    law: tuple[FloatArray, FloatArray]
    probes: FloatArray
    products: FloatArray

    def distances(self, gp: GraphGPRegressor) -> tuple[float, float, float]:
        """Kernel error, test RMSE and KL of an approximate model."""
        mean, cov = gp.predict(self.task.test, return_cov=True)
        error = relative_error(prior_products(gp, self.probes), self.products)
        return error, rmse(self.task.y_test, mean), gaussian_kl(*self.law, mean, cov)


def prior_products(gp: GraphGPRegressor | ExactGraphGPRegressor, V: FloatArray) -> FloatArray:
    """`K V` over all nodes, K the prior covariance of unit outputscale."""
    every = np.arange(gp.graph.n_nodes)
    return gp._posterior.prior.product(every, every, V)


def exact_truth(problem: Task, teacher: GraphGPRegressor) -> Truth:
    """The exact posterior at a teacher's hyperparameters.

    Kernel errors are exact on graphs of at most 2000 nodes, and from 64 random sign vectors (to
    about 2 %) on larger ones.
    """
    exact, n = teacher.exact_twin(), problem.graph.n_nodes
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (n, N_PROBES))
    probes = np.eye(n) if n <= DENSE_ERROR_LIMIT else signs
    law = exact.predict(problem.test, return_cov=True)
    return Truth(problem, exact, law, probes, prior_products(exact, probes))


def frozen(
    name: str, n_draws: int, methods: list[str], lines: JsonLines, tick: Tick
) -> tuple[list[Any], list[list[Any]]]:
    """The frozen hyperparameters, and one row for each number of walkers and method."""
    problem = task(name, 0)
    tick(f"{name}: hyperparameters")
    teacher = GraphGPRegressor(problem.graph, "heat", 8, "iid", random_state=0, **PAPERS)
    teacher.fit(problem.train, problem.y)
    truth = exact_truth(problem, teacher)
    summary = frozen_summary(name, teacher, truth)
    lines.write(what="frozen", data=name, **dict(zip(SUMMARY, summary, strict=True)))
    rows = []
    for m in (4, 8, 16) if name == "traffic" else (16, 32, 64):
        found = {}
        for method in methods:
            tick(f"{name}: m={m} {method}")
            draws = [
                truth.distances(at_frozen(teacher, problem, m, seed, FROZEN[method]))
                for seed in range(n_draws)
            ]
            found[method] = np.array(draws)
        for method, values in found.items():
            rows.append([name, m, method, *frozen_cells(values, found.get("iid"))])
            for figure, column in zip(("kernel_error", "rmse", "kl"), values.T, strict=True):
                mean, error = mean_and_error(column)
                lines.write(
                    what=figure, data=name, n_walks=m, method=method, draws=n_draws,
                    mean=mean, error=error,
                )  # fmt: skip
    return summary, rows


SUMMARY = ["mesh", "N", "hidden", "t", "outputscale", "noise", "exact RMSE", "exact NLPD"]


def frozen_summary(name: str, teacher: GraphGPRegressor, truth: Truth) -> list[Any]:
    """Size and exact GP at the frozen hyperparameters."""
    mean, cov = truth.law
    y, problem = truth.task.y_test, truth.task
    scores = [rmse(y, mean), nlpd(y, mean, np.sqrt(np.diag(cov)))]
    time_ = float(np.exp(teacher.kernel_.theta[0]))
    sizes = [problem.graph.n_nodes, problem.test.size]
    return [name, *sizes, time_, teacher.outputscale_, teacher.noise_, *scores]


def at_frozen(
    teacher: GraphGPRegressor, problem: Task, n_walks: int, seed: int, settings: Settings
) -> GraphGPRegressor:
    """A model with the teacher's hyperparameters and walks of its own."""
    variance = float(problem.y.var())
    gp = GraphGPRegressor(
        problem.graph,
        teacher.kernel_,
        n_walks,
        optimizer=None,
        outputscale=teacher.outputscale_ / variance,
        noise=teacher.noise_ / variance,
        random_state=1 + seed,
        **settings,
    )
    return gp.fit(problem.train, problem.y)


def frozen_cells(values: FloatArray, iid: FloatArray | None) -> list[str]:
    """Mean and error of each figure, and how far from i.i.d. the KL is."""
    cells = [with_error(*mean_and_error(column)) for column in values.T]
    if iid is None or values is iid:
        return [*cells, ""]
    return [*cells, n_errors(*mean_and_error(values[:, 2] - iid[:, 2]))]


def real_models(problem: Task, n_walks: int, seed: int) -> dict[str, Any]:
    """The methods of the real task, unfitted."""
    graph = problem.graph
    exact = {
        f"exact {kernel}": ExactGraphGPRegressor(graph, kernel, random_state=seed)
        for kernel in EXACT_KERNELS
    }
    papers = GraphGPRegressor(graph, "heat", n_walks, SIGMA, random_state=seed, **PAPERS)
    return {
        **exact,
        "defaults": GraphGPRegressor(graph, random_state=seed),
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
    walked = isinstance(model, GraphGPRegressor)
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
    """One row a method of one split, with the RMSE over that of the best exact GP."""
    problem, rows = task(name, split), []
    for method, model in real_models(problem, n_walks, split).items():
        if methods and not any(method.startswith(wanted) for wanted in methods):
            continue
        tick(f"{name}, split {split}: {method}")
        rows.append(real_row(name, split, problem, method, model, n_joint))
    exact = [row for row in rows if row["method"].startswith("exact")]
    best = max(exact, key=lambda row: row["evidence"], default=None)
    for row in rows:
        row["best"] = row is best
        row["rmse_ratio"] = row["rmse"] / best["rmse"] if best else float("nan")
    return rows


def real_table(rows: list[Settings]) -> str:
    """Means over splits, with their standard errors where there are several."""
    header = ["data", "method", "RMSE", "NLPD", "coverage", "KL per point", "RMSE / best exact",
              "best", "hops", "kernel", "fit s"]  # fmt: skip
    figures = ["rmse", "nlpd", "coverage", "kl_per_point", "rmse_ratio"]
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
    parser.add_argument("--json", help="also write every figure to this file, one object a line")
    arguments = parser.parse_args()
    lines = JsonLines(arguments.json)
    with reporter("mesh and traffic") as tick:
        if arguments.protocol == "frozen":
            methods = arguments.methods or list(FROZEN)
            print_frozen(arguments.names, arguments.draws, methods, lines, tick)
            return
        rows: list[Settings] = []
        for name in arguments.names:
            for split in arguments.splits:
                new = real(name, split, arguments.joint, arguments.walks, arguments.methods, tick)
                for row in new:
                    lines.write(**row)
                rows.extend(new)
    print(real_table(rows))


def print_frozen(
    names: list[str], n_draws: int, methods: list[str], lines: JsonLines, tick: Tick
) -> None:
    """Both tables of the papers' protocol."""
    parts = [frozen(name, n_draws, methods, lines, tick) for name in names]
    print(table(SUMMARY, [summary for summary, _ in parts]), "\n")
    header = ["data", "m", "method", "kernel error", "RMSE", "KL", "KL distance to iid"]
    print(table(header, [row for _, rows in parts for row in rows]))


if __name__ == "__main__":
    main()
