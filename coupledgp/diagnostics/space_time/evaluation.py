"""A model of space and time beside what a user would predict with instead, on hidden readings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coupledgp.diagnostics.rivals.contest import Contest, Entry
from coupledgp.diagnostics.rivals.rival import Rival, chosen_rivals
from coupledgp.diagnostics.scoring.alternatives import Skipped
from coupledgp.diagnostics.space_time.models import fitted_to, readings_of
from coupledgp.diagnostics.space_time.readings import SensorReadings
from coupledgp.diagnostics.space_time.result import ModelCost, SpaceTimeEvaluation
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, rival_law, rival_seconds
from coupledgp.diagnostics.space_time.scoring import ScoreRow, SpaceTimeLaw, score_rows
from coupledgp.diagnostics.space_time.splits import SpaceTimeSplit, SplitPlan
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import silent
from coupledgp.ground.validation import check_choice, check_positive_int
from coupledgp.inference.nodes.forecast import seconds_of
from coupledgp.random import draw_seed

# A budget of the rivals, and the least seconds of it.
AS_THE_MODEL, LEAST_BUDGET = "as the model", 15.0

Splits = int | SpaceTimeSplit | Sequence[SpaceTimeSplit]


def evaluate_space_time(
    model: Any,
    data: Any,
    times: Any = None,
    values: Any = None,
    *,
    splits: Splits = 3,
    plan: SplitPlan | None = None,
    rivals: Any = "all",
    budget: float | str | None = None,
    hyperparameters: str = "fitted",
    random_state: Any = 0,
) -> SpaceTimeEvaluation:
    """Hide readings, predict them by a model and by simpler means, and score all of them.

    In each split the model is fitted anew to what is left, hyperparameters included, and so are
    the rivals. Scores are of observations, in the units of the readings. A rival that fails or does
    not fit into the budget is named in `skipped`.

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
        `"all"`, the name of one of `SPACE_TIME_RIVALS`, a rival of your own, or a list of any of
        these; or rivals of your own by name. One of your own is a function of `SensorReadings`, or
        an object with a `name` and `fit(readings)`. It returns means, or means and standard
        deviations of observations (p, n), a fitted estimator, or a function of readings that does.
        Of means alone the law is empirical. An unfitted estimator is a rival, too.
    budget
        Processor seconds of the rivals in each split, or a text such as `"90s"`; `"as the model"`:
        as many as the model took, 15 at least; None: no limit.
    hyperparameters
        `"fitted"`: those of the model are found anew in each split. `"kept"`: the model is fitted
        and has a method `refitted`, which keeps some thirty numbers that were found with the hidden
        readings, and learns all else anew; it takes about a third of a fit.
    random_state
        Seed of the splits and the empirical laws of rivals.

    Raises
    ------
    InvalidInputError
        The data, the splits or the names of rivals are invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import SensorReadings, evaluate_space_time
    >>> t = np.arange(48.0)
    >>> ring = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> values = np.sin(t / 4) + np.arange(4)[:, None]
    >>> readings = SensorReadings(values, t, np.arange(4), ring)
    >>> rivals = ["linear in time", "last value"]
    >>> found = evaluate_space_time(None, readings, splits=1, rivals=rivals)
    >>> found.score("linear in time", "gap") < found.score("last value", "gap")
    True
    """
    check_choice(hyperparameters, ("fitted", "kept"), "hyperparameters")
    kept = hyperparameters == "kept"
    if kept and not hasattr(model, "fitted_"):
        raise InvalidInputError(
            "hyperparameters: expected 'fitted' for a model without a fit to keep them of, "
            f"got 'kept' for {type(model).__name__}"
        )
    readings = readings_of(model, data, times, values)
    seed = draw_seed(random_state)
    drawn = drawn_splits(readings, splits, plan, seed)
    known = [
        replace(Rival.of(function, name), seconds=rival_seconds(name, *readings.values.shape))
        for name, function in SPACE_TIME_RIVALS.items()
    ]
    others = chosen_rivals(rivals, known, rival_of)
    limit = np.inf
    if budget is not None and budget != AS_THE_MODEL:
        limit = seconds_of(budget)

    def laws_on(split: SpaceTimeSplit) -> Callable[[Rival, float], SpaceTimeLaw]:
        return lambda one, seconds: rival_law(one, readings, split, seed, seconds)

    rows: list[ScoreRow] = []
    costs: list[ModelCost] = []
    skipped: dict[Skipped, None] = {}
    for number, split in enumerate(drawn):
        start, own, entries = time.process_time(), None, []
        if model is not None:
            rival = rival_of(model, kept=kept)
            own = rival_law(rival, readings, split, seed)
            entries = [Entry(rival, own, time.process_time() - start)]
            if budget == AS_THE_MODEL:
                limit = max(entries[0].seconds, LEAST_BUDGET)
        contest = Contest(limit, silent, time.process_time)
        found, without = contest.run(others, laws_on(split))
        skipped |= dict.fromkeys(without)
        # The cheapest come first in a contest; tables have them as they were asked for.
        found = sorted(found, key=lambda one: [rival is one.rival for rival in others].index(True))
        for one in [*entries, *found]:
            name = one.rival.name
            costs.append(ModelCost(number, name, one.seconds))
            rows += score_rows(number, name, one.found, readings, split, own)
    return SpaceTimeEvaluation(tuple(rows), tuple(costs), len(drawn), tuple(skipped))


def rival_of(given: Any, name: str = "", *, kept: bool = False) -> Rival:
    """A rival as of `Rival.of`; a clone of an estimator is fitted to readings."""
    if hasattr(given, "get_params"):
        name = name or type(given).__name__
        return Rival(name, lambda readings, seconds: fitted_to(given, readings, kept=kept))
    return Rival.of(given, name)


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
