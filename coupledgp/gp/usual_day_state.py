"""A usual day and dynamics in a model file, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import Entries, axis_from, axis_state, require_type
from coupledgp.inference.space_time.autoregression import N_GROUPS, Autoregression
from coupledgp.inference.space_time.bend import N_COLUMNS as N_BENDS
from coupledgp.inference.space_time.bend import Bend
from coupledgp.inference.space_time.day_field import RATIOS, SHARED
from coupledgp.inference.space_time.day_moments import PARTS
from coupledgp.inference.space_time.dynamics import MovingPosterior, SensorDynamics
from coupledgp.inference.space_time.markov import Markov
from coupledgp.inference.space_time.precision import FilledSeries
from coupledgp.inference.space_time.pseudo_gaps import KNOTS, PEER_RIDGES, GapLaw
from coupledgp.inference.space_time.spread import HORIZONS, N_COLUMNS, Spread
from coupledgp.inference.space_time.usual_day import LEAST_DAYS, LEAST_STEPS, UsualDay, n_bands
from coupledgp.random import FloatArray

# Most steps of a day, and days since 1970, in a file.
MOST_STEPS, MOST_DATES = 86400, 2**22


def usual_state(usual: UsualDay) -> tuple[dict[str, Any], Arrays]:
    """A usual day as values of JSON and arrays."""
    values = {"n_steps": usual.n_steps, "axis": axis_state(usual.axis)}
    arrays: Arrays = {
        "day_dates": usual.dates, "day_values": usual.values, "day_variances": usual.variances,
        "day_holidays": usual.holidays,
    }  # fmt: skip
    return values, arrays


def usual_from(entries: Entries, times: FloatArray) -> UsualDay:
    """The usual day of `usual_state`, with the grid's times."""
    n_steps = entries.integer("days", "usual", "n_steps", low=LEAST_STEPS, high=MOST_STEPS)
    axis = axis_from(entries.value("days", "usual", "axis"), times)
    if axis.origin is None:
        raise ModelFileError("days.usual.axis: expected an origin of the times, got none")
    dates = entries.integers("day_dates", "D", low=-MOST_DATES, high=MOST_DATES)
    if dates.size < LEAST_DAYS or not (np.diff(dates) > 0).all():
        raise ModelFileError(f"day_dates: expected {LEAST_DAYS} rising days or more, got others")
    holidays = entries.integers("day_holidays", "h", low=-MOST_DATES, high=MOST_DATES)
    variances = entries.floats("day_variances", n_bands(n_steps), len(PARTS), low=0.0)
    if not (variances[:, -1] > 0).all():
        raise ModelFileError("day_variances: expected variances of a day above zero, got others")
    values = entries.floats("day_values", "s", "D", n_steps)
    return UsualDay(axis, n_steps, dates, values, variances, holidays)


def dynamics_state(
    dynamics: SensorDynamics, moving: MovingPosterior
) -> tuple[dict[str, Any], Arrays]:
    """Dynamics and their law given the observations as values of JSON and arrays."""
    law, gaps = dynamics.law, ~moving.observed
    values: dict[str, Any] = {
        "ridge": dynamics.ridge, "is_stable": dynamics.is_stable, "density": dynamics.density,
        "log_evidence": moving.filled.log_evidence,
        "moves": dynamics.spread is not None, "gaps": None,
    }  # fmt: skip
    arrays: Arrays = {
        "dynamics_sensors": dynamics.sensors, "dynamics_lags": law.model.coefficients,
        "dynamics_constant": law.model.constant, "dynamics_innovations": law.innovations,
        "dynamics_first": law.first, "dynamics_level": dynamics.level,
        "dynamics_scale": dynamics.scale, "dynamics_level_spread": dynamics.spread_of_level,
        "dynamics_neighbours": dynamics.neighbours, "dynamics_peers": dynamics.peers,
        "moving_observed": moving.observed.astype(np.int64), "moving_mean": moving.mean[gaps],
        "moving_variance": moving.variance[gaps], "moving_filled": moving.filled.values[gaps],
        "moving_filled_variance": moving.filled.variances[gaps],
        "moving_last": moving.filled.last, "moving_own": moving.own,
    }  # fmt: skip
    if dynamics.spread is not None:
        arrays |= {
            "spread_variances": dynamics.spread.variances,
            "spread_coefficients": dynamics.spread.coefficients,
        }
    if dynamics.bend is not None:
        values["bends"] = True
        arrays |= {
            "bend_coefficients": dynamics.bend.coefficients, "bend_first": dynamics.bend.first,
        }  # fmt: skip
    if dynamics.gaps is not None:
        values["gaps"] = {"ridge": dynamics.gaps.ridge, "n_values": dynamics.gaps.n_values}
        arrays |= {
            "gap_weights": dynamics.gaps.weights, "gap_coefficients": dynamics.gaps.coefficients,
        }  # fmt: skip
    return values, arrays


def _positive(entries: Entries, name: str) -> FloatArray:
    """A symmetric positive definite matrix (q, q)."""
    found: FloatArray = entries.floats(name, "q", "q")
    try:
        np.linalg.cholesky(found)
    except np.linalg.LinAlgError:
        raise ModelFileError(f"{name}: expected a positive definite matrix, got another") from None
    return found


def dynamics_from(
    entries: Entries, n_times: int, standardized: Callable[[SensorDynamics, Any], FloatArray]
) -> tuple[SensorDynamics, MovingPosterior]:
    """The dynamics of `dynamics_state`; `standardized` gives x of the observations."""
    sensors = entries.integers("dynamics_sensors", "q", low=0, high=2**62)
    if not sensors.size or not (np.diff(sensors) > 0).all():
        raise ModelFileError("dynamics_sensors: expected rising sites, got others")
    model = Autoregression(
        entries.floats("dynamics_lags", N_GROUPS, "q", "q"),
        entries.floats("dynamics_constant", "q"),
    )
    law = Markov(
        model, _positive(entries, "dynamics_innovations"), _positive(entries, "dynamics_first")
    )
    spread = bend = gaps = None
    if entries.flag("days", "dynamics", "moves"):
        spread = Spread(
            entries.scales("spread_variances", len(HORIZONS), "q"),
            entries.floats("spread_coefficients", len(HORIZONS), N_COLUMNS),
        )
    # Files of before have no such entry.
    if "bends" in entries.value("days", "dynamics"):
        bend = Bend(
            entries.floats("bend_coefficients", len(HORIZONS), N_BENDS),
            entries.scales("bend_first", "q"),
        )
    if entries.value("days", "dynamics", "gaps") is not None:
        gaps = GapLaw(
            entries.floats("gap_weights", KNOTS.size, low=0.0, high=1.0),
            entries.floats("gap_coefficients", KNOTS.size + N_COLUMNS - 1),
            entries.number("days", "dynamics", "gaps", "ridge", low=0.0, high=max(PEER_RIDGES)),
            entries.integer("days", "dynamics", "gaps", "n_values", low=0, high=2**62),
        )
    peers = entries.floats("dynamics_peers", "q", "q")
    if not (peers.diagonal() > 0).all():
        raise ModelFileError("dynamics_peers: expected a diagonal above zero, got others")
    dynamics = SensorDynamics(
        sensors, law, entries.floats("dynamics_level", "q"),
        entries.scales("dynamics_scale", "q"),
        entries.scales("dynamics_level_spread", "q"),
        entries.floats("dynamics_neighbours", "q", "q", low=0.0), spread, bend, gaps, peers,
        entries.number("days", "dynamics", "ridge", above=0.0),
        entries.flag("days", "dynamics", "is_stable"),
        entries.number("days", "dynamics", "density"),
    )  # fmt: skip
    observed = entries.integers("moving_observed", "q", n_times, low=0, high=1) == 1
    x = standardized(dynamics, observed)

    def placed(name: str, elsewhere: FloatArray, low: float) -> FloatArray:
        out = elsewhere.copy()
        out[~observed] = entries.floats(name, "g", low=low)
        return out

    zeros = np.zeros(observed.shape)
    if int((~observed).sum()) != entries.floats("moving_mean", "g").size:
        raise ModelFileError("moving_mean: expected a mean of each gap, got another number")
    filled = FilledSeries(
        placed("moving_filled", x, -1e300), placed("moving_filled_variance", zeros, 0.0),
        entries.floats("moving_last", "u", "u"),
        entries.number("days", "dynamics", "log_evidence"),
    )  # fmt: skip
    moving = MovingPosterior(
        dynamics, observed, filled, placed("moving_mean", x, -1e300),
        placed("moving_variance", zeros, 0.0), entries.floats("moving_own", "q", low=0.0),
    )  # fmt: skip
    return dynamics, moving


def days_state(process: Any) -> tuple[dict[str, Any], Arrays]:
    """Usual day, field and dynamics of a process as values of JSON and arrays."""
    values: dict[str, Any] = {"usual": None, "dynamics": None, "reason": process.reason}
    arrays: Arrays = {}
    if process.usual is not None:
        values["usual"], arrays = usual_state(process.usual)
        values["ratio"] = process.field.ratio
        values["shared"] = process.field.shared
        arrays["day_past"] = process.past
        arrays["day_sensors"] = process.field.sensors
    if process.dynamics is not None:
        values["dynamics"], more = dynamics_state(process.dynamics, process.moving)
        arrays |= more
    return values, arrays


def ratio_from(entries: Entries) -> float:
    """Ratio of the field of a usual day."""
    ratio = entries.number("days", "ratio", above=0.0)
    if ratio not in RATIOS:
        raise ModelFileError(f"days.ratio: expected one of {RATIOS}, got {ratio}")
    return ratio


def shared_from(entries: Entries) -> float:
    """The part of the usual day that all sites share; files of before have none."""
    if "shared" not in entries.value("days"):
        return 0.0
    shared = entries.number("days", "shared", low=0.0)
    if shared not in SHARED:
        raise ModelFileError(f"days.shared: expected one of {SHARED}, got {shared}")
    return shared


def has(entries: Entries, name: str) -> bool:
    """Whether a file has a part, by its name in the header."""
    value = entries.value("days", name)
    return value is not None and bool(require_type(value, dict, f"days.{name}"))


def header_of(header: Header) -> Header:
    """The header of the process about the usual day."""
    return {**header, "process": "GraphTimeGP"}
