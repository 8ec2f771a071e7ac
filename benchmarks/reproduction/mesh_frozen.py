"""The papers' protocol on meshes and roads: hyperparameters frozen, walks redrawn (A9, A10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from graph_common import JsonLines, mean_and_error, n_errors, relative_error, table, with_error
from mesh_tasks import PAPERS, SIGMA, Settings, Task, task

from coupledgp import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.diagnostics import gaussian_kl, nlpd, rmse
from coupledgp.kernels import HeatKernel
from coupledgp.random import FloatArray

Tick = Callable[[str], None]
Model: TypeAlias = GraphGPRegressor | ExactGraphGPRegressor

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
    lines: JsonLines,
    tick: Tick,
) -> tuple[list[Any], list[list[Any]]]:
    """The frozen hyperparameters, and one row for each number of walkers and method."""
    problem = task(name, 0)
    tick(f"{name}: hyperparameters")
    teacher = fit_teacher(problem, time)
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


def fit_teacher(problem: Task, time: float | None) -> Model:
    """The model whose hyperparameters are frozen: 8 i.i.d. walkers, or exact at a given time."""
    gp: Model
    if time is None:
        gp = GraphGPRegressor(problem.graph, "heat", 8, "iid", random_state=0, **PAPERS)
    else:
        gp = ExactGraphGPRegressor(
            problem.graph, HeatKernel(time), fixed=("kernel",), random_state=0
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
        **settings,
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
    lines: JsonLines,
    tick: Tick,
) -> None:
    """Both tables of the papers' protocol."""
    parts = [frozen(name, n_draws, methods, time, lines, tick) for name in names]
    print(table(SUMMARY, [summary for summary, _ in parts]), "\n")
    header = ["data", "m", "method", "kernel error", "RMSE", "KL", "KL distance to iid"]
    print(table(header, [row for _, rows in parts for row in rows]))
