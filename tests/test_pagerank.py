"""PageRank by walks against networkx, for every coupling."""

import itertools

import networkx as nx
import numpy as np
import pytest

from coupledgp.couplings import (
    IndependentSteps,
    RepellingSteps,
    SystematicSteps,
    available_walker_couplings,
)
from coupledgp.graphs import Graph
from coupledgp.graphs.page_rank import eigenmoves, pagerank, solve_pagerank_sigma
from coupledgp.graphs.walk_steps import moves_of
from coupledgp.graphs.walk_visits import plain_ends
from coupledgp.graphs.walks import walk_ends
from tests.graph_cases import assert_mean_is, copies, karate, weighted_graph

N_DRAWS = 400


def draw(graph: Graph, p_halt: float, n_walks: int, coupling: str) -> np.ndarray:
    """Independent estimates (N_DRAWS, n_nodes), by one call on N_DRAWS copies of the graph."""
    many = pagerank(copies(graph, N_DRAWS), p_halt, n_walks, coupling, generator=1)
    return N_DRAWS * many.reshape(N_DRAWS, graph.n_nodes)


def exact_pagerank(graph: Graph, p_halt: float) -> np.ndarray:
    """The vector of networkx, nodes by number."""
    own = nx.from_scipy_sparse_array(graph.closed.adjacency)
    found = nx.pagerank(own, alpha=1 - p_halt, tol=1e-13, max_iter=2000)
    return np.array([found[node] for node in range(graph.n_nodes)])


@pytest.mark.parametrize("coupling", available_walker_couplings())
def test_estimate_is_unbiased(coupling: str) -> None:
    graph = karate()
    draws = draw(graph, 0.3, 2, coupling)
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    assert_mean_is(draws, exact_pagerank(graph, 0.3))


@pytest.mark.long
def test_weighted_graph_with_isolated_node() -> None:
    graph = weighted_graph()
    draws = draw(graph, 0.2, 4, "sigma")
    truth = exact_pagerank(graph, 0.2)
    assert truth[13] == pytest.approx(1 / 14)
    assert_mean_is(draws, truth)
    assert_mean_is(draw(graph, 0.2, 4, "iid+repelling"), truth)


def test_ends_are_those_of_the_reference() -> None:
    graph, rng = karate(), np.random.default_rng(0)
    rows, lengths = np.arange(34), rng.integers(0, 6, (34, 5))
    for steps in (IndependentSteps(), RepellingSteps(), SystematicSteps()):
        found = walk_ends(4, rows, lengths, steps.compiled, moves_of(graph))
        expected = plain_ends(4, rows, lengths, steps, graph)
        np.testing.assert_array_equal(found, expected)


def test_sigma_is_the_best_permutation() -> None:
    sigma = solve_pagerank_sigma(0.4, order=5, reference=karate())
    graph, p = karate(), 0.4
    move = graph.adjacency.toarray() / graph.degrees[:, None]
    cut = 60
    ends = np.zeros((5, 34, 34))
    edges = 1 - (1 - p) ** np.arange(cut + 2)
    for q, t in itertools.product(range(5), range(cut)):
        overlap = min((q + 1) / 5, edges[t + 1]) - max(q / 5, edges[t])
        if overlap > 0:
            ends[q] += 5 * overlap * np.linalg.matrix_power(move, t)
    cost = np.einsum("aij,bij->ab", ends, ends)
    best = min(
        sum(cost[q, s] for q, s in enumerate(order)) for order in itertools.permutations(range(5))
    )
    assert cost[np.arange(5), sigma].sum() == pytest.approx(best, rel=1e-6)


def test_moves_from_their_eigenvectors_are_the_moves() -> None:
    """With weights, a self-loop, components and a node that a walker cannot leave."""
    graph = Graph.from_edges([0, 1, 2, 4, 3], [1, 2, 3, 5, 3], [1.0, 2.0, 0.5, 9.0, 4.0], 7)
    values, left, right = eigenmoves(graph)
    degrees = np.where(graph.degrees > 0, graph.degrees, 1.0)
    move = graph.adjacency.toarray() / degrees[:, None]
    move[6, 6] = 1.0
    for t in (1, 2, 7):
        expected = np.linalg.matrix_power(move, t)
        np.testing.assert_allclose((left * values**t) @ right, expected, atol=1e-12)


def test_coupling_reduces_the_error() -> None:
    graph = karate()
    truth = exact_pagerank(graph, 0.3)
    error = {
        coupling: ((draw(graph, 0.3, 8, coupling) - truth) ** 2).sum(axis=1).mean()
        for coupling in ("iid", "sigma", "stratified+systematic")
    }
    assert error["sigma"] < error["iid"]
    assert error["stratified+systematic"] < 0.85 * error["iid"]


def test_same_seed_same_bits() -> None:
    np.testing.assert_array_equal(pagerank(karate(), generator=1), pagerank(karate(), generator=1))
