"""Walks and fits on graphs, fields on meshes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

import coupledgp as cgp
from benchmarks.performance.graphs_by_size import by_gmrf, by_harmonic, case_of
from benchmarks.performance.suite.comparison import Call, Comparison, Figures, Method, Target
from benchmarks.performance.suite.rows import gaussian_figures
from coupledgp.features import sample_walk_features, sample_walks

N_WALKS, P_HALT, MAX_LENGTH = 16, 0.1, 10
SERIES = 0.8 ** np.arange(MAX_LENGTH + 1)

# Walks.


def random_graph(n_nodes: int) -> cgp.Graph:
    """An Erdos-Renyi graph of mean degree ten, whose neighbours are all over memory."""
    pairs = np.random.default_rng(0).integers(n_nodes, size=(2, 5 * n_nodes))
    low, high = pairs.min(axis=0), pairs.max(axis=0)
    code = np.unique((low * n_nodes + high)[low < high])
    return cgp.Graph.from_edges(code // n_nodes, code % n_nodes, n_nodes=n_nodes)


def our_walks(graph: cgp.Graph) -> Call:
    """Features of one series, weighed while the walkers walk."""
    nodes = np.arange(graph.n_nodes)

    def call() -> None:
        sample_walk_features(
            graph, SERIES, N_WALKS, P_HALT, "iid", max_length=MAX_LENGTH, nodes=nodes, generator=0
        )

    return call


def coupled_walks(graph: cgp.Graph) -> Call:
    """All visits of coupled walkers, in compact form."""
    nodes = np.arange(graph.n_nodes)

    def call() -> None:
        sample_walks(
            graph, N_WALKS, P_HALT, "stratified+systematic", max_length=MAX_LENGTH, nodes=nodes,
            generator=0,
        )  # fmt: skip

    return call


@numba.njit(cache=False)
def _reads(values, count):  # type: ignore[no-untyped-def]
    state, found, size = np.uint64(0x9E3779B97F4A7C15), np.int64(0), np.uint64(values.size)
    for _ in range(count):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        found += values[((state >> np.uint64(32)) * size) >> np.uint64(32)]
    return found


def random_reads(graph: cgp.Graph) -> Call:
    """One random read of an array of the size of the edges for each move of a walker."""
    values = np.arange(graph.indices.size)
    moves = ((1 - P_HALT) ** np.arange(1, MAX_LENGTH + 1)).sum()
    count = int(graph.n_nodes * N_WALKS * moves)

    def call() -> None:
        _reads(values, count)

    return call


def numpy_walkers(graph: cgp.Graph) -> Call:
    """Walkers in lockstep in numpy, visits summed in a sparse matrix for each step."""
    from scipy import sparse

    degree = np.diff(graph.indptr)

    def call() -> None:
        rng = np.random.default_rng(0)
        row = np.repeat(np.arange(graph.n_nodes), N_WALKS)
        row = row[degree[row] > 0]
        position, load = row.copy(), np.ones(row.size)
        total = sparse.csr_array((graph.n_nodes, graph.n_nodes))
        for weight in SERIES[1:]:
            alive = rng.random(position.size) >= P_HALT
            position, row, load = position[alive], row[alive], load[alive] / (1 - P_HALT)
            own = degree[position]
            edge = graph.indptr[position] + (rng.random(own.size) * own).astype(int)
            position = graph.indices[edge]
            values = weight * load * np.sqrt(own) / N_WALKS
            shape = graph.n_nodes, graph.n_nodes
            total = total + sparse.csr_array((values, (row, position)), shape=shape)

    return call


WALKS = Comparison(
    "walks",
    f"Walk features of all nodes of a random graph of degree 10: {N_WALKS} walkers of each node",
    "nodes",
    (10_000, 100_000, 1_000_000),
    (1000, 4000),
    random_graph,
    (
        Method("coupledgp", "ours", our_walks),
        Method("coupledgp, coupled, all visits", "ours", coupled_walks),
        Method("random reads", "limit", random_reads),
        Method("numpy and scipy", "peer", numpy_walkers, largest=100_000),
    ),
    (Target("numpy and scipy", 0.2),),
)

# Fits on graphs.


def _fitted(fit: Any, case: dict[str, Any]) -> Call:
    def call() -> Figures:
        law, _ = fit(case)
        mean, deviation = law()
        if deviation is None:
            return {"RMSE": float(np.sqrt(np.mean((case["noisy"] - mean) ** 2)))}
        return gaussian_figures(case["noisy"], mean, deviation)

    return call


def our_graph_fit(case: dict[str, Any]) -> Call:
    """The default of the package."""

    def call() -> Figures:
        model = cgp.GraphGPRegressor(case["graph"], random_state=0, progress=False)
        model.fit(case["seen"], case["y"])
        mean, deviation = model.predict(case["wanted"], return_std=True)
        return gaussian_figures(case["noisy"], mean, deviation)

    return call


def grid(n_nodes: int) -> dict[str, Any]:
    """A draw on a square grid, a twentieth of its nodes observed."""
    return case_of(f"grid:{n_nodes}:.05", 0)


GRAPHS = Comparison(
    "graphs",
    "A fit by the default settings on a square grid of which 5 % are observed, with standard "
    "deviations",
    "nodes",
    (1000, 10_000, 100_000),
    (225,),
    grid,
    (
        Method("coupledgp", "ours", our_graph_fit),
        Method("Markov random field, scipy", "peer", lambda c: _fitted(by_gmrf, c), largest=10_000),
        Method("harmonic interpolation", "peer", lambda c: _fitted(by_harmonic, c)),
    ),
)

# Fields.


class Sphere(NamedTuple):
    """Sensors on a sphere, and what is true at others."""

    operator: cgp.LaplaceOperator
    points: np.ndarray
    y: np.ndarray
    hidden: np.ndarray
    truth: np.ndarray


def sphere(n_sensors: int) -> Sphere:
    """Sensors at random on a sphere of 10 242 vertices, of 642 for a few; noise of a fiftieth."""
    import trimesh

    rng = np.random.default_rng(n_sensors)
    points = rng.normal(size=(n_sensors + 1000, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    bump = np.exp(-20 * ((points - [1, 0, 0]) ** 2).sum(axis=1))
    y = 5 * np.sin(3 * points[:, 0]) + 3 * np.cos(4 * points[:, 1] * points[:, 2]) + 4 * bump
    y = y / y.std() + 0.02 * rng.normal(size=len(y))
    mesh = trimesh.creation.icosphere(subdivisions=3 if n_sensors < 50 else 5)
    operator = cgp.LaplaceOperator.from_trimesh(mesh)
    seen = slice(0, n_sensors)
    return Sphere(operator, points[seen], y[seen], points[n_sensors:], y[n_sensors:])


def our_field(task: Sphere) -> Call:
    """The default of the package; places are projected to the surface."""

    def call() -> Figures:
        model = cgp.FieldGPRegressor(task.operator, random_state=0, progress=False)
        model.fit(task.operator.project(task.points), task.y)
        law = model.predict(task.operator.project(task.hidden), return_std=True)
        return gaussian_figures(task.truth, *law)

    return call


def position_gp(task: Sphere) -> Call:
    """scikit-learn's exact GP of the position in space."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    def call() -> Figures:
        kernel = 1.0 * Matern(0.5, nu=2.5) + WhiteKernel(0.01)
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        model.fit(task.points, task.y)
        return gaussian_figures(task.truth, *model.predict(task.hidden, return_std=True))

    return call


def nearest(task: Sphere) -> Call:
    """The value of the nearest sensor; its deviation that of sensors from their nearest ones."""
    from scipy.spatial import KDTree

    def call() -> Figures:
        tree = KDTree(task.points)
        mean = task.y[tree.query(task.hidden)[1]]
        gaps = task.y - task.y[tree.query(task.points, k=2)[1][:, 1]]
        return gaussian_figures(task.truth, mean, float(gaps.std()))

    return call


FIELDS = Comparison(
    "fields",
    "A fit by the default settings to sensors on a sphere of 10 242 vertices, and 1000 predictions",
    "sensors",
    (50, 200, 800, 3200),
    (15,),
    sphere,
    (
        Method("coupledgp", "ours", our_field),
        Method("scikit-learn GP of position", "peer", position_gp, largest=800),
        Method("nearest sensor", "peer", nearest),
    ),
)
