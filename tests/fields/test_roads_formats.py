"""Road networks from files of lines and from graphs, and their way back to files."""

import sys
import warnings

import geopandas as gpd
import networkx as nx
import numpy as np
import pyogrio
import pyproj
import pytest
from shapely.geometry import LineString, MultiLineString, Point

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MissingLibraryError
from coupledgp.fields.locations import location_positions

UTM = "EPSG:32633"
ORIGIN = np.array([500000.0, 5540000.0])


def shifted(places):
    return np.array(places, dtype=float) + ORIGIN


def lines(*courses, crs=UTM, **columns):
    """Table of lines of metres from an origin in the zone 33 of UTM."""
    geometry = [LineString(shifted(course)) for course in courses]
    return gpd.GeoDataFrame(columns, geometry=geometry, crs=crs)


# A road of 300 m, one of 500 m in a bend from its end, and one back to the start.
TRIANGLE = ([(0, 0), (300, 0)], [(300, 0), (300, 200), (0, 200)], [(0, 200), (0, 0)])


@pytest.mark.parametrize(
    ("name", "driver"),
    [("a.gpkg", "GPKG"), ("a.geojson", "GeoJSON"), ("a.shp", "ESRI Shapefile"),
     ("a.fgb", "FlatGeobuf")],
)  # fmt: skip
def test_files_of_lines(name, driver, tmp_path):
    table = lines(*TRIANGLE)
    table = table.to_crs("EPSG:4326") if driver == "GeoJSON" else table
    table.to_file(tmp_path / name, driver=driver)
    roads = cgp.read_roads(tmp_path / name)
    order = np.argsort(roads.rows)
    assert roads.rows[order].tolist() == [0, 1, 2] or driver == "FlatGeobuf"
    # The zone's scale is .9996: lengths on the earth of a file in degrees are longer.
    scale = 1 / 0.9996 if driver == "GeoJSON" else 1.0
    np.testing.assert_allclose(np.sort(roads.lengths), np.array([200, 300, 500]) * scale, rtol=1e-4)
    assert roads.n_nodes == 3
    assert sorted(np.bincount(roads.ends.ravel())) == [2, 2, 2]
    assert roads.crs == UTM
    for line, ends in zip(roads.lines, roads.ends, strict=True):
        np.testing.assert_array_equal(line[[0, -1]], roads.positions[ends])
    degrees = table.to_crs("EPSG:4326").geometry.iloc[0].coords[0]
    assert np.abs(roads.lonlat - degrees).max(axis=1).min() < 1e-6


def test_lengths_on_the_earth_are_those_of_the_ellipsoid():
    """A quarter of a degree along a meridian at 60 degrees north, and along the parallel."""
    table = gpd.GeoDataFrame(
        geometry=[LineString([(24, 60), (24, 60.25)]), LineString([(24, 60), (24.25, 60)])],
        crs="EPSG:4326",
    )
    np.testing.assert_allclose(cgp.read_roads(table).lengths, [27853.2, 13950.0], rtol=2e-4)
    mercator = cgp.read_roads(table.to_crs("EPSG:3857"))
    assert mercator.crs == "EPSG:32635"  # Web Mercator is twice too long here, and not kept
    np.testing.assert_allclose(mercator.lengths, cgp.read_roads(table).lengths, rtol=1e-9)


def test_a_projected_system_in_feet_is_kept_and_measured_in_metres():
    places = np.array([(6.0e6, 2.0e6), (6.0e6 + 1000, 2.0e6)])  # California, zone 3, feet
    roads = cgp.read_roads(gpd.GeoDataFrame(geometry=[LineString(places)], crs="EPSG:2227"))
    assert roads.crs == "EPSG:2227"
    foot = 1200 / 3937
    np.testing.assert_allclose(roads.lengths, 1000 * foot, rtol=1e-12)
    np.testing.assert_allclose(roads.positions, places * foot, rtol=1e-12)
    np.testing.assert_allclose(roads.metres(places), roads.positions, rtol=1e-12)
    change = pyproj.Transformer.from_crs("EPSG:2227", "EPSG:4326", always_xy=True)
    np.testing.assert_allclose(roads.lonlat, np.column_stack(change.transform(*places.T)))
    np.testing.assert_allclose(roads.metres(roads.lonlat, "EPSG:4326"), roads.positions, rtol=1e-9)


def test_a_wide_area_is_projected_too():
    table = gpd.GeoDataFrame(geometry=[LineString([(-5, 50), (40, 55)])], crs="EPSG:4326")
    roads = cgp.read_roads(table)
    assert roads.crs.startswith("+proj=laea")
    length = pyproj.Geod(ellps="WGS84").inv(-5, 50, 40, 55)[2]
    np.testing.assert_allclose(roads.lengths, length, rtol=1e-9)


def test_where_lines_meet():
    roads = cgp.read_roads(
        lines(
            [(0, 0), (100, 0), (200, 0)],
            [(100, 0), (100, 50)],  # ends at a point of the first
            [(150.0, 0.1), (150, -50)],  # ends on the first, between two points, but for rounding
            [(200.1, 0.1), (300, 0)],  # starts at its end, but for rounding
            [(50, -20), (50, 20)],  # a bridge: crosses without a shared point
            [(260, 80), (100, 50), (100, 90)],  # shares a point with the second's end
        )
    )
    graph = nx.MultiGraph(roads.ends.tolist())
    assert sorted(map(len, nx.connected_components(graph))) == [2, 9]
    first = roads.rows == 0
    np.testing.assert_allclose(np.sort(roads.lengths[first]), [50, 50, 100], atol=0.2)
    assert (roads.rows == 5).sum() == 2
    apart = cgp.read_roads(lines([(0, 0), (100, 0)], [(100.4, 0), (200, 0)]))
    assert apart.n_nodes == 4
    joined = cgp.read_roads(lines([(0, 0), (100, 0)], [(100.4, 0), (200, 0)]), tolerance=0.5)
    assert joined.n_nodes == 3


def test_points_beside_the_end_of_their_own_line_do_not_shorten_it():
    roads = cgp.read_roads(lines([(0, 0), (0.2, 0), (100, 0), (100, 0.1)], [(0, 0), (0, 9)]))
    np.testing.assert_allclose(roads.lengths, [100.1, 9])


def test_every_road_is_taken_once():
    there = [(0, 0), (50, 20), (100, 0)]
    roads = cgp.read_roads(
        lines(
            there, there[::-1], there,
            [(0.05, 0), (50, 20.1), (100, 0.05)],  # the same, digitised again
            [(0, 0), (50, -20), (100, 0)],  # another carriageway, as long
        )
    )  # fmt: skip
    assert roads.rows.tolist() == [0, 4]
    assert len(roads.lines[0]) == 3


def test_loops_parts_heights_and_empty_rows():
    ring = [(0, 0), (100, 0), (100, 100), (0, 100), (0, 0)]
    parts = MultiLineString(
        [[(*ORIGIN, 7.0), (*shifted([(0, -50)])[0], 9.0)], shifted([(0, -50), (0, -80)])]
    )
    table = gpd.GeoDataFrame(
        geometry=[LineString(shifted(ring)), parts, None, LineString()], crs=UTM
    )
    roads = cgp.read_roads(table)
    assert roads.ends[0, 0] == roads.ends[0, 1]
    np.testing.assert_allclose(roads.lengths, [400, 50, 30])
    assert roads.rows.tolist() == [0, 1, 1]
    operator = roads.operator(max_edge=25.0)
    np.testing.assert_allclose(operator.measure, 480)
    assert operator.components()[0] == 1


def test_lengths_of_a_column_are_shared_by_the_parts_of_a_line():
    table = lines([(0, 0), (100, 0), (300, 0)], [(100, 0), (100, 50)], metres=["330", "50"])
    roads = cgp.read_roads(table, length="metres")
    np.testing.assert_allclose(roads.lengths, [110, 220, 50])
    with pytest.warns(UserWarning, match=r"column 'km' are 0\.001.* expected metres"):
        cgp.read_roads(lines([(0, 0), (100, 0)], km=[0.1]), length="km")


def test_vertices_of_the_operator_lie_on_the_lines():
    roads = cgp.read_roads(lines(*TRIANGLE))
    operator = roads.operator(max_edge=30.0)
    assert operator.n_given == 3
    np.testing.assert_array_equal(operator.positions[:3], roads.positions)
    offsets = np.array([250.0, 10.0, 490.0])
    places = location_positions(operator.at_edges([1, 1, 1], offsets).points, operator.positions)
    expected = shifted([(250, 200), (300, 10), (10, 200)])
    np.testing.assert_allclose(places, expected, atol=1e-6)


def test_points_are_found_on_the_lines():
    roads = cgp.read_roads(lines(*TRIANGLE))
    points = shifted([(310, 120), (100, 230), (-5, 5)])
    found = roads.project(points)
    assert found.edges.tolist() == [1, 1, 2]
    np.testing.assert_allclose(found.offsets, [120, 400, 195], atol=1e-6)
    np.testing.assert_allclose(found.distances, [10, 30, 5], atol=1e-6)
    change = pyproj.Transformer.from_crs(UTM, "EPSG:4326", always_xy=True)
    degrees = np.column_stack(change.transform(*points.T))
    np.testing.assert_allclose(
        roads.project(degrees, "EPSG:4326").offsets, found.offsets, atol=1e-3
    )
    with pytest.raises(InvalidInputError, match="points: expected finite"):
        roads.project([[0.0, np.nan]])


def with_texts(graph):
    """The graph with attributes of edges as texts, as osmnx writes them to GraphML."""
    found = graph.copy()
    for *_, data in found.edges(data=True):
        data.update({name: str(value) for name, value in data.items()})
    return found


def osmnx_graph(text=False):
    """A graph as osmnx makes it, and, as text, as it comes back from GraphML."""
    graph = nx.MultiDiGraph(crs="epsg:4326")
    for name, (x, y) in {53: (14.0, 50.0), 54: (14.01, 50.0), 55: (14.01, 50.01)}.items():
        graph.add_node(name, x=x, y=y)
    bend = LineString([(14.01, 50.0), (14.02, 50.005), (14.01, 50.01)])
    graph.add_edge(53, 54, length=717.0, oneway=False)
    graph.add_edge(54, 53, length=717.0, oneway=False)
    graph.add_edge(54, 55, length=1800.0, geometry=bend)
    graph.add_edge(55, 54, length=1800.0, geometry=bend.reverse())
    graph.add_edge(54, 55, length=1112.0)
    graph.add_edge(55, 55, length=400.0)
    if text:
        for _, data in graph.nodes(data=True):
            data.update({name: str(value) for name, value in data.items()})
        return with_texts(graph)
    return graph


def test_graphs_of_osmnx(tmp_path):
    nx.write_graphml(osmnx_graph(text=True), tmp_path / "g.graphml")
    for source in (osmnx_graph(), tmp_path / "g.graphml"):
        roads = cgp.read_roads(source)
        assert roads.labels == (53, 54, 55)
        assert roads.ends.tolist() == [[0, 1], [1, 2], [1, 2], [2, 2]]
        np.testing.assert_allclose(roads.lengths, [717, 1800, 1112, 400])
        assert len(roads.lines[1]) == 3
        assert roads.crs == "EPSG:32633"
        assert roads.operator(100.0).at_vertices([55, 53]).points[:, 0].tolist() == [2, 0]


def test_graphs_without_lengths_or_system():
    graph = nx.Graph()
    graph.add_node("a", x=0.0, y=0.0)
    graph.add_node("b", x=300.0, y=400.0)
    graph.add_node("alone", x=1.0, y=1.0)
    graph.add_edge("a", "b")
    roads = cgp.read_roads(graph)
    assert (roads.crs, roads.lonlat, roads.labels) == (None, None, ("a", "b"))
    np.testing.assert_allclose(roads.lengths, 500)
    graph.add_edge("alone", "a", length=7.0)
    with pytest.warns(UserWarning, match="1 of 2 edges have no attribute 'length'"):
        np.testing.assert_allclose(cgp.read_roads(graph).lengths, [500, np.sqrt(2)])


def yard(**attributes):
    """A yard of 30 m by 40 m, whose coordinates might be degrees."""
    graph = nx.Graph()
    for name, (x, y) in {"a": (0, 0), "b": (30, 0), "c": (30, 40), "d": (0, 40)}.items():
        graph.add_node(name, x=float(x), y=float(y))
    for (a, b), length in zip(["ab", "bc", "cd", "da"], [30.0, 40.0, 30.0, 40.0], strict=True):
        graph.add_edge(a, b, **{name: scale * length for name, scale in attributes.items()})
    return graph


def test_lengths_tell_degrees_from_metres(tmp_path):
    """Both readers of a graph decide alike, whatever the size of its coordinates."""
    degrees = osmnx_graph()
    del degrees.graph["crs"]
    small = yard(length=1.1)
    for graph, expected in ((small, None), (degrees, "EPSG:32633")):
        roads = cgp.read_roads(graph)
        assert roads.crs == expected
        origin = cgp.LaplaceOperator.from_networkx(graph).origin
        assert (origin is not None) == (expected is not None)
        nx.write_graphml(with_texts(graph), tmp_path / "g.graphml")
        assert cgp.read_roads(tmp_path / "g.graphml").crs == expected
    np.testing.assert_allclose(np.ptp(cgp.read_roads(small).positions, axis=0), [30, 40])
    with pytest.warns(UserWarning, match="times those of the lines"):
        assert cgp.read_roads(small, crs="EPSG:4326").crs is not None


def test_units_of_lengths_and_coordinates_are_compared():
    with pytest.warns(UserWarning, match="attribute 'far' are 1e[+]03 times those of the lines"):
        roads = cgp.read_roads(yard(far=1000.0), length="far", crs="metres")
    assert roads.lengths.sum() == 140e3
    with pytest.warns(UserWarning, match="coordinates x and y of a graph without .* for degrees"):
        assert cgp.read_roads(yard()).crs is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cgp.read_roads(yard(), crs="metres").lengths.sum() == 140
        assert cgp.read_roads(nx.relabel_nodes(yard(length=2.9), str.upper)).n_edges == 4


def test_roads_are_written_and_read_again(tmp_path):
    graph = osmnx_graph()
    graph.remove_edge(55, 55)  # without a geometry, a loop has no line that could be read again
    roads = cgp.read_roads(graph)
    pieces, middles = roads.split(90.0)
    assert pieces.lengths.max() <= 90
    np.testing.assert_allclose(np.bincount(middles.edges, pieces.lengths), roads.lengths)
    mean = np.cos(np.arange(pieces.n_edges))
    holes = np.where(mean > 0.9, np.nan, mean)
    for name, crs in (("law.gpkg", 32633), ("law.geojson", 4326)):
        path = tmp_path / name
        cgp.write_roads(path, pieces, location="edges", mean=mean, std=holes)
        table = gpd.read_file(path)
        assert table.crs.to_epsg() == crs
        np.testing.assert_allclose(table["mean"], mean, atol=1e-12)
        np.testing.assert_allclose(table["std"], holes, atol=1e-12)
        again = cgp.read_roads(path, length="length")
        assert (again.n_nodes, again.n_edges) == (pieces.n_nodes, pieces.n_edges)
        np.testing.assert_allclose(again.lengths, pieces.lengths, rtol=1e-9)
        assert again.operator(None).components()[0] == 1
    assert sorted(tmp_path.iterdir()) == [tmp_path / "law.geojson", tmp_path / "law.gpkg"]


def test_values_of_nodes_are_points(tmp_path):
    roads = cgp.read_roads(osmnx_graph())
    cgp.write_roads(tmp_path / "law.gpkg", roads, mean=[1.0, 2.0, 3.0])
    assert [name for name, _ in pyogrio.list_layers(tmp_path / "law.gpkg")] == ["edges", "nodes"]
    table = gpd.read_file(tmp_path / "law.gpkg", layer="nodes")
    assert (table["node"].tolist(), table["mean"].tolist()) == ([53, 54, 55], [1, 2, 3])
    cgp.write_roads(tmp_path / "law.geojson", roads, mean=[1.0, 2.0, 3.0])
    table = gpd.read_file(tmp_path / "law.geojson")
    np.testing.assert_allclose(table.geometry.x, [14, 14.01, 14.01], atol=1e-7)
    edges = gpd.read_file(tmp_path / "law.gpkg", layer="edges")
    assert edges["length"].tolist() == roads.lengths.tolist()


def test_what_is_refused(tmp_path):
    def told(match, source, **settings):
        with pytest.raises(InvalidInputError, match=match):
            cgp.read_roads(source, **settings)

    table = lines(*TRIANGLE, name=["a", "b", "c"], zero=[1.0, 0.0, 2.0])
    told("crs: expected a coordinate reference system, got a source without",
         table.set_crs(None, allow_override=True))  # fmt: skip
    plain = table.set_crs(None, allow_override=True)
    assert cgp.read_roads(plain, crs="metres").crs is None
    told("crs: expected a coordinate reference system such as", plain, crs="EPSG:1")
    told("crs: expected longitudes and latitudes", plain, crs="EPSG:4326")
    told("expected lines with a length, got none", table.iloc[:0])
    told("row 2: expected a LineString or MultiLineString, got Point",
         gpd.GeoDataFrame(geometry=[table.geometry[0], Point(0, 0)], crs=UTM))  # fmt: skip
    told("length: expected one of the columns", table, length="metres")
    told("length: column 'name': expected numbers", table, length="name")
    told("length: row 2: expected a length > 0 in metres, got 0", table, length="zero")
    table.to_file(tmp_path / "two.gpkg", layer="a")
    table.to_file(tmp_path / "two.gpkg", layer="b")
    told("layer: expected one of the layers of lines", tmp_path / "two.gpkg")
    told("layer: expected one of .* got 'c'", tmp_path / "two.gpkg", layer="c")
    assert cgp.read_roads(tmp_path / "two.gpkg", layer="b").n_edges == 3
    (tmp_path / "broken.gpkg").write_text("nothing")
    told("broken.gpkg: expected a file of lines", tmp_path / "broken.gpkg")
    (tmp_path / "broken.graphml").write_text("<graphml")
    told("broken.graphml: expected graphml", tmp_path / "broken.graphml")
    told("source: expected a file ending in", tmp_path / "roads.doc")
    told("source: expected a path", 3)
    told("nodes: expected every node to have", nx.Graph([(0, 1)]))
    told("expected a graph with edges", nx.empty_graph(3))
    graph = osmnx_graph()
    told("edge 53-54: expected a number of metres > 0 as its 'speed', got None", graph,
         length="speed")  # fmt: skip
    graph.edges[53, 54, 0]["length"] = -1
    told("edge 53-54: expected a number of metres > 0 as its 'length', got -1", graph)
    with pytest.raises(FileNotFoundError):
        cgp.read_roads(tmp_path / "gone.gpkg")


def test_what_is_not_written(tmp_path, monkeypatch):
    def told(match, name="law.gpkg", roads=None, **fields):
        roads = cgp.read_roads(lines(*TRIANGLE)) if roads is None else roads
        with pytest.raises(InvalidInputError, match=match):
            cgp.write_roads(tmp_path / name, roads, **fields)
        assert not list(tmp_path.iterdir())

    told("path: expected a file ending in .gpkg", name="law.shp", mean=np.ones(3))
    told("mean: expected location='edges' or", mean=np.ones(3))
    told("mean: expected 3 values at edges or 3 at nodes, got shape \\(4,\\)", mean=np.ones(4))
    told("mean: expected values that are not infinite", location="nodes", mean=[1, np.inf, 2])
    told("fields: expected a name that is none of", length=np.ones(3))
    plain = lines(*TRIANGLE).set_crs(None, allow_override=True)
    told("GeoJSON is in longitude and latitude", "law.geojson",
         cgp.read_roads(plain, crs="metres"), location="nodes", mean=np.ones(3))  # fmt: skip
    monkeypatch.setitem(sys.modules, "geopandas", None)
    with pytest.raises(MissingLibraryError, match=r"coupledgp\[geo\]"):
        cgp.write_roads(tmp_path / "law.gpkg", cgp.read_roads(osmnx_graph()), mean=np.ones(4))
    (tmp_path / "a.gpkg").touch()
    with pytest.raises(MissingLibraryError, match=r"coupledgp\[geo\]"):
        cgp.read_roads(tmp_path / "a.gpkg")


GRAPHML = (
    '<?xml version="1.0"?><!DOCTYPE g [{}]><graphml><graph edgedefault="undirected">'
    '<node id="{}"/></graph></graphml>'
)


def test_hostile_graphs_are_refused_and_run_nothing(tmp_path):
    """Entities that grow a thousandfold each, files that entities name, depth, and code as text."""
    grows = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 1000}">' for k in range(1, 5))
    for name, text, message in (
        ("a.graphml", GRAPHML.format(f'<!ENTITY e0 "x">{grows}', "&e4;"), "amplification"),
        ("b.graphml", GRAPHML.format('<!ENTITY e SYSTEM "file:///etc/hostname">', "&e;"), "entity"),
        ("c.gml", "graph " + "[ a " * 5000, "recursion"),
        ("d.gml", "graph [ node [ id " + 5000 * "9" + " ] ]", "digits"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InvalidInputError, match=f"{name}: expected .*ml: .*{message}"):
            cgp.read_roads(tmp_path / name)
    code = f"open('{tmp_path}/made', 'w')"
    (tmp_path / "e.gml").write_text(f'graph [ node [ id 0 label "{code}" x 1 y 2 ] ]')
    with pytest.raises(InvalidInputError, match="expected a graph with edges"):
        cgp.read_roads(tmp_path / "e.gml")
    assert not (tmp_path / "made").exists()
