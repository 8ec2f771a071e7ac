"""Axes of times: every kind of stamps, zones, grids, durations and labels."""

import datetime as dt
import warnings
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.time.axis import TimeAxis

START = np.datetime64("2012-03-01T00:00")
FIVE = np.timedelta64(5, "m")
TIMES = START + FIVE * np.arange(12)
PARIS = ZoneInfo("Europe/Paris")


def as_python(times):
    return times.astype("datetime64[us]").tolist()


FORMS = {
    "minutes": lambda t: t,
    "nanoseconds": lambda t: t.astype("datetime64[ns]"),
    "list": lambda t: list(t),
    "python": as_python,
    "texts": lambda t: t.astype(str).tolist(),
    "texts of numpy": lambda t: t.astype(str),
    "spaces": lambda t: [text.replace("T", " ") for text in t.astype(str)],
    "basic": lambda t: [x.strftime("%Y%m%dT%H%M%S") for x in as_python(t)],
    "arrow": lambda t: pa.chunked_array([pa.array(t.astype("datetime64[ms]"))]),
    "arrow texts": lambda t: pa.array(t.astype(str).tolist()).dictionary_encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_stamps_is_one_axis(form):
    order = np.random.default_rng(0).permutation(12)
    axis = TimeAxis.of(FORMS[form](TIMES[order].repeat(2)))
    np.testing.assert_array_equal(axis.values, 300.0 * np.arange(12))
    assert (axis.step, axis.zone, axis.unit) == (300.0, None, "seconds")
    labels = axis.labels(axis.values)
    assert labels.dtype == "datetime64[ns]"
    np.testing.assert_array_equal(labels, TIMES)
    np.testing.assert_array_equal(axis.numbers(FORMS[form](TIMES[[7, 2]])), [2100, 600])


def test_forms_of_pandas_are_that_axis_too():
    pd = pytest.importorskip("pandas")
    texts = TIMES.astype(str)
    objects = pd.Index(as_python(TIMES), dtype=object)
    for times in (pd.DatetimeIndex(TIMES), pd.Series(TIMES), pd.Series(texts), objects,
                  pd.Categorical(texts)):  # fmt: skip
        np.testing.assert_array_equal(TimeAxis.of(times).labels(300.0), TIMES[1:2])
    zoned = pd.DatetimeIndex(TIMES, tz="Europe/Paris")
    axis = TimeAxis.of(zoned)
    assert axis.zone == "Europe/Paris"
    pd.testing.assert_index_equal(axis.labels(axis.values), zoned.as_unit("ns"), exact="equiv")
    assert TimeAxis.of(pd.Series(zoned)).zone == "Europe/Paris"
    # An instant is the same by another zone's clock.
    np.testing.assert_array_equal(axis.numbers(zoned.tz_convert("Asia/Tokyo")), axis.values)


def test_numbers_stay_in_the_users_unit():
    axis = TimeAxis.of([3.5, 0.5, 2.5, 1.5])
    assert (axis.origin, axis.zone, axis.step, axis.unit) == (None, None, 1.0, "units of the times")
    np.testing.assert_array_equal(axis.labels([0.5, 9]), [0.5, 9.0])
    assert axis.seconds_of_day(axis.values) is None
    assert axis.duration(3) == axis.duration("3") == 3.0
    whole = TimeAxis.of([4, 2, 3])
    assert whole.labels([5.0]).dtype == np.int64
    assert whole.labels([5.5]).tolist() == [5.5]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1h", 3600), ("7D", 604800), ("90 s", 90), ("1h30m", 5400), ("15min", 900), ("PT15M", 900),
     ("P1DT6H", 108000), ("2 weeks", 1209600), ("250ms", 0.25), (dt.timedelta(minutes=2), 120),
     (np.timedelta64(3, "h"), 10800), (np.timedelta64(1, "D"), 86400), (60, 60), ("60", 60)],
)  # fmt: skip
def test_durations(value, seconds):
    assert TimeAxis.of(TIMES).duration(value) == seconds


@pytest.mark.parametrize(
    "value", ["", "h", "1 month", "1M", "-1h", "0s", "PT", "P", "1h 30", "nan", 0, -1, np.inf, None,
              True, np.timedelta64(1, "M"), np.timedelta64("NaT"), dt.timedelta(0), "1.2.3h",
              "PT1.2.3S"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(InvalidInputError, match=r"forecast: expected .*(duration|number)"):
        TimeAxis.of(TIMES).duration(value, "forecast")


def test_steps_of_a_duration():
    axis = TimeAxis.of([0.0, 1.0, 3.0, 6.0])
    assert axis.step is None
    assert axis.steps(5, 2.0) == 2
    with pytest.raises(InvalidInputError, match="ahead: expected a step of the data, 2 units"):
        axis.steps(1.9, 2.0, "ahead")


def test_a_unit_of_time_has_no_meaning_for_numbers():
    with pytest.raises(InvalidInputError, match="expected a number in the unit of the times"):
        TimeAxis.of([0.0, 1.0]).duration("1h")


def test_an_hour_that_comes_twice_is_two_with_a_zone():
    # The clocks of Paris went back at 3:00 on 28 October 2012.
    hours = [dt.datetime(2012, 10, 28, 0, tzinfo=dt.UTC) + dt.timedelta(hours=k) for k in range(4)]
    local = [hour.astimezone(PARIS) for hour in hours]
    assert [time.hour for time in local] == [2, 2, 3, 4]
    texts = [time.isoformat() for time in local]
    for times in (local, texts):
        axis = TimeAxis.of(times)
        np.testing.assert_array_equal(axis.values, 3600.0 * np.arange(4))
    axis = TimeAxis.of(local)
    assert axis.zone == "Europe/Paris"
    assert axis.labels(axis.values).tolist() == local
    np.testing.assert_array_equal(axis.seconds_of_day(axis.values) / 3600, [2, 2, 3, 4])
    assert TimeAxis.of(texts).zone == "UTC"  # two offsets
    assert axis.texts(axis.values) == texts


def test_seconds_of_the_day_are_local():
    noon = ["2012-07-01T12:00:00+02:00", "2012-07-01T12:30:00+02:00"]
    axis = TimeAxis.of(noon)
    assert axis.zone == "+02:00"
    np.testing.assert_array_equal(axis.seconds_of_day(axis.values), [43200, 45000])
    np.testing.assert_array_equal(TimeAxis.of(TIMES).seconds_of_day([-60.0, 86400.0]), [86340, 0])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "one time at least"),
        (["2012-03-01", None], "place 1, got None"),
        ([np.datetime64("NaT"), START], "place 0, got NaT"),
        ([0.0, np.nan], "finite numbers, got nan at place 1"),
        ([0.0, np.inf], "finite numbers, got inf"),
        (["2012-03-01", "yesterday"], "'yesterday' at place 1"),
        (["2012-02-30"], "'2012-02-30' at place 0"),
        (["2012-03-01", "2012-03-01", "0000-01-01"], "got 0000-01-01.* at place 2"),
        (["2012-03-01T00:00", "2012-03-01T00:05Z"], "a zone with all times or with none"),
        ([dt.datetime(2012, 3, 1), dt.datetime(2012, 3, 1, tzinfo=dt.UTC)], "a zone with all"),
        ([dt.datetime(2012, 3, 1, tzinfo=PARIS),
          dt.datetime(2012, 3, 1, tzinfo=ZoneInfo("Asia/Tokyo"))], "one zone, got Asia/Tokyo"),
        ([True, False], "expected timestamps"),
        ([1j, 2j], "expected timestamps"),
        ([1, "2012-03-01"], "of one kind, got int, str"),
        ([object()], "got object"),
        (np.zeros((2, 2)), "one dimension"),
        (np.array([1, 2], "timedelta64[s]"), "expected timestamps"),
        (np.array(["1600-01-01", "2012-01-01"], "datetime64[D]"), "years from 1678"),
        (np.array([300_000], "datetime64[Y]"), "years from 1678"),
        (np.array([0, 1500], "datetime64[ps]"), "whole nanoseconds, got .* at place 1"),
        (np.array([5], "datetime64[as]"), "whole nanoseconds, got .* at place 0"),
        (np.array([5]).astype("datetime64"), "times with a unit"),
        ([1e200], "magnitudes"),
    ],
)  # fmt: skip
def test_bad_times_are_refused(times, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        TimeAxis.of(times)
    assert str(caught.value).startswith("times: ")


def test_other_kinds_than_those_of_the_fit_are_refused():
    zoned = TimeAxis.of(["2012-03-01T00:00Z"])
    with pytest.raises(InvalidInputError, match=r"times in the zone UTC, .* got times without"):
        zoned.numbers(TIMES)
    with pytest.raises(InvalidInputError, match=r"times without a zone, .* got numbers"):
        TimeAxis.of(TIMES).numbers([1.0])
    with pytest.raises(InvalidInputError, match=r"expected numbers, .* got times without"):
        TimeAxis.of([1.0]).numbers(TIMES)


def test_steps_that_are_missing_are_on_the_grid():
    axis, places = TimeAxis.placed(stamps(np.delete(TIMES, [3, 4, 8])))
    np.testing.assert_array_equal(axis.values, 300.0 * np.arange(12))
    np.testing.assert_array_equal(places, np.delete(np.arange(12), [3, 4, 8]))


def stamps(times):
    from coupledgp.time.stamps import read_stamps

    return read_stamps(times)


def test_jitter_is_put_on_the_grid_however_long():
    rng = np.random.default_rng(0)
    exact = 60.0 * np.arange(5000)
    axis = TimeAxis.of(exact + rng.uniform(-0.4, 0.4, exact.size))
    assert axis.n_times == 5000
    assert axis.step == pytest.approx(60, rel=1e-5)
    np.testing.assert_allclose(axis.values, exact, atol=0.5)


def test_a_few_stamps_off_the_grid_are_moved_with_a_warning():
    times = 10.0 * np.arange(100)
    times[[0, 40]] += 3.0
    with pytest.warns(UserWarning, match=r"times: 2 of 100 times .* by at most 30% of a step"):
        axis = TimeAxis.of(times)
    np.testing.assert_array_equal(axis.values, 10.0 * np.arange(100))


def test_irregular_stamps_stay_as_they_are():
    times = np.sort(np.random.default_rng(0).uniform(0, 100, 50))
    axis = TimeAxis.of(times)
    np.testing.assert_array_equal(axis.values, times)
    assert axis.step is None
    two_days = np.concatenate([np.arange(12.0), 1e6 + np.arange(12.0)])
    np.testing.assert_array_equal(TimeAxis.of(two_days).values, two_days)  # not 10^6 steps
    assert TimeAxis.of([5.0]).step is None


def test_many_irregular_stamps_need_a_resolution():
    times = np.cumsum(np.random.default_rng(0).exponential(1.0, 100_001))
    with pytest.raises(InvalidInputError, match=r"at most 100000 .* got 100001; a resolution"):
        TimeAxis.of(times)
    axis = TimeAxis.of(times, resolution=5.0)
    assert axis.step == pytest.approx(5.0)
    assert TimeAxis.of(np.arange(150_000.0)).n_times == 150_000  # regular: no limit


@pytest.mark.parametrize("unit", ["ps", "fs", "as"])
def test_units_below_nanoseconds_are_read_where_they_hold_these(unit):
    size = {"ps": 10**3, "fs": 10**6, "as": 10**9}[unit]
    nanoseconds = np.array([-3, 0, 7, 9])
    times = (nanoseconds * size).astype(f"datetime64[{unit}]")
    found = stamps(times).values
    np.testing.assert_array_equal(found, nanoseconds)


@pytest.mark.parametrize("ending", ["", "Z", "+01:00"])
def test_texts_of_nanoseconds_are_not_cut(ending):
    found = stamps([f"1970-01-02T00:00:00.123456789{ending}", f"1970-01-02T00:00:01{ending}"])
    first = 86_400_123_456_789 - (3_600_000_000_000 if ending == "+01:00" else 0)
    np.testing.assert_array_equal(found.values, [first, first + 876_543_211])
    far = stamps([f"1700-01-01T00:00:00{ending}", f"1970-01-01T00:00:00.5{ending}"])
    assert far.values[0] < -8_000_000_000 * 10**9


def test_centuries_apart_and_nanoseconds_are_exact():
    far = np.array(["1700-01-01T00:00:00.125", "2200-01-01"], "datetime64[ms]")
    axis = TimeAxis.of(far)
    np.testing.assert_array_equal(axis.labels(axis.values), far)
    fine = np.array([0, 7], "datetime64[ns]")
    np.testing.assert_array_equal(TimeAxis.of(fine).labels([0, 7e-9]), fine)
    year = START + FIVE * np.arange(105_120)
    axis = TimeAxis.of(year)
    np.testing.assert_array_equal(axis.labels(axis.values), year)
    with pytest.raises(InvalidInputError, match="years 1678 to 2261"):
        axis.labels([1e12])


def test_nothing_of_pandas_is_needed_for_labels():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(TimeAxis.of(["2012-03-01T00:00Z"]).labels([0.0])[0], dt.datetime)


def test_clocks_of_a_zone_are_read_but_not_where_they_are_set():
    summer = stamps(["2012-07-01T12:00", "2012-07-01T13:00"]).within("Europe/Paris")
    axis = TimeAxis.of(summer)
    assert axis.texts([0.0]) == ["2012-07-01T12:00:00+02:00"]
    same = stamps(["2012-07-01T10:00Z"]).within("Europe/Paris")
    assert same.values[0] == summer.values[0]
    with pytest.raises(InvalidInputError, match="that the clocks of Europe/Paris show, got"):
        stamps(["2012-03-25T02:30"]).within("Europe/Paris")
    with pytest.warns(UserWarning, match="1 times of an hour .* come once"):
        once = stamps(["2012-10-28T02:30"]).within("Europe/Paris")
    assert once.values[0] == stamps(["2012-10-28T00:30Z"]).values[0]
    for zone in ("Europe/Atlantis", "+99:00", "", "../x"):
        with pytest.raises(InvalidInputError, match="expected a time zone such as"):
            stamps(["2012-07-01"]).within(zone)
    with pytest.raises(InvalidInputError, match="expected timestamps for a zone, got numbers"):
        stamps([1.0]).within("UTC")


CLOCK = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"]


@pytest.mark.parametrize("order", ["in order of time", "node by node", "last ones first"])
@pytest.mark.parametrize("hourly", [False, True])
def test_the_hour_that_comes_twice_is_resolved_by_the_order_of_rows(order, hourly):
    """As pandas resolves it for each node, `ambiguous="infer"`."""
    clock = ["01:00", "02:00", "02:00", "03:00"] if hourly else CLOCK
    night = [f"2012-10-28T{one}" for one in clock]
    expected = pd.DatetimeIndex(night).tz_localize("Europe/Paris", ambiguous="infer")
    nodes, k = np.repeat([0, 1], len(night)), np.tile(np.arange(len(night)), 2)
    if order != "node by node":
        nodes, k = np.tile([0, 1], len(night)), np.repeat(np.arange(len(night)), 2)
    if order == "last ones first":
        nodes, k = nodes[::-1], k[::-1]
    found = stamps([night[i] for i in k]).within("Europe/Paris", nodes=nodes)
    np.testing.assert_array_equal(found.values, expected.as_unit("ns").asi8[k])
    alone = stamps(night).within("Europe/Paris")
    np.testing.assert_array_equal(alone.values, expected.as_unit("ns").asi8)
