"""Memory of one process that fits, predicts, saves and loads models for long.

Each round makes models of new data of the same sizes: a chosen mixture of a table, a
sparse-spectrum model that gets further rows, and a model of the nodes of a graph by walks; with
`--work graph-exact` models of graphs by their exact ways, and with `--work space-time` models of
sensors over time with gaps and further values. Each predicts, is written and read again. After each
round the resident memory, the open files and the threads of the process are noted. The slope of
the memory over the second half of the run, by least squares with the error of its residuals'
spread, is the leak per round; allocators take some rounds to settle.

    python benchmarks/soak.py --minutes 60 --output soak.csv --figure soak.svg
    python benchmarks/soak.py --work graph-exact --minutes 60 --figure soak_graphs.svg
    python benchmarks/soak.py --work space-time --minutes 60 --figure soak_space_time.svg
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import coupledgp as cgp

GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12))
PAGE = resource.getpagesize()


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def n_open_files() -> int:
    """Number of open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def n_threads() -> int:
    """Number of threads of this process."""
    return len(os.listdir("/proc/self/task"))


def _table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(400, 4))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.2 * rng.normal(size=400)


def chosen_mixture(rng: np.random.Generator, folder: Path) -> None:
    """A mixture of models of 40 rows: fit, predict, save, load."""
    X, y = _table(rng)
    gp = cgp.GPRegressor(random_state=0, progress=False).fit(X[:40], y[:40])
    _again(gp, folder / "mixture.model", X)


def features(rng: np.random.Generator, folder: Path) -> None:
    """A sparse-spectrum model: fit, further rows, a comparison with its exact twin, save, load."""
    X, y = _table(rng)
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=64, random_state=0).fit(X[:200], y[:200])
    for start in range(200, 400, 50):
        gp.partial_fit(X[start : start + 50], y[start : start + 50])
    cgp.diagnostics.compare(gp, X[:20])
    _again(gp, folder / "features.model", X)


def nodes(rng: np.random.Generator, folder: Path) -> None:
    """A model of the nodes of a grid by walks: fit, predict, save, load."""
    graph = cgp.graphs.Graph.from_networkx(GRID)
    seen = rng.choice(144, 60, replace=False)
    y = np.sin(seen / 20) + 0.1 * rng.normal(size=60)
    gp = cgp.GraphGPRegressor(graph, n_walks=64, random_state=0).fit(seen, y)
    _again(gp, folder / "nodes.model", np.arange(144))


def exact_nodes(rng: np.random.Generator, folder: Path) -> None:
    """Models of new graphs: averaged, spectral, of sparse precision, and by a series.

    Each gives intervals and draws, and places sensors.
    """
    for kernel, n_nodes, n in (("auto", 300, 60), ("auto", 400, 220), ("matern", 1300, 300)):
        places = rng.uniform(size=(n_nodes, 2))
        graph = cgp.Graph.from_points(places, 5)
        signal = np.sin(6 * places[:, 0]) * np.cos(5 * places[:, 1])
        seen = rng.permutation(n_nodes)[:n]
        y = signal[seen] + 0.1 * rng.normal(size=n)
        gp = cgp.GraphGPRegressor(graph, kernel, random_state=0, progress=False).fit(seen, y)
        gp.predict(return_std=True)
        gp.predict_interval(np.arange(20))
        gp.predict(np.arange(30), return_cov=True)
        gp.sample_y(np.arange(50), 4)
        gp.next_sensors(2, "variance")
        _again(gp, folder / "exact.model", np.arange(n_nodes))
    heat = cgp.ExactGraphGPRegressor(graph, "heat", optimizer=None, random_state=0).fit(seen, y)
    heat.predict(return_std=True)


def space_time(rng: np.random.Generator, folder: Path) -> None:
    """A model of sensors with gaps: fit, further values, forecast, draws, sensors left out."""
    nodes, times = np.arange(30), np.arange(220.0)
    graph = cgp.Graph.from_edges(nodes, np.roll(nodes, 1))
    speeds = 60 + np.cumsum(rng.normal(size=(30, 220)), axis=1)
    speeds[rng.random(speeds.shape) < 0.05] = np.nan
    speeds[3, 40:120] = np.nan
    gp = cgp.GraphTimeGPRegressor(graph, window=200, n_variance_samples=8, progress=False)
    gp.fit(nodes[:25], times[:200], speeds[:25, :200])
    for start in range(200, 220, 5):
        now = slice(start, start + 5)
        gp.partial_fit(nodes[:25], times[now], speeds[:25, now])
        gp.forecast(5.0)
    gp.sample_y(n_samples=2)
    gp.leave_one_sensor_out()
    gp.save(folder / "series.model")
    again = cgp.load_model(folder / "series.model")
    for mine, its in zip(
        gp.predict(nodes, times, True), again.predict(nodes, times, True), strict=True
    ):
        np.testing.assert_allclose(its, mine)


def _again(gp: Any, path: Path, points: np.ndarray) -> None:
    gp.save(path)
    again = cgp.load_model(path)
    assert np.array_equal(again.predict(points), gp.predict(points))


WORK: dict[str, Callable[[np.random.Generator, Path], None]] = {
    "table": chosen_mixture,
    "features": features,
    "graph": nodes,
    "graph-exact": exact_nodes,
    "space-time": space_time,
}
USUAL = ("features", "graph", "table")


def rounds(names: list[str], seconds: float, limit: int | None) -> Iterator[dict[str, float]]:
    """Run rounds of the named work and yield the state of the process after each."""
    start, number = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - start < seconds and (limit is None or number < limit):
            for name in names:
                WORK[name](np.random.default_rng(number), Path(folder))
            gc.collect()
            number += 1
            yield {
                "round": number,
                "seconds": time.monotonic() - start,
                "resident_mb": resident_bytes() / 1e6,
                "files": n_open_files(),
                "threads": n_threads(),
            }


def slope(values: np.ndarray) -> tuple[float, float]:
    """Least-squares slope per round of the second half of the values, and its standard error."""
    kept = values[len(values) // 2 :]
    places = np.arange(len(kept)) - (len(kept) - 1) / 2
    found = float(places @ kept / (places @ places))
    residuals = kept - kept.mean() - found * places
    spread = np.sqrt(residuals @ residuals / max(len(kept) - 2, 1))
    return found, float(spread / np.sqrt(places @ places))


def draw(found: list[dict[str, float]], path: Path) -> None:
    """Draw the resident memory over the minutes of the run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.plot([row["seconds"] / 60 for row in found], [row["resident_mb"] for row in found])
    axes.set(
        xlabel="minutes", ylabel="resident memory, MB", ylim=(0, 1.2 * found[-1]["resident_mb"])
    )
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main() -> None:
    """Run, write the figures of each round and print the slope."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=None, help="end after so many rounds")
    parser.add_argument("--work", nargs="+", choices=sorted(WORK), default=USUAL)
    parser.add_argument("--output", type=Path, default=None, help="CSV file of all rounds")
    parser.add_argument("--figure", type=Path, default=None, help="picture of the memory")
    arguments = parser.parse_args()
    found: list[dict[str, float]] = []
    for row in rounds(arguments.work, 60 * arguments.minutes, arguments.rounds):
        found.append(row)
        if len(found) % 20 == 1:
            print("  ".join(f"{name} {value:.1f}" for name, value in row.items()), flush=True)
        if arguments.output:  # written as it goes, so that a run that is cut short has a curve
            with arguments.output.open("a" if len(found) > 1 else "w", newline="") as stream:
                writer = csv.DictWriter(stream, row)
                if len(found) == 1:
                    writer.writeheader()
                writer.writerow(row)
    if arguments.figure:
        draw(found, arguments.figure)
    memory = np.array([row["resident_mb"] for row in found])
    per_round, error = slope(memory)
    print(
        f"{len(found)} rounds of {', '.join(arguments.work)} in {found[-1]['seconds'] / 60:.1f} "
        f"minutes: {memory[len(memory) // 2]:.1f} MB in the middle, {memory[-1]:.1f} MB at the end,"
        f" slope {1000 * per_round:.1f} +- {1000 * error:.1f} kB a round; open files "
        f"{found[0]['files']:.0f} to {found[-1]['files']:.0f}, threads "
        f"{found[0]['threads']:.0f} to {found[-1]['threads']:.0f}"
    )


if __name__ == "__main__":
    main()
