"""Fits on graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

import coupledgp as cgp
from benchmarks.performance.graphs_by_size import by_gmrf, by_harmonic, case_of
from benchmarks.performance.suite.comparison import Call, Comparison, Figures, Method
from benchmarks.performance.suite.rows import gaussian_figures


def _fitted(fit: Any, case: dict[str, Any]) -> Call:
    def call() -> Figures:
        law, _ = fit(case)
        mean, deviation = law()
        if deviation is None:
            return {"RMSE": float(np.sqrt(np.mean((case["noisy"] - mean) ** 2)))}
        return gaussian_figures(case["noisy"], mean, deviation)

    return call


def our_graph_fit(case: dict[str, Any]) -> Call:
    """The default of the package."""

    def call() -> Figures:
        model = cgp.GraphGPRegressor(case["graph"], random_state=0, progress=False)
        model.fit(case["seen"], case["y"])
        mean, deviation = model.predict(case["wanted"], return_std=True)
        return gaussian_figures(case["noisy"], mean, deviation)

    return call


def grid(n_nodes: int) -> dict[str, Any]:
    """A draw on a square grid, a twentieth of its nodes observed."""
    return case_of(f"grid:{n_nodes}:.05", 0)


GRAPHS = Comparison(
    "graphs",
    "A fit by the default settings on a square grid of which 5 % are observed, with standard "
    "deviations",
    "nodes",
    (1000, 10_000, 100_000),
    (225,),
    grid,
    (
        Method("coupledgp", "ours", our_graph_fit),
        Method("Markov random field, scipy", "peer", lambda c: _fitted(by_gmrf, c), largest=10_000),
        Method("harmonic interpolation", "peer", lambda c: _fitted(by_harmonic, c)),
    ),
)
