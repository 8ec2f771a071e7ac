"""Small reports of space-time models, with names that come from hostile files."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.space_time.record import (
    FORECAST,
    GAP,
    OBSERVED,
    GapCount,
    HourScore,
    KindScore,
    SensorErrors,
)
from coupledgp.diagnostics.space_time.report import SpaceTimeReport
from coupledgp.time.axis import TimeAxis

HOSTILE = "</script><img src=x onerror='stop()'>$\\frac{&quot;"
N_NODES, N_SENSORS, N_TIMES, N_AHEAD = 16, 12, 60, 4
INSIDE = {0.5: 0.52, 0.95: 0.94}
FIVE_MINUTES = 300.0


def law() -> dict[str, Any]:
    """A wave that runs around a circle of nodes; one of the twelve sensors is wrong."""
    rng = np.random.default_rng(7)
    angle = 2 * np.pi * np.arange(N_NODES)[:, None] / N_NODES
    mean = 50 + 10 * np.sin(angle + np.arange(N_TIMES) / 9)
    sensors = np.delete(np.arange(N_NODES), np.s_[3::4])
    observed = mean[sensors] + rng.normal(size=(N_SENSORS, N_TIMES))
    observed[2] -= 20
    kinds = np.full(observed.shape, OBSERVED)
    kinds[0, 10:25], kinds[1, 33] = GAP, GAP
    kinds[:, -N_AHEAD:] = FORECAST
    observed[(kinds == GAP) | (kinds == FORECAST)] = np.nan
    names = [HOSTILE, *(f"=road {k}" for k in range(1, N_NODES))]
    edges = np.column_stack([np.arange(N_NODES), (np.arange(N_NODES) + 1) % N_NODES])
    return {
        "nodes": names, "mean": mean, "std": 1 + 0.02 * np.abs(mean - 50), "sensors": sensors,
        "observed": observed, "kinds": kinds, "edges": edges,
        "positions": np.column_stack([np.cos(angle), np.sin(angle)]),
        "gaps": GapCount.of(observed[:, :-N_AHEAD]),
    }  # fmt: skip


def scores() -> tuple[KindScore, ...]:
    """Scores that gain in gaps, and nothing at hidden sensors and far ahead."""
    rows = [
        ("gap", "model", 6.5, None), ("gap", "linear in time", 9.1, None),
        ("gap", "last value", 9.9, None), ("hidden sensor", "model", 8.49, None),
        ("hidden sensor", "nearest sensor", 9.17, None),
        ("hidden sensor", "graph GP per time step", 8.44, None),
        ("forecast", "model", 4.0, 1), ("forecast", "last value", 4.3, 1),
        ("forecast", "model", 7.88, 6), ("forecast", "last value", 7.72, 6),
        ("scattered", "model", 3.2, None), ("scattered", HOSTILE, 3.3, None),
    ]  # fmt: skip
    return tuple(
        KindScore(kind, name, 100, rmse, 0.7 * rmse, 0.5 * rmse, 3.0, INSIDE, ahead)
        for kind, name, rmse, ahead in rows
    )


def sensor_errors() -> SensorErrors:
    """Sensor 2 reads twenty too low, sensor 5 is noisy."""
    rmse = np.linspace(3.0, 4.1, N_SENSORS)
    rmse[[2, 5]] = 20.2, 6.0
    bias = np.where(np.arange(N_SENSORS) == 2, 20.0, 0.2)
    inside = np.where(np.isin(np.arange(N_SENSORS), [2, 5]), 0.1, 0.95)
    return SensorErrors(np.full(N_SENSORS, 50), rmse, 0.8 * rmse, bias, inside)


def report(**changed: Any) -> SpaceTimeReport:
    """A report of an evening and a night in five-minute steps."""
    times = np.datetime64("2012-03-01T20:00") + 5 * np.arange(N_TIMES) * np.timedelta64(1, "m")
    axis = TimeAxis.of(times[:-N_AHEAD])
    given: dict[str, Any] = {
        **law(), "axis": axis, "times": axis.numbers(times), "left_out": sensor_errors(),
        "scores": scores(), "unit": "mph", "title": HOSTILE,
        "hours": tuple(HourScore("gap", h, h + 3, 10, 5.0 + h, INSIDE) for h in range(0, 24, 3)),
        "facts": (("iterations", "9", HOSTILE), ("samples", "64", "")),
        "provenance": {"data": HOSTILE, "seed": 0},
    }  # fmt: skip
    return SpaceTimeReport(**{**given, **changed})
