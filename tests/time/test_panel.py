"""Panels: every form of data is one panel, results go back in it, bad data is refused."""

import sys

import numpy as np
import pyarrow as pa
import pytest

from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.time.panel import as_panel

START, STEP = np.datetime64("2012-03-01T00:00"), np.timedelta64(5, "m")
TIMES = START + STEP * np.arange(6)
NODES = ["a", "b", "c"]
Y = np.random.default_rng(0).normal(60, 5, (3, 6))
Y[0, 2] = Y[1, 4] = np.nan


def frame(**options):
    pd = pytest.importorskip("pandas")
    index = pd.DatetimeIndex(TIMES, name="t", **options)
    return pd.DataFrame(Y.T, index=index, columns=pd.Index(NODES, name="sensor"))


def array(dims=("road", "when")):
    xr = pytest.importorskip("xarray")
    found = xr.DataArray(Y, {"road": NODES, "when": TIMES}, dims=("road", "when"), name="mph")
    return found.transpose(*dims)


def long(order=None):
    order = np.arange(18) if order is None else order
    rows, columns = np.divmod(order, 6)
    return [NODES[k] for k in rows], TIMES[columns], Y[rows, columns]


def given(form):
    rng = np.random.default_rng(1)
    shuffled = rng.permutation(6)
    return {
        "arrays": lambda: as_panel(NODES, TIMES, Y),
        "unsorted": lambda: as_panel(NODES, TIMES[shuffled], Y[:, shuffled]),
        "masked": lambda: as_panel(NODES, TIMES, np.ma.masked_invalid(Y)),
        "objects": lambda: as_panel(NODES, TIMES, np.where(np.isnan(Y), None, Y)),
        "long": lambda: as_panel(*long()),
        "long shuffled": lambda: as_panel(*long(rng.permutation(18))),
        "pandas": lambda: as_panel(frame()),
        "xarray": lambda: as_panel(array()),
        "xarray turned": lambda: as_panel(array(("when", "road"))),
        "xarray parts": lambda: as_panel(array()["road"], array()["when"], array()),
        "dataset": lambda: as_panel(array().to_dataset()),
        "arrow": lambda: as_panel(pa.table({"t": TIMES.astype("M8[s]"), **dict(zip("abc", Y))})),  # noqa: B905
    }[form]()


FORMS = ("arrays", "unsorted", "masked", "objects", "long", "long shuffled", "pandas", "xarray",
         "xarray turned", "xarray parts", "dataset", "arrow")  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_panel(form):
    panel = given(form)
    assert panel.nodes == NODES
    np.testing.assert_array_equal(panel.values, Y)
    np.testing.assert_array_equal(panel.axis.labels(panel.axis.values), TIMES)


def test_results_of_arrays_are_arrays():
    panel = given("arrays")
    assert panel.restored(NODES, TIMES, mean=Y) is not None
    np.testing.assert_array_equal(panel.restored(NODES, panel.axis.values, mean=Y), Y)
    mean, std = panel.restored(["a"], TIMES[:2], mean=Y[:1, :2], std=Y[1:2, :2])
    np.testing.assert_array_equal(std, Y[1:2, :2])
    with pytest.raises(InvalidInputError, match=r"mean: expected the shape \(3, 2\)"):
        panel.restored(NODES, TIMES[:2], mean=Y)
    assert given("long").form == "long"
    assert mean.shape == (1, 2)


def test_results_of_wide_tables_are_wide_tables():
    pd = pytest.importorskip("pandas")
    panel = given("pandas")
    pd.testing.assert_frame_equal(panel.restored(NODES, panel.axis.values, mean=Y), frame(),
                                  check_freq=False)  # fmt: skip
    zoned = frame(tz="America/Los_Angeles")
    back = as_panel(zoned).restored(NODES, panel.axis.values, mean=Y)
    pd.testing.assert_frame_equal(back, zoned, check_freq=False)
    mean, _ = panel.restored(["b"], [1800.0], mean=[[1.0]], std=[[2.0]])
    assert mean.loc["2012-03-01 00:30", "b"] == 1.0
    numbered = pd.DataFrame(Y.T, columns=[3, 1, 2])
    panel = as_panel(numbered)
    pd.testing.assert_frame_equal(panel.restored(panel.nodes, panel.axis.values, m=Y), numbered,
                                  check_index_type=False)  # fmt: skip
    pairs = pd.MultiIndex.from_tuples([("x", 1), ("x", 2), ("y", 1)], names=["road", "lane"])
    panel = as_panel(pd.DataFrame(Y.T, index=TIMES, columns=pairs))
    assert panel.nodes == list(pairs)
    assert panel.restored(panel.nodes, panel.axis.values, m=Y).columns.equals(pairs)


def test_results_of_a_long_table_of_pandas_are_one():
    pd = pytest.importorskip("pandas")
    nodes, times, values = long()
    table = pd.DataFrame({"id": nodes, "at": times, "mph": values})
    panel = as_panel(table.id, table["at"], table.mph)
    assert (panel.name, panel.form) == ("mph", "long")
    back = panel.restored(NODES, panel.axis.values, mean=Y, std=Y + 1)
    assert list(back.columns) == ["id", "at", "mean", "std"]
    pd.testing.assert_series_equal(back["id"], table["id"])
    np.testing.assert_array_equal(back["at"], times)
    np.testing.assert_array_equal(back["mean"], values)
    samples = panel.restored(NODES, panel.axis.values, f=np.stack([Y, Y], axis=2))
    assert list(samples.columns) == ["id", "at", "f_0", "f_1"]


def test_results_of_xarray_are_xarray_in_its_order():
    xr = pytest.importorskip("xarray")
    for dims in (("road", "when"), ("when", "road")):
        panel = as_panel(array(dims))
        assert panel.name == "mph"
        xr.testing.assert_identical(panel.restored(NODES, TIMES, mean=Y), array(dims))
        found = panel.restored(NODES[:1], TIMES[:2], mean=Y[:1, :2], std=Y[:1, :2])
        assert set(found) == {"mean", "std"}
        assert found["std"].dims == dims
        drawn = panel.restored(NODES, TIMES, f=np.zeros((3, 6, 4)))
        assert drawn.dims == (*dims, "sample")


def described(dims=("road", "when")):
    """The values with what they say about themselves."""
    found = array(dims)
    found.attrs = {"units": "mph", "long_name": "speed", "standard_name": "speed_of_cars"}
    found["road"].attrs["about"] = "sensors"
    return found.assign_coords(
        km=("road", [0.5, 1.5, 2.5], {"units": "km"}), side=("road", ["N", "S", "N"]),
        lit=("when", TIMES[3] > TIMES), run=7,
    )  # fmt: skip


def test_results_of_xarray_keep_attributes_and_coordinates():
    xr = pytest.importorskip("xarray")
    for dims in (("road", "when"), ("when", "road")):
        data = described(dims)
        panel = as_panel(data)
        xr.testing.assert_identical(panel.restored(NODES, TIMES, mean=Y), data)
        part = panel.restored(NODES[1:], TIMES[:2], mean=Y[1:, :2], std=Y[1:, :2])
        assert part["mean"].attrs == data.attrs
        assert part["std"].attrs == {"units": "mph", "long_name": "std of speed"}
        xr.testing.assert_identical(part["std"]["km"], data["km"].sel(road=NODES[1:]))
        assert part["road"].attrs == {"about": "sensors"}
        assert part["lit"].values.tolist() == [True, True]
        assert part["run"] == 7


def test_coordinates_of_new_labels_are_missing_or_left_out():
    pytest.importorskip("xarray")
    panel = as_panel(described())
    later = panel.axis.values[-1] + np.arange(1, 3) * (panel.axis.values[1] - panel.axis.values[0])
    found = panel.restored([*NODES[:1], "other"], later, mean=np.zeros((2, 2)))
    np.testing.assert_array_equal(found["km"], [0.5, np.nan])
    assert found["km"].attrs == {"units": "km"}
    assert "side" not in found.coords
    assert "lit" not in found.coords
    assert found["run"] == 7


def test_a_dimension_of_numbers_is_found_by_its_name():
    xr = pytest.importorskip("xarray")
    panel = as_panel(xr.DataArray(Y, dims=("node", "time"), attrs={"units": "mph"}))
    assert (panel.nodes, panel.name) == ([0, 1, 2], "mph")
    assert panel.axis.origin is None
    for bad in (xr.DataArray(Y, dims=("x", "y")), xr.DataArray(np.zeros((2, 2, 2)))):
        with pytest.raises(InvalidInputError, match="data: expected"):
            as_panel(bad)
    with pytest.raises(InvalidInputError, match=r"got a Dataset of .*a model to each"):
        as_panel(xr.Dataset({"a": ("t", [1.0]), "b": ("t", [1.0])}))


def test_steps_without_any_time_are_gaps():
    kept = [0, 1, 4, 5]
    panel = as_panel(NODES, TIMES[kept], Y[:, kept])
    assert panel.axis.n_times == 6
    np.testing.assert_array_equal(panel.values[:, kept], Y[:, kept])
    assert np.isnan(panel.values[:, [2, 3]]).all()


def test_sensors_without_a_value_are_left_out_by_name():
    values = Y.copy()
    values[1] = np.nan
    with pytest.warns(UserWarning, match="nodes: 1 without any value are left out: 'b'"):
        panel = as_panel(NODES, TIMES, values)
    assert panel.nodes == ["a", "c"]
    with pytest.raises(InvalidInputError, match="a number somewhere, got none"):
        as_panel(NODES, TIMES, np.full((3, 6), np.nan))


def test_two_values_at_one_time_are_refused_or_averaged():
    nodes, times, values = long()
    nodes, times, values = [*nodes, "c"], [*times, TIMES[1]], [*values, 50.0]
    with pytest.raises(InvalidInputError, match=r"and 50 of 'c' at 2012-03-01T00:05:00 \(1 such"):
        as_panel(nodes, times, values)
    panel = as_panel(nodes, times, values, resolution="5min")
    assert panel.values[2, 1] == pytest.approx((Y[2, 1] + 50) / 2)
    with pytest.raises(InvalidInputError, match="of 'a' at 2012-03-01T00:00:00"):
        as_panel(NODES, TIMES[[0, 0, 1, 2, 3, 4]], Y)
    coarse = as_panel(NODES, TIMES, Y, resolution="10min")
    assert coarse.axis.step == 600
    assert coarse.values[2, 1] == pytest.approx(Y[2, 1:3].mean())
    assert coarse.values[0, 1] == Y[0, 1]  # that at 10 minutes is missing


def test_a_repeated_hour_is_hinted_at_and_none_with_a_zone():
    pd = pytest.importorskip("pandas")
    zoned = pd.date_range("2012-11-04 00:00", periods=6, freq="30min", tz="America/Los_Angeles")
    zoned = zoned + pd.Timedelta("30min")
    assert len(set(zoned.tz_localize(None))) < 6
    values = np.arange(6.0)
    panel = as_panel(["a"] * 6, zoned, values)
    np.testing.assert_array_equal(panel.values, [values])
    with pytest.raises(InvalidInputError, match="daylight saving repeats needs zone="):
        as_panel(["a"] * 6, zoned.tz_localize(None), values)


def test_rows_of_one_time_that_agree_or_complete_each_other_are_one():
    nodes, times, values = long()
    panel = as_panel([*nodes, "c", "a"], [*times, TIMES[1], TIMES[2]], [*values, Y[2, 1], np.nan])
    np.testing.assert_array_equal(panel.values, Y)
    first, second = Y.copy(), Y.copy()
    first[0], second[1, :5] = np.nan, np.nan
    panel = as_panel(NODES, np.tile(TIMES, 2), np.hstack([first, second]))
    np.testing.assert_array_equal(panel.values, Y)


def speeds(seed=0, n=600):
    """Speeds (3, n) near 60 that fall to 3 in jams."""
    rng = np.random.default_rng(seed)
    found = 60 + 3 * rng.normal(size=(3, n))
    found[:, 100:130] = rng.uniform(3, 50, (3, 30))
    return found


STAMPS = START + STEP * np.arange(600)


@pytest.mark.parametrize("code", [0.0, -1.0, -9999.0, 999.0])
def test_codes_of_missing_values_are_named_and_taken_out(code):
    values = speeds()
    holes = np.random.default_rng(1).random(values.shape) < 0.02
    values[holes] = code
    count = int(holes.sum())
    with pytest.warns(UserWarning, match=f"values: {count} of 1800 are {code:g}, .*missing_values"):
        as_panel(NODES, STAMPS, values)
    for given in (as_panel(NODES, STAMPS, values, missing_values=code),
                  as_panel(as_panel(NODES, STAMPS, speeds()).with_values(values),
                           missing_values=[code, 7777.0])):  # fmt: skip
        np.testing.assert_array_equal(np.isnan(given.values), holes)
    with pytest.raises(InvalidInputError, match="missing_values: expected a number"):
        as_panel(NODES, STAMPS, values, missing_values="none")


HONEST = {
    "rain": lambda rng: np.where(rng.random((3, 600)) < 0.8, 0, rng.gamma(0.7, 2, (3, 600))),
    "rounded rain": lambda rng: np.round(HONEST["rain"](rng), 1),
    "much rain": lambda rng: np.where(rng.random((3, 600)) < 0.4, 0, rng.gamma(4, 2, (3, 600))),
    "few counts": lambda rng: rng.poisson(0.4, (3, 600)).astype(float),
    "counts": lambda rng: rng.poisson(3, (3, 600)).astype(float),
    "counts of days": lambda rng: rng.poisson(
        200 * np.maximum(np.sin(np.arange(600) / 46), 0), (3, 600)
    ).astype(float),
    "speeds that reach zero": lambda rng: np.maximum(
        np.where(rng.random((3, 600)) < 0.1, rng.uniform(-10, 60, (3, 600)), 60), 0
    ) + rng.random((3, 600)) * 0.0,
    "degrees": lambda rng: np.round(5 + 5 * rng.normal(size=(3, 600))),
}  # fmt: skip


@pytest.mark.parametrize("kind", HONEST)
def test_honest_zeros_and_extremes_are_not_accused(kind):
    for seed in range(20):
        assert as_panel(NODES, np.arange(600.0), HONEST[kind](np.random.default_rng(seed)))


def test_a_sensor_that_stands_still_for_a_day_is_named():
    values = speeds()
    values[1, 200:500] = 61.5
    with pytest.warns(UserWarning, match="'b' stands still at 61.5 from 2012-03-01T16:40:00"):
        as_panel(NODES, STAMPS, values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NODES,), "data: expected a DataArray"),
        ((NODES, TIMES), "values: expected"),
        ((NODES, None, Y), "times: expected"),
        ((NODES, TIMES, Y[:2]), r"values: expected the shape \(3, 6\)"),
        ((NODES, TIMES[:4], Y), r"values: expected the shape \(3, 4\)"),
        ((NODES, TIMES[:3], [1.0, 2.0]), "of one length, got lengths"),
        ((["a", "b", "a"], TIMES, Y), "nodes: expected each node once, got 'a'"),
        ((["a", None, "c"], TIMES, Y), "nodes: expected a node at place 1, got None"),
        ((["a", [1], "c"], TIMES, Y), r"nodes: expected a node at place 1, got \[1\]"),
        ((NODES, TIMES, Y + 1j), "expected real numbers"),
        ((NODES, TIMES, Y.astype(str)), "values: expected numbers"),
        ((NODES, TIMES, np.full((3, 6), TIMES[0])), "values: expected numbers"),
        ((NODES, TIMES, [["x"] * 6] * 3), "values: expected numbers"),
        ((NODES, TIMES, Y[None]), "values of shape"),
        ((NODES, TIMES, np.where(np.isnan(Y), np.inf, Y)), "got inf of 'a' at 2012-03-01T00:10"),
        ((NODES, TIMES[:3], [1.0, -np.inf, 0.0]), "got -inf of 'b' at 2012-03-01T00:05"),
        ((NODES, TIMES, 1e80 * Y), "values: expected magnitudes"),
        ((Y, TIMES, Y), "data: expected .* got a ndarray beside times"),
    ],
)
def test_bad_data_is_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        as_panel(*arguments)


def test_bad_wide_tables_are_refused_with_advice():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match="column 't'; set_index"):
        as_panel(frame().reset_index())
    with pytest.raises(InvalidInputError, match=r"transposed \(\.T\)"):
        as_panel(frame().T)
    with pytest.raises(InvalidInputError, match="data: expected numbers"):
        as_panel(frame().assign(d="x"))
    with pytest.raises(InvalidInputError, match="columns of different names"):
        as_panel(pd.concat([frame(), frame()], axis=1))
    with pytest.raises(InvalidInputError, match="one column of times"):
        as_panel(pa.table({"a": [1.0]}))


def test_a_panel_beyond_memory_is_refused_before_it_is_made():
    with pytest.raises(MemoryLimitError, match="100000 nodes at 100000 times"):
        as_panel(range(10**5), np.arange(10.0**5), np.ones(10**5))


def test_arrays_need_neither_pandas_nor_xarray(monkeypatch):
    pa.array(["x"])  # looks for pandas itself, once
    for name in ("pandas", "xarray"):
        monkeypatch.setitem(sys.modules, name, None)
    panel = as_panel([1, 2], ["2012-03-01T00:00Z", "2012-03-01T00:05Z"], np.eye(2))
    later = panel.restored([1], ["2012-03-01T00:10Z"], mean=[[1.0]])
    np.testing.assert_array_equal(later, [[1.0]])
    assert panel.axis.labels([0.0])[0].isoformat() == "2012-03-01T00:00:00+00:00"
