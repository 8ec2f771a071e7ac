"""Posteriors by blocks of few hidden or observed nodes, and diagonals by poles, against dense."""

from functools import partial

import networkx as nx
import numpy as np
import pytest

from coupledgp.errors import NumericalError
from coupledgp.gp import node_priors
from coupledgp.graphs import Graph
from coupledgp.inference.nodes import hidden_posterior, posterior, precision, priors, rational
from coupledgp.inference.nodes.exact_evidence import tolerance_for
from coupledgp.inference.nodes.hidden_posterior import HiddenPosterior, direct_class
from coupledgp.inference.nodes.posterior import DensePosterior
from coupledgp.inference.nodes.priors import SeriesPrior, SpectralPrior
from coupledgp.inference.nodes.rational import diagonal_of, rational_diagonal, rational_fit
from coupledgp.kernels import (
    GraphKernel,
    HeatKernel,
    InverseCosineKernel,
    RegularizedLaplacianKernel,
    dense_kernel,
    dense_spectrum,
)
from coupledgp.models import ExactGraphGPRegressor


def named(graph: nx.Graph) -> Graph:
    return Graph.from_networkx(nx.convert_node_labels_to_integers(graph), weight=None)


def parts() -> Graph:
    """Three bodies and nodes without edges, as models take them."""
    k = np.arange(39)
    start = np.concatenate([k, k + 40, [80, 81, 80]])
    end = np.concatenate([k + 1, k + 41, [81, 82, 82]])
    return Graph.from_edges(start, end, n_nodes=88).closed


GRAPHS = {
    "grid": lambda: named(nx.grid_2d_graph(11, 8)),
    "three bodies": parts,
    "star": lambda: named(nx.star_graph(60)),
    "path": lambda: named(nx.path_graph(70)),
    "complete": lambda: named(nx.complete_graph(40)),
    "bipartite": lambda: named(nx.complete_bipartite_graph(20, 25)),
    "edge": lambda: named(nx.path_graph(2)),
}
KERNELS = {
    "heat": HeatKernel(6.0),
    "wide heat": HeatKernel(60.0),
    "power": RegularizedLaplacianKernel(20.0, 1.5),
    "cosine": InverseCosineKernel(),
}


def exact(
    graph: Graph, kernel: GraphKernel, nodes: np.ndarray, Y: np.ndarray, v: float, s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at all nodes, in coordinates of the eigenvectors: nothing cancels."""
    values, vectors = dense_spectrum(graph)
    F = vectors * np.sqrt(v * kernel.spectral(values))
    B = F[nodes].T @ F[nodes] + s * np.eye(values.size)
    half = np.linalg.solve(B, F.T)
    return half.T @ F[nodes].T @ Y, s * F @ half


@pytest.mark.parametrize("noise", [1e-2, 1e-7])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", [HiddenPosterior, DensePosterior])
def test_means_and_covariances_are_exact(
    kind: type, name: str, kernel: GraphKernel, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (posterior, priors):  # nothing is too small for the paths of many nodes
        monkeypatch.setattr(module, "BLOCK" if module is posterior else "BLOCK_COLUMNS", 3)
    if kind is HiddenPosterior and kernel == KERNELS["cosine"] and noise < 1e-5:
        pytest.skip("r / (K + r) has no series: direct_class takes the other posterior")
    graph, v = GRAPHS[name](), 2.0
    rng = np.random.default_rng(0)
    order = rng.permutation(graph.n_nodes)
    nodes = order[: max(int(0.8 * order.size), 1)]
    values, vectors = dense_spectrum(graph)
    Y = (vectors * np.sqrt(v * kernel.spectral(values))) @ rng.standard_normal((values.size, 2))
    Y = Y[nodes] + np.sqrt(noise) * rng.standard_normal((nodes.size, 2))
    ratio = noise / v
    found = kind(SeriesPrior(graph, kernel, tolerance_for(ratio)), nodes, Y, v, noise)
    mean, covariance = exact(graph, kernel, nodes, Y, v, noise)
    every = np.concatenate([np.arange(graph.n_nodes), nodes[:2]])
    spread = np.sqrt(np.diag(covariance))[every, None]
    # Errors in standard deviations of the posterior.
    assert (np.abs(found.mean(every) - mean[every]) < 1e-3 * spread).all()
    expected = spread[:, 0] ** 2
    np.testing.assert_allclose(found.variance(every), expected, rtol=1e-4, atol=1e-4 * noise)
    gap = np.abs(found.covariance(every) - covariance[np.ix_(every, every)])
    assert (gap < 1e-4 * (spread * spread.T + noise)).all()
    A = v * dense_kernel(graph, kernel)[np.ix_(nodes, nodes)] + noise * np.eye(nodes.size)
    np.testing.assert_allclose(A @ found.solve(Y), Y, atol=1e-4 * np.sqrt(v))


def test_draws_have_the_covariance() -> None:
    graph, kernel = GRAPHS["grid"](), HeatKernel(6.0)
    nodes = np.random.default_rng(1).permutation(graph.n_nodes)[:80]
    found = HiddenPosterior(SeriesPrior(graph, kernel), nodes, np.zeros((80, 1)), 1.0, 0.01)
    hidden = np.setdiff1d(np.arange(graph.n_nodes), nodes)
    draws = found.deviations(hidden, 20_000, np.random.default_rng(2))
    expected = found.covariance(hidden)
    assert np.abs(draws @ draws.T / 20_000 - expected).max() < 6 * expected.max() * 0.01


def test_columns_that_are_too_large_to_keep_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, every = GRAPHS["grid"](), np.arange(88)
    args = SeriesPrior(graph, HeatKernel(6.0)), every[:70], np.ones((70, 1)), 1.0, 0.01
    kept = HiddenPosterior(*args).variance(every)
    monkeypatch.setattr(hidden_posterior, "KEPT_ENTRIES", 0)
    monkeypatch.setattr(priors, "KEPT_COLUMNS", 0)
    np.testing.assert_allclose(HiddenPosterior(*args).variance(every), kept, rtol=1e-10)
    np.testing.assert_allclose(DensePosterior(*args).variance(every), kept, rtol=1e-4)


def test_the_block_that_costs_less_is_taken() -> None:
    graph = named(nx.grid_2d_graph(40, 30))
    prior, every = SeriesPrior(graph, HeatKernel(6.0)), np.arange(graph.n_nodes)
    assert direct_class(prior, every[:1100], 0.01) is HiddenPosterior
    assert direct_class(prior, every[:100], 0.01) is DensePosterior
    assert direct_class(prior, np.append(every[:1100], 0), 0.01) is DensePosterior
    rough = SeriesPrior(graph, InverseCosineKernel(), 1e-12)
    assert direct_class(rough, every[:1150], 1e-8) is DensePosterior
    assert direct_class(SpectralPrior(GRAPHS["grid"](), HeatKernel(6.0)), every[:9], 0.1) is None


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("name", GRAPHS)
def test_diagonals_by_poles_are_those_of_eigenvectors(name: str, kernel: GraphKernel) -> None:
    graph = GRAPHS[name]()
    values, vectors = dense_spectrum(graph)
    smooth = partial(hidden_posterior._smooth, kernel, 1e-4)
    for function in (kernel.spectral, smooth):
        found = diagonal_of(graph, function, 1e-10)
        np.testing.assert_allclose(found, vectors**2 @ function(values), atol=1e-9)


# The others have no factor, and take columns.
@pytest.mark.parametrize("name", [n for n in GRAPHS if n not in ("complete", "bipartite")])
def test_complex_poles_give_diagonals_without_columns(name: str) -> None:
    graph, kernel = GRAPHS[name](), HeatKernel(3.0)
    values, vectors = dense_spectrum(graph)
    fit = rational_fit(kernel.spectral, 1e-10)
    assert fit.poles.imag.any()
    expected = vectors**2 @ kernel.spectral(values)
    np.testing.assert_allclose(rational_diagonal(graph, fit), expected, atol=1e-9)


@pytest.mark.parametrize("time", [0.1, 3.0, 1e2, 1e4])
def test_a_heat_kernel_takes_few_poles_whatever_its_time(time: float) -> None:
    kernel = HeatKernel(time)
    for function in (kernel.spectral, partial(hidden_posterior._smooth, kernel, 1e-6)):
        fit = rational_fit(function, 1e-10)
        assert fit.poles.size <= 12
        d = np.random.default_rng(0).uniform(0.0, 2.0, 4000) ** 3 / 4
        np.testing.assert_allclose(fit.at(d), function(1.0 - d), atol=2e-10)


def test_functions_without_a_fit_are_refused_and_take_columns() -> None:
    with pytest.raises(NumericalError, match="poles reach"):
        rational_fit(lambda x: np.sign(x - 0.123), 1e-8)
    constant = rational_fit(lambda x: np.full(x.shape, 2.5), 1e-8)
    graph = GRAPHS["grid"]()
    np.testing.assert_allclose(rational_diagonal(graph, constant), 2.5)
    assert rational_fit(np.zeros_like, 1e-8).at(np.ones(2)).tolist() == [0.0, 0.0]
    kernel = HeatKernel(3.0)
    by_columns = rational.diagonal_by_columns(graph, kernel.spectral, 1e-12, np.arange(5))
    np.testing.assert_allclose(by_columns, np.diag(dense_kernel(graph, kernel))[:5], atol=1e-11)


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_models_answer_with_exact_variances_of_all_nodes(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_priors, "SPECTRAL_LIMIT", 10)
    graph, kernel = named(nx.grid_2d_graph(25, 24)), HeatKernel(6.0)
    nodes = np.random.default_rng(3).permutation(600)[: int(share * 600)]
    y = np.sin(nodes / 50.0)
    model = ExactGraphGPRegressor(
        graph, kernel, optimizer=None, outputscale=1.0, noise=1e-3, normalize_y=False
    ).fit(nodes, y)
    kinds = {0.1: DensePosterior, 0.9: HiddenPosterior}
    assert type(model.process_.posterior) is kinds[share]
    found = model.predict(np.arange(600), return_std=True)
    mean, covariance = exact(graph, kernel, nodes, y[:, None], 1.0, 1e-3)
    np.testing.assert_allclose(found[0], mean[:, 0], atol=1e-5)
    np.testing.assert_allclose(found[1], np.sqrt(np.diag(covariance) + 1e-3), rtol=1e-4)


def beside_hubs() -> Graph:
    """A grid, two of whose nodes are linked to a fifth of it and to each other."""
    grid, rng = (
        nx.convert_node_labels_to_integers(nx.grid_2d_graph(24, 20)),
        np.random.default_rng(3),
    )
    for hub in (7, 300):
        grid.add_edges_from((hub, int(node)) for node in rng.choice(480, 96, replace=False))
    grid.add_edge(7, 300)
    grid.remove_edges_from(nx.selfloop_edges(grid))
    return Graph.from_networkx(grid, weight=None)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_diagonals_go_around_hubs(kernel: GraphKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "WALKS_PER_NODE", 60.0)
    graph = beside_hubs()
    assert precision.hub_nodes(graph).tolist() == [7, 300]
    assert precision.precision_work(graph, 2).bytes == np.inf
    split = rational.hub_split(graph)
    assert split.hubs.tolist() == [7, 300]
    assert split.pattern.graph.n_nodes == 478
    values, vectors = dense_spectrum(graph)
    for function in (kernel.spectral, partial(hidden_posterior._smooth, kernel, 1e-3)):
        found = rational_diagonal(graph, rational_fit(function, 1e-10))
        np.testing.assert_allclose(found, vectors**2 @ function(values), atol=1e-9)


def test_a_graph_of_many_hubs_has_none() -> None:
    assert precision.hub_nodes(GRAPHS["grid"]()).size == 0
    assert precision.hub_nodes(GRAPHS["complete"]()).size == 0
    stars = nx.disjoint_union_all([nx.star_graph(70) for _ in range(precision.MOST_HUBS + 1)])
    assert precision.hub_nodes(named(stars)).size == 0
    few = nx.disjoint_union_all([nx.star_graph(70) for _ in range(3)])
    assert precision.hub_nodes(named(few)).tolist() == [0, 71, 142]


def test_columns_are_taken_where_they_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, short = named(nx.barabasi_albert_graph(400, 5, seed=0)), HeatKernel(0.5)
    assert rational.diagonal_seconds(graph, short.spectral, 1e-6) > 0
    monkeypatch.setattr(rational, "rational_diagonal", None)
    found = diagonal_of(graph, short.spectral, 1e-6)
    np.testing.assert_allclose(found, np.diag(dense_kernel(graph, short)), atol=1e-5)
