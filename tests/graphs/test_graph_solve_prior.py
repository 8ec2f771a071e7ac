"""Sparse factorisations of the shifted Laplacian, and priors by them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import linalg, sparse

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.graphs.laplacian_power import SolvePrior, choose_solve, graph_laplacian
from coupledgp.graphs.priors import SpectralPrior
from coupledgp.kernels import GraphMaternKernel, HeatKernel, RegularizedLaplacianKernel
from coupledgp.linalg.sparse_cholesky import SparseFactor, factor_entries, minimum_degree

RNG = np.random.default_rng(11)


def mixed_graph():
    """Weighted graph with a self-loop, an isolated node and two components."""
    rows = [0, 1, 2, 3, 3, 5, 6, 7, 5]
    columns = [1, 2, 3, 0, 3, 6, 7, 5, 7]
    return cgp.Graph.from_edges(rows, columns, RNG.uniform(0.5, 2, 9), n_nodes=9)


GRAPHS = {
    "mixed": mixed_graph(),
    "grid": cgp.Graph.from_networkx(nx.grid_2d_graph(6, 7)),
    "hubs": cgp.Graph.from_networkx(nx.barabasi_albert_graph(40, 2, seed=1)),
    "empty": cgp.Graph.from_edges([], [], n_nodes=4),
}
KERNELS = [
    RegularizedLaplacianKernel(3.0, 1.0),
    RegularizedLaplacianKernel(0.5, 2.0),
    RegularizedLaplacianKernel(20.0, 3.0),
    GraphMaternKernel(4.0, 2.0),
]


@pytest.mark.parametrize("name", GRAPHS)
def test_entries_are_counted_as_cholesky_has_them(name):
    graph = GRAPHS[name]
    order = minimum_degree(graph.adjacency)
    assert sorted(order) == list(range(graph.n_nodes))
    shifted = sparse.csc_array(sparse.eye_array(graph.n_nodes) + 2.0 * graph_laplacian(graph))
    A = shifted.toarray()[np.ix_(order, order)]
    L = linalg.cholesky(A, lower=True)
    entries = int((np.abs(L) > 1e-14).sum())
    assert factor_entries(graph.adjacency, order, 10**6) == entries
    assert factor_entries(graph.adjacency, order, graph.n_nodes // 2) <= entries
    assert SparseFactor(shifted, order).n_entries == entries


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("name", GRAPHS)
def test_products_and_gradients_are_the_dense_ones(name, kernel):
    graph = GRAPHS[name]
    solved, dense = SolvePrior(graph, kernel), SpectralPrior(graph, kernel)
    n = graph.n_nodes
    out, into = RNG.permutation(n)[: n // 2 + 1], RNG.permutation(n)[: n // 2]
    V = RNG.standard_normal((into.size, 3))
    np.testing.assert_allclose(
        solved.product(out, into, V), dense.product(out, into, V), atol=1e-12
    )
    np.testing.assert_allclose(
        solved.gradient_products(into, V), dense.gradient_products(into, V), atol=1e-12
    )
    other = kernel.scaled(2.0)
    np.testing.assert_allclose(
        solved.at(other).matrix(out, into),
        SpectralPrior(graph, other).matrix(out, into),
        atol=1e-12,
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("name", GRAPHS)
def test_samples_have_the_kernel_as_covariance(name, kernel):
    """Exactly: the noise is replaced by the columns of an identity, one source at a time."""
    graph = GRAPHS[name]
    n_edges = int((graph.adjacency.tocoo().row < graph.adjacency.tocoo().col).sum())
    n_alone = int((graph.degrees == 0).sum())
    sizes = [graph.n_nodes, n_edges, n_alone]

    class Sources:
        """Stands in for random numbers: the rows of an identity over all sources of noise."""

        calls = 0

        def standard_normal(self, shape):
            start = sum(sizes[: self.calls])
            self.calls += 1
            return np.eye(shape[1])[start : start + shape[0]]

    nodes = np.arange(graph.n_nodes)
    prior = SolvePrior(graph, kernel)
    root = prior.sample(nodes, sum(sizes), Sources())
    np.testing.assert_allclose(root @ root.T, prior.matrix(nodes, nodes), atol=1e-12)


def test_the_choice_follows_the_cost():
    grid = cgp.Graph.from_networkx(nx.grid_2d_graph(40, 40))
    wide, short = RegularizedLaplacianKernel(100.0, 2.0), RegularizedLaplacianKernel(1e-6, 1.0)
    chosen = choose_solve(grid, wide, 1e-8)
    assert chosen.factorise
    assert "forecast" in chosen.reason
    assert not choose_solve(grid, short, 1e-8).factorise
    assert not choose_solve(grid, HeatKernel(50.0), 1e-8).factorise
    full = cgp.Graph.from_networkx(nx.random_regular_graph(4, 6000, seed=0))
    assert not choose_solve(full, RegularizedLaplacianKernel(0.3, 2.0), 1e-8).factorise
    star = cgp.Graph.from_networkx(nx.star_graph(20_000))  # its square has a billion entries
    assert choose_solve(star, RegularizedLaplacianKernel(1e4, 2.0), 1e-8).factorise


def test_the_regressor_chooses_and_agrees():
    graph = cgp.Graph.from_networkx(nx.grid_2d_graph(36, 36))
    nodes = [graph.label(k) for k in RNG.permutation(graph.n_nodes)[:60]]
    y = np.array([a / 10 + 0.1 * RNG.normal() for a, _ in nodes])
    settings = {"optimizer": None, "noise": 0.1, "outputscale": 2.0}
    kernel = RegularizedLaplacianKernel(80.0, 2.0)
    laws = {}
    for method in ("auto", "series", "spectral", "cholesky"):
        gp = cgp.ExactGraphGPRegressor(graph, kernel, method=method, **settings).fit(nodes, y)
        laws[method] = gp.predict(nodes[:7], return_cov=True)
        assert gp.method_ == ("cholesky" if method == "auto" else method)
        assert gp.method_reason_
    for method in ("auto", "cholesky", "series"):
        for found, expected in zip(laws[method], laws["spectral"], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "kernel", [HeatKernel(1.0), RegularizedLaplacianKernel(1.0, 1.5)], ids=repr
)
def test_other_kernels_are_refused(kernel):
    with pytest.raises(InvalidInputError, match="whole number"):
        SolvePrior(GRAPHS["grid"], kernel)
