"""Coverage of forecasts in simulated worlds, some of whose levels shift.

    python -m benchmarks.levels_that_shift

Eight sensors of a road have an autoregression, alone, with a season of days, with levels that jump
every day and a half, and with a random walk. Models are fitted to six days of 15-minute steps, and
forecast 12 hours from thirty times of the three days after.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import coupledgp as cgp
from coupledgp.random import FloatArray

P, DAY, FITTED = 8, 96, 6
WORLDS = ("autoregression", "season of days", "levels that jump", "random walk")
HORIZONS = (1, 4, 12, 48)


def world(kind: str, seed: int, n: int) -> FloatArray:
    """Values (p, n) of a kind."""
    rng = np.random.default_rng(seed)
    x, e = np.zeros((P, n)), rng.normal(size=(P, n))
    first = np.arange(P) > 0
    for t in range(1, n):
        x[:, t] = 0.7 * x[:, t - 1] + 0.2 * np.roll(x[:, t - 1], 1) * first + e[:, t]
    if kind == "season of days":
        x += 6.0 * np.sin(2 * np.pi * np.arange(n) / DAY + np.arange(P)[:, None] / 3)
    if kind == "levels that jump":
        level = np.zeros(P)
        for t in range(n):
            jumps = rng.random(P) < 1 / (1.5 * DAY)
            level = np.where(jumps, 6.0 * rng.normal(size=P), level)
            x[:, t] += level
    if kind == "random walk":
        x += np.cumsum(0.25 * rng.normal(size=(P, n)), axis=1)
    return 50.0 + x


def covered(kind: str, seed: int, n_origins: int) -> list[list[float]]:
    """Shares of values in 95 % intervals at each horizon, for each origin."""
    n, last = DAY * (FITTED + 3), DAY * FITTED
    y = world(kind, seed, n)
    times = np.datetime64("2026-03-02") + np.arange(n) * np.timedelta64(15, "m")
    road = cgp.Graph.from_edges(range(P - 1), range(1, P))
    model = cgp.GraphTimeGPRegressor(road, progress=False)
    model.fit(range(P), y[:, :last], times=times[:last])
    found = []
    for origin in np.linspace(last, n - max(HORIZONS), n_origins).astype(int).tolist():
        if origin > last:
            model.partial_fit(range(P), y[:, last:origin], times=times[last:origin])
            last = origin
        mean, std = model.forecast("12h")
        inside = np.abs(mean - y[:, origin : origin + 48]) < 1.959964 * std
        found.append([float(inside[:, h - 1].mean()) for h in HORIZONS])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--origins", type=int, default=30)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| world | 15 min | 1 h | 3 h | 12 h |\n|---|---|---|---|---|")
    for kind in WORLDS:
        rows = [
            row for seed in range(options.seeds) for row in covered(kind, seed, options.origins)
        ]
        print(f"| {kind} | " + " | ".join(f"{x:.3f}" for x in np.mean(rows, axis=0)) + " |")


if __name__ == "__main__":
    main()
