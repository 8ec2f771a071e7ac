"""Readings of traffic over times for `space_time.py`: real ones, and draws whose law is known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cholesky

import coupledgp as cgp
from coupledgp.diagnostics.space_time.per_step import sensor_covariance
from coupledgp.diagnostics.space_time.splits import DAY, SensorReadings, SplitPlan
from coupledgp.kernels import GraphMaternKernel
from coupledgp.random import FloatArray
from data_loaders.files import data_folder
from data_loaders.traffic import load

STEP = 300.0  # seconds between readings of METR-LA and of the simulation


@dataclass(frozen=True, eq=False)
class Case:
    """Readings, what is hidden of them, and where the truth is known.

    Attributes
    ----------
    readings : SensorReadings
    plan : SplitPlan
    truth : FloatArray (n_nodes, n) or None
        The function at all nodes, of simulated readings.
    """

    readings: SensorReadings
    plan: SplitPlan
    truth: FloatArray | None = None


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
    values = speeds[: round(n_days * DAY / STEP)].T
    return Case(timed(values, los_angeles_graph(directed)), SplitPlan())


def los_angeles_graph(directed: FloatArray) -> cgp.Graph:
    """The larger weight of both directions, without loops."""
    weights = np.maximum(directed, directed.T)
    np.fill_diagonal(weights, 0.0)
    return cgp.Graph.from_scipy(weights)


def timed(values: FloatArray, graph: cgp.Graph, sites: Any = None) -> SensorReadings:
    """Readings (p, n) at five-minute steps that begin at midnight."""
    sites = np.arange(len(values)) if sites is None else sites
    seconds = STEP * np.arange(values.shape[1])
    stamps = np.datetime64("2012-03-01", "s") + seconds.astype("timedelta64[s]")
    days = stamps.astype("datetime64[D]").astype(np.int64)
    return SensorReadings(
        values, seconds, sites, graph, seconds % DAY, sites.tolist(), stamps, days
    )


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
    weeks = np.arange(26.0)
    sites = traffic.sensors[seen]
    readings = SensorReadings(
        values[seen], weeks, sites, traffic.graph, None, sites.tolist(), weeks
    )
    return Case(readings, SplitPlan(cells=0.1, gap=0.0, horizon=1.0))


def simulated(seed: int = 0, smooth: bool = False, n_times: int = 432) -> Case:
    """A draw on the roads of San Jose: 325 sensors, a graph term, a usual value, own parts.

    `cov = K (Matern(12 steps) + 0.5) + 0.15 I exp(-|t - u| / 6 steps)`, noise variance 0.05; K is a
    graph Matern kernel of lengthscale 30 with mean diagonal one over the nodes.
    """
    traffic = load()
    rng = np.random.default_rng([17, seed])
    n_nodes, lags = traffic.graph.n_nodes, np.abs(np.subtract.outer(*2 * [np.arange(n_times)]))
    everywhere = SensorReadings(
        np.full((n_nodes, 1), np.nan), np.zeros(1), np.arange(n_nodes), traffic.graph
    )
    space = root_of(sensor_covariance(everywhere, GraphMaternKernel(30.0)))
    slow = np.sqrt(3) * lags / 12
    moving = (1 + slow) * np.exp(-slow) if smooth else np.exp(-lags / 12)
    f = space @ rng.standard_normal((n_nodes, n_times)) @ root_of(moving).T
    f += np.sqrt(0.5) * space @ rng.standard_normal((n_nodes, 1))
    own = np.sqrt(0.15) * rng.standard_normal((n_nodes, n_times)) @ root_of(np.exp(-lags / 6)).T
    f += own
    noise = np.sqrt(0.05) * rng.standard_normal((traffic.sensors.size, n_times))
    readings = timed(f[traffic.sensors] + noise, traffic.graph, traffic.sensors)
    plan = SplitPlan(gap=60 * STEP, horizon=12 * STEP)
    return Case(readings, plan, f)


def root_of(K: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a kernel matrix."""
    return cholesky(K + 1e-9 * np.eye(len(K)), lower=True)


def forecasts(number: int) -> Case:
    """METR-LA: the hour after 8:00, 12:30 or 17:00 of day 4 or 5, given the two days before it."""
    whole = metr_la().readings
    hour = (3 + number // 3 % 2) * 24 + (8, 12.5, 17)[number % 3]
    last = round(hour * 3600 / STEP) + 12
    part = slice(last - 588, last)
    readings = replace(
        whole, values=whole.values[:, part], times=whole.times[part], stamps=whole.stamps[part],
        seconds_of_day=whole.seconds_of_day[part],
    )  # fmt: skip
    return Case(readings, SplitPlan(sensors=0.0, cells=0.0, gap=0.0, horizon=12 * STEP))


# Cases by the number of the split, which matters where each has readings of its own.
CASES: dict[str, Callable[[int], Case]] = {
    "metr-la": lambda number: metr_la(),
    "metr-la-4-days": lambda number: metr_la(4),
    "metr-la-forecasts": forecasts,
    "san-jose": lambda number: san_jose(),
    "simulated": simulated,
    "simulated-smooth": lambda number: simulated(number, smooth=True),
}
