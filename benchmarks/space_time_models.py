"""Models of space and time for `space_time.py`: laws of observations at hidden readings."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import coupledgp as cgp
from benchmarks.space_time_data import Case
from coupledgp.diagnostics.space_time.models import fitted_to, law_of
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, rival_law
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw
from coupledgp.diagnostics.space_time.simple import linear_in_time
from coupledgp.diagnostics.space_time.splits import SensorReadings, SpaceTimeSplit, SplitPlan
from coupledgp.random import FloatArray

# Settings of the package's model by name.
SETTINGS: dict[str, dict[str, Any]] = {"the law": {}}
Law = Callable[[Case, SpaceTimeSplit], SpaceTimeLaw]


@lru_cache(maxsize=1)
def fitted(case: Case, split: SpaceTimeSplit, how: str) -> cgp.GraphTimeGPRegressor:
    """The package's model given what a split leaves; the last one is kept."""
    model = cgp.GraphTimeGPRegressor(case.readings.domain, progress=False, **SETTINGS[how])
    found = fitted_to(model, case.readings.without(split.hidden))
    print(found.kernel_, found.method_reason_, flush=True)
    return found


def graph_time(how: str) -> Law:
    """The package's model with some settings."""
    return lambda case, split: law_of(fitted(case, split, how), case.readings)


def of_rival(name: str) -> Law:
    """A rival of the package's diagnostics."""
    return lambda case, split: rival_law(SPACE_TIME_RIVALS[name], case.readings, split, 0)


def low_rank(readings: SensorReadings) -> tuple[FloatArray, None]:
    """Completion of the matrix of sensors and times with a penalty on its singular values.

    Soft-impute (Mazumder, Hastie and Tibshirani 2010) of readings that are standardised sensor by
    sensor, from linear interpolation on; the penalty is the best of three on further hidden
    readings. NaN for sensors and times without a reading.
    """
    seen = np.ix_(readings.seen.any(axis=1), readings.seen.any(axis=0))
    part = SensorReadings(
        readings.values[seen], readings.times[seen[1].ravel()], readings.sites[seen[0].ravel()],
        readings.domain, None if readings.seconds_of_day is None else np.zeros(seen[1].size),
    )  # fmt: skip
    trial = SplitPlan(sensors=0.0, horizon=0.0).draw(part, 0)
    known = trial.hidden & part.seen
    penalties = np.sqrt(part.times.size) * np.array([0.25, 0.5, 1.0])
    errors = [
        np.mean((completed(part.without(trial.hidden), x) - part.values)[known] ** 2)
        for x in penalties
    ]
    mean = np.full(readings.values.shape, np.nan)
    mean[seen] = completed(part, float(penalties[int(np.argmin(errors))]))
    return mean, None


def completed(readings: SensorReadings, penalty: float) -> FloatArray:
    """The matrix (p, n) whose singular values are shrunk by the penalty, after 30 rounds."""
    center = np.nanmean(readings.values, axis=1, keepdims=True)
    scale = np.nanstd(readings.values, axis=1, keepdims=True) + 1e-9
    values = (readings.values - center) / scale
    found = (linear_in_time(readings) - center) / scale
    for _ in range(30):
        filled = np.where(readings.seen, values, found)
        squares, U = np.linalg.eigh(filled @ filled.T)
        shrunk = np.maximum(1.0 - penalty / np.sqrt(np.maximum(squares, 1e-12)), 0.0)
        found = (U * shrunk) @ (U.T @ filled)
    return center + scale * found


MODELS: dict[str, Law] = {
    **{how: graph_time(how) for how in SETTINGS},
    **{name: of_rival(name) for name in SPACE_TIME_RIVALS},
    "low-rank completion": lambda case, split: rival_law(low_rank, case.readings, split, 0),
}
