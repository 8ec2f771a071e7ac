"""Readings of traffic over times for `space_time.py`: real ones, and draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cholesky

import coupledgp as cgp
from coupledgp.diagnostics import SplitPlan
from coupledgp.kernels import GraphMaternKernel
from coupledgp.random import FloatArray
from data_loaders.files import data_folder
from data_loaders.traffic import load

STEP, DAY = 300.0, 86_400.0  # seconds between readings of METR-LA and of draws, and of a day
STEPS_OF_DAY = round(DAY / STEP)


@dataclass(frozen=True, eq=False)
class Case:
    """Readings (p, n) of nodes of a graph at times (n,), and what is hidden of them."""

    graph: cgp.Graph
    nodes: Any
    times: Any
    values: FloatArray
    plan: SplitPlan | None = None


def traffic_folder() -> Path:
    """The folder of the files, which COUPLEDGP_DATA names."""
    folder = data_folder(None, "traffic")
    if folder is None:
        raise SystemExit("set COUPLEDGP_DATA to the folder that holds the folder `traffic`")
    return folder


def metr_la(n_days: int = 5) -> Case:
    """Los Angeles: 207 sensors, five-minute steps from 1 March 2012 on."""
    folder = traffic_folder()
    speeds = np.loadtxt(folder / "metr_la_speed_5days.csv", delimiter=",", skiprows=1)
    directed = np.loadtxt(folder / "metr_la_adjacency.csv", delimiter=",")
    values = speeds[: n_days * STEPS_OF_DAY].T
    return timed(values, los_angeles_graph(directed))


def los_angeles_graph(directed: FloatArray) -> cgp.Graph:
    """The larger weight of both directions, without loops."""
    weights = np.maximum(directed, directed.T)
    np.fill_diagonal(weights, 0.0)
    return cgp.Graph.from_scipy(weights)


def timed(values: FloatArray, graph: cgp.Graph, nodes: Any = None) -> Case:
    """Readings (p, n) at five-minute steps that begin at midnight, of all nodes or some."""
    seconds = (STEP * np.arange(values.shape[1])).astype("timedelta64[s]")
    stamps = np.datetime64("2012-03-01", "s") + seconds
    return Case(graph, np.arange(len(values)) if nodes is None else nodes, stamps, values)


def san_jose() -> Case:
    """San Jose: 26 Mondays at 17:30, 319 sensors that report (MetricGraph's `pems_repl`)."""
    import rdata

    traffic = load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = [rdata.read_rda(traffic_folder() / f"{n}.rda")[n] for n in ("pems", "pems_repl")]
    keys = [".edge_number", ".distance_on_edge"]
    places = {
        key: row for row, key in enumerate(map(tuple, files[0]["data"][keys].round(6).to_numpy()))
    }
    table = files[1]["data"]
    rows = [places[tuple(key)] for key in table[keys].round(6).to_numpy()]
    values = np.full((len(places), 26), np.nan)
    values[rows, table["repl"].to_numpy(dtype=int) - 1] = table["y"].to_numpy()
    seen = np.isfinite(values).any(axis=1)
    plan = SplitPlan(cells=0.1, gap=0.0, horizon=1.0)
    return Case(traffic.graph, traffic.sensors[seen], np.arange(26.0), values[seen], plan)


def simulated(seed: int = 0, n_times: int = 432) -> Case:
    """A draw on the roads of San Jose: 325 sensors, a graph term, a usual value, own parts.

    `cov = K (Matern(12 steps) + 0.5) + 0.15 I exp(-|t - u| / 6 steps)`, noise variance 0.05; K is a
    graph Matern kernel of lengthscale 30 with mean diagonal one over the nodes.
    """
    traffic = load()
    rng = np.random.default_rng([17, seed])
    n_nodes, lags = traffic.graph.n_nodes, np.abs(np.subtract.outer(*2 * [np.arange(n_times)]))
    K = cgp.kernels.dense_kernel(traffic.graph, GraphMaternKernel(30.0))
    space = root_of(K / np.diagonal(K).mean())
    f = space @ rng.standard_normal((n_nodes, n_times)) @ root_of(np.exp(-lags / 12)).T
    f += np.sqrt(0.5) * space @ rng.standard_normal((n_nodes, 1))
    f += np.sqrt(0.15) * rng.standard_normal((n_nodes, n_times)) @ root_of(np.exp(-lags / 6)).T
    noise = np.sqrt(0.05) * rng.standard_normal((traffic.sensors.size, n_times))
    return timed(f[traffic.sensors] + noise, traffic.graph, traffic.sensors)


def root_of(K: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a kernel matrix."""
    return cholesky(K + 1e-9 * np.eye(len(K)), lower=True)


def city(n_days: int = 6, day: float = 1.0) -> Case:
    """Speeds at 40 of 60 places of a road: a day of each kind, and jams that move upstream."""
    rng = np.random.default_rng([23, 0])
    p, n = 60, n_days * STEPS_OF_DAY
    hours = np.arange(n) % STEPS_OF_DAY / 12.0
    weekend = (np.arange(n) // STEPS_OF_DAY + 3) % 7 >= 5  # the first day is a Thursday
    load = np.exp(-0.5 * ((hours - 8) / 1.2) ** 2)
    load = load + 0.8 * np.exp(-0.5 * ((hours - 17.5) / 1.5) ** 2)
    load = day * np.where(weekend, 0.3, 1.0) * load
    size = rng.uniform(5.0, 25.0, (p, 1))
    jam = np.zeros((p, n))
    for t in range(1, n):
        moved = np.roll(jam[:, t - 1], -1)
        moved[-1] = 0.0
        fresh = (rng.random(p) < 0.004 * (0.3 + load[t])) * rng.gamma(3.0, 6.0, p)
        jam[:, t] = 0.62 * jam[:, t - 1] + 0.33 * moved + fresh
    values = 65.0 - size * load - jam + 1.5 * rng.normal(size=(p, n))
    graph = cgp.Graph.from_edges(np.arange(p - 1), np.arange(1, p))
    sensors = np.sort(rng.choice(p, 40, replace=False))
    return timed(values[sensors], graph, sensors)


def counts(n_days: int = 6) -> Case:
    """Counts of vehicles at 30 places of a ring, with a daily pattern and slow changes."""
    rng = np.random.default_rng([29, 0])
    p, n = 30, n_days * STEPS_OF_DAY
    hours = np.arange(n) % STEPS_OF_DAY / 12.0
    shape = 0.1 + np.exp(np.cos(2 * np.pi * (hours - 14) / 24)) / 2.7
    slow = np.zeros((p, n))
    for t in range(1, n):
        slow[:, t] = 0.98 * slow[:, t - 1] + 0.02 * rng.normal(size=p)
    rate = rng.uniform(30.0, 300.0, (p, 1)) * shape * np.exp(slow)
    graph = cgp.Graph.from_edges(np.arange(p), (np.arange(p) + 1) % p)
    return timed(rng.poisson(rate).astype(float), graph)


CASES: dict[str, Callable[..., Case]] = {
    "metr-la": metr_la,
    "san-jose": san_jose,
    "simulated": simulated,
    "synthetic": city,
    "counts": counts,
    "no-days": lambda n_days=6: city(n_days, day=0.0),
}
