"""What a user would predict with instead, by name, each with a law.

| name | prediction | law |
|---|---|---|
| linear in time | the sensor's readings joined by straight lines | empirical |
| last value | the sensor's last reading | empirical |
| nearest sensor | the nearest sensor that reports at the time, by length of path | empirical |
| mean of all sensors | mean of those that report at the time | empirical |
| mean at that time of day | the sensor's mean at the same time of other days | empirical |
| mean at that time of the week | its mean at the same time of the same weekday | empirical |
| regression on the other sensors | ridge regression on all others at the same time | empirical |
| autoregression | ridge regression on three lags of all sensors, step by step | empirical |
| low rank | least nuclear norm, by softImpute | empirical |
| boosted trees | gradient boosting on lags, other sensors and the time of day | its own errors |
| GP in time alone | an Ornstein-Uhlenbeck process for each sensor | its own |
| graph GP per time step | a graph Matern process for each time | its own |

An empirical law is normal about the prediction. Its standard deviation is the root mean squared
error of the same predictions of readings that are known: the split is laid over other sensors and
earlier times, and errors are pooled by kind and by steps ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coupledgp.diagnostics.rivals.rival import Rival, fitted_to, of_shape
from coupledgp.diagnostics.space_time.boosted import boosted_trees
from coupledgp.diagnostics.space_time.learned import autoregression, low_rank, ridge_on_peers
from coupledgp.diagnostics.space_time.models import law_of
from coupledgp.diagnostics.space_time.per_step import graph_gp_per_step
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw
from coupledgp.diagnostics.space_time.simple import (
    last_value,
    linear_in_time,
    mean_at_the_time,
    mean_at_the_time_of_day,
    mean_at_the_time_of_the_week,
    nearest_sensor,
)
from coupledgp.diagnostics.space_time.splits import BoolArray, SensorReadings, SpaceTimeSplit
from coupledgp.diagnostics.space_time.time_alone import gp_in_time
from coupledgp.random import FloatArray, as_rng

# Multiply-adds a second of products, on one core of a server of 2019.
RATE = 1.5e10
# How often a split is laid over other readings for an empirical law, and errors that tell one.
N_LAID, FEWEST_ERRORS = 4, 10


def _point(
    function: Callable[[SensorReadings], FloatArray],
) -> Callable[[SensorReadings], tuple[FloatArray, None]]:
    """A rival without a law."""
    return lambda readings: (function(readings), None)


# Functions of readings that give means and, where they have them, standard deviations of
# observations (p, n). A mean is NaN where a rival says nothing.
SPACE_TIME_RIVALS: dict[str, Callable[[SensorReadings], tuple[FloatArray, FloatArray | None]]] = {
    "linear in time": _point(linear_in_time),
    "last value": _point(last_value),
    "nearest sensor": _point(nearest_sensor),
    "mean of all sensors": _point(mean_at_the_time),
    "mean at that time of day": _point(mean_at_the_time_of_day),
    "mean at that time of the week": _point(mean_at_the_time_of_the_week),
    "regression on the other sensors": _point(ridge_on_peers),
    "autoregression": _point(autoregression),
    "low rank": _point(low_rank),
    "boosted trees": boosted_trees,
    "GP in time alone": gp_in_time,
    "graph GP per time step": graph_gp_per_step,
}


def rival_seconds(name: str, p: int, n: int) -> float:
    """Forecast of the processor seconds of a rival for p sensors and n times, its law included.

    A law of errors takes `N_LAID` further fits; products run at `RATE` multiply-adds a second.
    """
    cells, fits = float(p) * n, 1 + N_LAID
    products = {
        "regression on the other sensors": fits * (6 * p * cells + 4 * p**3),
        "autoregression": fits * (12 * p * cells + 9 * p**3),
        "low rank": 18 * fits * (3 * p * cells + 10 * p**3),
        "graph GP per time step": 340 * p * cells + 20 * p**3,
        "nearest sensor": fits * 20 * p * cells,
    }
    found = 2e-7 * fits * cells + products.get(name, 0.0) / RATE
    if name == "boosted trees":
        found += 1.5 + 4e-7 * p * cells / 100
    return found + (2e-6 * cells if name == "GP in time alone" else 0.0)


def rival_law(
    rival: Any, readings: SensorReadings, split: SpaceTimeSplit, seed: int, seconds: float = np.inf
) -> SpaceTimeLaw:
    """Law of a rival that is given the readings which a split leaves.

    Parameters
    ----------
    rival
        A `Rival`, or what `Rival.of` takes. Fitted to readings it is a law (p, n) of the sensors at
        the times, means with or without standard deviations, a fitted estimator of space and time,
        or a function of readings that gives one of these.
    readings, split
        All readings, and what is hidden of them.
    seed
        Seed of the empirical law of a rival that gives means only.
    seconds
        Time that the rival has for a fit.

    Raises
    ------
    InvalidInputError
        Its law has another shape than the readings.
    """
    one, given = Rival.of(rival), readings.without(split.hidden)
    law = _given_law(one, given, seconds)
    if isinstance(law, SpaceTimeLaw):
        return law
    return SpaceTimeLaw(law, _empirical_std(one, given, split, seed, seconds))


def _given_law(rival: Rival, given: SensorReadings, seconds: float) -> SpaceTimeLaw | FloatArray:
    """Law of a rival fitted to readings, or means (p, n) where it has no more."""
    found = fitted_to(rival, given, seconds).law
    found = found(given) if callable(found) else found
    if hasattr(found, "predict"):
        found = law_of(found, given)
    if isinstance(found, SpaceTimeLaw):
        return found
    mean, std = found if isinstance(found, tuple) else (found, None)
    shape = given.values.shape
    mean = of_shape(mean, shape, "means")
    return mean if std is None else SpaceTimeLaw(mean, of_shape(std, shape, "deviations"))


def _empirical_std(
    rival: Rival, given: SensorReadings, split: SpaceTimeSplit, seed: int, seconds: float
) -> FloatArray:
    """Root mean squared errors (p, n) where readings are hidden, by kind and by steps ahead."""
    errors, kinds, ahead = _errors(rival, given, split, seed, seconds)
    std = np.full(given.values.shape, _root_mean_square(errors))
    for kind in range(len(split.kinds)):
        own = kinds == kind
        if own.sum() < FEWEST_ERRORS:
            continue
        here = split.kind == kind
        std[here] = _root_mean_square(errors[own])
        for step in np.unique(ahead[own & (ahead > 0)]).tolist():
            at = own & (ahead == step)
            if at.sum() >= FEWEST_ERRORS:
                std[here & (split.ahead == step)] = _root_mean_square(errors[at])
    return std


def _errors(
    rival: Rival, given: SensorReadings, split: SpaceTimeSplit, seed: int, seconds: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Errors of readings that are hidden for a trial, their kinds, and steps ahead."""
    rng = as_rng(seed)
    found = []
    for number in range(N_LAID):
        laid, later = _laid_elsewhere(split, number, rng)
        kind = np.where(later, -1, laid.kind)
        law = _given_law(rival, given.without(laid.hidden | later), seconds)
        mean = law.mean if isinstance(law, SpaceTimeLaw) else law
        known = given.seen & (kind >= 0) & np.isfinite(mean)
        ahead = np.broadcast_to(laid.ahead, kind.shape)
        found.append((given.values[known] - mean[known], kind[known], ahead[known]))
    errors, kinds, steps = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return errors, kinds, steps


def _laid_elsewhere(
    split: SpaceTimeSplit, number: int, rng: np.random.Generator
) -> tuple[SpaceTimeSplit, BoolArray]:
    """The split moved to other sensors and earlier times, and where times are after a forecast."""
    p, n = split.hidden.shape
    horizon = int(split.ahead.max(initial=0))
    rows = rng.permutation(p)
    # Forecasts begin elsewhere each time, in the later half of the times.
    shift = horizon if number == 0 else int(rng.integers(horizon, max(n // 2, horizon + 1)))
    later = np.zeros((p, n), dtype=np.bool_)
    if horizon:
        later[:, n - shift :] = True
    hidden = np.roll(split.hidden[rows], -shift, axis=1)
    kind = np.roll(split.kind[rows], -shift, axis=1)
    ahead = np.where(np.arange(n) < n - shift, np.roll(split.ahead, -shift), 0)
    return SpaceTimeSplit(hidden, split.kinds, kind, ahead), later


def _root_mean_square(errors: FloatArray) -> float:
    """Root mean square of errors, positive; one if there are none."""
    return float(np.sqrt(np.mean(np.square(errors)))) or 1e-9 if errors.size else 1.0
