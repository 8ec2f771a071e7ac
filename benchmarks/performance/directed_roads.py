"""Forecasts on one-way roads: lags of sensors upstream and downstream beside undirected ones.

Values move along random one-way roads with shares of turning, `x_t = .45 x_(t-1) + a U x_(t-1) +
b D x_(t-1) + e`, U and D the means over the nodes before and after: "flow" has b = 0, "both" has
jams that move back as well. Printed are the root mean squared errors of forecasts, over the
standard deviation, with a model of the graph alone, with its directions, and with turning counts.

    python -m benchmarks.performance.directed_roads --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import time
import warnings

import networkx as nx
import numpy as np

AHEAD = (1, 3, 6)
MOVES = {"flow": (0.45, 0.0), "both": (0.27, 0.175)}
N_FORECASTS = 24


def roads(n_nodes: int, seed: int) -> nx.DiGraph:
    """A ring of one-way roads, a third of whose nodes have a second way out."""
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph()
    for k in range(n_nodes):
        share = float(rng.uniform(0.1, 0.9))
        graph.add_edge(k, (k + 1) % n_nodes, count=share)
        other = int(rng.integers(n_nodes))
        if rng.random() < 0.35 and other not in (k, (k + 1) % n_nodes):
            graph.add_edge(k, other, count=1.0 - share)
    return graph


def values_on(graph: nx.DiGraph, kind: str, n_steps: int, seed: int) -> np.ndarray:
    """Values (n_nodes, n_steps) of unit variance."""
    n, rng = len(graph), np.random.default_rng([seed, 1])
    counts = nx.to_numpy_array(graph, nodelist=range(n), weight="count")
    turning = counts / counts.sum(axis=1, keepdims=True)
    before = turning.T / turning.T.sum(axis=1, keepdims=True)
    forward, back = MOVES[kind]
    x, found = np.zeros(n), []
    for _ in range(n_steps + 200):
        x = 0.45 * x + forward * before @ x + back * turning @ x + rng.standard_normal(n)
        found.append(x)
    kept = np.array(found[200:]).T
    return kept / kept.std(axis=1, keepdims=True)


def errors_of(graph: nx.DiGraph, values: np.ndarray, n_steps: int, which: str) -> list[float]:
    """Errors of forecasts at each of `AHEAD`, and CPU seconds of the fit."""
    import coupledgp as cgp

    plain = cgp.Graph.from_networkx(graph.to_undirected(), weight=None)
    one_way = nx.DiGraph(list(graph.edges))
    directions = {"graph": None, "directions": one_way, "turning": graph}[which]
    model = cgp.GraphTimeGPRegressor(
        plain, directions=directions, random_state=0, progress=False, dynamics=True
    )
    every = np.arange(float(values.shape[1]))
    begin = time.process_time()
    model.fit(np.arange(len(graph)), values[:, :n_steps], times=every[:n_steps])
    seconds, squares = time.process_time() - begin, []
    for k in range(N_FORECASTS):
        now = n_steps + k * max(AHEAD)
        mean = model.predict(np.arange(len(graph)), every[now + np.array(AHEAD) - 1])
        squares.append(((mean - values[:, now + np.array(AHEAD) - 1]) ** 2).mean(axis=0))
        further = slice(now, now + max(AHEAD))
        model.partial_fit(np.arange(len(graph)), values[:, further], times=every[further])
    return [*np.sqrt(np.mean(squares, axis=0)), seconds]


def main() -> None:
    """Print a table of means over seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--steps", nargs="+", type=int, default=[576, 1440])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| values | steps | model | " + " | ".join(f"{h} ahead" for h in AHEAD) + " | fit, CPU s |"
    )
    print("|---|---|---|" + "---|" * (len(AHEAD) + 1))
    for kind in MOVES:
        for n_steps in asked.steps:
            for which in ("graph", "directions", "turning"):
                rows = []
                for seed in asked.seeds:
                    graph = roads(asked.nodes, seed)
                    values = values_on(graph, kind, n_steps + N_FORECASTS * max(AHEAD), seed)
                    rows.append(errors_of(graph, values, n_steps, which))
                cells = " | ".join(f"{x:.3f}" for x in np.mean(rows, axis=0))
                print(f"| {kind} | {n_steps} | {which} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
