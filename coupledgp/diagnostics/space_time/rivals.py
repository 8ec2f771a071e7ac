"""What a user would predict with instead, by name, each with a law.

| name | prediction | law |
|---|---|---|
| linear in time | the sensor's readings joined by straight lines | empirical |
| last value | the sensor's last reading | empirical |
| nearest sensor | the nearest sensor that reports at the time, by length of path | empirical |
| mean of all sensors | mean of those that report at the time | empirical |
| mean at that time of day | the sensor's mean at the same time of other days | empirical |
| GP in time alone | an Ornstein-Uhlenbeck process for each sensor | its own |
| graph GP per time step | a graph Matern process for each time | its own |

An empirical law is normal about the prediction. Its standard deviation is the root mean squared
error of the same predictions of readings that are known: the split is laid over other sensors and
earlier times, and errors are pooled by kind and by steps ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from coupledgp.diagnostics.space_time.per_step import graph_gp_per_step
from coupledgp.diagnostics.space_time.readings import BoolArray, SensorReadings
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw
from coupledgp.diagnostics.space_time.simple import (
    last_value,
    linear_in_time,
    mean_at_the_time,
    mean_at_the_time_of_day,
    nearest_sensor,
)
from coupledgp.diagnostics.space_time.splits import SpaceTimeSplit
from coupledgp.diagnostics.space_time.time_alone import gp_in_time
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray, as_rng

# Laws (p, n): means and, where a rival has them, standard deviations of observations. A mean is NaN
# where a rival says nothing.
Rival = Callable[[SensorReadings], tuple[FloatArray, FloatArray | None]]
# How often a split is laid over other readings for an empirical law, and errors that tell one.
N_LAID, FEWEST_ERRORS = 4, 10


def _point(function: Callable[[SensorReadings], FloatArray]) -> Rival:
    """A rival without a law."""
    return lambda readings: (function(readings), None)


SPACE_TIME_RIVALS: dict[str, Rival] = {
    "linear in time": _point(linear_in_time),
    "last value": _point(last_value),
    "nearest sensor": _point(nearest_sensor),
    "mean of all sensors": _point(mean_at_the_time),
    "mean at that time of day": _point(mean_at_the_time_of_day),
    "GP in time alone": gp_in_time,
    "graph GP per time step": graph_gp_per_step,
}


def chosen_rivals(rivals: str | Sequence[str] | Mapping[str, Rival]) -> dict[str, Rival]:
    """Rivals by name: `"all"`, some names, or functions of one's own by name.

    Raises
    ------
    InvalidInputError
        A name is unknown, or something is no function.
    """
    if isinstance(rivals, Mapping):
        for name, function in rivals.items():
            if not callable(function):
                raise InvalidInputError(
                    f"rivals: expected a function of SensorReadings for {name!r}, got {function!r}"
                )
        return dict(rivals)
    if isinstance(rivals, str) and rivals == "all":
        return dict(SPACE_TIME_RIVALS)
    names = [rivals] if isinstance(rivals, str) else list(rivals)
    return {
        name: SPACE_TIME_RIVALS[check_choice(name, SPACE_TIME_RIVALS, "rivals")] for name in names
    }


def rival_law(
    rival: Rival, readings: SensorReadings, split: SpaceTimeSplit, seed: int
) -> SpaceTimeLaw:
    """Law of a rival that is given the readings which a split leaves."""
    given = readings.without(split.hidden)
    mean, std = rival(given)
    if std is None:
        std = _empirical_std(rival, given, split, seed)
    return SpaceTimeLaw(mean, std)


def _empirical_std(
    rival: Rival, given: SensorReadings, split: SpaceTimeSplit, seed: int
) -> FloatArray:
    """Root mean squared errors (p, n) where readings are hidden, by kind and by steps ahead."""
    errors, kinds, ahead = _errors(rival, given, split, seed)
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
    rival: Rival, given: SensorReadings, split: SpaceTimeSplit, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Errors of readings that are hidden for a trial, their kinds, and steps ahead."""
    rng = as_rng(seed)
    found = []
    for number in range(N_LAID):
        laid, later = _laid_elsewhere(split, number, rng)
        kind = np.where(later, -1, laid.kind)
        mean, _ = rival(given.without(laid.hidden | later))
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
