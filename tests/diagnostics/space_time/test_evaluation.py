"""The evaluation: scores of known laws, tables, files, and sensors that are left out."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

import coupledgp as cgp
from coupledgp.core.transforms import Log
from coupledgp.diagnostics.rivals.rival import Rival
from coupledgp.diagnostics.scoring.figures import Skipped
from coupledgp.diagnostics.scoring.scores import error_over_groups, point_nlpd
from coupledgp.diagnostics.space_time.evaluation import evaluate_space_time
from coupledgp.diagnostics.space_time.models import fitted_to, law_of, readings_of
from coupledgp.diagnostics.space_time.rivals import rival_law
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw, score_rows, score_values
from coupledgp.diagnostics.space_time.sensors_out import leave_one_sensor_out
from coupledgp.diagnostics.space_time.simple import nearest_sensor
from coupledgp.diagnostics.space_time.splits import SplitPlan
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.random import draw_seed
from tests.diagnostics.space_time.cases import DenseSpaceTime, readings, road

PLAN = SplitPlan(sensors=0.2, cells=0.1, gap=8.0, gap_sensors=0.5, horizon=3.0)


@pytest.fixture(scope="module")
def result():
    data = readings(40)
    return evaluate_space_time(
        DenseSpaceTime(data.domain), data.labels, data.times, data.values,
        splits=2, plan=PLAN, rivals=["linear in time", "nearest sensor"], random_state=3,
    )  # fmt: skip


def test_scores_of_a_constant_law():
    data = readings(40, gaps=0.0)
    split = PLAN.draw(data, 0)
    law = SpaceTimeLaw(data.values + 2.0, np.full(data.values.shape, 1.0))
    rows = score_rows(0, "m", law, data, split)
    assert {row.kind for row in rows} == {"scattered", "gap", "hidden sensor", "forecast"}
    for row in rows:
        assert (row.rmse, row.mae, row.bias) == pytest.approx((2.0, 2.0, 2.0))
        assert row.nlpd == pytest.approx(2.0 + 0.5 * np.log(2 * np.pi))
        assert row.coverage_95 == 0.0
    whole = {row.kind: row.n for row in rows if row.group == "all"}
    assert whole == {kind: split.of_kind(kind).sum() for kind in split.kinds}
    assert [(r.value, r.n) for r in rows if r.group == "steps ahead"] == [
        ("1", 10),
        ("2", 10),
        ("3", 10),
    ]


def test_gaps_of_the_data_are_not_scored_and_parts_of_the_day_add_up():
    data = readings(48)
    data = replace(data, times=3600.0 * data.times, seconds_of_day=3600.0 * (data.times % 24))
    split = SplitPlan(gap=7200.0, horizon=3600.0).draw(data, 0)
    law = SpaceTimeLaw(np.full(data.values.shape, 50.0), np.full(data.values.shape, 10.0))
    rows = score_rows(0, "m", law, data, split)
    for kind in ("scattered", "hidden sensor"):
        total = (split.of_kind(kind) & data.seen).sum()
        assert sum(r.n for r in rows if (r.kind, r.group) == (kind, "time of day")) == total
        squares = [r.n * r.rmse**2 for r in rows if (r.kind, r.group) == (kind, "time of day")]
        whole = next(r for r in rows if (r.kind, r.group) == (kind, "all"))
        assert sum(squares) == pytest.approx(total * whole.rmse**2)


def test_a_true_model_beats_its_rivals_and_is_calibrated(result):
    assert result.models == ["DenseSpaceTime", "linear in time", "nearest sensor"]
    for kind in ("scattered", "gap"):
        own, linear = (result.score(m, kind) for m in ("DenseSpaceTime", "linear in time"))
        assert own < linear
        assert result.score("DenseSpaceTime", kind, "coverage_95") == pytest.approx(0.95, abs=0.06)
    assert result.score("DenseSpaceTime", "hidden sensor") < result.score(
        "nearest sensor", "hidden sensor"
    )
    assert result.cpu_seconds("linear in time") >= 0
    with pytest.raises(InvalidInputError, match="model, kind: expected some of"):
        result.score("linear in time", "hidden sensor")


def test_the_same_seed_gives_the_same_scores(result):
    data = readings(40)
    again = evaluate_space_time(
        None, data, splits=2, plan=PLAN, rivals=["linear in time", "nearest sensor"], random_state=3
    )
    others = (row for row in result.rows if row.model != "DenseSpaceTime")
    assert again.rows == tuple(
        replace(row, gain=None, gain_error=None, ratio_error=None) for row in others
    )


def test_tables(result, tmp_path):
    frame = result.to_dataframe()
    assert set(frame["group"]) == {"all", "steps ahead"}
    whole = result.to_dataframe(by_split=True)
    mine = whole[(whole.model == "DenseSpaceTime") & (whole.kind == "gap") & (whole.group == "all")]
    row = frame[(frame.model == "DenseSpaceTime") & (frame.kind == "gap") & (frame.group == "all")]
    assert row["rmse"].item() == pytest.approx(mine["rmse"].mean())
    assert row["rmse_error"].item() == pytest.approx(mine["rmse"].std() / np.sqrt(2))
    assert row["n"].item() == mine["n"].sum()
    result.to_csv(tmp_path / "scores.csv")
    with open(tmp_path / "scores.csv") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(frame)
    assert float(lines[0]["rmse"]) == frame["rmse"][0]
    text = str(result)
    assert text.startswith("2 splits")
    assert "| gap | DenseSpaceTime |" in text


def test_rivals_of_ones_own_and_splits_of_ones_own():
    data = readings(40)
    mask = np.zeros(data.values.shape, dtype=bool)
    mask[2, 10:20] = True
    split = cgp.diagnostics.SpaceTimeSplit.of_masks({"roadworks": mask})
    zero = {"fifty": lambda given: (np.full(given.values.shape, 50.0), None)}
    found = cgp.diagnostics.evaluate_space_time(None, data, splits=split, rivals=zero)
    values = data.values[mask & data.seen]
    assert found.score("fifty", "roadworks") == pytest.approx(np.sqrt(np.mean((values - 50) ** 2)))
    assert found.kinds == ["roadworks"]


class Usual:
    """The mean of each sensor, with its spread or without a law."""

    name = "usual value"

    def __init__(self, has_law):
        self.has_law = has_law

    def fit(self, given):
        rows = given.values
        mean = np.nanmean(np.where(given.seen.any(axis=1)[:, None], rows, 50.0), axis=1)
        found = np.repeat(mean[:, None], given.times.size, axis=1)
        return (found, np.full(found.shape, 9.0)) if self.has_law else lambda points: found


@pytest.mark.parametrize("has_law", [True, False])
def test_a_class_of_ones_own_beside_the_model(has_law):
    data = readings(40)
    model = DenseSpaceTime(data.domain)
    split = PLAN.draw(data, 4)
    found = evaluate_space_time(model, data, splits=split, rivals=["last value", Usual(has_law)])
    assert found.models == ["DenseSpaceTime", "last value", "usual value"]
    mean, std = rival_law(Usual(has_law), data, split, draw_seed(0))[:2]
    assert (std[split.hidden] == 9.0).all() == has_law
    here = split.of_kind("gap") & data.seen
    y = data.values[here]
    own = law_of(fitted_to(model, data.without(split.hidden)), data)
    gap = point_nlpd(y, own.mean[here], own.std[here]) - point_nlpd(y, mean[here], std[here])
    row = next(r for r in found.rows if (r.model, r.kind) == ("usual value", "gap"))
    assert row.gain == pytest.approx(gap.mean())
    assert row.gain < 0
    assert row.gain_error == pytest.approx(error_over_groups(gap, np.nonzero(here)[0]))
    assert next(r for r in found.rows if r.model == "DenseSpaceTime").gain is None
    (told,) = (r for r in found.table("all") if (r["model"], r["kind"]) == ("usual value", "gap"))
    assert (told["gain"], told["gain_error"]) == pytest.approx((row.gain, row.gain_error))


def test_another_estimator_is_a_rival():
    data = readings(30)
    split = PLAN.draw(data, 4)
    wrong = DenseSpaceTime(data.domain, lengthscale=0.2)
    found = evaluate_space_time(
        DenseSpaceTime(data.domain), data, splits=split,
        rivals={"wrong": wrong, "fitted": lambda given: fitted_to(wrong, given)},
    )  # fmt: skip
    whole = {r["model"]: r for r in found.table("all") if r["kind"] == "gap"}
    assert whole["wrong"]["rmse"] == whole["fitted"]["rmse"]
    assert whole["wrong"]["gain"] == whole["fitted"]["gain"] < 0
    alone = evaluate_space_time(wrong, data, splits=split, rivals=())
    assert alone.score("DenseSpaceTime", "gap") == whole["wrong"]["rmse"]


def test_rivals_that_fail_or_are_too_dear_are_named():
    def broken(given):
        raise NumericalError("singular")

    data = readings(40)
    dear = Rival("dear", broken, seconds=1e6)
    found = evaluate_space_time(
        None, data, splits=2, rivals=["last value", broken, dear], budget="60s"
    )
    assert found.models == ["last value"]
    assert found.skipped[0] == Skipped("broken", "singular")
    assert found.skipped[1].reason.startswith("forecast 1e+06 s")
    assert {one.name for one in found.skipped} == {"broken", "dear"}


def test_gains_of_several_splits_are_averaged(result):
    key = ("nearest sensor", "gap")
    rows = [r for r in result.rows if (r.model, r.kind) == key and r.group == "all"]
    (told,) = (r for r in result.table("all") if (r["model"], r["kind"]) == key)
    assert told["gain"] == pytest.approx(np.mean([r.gain for r in rows]))
    assert told["gain_error"] == pytest.approx(np.hypot(*(r.gain_error for r in rows)) / 2)


def test_leave_one_sensor_out_is_a_fit_without_it(tmp_path):
    data = readings(25)
    model = DenseSpaceTime(data.domain)
    table = leave_one_sensor_out(model, data, sensors=[2, 5])
    assert sorted(table.rmse, reverse=True) == table.rmse.tolist()
    others = [row for row in data.labels if row != 5]
    fitted = DenseSpaceTime(data.domain).fit(others, data.times, data.values[others])
    mean, _ = fitted.predict([5], data.times)
    seen = data.seen[5]
    own, error = table.node.index(5), (mean[0] - data.values[5])[seen]
    assert table.n[own] == seen.sum()
    assert table.rmse[own] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert table.bias[own] == pytest.approx(np.mean(error))
    table.to_csv(tmp_path / "sensors.csv")
    assert table.to_dataframe()["node"].tolist() == table.node
    with open(tmp_path / "sensors.csv") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["rmse"]) for line in lines] == table.rmse.tolist()
    assert str(table).count("\n") == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: evaluate_space_time(DenseSpaceTime(), d.values), "model: expected an estimator"),
        (lambda d: evaluate_space_time(None, d, splits=0), "splits: expected an int >= 1"),
        (lambda d: evaluate_space_time(None, d, rivals="last valu"), "did you mean 'last value'"),
        (
            lambda d: evaluate_space_time(None, d, rivals={"x": 3}),
            "rivals: expected a function of the data.* got 3 for 'x'",
        ),
        (lambda d: evaluate_space_time(None, d, budget="soon"), "budget: expected seconds"),
        (lambda d: evaluate_space_time(None, d, splits=[3]), "splits: expected a number or"),
        (
            lambda d: leave_one_sensor_out(DenseSpaceTime(road()), d, sensors=[99]),
            "sensors: expected nodes with readings",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(readings(10))


def test_a_wide_table_with_timestamps_of_a_zone():
    data = readings(48)
    stamps = pd.date_range("2026-03-28", periods=48, freq="1h", tz="Europe/Berlin")
    table = pd.DataFrame(data.values.T, index=stamps, columns=data.labels)
    found = evaluate_space_time(
        Recorder(data.domain), table, splits=1, rivals=["mean at that time of day"]
    )
    assert {"scattered", "gap", "hidden sensor", "forecast"} == set(found.kinds)
    assert found.score("Recorder", "gap", "mae", "00-03 h") > 0
    # Six hours are six steps; a row without a reading is left out.
    assert found.table("steps ahead")[0]["value"] == "1"


class Recorder(BaseEstimator):
    """Predicts fifty, and checks what it is given."""

    def __init__(self, graph=None):
        self.graph = graph

    def fit(self, nodes, times, values):
        assert len(nodes) == len(values) == 11
        assert np.isnan(values[:, -1]).all()
        assert str(times.tz) == "Europe/Berlin"
        return self

    def predict(self, nodes, times, return_std):
        shape = len(nodes), len(times)
        return np.full(shape, 50.0), np.full(shape, 10.0)


def test_a_law_without_spread_is_refused():
    data = readings(12)
    with pytest.raises(InvalidInputError, match="expected positive standard deviations, got zero"):
        law_of(Certain(), data)


class Certain:
    """Predicts zero, and says that it is never wrong."""

    def predict(self, nodes, times, return_std):
        return np.zeros((2, len(nodes), len(times)))


def test_laws_of_transformed_values_have_their_own_densities():
    rng = np.random.default_rng(0)
    y, m, s = rng.lognormal(size=200), rng.normal(size=200), rng.uniform(0.5, 2, 200)
    exact = stats.lognorm(s, scale=np.exp(m))
    law = SpaceTimeLaw(exact.mean(), exact.std(), Log(), m, s)
    found = score_values(y, law.at(np.ones(200, dtype=bool)))
    assert found["nlpd"] == pytest.approx(-exact.logpdf(y).mean())
    low, high = exact.interval(0.95)
    assert found["coverage_95"] == np.mean((low <= y) & (y <= high))
    draws = exact.rvs((4000, 200), random_state=1)
    crps = np.abs(draws - y).mean() - 0.5 * np.abs(draws[:2000] - draws[2000:]).mean()
    assert found["crps"] == pytest.approx(crps, rel=0.1)


def test_a_transformed_model_of_the_package_is_scored_by_its_own_density():
    data = readings(60)
    data = replace(data, values=np.exp(data.values))
    seen = data.seen & (np.random.default_rng(0).random(data.values.shape) < 0.1)
    model = cgp.GraphTimeGPRegressor(data.domain, target_transform="counts", progress=False)
    fitted = fitted_to(model, data.without(seen))
    law = law_of(fitted, data)
    rows, columns = np.nonzero(seen)
    own = fitted.log_density(rows, data.times[columns], data.values[seen])
    found = score_values(data.values[seen], law.at(seen))
    assert found["nlpd"] == pytest.approx(-np.mean(own), abs=1e-4)


def test_readings_on_a_network_with_lengths():
    roads = cgp.LaplaceOperator.from_edges(["a", "b"], ["b", "c"], [3.0, 4.0])
    values = np.random.default_rng(0).normal(size=(2, 20))
    model = cgp.GraphTimeGPRegressor(roads, progress=False)
    found = readings_of(model, ["c", "a"], np.arange(20.0), values)
    assert found.labels == ["c", "a"]
    np.testing.assert_array_equal(found.sites, [2, 0])
    np.testing.assert_array_equal(nearest_sensor(found), values[::-1])
