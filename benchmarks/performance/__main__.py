"""Methods on tasks of growing size beside what a user would take instead, in one run.

    python -m benchmarks.performance                      # everything, about an hour
    python -m benchmarks.performance --quick              # small sizes, one round
    python -m benchmarks.performance --only tables --rounds 3

Methods of one size take turns in one process of one thread. Printed are medians of the processor
seconds over rounds, the median over rounds of their ratio to those of the first method, the peak of
the memory of a call in a process of its own beyond data and imports, and figures of quality.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

import coupledgp as cgp
from benchmarks.performance.graphs_by_size import by_gmrf, by_harmonic, case_of
from benchmarks.performance.kin40k_against_gpytorch import make_peer
from coupledgp.attention import CoupledAttention
from coupledgp.core.search import TableObjective
from coupledgp.core.starts import SearchSpace
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.features import FourierFeatures

N_FEATURES, N_TEST, WIDTH, HEADS = 256, 2000, 64, 2
Figures = dict[str, float]
Call = Callable[[], Figures | None]


class Comparison(NamedTuple):
    """Methods on tasks of growing size; each maps a task to the call that is timed."""

    title: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    make: Callable[[int], Any]
    methods: dict[str, Callable[[Any], Call]]
    largest: Mapping[str, int] = MappingProxyType({})  # above which a method takes too long

    def at(self, size: int) -> dict[str, Callable[[Any], Call]]:
        """Methods that take part at a size."""
        return {n: m for n, m in self.methods.items() if size <= self.largest.get(n, size)}


class Table(NamedTuple):
    """Standard normal columns and a rough function of some of them, with noise of a tenth."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def table(n_rows: int, n_columns: int = 8) -> Table:
    """Rows of a size, and 2000 more for tests."""
    rng = np.random.default_rng([n_rows, n_columns])
    X = rng.normal(size=(n_rows + N_TEST, n_columns))
    f = np.sin(2.0 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2] + X[:, 3]) + 0.3 * X[:, 4]
    y = f + 0.1 * rng.normal(size=len(f))
    return Table(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def figures(y: np.ndarray, mean: np.ndarray, deviation: np.ndarray | float | None) -> Figures:
    """RMSE, mean negative log density, and share of values in central 95 % intervals."""
    found = {"RMSE": float(np.sqrt(np.mean((y - mean) ** 2)))}
    if deviation is not None:
        z = (y - mean) / deviation
        density = 0.5 * z**2 + 0.5 * np.log(2 * np.pi) + np.log(deviation)
        found |= {"NLPD": float(np.mean(density)), "coverage": float(np.mean(np.abs(z) < 1.96))}
    return found


def our_evidence(task: Table) -> Call:
    """Evidence, profiled over the variances, and its gradient in the lengthscales."""
    d = task.X.shape[1]
    features = FourierFeatures(d, N_FEATURES // 2, "orthogonal+pnc", generator=0)
    stream = FeatureStream(features, task.X, task.X.mean(axis=0), np.ones(d))
    space = SearchSpace(np.sqrt(d) * np.ones(d), ard=True)
    objective = TableObjective(FeatureEvidence(stream, task.y[:, None]), space, joint=False)
    return lambda: {"value": float(objective.value_and_gradient(np.zeros(d))[0])}


def gpytorch_evidence(task: Table) -> Call:
    """Gpytorch's `RFFKernel`, as in its documentation."""
    evaluate = make_peer(task.X, task.y, torch.float64, N_FEATURES // 2)[2]

    def call() -> None:
        evaluate()

    return call


def fitted(make: Callable[[], Any]) -> Callable[[Table], Call]:
    """Fit of an estimator that has standard deviations, and its predictions."""

    def prepare(task: Table) -> Call:
        return lambda: figures(
            task.y_test, *make().fit(task.X, task.y).predict(task.X_test, return_std=True)
        )

    return prepare


def boosting(task: Table) -> Call:
    """Gradient boosting, its standard deviation from cross-validation."""

    def call() -> Figures:
        model = HistGradientBoostingRegressor(random_state=0)
        deviation = float(np.std(task.y - cross_val_predict(model, task.X, task.y, cv=5)))
        return figures(task.y_test, model.fit(task.X, task.y).predict(task.X_test), deviation)

    return call


def our_graph_fit(case: dict[str, Any]) -> Call:
    """The default of the package."""

    def call() -> Figures:
        model = cgp.GraphGPRegressor(case["graph"], random_state=0, progress=False)
        model.fit(case["seen"], case["y"])
        return figures(case["noisy"], *model.predict(case["wanted"], return_std=True))

    return call


def graph_peer(fit: Any) -> Callable[[dict[str, Any]], Call]:
    """A fit of `graphs_by_size`."""
    return lambda case: lambda: figures(case["noisy"], *fit(case)[0]())


def attention(layer: Callable[[], torch.nn.MultiheadAttention]) -> Callable[[torch.Tensor], Call]:
    """One pass of a layer."""

    def prepare(values: torch.Tensor) -> Call:
        made = layer()

        def call() -> None:
            with torch.no_grad():
                made(values, values, values, need_weights=False)

        return call

    return prepare


COMPARISONS = {
    "evidence": Comparison(
        "Evidence and its gradient by rows, 256 features, 8 lengthscales",
        (1000, 4000, 16_000, 64_000), (500,), table,
        {"coupledgp": our_evidence, "gpytorch RFFKernel": gpytorch_evidence},
    ),
    "tables": Comparison(
        "Fit by the default settings and predictions of 2000 rows, by rows; 8 columns, 3 useless",
        (250, 1000, 4000, 16_000, 64_000), (20,), table,
        {
            "coupledgp": fitted(lambda: cgp.GPRegressor(random_state=0, progress=False)),
            "gradient boosting": boosting,
            "scikit-learn GP": fitted(lambda: GaussianProcessRegressor(
                1.0 * RBF(np.full(8, 3.0)) + WhiteKernel(0.1), normalize_y=True, random_state=0)),
            "Nystroem, Bayesian ridge": fitted(lambda: make_pipeline(
                Nystroem(gamma=1 / 18, n_components=500, random_state=0), BayesianRidge())),
        },
        {"scikit-learn GP": 1000},
    ),
    "graphs": Comparison(
        "Fit by the default settings on a square grid by nodes, 5 % of them observed",
        (1000, 10_000, 100_000), (225,), lambda n: case_of(f"grid:{n}:.05", 0),
        {"coupledgp": our_graph_fit, "Markov random field, scipy": graph_peer(by_gmrf),
         "harmonic interpolation": graph_peer(by_harmonic)},
        {"Markov random field, scipy": 10_000},
    ),
    "attention": Comparison(
        "One pass through a layer of attention by positions, 2 heads of width 32",
        (1024, 4096, 16_384, 65_536), (256,),
        lambda n: torch.randn(1, n, WIDTH, generator=torch.Generator().manual_seed(0)),
        {
            "CoupledAttention": attention(lambda: CoupledAttention(
                WIDTH, HEADS, n_frequencies=64, generator=0, batch_first=True)),
            "torch MultiheadAttention": attention(
                lambda: torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)),
        },
        {"torch MultiheadAttention": 16_384},
    ),
}  # fmt: skip


def peak(call: Call, queue: Any) -> None:
    """Peak of the resident memory in a call, in MB, beyond what was in use before it (Linux)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    call()
    queue.put(max(status("VmHWM") - before, 0.0))


def status(name: str) -> float:
    """A size in MB of `/proc/self/status`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(f"{name}:"))


def measure(comparison: Comparison, size: int, n_rounds: int) -> None:
    """Print a row for each method at a size."""
    task = comparison.make(size)
    calls = {name: prepare(task) for name, prepare in comparison.at(size).items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    quality: dict[str, Figures] = {}
    for _ in range(n_rounds):
        for name, call in calls.items():
            start = time.process_time()
            quality[name] = call() or {}
            seconds[name].append(time.process_time() - start)
    first = np.array(next(iter(seconds.values())))
    for name, call in calls.items():
        memory = "-"
        if Path("/proc/self/clear_refs").exists():
            queue = multiprocessing.get_context("fork").SimpleQueue()
            child = multiprocessing.get_context("fork").Process(target=peak, args=(call, queue))
            child.start()
            memory = f"{queue.get():.3g}"
            child.join()
        shown = [f"{quality[name][k]:.3g}" if k in quality[name] else "-"
                 for k in ("RMSE", "NLPD", "coverage")]  # fmt: skip
        ratio = np.median(np.array(seconds[name]) / first)
        cells = [str(size), name, f"{np.median(seconds[name]):.3g}", f"{ratio:.2g}", memory, *shown]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print a table for each comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=list(COMPARISONS))
    parser.add_argument("--quick", action="store_true", help="small sizes and one round")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.only:
        comparison = COMPARISONS[name]
        heads = ["size", "method", "CPU seconds", "of the first", "peak MB", "RMSE", "NLPD",
                 "coverage"]  # fmt: skip
        print(f"\n{comparison.title}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
        for size in comparison.quick if asked.quick else comparison.sizes:
            measure(comparison, size, 1 if asked.quick else asked.rounds)


if __name__ == "__main__":
    main()
