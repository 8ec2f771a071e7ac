"""`coupledgp krige` writes maps, and names options that are wrong."""

from __future__ import annotations

import json
import re

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import coupledgp as cgp
from coupledgp.cli.app import run


@pytest.fixture
def wells(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"east": rng.uniform(0, 9, 300), "north": rng.uniform(0, 6, 300)})
    table["depth"] = np.sin(table.east) + np.cos(table.north) + 0.1 * rng.normal(size=300)
    table.to_csv(tmp_path / "wells.csv", index=False)
    return tmp_path / "wells.csv"


def test_maps_are_those_of_the_model(wells, tmp_path, capsys):
    out, model = tmp_path / "map.nc", tmp_path / "wells.model"
    options = ["-t", "depth", "--places", "east,north", "--kernel", "gaussian"]
    given = [*options, "--grid", "7x5", "-o", str(out), "--save-model", str(model), "--json"]
    assert run(["krige", str(wells), *given]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["kernel"] == "gaussian"
    assert result["rows"] == 300
    loaded = cgp.load_model(model)
    with xr.open_dataset(out, engine="scipy") as found:
        assert found["mean"].dims == ("east", "north")
        places = pd.DataFrame({"east": [float(found.east[3])], "north": [float(found.north[2])]})
        mean, std = loaded.predict(places, return_std=True, latent=True)
        assert float(found["mean"][3, 2]) == pytest.approx(mean[0])
        assert float(found["std"][3, 2]) == pytest.approx(std[0])
    for name, file, told in (("predict", "p.csv", "depth"), ("report", "r.html", "units of depth")):
        assert run([name, str(model), str(wells), "-o", str(tmp_path / file)]) == 0
        assert told in (tmp_path / file).read_text()
    capsys.readouterr()
    table = tmp_path / "map.csv"
    assert run(["krige", str(wells), *options, "--grid", "7x5", "-o", str(table)]) == 0
    told = capsys.readouterr().out
    assert "gaussian kernel" in told
    assert "Mean and std of the function, noise left out, are in" in told
    assert (
        run(["krige", str(wells), *options, "--grid", "7x5", "-o", str(table), "--no-latent"]) == 0
    )
    assert "Mean and std of observations, noise included, are in" in capsys.readouterr().out
    assert list(pd.read_csv(table).columns) == ["east", "north", "mean", "std"]
    assert len(pd.read_csv(table)) == 35


def test_maps_of_degrees_have_names_and_units_of_cf(wells, tmp_path):
    table = pd.read_csv(wells).rename(columns={"east": "lon", "north": "lat"})
    table.to_parquet(tmp_path / "degrees.parquet")
    out = tmp_path / "map.nc"
    options = ["-t", "depth", "--places", "lon,lat", "--kernel", "gaussian", "--grid", "4x3"]
    assert run(["krige", str(tmp_path / "degrees.parquet"), *options, "-o", str(out)]) == 0
    with xr.open_dataset(out, engine="scipy") as found:
        assert found.attrs["Conventions"] == "CF-1.8"
        assert found.lon.attrs == {"standard_name": "longitude", "units": "degrees_east"}
        assert found.lat.attrs == {"standard_name": "latitude", "units": "degrees_north"}
        assert found["std"].attrs["long_name"] == "posterior standard deviation"
        np.testing.assert_allclose(found.lon[[0, -1]], [table.lon.min(), table.lon.max()])
        assert float(found["std"].min()) > 0


def test_maps_across_the_180th_meridian_are_of_its_sides(wells, tmp_path):
    table = pd.read_csv(wells)
    lon = 175.0 + table.east
    table = table.assign(lon=lon.where(lon <= 180, lon - 360), lat=table.north - 20)
    table.to_csv(tmp_path / "fiji.csv", index=False)
    out = tmp_path / "fiji.nc"
    options = ["-t", "depth", "--places", "lon,lat", "--grid", "6x4", "-o", str(out)]
    assert run(["krige", str(tmp_path / "fiji.csv"), *options, "--kernel", "gaussian"]) == 0
    with xr.open_dataset(out, engine="scipy") as grid:
        assert float(grid.lon.min()) == pytest.approx(lon.min())
        assert float(grid.lon.max()) == pytest.approx(lon.max())


def test_degrees_are_kilometres_unless_they_are_numbers(wells, tmp_path, capsys):
    table = pd.read_csv(wells).rename(columns={"east": "lon", "north": "y"})
    table.to_csv(tmp_path / "degrees.csv", index=False)
    options = ["-t", "depth", "--places", "lon,y", "--kernel", "gaussian", "--isotropic", "--json"]
    options += ["--grid", "3x3", "-o", str(tmp_path / "map.csv")]
    found = {}
    for asked in ("y,lon", "none"):
        command = ["krige", str(tmp_path / "degrees.csv"), *options, "--geographic", asked]
        assert run(command) == 0
        found[asked] = json.loads(capsys.readouterr().out)
    assert found["y,lon"]["lengthscale_of"] == ["lon (km east)", "y (km north)"]
    kilometres = found["y,lon"]["lengthscale"][0] / found["none"]["lengthscale"][0]
    assert kilometres == pytest.approx(111.2, rel=0.02)
    assert run([*command[:-1], "lon"]) == 2
    assert "geographic: expected two columns" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "message"), [
    (["--grid", "7"], "--grid: expected 2 numbers above zero joined by x"),
    (["--grid", "70000x70000"], "--grid: expected at most"),
    (["--places", "east,south"], "south"),
    (["--trend", "cubic"], "trend: expected"),
    (["-o", "map.png"], "--output: expected a path ending in .nc, .nc4, .csv"),
])  # fmt: skip
def test_wrong_options_are_named(wells, tmp_path, capsys, options, message):
    given = {"-t": "depth", "--places": "east,north", "-o": str(tmp_path / "map.csv")}
    given |= dict(zip(options[::2], options[1::2], strict=True))
    assert run(["krige", str(wells), *(part for pair in given.items() for part in pair)]) == 2
    assert message in capsys.readouterr().err


def test_files_of_points_are_maps_too(wells, tmp_path, capsys):
    table = pd.read_csv(wells)
    points = gpd.points_from_xy(table.east, table.north)
    gpd.GeoDataFrame(table[["depth"]], geometry=points, crs=3035).to_file(tmp_path / "points.gpkg")
    given = ["-t", "depth", "--kernel", "gaussian", "--grid", "4x3", "-o"]
    named = ["--places", "east,north"]
    assert run(["krige", str(wells), *given, str(tmp_path / "a.csv"), *named]) == 0
    assert run(["krige", str(tmp_path / "points.gpkg"), *given, str(tmp_path / "b.csv")]) == 0
    found = pd.read_csv(tmp_path / "b.csv")
    assert list(found.columns) == ["x", "y", "mean", "std"]
    np.testing.assert_allclose(found, pd.read_csv(tmp_path / "a.csv"), rtol=1e-9)
    gpd.GeoDataFrame(geometry=points.buffer(1), crs=3035).to_file(tmp_path / "areas.gpkg")
    capsys.readouterr()
    assert run(["krige", str(tmp_path / "areas.gpkg"), *given, str(tmp_path / "c.csv")]) == 2
    assert "areas.gpkg: expected a layer of points, got 'areas' of Polygon" in (
        capsys.readouterr().err
    )


def test_a_table_without_rows_or_columns_is_refused_by_name(wells, tmp_path, capsys):
    (tmp_path / "none.csv").write_text("x,y,value\n")
    for path, words, message in (
        (tmp_path / "none.csv", [], "none.csv: expected rows below the header, got none"),
        (wells, ["-t", "dept", "--places", "east,north"], "--target: .*did you mean 'depth'"),
        (wells, ["-t", "depth", "--places", "east,nort"], "--places: .*did you mean 'north'"),
    ):
        assert run(["krige", str(path), *words, "-o", str(tmp_path / "o.csv")]) == 2
        assert re.search(message, capsys.readouterr().err)
