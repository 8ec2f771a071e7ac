"""Hidden readings of sensors over time: plans, rivals against plain loops, parts, sensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import SensorReadings, SpaceTimeSplit, SplitPlan, hiding
from coupledgp.diagnostics.readings import GAP, SENSOR
from coupledgp.diagnostics.rivals.time import (
    LAGS,
    Cells,
    _Columns,
    _most_correlated,
    _of_other_days,
    same_time_of_week,
    time_rivals,
)
from coupledgp.errors import InvalidInputError
from coupledgp.time.axis import TimeAxis

P, PER_DAY, N_DAYS = 6, 24, 28
ROAD = cgp.Graph.from_edges(np.arange(P - 1), np.arange(1, P))


def city(seed=0, gaps=0.1):
    """Hourly values whose next one is a bent function of the last, about a usual day."""
    rng = np.random.default_rng(seed)
    n = PER_DAY * N_DAYS
    x = np.zeros((P, n))
    for t in range(1, n):
        x[:, t] = 2.0 * np.tanh(x[:, t - 1]) * np.sign(1.2 - np.abs(x[:, t - 1]))
        x[:, t] += 0.3 * rng.normal(size=P)
    hours = np.arange(n) % PER_DAY
    values = 50 + 5 * np.cos(2 * np.pi * hours / PER_DAY) + x
    values[rng.random((P, n)) < gaps] = np.nan
    stamps = np.datetime64("2026-03-02") + np.arange(n) * np.timedelta64(1, "h")
    axis = TimeAxis.of(stamps)
    sites = np.arange(P)
    return SensorReadings(values, axis.values, sites, ROAD, sites.tolist(), stamps, axis)


DATA = city()
PLAN = SplitPlan(sensors=0.2, gap="6h", horizon="2h")


def test_a_plan_hides_sensors_gaps_and_all_after_ten_origins_in_working_hours():
    split = PLAN.draw(DATA, 3)
    assert split.is_out.sum() == 1
    assert split.hidden[split.is_out].all()
    assert split.origins.size == 10
    assert (np.diff(split.origins) >= split.horizon).all()
    stamps = pd.DatetimeIndex(DATA.stamps[split.origins])
    assert (stamps.day_of_week < 5).all()
    assert ((stamps.hour >= 7) & (stamps.hour < 18)).all()
    assert split.origins[0] >= DATA.times.size // 2
    assert split.hidden[:, split.origins[0] + 1 :].all()
    assert (split.kind[:, split.origins[0] + 1 :] == -1).all()
    gaps = split.kind == split.kinds.index(GAP)
    assert {int(row.sum()) for row in gaps} <= {0, 4, 5, 6}  # cells of a gap that are single count
    np.testing.assert_array_equal(PLAN.draw(DATA, 3).kind, split.kind)
    assert (PLAN.draw(DATA, 4).kind != split.kind).any()


def test_cells_are_scored_once_and_forecasts_are_those_of_sensors_that_are_known():
    split = PLAN.draw(DATA, 3)
    cells = Cells.of(DATA, split)
    keys = np.column_stack([cells.rows, cells.columns])
    assert len(np.unique(keys, axis=0)) == len(cells)
    ahead = cells.origin >= 0
    assert set(cells.ahead[ahead]) == {1, 2}
    assert not split.is_out[cells.rows[ahead]].any()
    assert np.isfinite(DATA.values[cells.rows, cells.columns]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SplitPlan(sensors=1.5), "sensors: expected a share"),
        (lambda: SplitPlan(gap=-1.0), "gap: expected a number >= 0"),
        (lambda: SplitPlan(horizon="soon").draw(DATA, 0), "horizon: expected"),
        (lambda: SpaceTimeSplit.of_masks({}), "masks: expected boolean arrays"),
        (lambda: SpaceTimeSplit.of_masks({"a": np.zeros((2, 2))}), "masks: expected boolean"),
        (
            lambda: SpaceTimeSplit.of_masks({"a": np.ones(DATA.values.shape, bool)}).check(DATA),
            "some that are left, got 0",
        ),
        (lambda: replace(DATA, times=np.zeros(DATA.times.size)), "times: expected finite numbers"),
        (lambda: replace(DATA, sites=np.arange(3)), "values: expected shape"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("width", [0, 2])
def test_means_of_other_days_are_those_of_a_loop(width):
    found = _of_other_days(DATA, width)
    hours = np.arange(DATA.times.size) % PER_DAY
    for i, t in [(0, 0), (1, 30), (5, 300), (2, DATA.times.size - 1)]:
        away = np.abs(hours - hours[t])
        near = np.minimum(away, PER_DAY - away) <= width
        other = near & (DATA.days != DATA.days[t]) & DATA.seen[i]
        assert found[i, t] == pytest.approx(DATA.values[i, other].mean())


def test_means_of_the_week_are_those_of_a_loop():
    found = same_time_of_week(DATA)
    hours = np.arange(DATA.times.size) % PER_DAY
    for i, t in [(0, 5), (3, 200)]:
        same = (hours == hours[t]) & (DATA.days % 7 == DATA.days[t] % 7) & DATA.seen[i]
        assert found[i, t] == pytest.approx(DATA.values[i, same].mean())


@pytest.mark.parametrize("ahead", [True, False])
def test_columns_of_trees_are_readings_before_and_after(ahead):
    data = city(gaps=0.3)
    peers = _most_correlated(data)
    rows, times = np.array([0, 3, 5]), np.array([100, 211, 498])
    origins = times - (4 if ahead else 1)
    X = _Columns(data, peers).of(rows, times, origins, ahead)
    for k, (i, t, o) in enumerate(zip(rows, times, origins, strict=True)):
        before = np.flatnonzero(data.seen[i, : o + 1])[-1]
        assert X[k, 0] == data.values[i, before]
        assert X[k, len(LAGS)] == t - before
        if not ahead:
            later = t + 1 + np.flatnonzero(data.seen[i, t + 1 :])[0]
            place = len(LAGS) + 1 + peers.shape[1]
            assert X[k, place] == data.values[i, later]
            assert X[k, place + 1] == later - t
    if ahead:
        # Nothing after an origin is in a row: later readings do not matter but for the usual day.
        changed = data.values.copy()
        changed[:, 97:101] += 1000.0
        other = _Columns(replace(data, values=changed), peers).of(rows, times, origins, True)
        known = len(LAGS) + 1 + peers.shape[1]
        np.testing.assert_array_equal(other[0, :known], X[0, :known])


def test_rivals_see_nothing_of_what_is_hidden_and_know_their_errors():
    split = PLAN.draw(DATA, 3)
    cells = Cells.of(DATA, split)
    found = time_rivals(DATA, split, cells)
    changed = DATA.values.copy()
    changed[split.kind >= 0] += 100.0
    other = time_rivals(replace(DATA, values=changed), split, cells, ["linear in time"])
    np.testing.assert_array_equal(other["linear in time"][0], found["linear in time"][0])
    y, ahead = DATA.values[cells.rows, cells.columns], cells.origin >= 0
    rmse = {name: np.sqrt(np.nanmean((y - one[0])[ahead] ** 2)) for name, one in found.items()
            if np.isfinite(one[0][ahead]).any()}  # fmt: skip
    assert set(rmse) == {"last value", "same time of day", "same time of the week", "boosted trees"}
    assert rmse["boosted trees"] < 0.9 * rmse["last value"]
    for name in ("last value", "boosted trees", "same time of day"):
        mean, std, _ = found[name]
        z = ((y - mean) / std)[ahead]
        assert 0.85 < np.mean(np.abs(z) < 1.96) <= 1.0, name


@pytest.fixture(scope="module")
def report():
    rng, n = np.random.default_rng(0), 12 * 96
    root = np.linalg.cholesky(np.exp(-np.abs(np.subtract.outer(np.arange(8), np.arange(8))) / 4))
    x = np.zeros((8, n))
    for t in range(1, n):
        x[:, t] = 0.9 * x[:, t - 1] + root @ rng.normal(size=8)
    values = 60 + x
    values[3] += 30.0  # it reads too high all the time
    stamps = np.datetime64("2026-03-02") + np.arange(n) * np.timedelta64(15, "m")
    model = cgp.GraphTimeGPRegressor(
        cgp.Graph.from_edges(range(7), range(1, 8)), usual_day=False, progress=False
    )
    return cgp.hide(
        model, list(range(8)), stamps, values, unit="mph",
        rivals=["last value", "linear in time", "mean of all sensors", "regression on the others"],
        random_state=1,
    )  # fmt: skip


class TestReport:
    def test_scores_are_those_of_the_readings_of_a_part(self, report):
        p = report.tables.predictions
        for part in (SENSOR, GAP, "15 minutes ahead", "60 minutes ahead"):
            rows = p.parts == part
            error = np.sqrt(np.mean((p.y - p.law.mean)[rows] ** 2))
            assert report.score("rmse", part=part) == pytest.approx(error)
        assert report.score("rmse", part="15 minutes ahead") < report.score(
            "rmse", model="last value", part="60 minutes ahead"
        )

    def test_gains_are_paired_differences_at_the_readings_of_both(self, report):
        t = report.tables
        row = t.figure("gains", rival="last value", part="60 minutes ahead", metric="nlpd")
        (rival,) = (one for one in t.rivals if one.name == "last value")
        rows = np.flatnonzero(t.predictions.parts == "60 minutes ahead")
        y, law = t.predictions.y[rows], rival.predictions.law.take(rows)
        own = -t.predictions.law.take(rows).log_density(y)
        assert row.gain == pytest.approx(float((own + law.log_density(y)).mean()))
        assert row.n == rows.size

    def test_the_joint_law_is_known_and_the_model_is_not_beaten(self, report):
        judged = report.tables.judged
        assert judged.correlation is not None
        np.linalg.cholesky(judged.correlation[..., 0] + 1e-8 * np.eye(len(judged)))
        assert report.verdicts[0].colour == "green"

    def test_the_sensor_that_deviates_is_named(self, report):
        (check,) = [one for one in report.checks if one.rule == "sensor deviates"]
        assert check.fired
        assert check.column == "3"
        assert "reads" in check.sentence
        assert "too high" in check.sentence
        assert check.remedy.startswith("Calibrate 3")
        rows = report.to_frame("scores").query("group == '3' and metric == 'bias'")
        assert rows["value"].iloc[0] == pytest.approx(30, abs=6)

    def test_its_page_says_what_was_asked(self, report):
        page = report.to_html()
        assert "60 minutes ahead" in page
        assert "at hidden sensors" in page


def test_limits_are_wider_for_few_clusters():
    assert hiding._limit(2.0, 10_000) == pytest.approx(2.0, abs=0.01)
    assert hiding._limit(2.0, 10) == pytest.approx(2.32, abs=0.01)  # t of nine degrees at .977


def test_without_refit_a_model_has_to_know_how():
    class Model:
        graph = ROAD

    with pytest.raises(InvalidInputError, match="refit: expected True for Model"):
        cgp.hide(Model(), DATA, refit=False)
