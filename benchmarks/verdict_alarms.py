"""How often verdicts find fault with true models, and how often they find known faults.

    python benchmarks/verdict_alarms.py --models 200

Targets are drawn from a kernel's prior, on tables and on graphs. A model of the true kernel, with
its hyperparameters known or fitted, should be green three times; models with one fault should be
called out by the verdict that the fault concerns. Few rows may be fitted badly: fitted models are
counted apart by whether their NLPD at the test points is within .02 of that of the true process.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import coupledgp as cgp
from coupledgp.diagnostics import Report, nlpd
from coupledgp.random import FloatArray

ALARMS = ("amber", "red")
N_TEST = 200
# Nats per point by which the NLPD of a good model may be above that of the true process.
GOOD_GAP = 0.02


@dataclass(frozen=True)
class Case:
    """Tables (n, d) and (n,) of a prior, and its hyperparameters."""

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    hyper: dict[str, Any]

    @classmethod
    def of(cls, seed: int, kernel: str | None = None, n_rows: int | None = None) -> Case:
        """A case of few rows or many, smooth or rough, noisy or not."""
        rng = np.random.default_rng(seed)
        n, d = int(rng.choice([60, 150, 400])), int(rng.choice([1, 2, 4]))
        n = n if n_rows is None else n_rows
        X = rng.uniform(-2, 2, (n + N_TEST, d))
        hyper = {
            "kernel": str(rng.choice(["gaussian", "matern-3/2", "matern-1/2"])),
            "lengthscale": float(rng.choice([0.7, 1.0, 2.0])),
            "noise": float(rng.choice([0.01, 0.1, 0.3])),
            "outputscale": 1.0,
        }
        hyper["kernel"] = hyper["kernel"] if kernel is None else kernel
        prior = exact(hyper).fit(X[:1], np.zeros(1)).prior_covariance(X)
        y = np.linalg.cholesky(prior + hyper["noise"] * np.eye(len(X))) @ rng.normal(size=len(X))
        return cls(X[:n], y[:n], X[n:], y[n:], hyper)

    def true_nlpd(self) -> float:
        """NLPD of the process that the targets were drawn from, nats per point."""
        model = exact(self.hyper).fit(self.X, self.y)
        return -float(np.mean(model.log_density(self.X_test, self.y_test)))


def exact(hyper: dict[str, Any], **changes: Any) -> cgp.ExactGPRegressor:
    """An exact model whose hyperparameters are given."""
    return cgp.ExactGPRegressor(**{**hyper, **changes}, optimizer=None, normalize_y=False)


def fitted(kernel: str) -> cgp.ExactGPRegressor:
    """An exact model whose hyperparameters are fitted."""
    return cgp.ExactGPRegressor(kernel, ard=False, options={"n_restarts": 0}, random_state=0)


def features(case: Case, n_frequencies: int) -> Any:
    """A sparse-spectrum model at the case's hyperparameters."""
    return cgp.SparseSpectrumGPRegressor(
        **case.hyper, n_frequencies=n_frequencies, optimizer=None, normalize_y=False, random_state=0
    )


GOOD: dict[str, Callable[[Case], Any]] = {
    "true kernel, hyperparameters known": lambda case: exact(case.hyper),
    "true kernel, hyperparameters fitted": lambda case: fitted(case.hyper["kernel"]),
}
# Faults, and the number of the verdict that they concern.
FAULTS: dict[str, tuple[int, Callable[[Case], Any]]] = {
    "noise a tenth of the true one": (
        1, lambda case: exact(case.hyper, noise=0.1 * case.hyper["noise"])),
    "noise ten times the true one": (
        1, lambda case: exact(case.hyper, noise=10 * case.hyper["noise"])),
    "lengthscale eight times the true one": (
        0, lambda case: exact(case.hyper, lengthscale=8 * case.hyper["lengthscale"])),
    "lengthscale an eighth of the true one": (
        0, lambda case: exact(case.hyper, lengthscale=case.hyper["lengthscale"] / 8)),
    "four frequencies": (2, lambda case: features(case, 4)),
    "sixteen frequencies": (2, lambda case: features(case, 16)),
}  # fmt: skip


@dataclass(frozen=True)
class GraphCase:
    """Values at the nodes of a random geometric graph, drawn from a heat kernel, with noise."""

    graph: cgp.Graph
    prior: FloatArray
    noise: float
    y: FloatArray
    seen: FloatArray
    hidden: FloatArray

    @classmethod
    def of(cls, seed: int) -> GraphCase:
        """A case of 400 nodes, 60 or 200 of which are seen."""
        rng = np.random.default_rng([seed, 5])
        places = rng.uniform(size=(400, 2))
        squares = np.square(places[:, None] - places[None]).sum(axis=2)
        near = (squares < 0.09**2) & (squares > 0)
        graph = cgp.Graph.from_scipy(near.astype(float))
        kernel = cgp.kernels.HeatKernel(float(rng.choice([2.0, 5.0, 20.0])))
        prior = cgp.kernels.dense_kernel(graph, kernel)
        prior /= np.diagonal(prior).mean()
        noise = float(rng.choice([0.01, 0.1, 0.3]))
        root = np.linalg.cholesky(prior + noise * np.eye(400))
        order = rng.permutation(400)
        n_seen = int(rng.choice([60, 200]))
        y = root @ rng.normal(size=400)
        return cls(graph, prior, noise, y, order[:n_seen], order[n_seen:])

    def true_nlpd(self) -> float:
        """NLPD of the process that the targets were drawn from, nats per point."""
        cov = self.prior + self.noise * np.eye(400)
        cross = np.linalg.solve(cov[np.ix_(self.seen, self.seen)], cov[self.seen])[:, self.hidden]
        mean = cross.T @ self.y[self.seen]
        shared = (cross * cov[np.ix_(self.seen, self.hidden)]).sum(axis=0)
        std = np.sqrt(np.diagonal(cov)[self.hidden] - shared)
        return nlpd(self.y[self.hidden], mean, std)


def graph_report(case: GraphCase) -> Report:
    """Report on the default model of a graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cgp.GraphGPRegressor(case.graph, random_state=0)
        model.fit(case.seen, case.y[case.seen])
        return cgp.report(model, case.hidden, case.y[case.hidden], progress=False)


def table_report(model: Any, case: Case) -> Report:
    """Report on a model of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(case.X, case.y)
    return cgp.report(model, case.X_test, case.y_test, progress=False)


def counted(name: str, found: list[tuple[Report, float]]) -> None:
    """Print the alarms on reports with the NLPD of the true process, good models and others."""
    groups: dict[str, list[Report]] = {"good": [], "worse than the true process": []}
    for report, true in found:
        groups["good" if report.score("nlpd") <= true + GOOD_GAP else list(groups)[1]].append(
            report
        )
    for group, reports in groups.items():
        alarms = [sum(one.verdicts[k].colour in ALARMS for one in reports) for k in range(3)]
        some = sum(any(v.colour in ALARMS for v in one.verdicts) for one in reports)
        print(f"{name}, {group}: alarms {some} of {len(reports)} (by verdict {alarms})", flush=True)


def good_tables(n_models: int) -> None:
    """Count alarms on models of the true kernel."""
    cases = [Case.of(seed) for seed in range(n_models)]
    truths = [case.true_nlpd() for case in cases]
    for name, make in GOOD.items():
        found = [table_report(make(case), case) for case in cases]
        counted(name, list(zip(found, truths, strict=True)))


def good_graphs(n_models: int) -> None:
    """Count alarms on default models of graphs."""
    graphs = [GraphCase.of(seed) for seed in range(n_models)]
    counted("graphs, default model", [(graph_report(one), one.true_nlpd()) for one in graphs])


def faulty_tables(n_models: int) -> None:
    """Count the faults that their own verdict finds."""
    for name, (place, make) in FAULTS.items():
        cases = [Case.of(seed) for seed in range(n_models)]
        reports = [table_report(make(case), case) for case in cases]
        count = Counter(one.verdicts[place].colour for one in reports)
        print(f"{name}: verdict {place + 1} is {dict(count)}", flush=True)


PARTS = {"tables": good_tables, "graphs": good_graphs, "faults": faulty_tables}


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--only", choices=list(PARTS), nargs="*", default=list(PARTS))
    given = parser.parse_args()
    for part in given.only:
        PARTS[part](given.models)


if __name__ == "__main__":
    main()
