"""Readings of sensors over time that are hidden from a model: gaps, places without a sensor, hours.

A model is fitted once, to what a split leaves up to the first origin of a forecast. It predicts the
hidden readings, and from each origin on the readings of the next steps, given those up to it, its
parameters kept. Rivals are given the same readings.

Errors at near sensors and times go together. Where the law of the model knows how, at most
`MOST_CELLS` readings are judged by its joint law; elsewhere standard errors are the largest of
errors clustered by sensor and by time, and no look along time is taken.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from coupledgp.core.target_maps import moments_back
from coupledgp.core.transformed import untransformed
from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.checks.residuals import LOOKS, residual_checks
from coupledgp.diagnostics.laws import Mapped, Normal
from coupledgp.diagnostics.predictions import Law, Predictions
from coupledgp.diagnostics.readings import SensorReadings, SpaceTimeSplit, SplitPlan
from coupledgp.diagnostics.render.page import SECTIONS
from coupledgp.diagnostics.render.tables import amount, with_error
from coupledgp.diagnostics.report import Report, reported, tables_of
from coupledgp.diagnostics.rivals.time import Cells, time_rivals
from coupledgp.diagnostics.rules import closeness, intervals
from coupledgp.diagnostics.scores import SCORES, gains_table, scores_table
from coupledgp.diagnostics.sources import Source
from coupledgp.diagnostics.sources.own import some_rows
from coupledgp.diagnostics.tables import (
    AMBER,
    BETTER,
    CLOSE,
    GREEN,
    GREY,
    HONEST,
    LOST,
    MATTERS,
    RED,
    SERIOUS,
    TOLD,
    Check,
    Rival,
    Rule,
    Tables,
)
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import FloatArray, IntArray, draw_seed

# Readings whose joint law is asked for.
MOST_CELLS = 1000
# Steps ahead that are told besides the last.
TOLD_STEPS = (1, 3, 6, 12)
# RMSE over a rival's from which copying the rival is better.
WORSE_RMSE = 1.01
# A sensor deviates: its RMSE over the median one, coverage of its 95 % intervals, and the chance
# that any of normal levels is called unusual.
LARGE, COVERED, UNUSUAL = 1.5, 0.85, 0.01
REMEDIES = {
    "last value": "The last reading says more: look at the step, or fit again on more times.",
    "linear in time": "Straight lines fill gaps better: look whether readings are rounded or held.",
    "nearest sensor": "The nearest sensor says more: weight edges by distance, or choose another "
    "kernel of the nodes.",
    "mean of all sensors": "The mean of all sensors says more: the kernel of the nodes is too "
    "local, or levels of sensors are off.",
    "regression on the others": "A regression on the other sensors does better: fit on more times.",
    "same time of day": "Usual days say more: fit with usual_day=True.",
    "same time of the week": "Usual weeks say more: fit with usual_day=True, on several weeks.",
    "boosted trees": "Boosted trees find patterns that the recursion does not: use them, or add "
    "holidays=.",
}


def hide(
    model: Any,
    data: Any,
    times: Any = None,
    values: Any = None,
    *,
    plan: SplitPlan | None = None,
    splits: int | SpaceTimeSplit | Sequence[SpaceTimeSplit] = 1,
    refit: bool = True,
    rivals: Any = "auto",
    budget: str | float | None = None,
    sections: Mapping[str, Any] = SECTIONS,
    title: str = "Readings that were hidden",
    unit: str | None = None,
    progress: bool | None = None,
    random_state: int = 0,
) -> Report:
    """Hide readings of sensors over time, predict them by a model and by simpler means, and report.

    Parameters
    ----------
    model
        An estimator such as `GraphTimeGPRegressor`, which is left as it is: with an attribute
        `graph`, `fit(nodes, times=, values=)` and `predict(nodes, times, return_std=True)`; with
        `partial_fit` forecasts of later origins need no further fit.
    data, times, values
        Readings in any form that the model's `fit` takes, gaps included.
    plan
        What is hidden (`SplitPlan`): by default a tenth of the sensors altogether, of the others a
        twentieth of the readings and a gap of six hours in half of them, and ten forecasts of an
        hour that begin in working hours.
    splits
        Number of splits that are drawn by the plan, or splits of one's own.
    refit
        Fit the model anew to what is left, hyperparameters included. False: the model is fitted,
        and its `refitted` keeps the transform and the ridge that were found with the hidden
        readings.
    rivals
        `"auto"`; names of some; None: none; or rivals of one's own by name, estimators as the
        model.
    budget
        Processor seconds, or a text such as `"90s"`, after which no further split is begun.
    sections, title, unit, progress, random_state
        As in `report`. The unit is that of the data where they have one.

    Raises
    ------
    InvalidInputError
        The data, the splits or the names of rivals are invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> road = cgp.Graph.from_edges(range(5), range(1, 6))
    >>> speeds = 50 + np.cumsum(np.random.default_rng(0).normal(size=(4, 80)), axis=1)
    >>> model = cgp.GraphTimeGPRegressor(road, progress=False)
    >>> plan = cgp.diagnostics.SplitPlan(gap=6, horizon=2)
    >>> found = cgp.hide(model, [0, 2, 3, 5], np.arange(80.0), speeds, plan=plan)
    >>> found.score("rmse", part="1 step ahead") < found.score("rmse", part="2 steps ahead")
    True
    """
    start, limit = time.process_time(), _seconds(budget)
    if not refit and not hasattr(model, "refitted"):
        raise InvalidInputError(
            f"refit: expected True for {type(model).__name__}, which has no method refitted"
        )
    readings = SensorReadings.of(model, data, times, values)
    seed = draw_seed(random_state)
    drawn = _splits(readings, splits, plan or SplitPlan(), seed)
    found: list[_Split] = []
    with reporter("hide", progress):
        for k, split in enumerate(drawn):
            if found and time.process_time() - start > limit:
                break
            tell(f"split {k + 1} of {len(drawn)}")
            found.append(_Split.of(model, readings, split, refit, rivals, seed))
        measured = _tables(found, readings, unit, seed)
        table = None
        if hasattr(found[-1].fitted, "leave_one_sensor_out"):
            tell("sensors left out")
            table = found[-1].fitted.leave_one_sensor_out().to_dataframe()
            measured = _with_sensors(measured, table)
    rules = RULES if table is None else (*RULES, Rule(HONEST, "sensors", partial(sensors, table)))
    return reported(
        measured, rules=rules, sections=sections, title=title, provenance={
            "sensors": len(readings.values), "times": readings.times.size,
            "splits": len(found), "forecasts": sum(one.split.origins.size for one in found),
            "hyperparameters": "fitted to what is left" if refit else "kept from all readings",
            "seed": seed,
        },
    )  # fmt: skip


def _seconds(budget: str | float | None) -> float:
    from coupledgp.core.budget import seconds_of

    return np.inf if budget is None else seconds_of(budget)


def _splits(
    readings: SensorReadings, splits: Any, plan: SplitPlan, seed: int
) -> list[SpaceTimeSplit]:
    """The splits that are given, or as many as are asked for, checked."""
    if isinstance(splits, SpaceTimeSplit):
        found = [splits]
    elif isinstance(splits, Sequence):
        found = list(splits)
    else:
        generators = np.random.default_rng(seed).spawn(check_positive_int(splits, "splits"))
        found = [plan.draw(readings, rng) for rng in generators]
    if not found or not all(isinstance(split, SpaceTimeSplit) for split in found):
        raise wrong("splits", "a number or SpaceTimeSplit objects", splits)
    for split in found:
        split.check(readings)
    return found


# Laws of hidden readings.


class _Parts(NamedTuple):
    """Means and deviations (m,) of readings, transformed where `transform` says so, and tails."""

    mean: FloatArray
    std: FloatArray
    tails: FloatArray
    transform: TargetTransform | None

    def law(self) -> Law:
        """The laws (m, 1)."""
        mean, std, tails = (part[:, None] for part in self[:3])
        if self.transform is None:
            return Mapped(None, mean, std, mean, std, tails) if tails.any() else Normal(mean, std)
        own, variance = moments_back(self.transform, mean, std)
        return Mapped(self.transform, mean, std, own, np.sqrt(variance), tails)


class _Split(NamedTuple):
    """A split with the laws of its readings.

    Attributes
    ----------
    split : SpaceTimeSplit
    cells : Cells
        The readings that are scored.
    law : _Parts
        The model's.
    judged : IntArray (q,)
        Places of the readings whose joint law is known.
    correlation : FloatArray (q, q) or None
        Correlations of their errors.
    rivals : dict of str to (mean, std, seconds)
        Those of the rivals, NaN where they say nothing.
    fitted : object
        The fitted model.
    """

    split: SpaceTimeSplit
    cells: Cells
    law: _Parts
    judged: IntArray
    correlation: FloatArray | None
    rivals: dict[str, tuple[FloatArray, FloatArray, float]]
    fitted: Any

    @classmethod
    def of(
        cls, model: Any, readings: SensorReadings, split: SpaceTimeSplit, refit: bool,
        rivals: Any, seed: int,
    ) -> _Split:  # fmt: skip
        """Fit the model and the rivals to what a split leaves, and predict what it hides."""
        cells = Cells.of(readings, split)
        judged = _judged(cells, seed)
        tell("fit")
        fitted = _fit(model, readings, split, refit)
        law, correlation = _predicted(fitted, readings, split, cells, judged)
        own = isinstance(rivals, Mapping)
        found = {}
        if rivals is not None and not own:
            tell("rivals")
            asked = [rivals] if isinstance(rivals, str) and rivals != "auto" else rivals
            found = time_rivals(readings, split, cells, asked)
        for name, one in (rivals if own else {}).items():
            begun = time.perf_counter()
            other = _fit(one, readings, split, True)
            parts = _predicted(other, readings, split, cells, judged[:0])[0].law()
            seconds = time.perf_counter() - begun
            found[str(name)] = (parts.mean[:, 0], parts.std[:, 0], seconds)
        return cls(split, cells, law, judged, correlation, found, fitted)


def _judged(cells: Cells, seed: int) -> IntArray:
    """Places of at most `MOST_CELLS` readings, as many of each kind and of forecasts."""
    left, kinds = MOST_CELLS, np.where(cells.origin >= 0, -1, cells.kind)
    groups = sorted((np.flatnonzero(kinds == one) for one in np.unique(kinds)), key=len)
    found = []
    for k, group in enumerate(groups):
        share = left // (len(groups) - k)
        found.append(group[some_rows(group.size, share, [seed, 7, k])])
        left -= found[-1].size
    return np.sort(np.concatenate(found))


def _fit(model: Any, readings: SensorReadings, split: SpaceTimeSplit, refit: bool) -> Any:
    """A copy of an estimator, fitted to what a split leaves up to the first origin."""
    from sklearn.base import clone

    left = readings.without(split.hidden)
    if split.origins.size:
        left = left.until(int(split.origins[0]), 0)
    rows = np.flatnonzero(left.seen.any(axis=1))
    labels = [readings.labels[row] for row in rows.tolist()]
    fit = clone(model).fit if refit else model.refitted
    return fit(labels, times=left.stamps, values=left.values[rows])


def _updated(
    fitted: Any, readings: SensorReadings, split: SpaceTimeSplit, since: int, origin: int
) -> Any:
    """A fitted estimator with the readings after a time, up to an origin."""
    part = slice(since + 1, origin + 1)
    hidden = split.kind[:, part] >= 0
    values = np.where(hidden | split.is_out[:, None], np.nan, readings.values[:, part])
    known = set(map(str, getattr(fitted, "nodes_", readings.labels)))
    rows = np.flatnonzero(~np.isnan(values).all(axis=1) & np.isin(readings.names, sorted(known)))
    if not rows.size:
        return fitted
    labels = [readings.labels[row] for row in rows.tolist()]
    return copy.copy(fitted).partial_fit(labels, times=readings.stamps[part], values=values[rows])


def _predicted(
    fitted: Any, readings: SensorReadings, split: SpaceTimeSplit, cells: Cells, judged: IntArray
) -> tuple[_Parts, FloatArray | None]:
    """Laws of all readings that are scored, and correlations of the judged ones."""
    m = len(cells)
    mean, std, tails = np.full(m, np.nan), np.full(m, np.nan), np.zeros(m)
    correlation: FloatArray | None = np.eye(judged.size)
    current, since, transform = fitted, -1, None
    for origin in [-1, *split.origins.tolist()]:
        if origin >= 0 and since >= 0:
            if hasattr(fitted, "partial_fit"):
                current = _updated(current, readings, split, since, origin)
            else:
                later = replace(split, origins=np.array([origin]))
                current = _fit(fitted, readings, later, True)
        since = origin if origin >= 0 else since
        own = np.flatnonzero(cells.origin == origin)
        if not own.size:
            continue
        mean[own], std[own], tails[own], transform = _law_at(current, readings, cells, own)
        mine = np.flatnonzero(np.isin(judged, own))
        if correlation is not None and mine.size:
            found = _correlation(current, readings, cells, judged[mine])
            if found is None:
                correlation = None
            else:
                correlation[np.ix_(mine, mine)] = found
    return _Parts(mean, std, tails, transform), correlation


def _law_at(
    fitted: Any, readings: SensorReadings, cells: Cells, own: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, TargetTransform | None]:
    """Means, deviations and tails of some readings by a fitted estimator.

    Raises
    ------
    InvalidInputError
        Predictions have another shape, or a standard deviation is not positive.
    """
    rows, row_of = np.unique(cells.rows[own], return_inverse=True)
    columns, column_of = np.unique(cells.columns[own], return_inverse=True)
    stamps = np.asarray(readings.stamps)[columns]
    if hasattr(fitted, "modelled_law_on_grid"):
        numbers, sites = fitted.time_axis_.numbers(stamps), readings.sites[rows]
        mean, std = fitted.modelled_law_on_grid(sites, numbers)
        tails = fitted.grid_process_.grid_tails(sites, numbers)
        parts = (one[row_of, column_of] for one in (mean, std, tails))
        return *parts, fitted.transform_
    labels = [readings.labels[row] for row in rows.tolist()]
    found = fitted.predict(labels, stamps, return_std=True)
    mean, std = (np.asarray(part, dtype=np.float64) for part in found)
    if mean.shape != (rows.size, columns.size) or std.shape != mean.shape:
        raise wrong("model", f"predictions of shape {(rows.size, columns.size)}", mean.shape)
    mean, std = mean[row_of, column_of], std[row_of, column_of]
    if not (std > 0).all():
        raise InvalidInputError("model: expected positive standard deviations, got zero or less")
    return mean, std, np.zeros(own.size), None


def _correlation(
    fitted: Any, readings: SensorReadings, cells: Cells, chosen: IntArray
) -> FloatArray | None:
    """Correlations (q, q) of the errors of some readings by the law itself; None: unknown."""
    process = getattr(fitted, "grid_process_", None)
    if process is None:
        return None
    numbers = fitted.time_axis_.numbers(np.asarray(readings.stamps)[cells.columns[chosen]])
    points = np.column_stack([readings.sites[cells.rows[chosen]], numbers]).astype(np.float64)
    try:
        spread = untransformed(process).law(points, "covariance").spread
    except CoupledGPError:
        return None
    assert spread is not None
    std = np.sqrt(np.maximum(spread[..., 0].diagonal(), 1e-300))
    found: FloatArray = spread[..., 0] / np.outer(std, std)
    return found


# Tables.


def _tables(
    found: Sequence[_Split], readings: SensorReadings, unit: str | None, seed: int
) -> Tables:
    """Tables of all splits together: scores and gains by part, calibration of judged readings."""
    mean, std, tails = (
        np.concatenate([getattr(one.law, part) for one in found])
        for part in ("mean", "std", "tails")
    )
    law = _Parts(mean, std, tails, found[0].law.transform)
    rows, columns, number = (
        np.concatenate(parts)
        for parts in zip(
            *((one.cells.rows, one.cells.columns, np.full(len(one.cells), k))
              for k, one in enumerate(found)),
            strict=True,
        )
    )  # fmt: skip
    parts = np.concatenate([_parts(one, readings) for one in found])
    stamps = np.asarray(readings.stamps)[columns]
    sensor, at = readings.names[rows], columns + readings.times.size * number
    p = Predictions(
        law.law(), readings.values[rows, columns][:, None], parts=parts,
        columns=_unseen(readings, rows, columns),
        groups=pd.DataFrame({"sensor": sensor, "part": parts}),
        cluster=pd.DataFrame({"sensor": sensor, "time": at}), times=stamps,
        name=type(found[0].fitted).__name__, target=readings.unit or "the readings",
        unit=readings.unit if unit is None else unit,
    )  # fmt: skip
    start, judged, blocks = 0, [], []
    for one in found:
        judged.append(one.judged + start)
        blocks.append(one.correlation)
        start += len(one.cells)
    chosen = np.concatenate(judged)
    some = p.take(chosen)
    known = [one for one in blocks if one is not None]
    if len(known) == len(blocks):
        matrix, at_block = np.zeros((chosen.size, chosen.size)), 0
        for block in known:
            part = slice(at_block, at_block + len(block))
            matrix[part, part] = block
            at_block += len(block)
        some = replace(some, correlation=matrix[..., None])
    source = Source(
        found[-1].fitted, None, np.arange(len(p)),
        reason="Not judged: sensors over time have no exact process of their own.",
    )  # fmt: skip
    made = tables_of(
        replace(p, parts=None), source=source, looks=LOOKS, seed=seed, judged=some,
    )  # fmt: skip
    others = _rivals(found, p)
    scores, gains = _of_parts(p, others)
    whole = pd.concat([made.scores, scores], ignore_index=True)
    return replace(made, predictions=p, rivals=tuple(others), scores=whole, gains=gains)


def _unseen(readings: SensorReadings, rows: IntArray, columns: IntArray) -> pd.DataFrame:
    """Columns along which residuals are looked at: time, hour of the day, sensor."""
    found: dict[str, Any] = {"time": np.asarray(readings.times)[columns]}
    clock = readings.seconds_of_day
    if clock is not None and readings.step < 86_400:
        found["hour of the day"] = clock[columns] / 3600
    found["sensor"] = readings.names[rows]
    return pd.DataFrame(found)


def _parts(one: _Split, readings: SensorReadings) -> Any:
    """The part (m,) of each reading: its kind, or the last told step that it lies before."""
    cells, split = one.cells, one.split
    told = np.array(sorted({*(k for k in TOLD_STEPS if k < split.horizon), split.horizon}))
    names = [f"{readings.duration(int(k))} ahead" for k in told]
    ahead = np.searchsorted(told, np.maximum(cells.ahead, 1))
    exact = told[np.minimum(ahead, told.size - 1)] == cells.ahead
    forecast = np.where(exact, np.array(names, dtype=object)[np.minimum(ahead, told.size - 1)], "")
    kinds = np.array([*split.kinds, ""], dtype=object)[cells.kind]
    return np.where(cells.origin >= 0, forecast, kinds).astype(object)


def _rivals(found: Sequence[_Split], p: Predictions) -> list[Rival]:
    """Rivals of all splits, NaN where they say nothing."""
    names = list(dict.fromkeys(name for one in found for name in one.rivals))
    made = []
    for name in names:
        nothing = [np.full(len(one.cells), np.nan) for one in found]
        mean, std = (
            np.concatenate([
                one.rivals[name][k] if name in one.rivals else nothing[j]
                for j, one in enumerate(found)
            ])[:, None]
            for k in (0, 1)
        )  # fmt: skip
        seconds = sum(one.rivals[name][2] for one in found if name in one.rivals)
        kind = "flexible" if name == "boosted trees" else "simple"
        other = Predictions(Normal(mean, std), name=name)
        made.append(Rival(other, kind, name, REMEDIES.get(name, f"Use {name}."), seconds))
    return made


def _of_parts(p: Predictions, rivals: Sequence[Rival]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores and gains by part, of rivals where they say something."""
    assert p.parts is not None
    scores, gains = [], []
    for part in [one for one in pd.unique(pd.Series(p.parts)) if one]:
        rows = np.flatnonzero(p.parts == part)
        own = replace(p.take(rows), parts=None)
        scores.append(scores_table(own, None, [], SCORES).assign(part=part))
        for rival in rivals:
            known = np.flatnonzero(np.isfinite(rival.predictions.law.mean[rows, 0]))
            if not known.size:
                continue
            law = rival.predictions.law.take(rows[known])
            one = replace(rival, predictions=replace(rival.predictions, law=law))
            of_known = own.take(known)
            found = scores_table(of_known, None, [one], SCORES)
            scores.append(found[found.model == rival.name].assign(part=part))
            gains.append(gains_table(of_known, [one], SCORES).assign(part=part))
    table = pd.concat(scores, ignore_index=True)
    return (
        table[table.group == ""],
        pd.concat(gains, ignore_index=True) if gains else gains_table(p, [], SCORES),
    )


def _with_sensors(t: Tables, table: pd.DataFrame) -> Tables:
    """The scores of single sensors are those of each predicted from the others at the same time.

    The bias of the table of scores is that of readings beside predictions.
    """
    p, columns = t.predictions, {"rmse": 1, "bias": -1, "coverage_95": 1}
    rows = [
        {"model": p.name, "part": "", "group": str(one.node), "metric": metric,
         "value": sign * float(getattr(one, metric)), "n": int(one.n),
         "unit": "" if metric == "coverage_95" else p.unit}
        for one in table.itertuples()
        for metric, sign in columns.items()
    ]  # fmt: skip
    kept = t.scores[t.scores.group == ""]
    return replace(t, scores=pd.concat([kept, pd.DataFrame(rows)], ignore_index=True))


# Rules.


def by_part(t: Tables) -> list[Check]:
    """At each part, the model beside the rival that predicts best there.

    Errors are clustered by sensor and by time; few clusters widen the limit, by Student's law.
    """
    p = t.predictions
    if p.parts is None:
        return []
    found = [_at(t, p, part) for part in dict.fromkeys(t.gains.part)]
    fired = sorted((one.check for one in found if one.check.fired), key=lambda one: -one.gain)
    if not found or fired:
        return [*fired, *(one.check for one in found if not one.check.fired)]
    best = [one.part for one in found if one.is_best]
    others = [one.part for one in found if not one.is_best]
    parts = []
    if best:
        parts.append(f"It predicts better than every other method {_listed(best)}")
    if others:
        much = "and as well as" if best else "It predicts as well as"
        parts.append(f"{much} the best other one {_listed(others)}")
    told = any(one.is_told for one in found)
    sentence = f"{' '.join(parts)}." if told else "The readings do not tell which method is better."
    overall = Check(BETTER, "the mean", GREEN if told else GREY, sentence)
    return [overall, *(one.check for one in found)]


class _Part(NamedTuple):
    """A check of a part; whether the model beats all rivals there, and whether it beats any."""

    part: str
    check: Check
    is_best: bool
    is_told: bool


def _at(t: Tables, p: Predictions, part: str) -> _Part:
    """The model beside the rivals at a part."""
    here = t.gains[t.gains.part == part]
    nats = here[here.metric == "nlpd"].set_index("rival")
    squares = here[here.metric == "rmse"].set_index("rival")
    clusters = _fewest_clusters(p, part)
    lost, told = (_limit(one, clusters) for one in (LOST, TOLD))
    own = _rmse(t, p.name, part)
    beaten = [
        name for name in nats.index
        if nats.gain[name] > max(lost * nats.error[name], MATTERS)
        or (own > WORSE_RMSE * _rmse(t, name, part)
            and squares.gain[name] > lost * squares.error[name])
    ]  # fmt: skip
    best = max(beaten or nats.index, key=lambda name: float(nats.gain[name]))
    gain, error = float(nats.gain[best]), float(nats.error[best])
    fired, is_best = bool(beaten), gain < -told * error
    start = f"It predicts {'better than' if is_best else 'as well as'} {best} {part}"
    if fired:
        start = f"{best[:1].upper()}{best[1:]} predicts better {part}"
    sentence = (
        f"{start}: RMSE {amount(own, p.unit)} against {amount(_rmse(t, best, part), p.unit)}, "
        f"{with_error(-gain, error, True)} nats per reading."
    )
    colour = (RED if gain > SERIOUS else AMBER) if fired else GREEN
    check = Check(
        BETTER, "baseline" if fired else "by part", colour, sentence, fired, f"{best} {part}",
        gain / error if error else np.nan, 0.0, limit=lost, gain=gain, gain_error=error,
        basis="paired", remedy=REMEDIES.get(best, f"Use {best}.") if fired else "",
    )  # fmt: skip
    is_told = bool((nats.gain < -told * nats.error).any())
    return _Part(part, check, is_best, is_told)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _limit(errors: float, clusters: int) -> float:
    """Standard errors of so many clusters with the chance of some of a normal law."""
    return float(stdtrit(max(clusters - 1, 1), ndtr(errors)))


def _fewest_clusters(p: Predictions, part: str) -> int:
    assert p.cluster is not None
    assert p.parts is not None
    rows = p.parts == part
    return min(int(p.cluster[name][rows].nunique()) for name in p.cluster)


def _rmse(t: Tables, model: str, part: str) -> float:
    row = t.figure("scores", model=model, part=part, group="", metric="rmse")
    return np.nan if row is None else float(row.value)


def sensors(found: pd.DataFrame, t: Tables) -> list[Check]:
    """Sensors that deviate all the time from what the others say, by more than sensors differ.

    Half of the squared error of such a one is bias, its RMSE is one and a half times the median
    sensor's, fewer than 85 % of its readings are in their 95 % intervals, and its bias is further
    from the median than any is in 99 of 100 sets of normal levels: beyond the quantile of Student's
    law of p - 1 degrees of freedom at `1 - .01 / (2 p)` in units of 1.48 times the median distance.
    """
    table = found.set_index(found["node"].map(str))
    rmse, bias = table["rmse"].to_numpy(), table["bias"].to_numpy()
    known = np.isfinite(bias)
    count, middle = int(known.sum()), np.nanmedian(bias)
    if count < 3:
        return []
    spread = 1.4826 * float(np.nanmedian(np.abs(bias - middle)))
    limit = float(stdtrit(count - 1, 1 - 0.5 * UNUSUAL / count))
    far = np.abs(bias - middle) / max(spread, 1e-300)
    large = (2 * bias**2 >= rmse**2) & (rmse >= LARGE * np.nanmedian(rmse))
    off = known & large & (table["coverage_95"].to_numpy() < COVERED) & (far > limit)
    order = np.flatnonzero(off)[np.argsort(-rmse[off], kind="stable")]
    unit = t.predictions.unit
    if not order.size:
        sentence = (
            f"None of {count} sensors deviates all the time by more than levels of sensors differ, "
            f"{amount(spread, unit)}."
        )
        return [
            Check(HONEST, "sensor deviates", GREEN, sentence, statistic=float(np.nanmax(far)),
                  expected=1.0, limit=limit)
        ]  # fmt: skip
    worst, rest = order[0], np.sqrt(np.maximum(rmse**2 - bias**2, 0.0))
    steady = rest[worst] < LARGE * float(np.nanmedian(rmse))
    names = ", ".join(str(table.index[k]) for k in order[:3])
    more = f" and {order.size - 3} more" if order.size > 3 else ""
    side = "low" if bias[worst] > 0 else "high"
    verb = "deviates" if order.size == 1 else "deviate"
    sentence = (
        f"{order.size} of {count} sensors {verb} all the time from what the others say: "
        f"{names}{more}. {table.index[worst]} reads {amount(abs(bias[worst]), unit)} too {side}, "
        f"where levels of sensors differ by {amount(spread, unit)}."
    )
    remedy = (
        f"Calibrate {table.index[worst]}, or let it have its level: without that it is as good as "
        "others."
        if steady
        else f"Look at {table.index[worst]}: without its level its errors stay large."
    )
    return [
        Check(
            HONEST, "sensor deviates", AMBER, sentence, True, str(table.index[worst]),
            float(far[worst]), 1.0, limit=limit, remedy=remedy,
        )
    ]  # fmt: skip


def _along_time(t: Tables) -> list[Check]:
    """Looks at the residuals of the judged readings, where their joint law is known."""
    if t.judged is None or t.judged.correlation is None:
        return []
    some = replace(t.judged, cluster=None)
    return residual_checks(replace(t, predictions=some))


RULES: tuple[Rule, ...] = (
    Rule(BETTER, "by part", by_part, "scores"),
    Rule(BETTER, "residuals", _along_time),
    Rule(HONEST, "coverage", intervals),
    Rule(CLOSE, "closeness", closeness, "scores"),
)  # fmt: skip
