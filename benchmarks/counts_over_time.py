"""Counts at forty places over six days, with and without the transform of counts.

    python benchmarks/counts_over_time.py [--seeds N] [--days N]

Rates have two rush hours whose size varies along the network, and deviate from them by an
autoregression that neighbours share. A twentieth of the counts is hidden, a gap of six hours at
half of the places, and the last hour.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import coupledgp as cgp
from coupledgp.random import FloatArray

P, STEPS = 40, 96
LAWS = {"poisson, 3": ("poisson", 3.0), "poisson, 30": ("poisson", 30.0),
        "negative binomial, 20": ("negative binomial", 20.0)}  # fmt: skip


def city(seed: int, days: int, law: str, scale: float) -> tuple[FloatArray, FloatArray]:
    """Weights (p, p) of a graph of nearest places, and counts (p, n)."""
    rng = np.random.default_rng(seed)
    places = rng.random((P, 2))
    D = np.linalg.norm(places[:, None] - places[None], axis=2)
    weights = np.zeros((P, P))
    for i, near in enumerate(np.argsort(D, axis=1)[:, 1:4]):
        weights[i, near] = weights[near, i] = np.exp(-((D[i, near] / 0.2) ** 2)) + 0.01
    root = np.linalg.cholesky(np.exp(-D / 0.4) + 1e-9 * np.eye(P))
    n = days * STEPS
    clock = np.arange(n) / STEPS % 1
    rush = [np.exp(-0.5 * ((clock - at) / wide) ** 2) for at, wide in ((0.33, 0.06), (0.73, 0.08))]
    sizes = [share * (1 + 0.3 * (root @ rng.normal(size=P))) for share in (1.0, 0.8)]
    profile = sum(size[:, None] * own for size, own in zip(sizes, rush, strict=True))
    level = np.exp(0.6 * (root @ rng.normal(size=P)))[:, None]
    moving = np.zeros((P, n))
    noise = root @ rng.normal(size=(P, n))
    for k in range(1, n):
        moving[:, k] = 0.95 * moving[:, k - 1] + np.sqrt(1 - 0.95**2) * noise[:, k]
    rate = scale * level * np.maximum(0.1 + 2.5 * profile, 0.02) * np.exp(0.25 * moving)
    if law == "poisson":
        return weights, rng.poisson(rate).astype(float)
    return weights, rng.negative_binomial(5, 5 / (5 + rate)).astype(float)


def scores(seed: int, days: int, law: str, scale: float) -> list[dict[str, Any]]:
    """Scores of hidden counts and of the last hour, for each option."""
    weights, counts = city(seed, days, law, scale)
    rng = np.random.default_rng(seed + 1)
    n = counts.shape[1]
    hidden = rng.random(counts.shape) < 0.05
    for place in rng.permutation(P)[: P // 2]:
        start = rng.integers(2 * STEPS, n - 24)
        hidden[place, start : start + 24] = True
    seen = np.where(hidden, np.nan, counts)[:, :-4]
    hidden, ahead = hidden[:, :-4], counts[:, -4:]
    times = pd.date_range("2026-03-02", periods=n - 4, freq="15min")
    found = []
    for option in (None, "if-counts"):
        start_time = time.process_time()
        gp = cgp.GraphTimeGPRegressor(
            cgp.Graph.from_scipy(sparse.csr_array(weights)), target_transform=option
        ).fit(np.arange(P), seen, times=times)
        mean = gp.predict(np.arange(P))[hidden]
        low, high = (end[hidden] for end in gp.predict_interval(np.arange(P)))
        y = counts[:, :-4][hidden]
        found.append({
            "target_transform": str(option), "rmse": np.sqrt(np.mean((y - mean) ** 2)),
            "mae": np.mean(np.abs(y - mean)), "coverage": np.mean((low <= y) & (y <= high)),
            "negative": np.mean(low < 0), "width": np.mean(high - low),
            "rmse_1h": np.sqrt(np.mean((gp.forecast("1h")[0] - ahead) ** 2)),
            "cpu_s": time.process_time() - start_time,
        })  # fmt: skip
    return found


def main() -> None:
    """Print means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--days", type=int, default=6)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        {"counts": name, **row}
        for name, law in LAWS.items()
        for seed in range(given.seeds)
        for row in scores(seed, given.days, *law)
    ]
    table = pd.DataFrame(rows).groupby(["counts", "target_transform"], sort=False).mean()
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
