"""Scores of laws of hidden readings, by kind, by time of day and by steps ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.scoring.laws import PointLaws, TransformedLaws
from coupledgp.diagnostics.scoring.score_table import NLPD, PointScore, paired_scores
from coupledgp.diagnostics.scoring.scores import (
    coverage_points,
    error_over_groups,
    inside_levels,
    paired_difference,
)
from coupledgp.diagnostics.space_time.splits import DAY, BoolArray, SensorReadings, SpaceTimeSplit
from coupledgp.random import FloatArray

LEVEL = 0.95
# Names of the groups of a table; hours of a part of the day.
ALL, BY_DAY, BY_STEP = "all", "time of day", "steps ahead"
PART_HOURS = 3
# Steps ahead that have scores of their own: all up to 12, then every twelfth.
EVERY_STEP = 12
# Scores of a table, each a mean of losses of single readings or the root of one.
SCORED = {
    score.name: score
    for score in (
        *(one for one in paired_scores() if one.name in ("rmse", "mae", "nlpd", "crps")),
        PointScore(
            name="coverage_95", label="in 95 %", lower_is_better=False,
            points=lambda y, mean, std: coverage_points(y, mean, std, (LEVEL,))[..., 0],
            of_mixture=lambda y, law: inside_levels(law.transforms(y), (LEVEL,))[..., 0],
        ),
        PointScore(name="bias", label="bias", points=lambda y, mean, std: mean - y),
    )
}  # fmt: skip


class SpaceTimeLaw(NamedTuple):
    """Laws (p, n) of observations: normal or Student ones, or those of transforms that have such.

    Attributes
    ----------
    mean, std : FloatArray (p, n)
        Means and standard deviations; NaN where there is no prediction.
    transform : TargetTransform or None
        The map g of observations y for which `g(y)` is normal; None: y itself is.
    inner_mean, inner_std : FloatArray (p, n) or None
        Means and standard deviations of `g(y)`.
    tails : FloatArray (p, n) or None
        Inverse degrees of freedom of Student's law of `g(y)` or y; zero, and None: normal.
    """

    mean: FloatArray
    std: FloatArray
    transform: TargetTransform | None = None
    inner_mean: FloatArray | None = None
    inner_std: FloatArray | None = None
    tails: FloatArray | None = None

    def at(self, cells: BoolArray) -> PointLaws:
        """The laws (m, 1) at some cells (p, n)."""
        mean, std, own = self.mean[cells, None], self.std[cells, None], None
        tails = None if self.tails is None else self.tails[cells, None]
        if self.transform is not None:
            assert self.inner_mean is not None
            assert self.inner_std is not None
            inner = self.inner_mean[cells, None], self.inner_std[cells, None]
            own = TransformedLaws(self.transform, *inner, tails)
        elif tails is not None and tails.any():
            own = TransformedLaws(None, mean, std, tails)
        return PointLaws(mean, std, own)


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
    coverage_error : float
        Standard error of that share; see `coverage_error`.
    gain, gain_error : float or None
        Mean paired decrease of the NLPD from the evaluated model to this one, nats per reading, and
        its standard error over sensors. None without an evaluated model; the error is None for a
        single sensor.
    ratio_error : float or None
        Standard error of the logarithm of the RMSE over that of the evaluated model; see
        `ratio_error`. None without an evaluated model, or without two readings.
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
    coverage_error: float = 0.0
    gain: float | None = None
    gain_error: float | None = None
    ratio_error: float | None = None


def score_values(y: FloatArray, laws: PointLaws) -> dict[str, Any]:
    """Scores of laws (m, 1) by name, of observations (m,), m > 0."""
    targets = y[:, None]
    found = {name: score.value(laws.losses(score, targets)) for name, score in SCORED.items()}
    return {"n": int(y.size), **found}


def gain_over(
    own: SpaceTimeLaw, law: SpaceTimeLaw, readings: SensorReadings, cells: BoolArray
) -> dict[str, float | None]:
    """Mean decrease of the NLPD from one law to another at cells (p, n), with its error."""
    targets = readings.values[cells, None]
    before, after = (one.at(cells).losses(NLPD, targets) for one in (own, law))
    found = paired_difference(before, after, np.nonzero(cells)[0])
    ratio = ratio_error(own, law, readings, cells)
    return {"gain": found.mean, "gain_error": found.standard_error, "ratio_error": ratio}


def ratio_error(
    own: SpaceTimeLaw, law: SpaceTimeLaw, readings: SensorReadings, cells: BoolArray
) -> float | None:
    """Standard error of `log(RMSE of one law / RMSE of another)` at cells (p, n).

    With squared errors e and f it is half that of the mean of `e / mean(e) - f / mean(f)`, the
    greatest of three: of independent readings, and of those that go together at a sensor and at a
    time. None for one reading, or predictions without error.
    """
    y = readings.values[cells]
    e, f = (np.square(one.mean[cells] - y) for one in (own, law))
    if y.size < 2 or not min(e.mean(), f.mean()) > 0:
        return None
    gap = e / e.mean() - f / f.mean()
    found = [float(gap.std(ddof=1) / np.sqrt(y.size))]
    found += [error_over_groups(gap, groups) or 0.0 for groups in np.nonzero(cells)]
    return 0.5 * max(found)


def coverage_error(law: SpaceTimeLaw, readings: SensorReadings, cells: BoolArray) -> float:
    """Standard error of the share of readings in their 95 % intervals, at cells (p, n).

    It is the greatest of three: that of independent readings whose intervals are right (binomial),
    and those of readings that go together at a sensor, and at a time.
    """
    inside = law.at(cells).losses(SCORED["coverage_95"], readings.values[cells, None])
    found = [float(np.sqrt(LEVEL * (1 - LEVEL) / len(inside)))]
    found += [error_over_groups(inside, groups) or 0.0 for groups in np.nonzero(cells)]
    return max(found)


def score_rows(
    number: int,
    model: str,
    law: SpaceTimeLaw,
    readings: SensorReadings,
    split: SpaceTimeSplit,
    own: SpaceTimeLaw | None = None,
) -> list[ScoreRow]:
    """Scores of a model on a split; kinds and groups in which it predicts nothing have none.

    `own` is the law of the model that is evaluated, from which others differ.
    """
    known = readings.seen & (split.kind >= 0) & np.isfinite(law.mean)
    rows = []
    for kind in split.kinds:
        here = known & split.of_kind(kind)
        for group, value, columns in _groups(readings, split, here):
            cells = here & columns
            if cells.any():
                values = score_values(readings.values[cells], law.at(cells))
                values["coverage_error"] = coverage_error(law, readings, cells)
                if own is not None and own is not law:
                    values |= gain_over(own, law, readings, cells)
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
