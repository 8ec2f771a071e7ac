"""The report of a fitted model of space and time: its law on a map, its errors and its terms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.scoring.figures import versions
from coupledgp.diagnostics.space_time.evaluation import (
    AS_THE_MODEL,
    SpaceTimeEvaluation,
    evaluate_space_time,
)
from coupledgp.diagnostics.space_time.map_readings import MapReadings, nearest
from coupledgp.diagnostics.space_time.places import MapSites
from coupledgp.diagnostics.space_time.record import (
    AHEAD,
    MODEL_NAME,
    GapCount,
    HourScore,
    KindScore,
    SensorErrors,
    SensorSeries,
)
from coupledgp.diagnostics.space_time.report import SpaceTimeReport
from coupledgp.diagnostics.space_time.scoring import ALL, BY_DAY, BY_STEP, LEVEL, PART_HOURS
from coupledgp.diagnostics.space_time.sensors import chosen_sensors
from coupledgp.diagnostics.space_time.times import most_times, thinned_times
from coupledgp.diagnostics.space_time.words import ordinal
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import FloatArray
from coupledgp.time.sites import as_domain

# Steps ahead that a page tells besides the last.
TOLD_STEPS = (1, 3, 6, 12)
# Most cells of a law on a map, and most times of a series.
MAX_CELLS, MAX_SERIES_TIMES = 20_000_000, 20_000
# Steps of a forecast.
STEPS_AHEAD = 12
# Sensors that are named for their values far from the law.
N_NAMED = 3


def space_time_report(
    model: Any,
    *,
    evaluation: SpaceTimeEvaluation | None = None,
    splits: int = 1,
    left_out: Any = True,
    forecast: Any = None,
    positions: ArrayLike | None = None,
    crs: str | None = None,
    unit: str | None = None,
    title: str = "Space and time",
    data: str = "",
    warnings: tuple[str, ...] = (),
    random_state: int = 0,
) -> SpaceTimeReport:
    """Report on a fitted model of space and time: `report.to_html("traffic.html")` is its page.

    Parameters
    ----------
    model
        A fitted `GraphTimeGPRegressor`.
    evaluation
        Scores of the model and its rivals, of `evaluate_space_time`; None: they are computed here.
    splits
        Number of splits of an evaluation that is computed here, in each of which the model is
        fitted anew with its hyperparameters kept; 0: none, and the page has no scores.
    left_out
        Whether sensors are left out one by one, or the table of `model.leave_one_sensor_out()`.
    forecast
        How far ahead the map goes, as `model.forecast` takes it; None: twelve steps, 0: not at all.
    positions
        Places (n_nodes, 2) or (n_nodes, 3) of the nodes of a graph, in their order; of a
        `LaplaceOperator` its own are taken.
    crs
        Coordinate reference system of the positions, such as `"EPSG:4326"` for longitude and
        latitude.
    unit
        Unit of the values, such as `"mph"`; None: the name of the values, if they have one.
    title, data
        Heading of the page, and what the data are.
    warnings
        Sentences that come first on the page.
    random_state
        Seed of an evaluation that is computed here.

    Raises
    ------
    InvalidInputError
        The model is not fitted, or positions have another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import space_time_report
    >>> road = cgp.Graph.from_edges(range(5), range(1, 6))
    >>> speeds = 50 + np.cumsum(np.random.default_rng(0).normal(size=(4, 40)), axis=1)
    >>> speeds[1, 20:30] = np.nan  # a gap
    >>> model = cgp.GraphTimeGPRegressor(road, progress=False)
    >>> fitted = model.fit([0, 2, 3, 5], speeds, times=np.arange(40.0))
    >>> report = space_time_report(fitted, splits=0, left_out=False, forecast=5.0)
    >>> report.mean.shape  # six nodes, forty times and five ahead
    (6, 45)
    """
    if not hasattr(model, "panel_"):
        raise wrong("model", "a fitted model", type(model))
    check_positive_int(splits, "splits", minimum=0)
    domain = as_domain(model.graph)
    readings = MapReadings.of(model)
    places = MapSites.of(domain, positions, readings.sites)
    times, notes = _map_times(model, readings, places.sites.size, forecast)
    own = evaluation is None and splits > 0
    if own:
        evaluation = evaluate_space_time(
            model, model.panel_, splits=splits, hyperparameters="kept", budget=AS_THE_MODEL,
            random_state=random_state,
        )  # fmt: skip
    scores, hours = page_scores(evaluation)
    mean, std = model.law_on_grid(places.sites, times)
    observed, kinds = readings.at(times)
    table = left_out
    if isinstance(left_out, bool):
        table = model.leave_one_sensor_out() if left_out else None
    report = SpaceTimeReport(
        nodes=places.labels, axis=readings.axis, times=times, mean=mean, std=std,
        sensors=places.rows_of(readings.sites), observed=observed, kinds=kinds,
        gaps=GapCount.of(readings.values), edges=places.edges,
        positions=places.positions, crs=places.crs or crs, faces=places.faces,
        is_network=places.is_network,
        left_out=None if table is None else SensorErrors.of(table, readings.labels), scores=scores,
        hours=hours,
        unit=(model.panel_.name or "") if unit is None else unit,
        title=title, facts=_facts(model, readings, evaluation, own), notes=(*places.notes, *notes),
        warnings=tuple(warnings), provenance=_provenance(model, data, random_state),
    )  # fmt: skip
    return replace(report, series=_series(report, model, readings, table))


def _map_times(
    model: Any, readings: MapReadings, n_sites: int, forecast: Any
) -> tuple[FloatArray, tuple[str, ...]]:
    """Times of the map, forecasts among them, and a sentence if they are thinned out."""
    own = readings.axis.values
    ahead = _ahead(model, own, forecast)
    times = np.concatenate([own, ahead])
    limit = min(most_times(n_sites, readings.sites.size), max(MAX_CELLS // n_sites, 1))
    kept = thinned_times(times.size, limit)
    if kept.size == times.size:
        return times, ()
    step = ordinal(-(-times.size // kept.size))
    return times[kept], (f"The map has every {step} time, {kept.size} of {times.size}.",)


def _ahead(model: Any, times: FloatArray, forecast: Any) -> FloatArray:
    if forecast is None and times.size > 1:
        return np.asarray(model.times_ahead(STEPS_AHEAD * float(np.median(np.diff(times)))))
    return np.asarray(model.times_ahead(forecast)) if forecast else np.empty(0)


def _facts(
    model: Any, readings: MapReadings, evaluation: SpaceTimeEvaluation | None, own: bool
) -> tuple[tuple[str, str, str], ...]:
    """What was computed, its value, and a remark; `own`: the evaluation was computed here."""
    facts = [
        ("kernel of the nodes", str(model.kernel_), ""),
        ("law", model.method_reason_, ""),
        ("log density of the values, nats", f"{model.log_marginal_likelihood_value_:.6g}", ""),
        ("times at which no sensor reports", str(int(model.gaps_.n_dark)), ""),
        _far_values(model, readings),
    ]  # fmt: skip
    if evaluation is not None:
        facts.append(
            (
                "splits of hidden values",
                str(evaluation.n_splits),
                "the model was fitted in each, with its hyperparameters kept"
                if own
                else "the model was fitted in each",
            )
        )
        facts += [("not compared", one.name, one.reason) for one in evaluation.skipped]
    return tuple(facts)


def _far_values(model: Any, readings: MapReadings) -> tuple[str, str, str]:
    """How many values are far from their law, and on which sensors most of them are."""
    far = model.outliers_
    names, counts = np.unique([str(one) for one in far.node], return_counts=True)
    most = [f"{names[k]} ({counts[k]})" for k in np.argsort(-counts, kind="stable")[:N_NAMED]]
    where = f", most at {', '.join(most)}" if most else ""
    share = 100 * len(far.node) / max(int(np.isfinite(readings.values).sum()), 1)
    return (
        "values beyond four standard deviations", f"{len(far.node)} ({share:.2g} %)",
        f"kept{where}" if most else "",
    )  # fmt: skip


def _series(
    report: SpaceTimeReport, model: Any, readings: MapReadings, table: Any
) -> tuple[SensorSeries, ...]:
    """Laws of observations of the chosen sensors at the times of the data and after them."""
    chosen = [one.sensor for one in chosen_sensors(report)]
    if not chosen:
        return ()
    own = readings.axis.values
    times = np.concatenate([own[-MAX_SERIES_TIMES:], report.times[report.times > own[-1]]])
    mean, std = model.law_on_grid(readings.sites[chosen], times)
    values, kinds = readings.at(times)
    others = _left_out_means(table, readings, times)
    return tuple(
        SensorSeries(k, times, mean[row], std[row], values[k], kinds[k],
                     None if others is None else others[k])
        for row, k in enumerate(chosen)
    )  # fmt: skip


def _left_out_means(table: Any, readings: MapReadings, times: FloatArray) -> FloatArray | None:
    """Means (p, k) of the sensors given the others, NaN ahead; None if a table has none."""
    means = getattr(table, "mean", None)
    if not isinstance(means, np.ndarray) or means.shape != readings.values.shape:
        return None
    place = {label: k for k, label in enumerate(table.node)}
    rows = [place[label] for label in readings.labels]
    found = means[rows][:, nearest(readings.axis.values, times)]
    return np.where(times > readings.axis.values[-1], np.nan, found)


def _provenance(model: Any, data: str, seed: int) -> dict[str, Any]:
    """Data, settings and versions."""
    settings = {
        name: value if isinstance(value, int | float | str | None) else str(value)
        for name, value in model.get_params(deep=False).items()
        if name != "graph"
    }
    given = {"data": data} if data else {}
    return {
        **given, "graph": repr(model.graph), "settings": settings, "seed of the splits": seed,
        **versions(),
    }  # fmt: skip


def page_scores(
    evaluation: SpaceTimeEvaluation | None,
) -> tuple[tuple[KindScore, ...], tuple[HourScore, ...]]:
    """Scores by kind of the model and its rivals, and those of the model by time of day."""
    if evaluation is None:
        return (), ()
    own = evaluation.models[0]
    table = evaluation.table()
    last = max((int(row["value"]) for row in table if row["group"] == BY_STEP), default=0)
    scores, hours = [], []
    for row in table:
        is_ahead = row["kind"] == AHEAD
        if row["group"] == BY_DAY and row["model"] == own:
            start = float(row["value"].split("-")[0])
            hours.append(HourScore(row["kind"], start, start + PART_HOURS, row["n"], row["rmse"],
                                   {LEVEL: row["coverage_95"]}))  # fmt: skip
        elif row["group"] == (BY_STEP if is_ahead else ALL):
            steps = int(row["value"]) if is_ahead else None
            if steps is None or steps in (*TOLD_STEPS, last):
                scores.append(_kind_score(row, MODEL_NAME if row["model"] == own else "", steps))
    return tuple(scores), tuple(hours)


def _kind_score(row: dict[str, Any], name: str, ahead: int | None) -> KindScore:
    return KindScore(
        row["kind"], name or row["model"], row["n"], row["rmse"], row["mae"], row["crps"],
        row["nlpd"], {LEVEL: row["coverage_95"]}, ahead, row["gain"], row["gain_error"],
        row["coverage_error"], row["ratio_error"],
    )  # fmt: skip
