"""Fields on parts with creases: the mesh whole, cut at creases, and the choice by evidence.

    python -m benchmarks.performance.fields_on_creased_parts [--sensors N ...] [--seeds N]

`stairs` and `bracket` are extruded polygons, of 12 and 8 sides. `levels` is a level of each side,
drawn from a standard normal law; `waves` has a level and a wave of each side; `smooth` is a wave of
position. Noise is 2 % of the field's standard deviation; RMSE is in units of it. The columns are
RMSE, NLPD of the field in these units, coverage of 95 % intervals, the share of fits that took the
cut, and CPU seconds of a fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import trimesh
from scipy.stats import norm

import coupledgp as cgp

NOISE, DEPTH = 0.02, 2.0
STAIRS = [
    (0.0, 0.0), (4.0, 0.0), (4.0, 0.7), (3.0, 0.7), (3.0, 1.4), (2.0, 1.4), (2.0, 2.1),
    (1.0, 2.1), (1.0, 2.8), (0.0, 2.8),
]  # fmt: skip
BRACKET = [(0.0, 0.0), (4.0, 0.0), (4.0, 0.5), (0.5, 0.5), (0.5, 3.0), (0.0, 3.0)]
PARTS = {"stairs": STAIRS, "bracket": BRACKET}
FIELDS = ("levels", "waves", "smooth")


def extruded(outline: list[tuple[float, float]]) -> trimesh.Trimesh:
    """A right-angled polygon times an interval, from the cells of the lattice of its corners."""
    corners = np.array(outline)
    xs, ys = (np.unique(corners[:, axis]) for axis in (0, 1))
    cells = [
        [(xs[i], ys[j]), (xs[i + 1], ys[j + 1])]
        for i in range(xs.size - 1)
        for j in range(ys.size - 1)
        if is_inside(corners, (xs[i] + xs[i + 1]) / 2, (ys[j] + ys[j + 1]) / 2)
    ]
    sides: dict[frozenset[Any], Any] = {}
    quads = []
    for (x0, y0), (x1, y1) in cells:
        ring = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
        quads.append([(*p, DEPTH) for p in ring])
        quads.append([(*p, 0.0) for p in ring[::-1]])
        for a, b in zip(ring, ring[1:] + ring[:1], strict=True):
            key = frozenset([a, b])
            if sides.pop(key, None) is None:  # of two cells: within the part
                sides[key] = (a, b)
    quads += [[(*a, 0.0), (*b, 0.0), (*b, DEPTH), (*a, DEPTH)] for a, b in sides.values()]
    corner = np.arange(4 * len(quads)).reshape(-1, 4)
    faces = np.vstack([corner[:, [0, 1, 2]], corner[:, [0, 2, 3]]])
    return trimesh.Trimesh(np.array(quads, dtype=float).reshape(-1, 3), faces)


def is_inside(corners: np.ndarray, x: float, y: float) -> bool:
    """Whether a ray from a point to the right crosses the upright sides an odd number of times."""
    ends = np.roll(corners, -1, axis=0)
    spans = (np.minimum(corners[:, 1], ends[:, 1]) < y) & (
        y < np.maximum(corners[:, 1], ends[:, 1])
    )
    return bool(np.count_nonzero(spans & (corners[:, 0] > x)) % 2)


def field(name: str, n_sides: int, rng: np.random.Generator) -> Any:
    """A function of positions (n, 3) and sides (n,)."""
    levels, slopes, waves = (rng.normal(size=(n_sides, k)) for k in (1, 3, 3))
    if name == "levels":
        return lambda X, side: levels[side, 0]
    if name == "waves":
        return lambda X, side: levels[side, 0] + np.sin((X * waves[side]).sum(axis=1))
    return lambda X, side: np.sin(X @ waves[0]) + 0.15 * X @ slopes[0]


def scores(part: str, name: str, n: int, seed: int, n_tests: int) -> list[dict[str, Any]]:
    """Scores of one draw of field and sensors."""
    mesh = extruded(PARTS[part])
    whole = cgp.LaplaceOperator.from_trimesh(mesh, max_edge="auto")
    cut = cgp.LaplaceOperator.from_trimesh(mesh).with_creases()
    side = cut.components()[1][cut.elements[:, 0]]
    rng = np.random.default_rng(seed)
    f = field(name, side.max() + 1, rng)
    X, face = trimesh.sample.sample_surface(mesh, n, seed=seed)
    T, of_tests = trimesh.sample.sample_surface(mesh, n_tests, seed=seed + 1000)
    truth = f(T, side[of_tests])
    scale = truth.std()
    y = f(X, side[face]) + NOISE * scale * rng.normal(size=n)
    models: dict[str, dict[str, Any]] = {
        "whole": {"operator": whole, "creases": "ignored"},
        "cut": {"operator": whole.with_creases()},
        "auto": {"operator": whole},
    }
    found = []
    for label, options in models.items():
        gp = cgp.FieldGPRegressor(**options, random_state=0)
        start = time.process_time()
        gp.fit(X, y)
        seconds = time.process_time() - start
        mean, std = gp.predict(T, return_std=True, latent=True)
        row = {
            "rmse": np.sqrt(np.mean((mean - truth) ** 2)) / scale,
            "nlpd": float(-norm.logpdf(truth, mean, std).mean() - np.log(scale)),
            "coverage": np.mean(np.abs(truth - mean) < 1.96 * std),
            "cuts": float(gp.operator_.copies is not None),
            "cpu_s": seconds,
        }
        found.append({"part": part, "field": name, "sensors": n, "model": label, **row})
    return found


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sensors", type=int, nargs="+", default=[30, 80])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=300)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        row
        for part in PARTS
        for name in FIELDS
        for n in options.sensors
        for seed in range(options.seeds)
        for row in scores(part, name, n, seed, options.tests)
    ]
    keys = ["part", "field", "sensors", "model"]
    print(pd.DataFrame(rows).groupby(keys, sort=False).mean().round(3).to_string())


if __name__ == "__main__":
    main()
