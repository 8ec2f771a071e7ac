"""Additive features of tables: alone, beside a local part, and on a million rows.

    python benchmarks/performance/additive_at_scale.py tables [--out FILE]
    python benchmarks/performance/additive_at_scale.py rows N [--out FILE]

`tables` fits additive features, a local part, the two together and boosted trees to each table and
prints error, log density, coverage and CPU seconds. `rows` fits additive features to N generated
rows of eight columns and prints CPU seconds, error and the memory above that of the data.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from coupledgp.datasets.uci import load
from coupledgp.models import LocalGPRegressor
from coupledgp.random import FloatArray

# Rows to fit to and to predict.
TABLES = {"power": (7654, 1500), "kin40k": (6000, 1500), "airfoil": (1300, 200)}
MODELS: dict[str, dict[str, Any]] = {
    "additive": {"kernel": "additive(2, full=false)", "trend": "constant"},
    "local": {"kernel": "auto"},
    "additive and local": {"kernel": "auto + additive(2)"},
}


def scores(y: FloatArray, mean: FloatArray, std: FloatArray) -> dict[str, float]:
    """RMSE, mean negative log density and coverage of 95 % intervals, targets of variance one."""
    gaps = (y - mean) / std
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "nlpd": float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * gaps**2)),
        "coverage": float(np.mean(np.abs(gaps) < 1.96)),
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the CPU seconds that it takes."""
    start = time.process_time()
    return work(), time.process_time() - start


def on_table(name: str) -> dict[str, dict[str, float]]:
    """Scores of all models of one table."""
    n_rows, n_test = TABLES[name]
    table = load(name)
    order = np.random.default_rng(0).permutation(len(table.y))
    X, y = table.X[order], table.y[order]
    y = (y - y[:n_rows].mean()) / y[:n_rows].std()
    new = slice(n_rows, n_rows + n_test)
    found = {}
    for model, settings in MODELS.items():
        gp = LocalGPRegressor(n_frequencies=0, random_state=0, **settings)
        _, seconds = timed(lambda gp=gp: gp.fit(X[:n_rows], y[:n_rows]))
        mean, std = gp.predict(X[new], return_std=True)
        found[model] = scores(y[new], mean, std) | {"seconds": seconds}
    trees = HistGradientBoostingRegressor(random_state=0)
    _, seconds = timed(lambda: trees.fit(X[: n_rows * 9 // 10], y[: n_rows * 9 // 10]))
    held = slice(n_rows * 9 // 10, n_rows)
    spread = np.full(n_test, np.std(y[held] - trees.predict(X[held])))
    _, again = timed(lambda: trees.fit(X[:n_rows], y[:n_rows]))
    found["boosted trees"] = scores(y[new], trees.predict(X[new]), spread[: len(y[new])]) | {
        "seconds": seconds + again
    }
    return found


def on_rows(n_rows: int) -> dict[str, float]:
    """Cost and error of additive features on generated rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (n_rows + 10_000, 8))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) * X[:, 4]
    y = truth + 0.3 * rng.standard_normal(len(X))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gp = LocalGPRegressor(n_frequencies=0, random_state=0, **MODELS["additive"])
    _, seconds = timed(lambda: gp.fit(X[:n_rows], y[:n_rows]))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (mean, std), predicting = timed(lambda: gp.predict(X[n_rows:], return_std=True))
    return {
        "rows": n_rows, "seconds": seconds, "seconds_predict_10000": predicting,
        "megabytes_above_data": (most - before) / 1024, "megabytes_data": X.nbytes / 2**20,
        "rmse_of_truth": float(np.sqrt(np.mean((mean - truth[n_rows:]) ** 2))),
        **scores(y[n_rows:], mean, std),
    }  # fmt: skip


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tables", "rows"])
    parser.add_argument("n_rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: Any = (
        {name: on_table(name) for name in options.tables}
        if options.what == "tables"
        else on_rows(options.n_rows)
    )
    text = json.dumps(found, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
