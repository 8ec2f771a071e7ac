"""Laws over places and times in files of maps are read back as they were."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.space_time.places import MapSites
from coupledgp.errors import InvalidInputError
from coupledgp.fields.networks import local_degrees, local_metres
from coupledgp.fields.output import TimeLayer, write_time_map
from tests.diagnostics.pages.space_time_cases import HOSTILE, N_NODES, report

geopandas = pytest.importorskip("geopandas")
pytest.importorskip("pyogrio")
LONLAT = "EPSG:4326"
TIMES = ["2012-03-01T20:00", "2012-03-01T23:00", "2012-03-02T00:55"]


def test_nodes_of_a_geopackage_have_law_value_and_kind(tmp_path):
    one = report(crs=LONLAT)
    one.write_map(tmp_path / "law.gpkg", TIMES)
    table = geopandas.read_file(tmp_path / "law.gpkg", layer="nodes")
    assert len(table) == 3 * N_NODES
    assert table.crs.to_epsg() == 4326
    columns = [0, 36, 59]
    np.testing.assert_array_equal(table["mean"].to_numpy().reshape(3, -1), one.mean[:, columns].T)
    np.testing.assert_array_equal(table["std"].to_numpy().reshape(3, -1), one.std[:, columns].T)
    assert table["time"].dt.strftime("%Y-%m-%dT%H:%M").unique().tolist() == TIMES
    assert table["node"][0] == HOSTILE
    kinds = table["kind"].to_numpy().reshape(3, -1)
    assert (kinds[2, one.sensors] == "forecast").all()
    assert (np.delete(kinds[0], one.sensors) == "no sensor").all()
    first = table["observed"].to_numpy().reshape(3, -1)[0]
    np.testing.assert_array_equal(first[one.sensors], one.observed[:, 0])
    np.testing.assert_allclose([table.geometry[0].x, table.geometry[0].y], one.positions[0])


def test_edges_have_the_mean_of_their_ends(tmp_path):
    one = report(crs=LONLAT, is_network=True)
    one.write_map(tmp_path / "law.geojson", TIMES[:1])
    found = json.loads((tmp_path / "law.geojson").read_text())["features"]
    lines = [f for f in found if f["geometry"]["type"] == "LineString"]
    points = [f["properties"] for f in found if f["geometry"]["type"] == "Point"]
    mean = {p["node"]: p["mean"] for p in points}
    assert len(lines) == len(one.edges)
    for line in (f["properties"] for f in lines):
        ends = mean[line["source"]], mean[line["target"]]
        assert line["mean"] == pytest.approx(np.mean(ends), rel=1e-12)
    assert points[0]["time"].startswith("2012-03-01T20:00:00")


def test_lines_and_places_are_those_of_given_roads(tmp_path):
    streets = nx.MultiDiGraph(crs="epsg:4326")
    for k in range(N_NODES):
        streets.add_node(f"=road {k}", x=10.0 + 0.01 * k, y=50.0)
    for k in range(N_NODES - 1):
        streets.add_edge(f"=road {k}", f"=road {k + 1}", length=716.0)
    roads = cgp.read_roads(streets)
    with pytest.raises(InvalidInputError, match="roads: expected the nodes of the report, got"):
        report().write_map(tmp_path / "law.gpkg", roads=roads)
    one = report(nodes=[f"=road {k}" for k in range(N_NODES)])
    one.write_map(tmp_path / "law.gpkg", TIMES[:1], roads=roads)
    lines = geopandas.read_file(tmp_path / "law.gpkg", layer="edges").to_crs(LONLAT)
    assert len(lines) == N_NODES - 1
    assert lines.geometry[0].coords[0] == pytest.approx((10.0, 50.0), abs=1e-6)


def test_times_are_chosen_numbers_stay_numbers_and_all_is_all(tmp_path):
    one = report(crs=LONLAT)
    one.write_map(tmp_path / "six.gpkg")
    assert geopandas.read_file(tmp_path / "six.gpkg")["time"].nunique() == 6
    one.write_map(tmp_path / "all.gpkg", "all")
    assert len(geopandas.read_file(tmp_path / "all.gpkg")) == one.mean.size
    layer = {"nodes": TimeLayer(list(np.zeros((2, 1, 2))), {}, {"mean": np.ones((2, 3))})}
    write_time_map(tmp_path / "numbers.gpkg", layer, np.array([0.5, 1.0, 2.0]))
    times = geopandas.read_file(tmp_path / "numbers.gpkg")["time"]
    assert times.tolist() == [0.5, 0.5, 1.0, 1.0, 2.0, 2.0]


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(InvalidInputError, match="path: GeoJSON is in longitude and latitude"):
        report().write_map(tmp_path / "law.geojson")
    with pytest.raises(InvalidInputError, match=r"path: expected a file ending in \.gpkg"):
        report().write_map(tmp_path / "law.shp")
    with pytest.raises(InvalidInputError, match="positions: expected places of the nodes"):
        report(positions=None).write_map(tmp_path / "law.gpkg")
    with pytest.raises(InvalidInputError, match="times: expected times of the report"):
        report().write_map(tmp_path / "law.gpkg", ["2013-01-01T00:00"])
    layer = {"nodes": TimeLayer([np.zeros((1, 2))] * 3, {}, {})}
    with pytest.raises(InvalidInputError, match="times: expected at most 5000000 features"):
        write_time_map(tmp_path / "law.gpkg", layer, range(2_000_000))
    for columns, fields in (({"name": ["a", "b"]}, {}), ({}, {"name": [[1.0, 2.0]] * 3})):
        layer = {"nodes": TimeLayer([np.zeros((1, 2))] * 3, columns, fields)}
        with pytest.raises(InvalidInputError, match=r"layers: expected 'name' of shape \(3,"):
            write_time_map(tmp_path / "law.gpkg", layer, [0.5])
    assert list(tmp_path.iterdir()) == []


def test_places_of_a_network_in_degrees_are_degrees_again():
    origin = np.array([179.9, 60.0])
    degrees = np.array([[179.95, 60.1], [-179.99, 59.9]])
    np.testing.assert_allclose(local_degrees(local_metres(degrees, origin), origin), degrees)
    streets = nx.Graph(crs="epsg:4326")
    streets.add_node(0, x=10.0, y=50.0)
    streets.add_node(1, x=10.01, y=50.005)
    streets.add_edge(0, 1, length=905.0)
    operator = cgp.LaplaceOperator.from_networkx(streets)
    places = MapSites.of(operator, None, np.array([0]))
    assert places.crs == LONLAT
    np.testing.assert_allclose(places.positions[:2], [[10.0, 50.0], [10.01, 50.005]])
