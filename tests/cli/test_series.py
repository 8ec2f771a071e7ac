"""`coupledgp interpolate --time-column`: files in every form, laws over time, a live feed."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import coupledgp as cgp
from coupledgp.cli import run
from coupledgp.cli.commands import series_run, series_tasks
from coupledgp.diagnostics import space_time_report
from tests.cli.series_cases import (
    N_NODES,
    N_SENSORS,
    N_TIMES,
    NAMES,
    SENSORS,
    SPEEDS,
    STEP,
    TIMES,
    csv_text,
    long_columns,
    quicken,
    wide_text,
    write_files,
)

pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
pytest.importorskip("zarr")
pytestmark = pytest.mark.filterwarnings("ignore:round . of the search")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    quicken(monkeypatch)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def model():
    """The model that commands fit, by hand."""
    ends = np.arange(N_NODES)
    graph = cgp.Graph.from_edges(
        [NAMES[k] for k in ends], [NAMES[(k + 1) % N_NODES] for k in ends], labels=NAMES,
        lengths=100.0 + ends,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as monkeypatch:
        quicken(monkeypatch)
        return cgp.GraphTimeGPRegressor(graph).fit(SENSORS, TIMES, SPEEDS)


@pytest.fixture
def interpolated(files, tmp_path, capsys):
    """Run the command, which must succeed; return the table that it writes."""

    def interpolated(values="long.csv", *more, output="law.parquet", column="t"):
        path = tmp_path / output
        words = ["interpolate", files / "roads.csv", "--values", files / values]
        words += ["--time-column", column, "-o", path, *more]
        assert run([str(word) for word in words]) == 0, capsys.readouterr().err
        return pa.parquet.read_table(path) if path.suffix == ".parquet" else path

    return interpolated


def grid(table, name="mean"):
    """A column of a law as (nodes, times)."""
    nodes = table["node"].to_pylist()
    n_nodes = len(dict.fromkeys(nodes))
    return np.array(table[name].to_pylist()).reshape(-1, n_nodes).T


def test_the_law_is_that_of_the_estimator(interpolated, model):
    table = interpolated("long.csv", "--ahead", "15min")
    assert table.column_names == ["node", "time", "mean", "std", "lower", "upper", "kind"]
    times = np.append(TIMES, TIMES[-1] + STEP * np.arange(1, 4))
    mean, std = model.predict(NAMES, times, return_std=True)
    np.testing.assert_allclose(grid(table), mean, rtol=1e-9)
    np.testing.assert_allclose(grid(table, "std"), std, rtol=1e-9)
    np.testing.assert_allclose(grid(table, "upper"), mean + 1.959964 * std, rtol=1e-6)
    np.testing.assert_array_equal(table["time"].to_numpy()[::N_NODES], times)
    kinds = grid(table, "kind")
    assert set(kinds[:, N_TIMES:].ravel()) == {"forecast"}
    assert set(kinds[N_SENSORS:, :N_TIMES].ravel()) == {"hidden"}
    expected = np.where(np.isnan(SPEEDS), "gap", "observed")
    np.testing.assert_array_equal(kinds[:N_SENSORS, :N_TIMES], expected)


@pytest.mark.parametrize(
    "values", ["wide.csv", "long.parquet", "wide.parquet", "speeds.nc", "speeds.zarr"]
)
def test_every_form_of_file_gives_the_same_law(values, interpolated):
    expected = interpolated("long.csv")
    found = interpolated(values, output="other.parquet")
    assert found.schema == expected.schema
    np.testing.assert_allclose(grid(found), grid(expected), rtol=1e-12)
    assert found["kind"].equals(expected["kind"])


def test_json_is_the_same_table(interpolated):
    expected = interpolated()
    found = json.loads(interpolated(output="law.json").read_text())
    assert list(found[0]) == expected.column_names
    for name in ("node", "mean", "upper", "kind"):
        assert [row[name] for row in found] == expected[name].to_pylist()
    assert found[0]["time"].startswith(str(expected["time"][0].as_py().date()))


@pytest.mark.parametrize("output", ["law.nc", "law.zarr"])
def test_grids_are_written_by_the_conventions(output, interpolated, monkeypatch):
    xr = pytest.importorskip("xarray")
    table = interpolated()
    monkeypatch.setattr(series_tasks, "BLOCK_CELLS", 5 * N_NODES)
    for _ in range(2):  # the second replaces the first
        path = interpolated(output=output)
    opened = xr.open_zarr(path) if output.endswith("zarr") else xr.open_dataset(path)
    with opened as data:
        assert data["node"].values.tolist() == NAMES
        np.testing.assert_array_equal(data["time"].values, TIMES)
        for name in ("mean", "std", "lower", "upper"):
            np.testing.assert_allclose(data[name].transpose("node", "time"), grid(table, name))
        flags = data["kind"].attrs["flag_meanings"].split()
        kinds = np.array(flags)[data["kind"].transpose("node", "time").values]
        np.testing.assert_array_equal(kinds, grid(table, "kind"))
    assert not list(path.parent.glob(".coupledgp-*"))


def test_blocks_of_times_change_nothing(interpolated, monkeypatch):
    whole = interpolated()
    text = interpolated(output="whole.csv").read_text()
    monkeypatch.setattr(series_tasks, "LAW_CELLS", 9 * N_NODES)
    monkeypatch.setattr(series_tasks, "BLOCK_CELLS", 5 * N_NODES)
    parts = interpolated(output="parts.parquet")
    np.testing.assert_allclose(grid(parts), grid(whole), rtol=1e-9)
    assert parts["kind"].equals(whole["kind"])
    lines = interpolated(output="parts.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines] == [r.split(",")[:2] for r in text.splitlines()]
    assert lines[0] == "node,time,mean,std,lower,upper,kind"
    assert lines[1].startswith("r0,2012-03-01T06:00:00,")
    assert lines[1].endswith(",observed")


def test_times_and_nodes_that_are_asked_for(interpolated, model):
    first, last = "2012-03-01T06:20:00", "2012-03-01T06:30:00"
    table = interpolated("long.csv", "--times", f"{first}:{last}:5min", "--nodes", "r7,r1")
    assert table["node"].to_pylist() == ["r7", "r1"] * 3
    times = np.datetime64(first) + STEP * np.arange(3)
    expected = model.predict(["r7", "r1"], times)
    np.testing.assert_allclose(grid(table), expected, rtol=1e-9)
    assert table["kind"].to_pylist() == ["hidden", "gap"] * 3
    off = ["--times", "2012-03-01T06:02:30:2012-03-01T06:12:30:5min"]
    with pytest.raises(AssertionError, match="times: expected times of the grid"):
        interpolated("long.csv", *off)
    assert set(interpolated("long.csv", "--nodes", "sensors")["node"].to_pylist()) == set(SENSORS)


def test_nodes_of_a_table(interpolated, tmp_path):
    (tmp_path / "some.csv").write_text("node\nr6\nr2\n")
    table = interpolated("long.csv", "--nodes", tmp_path / "some.csv")
    assert table["node"].to_pylist()[:2] == ["r6", "r2"]


def test_several_values_have_a_law_each(files, tmp_path, interpolated):
    (files / "two.csv").write_text(csv_text(long_columns(kph=lambda mph: mph * 1.609344)))
    words = ("--target", "mph", "--target", "kph", "--left-out")
    table = interpolated("two.csv", *words, tmp_path / "loso.csv")
    assert table.column_names[2:] == [
        f"{name}_{quantity}" for name in ("mph", "kph")
        for quantity in ("mean", "std", "lower", "upper", "kind")
    ]  # fmt: skip
    np.testing.assert_allclose(grid(table, "mph_mean"), grid(interpolated()), rtol=1e-9)
    assert grid(table, "kph_mean").mean() > 1.5 * grid(table, "mph_mean").mean()
    lines = (tmp_path / "loso.csv").read_text().splitlines()
    assert lines[0].startswith("value,node,n,rmse,")
    assert len(lines) == 1 + 2 * N_SENSORS


def test_sensors_left_out_and_json(interpolated, model, tmp_path, capsys):
    interpolated("long.csv", "--left-out", tmp_path / "loso.csv", "--json")
    result = json.loads(capsys.readouterr().out)
    (found,) = result["values"].values()
    assert (found["n_sensors"], found["n_times"], found["step"]) == (N_SENSORS, N_TIMES, 300.0)
    assert found["first"] == "2012-03-01T06:00:00"
    assert found["gaps"] == {
        "share": pytest.approx(5 / 120), "longest_run": 4, "n_dark": 0,
    }  # fmt: skip
    assert result["output"]["n_rows"] == N_NODES * N_TIMES
    table = model.leave_one_sensor_out()
    rows = [line.split(",") for line in (tmp_path / "loso.csv").read_text().splitlines()]
    assert rows[0][:3] == ["node", "n", "rmse"]
    assert [row[0] for row in rows[1:]] == table.node
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], table.rmse, rtol=1e-9)
    assert found["leave_one_sensor_out"]["worst"][0]["node"] == table.node[0]


def test_a_page_is_written(interpolated, tmp_path, monkeypatch):
    asked = {}

    def page(model, **named):
        asked.update(named)
        return space_time_report(model, **named | {"splits": 0})

    monkeypatch.setattr(series_run, "space_time_report", page)
    rows = [f"{name},{-118 + k / 100},34" for k, name in enumerate(NAMES)]
    (tmp_path / "places.csv").write_text("\n".join(["node,longitude,latitude", *rows]))
    words = ("--report", tmp_path / "page.html", "--positions", tmp_path / "places.csv")
    interpolated("long.csv", *words, "--target", "mph")
    assert (asked["splits"], asked["unit"], asked["crs"]) == (1, "mph", "EPSG:4326")
    text = (tmp_path / "page.html").read_text()
    assert "mph over time on roads.csv" in text


def test_figures_are_printed(interpolated, tmp_path, capsys):
    interpolated("long.csv", "--left-out", tmp_path / "loso.parquet")
    out = capsys.readouterr().out
    for words in ("5 sensors, 24 times", "4.2% gaps, the longest of 4 steps", "one lag",
                  "Each sensor as the others predict it", "law.parquet (192 rows)"):  # fmt: skip
        assert words in out


def test_clocks_of_a_zone(interpolated):
    table = interpolated("long.csv", "--zone", "America/Los_Angeles")
    assert str(table.schema.field("time").type) == "timestamp[us, tz=America/Los_Angeles]"
    # Eight hours behind UTC in winter.
    assert table["time"][0].as_py().isoformat() == "2012-03-01T06:00:00-08:00"
    path = interpolated("long.csv", "--zone", "America/Los_Angeles", output="law.csv")
    assert path.read_text().splitlines()[1].startswith("r0,2012-03-01T06:00:00-08:00,")


def test_numbers_as_times(files, interpolated):
    numbers = long_columns() | {"t": ((long_columns()["t"] - TIMES[0]) / STEP).astype(int)}
    (files / "numbers.csv").write_text(csv_text(numbers))
    table = interpolated("numbers.csv", "--ahead", "2")
    assert table["time"].to_pylist()[::N_NODES] == list(range(N_TIMES + 2))
    assert table["kind"].to_pylist()[-1] == "forecast"


def test_a_live_feed_goes_on_with_a_saved_model(files, interpolated, tmp_path, model):
    """Rows of a growing file are added where they are later than those of the model."""
    lines = wide_text().splitlines()
    feed = files / "feed.csv"
    state = tmp_path / "state.model"
    feed.write_text("\n".join(lines[:19]) + "\n")
    first = interpolated("feed.csv", "--save-model", state)
    assert len(first) == 18 * N_NODES
    fitted = cgp.load_model(state)
    for end in (22, len(lines)):
        feed.write_text("\n".join(lines[:end]) + "\n")
        table = interpolated("feed.csv", "--update", state, "--save-model", state)
        assert len(table) == (end - 1) * N_NODES
    by_hand = fitted.partial_fit(SENSORS, TIMES[18:], SPEEDS[:, 18:])
    np.testing.assert_allclose(grid(table), by_hand.predict(NAMES, TIMES), rtol=1e-6)
    feed.write_text("\n".join([*lines, f"2012-03-01T08:10,{'60,' * N_SENSORS}"[:-1]]) + "\n")
    gone_on = interpolated("feed.csv", "--update", state)  # two steps are missing
    assert len(gone_on) == (N_TIMES + 3) * N_NODES
    assert gone_on["kind"].to_pylist()[-2 * N_NODES] == "gap"
    feed.write_text("\n".join(lines) + "\n")
    again = interpolated("feed.csv", "--update", state)  # nothing new
    np.testing.assert_allclose(grid(again), grid(table), rtol=1e-9)


def test_a_model_goes_on_with_its_own_graph_alone(files, interpolated, tmp_path):
    state, path = tmp_path / "state.model", files / "roads.csv"
    interpolated("long.csv", "--save-model", state)
    roads = path.read_text().splitlines()
    try:
        path.write_text("\n".join([roads[0], *roads[:0:-1]]) + "\n")
        interpolated("long.csv", "--update", state)  # in another order
        path.write_text("\n".join(roads[:-1]) + "\n")
        with pytest.raises(AssertionError, match=r"--update: .*expected the graph that the model"):
            interpolated("long.csv", "--update", state)
    finally:
        path.write_text("\n".join(roads) + "\n")


def test_options_are_refused_before_the_fit(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cgp.GraphTimeGPRegressor, "fit", None)
    words = ["interpolate", files / "roads.csv", "--values", files / "long.csv", "-o"]
    words += [tmp_path / "law.csv"]
    for more, message in (
        (["--ahead", "1h"], "--ahead: expected --time-column beside it"),
        (["--time-column", "t", "--ahead", "6"], "--ahead: expected a step of the data, 300 sec"),
        (["--time-column", "t", "--holdout", "0.1"], "--holdout: expected no --time-column"),
        (["--time-column", "t", "--n-walks", "4"], "--set n_walks: expected no --time-column"),
        (["--target", "a", "--target", "b"], "--target: expected one, got 2"),
        (["--time-column", "t", "--update", "m", "--kernel", "heat"], "--kernel: expected no --up"),
        (["--time-column", "t", "--target", "a", "--target", "b", "--save-model", "m"],
         "--save-model: expected one --target"),
    ):  # fmt: skip
        assert run([str(word) for word in [*words, *more]]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "law.csv").exists()


def test_the_law_of_roads_with_lengths_is_a_field(files, interpolated, capsys):
    table = interpolated("long.csv", "--model", "field", "--json")
    assert len(table) == N_NODES * N_TIMES
    assert np.isfinite(grid(table)).all()
    (found,) = json.loads(capsys.readouterr().out)["values"].values()
    assert "Matern" in found["fitted"]["kernel"]


def test_a_law_that_is_too_long_is_refused(files, tmp_path, monkeypatch, capsys):
    from coupledgp.cli.readers import times

    monkeypatch.setattr(times, "MOST_ROWS", 100)
    words = ["interpolate", files / "roads.csv", "--values", files / "long.csv", "--time-column"]
    words += ["t", "-o", tmp_path / "law.csv"]
    assert run([str(word) for word in words]) == 2
    err = capsys.readouterr().err
    assert "8 nodes at 24 times, 192 rows; --times FIRST:LAST:STEP and --nodes" in err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_store_is_not_replaced(files, tmp_path, capsys):
    (tmp_path / "law.zarr").mkdir()
    (tmp_path / "law.zarr" / "mine.txt").write_text("kept")
    words = ["interpolate", files / "roads.csv", "--values", files / "long.csv", "--time-column"]
    words += ["t", "-o", tmp_path / "law.zarr"]
    assert run([str(word) for word in words]) == 2
    assert "a Zarr store to replace" in capsys.readouterr().err
    assert (tmp_path / "law.zarr" / "mine.txt").read_text() == "kept"


def test_an_error_keeps_the_old_store(files, tmp_path, interpolated, monkeypatch, capsys):
    path = interpolated(output="law.zarr")
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(series_tasks, "kinds_of", broken)
    words = ["interpolate", files / "roads.csv", "--values", files / "wide.csv", "--time-column"]
    words += ["t", "-o", path]
    assert run([str(word) for word in words]) == 2
    assert "No space left" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
    assert list(tmp_path.iterdir()) == [path]
