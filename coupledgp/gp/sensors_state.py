"""The law of sensors over time in a model file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.gp.protocol import Arrays
from coupledgp.gp.schema import Entries, axis_from, axis_state
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.bend import N_COLUMNS as N_BENDS
from coupledgp.time.bend import Bend
from coupledgp.time.days import PARTS
from coupledgp.time.law import SensorLaw
from coupledgp.time.places import Places
from coupledgp.time.precision import Markov
from coupledgp.time.recursion import HORIZONS, N_GROUPS, SHARES, Recursion
from coupledgp.time.sites import Sites
from coupledgp.time.spread import N_COLUMNS, Spread
from coupledgp.time.start import one_lag
from coupledgp.time.student import HEAVIEST
from coupledgp.time.usual_day import LEAST_DAYS, LEAST_STEPS, UsualDay, n_bands

# Most steps of a day, and days since 1970, in a file.
MOST_STEPS, MOST_DATES = 86400, 2**22


def law_state(law: SensorLaw, usual: UsualDay | None) -> tuple[dict[str, Any], Arrays]:
    """Parameters as values of JSON and arrays."""
    values: dict[str, Any] = {
        "ridge": law.ridge if np.isfinite(law.ridge) else None, "is_stable": law.is_stable,
        "density": law.density, "shares": list(law.shares),
        "factor": law.single[0], "tail": law.single[1], "moves": law.spread is not None,
        "usual": None,
    }  # fmt: skip
    arrays: Arrays = {
        "law_sensors": law.sensors, "law_lags": law.markov.model.coefficients,
        "law_innovations": law.markov.innovations, "law_first_step": law.markov.first,
        "law_level": law.level, "law_scale": law.scale, "law_level_spread": law.spread_of_level,
        "law_neighbours": law.neighbours, "law_errors": law.first,
    }  # fmt: skip
    if law.spread is not None and law.bend is not None and law.start is not None:
        arrays |= {
            "spread_variances": law.spread.variances,
            "spread_coefficients": law.spread.coefficients, "spread_tails": law.spread.tails,
            "bend_coefficients": law.bend.coefficients, "start_covariance": law.start.first,
        }  # fmt: skip
        values["far"] = law.spread.far
        values["start"] = float(law.start.model.coefficients[0, 0, 0])
    if usual is not None:
        values["usual"] = {"n_steps": usual.n_steps, "axis": axis_state(usual.axis)}
        arrays |= {
            "day_dates": usual.dates, "day_values": usual.values,
            "day_variances": usual.variances, "day_holidays": usual.holidays,
        }  # fmt: skip
    return values, arrays


def law_from(
    entries: Entries, n_sites: int, times: FloatArray
) -> tuple[SensorLaw, UsualDay | None]:
    """The law of `law_state`, with the times of the grid."""
    sensors = entries.integers("law_sensors", "p", low=0, high=n_sites - 1)
    if not sensors.size or not (np.diff(sensors) > 0).all():
        raise ModelFileError("law_sensors: expected rising nodes, got others")
    markov = Markov(
        Recursion(entries.floats("law_lags", N_GROUPS, "p", "p")),
        _positive(entries, "law_innovations"), _positive(entries, "law_first_step"),
    )  # fmt: skip
    start = spread = bend = None
    if entries.flag("law", "moves"):
        spread = Spread(
            entries.scales("spread_variances", len(HORIZONS), "p"),
            entries.floats("spread_coefficients", len(HORIZONS), N_COLUMNS),
            _tails(entries),
            entries.number("law", "far", low=1.0),
        )
        bend = Bend(entries.floats("bend_coefficients", len(HORIZONS), N_BENDS))
        phi = entries.number("law", "start", low=0.0, high=1.0)
        C = _positive(entries, "start_covariance")
        start = one_lag(phi, C)
    ridge = np.inf
    if entries.value("law", "ridge") is not None:
        ridge = entries.number("law", "ridge", above=0.0)
    law = SensorLaw(
        sensors.astype(np.int64), markov, start, entries.floats("law_level", "p"),
        entries.scales("law_scale", "p"), entries.scales("law_level_spread", "p"),
        entries.floats("law_neighbours", "p", "p", low=0.0), spread, bend,
        entries.scales("law_errors", "p"), ridge, entries.flag("law", "is_stable"),
        entries.number("law", "density"), _shares(entries),
        (entries.number("law", "factor", above=0.0),
         entries.number("law", "tail", low=0.0, high=HEAVIEST)),
    )  # fmt: skip
    usual = None if entries.value("law", "usual") is None else _usual_from(entries, times)
    return law, usual


def _usual_from(entries: Entries, times: FloatArray) -> UsualDay:
    n_steps = entries.integer("law", "usual", "n_steps", low=LEAST_STEPS, high=MOST_STEPS)
    axis = axis_from(entries.value("law", "usual", "axis"), times)
    if axis.origin is None:
        raise ModelFileError("law.usual.axis: expected an origin of the times, got none")
    dates = entries.integers("day_dates", "D", low=-MOST_DATES, high=MOST_DATES)
    if dates.size < LEAST_DAYS or not (np.diff(dates) > 0).all():
        raise ModelFileError(f"day_dates: expected {LEAST_DAYS} rising days or more, got others")
    holidays = entries.integers("day_holidays", "h", low=-MOST_DATES, high=MOST_DATES)
    variances = entries.floats("day_variances", n_bands(n_steps), len(PARTS), low=0.0)
    if not (variances[:, -1] > 0).all():
        raise ModelFileError("day_variances: expected variances of a day above zero, got others")
    values = entries.floats("day_values", "p", "D", n_steps)
    return UsualDay(axis, n_steps, dates, values, variances, holidays)


def _tails(entries: Entries) -> FloatArray:
    found: FloatArray = entries.floats("spread_tails", len(HORIZONS), low=0.0)
    if (found > HEAVIEST).any():
        raise ModelFileError(f"spread_tails: expected numbers up to {HEAVIEST}, got more")
    return found


def _shares(entries: Entries) -> tuple[float, float]:
    found = entries.value("law", "shares")
    if not isinstance(found, list) or len(found) != 2 or not set(found) <= set(SHARES):
        raise ModelFileError(f"law.shares: expected two of {SHARES}, got {found!r:.60}")
    return float(found[0]), float(found[1])


def _positive(entries: Entries, name: str) -> FloatArray:
    """A symmetric positive definite matrix (p, p)."""
    found: FloatArray = entries.floats(name, "p", "p")
    try:
        np.linalg.cholesky(found)
    except np.linalg.LinAlgError:
        raise ModelFileError(f"{name}: expected a positive definite matrix, got another") from None
    return found


def places_state(places: Places) -> tuple[dict[str, Any], Arrays]:
    """The law of nodes without a sensor as values of JSON and arrays; its sites are apart."""
    values = {
        "variance": places.variance, "nugget": places.nugget,
        "scale": places.scale, "share": places.lasting[0], "one": places.lasting[1],
    }  # fmt: skip
    return values, {
        "places_coefficients": places.coefficients, "places_means": places.mean,
    }  # fmt: skip


def places_from(entries: Entries, sites: Sites, sensors: IntArray) -> Places:
    """The law of `places_state`."""
    return Places(
        sites, sensors, entries.floats("places_means", int(sites.components().max()) + 1),
        entries.number("places", "variance", above=0.0),
        entries.number("places", "nugget", above=0.0), entries.floats("places_coefficients", 3),
        entries.number("places", "scale", above=0.0),
        (entries.number("places", "share", low=0.0, high=1.0),
         entries.number("places", "one", low=0.0, high=1.0)),
    )  # fmt: skip
