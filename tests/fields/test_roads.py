"""Graphs of networkx and OSMnx: directions, parallel roads, degrees, courses; and points."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import trimesh
from scipy import sparse
from scipy.sparse.linalg import eigsh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MissingLibraryError
from coupledgp.fields.locations import location_positions
from coupledgp.fields.networks import EARTH_RADIUS

BEND = [(8.5, 47.4), (8.501, 47.401), (8.502, 47.4)]


def line(coords):
    return SimpleNamespace(coords=list(coords))


def osm() -> nx.MultiDiGraph:
    """A graph as OSMnx makes them: both directions of two-way roads, degrees, metres."""
    graph = nx.MultiDiGraph(crs="epsg:4326")
    for node, (x, y) in {
        11: (8.5, 47.4), 12: (8.502, 47.4), 13: (8.502, 47.402), 14: (8.6, 47.5),
    }.items():  # fmt: skip
        graph.add_node(node, x=x, y=y)
    graph.add_edge(11, 12, length=320.0, oneway=False, geometry=line(BEND))
    graph.add_edge(12, 11, length=320.0 + 1e-9, oneway=False, geometry=line(BEND[::-1]))
    graph.add_edge(11, 12, length=150.5, oneway=False)  # a second road, straight
    graph.add_edge(12, 11, length=150.5, oneway=False)
    graph.add_edge(12, 13, length=222.4, oneway=True)
    graph.add_edge(13, 12, length=260.0, oneway=True)  # the other carriageway
    graph.add_edge(13, 13, length=90.0, oneway=False)  # a loop in both directions
    graph.add_edge(13, 13, length=90.0, oneway=False)
    return graph


def test_both_directions_of_a_road_are_one_road():
    operator = cgp.LaplaceOperator.from_networkx(osm())
    np.testing.assert_allclose(operator.given_lengths, [320, 150.5, 222.4, 260, 90])
    assert operator.labels == (11, 12, 13, 14)
    assert operator.n_vertices == 3 + 2
    with pytest.raises(InvalidInputError, match="nodes of edges, got 14"):
        operator.at_vertices()
    # Without directions every edge is a road.
    undirected = nx.MultiGraph()
    undirected.add_edge("a", "b", length=1.0)
    undirected.add_edge("b", "a", length="1.0")
    assert cgp.LaplaceOperator.from_networkx(undirected).given_lengths.size == 2
    directed = nx.DiGraph([("a", "b", {"metres": 2}), ("b", "a", {"metres": 2})])
    assert cgp.LaplaceOperator.from_networkx(directed, "metres").measure == 2.0


def test_other_courses_and_other_lengths_are_other_roads():
    graph = osm()
    graph.remove_edges_from(list(graph.edges(keys=True)))
    graph.add_edge(11, 12, length=320.0, geometry=line(BEND))
    graph.add_edge(12, 11, length=320.0, geometry=line([BEND[2], (8.501, 47.399), BEND[0]]))
    graph.add_edge(12, 11, length=320.1, geometry=line(BEND[::-1]))
    assert cgp.LaplaceOperator.from_networkx(graph).given_lengths.size == 3


def test_positions_in_degrees_are_metres():
    operator = cgp.LaplaceOperator.from_networkx(osm(), max_edge=10.0)
    east = np.radians(0.002) * np.cos(np.radians(47.45)) * EARTH_RADIUS
    north = np.radians(0.002) * EARTH_RADIUS
    places = location_positions(operator.at_vertices([11, 12, 13]).points, operator.positions)
    np.testing.assert_allclose(places[1] - places[0], [east, 0], atol=1e-6)
    np.testing.assert_allclose(places[2] - places[1], [0, north], atol=1e-6)
    # Points in degrees are found on the bend, where its course goes.
    found = operator.project([[8.501, 47.401], [8.501, 47.4], [8.502, 47.403]])
    np.testing.assert_allclose(found.distances, [0, 0, north / 2], atol=3.0)
    on_bend = operator.at_edges([0], [160.0])
    place = location_positions(on_bend.points, operator.positions)
    near = location_positions(found.points[:1], operator.positions)
    np.testing.assert_allclose(place, near, atol=3.0)


def test_degrees_are_told_from_metres():
    graph = osm()
    del graph.graph["crs"]
    assert cgp.LaplaceOperator.from_networkx(graph).origin is not None
    town = nx.Graph()
    town.add_node(0, x=0.0, y=0.0)
    town.add_node(1, x=3.0, y=4.0)
    town.add_edge(0, 1, length=5.5)
    assert cgp.LaplaceOperator.from_networkx(town).origin is None
    town.graph["crs"] = "EPSG:4326"
    assert cgp.LaplaceOperator.from_networkx(town).origin is not None
    town.graph["crs"] = SimpleNamespace(is_geographic=False)
    assert cgp.LaplaceOperator.from_networkx(town).origin is None


def test_roads_across_the_date_line():
    operator = cgp.LaplaceOperator.from_edges(
        [0], [1], [222.4], positions=[[179.999, 0.0], [-179.999, 0.0]], is_geographic=True
    )
    assert np.ptp(operator.positions[:, 0]) == pytest.approx(222.4, rel=1e-3)
    assert operator.project([[180.0, 0.001]]).distances[0] == pytest.approx(111.2, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.edges[11, 12, 0].pop("length"), "length: .*edge 11-12 has .'geometry', 'one"),
        (lambda g: g.edges[12, 13, 0].update(length=np.nan), "lengths: .*edge 12-13 has nan"),
        (lambda g: g.edges[12, 13, 0].update(length="far"), "length: .*edge 12-13 has 'far'"),
        (lambda g: g.edges[12, 13, 0].update(length=-1), "lengths: .*edge 12-13 has -1"),
        (lambda g: g.nodes[13].pop("x"), "graph: .*node 13 has none"),
        (lambda g: g.nodes[13].update(x="west"), "graph: expected numbers x and y"),
        (lambda g: g.remove_edges_from(list(g.edges(keys=True))), "graph: .*one edge, got none"),
    ],
)
def test_bad_graphs_are_refused(change, message):
    graph = osm()
    change(graph)
    with pytest.raises(InvalidInputError, match=message):
        cgp.LaplaceOperator.from_networkx(graph)


def test_what_is_no_graph_is_refused():
    with pytest.raises(InvalidInputError, match="graph: expected a networkx graph, got list"):
        cgp.LaplaceOperator.from_networkx([(0, 1)])
    with pytest.raises(InvalidInputError, match=r"graph: .*one edge, got none between 0 nodes"):
        cgp.LaplaceOperator.from_networkx(nx.Graph())


@pytest.mark.parametrize(
    ("courses", "message"),
    [
        ([None, None], r"courses: expected 1 \(one an edge\)"),
        ([[[0, 0]]], "courses: .*at edge 0"),
        ([[[0, 0], [np.nan, 1]]], "courses: .*at edge 0"),
        ([[0, 1]], "courses: .*at edge 0"),
        ([[["a", "b"], [0, 1]]], "courses: expected an array of numbers"),
    ],
)
def test_bad_courses_are_refused(courses, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.LaplaceOperator.from_edges([0], [1], [1.0], positions=np.eye(2), courses=courses)


def test_a_course_given_backwards_is_turned_round():
    course = [[1, 0], [1, 1], [0, 1], [0.0, 0.0]]
    operator = cgp.LaplaceOperator.from_edges(
        [0], [1], [3.0], positions=[[0, 0], [1, 0]], courses=[course], max_edge=0.5
    )
    expected = [[0, 0.5], [0, 1], [0.5, 1], [1, 1], [1, 0.5]]
    np.testing.assert_allclose(operator.positions[2:], expected, atol=1e-15)


def test_points_of_a_sphere_have_its_eigenvalues():
    points = np.random.default_rng(0).standard_normal((1500, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    operator = cgp.LaplaceOperator.from_points(np.vstack([points, points[:7]]) * 1e-6)
    assert operator.n_vertices == 1500
    np.testing.assert_array_equal(operator.given_vertices, [*range(1500), *range(7)])
    assert operator.measure == pytest.approx(4e-12 * np.pi, rel=0.01)
    M = sparse.diags_array(operator.mass * 1e12, format="csc")
    found = np.sort(eigsh(operator.stiffness.tocsc(), 16, M, sigma=-1.0)[0])
    expected = np.repeat([k * (k + 1.0) for k in range(4)], [2 * k + 1 for k in range(4)])
    np.testing.assert_allclose(found[1:], expected[1:], rtol=0.08)
    places = operator.project(points[5:9] * 1.1e-6)
    np.testing.assert_allclose(places.distances, 1e-7, rtol=0.05)
    with pytest.raises(InvalidInputError, match="a mesh's faces, got an operator without"):
        operator.at_faces()


@pytest.mark.parametrize(
    ("points", "n_neighbors", "message"),
    [
        (np.zeros((5, 2)), 3, r"points: expected shape \(n, 3\)"),
        (np.full((5, 3), np.inf), 3, "points: expected finite"),
        ([["a", "b", "c"]], 3, "points: expected an array of numbers"),
        (np.ones((9, 3)), 3, "n_neighbors: expected fewer than the 1 distinct"),
        (trimesh.creation.box().vertices, 8, "n_neighbors: expected fewer than the 8"),
        (trimesh.creation.box().vertices, 2, "n_neighbors: expected an int >= 3"),
    ],
)
def test_bad_points_are_refused(points, n_neighbors, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.LaplaceOperator.from_points(points, n_neighbors)


def test_points_need_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "robust_laplacian", None)
    with pytest.raises(MissingLibraryError, match=r"needs robust_laplacian.*coupledgp\[geo\]"):
        cgp.LaplaceOperator.from_points(trimesh.creation.box().vertices, 4)
