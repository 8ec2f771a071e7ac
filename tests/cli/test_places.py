"""Fields on meshes, values on roads and graphs, and values over time."""

import json
from itertools import pairwise

import meshio
import networkx as nx
import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.cli.forecast import law_frame

MATERN = ("--kernel", "matern")
FIXED = ("--set", "usual_day=no")


def test_a_file_shows_the_field_between_the_vertices_of_the_mesh(shell, part):
    out, err = shell("field", "part.stl", "--values", "sensors.csv", *MATERN, "-o", "law.vtu",
                     "--next", "2", "--json")  # fmt: skip
    assert err == ""
    found = json.loads(out)
    assert found["output"]["at"] == "refined"
    law = meshio.read("law.vtu")
    assert len(law.points) > 100  # the box has eight vertices
    error = law.point_data["mean"] - (50 + 0.2 * law.points[:, 0])
    assert np.sqrt(np.mean(error**2)) < 1.5
    std = found["next"]["std"]
    assert len(found["next"]["places"]) == 2
    assert std[0] > std[1] > std[2] > 0


def test_the_field_is_that_of_python_at_the_places_of_a_query(shell, part):
    part[["x", "y", "z"]].to_csv("query.csv", index=False)
    out, _ = shell("field", "part.stl", "--values", "sensors.csv", *MATERN, "--query", "query.csv",
                   "-o", "law.csv", "--level", "0.9", "--left-out", "loo.csv", "--save-model",
                   "f.model")  # fmt: skip
    assert "Are its intervals right?" in out
    model = cgp.load_model("f.model")
    law = model.predict_frame(part[["x", "y", "z"]], 0.9)
    found = pd.read_csv("law.csv")
    for name in law:
        np.testing.assert_allclose(found[name], law[name], rtol=1e-7)
    left_out = pd.read_csv("loo.csv")
    np.testing.assert_allclose(left_out["mean"], model.leave_one_out().mean, rtol=1e-7)
    np.testing.assert_allclose(left_out["x"], part["x"])
    shell("predict", "f.model", "query.csv", "-o", "again.csv")
    np.testing.assert_allclose(pd.read_csv("again.csv")["mean"], law["mean"], rtol=1e-7)


def test_sensors_in_another_unit_are_refused(fails, part):
    metres = part.assign(x=part["x"] / 1000, y=part["y"] / 1000, z=part["z"] / 1000)
    metres.to_csv("metres.csv", index=False)
    line = fails("field", "part.stl", "--values", "metres.csv", "-o", "law.vtu")
    assert "metres.csv: expected positions all over a mesh" in line
    corner = metres.assign(x=metres["x"] - 50, y=metres["y"] - 30, z=metres["z"] - 10)
    corner.to_csv("metres.csv", index=False)  # all beside one corner of the mesh
    line = fails("field", "part.stl", "--values", "metres.csv", "-o", "law.vtu")
    assert "check their unit" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--values", "sensors.csv", "-o", "law.gpkg"), "--output: a .gpkg needs roads"),
        (("--values", "sensors.csv", "-o", "law.xyz"), "--output: expected a path ending in"),
        (
            ("--values", "sensors.csv", "-o", "law.csv", "--at", "edges"),
            "--at: expected vertices or",
        ),
        (("--values", "sensors.csv", "--max-edge", "x"), "--max-edge: expected auto, none or"),
        (("--values", "sensors.csv", "--kernel", "heat"), "--kernel: "),
        (("--values", "numbers.csv"), "data row 1: expected one of the vertices 0 to 7, got 99"),
        (("--values", "node.csv"), "--nodes: node.csv: expected vertices or faces"),
        (("--values", "sensors.csv", "-t", "kelvin"), "--target: sensors.csv: expected column"),
    ],
)
def test_errors_of_fields(arguments, message, fails, part):
    pd.DataFrame({"vertex": [99, 1], "value": [1.0, 2.0]}).to_csv("numbers.csv", index=False)
    pd.DataFrame({"node": [0, 1], "value": [1.0, 2.0]}).to_csv("node.csv", index=False)
    assert message in fails("field", "part.stl", *arguments)


def test_values_along_roads(shell, roads):
    out, err = shell("graph", "roads.csv", "--values", "speeds.csv", *MATERN, "-o", "law.csv",
                     "--next", "1")  # fmt: skip
    assert err == ""
    assert "Measure next at n" in out
    found = pd.read_csv("law.csv")
    assert found["node"].tolist() == [f"n{k}" for k in range(9)]
    np.testing.assert_allclose(found["mean"], 30 + np.arange(9.0), atol=0.6)
    assert (found["std"][[1, 3]] > found["std"][[0, 2]].max()).all()


def test_long_roads_couple_least(shell, folder):
    """The longest road couples least: lengths 100 but one of 5000, as in closed form by hand."""
    ends = pd.DataFrame({"source": range(5), "target": range(1, 6), "length": 100.0})
    ends.loc[2, "length"] = 5000.0
    ends.to_csv("path.csv", index=False)
    pd.DataFrame({"node": [0, 1, 4, 5], "value": [0, 0.1, 9.9, 10]}).to_csv("v.csv", index=False)
    for model in ("field", "graph"):
        shell("graph", "path.csv", "--values", "v.csv", "--model", model, "-o", "law.csv",
              "--kernel", "matern")  # fmt: skip
        found = pd.read_csv("law.csv")["mean"]
        assert found[2] < 3
        assert found[3] > 7


def test_a_graph_without_lengths_and_classes(shell, folder):
    graph = nx.grid_2d_graph(4, 4)
    graph = nx.relabel_nodes(graph, {node: f"a{node[0]}{node[1]}" for node in graph})
    nx.write_gml(graph, "g.gml")
    sides = {name: "low" if name[1] < "2" else "high" for name in graph}
    seen = list(graph)[::2]
    pd.DataFrame({"id": seen, "side": [sides[k] for k in seen]}).to_csv("s.csv", index=False)
    out, err = shell("graph", "g.gml", "--values", "s.csv", "-t", "side", "--kernel", "heat", "-o",
                     "law.csv", "--json")  # fmt: skip
    assert "s.csv: nodes are 'id' (--node-column names others)" in err
    assert json.loads(out)["model"]["kind"] == "GraphGPClassifier"
    found = pd.read_csv("law.csv").set_index("node")
    np.testing.assert_allclose(found["chance_low"] + found["chance_high"], 1.0)
    assert all(found["class"][name] == sides[name] for name in seen)


def test_roads_of_geojson_and_a_map_of_them(shell, folder):
    corners = [[11.57, 48.13], [11.58, 48.13], [11.58, 48.14], [11.59, 48.14]]
    lines = [{"type": "Feature", "properties": {}, "geometry": {"type": "LineString",
              "coordinates": pair}} for pair in pairwise(corners)]  # fmt: skip
    with open("roads.geojson", "w") as file:
        json.dump({"type": "FeatureCollection", "features": lines}, file)
    places = pd.DataFrame(corners, columns=["lng", "Latitude"]).assign(speed=[1.0, 2.0, 3.0, 4.0])
    places.to_csv("v.csv", index=False)
    out, err = shell("graph", "roads.geojson", "--values", "v.csv", *MATERN, "-o", "law.geojson")
    assert "v.csv: places are 'lng', 'Latitude' (--places names others)" in err
    with open("law.geojson") as file:
        found = json.load(file)["features"]
    assert {one["geometry"]["type"] for one in found} == {"LineString"}
    assert 0.5 < min(one["properties"]["mean"] for one in found) < 2
    assert "law.geojson is at edges" in out


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("source,target,length\na,b,-1\n", "column 'length', data row 1: expected a number > 0"),
        ("source,target,length,weight\na,b,1,1\n", "--weight, --length: roads.csv: expected one"),
        ("a,b\nx,y\n", "expected columns 'source', 'target'"),
        ("source,target\na,b\n", "roads.csv: expected lengths of the edges for a field"),
    ],
)
def test_errors_of_graphs(rows, message, fails, roads, folder):
    (folder / "roads.csv").write_text(rows)
    line = fails("graph", "roads.csv", "--values", "speeds.csv", "--model", "field", "-o", "l.csv")
    assert message in line


def test_an_unknown_node_is_named_by_its_row(fails, roads):
    roads.assign(node=["n0", "x", "n4", "n6", "n8"]).to_csv("speeds.csv", index=False)
    line = fails("graph", "roads.csv", "--values", "speeds.csv", "-o", "law.csv")
    assert "speeds.csv: column 'node', data row 2: expected one of the 9 nodes" in line


def test_values_over_time(shell, feed):
    files = ("-o", "law.csv", "--left-out", "l.csv", "--save-model", "t.model",
             "--picture", "law.svg")  # fmt: skip
    asked = ("--values", "feed.csv", *FIXED, "--ahead", "30min")
    out, err = shell("forecast", "roads.csv", *asked, *files)
    assert err == ""
    assert "4 sensors, 40 times from 2025-10-13T00:00:00" in out
    found = pd.read_csv("law.csv", parse_dates=["time"])
    assert len(found) == 9 * 42
    kinds = found["kind"].value_counts().to_dict()
    assert kinds == {"observed": 159, "gap": 1, "hidden": 200, "forecast": 18}
    model = cgp.load_model("t.model")
    gap = found[found["kind"] == "gap"].iloc[0]
    law = model.predict_frame([gap["node"]], [gap["time"]])
    np.testing.assert_allclose([gap["mean"], gap["std"], gap["lower"], gap["upper"]],
                               law.to_numpy()[0], rtol=1e-7)  # fmt: skip
    assert set(pd.read_csv("l.csv")["node"]) == {"n0", "n2", "n5", "n8"}
    with open("law.svg") as file:
        drawn = file.read()
    assert all(f">{name}<" in drawn for name in ("n0", "n2", "n5", "n8", "95 %", "observed"))


def test_numbers_that_stand_for_gaps(shell, fails, feed):
    feed.loc[feed.index[3:9], "speed"] = -9999.0
    feed.to_csv("feed.csv", index=False)
    asked = ("forecast", "roads.csv", "--values", "feed.csv", *FIXED, "-o", "law.csv")
    assert "6 of 159 are -9999" in fails(*asked)  # warnings are errors here
    _, err = shell(*asked, "--missing-values", "0,-9999")
    assert err == ""
    assert (pd.read_csv("law.csv")["kind"] == "gap").sum() == 7
    assert "--missing-values: expected numbers" in fails(*asked, "--missing-values", "x")


def test_wide_tables_other_formats_and_netcdf(shell, feed):
    wide = feed.pivot(index="time", columns="node", values="speed").reset_index()
    wide.assign(time=wide["time"].dt.strftime("%d.%m.%Y %H:%M")).to_csv("wide.csv", index=False)
    shell("forecast", "roads.csv", "--values", "wide.csv", "--time-format", "%d.%m.%Y %H:%M",
          *FIXED, "-o", "law.nc", "--nodes", "sensors")  # fmt: skip
    wide.set_index("time").rename_axis(columns="node").stack().rename(
        "speed"
    ).to_xarray().to_netcdf("in.nc", engine="h5netcdf")
    asked = ("--times", "2025-10-13 01:00:2025-10-13 02:00:15min", "--zone", "Asia/Tokyo")
    shell("forecast", "roads.csv", "--values", "in.nc", *FIXED, "-o", "law.parquet", *asked,
          "--nodes", "n0,n1")  # fmt: skip
    import xarray

    with xarray.open_dataset("law.nc", engine="h5netcdf") as data:
        assert data["mean"].shape == (4, 40)
    found = pd.read_parquet("law.parquet")
    assert sorted(set(found["node"])) == ["n0", "n1"]
    assert len(found) == 10
    assert str(found["time"].dt.tz) != "None"


def test_a_saved_model_goes_on(shell, feed):
    cut = feed["time"] < pd.Timestamp("2025-10-13 08:00")
    feed[cut].to_csv("first.csv", index=False)
    shell("forecast", "roads.csv", "--values", "first.csv", *FIXED, "--save-model", "t.model")
    shell("forecast", "roads.csv", "--values", "feed.csv", "--update", "t.model", "--save-model",
          "t.model", "-o", "law.csv", "--nodes", "sensors")  # fmt: skip
    assert cgp.load_model("t.model").grid_process_.times.size == 40
    assert pd.read_csv("law.csv")["time"].nunique() == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": "13.10.2025 00:00"}, "--time-format '%d.%m.%Y %H:%M' reads others"),
        ({"node": "x"}, "column 'node', data row 1: expected one of the 9 nodes"),
        ({"speed": "fast"}, "column 'speed', data row 1: expected a number, got 'fast'"),
        ({"time": None}, "column 'time', data row 1: expected a time, got a missing value"),
    ],
)
def test_errors_of_series_name_the_cell(change, message, fails, feed):
    feed.astype(object).assign(**change).to_csv("feed.csv", index=False)
    assert message in fails("forecast", "roads.csv", "--values", "feed.csv", "-o", "law.csv")


def test_intervals_of_counts_over_time_do_not_go_below_zero(roads):
    graph = cgp.Graph.from_edges([f"n{k}" for k in range(8)], [f"n{k + 1}" for k in range(8)])
    values = np.random.default_rng(0).poisson(0.7, (3, 30)).astype(float)
    model = cgp.GraphTimeGPRegressor(graph, target_transform=None, usual_day=False)
    model.fit(["n0", "n3", "n6"], values, times=np.arange(30.0))
    law = law_frame(model, ["n0", "n1"], np.arange(30.0), 0.99)
    assert law["lower"].min() == 0
    assert (law["mean"] - 2.5 * law["std"]).min() < 0
