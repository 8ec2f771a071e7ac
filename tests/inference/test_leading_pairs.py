"""Leading eigenpairs by factors and by polynomials, on graphs whose eigenvalues are repeated."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest

from coupledgp.graphs import Graph
from coupledgp.graphs import eigenpairs as module
from coupledgp.graphs.eigenpairs import leading_eigenpairs, leading_work, pairs_plan
from coupledgp.graphs.krylov import BlockKrylov, top_pairs
from coupledgp.graphs.spectrum import Eigenpairs
from coupledgp.kernels import dense_spectrum


def copies(count: int, size: int) -> Graph:
    """Paths that are all alike: every eigenvalue is repeated."""
    start = (np.arange(count)[:, None] * size + np.arange(size - 1)).ravel()
    return Graph.from_edges(start, start + 1)


def named(graph: nx.Graph) -> Graph:
    return Graph.from_networkx(nx.convert_node_labels_to_integers(graph), weight=None)


def with_isolated() -> Graph:
    k = np.arange(199)
    return Graph.from_edges(k, k + 1, n_nodes=260)


GRAPHS: dict[str, tuple[Callable[[], Graph], int]] = {
    "grid": (lambda: named(nx.grid_2d_graph(19, 17)), 40),
    "path": (lambda: named(nx.path_graph(300)), 30),
    "star": (lambda: named(nx.star_graph(299)), 20),
    "complete": (lambda: named(nx.complete_graph(120)), 12),
    "complete bipartite": (lambda: named(nx.complete_bipartite_graph(90, 60)), 12),
    "40 components": (lambda: copies(40, 9), 60),
    "isolated nodes": (lambda: with_isolated().closed, 80),
    "isolated nodes, open": (with_isolated, 25),
    "hubs": (lambda: named(nx.barabasi_albert_graph(300, 3, seed=1)), 30),
}


@pytest.fixture
def sparse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decompose no matrix whole, however small."""
    monkeypatch.setattr(module, "DENSE_NODES", 0)
    monkeypatch.setattr(module, "FAR", 2.0)
    monkeypatch.setattr(module, "most_entries", lambda graph, distance: 100_000)
    for function in (leading_eigenpairs, pairs_plan):
        function.cache_clear()


def check(graph: Graph, n_pairs: int, found: Eigenpairs) -> None:
    expected = dense_spectrum(graph).values[-n_pairs:]
    np.testing.assert_allclose(found.values, expected, atol=1e-10)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(n_pairs), atol=1e-10)
    image = graph.normalized_adjacency @ found.vectors
    np.testing.assert_allclose(image, found.vectors * found.values, atol=1e-8)


@pytest.mark.parametrize("route", ["factor", "polynomial"])
@pytest.mark.parametrize("name", GRAPHS)
def test_pairs_are_those_of_the_dense_matrix(
    sparse_only: None, monkeypatch: pytest.MonkeyPatch, name: str, route: str
) -> None:
    graph, n_pairs = GRAPHS[name][0](), GRAPHS[name][1]
    if route == "polynomial":
        monkeypatch.setattr(module, "FAR", 0.0)
    assert pairs_plan(graph, n_pairs).route == route
    check(graph, n_pairs, leading_eigenpairs(graph, n_pairs))


def test_fewer_pairs_than_repetitions_of_the_greatest_eigenvalue(sparse_only: None) -> None:
    graph = copies(70, 6)
    check(graph, 40, leading_eigenpairs(graph, 40))


def test_a_distance_that_is_far_too_large_is_measured_again(
    sparse_only: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = named(nx.path_graph(3000))
    monkeypatch.setattr(module, "COUNT_STEPS", 12)
    module.eigenvalue_counts.cache_clear()
    distance = pairs_plan(graph, 10).distance
    found = leading_eigenpairs(graph, 10)
    exact = 1.0 - np.cos(np.pi * np.arange(10)[::-1] / 2999)
    assert distance > 50 * exact[0]
    np.testing.assert_allclose(1.0 - found.values, exact, rtol=1e-6, atol=1e-13)
    module.eigenvalue_counts.cache_clear()


def test_numbers_of_eigenvalues_are_estimated_without_any() -> None:
    for name in ("grid", "40 components", "hubs"):
        graph = GRAPHS[name][0]()
        values = dense_spectrum(graph).values
        counts = module.eigenvalue_counts(graph)
        for edge in (-0.5, 0.2, 0.7, 0.9):
            exact = np.count_nonzero(values > edge)
            assert abs(counts.above(edge) - exact) < 0.05 * values.size
        assert counts.above(-1.1) == pytest.approx(graph.n_nodes)
        assert counts.above(1.1) == 0.0


def test_the_basis_of_an_exhausted_space_goes_on_in_random_directions() -> None:
    values = np.repeat([3.0, 2.0, 1.0], [1, 3, 60])
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]
    A = (Q * values) @ Q.T
    space = BlockKrylov(lambda V: A @ V, np.empty((64, 0)), np.random.default_rng(1), 4, 40)
    for _ in range(10):
        space.step()
    basis = space.rotated(np.eye(space.size))
    np.testing.assert_allclose(basis.T @ basis, np.eye(40), atol=1e-12)
    np.testing.assert_allclose(basis.T @ A @ basis, space.projected, atol=1e-12)
    found = top_pairs(lambda V: A @ V, 64, 4, np.random.default_rng(1))
    np.testing.assert_allclose(found.values, [2, 2, 2, 3], atol=1e-12)


def test_work_is_forecast_without_eigenpairs(sparse_only: None) -> None:
    graph = named(nx.grid_2d_graph(40, 40))
    few, many = leading_work(graph, 10), leading_work(graph, 100)
    assert 0 < few.flops < many.flops
    assert 0 < few.bytes < many.bytes
    assert leading_eigenpairs.cache_info().currsize == 0
