"""Fields on meshes from a few sensors, against the predictions that a person would use instead.

    python -m benchmarks.performance.fields_from_sensors [--meshes NAME ...] [--sensors N ...]
        [--seeds N] [--processes N] [--output FILE.csv]

Sensors and test places are drawn uniformly by area; noise is 2 % of the field's standard deviation.
Fields: `given` (20 + 30 x + 10 sin 4y + 8 cos 5z over the largest extent), `position` (a random
smooth function of position), `geodesic` (20 + 30 exp(-3 d / L), d the distance on the surface from
a random vertex, L its 95 % quantile) and `waves` (cos(2 pi d / L)). RMSE is over the field's
standard deviation, NLPD that of the field without noise in the same unit.

Meshes are those of COUPLEDGP_DATA and `flange`, a flat ring whose triangles are slivers. Distances
need potpourri3d, from the extra `benchmarks`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import trimesh
from scipy.stats import norm

import coupledgp as cgp
from coupledgp.diagnostics.rivals.surfaces import field_kind
from coupledgp.fields.locations import canonical, location_rows
from data_loaders import meshes

FIELDS = ("given", "position", "geodesic", "waves")
NAMES = ("idler_riser", "busted", "torus", "bunny", "unit_sphere", "flange")
NOISE, N_TEST = 0.02, 1000
RIVALS = ("nearest", "harmonic", "position GP", "surface Matern")


@cache
def prepared(name: str) -> tuple[Any, cgp.LaplaceOperator]:
    """A mesh and its operator with the default refinement."""
    mesh = flange() if name == "flange" else meshes.load(name).mesh
    return mesh, cgp.LaplaceOperator.from_trimesh(mesh, max_edge="auto")


def flange() -> Any:
    """A ring as a CAD program triangulates it: triangles as long as the ring is wide."""
    return trimesh.creation.annulus(r_min=1.0, r_max=4.0, height=0.5, sections=96)


def distances(name: str, source: int) -> np.ndarray:
    """Distances (n_vertices,) on the refined surface from a vertex."""
    return np.asarray(solver(name).compute_distance(source))


@cache
def solver(name: str) -> Any:
    """Distances by the heat method (Crane, Weischedel and Wardetzky, 2013), made once."""
    from potpourri3d import MeshHeatMethodDistanceSolver

    _, operator = prepared(name)
    return MeshHeatMethodDistanceSolver(operator.positions, operator.elements, use_robust=True)


def field(name: str, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Values (n_vertices,) of a field at the vertices of the refined surface."""
    _, operator = prepared(name)
    X = operator.positions
    assert X is not None
    if kind == "given":
        x, y, z = ((X - X.min(0)) / (X.max(0) - X.min(0)).max()).T
        return 20 + 30 * x + 10 * np.sin(4 * y) + 8 * np.cos(5 * z)
    if kind == "position":
        waves = rng.normal(size=(3, 200)) / (0.25 * operator.diameter)
        return np.cos(X @ waves + rng.uniform(0, 2 * np.pi, 200)) @ rng.normal(size=200)
    d = distances(name, int(rng.integers(operator.n_vertices)))
    finite = np.isfinite(d) & (d < 1e300)
    reach = np.quantile(d[finite], 0.95)
    d = np.where(finite, d, reach)
    return 20 + 30 * np.exp(-3 * d / reach) if kind == "geodesic" else np.cos(2 * np.pi * d / reach)


def one(task: tuple[str, str, int, int]) -> list[dict[str, Any]]:
    """Scores of all models for a mesh, a field, a number of sensors and a seed."""
    name, kind, n_sensors, seed = task
    mesh, operator = prepared(name)
    rng = np.random.default_rng(seed)
    values = field(name, kind, rng)
    X, _ = trimesh.sample.sample_surface(mesh, n_sensors + N_TEST, seed=seed)
    places = operator.project(X).points
    truth = location_rows(places, operator.n_vertices) @ values
    std = truth.std()
    y = truth[:n_sensors] + NOISE * std * rng.normal(size=n_sensors)
    sensors, queries, truth = places[:n_sensors], places[n_sensors:], truth[n_sensors:]
    rows = []

    def add(model: str, mean: Any, spread: Any, seconds: float) -> None:
        error = (truth - mean) / std
        row = {"mesh": name, "field": kind, "sensors": n_sensors, "seed": seed, "model": model,
               "rmse": np.sqrt(np.mean(error**2)), "seconds": seconds}  # fmt: skip
        if spread is not None:
            scale = np.maximum(spread / std, 1e-6)
            row["nlpd"] = -norm.logpdf(error, 0, scale).mean()
            row["coverage"] = np.mean(np.abs(error) < 1.96 * scale)
        rows.append(row)

    at = cgp.geometry.Locations(queries, np.zeros(len(queries)))
    seen = cgp.geometry.Locations(sensors, np.zeros(n_sensors))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, kernel in (
            ("FieldGPRegressor", "auto"), ("surface Matern", "matern"), ("position", "position"),
        ):  # fmt: skip
            start = time.perf_counter()
            gp = cgp.FieldGPRegressor(operator, kernel, random_state=0).fit(seen, y)
            mean, spread = gp.predict(at, return_std=True, latent=True)
            add(model, mean, spread, time.perf_counter() - start)
        kind = field_kind(operator, canonical(sensors), y[:, None])
        rivals = {"mean": lambda: kind.observations.predicted_by_mean(len(queries))} | {
            name: lambda make=make: make().predict(canonical(queries))
            for name, make in kind.makers.items()
        }
        for name, predicted in rivals.items():
            start = time.perf_counter()
            mean, spread = predicted()
            add(
                name,
                mean[:, 0],
                None if spread is None else spread[:, 0],
                time.perf_counter() - start,
            )
    return rows


def summary(table: pd.DataFrame) -> None:
    """Print geometric means over seeds, and their ratios to the best rival."""
    pd.set_option("display.width", 160)
    for n_sensors, part in table.groupby("sensors"):
        scores = part.assign(log=np.log(part.rmse)).pivot_table(
            index=["mesh", "field"], columns="model", values="log", sort=False
        )
        scores = np.exp(scores)
        best = scores[list(RIVALS)].min(axis=1)
        ratio = scores["FieldGPRegressor"] / best
        print(f"\n{n_sensors} sensors: RMSE, geometric means over seeds")
        print(scores.assign(ratio=ratio).round(3).to_string())
        means = np.exp(np.log(scores.div(best, axis=0)).mean())
        print("ratio to the best rival, geometric mean over cases:", means.round(3).to_dict())
        print(f"FieldGPRegressor: ratio {means['FieldGPRegressor']:.3f}, worst {ratio.max():.3f}")
        for column in ("nlpd", "coverage", "seconds"):
            print(f"{column}:", part.groupby("model")[column].mean().round(3).to_dict())


def main() -> None:
    """Run all cases and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--meshes", nargs="+", default=list(NAMES))
    parser.add_argument("--fields", nargs="+", default=list(FIELDS))
    parser.add_argument("--sensors", nargs="+", type=int, default=[15, 40, 160])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", help="CSV file of all scores")
    given = parser.parse_args()
    tasks = [
        (mesh, kind, n, seed)
        for seed in range(given.seeds)
        for n in given.sensors
        for mesh in given.meshes
        for kind in given.fields
    ]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for found in pool.map(one, tasks):
            rows += found
            if given.output:
                pd.DataFrame(rows).to_csv(given.output, index=False)
    summary(pd.DataFrame(rows))


if __name__ == "__main__":
    main()
