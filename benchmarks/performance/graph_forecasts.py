"""CPU seconds of a graph's fit and standard deviations beside their forecast, over kinds of graphs.

Each case is a graph and values on it: a function of the places, rough or very smooth, or a draw of
a kernel, seen with noise at some nodes. A case is fitted by `GraphGPRegressor` with its defaults
and asked for the mean and the standard deviation at all nodes. Printed are the CPU seconds, the
seconds that the fit forecast (`steps_`), their ratio, and the steps.

    python -m benchmarks.performance.graph_forecasts --seeds 0 1
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

FloatArray = np.ndarray
Shape = tuple[np.ndarray, np.ndarray, np.ndarray]  # ends of edges, and places of nodes


def icosphere(levels: int) -> Shape:
    """Vertices and edges of a sphere, whose eigenvalues are repeated."""
    import trimesh

    mesh = trimesh.creation.icosphere(subdivisions=levels)
    return mesh.edges_unique[:, 0], mesh.edges_unique[:, 1], np.asarray(mesh.vertices)


def torus(major: int, minor: int) -> Shape:
    """Vertices and edges of a ring, whose eigenvalues come in pairs and fours."""
    import trimesh

    mesh = trimesh.creation.torus(3, 1, major_sections=major, minor_sections=minor)
    return mesh.edges_unique[:, 0], mesh.edges_unique[:, 1], np.asarray(mesh.vertices)


def grid(side: int) -> Shape:
    """A square grid."""
    k = np.arange(side**2).reshape(side, side)
    start = np.concatenate([k[:, :-1].ravel(), k[:-1].ravel()])
    end = np.concatenate([k[:, 1:].ravel(), k[1:].ravel()])
    places = np.stack(np.divmod(np.arange(side**2), side), axis=1) * (4.0 / side)
    return start, end, places


def hubs(side: int, n_hubs: int = 2) -> Shape:
    """A grid with hubs, each linked to a quarter of its nodes."""
    start, end, places = grid(side)
    rng = np.random.default_rng(0)
    n = side**2
    centres = rng.choice(n, n_hubs, replace=False)
    others = [np.setdiff1d(rng.choice(n, n // 4, replace=False), [c]) for c in centres]
    ends = np.concatenate([start, *(np.full(o.size, c) for c, o in zip(centres, others,
                                                                     strict=True))])  # fmt: skip
    return ends, np.concatenate([end, *others]), places


def barabasi_albert(n: int) -> Shape:
    """A graph that grew by preference for nodes of many neighbours."""
    import networkx as nx

    pairs = np.array(nx.barabasi_albert_graph(n, 5, seed=1).edges())
    places = np.random.default_rng(2).normal(size=(n, 2))
    return pairs[:, 0], pairs[:, 1], places


def geometric(n: int) -> Shape:
    """Points of a square, linked within a radius of ten neighbours in the mean."""
    from scipy.spatial import cKDTree

    places = 4.0 * np.random.default_rng(3).random((n, 2))
    pairs = cKDTree(places).query_pairs(4.0 * np.sqrt(10.0 / (np.pi * n)), output_type="ndarray")
    return pairs[:, 0], pairs[:, 1], places


def roads(copies: int) -> Shape:
    """Highways of San Jose, copies side by side, each joined to the one before by one road."""
    folder = Path(os.environ["COUPLEDGP_DATA"]) / "traffic"
    edges = np.genfromtxt(folder / "edges.csv", delimiter=",", names=True)
    nodes = np.genfromtxt(folder / "nodes.csv", delimiter=",", names=True)
    places = np.stack([nodes["longitude"], nodes["latitude"]], axis=1)
    places = 4.0 * (places - places.min(axis=0)) / np.ptp(places, axis=0).max()
    ends = np.stack([edges["source"], edges["target"]], axis=1)
    ends = ends.astype(np.int64)
    n = len(places)
    every = np.concatenate([ends + k * n for k in range(copies)])
    joints = np.array([[k * n - 1, k * n] for k in range(1, copies)], dtype=np.int64)
    every = np.concatenate([every, joints.reshape(-1, 2)])
    shifted = [np.column_stack([places[:, 0] + 5.0 * k, places[:, 1]]) for k in range(copies)]
    return every[:, 0], every[:, 1], np.concatenate(shifted)


SHAPES: dict[str, Callable[[], Shape]] = {
    "icosphere 2562": lambda: icosphere(4),
    "icosphere 10242": lambda: icosphere(5),
    "torus 2400": lambda: torus(60, 40),
    "torus 9600": lambda: torus(120, 80),
    "grid 3600": lambda: grid(60),
    "grid 14400": lambda: grid(120),
    "hubs 3600": lambda: hubs(60),
    "hubs 14400": lambda: hubs(120),
    "Barabasi-Albert 3000": lambda: barabasi_albert(3000),
    "Barabasi-Albert 12000": lambda: barabasi_albert(12_000),
    "geometric 3000": lambda: geometric(3000),
    "geometric 12000": lambda: geometric(12_000),
    "roads 1016": lambda: roads(1),
    "roads 4064": lambda: roads(4),
}
FIELDS = ("waves", "smooth", "rough")
NOISE = 0.1


def values_on(places: FloatArray, field: str, graph: object, seed: int) -> FloatArray:
    """Values at all nodes, of variance about one."""
    if field == "smooth":
        values = places @ np.arange(1, places.shape[1] + 1)
    elif field == "waves":
        values = np.sin(3.0 * places[:, 0]) + np.cos(2.0 * places[:, 1])
    else:
        from coupledgp.kernels import RegularizedLaplacianKernel, SeriesOperator

        white = np.random.default_rng([seed, 7]).standard_normal((len(places), 1))
        root = RegularizedLaplacianKernel(30.0).root
        values = SeriesOperator(graph.closed, root, 1e-4).matmat(white)[:, 0]  # type: ignore[attr-defined]
    return np.asarray((values - values.mean()) / values.std())


def measured(shape: str, field: str, share: float, seed: int) -> str:
    """One fit as a row of a table."""
    import coupledgp as cgp

    start, end, places = SHAPES[shape]()
    n = len(places)
    graph = cgp.Graph.from_edges(start, end, n_nodes=n)
    truth = values_on(places, field, graph, seed)
    rng = np.random.default_rng(seed)
    seen = np.sort(rng.choice(n, round(share * n), replace=False))
    y = truth[seen] + NOISE * rng.standard_normal(seen.size)
    model = cgp.GraphGPRegressor(graph, random_state=seed, progress=False)
    begin = time.process_time()
    model.fit(seen, y)
    fitted = time.process_time()
    mean, _ = model.predict(np.arange(n), return_std=True)
    ended = time.process_time()
    forecast = sum(step.forecast for step in model.steps_)
    rmse = float(np.sqrt(np.mean((mean - truth) ** 2)))
    steps = "; ".join(
        f"{s.name} {s.forecast:.2g}/{s.seconds:.2g} {s.method[:34]}" for s in model.steps_
    )
    return (
        f"| {shape} | {field} | {seen.size} | {fitted - begin:.2f} | {ended - fitted:.2f} | "
        f"{forecast:.2f} | {(ended - begin) / forecast:.2f} | {rmse:.3f} | {steps} |"
    )


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--fields", nargs="+", default=list(FIELDS), choices=FIELDS)
    parser.add_argument("--share", type=float, default=0.2, help="share of nodes that are seen")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    asked = parser.parse_args()
    for shape in (
        "grid 3600",
        "hubs 3600",
        "roads 1016",
    ):  # compiled loops are read before anything is timed
        for field in ("waves", "rough"):
            measured(shape, field, asked.share, 0)
    print("| graph | field | seen | fit, s | law, s | forecast, s | ratio | RMSE | steps |")
    print("|---|---|---|---|---|---|---|---|---|")
    for shape in asked.shapes:
        for field in asked.fields:
            for seed in asked.seeds:
                print(measured(shape, field, asked.share, seed), flush=True)


if __name__ == "__main__":
    main()
