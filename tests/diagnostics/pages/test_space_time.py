"""The page of a space-time model: what it says, and that what it stores is what was computed."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest

from coupledgp.diagnostics.space_time.gains import (
    cards,
    headline,
    where_time_adds_nothing,
)
from coupledgp.diagnostics.space_time.layout import laid_out
from coupledgp.diagnostics.space_time.maps import (
    TimeMaps,
)
from coupledgp.diagnostics.space_time.record import GapCount, SensorErrors
from coupledgp.diagnostics.space_time.sensors import chosen_sensors
from coupledgp.diagnostics.space_time.times import (
    MAX_FRAME_BYTES,
    chosen_times,
    thinned_times,
)
from coupledgp.diagnostics.space_time.words import (
    ahead_words,
    duration_words,
    time_texts,
)
from coupledgp.errors import InvalidInputError
from coupledgp.time.axis import TimeAxis
from tests.diagnostics.pages.space_time_cases import HOSTILE, N_TIMES, report


@pytest.fixture(scope="module")
def page():
    return report().to_html()


def decoded(layer, n_times):
    """The values (v, T) that the viewer reads from a layer."""
    kind, missing = ("u1", 255) if layer["coarse"] else ("<u2", 65535)
    steps = np.frombuffer(base64.b64decode(layer["values"]), kind).astype(float)
    steps[steps == missing] = np.nan
    span = layer["high"] - layer["low"]
    return (layer["low"] + steps / (missing - 1) * span).reshape(n_times, -1).T


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.long
def test_hostile_labels_are_texts_everywhere(page):
    assert "<img" not in page
    assert page.count("</script>") == page.count("<script")
    assert "&lt;/script&gt;&lt;img" in page


def test_the_page_fetches_nothing_and_is_small(page):
    assert "default-src 'none'" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert len(page) < 700_000


def test_the_headline_states_gaps_gains_and_a_sensor_left_out():
    text = plain(headline(report()))
    # 16 gaps in 12 x 56 cells; 15 steps of five minutes.
    assert text.startswith("2.4 % of the values are missing, the longest gap is 1.25 hours; ")
    assert "in gaps the RMSE is 6.50 mph, 29 % below linear interpolation (9.10)" in text
    assert "at hidden sensors the RMSE is 8.49 mph, 7.4 % below the nearest sensor (9.17)" in text
    assert "5 minutes ahead the RMSE is 4.00 mph, 7.0 % below the last value (4.30)" in text
    assert "30 minutes ahead the RMSE is 7.88 mph, no better than the last value (7.72)" in text
    assert text.endswith(
        "a sensor left out is predicted from the others to 3.75 mph (median RMSE)."
    )


def test_the_page_says_where_time_adds_nothing(page):
    hidden, ahead = where_time_adds_nothing(report())
    assert hidden.startswith("Time adds nothing at hidden sensors")
    assert "8.44 mph" in hidden
    assert ahead.startswith("30 minutes ahead the model is no better than the last value")
    assert "5 minutes" not in ahead
    assert hidden in page
    assert ahead in page


def test_where_time_adds_something_nothing_is_said():
    better = tuple(
        replace(one, rmse=0.5 * one.rmse) if one.model == "model" else one
        for one in report().scores
    )
    assert where_time_adds_nothing(report(scores=better)) == []
    colours = [one.colour for one in cards(report(scores=better))]
    assert colours == ["green", "green", "green", "green", "amber"]


def test_a_model_that_is_worse_is_red_and_narrow_intervals_are():
    worse = tuple(
        replace(one, rmse=2 * one.rmse, coverage={0.95: 0.5}) if one.model == "model" else one
        for one in report().scores
    )
    assert [one.colour for one in cards(report(scores=worse))][:4] == ["red"] * 4


def test_doubtful_sensors_come_first():
    errors = report().left_out
    assert np.flatnonzero(errors.is_doubtful()).tolist() == [2]
    assert errors.order()[:2].tolist() == [2, 5]
    noisy = replace(errors, rmse=np.where(np.arange(12) == 5, 40.0, errors.rmse))
    assert noisy.order()[:2].tolist() == [2, 5]
    rows = report().tables()["sensors"].rows
    assert rows[0][0] == "=road 2"
    assert rows[0][4] == "+20.0"
    assert rows[0][6] == "doubtful: reads 20 mph below the others"
    assert rows[1][6] == ""
    chosen = chosen_sensors(report())
    assert [one.sensor for one in chosen[:2]] == [2, 5]
    assert len(chosen) == 7
    assert chosen[-1].why == "the median sensor"


def test_errors_of_sensors_are_read_from_a_table():
    errors = report().left_out
    table = {name: getattr(errors, name) for name in ("n", "rmse", "mae", "bias", "coverage_95")}
    assert SensorErrors.of(table | {"node": list("abcdefghijkl")}).typical() == errors.typical()


def test_gaps_are_counted_in_rows():
    nan = np.nan
    values = np.array([[nan, 1.0, nan, nan], [nan, nan, nan, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert GapCount.of(values) == GapCount(12, 6, 3)
    assert GapCount.of(np.ones((2, 3))) == GapCount(6, 0, 0)


def test_the_viewer_gets_the_law_within_half_a_step():
    one = report()
    scene = TimeMaps(one).scene().to_dict()
    for layer, array, share in zip(scene["layers"], (one.mean, one.std), (65534, 254), strict=True):
        error = np.abs(decoded(layer, N_TIMES) - array)
        assert error.max() <= 0.5001 * np.ptp(array) / share
    values = decoded(scene["sensors"]["values"]["mean"], N_TIMES)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(one.observed))
    np.testing.assert_allclose(values, one.observed, atol=np.nanmax(one.observed) / 65534)
    assert scene["frames"]["labels"][0] == "Thu 1 Mar 2012 20:00"
    assert scene["frames"]["labels"][-1].endswith("(forecast)")
    assert scene["frames"]["first"] == N_TIMES - 5


def test_many_times_are_thinned_out_with_a_sentence():
    n = 1000 * 500
    assert thinned_times(10, 4).tolist() == [0, 3, 6, 9]
    assert thinned_times(7, 100).tolist() == list(range(7))
    rng = np.random.default_rng(0)
    axis = TimeAxis.of(np.arange(2000.0))
    scene = TimeMaps(
        report(
            nodes=[str(k) for k in range(500)], axis=axis, times=axis.values,
            mean=rng.normal(size=(500, 2000)), std=np.ones((500, 2000)),
            sensors=np.arange(3), observed=np.ones((3, 2000)), kinds=np.zeros((3, 2000), int),
            positions=rng.normal(size=(500, 2)), edges=np.array([[0, 1]]), left_out=None,
        )
    ).scene()  # fmt: skip
    assert scene.n_bytes <= MAX_FRAME_BYTES < 3 * n * 2
    assert "The map has every 2nd time, 1000 of 2000." in scene.note


def test_many_nodes_are_merged():
    rng = np.random.default_rng(0)
    axis = TimeAxis.of(np.arange(60.0))
    mean = rng.normal(size=(30_000, 60))
    scene = TimeMaps(
        report(
            nodes=range(30_000), axis=axis, times=axis.values, mean=mean, std=np.ones_like(mean),
            sensors=np.arange(3), observed=np.ones((3, 60)), kinds=np.zeros((3, 60), int),
            positions=rng.normal(size=(30_000, 2)), edges=np.empty((0, 2), int), left_out=None,
        )
    ).scene()  # fmt: skip
    assert scene.n_bytes <= MAX_FRAME_BYTES
    assert "nodes" in scene.note
    assert scene.quantities[0].values.shape == (len(scene.positions), 30)


def test_six_times_are_round_hours_of_the_last_day_and_a_forecast():
    times = np.datetime64("2012-03-01T00:00") + 5 * np.arange(3 * 288) * np.timedelta64(1, "m")
    axis = TimeAxis.of(times[:-12])
    cells = np.ones((1, times.size))
    cells[0, -12:] = np.nan
    one = report(
        nodes=["a"], axis=axis, times=axis.numbers(times), mean=cells, std=cells,
        sensors=np.zeros(1, int), observed=cells, kinds=np.zeros(cells.shape, int), positions=None,
        edges=np.empty((0, 2), int), left_out=None,
    )  # fmt: skip
    texts = time_texts(axis, one.times[chosen_times(one)])
    hours = ["04:00", "08:00", "12:00", "16:00", "20:00", "23:55"]
    assert texts == [f"Sat 3 Mar 2012 {hour}" for hour in hours]


@pytest.mark.long
def test_graphs_without_positions_are_laid_out_and_named_so():
    ring = np.column_stack([np.arange(10), (np.arange(10) + 1) % 10])
    places = laid_out(13, np.concatenate([ring, [[10, 11]]]))
    assert np.isfinite(places).all()
    gaps = np.linalg.norm(places[ring[:, 0]] - places[ring[:, 1]], axis=1)
    assert np.ptp(gaps) < 0.05 * gaps.mean()  # a circle
    assert len(np.unique(places.round(6), axis=0)) == 13
    page = report(positions=None, unit=HOSTILE).to_html()
    assert "The nodes have no positions" in page
    assert "<img" not in page  # a unit is a text, on pictures too


def test_words_of_durations():
    axis, plain_axis = report().axis, TimeAxis.of([0.0, 2.0, 4.0])
    assert duration_words(2700.0, axis) == "45 minutes"
    assert duration_words(5400.0, axis) == "1.5 hours"
    assert duration_words(86_400.0, axis) == "24 hours"
    assert duration_words(7 * 86_400.0, axis) == "7 days"
    assert duration_words(12.0, plain_axis) == "12 units of time"
    assert ahead_words(1, plain_axis) == "1 step ahead"


def test_times_of_a_zone_are_local():
    import pandas as pd

    axis = TimeAxis.of(pd.date_range("2012-07-01 22:00", periods=4, freq="h", tz="Europe/Berlin"))
    assert time_texts(axis, axis.values[[0, 3]]) == ["Sun 1 Jul 2012 22:00", "Mon 2 Jul 2012 01:00"]


def test_shapes_are_checked():
    with pytest.raises(InvalidInputError, match=r"std: expected shape \(16, 60\), got \(3, 60\)"):
        report(std=np.ones((3, N_TIMES)))
    with pytest.raises(InvalidInputError, match="positions: expected 16 rows"):
        report(positions=np.zeros((3, 2)))


def test_a_report_without_scores_or_sensors_is_a_page_too():
    bare = report(
        scores=(), hours=(), left_out=None, facts=(), provenance={}, unit="",
        sensors=np.empty(0, int), observed=np.empty((0, N_TIMES)),
        kinds=np.empty((0, N_TIMES), int), gaps=GapCount(0, 0, 0),
    )  # fmt: skip
    page = bare.to_html()
    assert "No value is missing." in page
    assert "<table" not in page


@pytest.mark.long
def test_pictures_and_tables_are_saved(tmp_path):
    saved = report().save_tables(tmp_path / "tables")
    assert {one.name for one in saved} == {
        "gains.csv", "scores.csv", "sensors.csv", "calibration.csv",
        "calibration-day.csv", "computation.csv", "provenance.csv",
    }  # fmt: skip
    text = (tmp_path / "tables/sensors.csv").read_text()
    assert "'=road 2,50,20.2," in text
    assert HOSTILE in report().sensor_names
    assert set(report().pictures()) >= {"map", "small-multiples", "series-7", "hours"}


def test_six_times_of_an_evening_are_round():
    one = report()  # from 20:00 to 0:35, then a forecast
    texts = time_texts(one.axis, one.times[chosen_times(one)])
    assert [text[-5:] for text in texts] == ["22:30", "23:00", "23:30", "00:00", "00:30", "00:55"]


def test_a_scale_ends_before_rare_means_and_says_so():
    law = report().mean.copy()
    assert not TimeMaps(report()).scales[0].note
    law[3, 5] = 1e4
    scale = TimeMaps(report(mean=law)).scales[0]
    assert scale.high < 100
    assert "beyond" in scale.note
