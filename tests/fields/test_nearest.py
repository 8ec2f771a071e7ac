"""Nearest places, sizes of refinements and longest ways in cases where small things decide."""

import networkx as nx
import numpy as np
import pytest

from coupledgp.fields.locations import nearest_places, plane_weights
from coupledgp.fields.meshes import estimate_vertices, refine
from coupledgp.fields.networks import longest_way, shortest_links


@pytest.mark.parametrize("turned", [False, True])
def test_of_equally_near_elements_the_first_is_taken(turned):
    """The point lies on the edge between two triangles, and far ones of another size stand by."""
    pair = [[[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 0, 0], [1, 0, 0], [0, -1, 0]]]
    far = [[[50, 0, 0], [60, 0, 0], [50, 10, 0]]]
    corners = np.array(pair[::-1] + far if turned else pair + far, dtype=float)
    found = nearest_places(np.array([[0.4, 0.0, 0.0]]), corners)
    assert found.elements.tolist() == [0]
    assert found.distances[0] == pytest.approx(0.0, abs=1e-15)
    alone = nearest_places(np.array([[0.4, 0.0, 0.0]]), np.concatenate([corners[2:], corners[:2]]))
    assert alone.elements.tolist() == [1]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
def test_triangles_of_any_unit_have_a_plane(unit):
    corners = unit * np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]])
    weights = plane_weights(unit * np.array([[0.2, 0.3, 0.7]]), corners)
    np.testing.assert_allclose(weights, [[0.5, 0.2, 0.3]], rtol=1e-9)
    line = unit * np.array([[[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]])
    np.testing.assert_array_equal(plane_weights(np.zeros((1, 3)), line), -1.0)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("max_edge", [0.3, 0.1])
def test_refinements_are_as_large_as_expected(unit, max_edge):
    """Of a square: within a factor of two of what is then made, in any unit."""
    square = unit * np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    expected = estimate_vertices(square, faces, unit * max_edge)
    made = len(refine(square, faces, unit * max_edge).positions)
    assert 0.5 < expected / made < 2


def test_the_longest_way_begins_at_the_end_of_another():
    """Three arms of a star: the way between the two longest, from whichever vertex it is sought."""
    arms = [3.0, 5.0, 4.0]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        elements = np.array([[3, k] for k in order])
        lengths = np.array([arms[k] for k in order])
        assert longest_way(elements, lengths, 4) == pytest.approx(9.0)
    path = np.array([[1, 0], [1, 2], [2, 3]])
    assert longest_way(path, np.array([1.0, 2.0, 4.0]), 4) == pytest.approx(7.0)


@pytest.mark.parametrize("lengths", [[2.0, 7.0], [7.0, 2.0]])
def test_the_shortest_of_parallel_edges_is_the_way(lengths):
    elements = np.array([[0, 1], [1, 0], [1, 2]])
    links = shortest_links(elements, np.array([*lengths, 1.0]), 3)
    assert links.toarray()[0, 1] == 2.0
    assert longest_way(elements, np.array([*lengths, 1.0]), 3) == pytest.approx(3.0)


def test_ways_of_random_trees_are_those_of_networkx():
    for seed in range(5):
        tree = nx.random_labeled_tree(12, seed=seed)
        rng = np.random.default_rng(seed)
        elements, lengths = np.array(tree.edges), rng.uniform(0.1, 2.0, 11)
        for (a, b), length in zip(elements, lengths, strict=True):
            tree[a][b]["weight"] = length
        ways = dict(nx.all_pairs_dijkstra_path_length(tree))
        longest = max(max(ends.values()) for ends in ways.values())
        assert longest_way(elements, lengths, 12) == pytest.approx(longest)
