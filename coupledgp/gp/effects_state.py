"""Time axes and effects of covariates in a model file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.gp.protocol import Arrays
from coupledgp.gp.schema import Entries, require_type
from coupledgp.inference.space_time.effect_columns import DEGREES, EffectColumns
from coupledgp.inference.space_time.effects import PARTS, SensorEffects
from coupledgp.random import FloatArray
from coupledgp.series import TimeAxis
from coupledgp.series.axis import LARGEST_SECONDS
from coupledgp.series.covariates import BOTH, MOST_KINDS, NODES, TIMES, Covariate
from coupledgp.series.stamps import zone_of_name

# Most covariates of a file.
MOST_COVARIATES = 1024


def effects_state(effects: SensorEffects) -> tuple[dict[str, Any], Arrays]:
    """Effects as values of JSON and arrays."""
    columns: list[dict[str, Any]] = []
    arrays: Arrays = {
        "effect_sensors": effects.sensors, "effect_sensor_means": effects.sensor_means,
        "effect_variances": effects.variances, "effect_gains": effects.gains,
        "effect_mean": effects.mean, "effect_covariance": effects.covariance,
    }  # fmt: skip
    for number, one in enumerate(effects.columns):
        known = one.covariate
        columns.append({
            "name": known.name, "over": known.over, "kinds": list(known.kinds),
            "low": one.ends[0], "high": one.ends[1],
        })  # fmt: skip
        there = ~np.isnan(known.values)
        arrays |= {
            f"covariate_{number}_sites": known.sites, f"covariate_{number}_times": known.times,
            f"covariate_{number}_values": np.where(there, known.values, 0.0),
            f"covariate_{number}_known": there.astype(np.int64),
            f"covariate_{number}_center": one.center, f"covariate_{number}_scale": one.scale,
        }  # fmt: skip
    return {"columns": columns, "axis": axis_state(effects.axis)}, arrays


def effects_from(entries: Entries, times: FloatArray, n_sites: int) -> SensorEffects:
    """The effects of `effects_state`, with the grid's times and the number of sites."""
    axis = axis_from(entries.value("days", "effects", "axis"), times)
    stored = require_type(entries.value("days", "effects", "columns"), list, "effects.columns")
    if not 0 < len(stored) <= MOST_COVARIATES:
        raise ModelFileError(
            f"effects.columns: expected 1 to {MOST_COVARIATES} covariates, got {len(stored)}"
        )
    columns = tuple(
        _columns_from(Entries(require_type(one, dict, "effects.columns"), entries.arrays),
                      number, n_sites)
        for number, one in enumerate(stored)
    )  # fmt: skip
    sensors = entries.integers("effect_sensors", "e", low=0, high=n_sites - 1)
    if not sensors.size or not (np.diff(sensors) > 0).all():
        raise ModelFileError("effect_sensors: expected rising sites, got others")
    moving = [one for one in columns if not one.is_static]
    q = sum(one.n_columns for one in columns) + sensors.size * sum(o.n_plain for o in moving)
    covariance = entries.floats("effect_covariance", q, q)
    if not np.allclose(covariance, covariance.T) or covariance.diagonal().min() < -1e-9:
        raise ModelFileError("effect_covariance: expected a covariance, got another matrix")
    return SensorEffects(
        columns, axis, sensors,
        entries.floats("effect_sensor_means", "e", sum(one.n_columns for one in moving)),
        entries.floats("effect_variances", len(columns), len(PARTS), low=0.0),
        entries.floats("effect_gains", len(columns)),
        entries.floats("effect_mean", q), covariance,
    )  # fmt: skip


def _columns_from(entries: Entries, number: int, n_sites: int) -> EffectColumns:
    name, over = entries.text("name"), entries.text("over", among=(NODES, TIMES, BOTH))
    kinds = tuple(str(kind) for kind in require_type(entries.value("kinds"), list, "kinds"))
    if len(kinds) > MOST_KINDS or list(kinds) != sorted(set(kinds)):
        raise ModelFileError(f"kinds: expected at most {MOST_KINDS} rising texts, got others")
    s, t, k = (f"{letter}{number}" for letter in "stk")
    prefix = f"covariate_{number}_"
    sites = entries.integers(f"{prefix}sites", s, low=0, high=n_sites - 1)
    times = entries.floats(f"{prefix}times", t)
    for where, found, wanted in (("sites", sites, over != TIMES), ("times", times, over != NODES)):
        if bool(found.size) != wanted or not (np.diff(found) > 0).all():
            raise ModelFileError(f"{prefix}{where}: expected rising ones of {over}, got others")
    shape = sites.size or 1, times.size or 1
    values = entries.floats(f"{prefix}values", *shape).astype(np.float64)
    if kinds and not np.isin(values, np.arange(len(kinds))).all():
        raise ModelFileError(f"{prefix}values: expected codes of {len(kinds)} kinds, got others")
    known = entries.integers(f"{prefix}known", *shape, low=0, high=1) == 1
    values = np.where(known, values, np.nan)
    low, high = entries.number("low"), entries.number("high")
    if low > high:
        raise ModelFileError(f"low: expected at most {high}, got {low}")
    center = entries.floats(f"{prefix}center", k)
    if center.size not in ((len(kinds),) if kinds else (1, 1 + len(DEGREES))):
        raise ModelFileError(f"{prefix}center: expected a number for each column, got others")
    return EffectColumns(
        Covariate(name, over, kinds, sites, times, values), (low, high), center,
        entries.scales(f"{prefix}scale", k),
    )  # fmt: skip


def axis_state(axis: TimeAxis) -> dict[str, Any]:
    """Origin, zone and tick of a time axis as a file holds them, beside the numbers."""
    origin = None if axis.origin is None else str(axis.origin.astype("datetime64[ns]"))
    return {"origin": origin, "zone": axis.zone, "tick": axis.tick, "whole": axis.whole}


def axis_from(state: Any, times: FloatArray) -> TimeAxis:
    """The axis of `axis_state`, whose first and last time are of the years 1678 to 2261."""
    entries = Entries(require_type(state, dict, "axis"), {})
    zone, origin = entries.value("zone"), entries.value("origin")
    if zone is not None:
        zone_of_name(entries.text("zone"))
    axis = TimeAxis(
        times, None if origin is None else _instant(entries.text("origin")), zone,
        entries.integer("tick", low=1, high=1000), "numpy", entries.flag("whole"),
    )  # fmt: skip
    axis.labels(times[[0, -1]])
    return axis


def _instant(text: str) -> np.datetime64:
    """The time of a text by ISO 8601, in nanoseconds, into which other years do not fit."""
    second = np.datetime64(text, "s")
    if not abs(second.astype(np.int64)) < LARGEST_SECONDS - 1:
        raise ModelFileError(f"axis.origin: expected a time of 1678 to 2261, got {second}")
    return np.datetime64(text, "ns")
