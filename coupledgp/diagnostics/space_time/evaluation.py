"""A model of space and time beside what a user would predict with instead, on hidden readings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.core.budget import seconds_of
from coupledgp.diagnostics.rivals.contest import Contest, Entry
from coupledgp.diagnostics.rivals.rival import Rival, chosen_rivals
from coupledgp.diagnostics.scoring.figures import Skipped
from coupledgp.diagnostics.space_time.models import fitted_to, readings_of
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, rival_law, rival_seconds
from coupledgp.diagnostics.space_time.scoring import ALL, SCORED, ScoreRow, SpaceTimeLaw, score_rows
from coupledgp.diagnostics.space_time.splits import SensorReadings, SpaceTimeSplit, SplitPlan
from coupledgp.diagnostics.studies.tables import csv_of
from coupledgp.errors import InvalidInputError
from coupledgp.ground.output import write_text
from coupledgp.ground.validation import check_choice, check_positive_int, wrong
from coupledgp.random import draw_seed

if TYPE_CHECKING:
    import pandas as pd

KEYS = ("model", "kind", "group", "value")
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
        and has a method `refitted`, which keeps the transform and the ridge that were found with
        the hidden readings, and learns all else anew.
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
        contest = Contest(limit, time.process_time)
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
        raise wrong("splits", "a number or SpaceTimeSplit objects", splits)
    for split in found:
        split.check(readings)
    return found


@dataclass(frozen=True)
class ModelCost:
    """Seconds of processor time that a model took in a split, fit and predictions together."""

    split: int
    model: str
    cpu_seconds: float


@dataclass(frozen=True)
class SpaceTimeEvaluation:
    """Scores of a model and its rivals on hidden readings.

    Attributes
    ----------
    rows : tuple of ScoreRow
        Scores of each split, model, kind and group.
    costs : tuple of ModelCost
    n_splits : int
    skipped : tuple of Skipped
        Rivals without scores, and why.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import SensorReadings, evaluate_space_time
    >>> t = np.arange(48.0)
    >>> ring = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> values = np.sin(t / 4) + np.arange(4)[:, None]
    >>> readings = SensorReadings(values, t, np.arange(4), ring)
    >>> found = evaluate_space_time(None, readings, splits=1, rivals="last value")
    >>> found.models, found.kinds
    (['last value'], ['scattered', 'gap', 'forecast'])
    >>> print(found.to_markdown().splitlines()[0])
    | where | model | RMSE | MAE | NLPD | CRPS | in 95 % | n |
    """

    rows: tuple[ScoreRow, ...] = field(repr=False)
    costs: tuple[ModelCost, ...] = field(repr=False)
    n_splits: int
    skipped: tuple[Skipped, ...] = ()

    @property
    def models(self) -> list[str]:
        """Names of the models, the one that is evaluated first."""
        return list(dict.fromkeys(row.model for row in self.rows))

    @property
    def kinds(self) -> list[str]:
        """Kinds of hidden readings that are scored."""
        return list(dict.fromkeys(row.kind for row in self.rows))

    def table(self, group: str | None = None) -> list[dict[str, Any]]:
        """Means over splits of all scores, one dict for each model, kind and group.

        Parameters
        ----------
        group
            `"all"`, `"time of day"` or `"steps ahead"`; None for all of them.

        Returns
        -------
        list of dict
            `model`, `kind`, `group`, `value`, `n` (readings over all splits), the scores,
            `coverage_error` as of `ScoreRow`, `rmse_error`: standard error of the RMSE over splits,
            NaN for one split, and `gain`, `gain_error` and `ratio_error` as of `ScoreRow`, None
            without a model.
        """
        return [
            _mean_of(rows) for key, rows in _grouped(self.rows) if group is None or key[2] == group
        ]

    def score(self, model: str, kind: str, name: str = "rmse", value: str = "") -> float:
        """One score of a model on a kind of readings, the mean over splits.

        Parameters
        ----------
        model, kind
            Names as in `models` and `kinds`.
        name
            `"rmse"`, `"mae"`, `"nlpd"`, `"crps"`, `"coverage_95"` or `"bias"`.
        value
            Hours of the day or steps ahead, as in the table; all readings by default.

        Raises
        ------
        InvalidInputError
            There is no such score.
        """
        check_choice(name, SCORED, "name")
        for row in self.table(None):
            if (row["model"], row["kind"], row["value"]) == (model, kind, value):
                return float(row[name])
        raise InvalidInputError(
            f"model, kind: expected some of {self.models} and {self.kinds}, got {model!r}, {kind!r}"
        )

    def cpu_seconds(self, model: str) -> float:
        """Mean processor seconds of a model in a split."""
        return float(np.mean([c.cpu_seconds for c in self.costs if c.model == model]))

    def to_dataframe(self, *, by_split: bool = False) -> pd.DataFrame:
        """The table as a `pandas.DataFrame`: means over splits, or a row for each split."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows] if by_split else self.table())

    def to_csv(self, path: str | os.PathLike[str], *, by_split: bool = False) -> None:
        """Write the table of `to_dataframe` as CSV."""
        rows = [asdict(row) for row in self.rows] if by_split else self.table()
        write_text(path, csv_of((list(rows[0]), [[*row.values()] for row in rows])))

    def to_markdown(self, group: str = ALL) -> str:
        """The table of a group as Markdown, kind by kind, the least RMSE first."""
        head = "| where | model | RMSE | MAE | NLPD | CRPS | in 95 % | n |"
        lines = [head, "|---|---|---|---|---|---|---|---|"]
        rows = self.table(group)
        order = {kind: number for number, kind in enumerate(self.kinds)}
        rows.sort(key=lambda row: (order[row["kind"]], _first_number(row["value"]), row["rmse"]))
        for row in rows:
            where = f"{row['kind']} {row['value']}".strip()
            figures = " | ".join(f"{row[s]:.3g}" for s in ("rmse", "mae", "nlpd", "crps"))
            lines.append(
                f"| {where} | {row['model']} | {figures} | {row['coverage_95']:.3f} | {row['n']} |"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        splits = "split" if self.n_splits == 1 else "splits"
        return f"{self.n_splits} {splits} of hidden readings\n{self.to_markdown()}"


def _grouped(rows: tuple[ScoreRow, ...]) -> Iterator[tuple[tuple[str, ...], list[ScoreRow]]]:
    """Rows of all splits together, in order of appearance."""
    found: dict[tuple[str, ...], list[ScoreRow]] = {}
    for row in rows:
        found.setdefault(tuple(getattr(row, key) for key in KEYS), []).append(row)
    yield from found.items()


def _first_number(value: str) -> int:
    """The number that a group's value begins with, zero without one."""
    digits = value.split("-")[0]
    return int(digits) if digits else 0


def _mean_of(rows: list[ScoreRow]) -> dict[str, Any]:
    """Means of the scores of the same model, kind and group over splits."""
    first = {key: getattr(rows[0], key) for key in KEYS}
    means = {name: float(np.mean([getattr(row, name) for row in rows])) for name in SCORED}
    errors = [row.rmse for row in rows]
    spread = float(np.std(errors, ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else float("nan")
    gains = [row.gain for row in rows if row.gain is not None]
    known = [row.gain_error for row in rows if row.gain_error is not None]
    gain = float(np.mean(gains)) if len(gains) == len(rows) else None
    error = float(np.linalg.norm(known)) / len(rows) if len(known) == len(rows) else None
    shares = float(np.linalg.norm([row.coverage_error for row in rows])) / len(rows)
    found = first | {"n": sum(row.n for row in rows)} | means
    found |= {"coverage_error": shares, "rmse_error": spread}
    ratios = [row.ratio_error for row in rows if row.ratio_error is not None]
    ratio = float(np.linalg.norm(ratios)) / len(rows) if len(ratios) == len(rows) else None
    return found | {"gain": gain, "gain_error": error, "ratio_error": ratio}
