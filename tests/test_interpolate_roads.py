"""`coupledgp interpolate` of fields on roads: edge tables, graphs and files of lines."""

import json

import geopandas as gpd
import networkx as nx
import numpy as np
import pytest
from shapely.geometry import LineString, Point

import coupledgp as cgp
from coupledgp.cli import run
from coupledgp.cli.commands.field_run import left_out, split_places
from coupledgp.cli.readers.places import ReadPlaces
from coupledgp.models import FieldGPRegressor
from tests.interpolation import read, write

# A grid of 5 x 5 crossings, 200 m apart, with bends, near the central meridian of a zone of UTM.
SIDE, STEP = 5, 200.0
ORIGIN = np.array([500000.0, 5540000.0])
NODES = [(i, j) for i in range(SIDE) for j in range(SIDE)]
ENDS = [(SIDE * i + j, SIDE * i + j + 1) for i in range(SIDE) for j in range(SIDE - 1)] + [
    (SIDE * i + j, SIDE * i + j + SIDE) for i in range(SIDE - 1) for j in range(SIDE)
]
PLACES = STEP * np.array(NODES, dtype=float) + ORIGIN
LINES = [np.array([PLACES[a], (PLACES[a] + PLACES[b]) / 2 + [15, 15], PLACES[b]]) for a, b in ENDS]
LENGTHS = np.array([np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in LINES])
SPEEDS = 50 + 10 * np.sin(PLACES[:, 0] / 250) + np.random.default_rng(2).normal(size=SIDE**2)
NAMES = [f"n{k}" for k in range(SIDE**2)]


@pytest.fixture
def gpkg(tmp_path):
    path = tmp_path / "roads.gpkg"
    lines = [LineString(line) for line in LINES]
    gpd.GeoDataFrame({"metres": 2 * LENGTHS}, geometry=lines, crs="EPSG:32633").to_file(path)
    return path


@pytest.fixture
def table(tmp_path):
    """Edge table that has the first ten roads in both directions."""
    ends = [*ENDS, *(pair[::-1] for pair in ENDS[:10])]
    columns = {"source": [NAMES[a] for a, _ in ends], "target": [NAMES[b] for _, b in ends]}
    return write(tmp_path / "roads.csv", {**columns, "length": [*LENGTHS, *LENGTHS[:10]]})


@pytest.fixture
def speeds(tmp_path):
    return write(tmp_path / "speeds.csv", {"node": NAMES[::2], "value": SPEEDS[::2]})


def degrees(places):
    points = gpd.GeoSeries([Point(place) for place in places], crs="EPSG:32633").to_crs(4326)
    return np.column_stack([points.x, points.y])


def expected(max_edge="auto", **settings):
    """The law at the nodes, in their order here, of sensors at every second one."""
    operator = cgp.LaplaceOperator.from_edges(
        [NAMES[a] for a, _ in ENDS], [NAMES[b] for _, b in ENDS], LENGTHS, labels=NAMES,
        max_edge=max_edge,
    )  # fmt: skip
    gp = FieldGPRegressor(operator, random_state=0, **settings).fit(NAMES[::2], SPEEDS[::2])
    return gp.predict(NAMES, return_std=True)


def in_order(found, names=NAMES):
    rows = [found["node"].index(str(name)) for name in names]
    return [np.array(found[name], float)[rows] for name in ("mean", "std")]


def test_an_edge_table_with_lengths_is_a_network(table, speeds, tmp_path, call):
    call(table, "--values", speeds, "-o", tmp_path / "law.csv")
    found = read(tmp_path / "law.csv")
    assert list(found) == ["node", "mean", "std"]
    for values, law in zip(in_order(found), expected(), strict=True):
        np.testing.assert_allclose(values, law, rtol=1e-6)
    call(table, "--values", speeds, "-o", tmp_path / "f.csv", "--kernel", "matern")
    assert read(tmp_path / "f.csv") != found
    result = json.loads(
        call(table, "--values", speeds, "-o", tmp_path / "g.csv", "--n-walks", "4", "--json")
    )
    assert result["model"]["model"] == "graph"  # an option that only graphs have


def test_a_network_without_lengths_is_a_graph(tmp_path, speeds, call, fails):
    columns = {"source": [NAMES[a] for a, _ in ENDS], "target": [NAMES[b] for _, b in ENDS]}
    plain = write(tmp_path / "plain.csv", columns)
    arguments = [plain, "--values", speeds, "-o", tmp_path / "law.csv"]
    assert json.loads(call(*arguments, "--json"))["model"]["model"] == "graph"
    assert "expected lengths of the edges" in fails(*arguments, "--model", "field")
    assert "expected lengths of the edges" in fails(*arguments, "--kernel", "position")
    weighted = write(tmp_path / "w.csv", {**columns, "weight": LENGTHS, "length": LENGTHS})
    assert "--weight, --length: expected one of them" in fails(
        weighted, "--values", speeds, "-o", tmp_path / "law.csv"
    )


def test_lines_take_sensors_by_place_and_give_maps(gpkg, tmp_path, call):
    """The same sensors by x and y, in degrees, by edge and offset, and as points."""
    roads = cgp.read_roads(gpkg)
    found = roads.project(PLACES[::2])
    places = degrees(PLACES[::2])
    tables = {
        "xy": {"x": PLACES[::2, 0], "y": PLACES[::2, 1], "value": SPEEDS[::2]},
        "degrees": {"longitude": places[:, 0], "latitude": places[:, 1], "v": SPEEDS[::2]},
        "edges": {"edge": found.edges, "offset": found.offsets, "value": SPEEDS[::2]},
    }
    files = [write(tmp_path / f"{name}.csv", columns) for name, columns in tables.items()]
    sensors = gpd.GeoDataFrame(
        {"mph": SPEEDS[::2]}, geometry=gpd.points_from_xy(*PLACES[::2].T), crs="EPSG:32633"
    )
    for file in ("sensors.gpkg", "sensors.geojson"):  # the latter has degrees
        (sensors if file.endswith("gpkg") else sensors.to_crs(4326)).to_file(tmp_path / file)
        files.append(tmp_path / file)
    laws = []
    for values in files:
        call(gpkg, "--values", values, "-o", tmp_path / "law.csv")
        laws.append(read(tmp_path / "law.csv"))
    assert list(laws[0]) == ["node", "x", "y", "mean", "std"]
    order = [
        int(np.argmin(np.linalg.norm(PLACES - [float(x), float(y)], axis=1)))
        for x, y in zip(laws[0]["x"], laws[0]["y"], strict=True)
    ]
    mean, _ = expected()
    for law in laws:
        np.testing.assert_allclose(np.array(law["mean"], float), mean[order], rtol=1e-3)
    call(gpkg, "--values", tmp_path / "xy.csv", "-o", tmp_path / "law.gpkg", "--max-edge", "50")
    lines = gpd.read_file(tmp_path / "law.gpkg", layer="edges")
    assert lines.crs.to_epsg() == 32633
    assert lines.length.max() <= 50
    assert {"mean", "std", "length"} <= set(lines.columns)
    np.testing.assert_allclose(lines.length.sum(), LENGTHS.sum(), rtol=1e-3)
    call(gpkg, "--values", tmp_path / "xy.csv", "-o", tmp_path / "law.geojson", "--at", "nodes")
    points = gpd.read_file(tmp_path / "law.geojson")
    assert points.crs.to_epsg() == 4326
    np.testing.assert_allclose(points["mean"], np.array(laws[0]["mean"], float), rtol=1e-9)


def test_a_column_of_lengths(gpkg, tmp_path, call):
    values = write(tmp_path / "v.csv", {"x": PLACES[:, 0], "y": PLACES[:, 1], "value": SPEEDS})
    arguments = [gpkg, "--values", values, "-o", tmp_path / "law.csv", "--json"]
    drawn = json.loads(call(*arguments))["domain"]
    assert drawn["unit"] == "m"
    np.testing.assert_allclose(drawn["measure"], LENGTHS.sum(), rtol=1e-6)
    doubled = json.loads(call(*arguments, "--length", "metres"))["domain"]
    np.testing.assert_allclose(doubled["measure"], 2 * LENGTHS.sum(), rtol=1e-6)


def test_graphml_of_osmnx(tmp_path, call):
    graph = nx.MultiDiGraph(crs="epsg:4326")
    for k, (x, y) in enumerate(degrees(PLACES)):
        graph.add_node(k, x=str(x), y=str(y))
    for (a, b), length in zip(ENDS, LENGTHS, strict=True):
        graph.add_edge(a, b, length=str(length))
        graph.add_edge(b, a, length=str(length))
    nx.write_graphml(graph, tmp_path / "city.graphml")
    values = write(tmp_path / "v.csv", {"node": range(0, 25, 2), "value": SPEEDS[::2]})
    page = tmp_path / "page.html"
    arguments = [tmp_path / "city.graphml", "--values", values, "--report", page]
    call(*arguments, "-o", tmp_path / "law.csv")
    found = read(tmp_path / "law.csv")
    assert list(found) == ["node", "longitude", "latitude", "mean", "std"]
    for law, other in zip(in_order(found, range(25)), expected(), strict=True):
        np.testing.assert_allclose(law, other, rtol=1e-6)
    text = page.read_text()
    assert "harmonic" in text
    assert "position GP" not in text
    assert "100 % along the network" in text
    assert text.count("<svg") == 3


def test_positions_of_an_edge_table(table, speeds, tmp_path, call, fails):
    places = degrees(PLACES)
    columns = {"node": NAMES, "longitude": places[:, 0], "latitude": places[:, 1]}
    positions = write(tmp_path / "positions.csv", columns)
    more = ["--positions", positions]
    call(table, "--values", speeds, "-o", tmp_path / "law.csv", *more)
    found = read(tmp_path / "law.csv")
    assert list(found) == ["node", "longitude", "latitude", "mean", "std"]
    for values, law in zip(in_order(found), expected(), strict=True):
        np.testing.assert_allclose(values, law, rtol=1e-6)
    row = found["node"].index("n7")
    np.testing.assert_allclose(float(found["longitude"][row]), places[7, 0], atol=1e-9)
    call(table, "--values", speeds, "-o", tmp_path / "law.gpkg", *more)
    assert gpd.read_file(tmp_path / "law.gpkg")["length"].sum() == pytest.approx(LENGTHS.sum())
    for output in ("x.gpkg", "x.geojson"):
        assert "expected nodes with positions" in fails(
            table, "--values", speeds, "-o", tmp_path / output
        )
    assert "expected nodes with positions" in fails(
        table, "--values", speeds, "-o", tmp_path / "x.csv", "--at", "edges"
    )
    at = write(tmp_path / "at.csv", {"x": [1.0], "y": [2.0], "value": [3.0]})
    assert "the nodes of the network have no positions" in fails(
        table, "--values", at, "-o", tmp_path / "x.csv"
    )


def test_rows_of_an_edge_table_are_its_edges(table, tmp_path, call):
    """Row 40 is row 0 the other way round: its offsets count from the other end."""
    laws = []
    for row, offset in ((0, 60.0), (40, LENGTHS[0] - 60.0)):
        columns = {"edge": [row, 5, 17, 33], "offset": [offset, 10, 20, 30]}
        values = write(tmp_path / "v.csv", {**columns, "value": [1, 2, 3, 4]})
        call(table, "--values", values, "-o", tmp_path / "law.csv")
        laws.append(np.array(read(tmp_path / "law.csv")["mean"], float))
    np.testing.assert_allclose(laws[0], laws[1], rtol=1e-9)


def test_edges_of_a_table_of_results(gpkg, tmp_path, call):
    values = write(tmp_path / "v.csv", {"x": PLACES[:, 0], "y": PLACES[:, 1], "value": SPEEDS})
    call(gpkg, "--values", values, "-o", tmp_path / "law.csv", "--at", "edges", "--max-edge", "70")
    found = read(tmp_path / "law.csv")
    assert list(found) == ["edge", "offset", "x", "y", "mean", "std"]
    again = tmp_path / "again.csv"
    query = write(tmp_path / "q.csv", {name: found[name] for name in ("edge", "offset")})
    call(gpkg, "--values", values, "-o", again, "--query", query, "--max-edge", "70")
    np.testing.assert_allclose(
        np.array(read(again)["mean"], float), np.array(found["mean"], float), rtol=1e-9
    )


@pytest.mark.filterwarnings("always")
def test_sensors_far_from_the_roads_are_named(gpkg, tmp_path, capsys):
    places = PLACES[::2] + np.where(np.arange(13) == 4, 300.0, 0.0)[:, None]
    values = write(tmp_path / "v.csv", {"x": places[:, 0], "y": places[:, 1], "v": SPEEDS[::2]})
    arguments = ["interpolate", gpkg, "--values", values, "-o", tmp_path / "law.csv", "--json"]
    assert run(list(map(str, arguments))) == 0
    out, err = capsys.readouterr()
    assert "data row 5 lies" in err
    assert any("data row 5 lies" in line for line in json.loads(out)["warnings"])


def test_sensors_all_far_from_the_roads_are_refused(gpkg, tmp_path, fails):
    """Longitudes and latitudes in exchanged columns, and kilometres in place of metres."""
    turned = degrees(PLACES[::2])[:, ::-1]
    for names, places in ((("longitude", "latitude"), turned), (("x", "y"), PLACES[::2] / 1000)):
        columns = {**dict(zip(names, places.T, strict=True)), "value": SPEEDS[::2]}
        values = write(tmp_path / "v.csv", columns)
        line = fails(gpkg, "--values", values, "-o", tmp_path / "law.csv")
        assert "v.csv: expected positions near the network, whose size is 11" in line


def test_one_place_in_two_forms_is_hidden_as_one(tmp_path):
    operator = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], [100.0, 200.0, 300.0])
    same = operator.at_edges([0, 1, 1, 2, 2], [100.0, 0.0, 200.0, 0.0, 300.0])
    places = ReadPlaces(same, "edges", ("edge", "offset"), None, np.arange(5))
    hidden = set()
    for seed in range(10):
        task = split_places(places, np.array([1.0, 1.0, 2.0, 2.0, 3.0]), 0.3, seed)
        hidden.add(tuple(task.hidden_y))
    assert hidden == {(1, 1), (2, 2), (3,)}
    task = split_places(places, np.arange(5.0), 0.0, 0)
    assert task.sensors.tolist() == [0, 1, 2, 3, 4]
    both = split_places(
        ReadPlaces(same[:2], "edges", (), None, np.arange(2)), np.arange(2.0), 0.0, 0
    )
    assert left_out(None, both, ("a", "b")) is None


def test_what_is_refused(gpkg, table, speeds, tmp_path, fails):
    def told(graph, values, *more, output="law.csv"):
        return fails(graph, "--values", values, "-o", tmp_path / output, *more)

    stray = write(tmp_path / "stray.csv", {"node": ["n0", "zz"], "value": [1, 2]})
    line = told(table, stray)
    assert "stray.csv: column 'node', data row 2: expected one of the 25 nodes 'n0' to" in line
    beyond = write(tmp_path / "b.csv", {"edge": [0], "offset": [1e4], "value": [1]})
    assert "b.csv: offsets: expected" in told(table, beyond)
    edge = write(tmp_path / "e.csv", {"edge": [50], "offset": [1], "value": [1]})
    assert "expected one of the edges 0 to 49, got 50" in told(table, edge)
    neither = write(tmp_path / "n.csv", {"vertex": [1], "value": [1]})
    assert "expected columns node, or edge and offset, or x and y, or longitude" in told(
        table, neither
    )
    bad = write(tmp_path / "bad.csv", {"source": ["a"], "target": ["b"], "length": [-1]})
    assert "column 'length', data row 1: expected a length > 0, got -1" in told(bad, stray)
    assert "a .vtu needs a mesh" in told(gpkg, speeds, output="law.vtu")
    assert "layer: expected one of" in told(gpkg, speeds, "--layer", "none")
    assert "--layer: expected it for a file of lines only" in told(table, speeds, "--layer", "a")
    assert "--positions: expected it for an edge table only" in told(
        gpkg, speeds, "--positions", speeds
    )
    assert "--nodes: expected it for a mesh only" in told(table, speeds, "--nodes", "faces")
    assert "expected one of the columns" in told(gpkg, speeds, "--length", "miles")
    assert "columns ['source', 'target', 'length']" not in told(table, stray)
    gpd.read_file(gpkg).to_file(tmp_path / "plain.shp")
    (tmp_path / "plain.prj").unlink()
    assert "crs: expected a coordinate reference system" in told(tmp_path / "plain.shp", speeds)
