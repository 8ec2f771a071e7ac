"""Observations that are left out: from the factorisation that exists, beside conditioning anew.

On concrete (1030 rows), a mesh with 40 sensors and San Jose's traffic sensors (`COUPLEDGP_DATA`):
seconds of the fit, of the laws of all observations that are left out, of the whole report, and of
conditioning on all others for some groups, times the number of groups; and the largest difference
of the two laws, of means in standard deviations and of standard deviations in per cent.

    COUPLEDGP_DATA=... OMP_NUM_THREADS=1 python benchmarks/performance/left_out_against_refits.py
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import coupledgp as cgp
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.random import FloatArray, IntArray
from data_loaders import meshes, traffic, uci


def concrete(kind: Any, **settings: Any) -> Any:
    """A model of a table, each row alone."""
    data = uci.load("concrete")
    return kind(random_state=0, **settings).fit(data.X, data.y)


def mesh_sensors() -> Any:
    """A field on a mesh from 40 sensors."""
    mesh = meshes.load("bunny").mesh
    operator = cgp.LaplaceOperator.from_trimesh(mesh)
    rng = np.random.default_rng(0)
    vertices = rng.choice(len(mesh.vertices), 40, replace=False)
    places = mesh.vertices[vertices] / mesh.extents.max()
    y = np.sin(6 * places[:, 0]) + places[:, 1] + 0.05 * rng.normal(size=40)
    return cgp.FieldGPRegressor(operator, random_state=0).fit(operator.at_vertices(vertices), y)


def road_nodes() -> Any:
    """A kernel on the nodes of San Jose's roads, from its speed sensors."""
    data = traffic.load()
    return cgp.GraphGPRegressor(data.graph, random_state=0).fit(data.sensors, data.speeds)


def roads() -> Any:
    """A field on the same roads with their lengths."""
    data = traffic.load()
    operator = cgp.LaplaceOperator.from_edges(data.ends[:, 0], data.ends[:, 1], data.lengths)
    model = cgp.FieldGPRegressor(operator, random_state=0)
    return model.fit(operator.at_vertices(data.sensors), data.speeds)


CASES: dict[str, Callable[[], Any]] = {
    "concrete, 256 frequencies": lambda: concrete(cgp.SparseSpectrumGPRegressor, n_frequencies=256),
    "concrete, exact": lambda: concrete(cgp.ExactGPRegressor),
    "concrete, local": lambda: concrete(cgp.LocalGPRegressor),
    "concrete, default model": lambda: concrete(cgp.GPRegressor),
    "mesh, 40 sensors": mesh_sensors,
    "traffic, kernel on nodes": road_nodes,
    "traffic, field on roads": roads,
}


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds of a call, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def anew(
    process: GaussianProcess, groups: IntArray, chosen: IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Rows of some groups, and their means and standard deviations given all others."""
    rows, means, stds = [], [], []
    for number in chosen:
        out = np.flatnonzero(groups == number)
        rest = process.conditioned(process.data.take(np.flatnonzero(groups != number)))
        law = rest.law(process.data.points[out], "variance")
        assert law.spread is not None
        rows.append(out)
        means.append(law.mean)
        stds.append(np.sqrt(law.spread))
    return np.concatenate(rows), np.concatenate(means), np.concatenate(stds)


def measured(name: str, most_groups: int) -> str:
    """The cells of a case and the verdict of its report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit, model = seconds(CASES[name])
    process = model.process_
    keys = process.row_keys(process.data.points)
    groups = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    n_groups = int(groups.max()) + 1
    laws, law = seconds(lambda: process.left_out_law(groups))
    report, found = seconds(lambda: cgp.diagnostics.cross_validate(model))
    count = min(most_groups, n_groups)
    chosen = np.random.default_rng(0).permutation(n_groups)[:count]
    refits, (rows, mean, std) = seconds(lambda: anew(process, groups, chosen))
    off = np.abs(law.mean[rows] - mean).max() / std.mean()
    wider = 100 * np.abs(np.sqrt(law.spread[rows]) / std - 1).max()
    return (
        f"{n_groups} | {fit:.1f} | {laws:.3f} | {report:.2f} | {refits / count * n_groups:.1f} | "
        f"{off:.1e} | {wider:.1e} | {found.rmse:.4g} | {found.nlpd:.4g}\n    {found.verdict()}"
    )


def main() -> None:
    """Print a row of a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=20, help="groups that are conditioned anew")
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    asked = parser.parse_args()
    print("case | n | fit | laws | report | n conditionings | mean off | std off | RMSE | NLPD")
    for name in asked.cases:
        print(f"{name} | {measured(name, asked.groups)}", flush=True)


if __name__ == "__main__":
    main()
