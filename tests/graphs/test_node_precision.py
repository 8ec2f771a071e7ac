"""Evidence by sparse precisions of nodes, against dense references, and forecasts of its cost."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import linalg, sparse

from coupledgp.errors import InvalidInputError, MemoryLimitError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import ObservedEvidence, PrecisionEvidence
from coupledgp.graphs.laplacian_power import (
    ObservedPrecision,
    PowerPattern,
    count_walks,
    middle_level,
    ordered_power,
    power_pattern,
    precision_work,
)
from coupledgp.graphs.readers import Csr
from coupledgp.graphs.spectral import SpectralMoments
from coupledgp.kernels import GraphMaternKernel, HeatKernel, RegularizedLaplacianKernel

RNG = np.random.default_rng(21)


def weighted(graph, decades=2.0):
    """The graph with weights that differ by some powers of ten, and a self-loop."""
    upper = sparse.triu(graph.adjacency).tocoo()
    weights = 10 ** RNG.uniform(-decades / 2, decades / 2, upper.nnz + 1)
    rows, columns = np.append(upper.row, 2), np.append(upper.col, 2)
    return Graph.from_edges(
        rows.astype(int), columns.astype(int), weights, n_nodes=graph.n_nodes
    ).closed


def scaled(graph):
    """The graph with scales of its nodes."""
    csr = Csr(graph.indptr.copy(), graph.indices.copy(), graph.weights.copy())
    return Graph(csr, node_scale=np.exp(RNG.normal(size=graph.n_nodes)))


GRID = Graph.from_networkx(nx.grid_2d_graph(6, 9))
GRAPHS = {
    "grid": GRID,
    "mesh": Graph.from_networkx(nx.triangular_lattice_graph(5, 8)),
    "tree": Graph.from_networkx(nx.random_labeled_tree(50, seed=2)),
    "hubs": Graph.from_networkx(nx.barabasi_albert_graph(40, 3, seed=1)),
    "weighted": weighted(GRID),
    "scaled": scaled(weighted(GRID)),
    "parts": Graph.from_edges([0, 1, 2, 4, 5, 9, 9], [1, 2, 0, 5, 6, 10, 9], n_nodes=13).closed,
    "empty": Graph.from_edges([], [], n_nodes=4).closed,
}


def problem(graph, power):
    """The sparse evidence of repeated nodes with two outputs, and the dense one."""
    nodes = RNG.integers(graph.n_nodes, size=graph.n_nodes // 2 + 2)
    Y = RNG.normal(size=(nodes.size, 2))
    return (
        PrecisionEvidence(graph, power, nodes, Y),
        ObservedEvidence(graph, nodes, Y, SpectralMoments),
    )


def assert_terms_agree(found, expected, tolerance):
    """Require value and slopes to agree, relatively for the fit and in nats for determinants."""
    size = expected.fit
    np.testing.assert_allclose(found.fit, size, rtol=tolerance)
    np.testing.assert_allclose(found.fit_slope, expected.fit_slope, atol=tolerance * size)
    logs = (found.log_determinant, *found.log_determinant_slope)
    known = (expected.log_determinant, *expected.log_determinant_slope)
    np.testing.assert_allclose(logs, known, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_evidence_and_slopes_are_the_dense_ones(name, power):
    sparse_one, dense = problem(GRAPHS[name], power)
    for scale in (0.01, 3.0, 100.0):
        for ratio in (1e-7, 1e-2, 10.0):
            kernel = RegularizedLaplacianKernel(scale, float(power))
            found, expected = sparse_one.terms(kernel, ratio), dense.terms(kernel, ratio)
            assert_terms_agree(found, expected, 1e-7)


@pytest.mark.parametrize(("power", "scale"), [(1, 1e8), (2, 1e4), (2, 1e6), (3, 1e4)])
def test_wide_kernels_lose_few_digits(power, scale):
    """The entries of the precision grow as s^p, and their rounding with them."""
    kernel = RegularizedLaplacianKernel(scale, float(power))
    for name in ("grid", "weighted", "scaled"):
        sparse_one, dense = problem(GRAPHS[name], power)
        for ratio, tolerance in ((1e-7, 1e-5), (1e-2, 1e-3)):
            found, expected = sparse_one.terms(kernel, ratio), dense.terms(kernel, ratio)
            assert_terms_agree(found, expected, tolerance)


def test_evidence_is_refused_where_rounding_hides_it():
    sparse_one, _ = problem(GRID, 3)
    with pytest.raises(NumericalError, match=r"nats only|positive definite"):
        sparse_one.terms(RegularizedLaplacianKernel(1e8, 3.0), 1.0)


@pytest.mark.parametrize(
    "kernel", [RegularizedLaplacianKernel(5.0, 2.0), GraphMaternKernel(3.0, 1.0)], ids=repr
)
def test_slopes_are_those_of_the_values(kernel):
    power, step = round(kernel.exponent), 1e-4
    evidence, _ = problem(GRAPHS["scaled"], power)

    def values(theta, log_ratio):
        terms = evidence.terms(kernel.with_theta(theta), float(np.exp(log_ratio)))
        return np.array([terms.fit, terms.log_determinant])

    theta, ratio = kernel.theta, np.log(0.05)
    terms = evidence.terms(kernel, 0.05)
    by_theta = (values(theta + step, ratio) - values(theta - step, ratio)) / (2 * step)
    by_ratio = (values(theta, ratio + step) - values(theta, ratio - step)) / (2 * step)
    np.testing.assert_allclose(
        [terms.fit_slope, terms.log_determinant_slope],
        np.transpose([by_theta, by_ratio]),
        rtol=1e-5,
    )


@pytest.mark.parametrize("power", [1, 2, 3])
def test_traces_are_near_the_mean_diagonal_and_have_their_own_slopes(power):
    graph = Graph.from_networkx(nx.grid_2d_graph(20, 21))
    evidence, dense = problem(graph, power)
    kernel, step = RegularizedLaplacianKernel(4.0, float(power)), 1e-4
    found, expected = evidence.traces(kernel), dense.traces(kernel)
    assert abs(found[0] / expected[0] - 1) < 6 * np.sqrt(2 / (4 * graph.n_nodes))
    up, down = (evidence.traces(kernel.with_theta(kernel.theta + e))[0] for e in (step, -step))
    np.testing.assert_allclose(found[1], (up - down) / (2 * step), rtol=1e-6)


def test_other_exponents_are_refused():
    evidence, _ = problem(GRID, 2)
    for kernel in (RegularizedLaplacianKernel(1.0, 1.0), HeatKernel(1.0)):
        with pytest.raises(InvalidInputError, match="exponent"):
            evidence.terms(kernel, 0.1)


def test_factors_are_kept_and_replaced_one_at_a_time(monkeypatch):
    """Two values at one kernel take one factor of `I + s L~`, and no second factor of M."""
    made = []
    init = ObservedPrecision.__init__

    def counted(self, pattern, scale, weights):
        made.append(pattern.power)
        init(self, pattern, scale, weights)

    monkeypatch.setattr(ObservedPrecision, "__init__", counted)
    evidence, _ = problem(GRID, 2)
    kernel = RegularizedLaplacianKernel(2.0, 2.0)
    evidence.traces(kernel)
    evidence.terms(kernel, 0.1)
    evidence.terms(kernel, 0.1)
    assert made == [1, 2]
    evidence.terms(kernel, 0.2)
    assert made == [1, 2, 2]


@pytest.mark.parametrize("power", [1, 2, 4])
@pytest.mark.parametrize("name", ["mesh", "weighted", "parts"])
def test_matrices_on_the_pattern(name, power):
    graph = GRAPHS[name]
    pattern, s = power_pattern(graph, power), 1.7
    L = np.eye(graph.n_nodes) - graph.normalized_adjacency.toarray()
    w = RNG.uniform(0, 3, graph.n_nodes)
    M = np.linalg.matrix_power(np.eye(graph.n_nodes) + s * L, power) + np.diag(w)
    found = ObservedPrecision(pattern, s, w)
    np.testing.assert_allclose(found.log_determinant, np.linalg.slogdet(M)[1])
    inverse = linalg.inv(M)
    slope = s * power * np.linalg.matrix_power(np.eye(len(L)) + s * L, power - 1) @ L
    np.testing.assert_allclose(found.variances, np.diagonal(inverse), rtol=1e-9)
    V = RNG.normal(size=(graph.n_nodes, 3))
    np.testing.assert_allclose(found.solve(V), inverse @ V, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        pattern.inner(found.inverse, pattern.slope(s)),
        np.trace(inverse @ slope),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize(("power", "scale"), [(2, 1e6), (3, 1e4)])
def test_solutions_are_corrected_for_the_rounding_of_powers(power, scale):
    """Against extended precision; without the correction the errors are above 1e-5."""
    graph = GRAPHS["weighted"]
    links = graph.adjacency.toarray().astype(np.longdouble)
    roots = np.sqrt(links.sum(axis=1))
    root = np.eye(len(links)) * (1 + np.longdouble(scale)) - scale * links / np.outer(roots, roots)
    w = np.zeros(graph.n_nodes)
    w[[3, 20]] = 1.0
    both = np.linalg.matrix_power(root, power) + np.diag(w)
    V = np.zeros((graph.n_nodes, 1))
    V[[3, 20], 0] = 1.0, -0.5
    both = np.hstack([both, V])
    for row in range(graph.n_nodes):
        both[row] /= both[row, row]
        others = np.arange(graph.n_nodes) != row
        both[others] -= np.outer(both[others, row], both[row])
    found = ObservedPrecision(power_pattern(graph, power), scale, w).solve(V)
    assert np.abs(found - both[:, -1:]).max() < 1e-6 * np.abs(found).max()


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_forecast_counts_the_factor_and_bounds_the_power(name, power):
    graph = GRAPHS[name]
    ordered, work = ordered_power(graph, power), precision_work(graph, power)
    A = np.eye(graph.n_nodes) + (graph.adjacency.toarray() > 0)
    reached = np.linalg.matrix_power(A, power) > 0
    np.testing.assert_array_equal(ordered.matrix.toarray(), reached)
    assert count_walks(graph, power) >= reached.sum()
    dense = np.where(reached, 1e-3, 0.0) + np.eye(graph.n_nodes)
    L = linalg.cholesky(dense[np.ix_(ordered.order, ordered.order)], lower=True)
    assert work.entries >= (L != 0).sum()
    assert work.entries <= graph.n_nodes * (graph.n_nodes + 1) / 2
    assert work.flops > 0
    assert work.bytes > 8 * work.entries


def test_powers_of_stars_are_refused_before_they_are_formed():
    n = 100_000
    star = Graph.from_edges(np.zeros(n, dtype=int), np.arange(1, n + 1))
    work = precision_work(star, 2)
    assert work.flops == work.bytes == np.inf
    assert "walks" in work.reason
    with pytest.raises(MemoryLimitError, match="walks"):
        PowerPattern(star, 2)
    assert precision_work(Graph.from_networkx(nx.star_graph(300)), 1).entries == 601


def test_expanders_are_refused_before_they_are_put_in_order(monkeypatch):
    grid, star = (Graph.from_networkx(g) for g in (nx.grid_2d_graph(9, 30), nx.star_graph(50)))
    assert 9 <= middle_level(grid) <= 18
    assert middle_level(star) == 0
    expander = Graph.from_networkx(nx.random_regular_graph(4, 20_000, seed=1))
    monkeypatch.setattr("coupledgp.graphs.laplacian_power.ordered_power", None)
    work = precision_work(expander, 1)
    assert work.flops == np.inf
    assert "fills in" in work.reason
