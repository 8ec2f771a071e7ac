"""Fields that depend on the side of a wall or on its orientation, with and without normals.

    python -m benchmarks.performance.fields_with_normals [--sensors N ...] [--seeds N] [--tests N]

`box` is a field of orientation alone on a box; `plate` and `tube` are thin walls whose two sides
differ; `smooth` is a field of position on the box, which normals do not help. Noise is 2 % of the
field's standard deviation; RMSE is in units of it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import trimesh
from scipy.stats import norm

import coupledgp as cgp

NOISE = 0.02
BOX = (4.0, 2.0, 1.0)
Field = Callable[[np.ndarray, np.ndarray], np.ndarray]


def orientation(X: np.ndarray, N: np.ndarray) -> np.ndarray:
    """A linear function of the normal."""
    return 3 * N[:, 2] + N[:, 0]


def sides(X: np.ndarray, N: np.ndarray) -> np.ndarray:
    """A function of position whose second term changes its sign from side to side."""
    return np.sin(X[:, 0]) + np.sign(N[:, 2]) * np.cos(X[:, 1])


def inside(X: np.ndarray, N: np.ndarray) -> np.ndarray:
    """The same on a tube, whose sides are inside and outside."""
    outward = np.sign((N[:, :2] * X[:, :2]).sum(axis=1))
    return np.sin(2 * X[:, 0]) + 1.5 * outward * np.cos(2 * X[:, 2])


def smooth(X: np.ndarray, N: np.ndarray) -> np.ndarray:
    """A function of position alone."""
    return np.sin(X[:, 0]) + X[:, 1]


CASES: dict[str, tuple[Any, Field]] = {
    "box, of orientation": (lambda: trimesh.creation.box(BOX), orientation),
    "plate, two sides": (lambda: trimesh.creation.box((4.0, 3.0, 0.05)), sides),
    "tube, two sides": (lambda: trimesh.creation.annulus(1.0, 1.1, 2.0), inside),
    "box, of position": (lambda: trimesh.creation.box(BOX), smooth),
}


def scores(name: str, n: int, seed: int, n_tests: int) -> list[dict[str, Any]]:
    """Scores without and with normals on one draw of sensors."""
    made, field = CASES[name]
    mesh = made()
    operator = cgp.LaplaceOperator.from_trimesh(mesh, max_edge="auto")
    X, face = trimesh.sample.sample_surface(mesh, n, seed=seed)
    places, of_places = trimesh.sample.sample_surface(mesh, n_tests, seed=seed + 1000)
    truth = field(places, mesh.face_normals[of_places])
    scale = truth.std()
    noise = NOISE * scale * np.random.default_rng(seed).normal(size=n)
    y = field(X, mesh.face_normals[face]) + noise
    plain = (cgp.kernels.WhittleMatern(), cgp.kernels.PositionKernel())
    models = {"position": plain[1], "sum": plain[0] + plain[1], "auto": "auto"}
    found = []
    for label, kernel in models.items():
        start = time.process_time()
        gp = cgp.FieldGPRegressor(operator, kernel, random_state=0).fit(X, y)
        mean, std = gp.predict(places, return_std=True, latent=True)
        row = {
            "rmse": np.sqrt(np.mean((mean - truth) ** 2)) / scale,
            # Of the field in units of its deviation: the density grows by that factor.
            "nlpd": float(-norm.logpdf(truth, mean, std).mean() - np.log(scale)),
            "coverage": np.mean(np.abs(truth - mean) < 1.96 * std),
            "cpu_s": time.process_time() - start,
        }
        found.append({"case": name, "sensors": n, "model": label, **row})
    return found


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sensors", type=int, nargs="+", default=[20, 40, 100])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tests", type=int, default=400)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        row
        for name in CASES
        for n in options.sensors
        for seed in range(options.seeds)
        for row in scores(name, n, seed, options.tests)
    ]
    table = pd.DataFrame(rows).groupby(["case", "sensors", "model"], sort=False).mean()
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
