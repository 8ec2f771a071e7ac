"""Scores of laws of hidden readings, by kind, by time of day and by steps ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.diagnostics.scoring.scores import half_width, point_crps, point_nlpd
from coupledgp.diagnostics.space_time.readings import DAY, BoolArray, SensorReadings
from coupledgp.diagnostics.space_time.rivals import SpaceTimeLaw
from coupledgp.diagnostics.space_time.sensor_table import crps_of_quantiles
from coupledgp.diagnostics.space_time.splits import SpaceTimeSplit
from coupledgp.random import FloatArray

LEVEL = 0.95
# Names of the groups of a table; hours of a part of the day.
ALL, BY_DAY, BY_STEP = "all", "time of day", "steps ahead"
PART_HOURS = 3
# Steps ahead that have scores of their own: all up to 12, then every twelfth.
EVERY_STEP = 12
SCORES = ("rmse", "mae", "nlpd", "crps", "coverage_95", "bias")


@dataclass(frozen=True)
class ScoreRow:
    """Scores of one model over the hidden readings of one kind in one group.

    Attributes
    ----------
    split : int
        Number of the split.
    model, kind, group, value : str
        The model; the kind of readings; `"all"`, `"time of day"` or `"steps ahead"`; and which
        hours or steps.
    n : int
        Number of readings that the model predicts.
    rmse, mae, crps, bias : float
        In units of the readings; the bias is the mean of prediction minus reading.
    nlpd : float
        Nats per reading.
    coverage_95 : float
        Share of readings in the central 95 % intervals.
    """

    split: int
    model: str
    kind: str
    group: str
    value: str
    n: int
    rmse: float
    mae: float
    nlpd: float
    crps: float
    coverage_95: float
    bias: float


def score_values(y: FloatArray, law: SpaceTimeLaw) -> dict[str, Any]:
    """Scores of n laws by name, of observations (n,), n > 0."""
    error = law.mean - y
    density, crps, inside = _law_scores(y, law)
    return {
        "n": int(y.size),
        "rmse": float(np.sqrt(np.mean(np.square(error)))),
        "mae": float(np.mean(np.abs(error))),
        "nlpd": float(np.mean(density)),
        "crps": float(np.mean(crps)),
        "coverage_95": float(np.mean(inside)),
        "bias": float(np.mean(error)),
    }


def _law_scores(y: FloatArray, law: SpaceTimeLaw) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Negative log densities, CRPS, and whether observations (n,) are in 95 % intervals."""
    reach, transform = half_width(LEVEL), law.transform
    if transform is None or law.inner_mean is None or law.inner_std is None:
        inside = np.abs(y - law.mean) <= reach * law.std
        return point_nlpd(y, law.mean, law.std), point_crps(y, law.mean, law.std), inside
    z, mean, std = transform.forward(y), law.inner_mean, law.inner_std
    density = point_nlpd(z, mean, std) - transform.log_slope(y)
    inside = np.abs(z - mean) <= reach * std
    return density, crps_of_quantiles(transform, y, mean, std), inside


def score_rows(
    number: int, model: str, law: SpaceTimeLaw, readings: SensorReadings, split: SpaceTimeSplit
) -> list[ScoreRow]:
    """Scores of a model on a split; kinds and groups in which it predicts nothing have none."""
    known = readings.seen & (split.kind >= 0) & np.isfinite(law.mean)
    rows = []
    for kind in split.kinds:
        here = known & split.of_kind(kind)
        for group, value, columns in _groups(readings, split, here):
            cells = here & columns
            if cells.any():
                values = score_values(readings.values[cells], law.at(cells))
                rows.append(ScoreRow(number, model, kind, group, value, **values))
    return rows


def _groups(
    readings: SensorReadings, split: SpaceTimeSplit, here: BoolArray
) -> Iterator[tuple[str, str, BoolArray]]:
    """Groups of times (n,) by name and value."""
    yield ALL, "", np.ones(readings.times.size, dtype=np.bool_)
    seconds = readings.seconds_of_day
    if seconds is not None and readings.step < DAY:
        parts = np.floor(seconds / (3600 * PART_HOURS)).astype(np.int64)
        for part in np.unique(parts[here.any(axis=0)]).tolist():
            start = part * PART_HOURS
            yield BY_DAY, f"{start:02d}-{start + PART_HOURS:02d} h", parts == part
    for step in np.unique(split.ahead[here.any(axis=0)]).tolist():
        if step and (step <= EVERY_STEP or step % EVERY_STEP == 0):
            yield BY_STEP, str(step), split.ahead == step
