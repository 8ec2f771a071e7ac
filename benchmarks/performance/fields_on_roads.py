"""Speeds at hidden sensors of San Jose's highways, against what a person would use instead.

    python -m benchmarks.performance.fields_on_roads [--splits N] [--graph-splits N]

325 sensors, mean of 26 Mondays at 17:30, miles per hour; 250 of them are seen (the split of seed s
is `numpy.random.default_rng(s).permutation(325)`), 75 hidden. `graph` is `GraphGPRegressor` with
weights mean length / length, on the first splits only, since its fit is slower.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import coupledgp as cgp
from coupledgp.kernels import WhittleMatern
from data_loaders import traffic

N_SEEN, MAX_EDGE = 250, 100.0
KERNELS: dict[str, Any] = {
    "FieldGPRegressor": "auto",
    "alpha 1": WhittleMatern(alpha=1),
    "alpha 2": WhittleMatern(alpha=2),
}


def one_split(data: Any, operator: Any, split: int, with_graph: bool) -> list[dict[str, Any]]:
    """Scores of all models in a split."""
    order = np.random.default_rng(split).permutation(data.sensors.size)
    seen, hidden = data.sensors[order[:N_SEEN]], data.sensors[order[N_SEEN:]]
    y, truth = data.speeds[order[:N_SEEN]], data.speeds[order[N_SEEN:]]
    models: dict[str, Any] = {
        name: cgp.FieldGPRegressor(operator, kernel) for name, kernel in KERNELS.items()
    }
    if with_graph:
        models["graph"] = cgp.GraphGPRegressor(data.graph, random_state=0)
    rows = []
    for name, model in models.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(seen, y)
        mean, std = model.predict(hidden, return_std=True)
        seconds = time.perf_counter() - start
        density = model.log_density(hidden, truth)
        rows.append(scored(name, truth, mean, std, density) | {"seconds": seconds})
    found = cgp.report(next(iter(models.values())), hidden, truth, exact=None, depth="scores")
    for one in found.tables.rivals:
        mean, std = one.predictions.law.mean[:, 0], one.predictions.law.std[:, 0]
        rows.append(scored(one.name, truth, mean, std, norm.logpdf(truth, mean, std)))
    return [row | {"split": split} for row in rows]


def scored(name: str, truth: Any, mean: Any, std: Any, density: Any) -> dict[str, Any]:
    """Scores of a model's predictions."""
    row = {"model": name, "rmse": np.sqrt(np.mean((truth - mean) ** 2))}
    if std is not None:
        row["nlpd"] = -np.mean(density)
        row["coverage"] = np.mean(np.abs(truth - mean) < 1.96 * std)
    return row


def main() -> None:
    """Fit all splits and print the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--graph-splits", type=int, default=2)
    given = parser.parse_args()
    data = traffic.load()
    operator = cgp.LaplaceOperator.from_edges(
        data.ends[:, 0], data.ends[:, 1], data.lengths,
        n_nodes=len(data.positions), max_edge=MAX_EDGE,
    )  # fmt: skip
    print(operator)
    rows: list[dict[str, Any]] = []
    for split in range(given.splits):
        rows += one_split(data, operator, split, with_graph=split < given.graph_splits)
    table = pd.DataFrame(rows)
    scores = table.groupby("model", sort=False)[["rmse", "nlpd", "coverage", "seconds"]].mean()
    scores["splits"] = table.groupby("model", sort=False)["split"].nunique()
    print(scores.round(3).rename_axis(None).to_string(na_rep="-"))


if __name__ == "__main__":
    main()
