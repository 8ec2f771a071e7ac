"""A model of space and time beside what a user would predict with instead, on hidden readings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from coupledgp.diagnostics.space_time.models import fitted_to, law_of, readings_of
from coupledgp.diagnostics.space_time.readings import SensorReadings
from coupledgp.diagnostics.space_time.result import ModelCost, SpaceTimeEvaluation
from coupledgp.diagnostics.space_time.rivals import Rival, chosen_rivals, rival_law
from coupledgp.diagnostics.space_time.scoring import ScoreRow, SpaceTimeLaw, score_rows
from coupledgp.diagnostics.space_time.splits import SpaceTimeSplit, SplitPlan
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import draw_seed

Splits = int | SpaceTimeSplit | Sequence[SpaceTimeSplit]


def evaluate_space_time(
    model: Any,
    data: Any,
    times: Any = None,
    values: Any = None,
    *,
    splits: Splits = 3,
    plan: SplitPlan | None = None,
    rivals: str | Sequence[str] | Mapping[str, Rival] = "all",
    random_state: Any = 0,
) -> SpaceTimeEvaluation:
    """Hide readings, predict them by a model and by simpler means, and score all of them.

    In each split the model is fitted anew to what is left, hyperparameters included, and so are
    the rivals. Scores are of observations, in the units of the readings.

    Parameters
    ----------
    model
        An unfitted estimator such as `GraphTimeGPRegressor`, which is left as it is; or None, with
        `SensorReadings` as data, for the rivals alone.
    data, times, values
        Readings in any form that the model's `fit` takes, gaps included.
    splits
        Number of splits that are drawn by the plan, or splits of one's own.
    plan
        What is hidden; by default a tenth of the sensors altogether, and of the others a twentieth
        of the readings, a gap of six hours in half of them, and the last hour (`SplitPlan`).
    rivals
        `"all"`, names of `SPACE_TIME_RIVALS`, or functions of `SensorReadings` by name that return
        means and standard deviations (p, n) or None for the latter.
    random_state
        Seed of the splits and the empirical laws of rivals.

    Raises
    ------
    InvalidInputError
        The data, the splits or the names of rivals are invalid.
    """
    readings = readings_of(model, data, times, values)
    seed = draw_seed(random_state)
    drawn = drawn_splits(readings, splits, plan, seed)
    makers = _makers(model, chosen_rivals(rivals), seed)
    rows: list[ScoreRow] = []
    costs: list[ModelCost] = []
    for number, split in enumerate(drawn):
        for name, make in makers.items():
            start = time.process_time()
            law = make(readings, split)
            costs.append(ModelCost(number, name, time.process_time() - start))
            rows += score_rows(number, name, law, readings, split)
    return SpaceTimeEvaluation(tuple(rows), tuple(costs), len(drawn))


def drawn_splits(
    readings: SensorReadings, splits: Splits, plan: SplitPlan | None, seed: int
) -> list[SpaceTimeSplit]:
    """The splits that are given, or as many as are asked for, checked."""
    if isinstance(splits, SpaceTimeSplit):
        found = [splits]
    elif isinstance(splits, Sequence):
        found = list(splits)
    else:
        generators = np.random.default_rng(seed).spawn(check_positive_int(splits, "splits"))
        found = [(plan or SplitPlan()).draw(readings, rng) for rng in generators]
    if not found or not all(isinstance(split, SpaceTimeSplit) for split in found):
        raise InvalidInputError(
            f"splits: expected a number or SpaceTimeSplit objects, got {splits!r}"
        )
    for split in found:
        split.check(readings)
    return found


def _makers(
    model: Any, rivals: dict[str, Rival], seed: int
) -> dict[str, Callable[[SensorReadings, SpaceTimeSplit], SpaceTimeLaw]]:
    """Functions that give the laws of the model and of the rivals, by name."""

    def of_rival(rival: Rival) -> Callable[[SensorReadings, SpaceTimeSplit], SpaceTimeLaw]:
        return lambda readings, split: rival_law(rival, readings, split, seed)

    def of_model(readings: SensorReadings, split: SpaceTimeSplit) -> SpaceTimeLaw:
        return law_of(fitted_to(model, readings.without(split.hidden)), readings)

    own = {} if model is None else {type(model).__name__: of_model}
    return own | {name: of_rival(rival) for name, rival in rivals.items()}
