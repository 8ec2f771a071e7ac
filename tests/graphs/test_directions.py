"""Directions of edges, and the sensors that a walk along them meets next."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.graphs.directions import GOES_ON, next_sensors_of, read_directions


def own_numbers(labels: list[int]) -> np.ndarray:
    return np.asarray(labels, dtype=np.int64)


def streets() -> nx.DiGraph:
    """A ring of one-way streets with two short cuts."""
    graph = nx.DiGraph([(k, (k + 1) % 12) for k in range(12)])
    graph.add_edge(2, 7, count=3.0)
    graph.add_edge(9, 4, count=0.5)
    return graph


def test_counts_of_a_directed_graph() -> None:
    counts = read_directions(streets(), own_numbers, 12).toarray()
    assert counts[2, 7] == 3.0
    assert counts[2, 3] == 1.0
    assert counts[7, 2] == 0.0
    both = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])
    np.testing.assert_array_equal(read_directions(both, own_numbers, 2).toarray(), [[0, 2], [1, 0]])
    matrix = np.array([[0.0, 2.0], [0.0, 0.0]])
    for given in (matrix, sparse.csr_array(matrix)):
        np.testing.assert_array_equal(read_directions(given, own_numbers, 2).toarray(), matrix)


def test_chances_are_those_of_walks_that_stop_at_sensors() -> None:
    counts, sensors = read_directions(streets(), own_numbers, 12), np.array([0, 2, 5, 8])
    for moves in (counts, sparse.csr_array(counts.T)):
        dense = moves.toarray()
        step = GOES_ON * dense / np.maximum(dense.sum(axis=1, keepdims=True), 1e-300)
        here, found = step[sensors], np.zeros((4, 4))
        for _ in range(20_000):
            found += here[:, sensors]
            here[:, sensors] = 0.0
            here = here @ step
        np.fill_diagonal(found, 0.0)
        np.testing.assert_allclose(next_sensors_of(moves, sensors), found, atol=1e-10)


def test_turning_counts_share_a_junction() -> None:
    fork = nx.DiGraph()
    fork.add_edge(0, 1)
    fork.add_edge(1, 2, count=30)
    fork.add_edge(1, 3, count=10)
    counts, sensors = read_directions(fork, own_numbers, 4), np.array([3, 0, 2])
    found = next_sensors_of(counts, sensors)
    expected = np.zeros((3, 3))
    expected[1] = [0.25 * GOES_ON**2, 0.0, 0.75 * GOES_ON**2]
    np.testing.assert_allclose(found, expected)
    back = next_sensors_of(sparse.csr_array(counts.T), sensors)
    np.testing.assert_allclose(back, GOES_ON**2 * (expected.T > 0))


def test_bad_directions_are_named() -> None:
    with pytest.raises(InvalidInputError, match="directions: expected a directed graph"):
        read_directions(nx.path_graph(3), own_numbers, 3)
    with pytest.raises(InvalidInputError, match=r"shape \(3, 3\) of all nodes, got \(2, 2\)"):
        read_directions(np.zeros((2, 2)), own_numbers, 3)
    with pytest.raises(InvalidInputError, match="directions: expected a directed networkx graph"):
        read_directions([(0, 1)], own_numbers, 3)
    with pytest.raises(InvalidInputError, match="at least one edge"):
        read_directions(nx.DiGraph(), own_numbers, 3)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidInputError, match="directions: expected"):
            read_directions(np.array([[0.0, bad], [0.0, 0.0]]), own_numbers, 2)
