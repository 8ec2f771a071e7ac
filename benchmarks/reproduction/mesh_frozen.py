"""Tasks on meshes and roads, and the papers' protocol: frozen, walks redrawn (A9, A10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from graph_common import JsonLines, mean_and_error, n_errors, relative_error, table, with_error
from numpy.typing import NDArray
from record import Finding, Record, command

from coupledgp import ExactGraphGPRegressor, Graph, GraphGPRegressor
from coupledgp.couplings import SigmaLengths, WalkerCoupling
from coupledgp.diagnostics import gaussian_kl, nlpd, rmse
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel
from coupledgp.random import FloatArray
from data_loaders import meshes, traffic

Settings = dict[str, Any]

PAPERS: Settings = {"length_law": "geometric", "p_halt": 0.4, "exact_hops": 0}
SIGMA = WalkerCoupling(SigmaLengths(order=50))


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


Tick = Callable[[str], None]
Model: TypeAlias = GraphGPRegressor | ExactGraphGPRegressor
# Kernel error, RMSE and KL (draws, 3) by data, number of walkers and method.
Found: TypeAlias = dict[tuple[str, int, str], FloatArray]

OURS: Settings = {**PAPERS, "coupling": "stratified+systematic", "hop_nodes": "power"}
FROZEN: dict[str, Settings] = {
    "iid": {"coupling": "iid", **PAPERS},
    "antithetic": {"coupling": "antithetic", **PAPERS},
    "sigma": {"coupling": SIGMA, **PAPERS},
    "stratified+systematic": OURS,
    "the same, 1 exact hop": {**OURS, "exact_hops": 1},
    "the same, 2 exact hops": {**OURS, "exact_hops": 2},
    "matched lengths, no hops": {"coupling": "stratified+systematic", "exact_hops": 0},
    "defaults": {},
}
DENSE_ERROR_LIMIT = 2000
N_PROBES = 64


@dataclass(frozen=True)
class Truth:
    """The exact posterior at frozen hyperparameters, and what is needed to compare with it."""

    task: Task
    law: tuple[FloatArray, FloatArray]
    probes: FloatArray
    products: FloatArray

    def distances(self, gp: GraphGPRegressor) -> tuple[float, float, float]:
        """Kernel error, test RMSE and KL of an approximate model."""
        mean, cov = gp.predict(self.task.test, return_cov=True)
        error = relative_error(prior_products(gp, self.probes), self.products)
        return error, rmse(self.task.y_test, mean), gaussian_kl(*self.law, mean, cov)


def prior_products(gp: Model, V: FloatArray) -> FloatArray:
    """`K V` over all nodes, K the prior covariance of unit outputscale."""
    every = np.arange(gp.graph.n_nodes)
    return gp.process_.posterior.prior.product(every, every, V)


def exact_truth(problem: Task, teacher: Model) -> Truth:
    """The exact posterior at a teacher's hyperparameters, which all components of the graph share.

    Kernel errors are exact on graphs of at most 2000 nodes, and from 64 random sign vectors (to
    about 2 %) on larger ones.
    """
    exact, n = at_frozen(teacher, problem, 1, 0, PAPERS).exact_twin(), problem.graph.n_nodes
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (n, N_PROBES))
    probes = np.eye(n) if n <= DENSE_ERROR_LIMIT else signs
    law = exact.predict(problem.test, return_cov=True)
    return Truth(problem, law, probes, prior_products(exact, probes))


def frozen(
    name: str,
    n_draws: int,
    methods: list[str],
    time: float | None,
    sizes: list[int] | None,
    lines: JsonLines,
    tick: Tick,
) -> tuple[list[Any], list[list[Any]], Found]:
    """The frozen hyperparameters, one row for each number of walkers and method, and the figures."""
    problem = task(name, 0)
    tick(f"{name}: hyperparameters")
    teacher = fit_teacher(problem, time)
    truth = exact_truth(problem, teacher)
    summary = frozen_summary(name, teacher, truth)
    lines.write(what="frozen", data=name, **dict(zip(SUMMARY, summary, strict=True)))
    rows: list[list[Any]] = []
    every: Found = {}
    for m in sizes or ((4, 8, 16) if name == "traffic" else (16, 32, 64)):
        found = {}
        for method in methods:
            tick(f"{name}: m={m} {method}")
            draws = [
                truth.distances(at_frozen(teacher, problem, m, seed, FROZEN[method]))
                for seed in range(n_draws)
            ]
            found[method] = every[name, m, method] = np.array(draws)
        for method, values in found.items():
            rows.append([name, m, method, *frozen_cells(values, found.get("iid"))])
            for figure, column in zip(("kernel_error", "rmse", "kl"), values.T, strict=True):
                mean, error = mean_and_error(column)
                lines.write(
                    what=figure, data=name, n_walks=m, method=method, draws=n_draws,
                    mean=mean, error=error,
                )  # fmt: skip
    return summary, rows, every


def fit_teacher(problem: Task, time: float | None) -> Model:
    """The model whose hyperparameters are frozen: 8 i.i.d. walkers, or exact at a given time."""
    gp: Model
    if time is None:
        gp = GraphGPRegressor(
            problem.graph, "heat", 8, "iid", random_state=0, **folded(GraphGPRegressor, PAPERS)
        )
    else:
        gp = ExactGraphGPRegressor(
            problem.graph, HeatKernel(time), options={"fixed": ("kernel",)}, random_state=0
        )
    gp.fit(problem.train, problem.y)
    return gp


SUMMARY = ["mesh", "N", "hidden", "t", "outputscale", "noise", "exact RMSE", "exact NLPD"]


def frozen_summary(name: str, teacher: Model, truth: Truth) -> list[Any]:
    """Size and exact GP at the frozen hyperparameters."""
    mean, cov = truth.law
    y, problem = truth.task.y_test, truth.task
    scores = [rmse(y, mean), nlpd(y, mean, np.sqrt(np.diag(cov)))]
    heat_time = float(np.exp(teacher.kernel_.theta[0]))
    sizes = [problem.graph.n_nodes, problem.test.size]
    return [name, *sizes, heat_time, teacher.outputscale_, teacher.noise_, *scores]


def at_frozen(
    teacher: Model, problem: Task, n_walks: int, seed: int, settings: Settings
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
        **folded(GraphGPRegressor, settings),
    )
    return gp.fit(problem.train, problem.y)


def frozen_cells(values: FloatArray, iid: FloatArray | None) -> list[str]:
    """Mean and error of each figure, and how far from i.i.d. the KL is."""
    cells = [with_error(*mean_and_error(column)) for column in values.T]
    if iid is None or values is iid:
        return [*cells, ""]
    return [*cells, n_errors(*mean_and_error(values[:, 2] - iid[:, 2]))]


def print_frozen(
    names: list[str],
    n_draws: int,
    methods: list[str],
    time: float | None,
    sizes: list[int] | None,
    lines: JsonLines,
    tick: Tick,
) -> Found:
    """Both tables of the papers' protocol; the figures of every draw."""
    parts = [frozen(name, n_draws, methods, time, sizes, lines, tick) for name in names]
    print(table(SUMMARY, [summary for summary, _, _ in parts]), "\n")
    header = ["data", "m", "method", "kernel error", "RMSE", "KL", "KL distance to iid"]
    print(table(header, [row for _, rows, _ in parts for row in rows]))
    return {key: values for _, _, found in parts for key, values in found.items()}


def record_frozen(found: Found, n_draws: int) -> None:
    """Figures 4 (meshes) and 11 (traffic): what sigma does to each figure of i.i.d. walkers."""
    kept = Record("mesh_and_traffic", command())
    for item, is_traffic in (("Figure 4", False), ("Figure 11", True)):
        own = {key: values for key, values in found.items() if (key[0] == "traffic") is is_traffic}
        if own:
            record_sigma(kept.item("variance-reducing-couplings", item), own)
            kept.findings[-1].note(
                f"{n_draws} draws of walkers, one split; hyperparameters by the evidence of 8 i.i.d. "
                "walkers, found with L-BFGS where the paper took 1000 steps of Adam."
            )
    kept.write()


def record_sigma(finding: Finding, found: Found) -> None:
    """Figures of i.i.d., antithetic and sigma walkers, and the claims about them."""
    for (name, m, method), values in found.items():
        for figure, column in zip(("kernel error", "RMSE", "KL"), values.T, strict=True):
            finding.figure(f"{name}, m = {m}, {figure}, {method}", *mean_and_error(column))
    cells = {(name, m) for name, m, _ in found}
    means = {key: values.mean(0) for key, values in found.items()}
    for index, figure in ((0, "kernel error"), (2, "KL to the exact posterior")):
        for other in ("iid", "antithetic"):
            finding.claim(
                f"{figure}: sigma below {other} in each of {len(cells)} cells",
                all(means[*cell, "sigma"][index] < means[*cell, other][index] for cell in cells),
            )
    gaps = [
        mean_and_error(found[*cell, "sigma"][:, 1] - found[*cell, "iid"][:, 1]) for cell in cells
    ]
    finding.claim(
        "test RMSE: sigma nowhere above iid by two standard errors",
        all(gap <= 2 * error for gap, error in gaps),
    )
    best = max(means[*cell, "iid"][2] / means[*cell, "sigma"][2] for cell in cells)
    if len({name for name, _ in cells}) > 1:
        finding.claim(f"somewhere by a factor above 2 (KL: {best:.2f})", best > 2)
