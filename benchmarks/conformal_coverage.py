"""Shares of new targets in a model's own intervals and in conformal ones of 80 %.

    python benchmarks/conformal_coverage.py --tables 100

Tables of 100 training and 100 new rows, with residuals of Student's law with three degrees of
freedom or with errors that days share. The noise of the exact model is right, a tenth, ten times
the right one, or fitted with the other hyperparameters.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import coupledgp as cgp
from coupledgp.random import FloatArray, IntArray

LEVEL = 0.8
MODELS: dict[str, dict[str, Any]] = {
    "noise as it is": {"noise": 0.09},
    "a tenth of it": {"noise": 0.009},
    "ten times": {"noise": 0.9},
    "fitted": {},
}


def table(seed: int, shares: bool) -> tuple[FloatArray, FloatArray, IntArray]:
    """Rows (200, 1), targets and days of eight rows each, whose errors they share or not."""
    rng = np.random.default_rng([seed, int(shares)])
    X, day = rng.uniform(-2, 2, (200, 1)), np.arange(200) // 8
    noise = 0.3 * rng.standard_t(3, size=200) / np.sqrt(3)
    if shares:
        noise = 0.25 * rng.normal(size=25)[day] + 0.16 * rng.normal(size=200)
    return X, np.sin(2 * X[:, 0]) + noise, day


def main() -> None:
    """Print the shares with standard errors over tables, and widths."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=100)
    n_tables = parser.parse_args().tables
    print("| errors | noise | own | width | conformal | width | by day | width |")
    for shares in (False, True):
        for name, given in MODELS.items():
            fixed = {"lengthscale": 0.8, "outputscale": 1.0, "optimizer": None} if given else {}
            gp = cgp.ExactGPRegressor(**fixed, **given, normalize_y=False, random_state=0)
            found: dict[str, list[tuple[float, float]]] = {"own": [], "conformal": [], "day": []}
            for seed in range(n_tables):
                X, y, day = table(seed, shares)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    gp.fit(X[:104], y[:104])
                for kind, asked in (("own", {}), ("conformal", {"conformal": True}),
                                    ("day", {"conformal": True, "groups": day[:104]})):  # fmt: skip
                    low, high = gp.predict_interval(X[104:], LEVEL, **asked)
                    inside = (low <= y[104:]) & (y[104:] <= high)
                    found[kind].append((float(inside.mean()), float((high - low).mean())))
            cells = []
            for values in map(np.array, found.values()):
                error = values[:, 0].std() / np.sqrt(n_tables)
                cells.append(f"{100 * values[:, 0].mean():.1f} ± {100 * error:.1f} % | "
                             f"{values[:, 1].mean():.2f}")  # fmt: skip
            kind = "shared by days" if shares else "heavy tails"
            print(f"| {kind} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
