"""Small reports of every kind, with names that come from hostile files."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import trimesh

import coupledgp as cgp
from coupledgp.diagnostics.laws import Normal
from coupledgp.diagnostics.predictions import Predictions
from coupledgp.diagnostics.report import Report, audit, cross_validate, report, reported, tables_of
from coupledgp.diagnostics.tables import Rival

HOSTILE = "</script><img src=x onerror='stop()'>$\\frac{&quot;"
LONG = "a_sensor_with_a_name_of_seventy_letters_and_nowhere_to_break_a_line_of_it"


def table() -> Report:
    """A table whose groups have offsets that the model does not know, beside its exact process."""
    rng = np.random.default_rng(0)
    site = rng.integers(0, 6, 160)
    X = pd.DataFrame({"depth": rng.uniform(0, 6, 160), HOSTILE: rng.uniform(0, 3, 160)})
    y = 1000 * (12 + 3 * np.sin(X.depth) + X[HOSTILE] + rng.normal(size=6)[site])
    y = pd.Series(y + 300 * rng.normal(size=160), name=LONG)
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=24, random_state=0).fit(X[:100], y[:100])
    names = np.array([HOSTILE, *"abcde"])[site[100:]]
    return report(model, X[100:], y[100:], columns={"site": names}, unit="EUR", depth="checks",
                  title=HOSTILE)  # fmt: skip


def classes() -> Report:
    """A classifier of two classes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2))
    labels = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0, HOSTILE, "cold")
    model = cgp.GPClassifier(random_state=0).fit(X[:70], labels[:70])
    return report(model, X[70:], labels[70:], target="warmth", depth="checks")


def mesh() -> Report:
    """A field on a sphere, whose sensors are left out one by one."""
    ball = trimesh.creation.icosphere(subdivisions=2)
    operator = cgp.LaplaceOperator.from_trimesh(ball)
    places = np.asarray(ball.vertices)[::6]
    y = places[:, 2] + 0.05 * np.random.default_rng(2).normal(size=len(places))
    model = cgp.FieldGPRegressor(operator, random_state=0).fit(places, y)
    return cross_validate(model, unit="mm", depth="checks")


def graph() -> Report:
    """The nodes of a grid."""
    rng = np.random.default_rng(3)
    side = np.arange(64).reshape(8, 8)
    ends = [(side[:, :-1], side[:, 1:]), (side[:-1], side[1:])]
    edges = [np.concatenate([pair[k].ravel() for pair in ends]) for k in (0, 1)]
    values = np.sin(np.arange(64) % 8 / 2) + 0.1 * rng.normal(size=64)
    nodes = rng.permutation(64)
    model = cgp.GraphGPRegressor(cgp.Graph.from_edges(*edges), "heat", random_state=0)
    model.fit(nodes[:40], values[nodes[:40]])
    return report(model, nodes[40:], values[nodes[40:]], depth="checks")


def city() -> Report:
    """Prices at latitudes and longitudes."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame({
        "latitude": rng.uniform(48, 48.3, 150), "longitude": rng.uniform(11.3, 11.8, 150),
    })  # fmt: skip
    y = 4000 + 9000 * (X.latitude - 48) + 300 * rng.normal(size=150)
    model = cgp.ExactGPRegressor(random_state=0).fit(X[:100], y[:100])
    return report(model, X[100:], y[100:], target="price", unit="EUR", depth="checks")


def draws() -> Report:
    """An audit of draws that are too narrow."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(130, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=130)
    stated = np.sin(X[70:, 0]) + 0.15 * rng.normal(size=(60, 60))
    return audit(stated, X[:70], y[:70], X[70:], y[70:], depth="checks")


def times() -> Report:
    """Readings of sensors that were hidden: in gaps, and ahead."""
    rng = np.random.default_rng(6)
    clock = np.datetime64("2012-03-05T06:00") + np.arange(48) * np.timedelta64(5, "m")
    sensors = [HOSTILE, "TC07", LONG, *(f"TC{k}" for k in range(10, 17))]
    n = 48 * len(sensors)
    mean, std = 60 + rng.normal(size=(n, 1)), np.full((n, 1), 2.0)
    y = mean + 2 * rng.normal(size=(n, 1))
    at = {
        "times": np.tile(clock, len(sensors)),
        "cluster": pd.DataFrame({"sensor": np.repeat(sensors, 48)}),
        "parts": np.tile(np.repeat(["in gaps", "60 minutes ahead"], 24), len(sensors)),
    }
    p = Predictions(Normal(mean, std), y, name="kernel over time", target="speed", unit="mph", **at)
    last = Predictions(Normal(mean + 1, 1.5 * std), name="last value")
    every = Predictions(Normal(mean + 0.5, 1.2 * std), name="mean of all sensors")
    found = tables_of(p, rivals=[Rival(last), Rival(every)], depth="checks")
    return reported(found, title="Speeds")


KINDS: dict[str, Any] = {
    one.__name__: one for one in (table, classes, mesh, graph, city, draws, times)
}


@cache
def report_of(kind: str) -> Report:
    """The report of a kind, made once."""
    found: Report = KINDS[kind]()
    return found


@cache
def page_of(kind: str) -> str:
    """The page of a report of a kind."""
    page: str = report_of(kind).to_html()
    return page
