"""What else could be used: `cgp.alternatives` beside common models of tables, meshes and roads.

Each task fits the model that its name says to training rows of one random split, and prints the
gain of every alternative in NLPD (nats per point, the model's minus the alternative's, with its
standard error over test points) and the time it took.

* tables: columns and target standardised, `--rows` training rows at most and 500 test rows at most;
  an exact process with a Gaussian kernel, sampled features of the same, and `GPRegressor`;
* mesh: heights of a torus with noise of a tenth, 40 sensors, by `FieldGPRegressor`; the z component
  of normals at half of the faces, by `GraphGPRegressor`;
* traffic: speeds of San Jose, 250 of 325 sensors, by `GraphGPRegressor` and `FieldGPRegressor`.

    COUPLEDGP_DATA=FOLDER python benchmarks/performance/what_else.py [--budget 120s] [--only kin40k]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import coupledgp as cgp
from data_loaders import meshes, traffic, uci

TABLES = ("diabetes", "concrete", "kin40k")
MODELS = {
    "exact, gaussian": lambda seed: cgp.ExactGPRegressor(random_state=seed),
    "64 sampled frequencies": lambda seed: cgp.SparseSpectrumGPRegressor(
        n_frequencies=64, random_state=seed
    ),
    "GPRegressor": lambda seed: cgp.GPRegressor(random_state=seed),
}


class Task(NamedTuple):
    """A model, its training rows, test rows, and further arguments of `alternatives`."""

    name: str
    model: Any
    train: tuple[Any, np.ndarray]
    test: tuple[Any, np.ndarray]
    further: dict[str, Any]


def table_tasks(name: str, n_rows: int, seed: int) -> Iterator[Task]:
    """Three models of a table."""
    data = uci.load(name)
    order = np.random.default_rng(seed).permutation(len(data.y))
    n_test = min(500, len(order) // 4)
    test, train = order[:n_test], order[n_test:][:n_rows]
    X = (data.X - data.X[train].mean(axis=0)) / np.maximum(data.X[train].std(axis=0), 1e-12)
    y = (data.y - data.y[train].mean()) / data.y[train].std()
    for text, make in MODELS.items():
        yield Task(f"{name}, {text}", make(seed), (X[train], y[train]), (X[test], y[test]), {})


def mesh_tasks(seed: int) -> Iterator[Task]:
    """Sensors on a torus, and normals of faces."""
    mesh = meshes.load("torus").mesh
    operator = cgp.LaplaceOperator.from_trimesh(mesh)
    rng = np.random.default_rng(seed)
    order = rng.permutation(operator.n_given)
    heights = mesh.vertices[:, 2] + 0.1 * np.ptp(mesh.vertices[:, 2]) * rng.normal(size=order.size)
    parts = [(operator.at_vertices(n), heights[n]) for n in (order[:40], order[40:540])]
    yield Task("torus, 40 sensors, field", cgp.FieldGPRegressor(operator), *parts, {})
    graph = cgp.Graph.from_trimesh(mesh)
    faces = rng.permutation(graph.n_nodes)
    normals = mesh.face_normals[:, 2]
    train, test = faces[: faces.size // 2], faces[faces.size // 2 :][:1000]
    model = cgp.GraphGPRegressor(graph, random_state=seed)
    where = {"positions": mesh.triangles_center}
    yield Task(
        "torus, normals, graph", model, (train, normals[train]), (test, normals[test]), where
    )


def traffic_tasks(seed: int) -> Iterator[Task]:
    """Speeds at sensors, by the graph of junctions and along the roads."""
    data = traffic.load()
    order = np.random.default_rng(seed).permutation(len(data.sensors))
    parts = [(data.sensors[n], data.speeds[n]) for n in (order[:250], order[250:])]
    graph = cgp.GraphGPRegressor(data.graph, random_state=seed)
    yield Task("traffic, graph", graph, *parts, {"positions": data.positions})
    operator = cgp.LaplaceOperator.from_edges(*data.ends.T, data.lengths, max_edge="auto")
    yield Task("traffic, field", cgp.FieldGPRegressor(operator, random_state=seed), *parts, {})


def show(task: Task, budget: str) -> None:
    """Fit the model of a task and print its alternatives."""
    start = time.perf_counter()
    model = task.model.fit(*task.train)
    fitted = time.perf_counter() - start
    start = time.perf_counter()
    found = cgp.alternatives(model, *task.test, budget=budget, random_state=0, **task.further)
    seconds = time.perf_counter() - start
    sizes = f"{len(task.train[1])} training rows, {len(task.test[1])} test rows"
    print(f"\n{task.name}: {sizes}, fit {fitted:.1f} s, alternatives {seconds:.1f} s of {budget}")
    print(found.explain(), flush=True)


def main() -> None:
    """Run the tasks that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[*TABLES, "mesh", "traffic"])
    options = parser.parse_args()
    makers: dict[str, Callable[[], Iterator[Task]]] = {
        name: lambda name=name: table_tasks(name, options.rows, options.seed) for name in TABLES
    }
    makers["mesh"] = lambda: mesh_tasks(options.seed)
    makers["traffic"] = lambda: traffic_tasks(options.seed)
    for name in options.only:
        for task in makers[name]():
            show(task, options.budget)


if __name__ == "__main__":
    main()
