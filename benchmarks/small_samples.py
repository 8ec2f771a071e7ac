"""Coverage of predictive intervals on few rows, nodes or sensors, by simulation.

Truths are drawn from Gaussian processes with hyperparameters from wide laws, which are not the
priors of the fits; models are fitted by their defaults. Intervals of 50, 80 and 95 % of new
observations and of the function are counted at places without observations, together with the
NLPD, for the default and for hyperparameters of maximum evidence. Each row of the result is over
200 data sets of one size; the standard error is that over data sets.

    python -m benchmarks.recorder few-rows/coverage    runs all of it and records the tables
    python benchmarks/small_samples.py graphs --quick
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import trimesh
from scipy.stats import norm

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.estimator import located
from coupledgp.kernels import (
    GraphMaternKernel,
    HeatKernel,
    PositionKernel,
    RegularizedLaplacianKernel,
    WhittleMatern,
)
from coupledgp.kernels.fields import FieldKernel
from data_loaders import meshes, traffic

SIZES = (15, 30, 60, 120)
LEVELS = (0.5, 0.8, 0.95)
N_TEST = 100


class Case(NamedTuple):
    """A simulated data set: observed and hidden points, and what is true there."""

    kind: str
    fit: dict[str, Callable[[], Any]]
    hidden: Any
    f: np.ndarray
    y: np.ndarray


class Scores(NamedTuple):
    """Coverage of observations and of the function at `LEVELS`, NLPD, and seconds of the fit."""

    coverage_y: list[float]
    coverage_f: list[float]
    nlpd: float
    seconds: float


def scores_of(fit: Callable[[], Any], case: Case) -> Scores:
    """Fit a model and count how often its intervals hold what is true."""
    start = time.perf_counter()
    model = fit()
    seconds = time.perf_counter() - start
    points = model.points(case.hidden)
    process = model.process_
    levels = np.array(LEVELS)
    of_y = process.cdf(points, case.y[:, None])[:, 0]
    of_f = latent_cdf(process, points, case.f)
    nlpd = -float(process.log_density(points, case.y[:, None]).mean())
    covered = [(np.abs(u - 0.5)[:, None] < levels / 2).mean(axis=0).tolist() for u in (of_y, of_f)]
    return Scores(covered[0], covered[1], nlpd, seconds)


def latent_cdf(process: Any, points: Any, values: np.ndarray) -> np.ndarray:
    """Chances (p,) under the law of f at points that it is at most the values."""
    mixed = isinstance(process, MixtureGP)
    members, weights = (process.members, process.weights) if mixed else ([process], [1.0])
    chances = np.zeros(len(values))
    for weight, member in zip(weights, members, strict=True):
        mean, variance = member.law(points, "variance", latent=True)
        deviation = np.sqrt(np.maximum(variance[:, 0], 1e-300))
        chances += weight * norm.cdf((values - mean[:, 0]) / deviation)
    return chances


def spread(rng: np.random.Generator, center: float, sd: float) -> float:
    """A positive number of a log-normal law."""
    return float(center * np.exp(sd * rng.standard_normal()))


def noise_of(rng: np.random.Generator) -> float:
    """Standard deviation of the noise where that of the function is one."""
    return float(np.exp(rng.uniform(np.log(0.05), np.log(0.5))))


def drawn(covariance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A draw of a centred law."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ rng.standard_normal(len(covariance))


# Tables.

TABLE_KINDS = tuple(
    (name, d) for d in (1, 3, 8) for name in ("gaussian", "matern-1/2", "matern-5/2", "additive")
)


def table_case(number: int, size: int) -> Case:
    """A table of `size` rows; every kind of function and number of columns in turn."""
    name, d = TABLE_KINDS[number % len(TABLE_KINDS)]
    rng = np.random.default_rng([number, size, 1])
    X = rng.uniform(-1.7, 1.7, (size + N_TEST, d))
    relevant = d if d < 8 else 4
    lengthscales = np.array([spread(rng, 0.8 * np.sqrt(relevant), 0.5) for _ in range(relevant)])
    f = drawn(table_covariance(name, X[:, :relevant], lengthscales), rng)
    y = f + noise_of(rng) * rng.standard_normal(len(f))
    offset, scale = 10.0 * rng.standard_normal(), spread(rng, 1.0, 2.0)
    f, y = offset + scale * f, offset + scale * y
    seen, hidden = slice(0, size), slice(size, None)

    def default() -> Any:
        return cgp.GPRegressor(random_state=number).fit(X[seen], y[seen])

    def maximum() -> Any:
        return cgp.ExactGPRegressor(random_state=number).fit(X[seen], y[seen])

    fits = {"default": default, "maximum": maximum}
    return Case(f"{name}, d = {d}", fits, X[hidden], f[hidden], y[hidden])


def table_covariance(name: str, X: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
    """Covariance of unit variance of a function of columns."""
    squares = ((X[:, None] - X) / lengthscales) ** 2
    if name == "additive":
        return np.exp(-0.5 * squares * 2.0).mean(axis=2)
    r = np.sqrt(squares.sum(axis=2))
    if name == "matern-1/2":
        return np.exp(-r)
    if name == "matern-5/2":
        return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)
    return np.exp(-0.5 * r**2)


# Graphs.


def road_grid(rng: np.random.Generator) -> nx.Graph:
    """A grid of streets of which some are missing and some diagonal."""
    graph = nx.grid_2d_graph(17, 17)
    edges = list(graph.edges)
    graph.remove_edges_from([edges[k] for k in rng.permutation(len(edges))[: len(edges) // 6]])
    nodes = list(graph.nodes)
    for k in rng.permutation(len(nodes))[:20]:
        a, b = nodes[k]
        if (a + 1, b + 1) in graph:
            graph.add_edge((a, b), (a + 1, b + 1))
    return graph


def geometric(rng: np.random.Generator) -> nx.Graph:
    """Nodes in a square, linked where near, with weights that fall with the distance."""
    graph = nx.random_geometric_graph(300, 0.11, seed=int(rng.integers(2**31)))
    places = nx.get_node_attributes(graph, "pos")
    for a, b in graph.edges:
        gap = np.linalg.norm(np.subtract(places[a], places[b]))
        graph[a][b]["weight"] = float(np.exp(-((gap / 0.11) ** 2)))
    return graph


GRAPHS: dict[str, Callable[[np.random.Generator], nx.Graph]] = {
    "road grid": road_grid,
    "random geometric": geometric,
    "Barabasi-Albert": lambda rng: nx.barabasi_albert_graph(300, 3, seed=int(rng.integers(2**31))),
    "tree": lambda rng: nx.random_labeled_tree(300, seed=int(rng.integers(2**31))),
    "cycle": lambda rng: nx.cycle_graph(300),
    "barbell": lambda rng: nx.barbell_graph(100, 60),
    "small world": lambda rng: nx.connected_watts_strogatz_graph(
        300, 6, 0.1, seed=int(rng.integers(2**31))
    ),
}


def graph_kernel(rng: np.random.Generator) -> Any:
    """A kernel of one of the families that a fit compares."""
    family = int(rng.integers(3))
    if family == 0:
        return HeatKernel(spread(rng, 8.0, 1.0))
    if family == 1:
        return RegularizedLaplacianKernel(spread(rng, 16.0, 1.0))
    return GraphMaternKernel(spread(rng, 5.0, 0.5))


def graph_case(number: int, size: int) -> Case:
    """A signal on a graph, of which `size` nodes are observed."""
    rng = np.random.default_rng([number, size, 2])
    kind = list(GRAPHS)[number % len(GRAPHS)]
    made = GRAPHS[kind](rng)
    largest = made.subgraph(max(nx.connected_components(made), key=len))
    graph = cgp.Graph.from_networkx(nx.convert_node_labels_to_integers(largest))
    values, vectors = np.linalg.eigh(graph.normalized_adjacency.toarray())
    K = (vectors * graph_kernel(rng).spectral(values)) @ vectors.T
    n = graph.n_nodes
    f = drawn(K * (n - 1) / (np.trace(K) - K.sum() / n), rng)  # variance one about its mean
    scale = spread(rng, 1.0, 2.0)
    y = scale * (f + noise_of(rng) * rng.standard_normal(n))
    order = rng.permutation(n)
    seen, hidden = order[:size], order[size : size + N_TEST]

    def default() -> Any:
        return cgp.GraphGPRegressor(graph, random_state=number).fit(seen, y[seen])

    def maximum() -> Any:
        model = cgp.ExactGraphGPRegressor(graph, random_state=number, hyperparameters="maximum")
        return model.fit(seen, y[seen])

    fits = {"default": default, "maximum": maximum}
    return Case(kind, fits, hidden, scale * f[hidden], y[hidden])


# Meshes and networks of streets.


def bumpy(rng: np.random.Generator) -> trimesh.Trimesh:
    """An open surface over a square, with bumps."""
    side = 25
    x, y = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side))
    z = sum(
        0.15 * rng.standard_normal() * np.sin(a * 3 * x + b * 3 * y + rng.uniform(0, 6))
        for a, b in rng.standard_normal((4, 2))
    )
    vertices = np.stack([x.ravel(), y.ravel(), np.ravel(z)], axis=1)
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    faces = np.concatenate(
        [
            np.stack([corner, corner + 1, corner + side], axis=1),
            np.stack([corner + 1, corner + side + 1, corner + side], axis=1),
        ]
    )
    return trimesh.Trimesh(vertices, faces, process=False)


def streets(rng: np.random.Generator) -> cgp.LaplaceOperator:
    """A network of streets with lengths in metres."""
    graph = nx.convert_node_labels_to_integers(road_grid(rng))
    graph = graph.subgraph(max(nx.connected_components(graph), key=len))
    graph = nx.convert_node_labels_to_integers(graph)
    edges = np.array(graph.edges)
    lengths = 100.0 * np.exp(0.4 * rng.standard_normal(len(edges)))
    return cgp.LaplaceOperator.from_edges(edges[:, 0], edges[:, 1], lengths=lengths, max_edge=60.0)


SURFACES: dict[str, Callable[[np.random.Generator], cgp.LaplaceOperator]] = {
    "sphere": lambda rng: cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(3)),
    "torus": lambda rng: cgp.LaplaceOperator.from_trimesh(
        trimesh.creation.torus(1.0, 0.35, major_sections=36, minor_sections=18)
    ),
    "open, bumpy": lambda rng: cgp.LaplaceOperator.from_trimesh(bumpy(rng)),
    "streets": streets,
}


def field_kernel(operator: cgp.LaplaceOperator, rng: np.random.Generator) -> FieldKernel:
    """A kernel along the surface or network, of position, or both."""
    diameter = operator.diameter
    if operator.dimension == 1:
        return FieldKernel(WhittleMatern(spread(rng, 0.5 * diameter, 0.5), int(rng.integers(1, 3))))
    along = WhittleMatern(spread(rng, 0.5 * diameter, 0.5), int(2 * rng.integers(1, 3)))
    name = ("matern-5/2", "gaussian")[int(rng.integers(2))]
    position = PositionKernel(name, spread(rng, 0.25 * diameter, 0.4))
    family = int(rng.integers(3))
    if family == 0:
        return FieldKernel(along)
    if family == 1:
        return FieldKernel(None, position)
    return FieldKernel(along, position, float(rng.uniform(0.2, 0.8)))


def field_case(number: int, size: int) -> Case:
    """A field on a mesh or on streets, with `size` sensors at vertices."""
    rng = np.random.default_rng([number, size, 3])
    kind = list(SURFACES)[number % len(SURFACES)]
    operator = SURFACES[kind](rng)
    vertices = rng.permutation(np.flatnonzero(operator.given_vertices >= 0))[: size + N_TEST]
    places = located(operator, vertices, "vertices")
    K = FieldCovariance(operator).gram(field_kernel(operator, rng), places)
    f = drawn(K, rng)
    offset, scale = 5.0 * rng.standard_normal(), spread(rng, 1.0, 2.0)
    y = offset + scale * (f + noise_of(rng) * rng.standard_normal(len(f)))
    f = offset + scale * f
    seen, hidden = slice(0, size), slice(size, None)

    def model(hyperparameters: str) -> Callable[[], Any]:
        return lambda: cgp.FieldGPRegressor(
            operator, random_state=number, hyperparameters=hyperparameters
        ).fit(vertices[seen], y[seen])

    fits = {"default": model("averaged"), "maximum": model("maximum")}
    return Case(kind, fits, vertices[hidden], f[hidden], y[hidden])


# Real values.


def real_case(number: int, size: int) -> Case:
    """Speeds on highways as a field and on a graph, and heights of normals on a mesh's faces."""
    kind = ("speeds, field", "speeds, graph", "normals, graph")[number % 3]
    rng = np.random.default_rng([number // 3, size, 4])
    if kind == "normals, graph":
        mesh = meshes.load("teapot")
        graph, places = mesh.graph, np.arange(mesh.graph.n_nodes)
        y = mesh.mesh.face_normals[:, 2]
    else:
        data = traffic.load()
        graph, places, y = data.graph, data.sensors, data.speeds
    order = rng.permutation(places.size)
    seen, hidden = order[:size], order[size : size + N_TEST]

    def model(averages: bool) -> Callable[[], Any]:
        if kind == "speeds, field":
            operator = cgp.LaplaceOperator.from_edges(
                data.ends[:, 0], data.ends[:, 1], data.lengths,
                n_nodes=len(data.positions), max_edge=100.0,
            )  # fmt: skip
            made = cgp.FieldGPRegressor(
                operator, hyperparameters="averaged" if averages else "maximum"
            )
        else:
            made = cgp.GraphGPRegressor(
                graph, random_state=0, hyperparameters="auto" if averages else "maximum"
            )
        return lambda: made.fit(places[seen], y[seen])

    fits = {"default": model(True), "maximum": model(False)}
    return Case(kind, fits, places[hidden], y[hidden], y[hidden])


CASES: dict[str, Callable[[int, int], Case]] = {
    "tables": table_case, "graphs": graph_case, "meshes": field_case, "real": real_case,
}  # fmt: skip


def measured(
    group: str, size: int, number: int, methods: list[str], known: set[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    """Figures of the models of a data set that are not known yet."""
    wanted = [name for name in methods if (group, size, number, name) not in known]
    if not wanted:
        return
    case = CASES[group](number, size)
    for name in wanted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = scores_of(case.fit[name], case)
        names = {"group": group, "size": size, "number": number, "kind": case.kind}
        yield {**names, "method": name, **scores._asdict()}


def line(rows: list[dict[str, Any]], first: str) -> str:
    """A row of the table of results: means over data sets, with the standard error at 95 %."""
    y, f = (np.array([row[key] for row in rows]) for key in ("coverage_y", "coverage_f"))
    nlpd, count = np.array([row["nlpd"] for row in rows]), len(rows)
    error = y[:, 2].std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    quarter = np.sort(y[:, 2])[: max(count // 4, 1)].mean()
    texts = [" / ".join(f"{value:.3f}" for value in part.mean(axis=0)) for part in (y, f)]
    if rows[0]["group"] == "real":
        texts[1] = ""  # nobody knows the function there
    return (
        f"| {first} | {count} | {texts[0]} | {error:.3f} | {quarter:.2f} | {texts[1]} | "
        f"{np.median(nlpd):.3f} |"
    )


HEADER = (
    "| | size | model | data sets | observations: 50 / 80 / 95 % | error | worst quarter | "
    "function: 50 / 80 / 95 % | median NLPD |\n|---|---|---|---|---|---|---|---|---|"
)


def page(rows: list[dict[str, Any]]) -> str:
    """The results as two tables: by size, and by kind."""
    lines = [HEADER]
    keys = dict.fromkeys((row["group"], row["size"], row["method"]) for row in rows)
    for group, size, method in sorted(keys):
        own = [r for r in rows if (r["group"], r["size"], r["method"]) == (group, size, method)]
        lines.append(line(own, f"{group} | {size} | {method}"))
    lines += ["", "By kind, sizes together:", "", HEADER]
    for group, kind, name in sorted({(r["group"], r["kind"], r["method"]) for r in rows}):
        own = [r for r in rows if (r["group"], r["kind"], r["method"]) == (group, kind, name)]
        lines.append(line(own, f"{group}: {kind} | all | {name}"))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Simulate, fit and count; print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("groups", nargs="*", default=list(CASES))
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--methods", nargs="*", default=["default", "maximum"])
    parser.add_argument("--quick", action="store_true", help="four data sets of 15 and 30")
    parser.add_argument("--log", type=Path, help="JSON lines, from which a run goes on")
    asked = parser.parse_args()
    if asked.quick:
        asked.datasets, asked.sizes = 4, [15, 30]
    rows: list[dict[str, Any]] = []
    if asked.log and asked.log.exists():
        rows = [json.loads(text) for text in asked.log.read_text().splitlines()]
    known = {(r["group"], r["size"], r["number"], r["method"]) for r in rows}
    for group in asked.groups:
        for size in asked.sizes:
            for number in range(asked.datasets):
                for row in measured(group, size, number, asked.methods, known):
                    rows.append(row)
                    if asked.log:
                        with asked.log.open("a") as file:
                            file.write(json.dumps(row) + "\n")
    print(page(rows))


if __name__ == "__main__":
    main()
