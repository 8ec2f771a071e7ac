"""Operators and combinatorial Laplacians as graphs: everything of graphs works on them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
import trimesh
from scipy import linalg

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features import WalkFeatures, sample_walks
from coupledgp.graphs.evidence import ObservedEvidence, PrecisionEvidence, Scales
from coupledgp.graphs.priors import ScaledPrior
from coupledgp.graphs.readers import Csr
from coupledgp.graphs.recipes import ExactRecipe
from coupledgp.graphs.spectral import SpectralMoments
from coupledgp.kernels import (
    GraphMaternKernel,
    HeatKernel,
    RegularizedLaplacianKernel,
    SeriesOperator,
    dense_kernel,
)
from coupledgp.kernels.gpytorch.walks import GraphFeatureKernel
from tests.fields.shapes import slivers, town


def surface(subdivisions: int = 2) -> cgp.LaplaceOperator:
    """A smooth surface with triangles of unequal areas."""
    mesh = trimesh.creation.icosphere(subdivisions=subdivisions)
    mesh.vertices *= np.array([1.0, 0.7, 0.5]) * 1e-3
    return cgp.LaplaceOperator.from_trimesh(mesh)


def network() -> cgp.LaplaceOperator:
    sources, targets, lengths, _ = town()
    return cgp.LaplaceOperator.from_edges(sources, targets, lengths, max_edge=0.5)


OPERATORS = {
    "surface": surface,
    "slivers": lambda: cgp.LaplaceOperator.from_trimesh(slivers()),
    "network": network,
}


def symmetric_form(operator):
    root = np.sqrt(operator.mass)
    return operator.stiffness.toarray() / np.outer(root, root)


def whittle_matern(operator, kappa, alpha):
    """`P (M P)^(a-1)` with `P = (k^2 M + S)^-1`, dense."""
    P = np.linalg.inv(kappa**2 * np.diag(operator.mass) + operator.stiffness.toarray())
    return P @ np.linalg.matrix_power(operator.mass[:, None] * P, alpha - 1)


def largest(operator):
    return (operator.stiffness.diagonal() / operator.mass).max()


@pytest.mark.parametrize("name", OPERATORS)
def test_the_normalised_adjacency_is_one_less_the_operator(name):
    operator = OPERATORS[name]()
    graph = operator.as_graph()
    assert (graph.weights > 0).all()
    L, c = symmetric_form(operator), largest(operator)
    expected = np.eye(operator.n_vertices) - L / c
    np.testing.assert_allclose(graph.normalized_adjacency.toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(graph.degrees, c * operator.mass, rtol=1e-9)


@pytest.mark.parametrize("alpha", [1, 2, 4])
@pytest.mark.parametrize("name", ["surface", "network"])
def test_a_regularised_laplacian_is_the_whittle_matern_covariance(name, alpha):
    operator = OPERATORS[name]()
    graph, kappa = operator.as_graph(), 6.0 / operator.diameter
    expected = whittle_matern(operator, kappa, alpha) * operator.mass.mean() * kappa ** (2 * alpha)
    kernel = RegularizedLaplacianKernel(largest(operator) / kappa**2, float(alpha))
    np.testing.assert_allclose(dense_kernel(graph, kernel), expected, rtol=1e-6)
    every = np.arange(graph.n_nodes)
    for method in ("spectral", "series", "cholesky"):
        prior = ExactRecipe(graph, method, 1e-10).make(kernel).prior
        assert isinstance(prior, ScaledPrior)
        close = {"rtol": 1e-6, "atol": 1e-8 * expected.max()}
        np.testing.assert_allclose(prior.matrix(every, every[::3]), expected[:, ::3], **close)
        np.testing.assert_allclose(prior.diagonal(every), np.diag(expected), **close)


def test_the_scaled_prior_agrees_with_matrices():
    operator = surface()
    graph = operator.as_graph()
    kernel = RegularizedLaplacianKernel(30.0)
    prior = ExactRecipe(graph, "cholesky").make(kernel).prior
    rng, nodes = np.random.default_rng(0), np.array([3, 70, 70, 11])
    V, B = rng.standard_normal((4, 2)), rng.standard_normal((4, 4))
    B += B.T
    step = 1e-5
    up, down = (dense_kernel(graph, kernel.with_theta(kernel.theta + e)) for e in (step, -step))
    slope = ((up - down) / (2 * step))[np.ix_(nodes, nodes)]
    np.testing.assert_allclose(prior.gradient_products(nodes, V)[0], slope @ V, rtol=1e-6)
    np.testing.assert_allclose(prior.gradient_inner(nodes, B), [np.vdot(B, slope)], rtol=1e-6)
    K = dense_kernel(graph, kernel)
    np.testing.assert_allclose(prior.product(nodes, nodes, V), K[np.ix_(nodes, nodes)] @ V)
    wide = prior.at(RegularizedLaplacianKernel(60.0))
    expected = dense_kernel(graph, RegularizedLaplacianKernel(60.0))
    np.testing.assert_allclose(wide.diagonal(nodes), np.diag(expected)[nodes])
    draws = prior.sample(np.arange(graph.n_nodes), 4000, rng)
    error = np.sqrt(2 / 4000)
    np.testing.assert_allclose((draws**2).mean(axis=1), np.diag(K), rtol=6 * error)


@pytest.mark.parametrize("exact_hops", [0, 6])
def test_walk_features_have_the_covariance_as_their_mean(exact_hops):
    operator = surface()
    graph = operator.as_graph()
    kernel = RegularizedLaplacianKernel(4.0)
    walks = sample_walks(graph, 400, p_halt=0.2, generator=1)
    phi = WalkFeatures(walks, kernel, exact_hops)
    K, rows = dense_kernel(graph, kernel), phi.rows()
    np.testing.assert_allclose(rows @ rows.T, K, atol=0.15 * K.max())
    assert np.abs((rows @ rows.T - K).mean()) < 0.01 * np.abs(K).mean()
    V = np.random.default_rng(2).standard_normal((graph.n_nodes, 3))
    np.testing.assert_allclose(phi.matmat(V), rows @ V)
    np.testing.assert_allclose(phi.rmatmat(V), rows.T @ V)
    np.testing.assert_allclose(phi.sparse_rows([5, 1]).toarray(), rows[[5, 1]])
    heads, series = phi.slopes(V, V)
    total = heads @ phi.head + series @ phi.series
    assert total == pytest.approx(np.vdot(V, rows @ V))


def test_the_gpytorch_kernel_has_the_scales_too():
    graph = surface().as_graph()
    kernel = RegularizedLaplacianKernel(4.0)
    layer = GraphFeatureKernel(graph, kernel, n_walks=64, generator=0)
    x = torch.arange(graph.n_nodes, dtype=torch.float64)[:, None]
    K = layer(x).to_dense().detach().numpy()
    expected = dense_kernel(graph, kernel)
    np.testing.assert_allclose(K, expected, atol=0.02 * expected.max())


def smooth_values(operator, seed=0):
    rng = np.random.default_rng(seed)
    x = operator.positions / operator.diameter
    return np.sin(4 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.02 * rng.standard_normal(len(x))


@pytest.mark.parametrize("kernel", ["auto", RegularizedLaplacianKernel()])
def test_models_fit_on_operators_and_come_back_from_files(kernel, tmp_path):
    operator = surface(2)
    y = smooth_values(operator)
    graph, nodes = operator.as_graph(), np.arange(0, 162, 4)
    exact = cgp.ExactGraphGPRegressor(graph, kernel, random_state=0).fit(nodes, y[nodes])
    rest = np.setdiff1d(np.arange(162), nodes)
    mean = exact.predict(rest)
    assert np.sqrt(((mean - y[rest]) ** 2).mean()) < 0.06 * y.std()
    walked = cgp.GraphGPRegressor(
        graph, exact.kernel_, optimizer=None, n_walks=8, outputscale=1.0, noise=0.01, random_state=0
    ).fit(nodes, y[nodes])
    twin = walked.exact_twin()
    np.testing.assert_allclose(walked.predict(rest), twin.predict(rest), atol=0.05 * y.std())
    for model in (exact, walked):
        cgp.save_model(model, tmp_path / "model")
        again = cgp.load_model(tmp_path / "model")
        np.testing.assert_array_equal(again.graph.node_scale, graph.node_scale)
        assert again.graph.time_unit == graph.time_unit
        np.testing.assert_allclose(
            again.predict(rest, return_std=True)[1],
            model.predict(rest, return_std=True)[1],
            rtol=1e-9,
        )
    result = cgp.report(walked, rest[:20], y[rest[:20]], depth="scores")
    assert 0 < result.score("kl") < 0.1


def test_units_of_length_change_no_fit():
    operator = surface(2)
    mesh = trimesh.creation.icosphere(subdivisions=2)
    mesh.vertices *= np.array([1.0, 0.7, 0.5])
    other = cgp.LaplaceOperator.from_trimesh(mesh)
    y, nodes = smooth_values(operator), np.arange(0, 162, 4)
    fits = [
        cgp.ExactGraphGPRegressor(o.as_graph(), "regularized-laplacian").fit(nodes, y[nodes])
        for o in (operator, other)
    ]
    np.testing.assert_allclose(fits[0].predict(), fits[1].predict(), atol=1e-4 * y.std())


def test_starting_points_and_bounds_follow_the_graph():
    graph = cgp.LaplaceOperator.from_trimesh(slivers()).as_graph()
    assert graph.time_unit > 1e6
    plain = cgp.Graph.from_edges([0, 1], [1, 2])
    for kernel in (HeatKernel(), RegularizedLaplacianKernel(), GraphMaternKernel()):
        assert kernel.scan_on(plain) == kernel.scan()
        assert kernel.bounds_on(plain) == kernel.bounds
        first, wide = kernel.scan()[0], kernel.scan_on(graph)[0]
        assert wide == first.scaled(graph.time_unit)
        (low, high), (same, wider) = kernel.bounds[0], kernel.bounds_on(graph)[0]
        assert same == low
        assert wider - high == pytest.approx((wide.theta - first.theta)[0])


def test_walks_of_millions_of_steps_are_refused():
    operator = cgp.LaplaceOperator.from_trimesh(slivers())
    y, nodes = smooth_values(operator), np.arange(0, operator.n_vertices, 3)
    model = cgp.GraphGPRegressor(
        operator.as_graph(), "regularized-laplacian", random_state=0, method="walks"
    )
    with pytest.raises(NumericalError, match=r"fewer than 20000 steps.*ExactGraphGPRegressor"):
        model.fit(nodes, y[nodes])


def test_series_of_a_peak_between_the_points_are_not_zero():
    # All of the first Chebyshev points miss the peak at one of so long a diffusion.
    with pytest.raises(NumericalError, match="Chebyshev terms"):
        SeriesOperator(cgp.Graph.from_edges([0], [1]), HeatKernel(1e7).spectral)


def test_the_recipe_factorises_where_triangles_are_slivers():
    operator = cgp.LaplaceOperator.from_trimesh(slivers(), 0.17)
    graph = operator.as_graph()
    assert graph.n_nodes > 1200
    kernel = RegularizedLaplacianKernel(largest(operator) * operator.diameter**2 / 50.0, 2.0)
    chosen = ExactRecipe(graph).make(kernel, Scales(1.0, 1e-3, np.nan))
    assert chosen.method == "cholesky"
    nodes = np.arange(0, graph.n_nodes, 97)
    kappa = np.sqrt(50.0) / operator.diameter
    expected = whittle_matern(operator, kappa, 2)[np.ix_(nodes, nodes)]
    expected *= operator.mass.mean() * kappa**4
    np.testing.assert_allclose(chosen.prior.matrix(nodes, nodes), expected, rtol=1e-6)


def test_evidence_by_solves_equals_that_by_eigenvectors():
    operator = surface(2)
    graph = operator.as_graph()
    nodes = np.array([0, 5, 9, 9, 44, 120])
    Y = smooth_values(operator)[nodes][:, None]
    dense = ObservedEvidence(graph, nodes, Y, SpectralMoments)
    for kernel, power in (
        (RegularizedLaplacianKernel(200.0), 2),
        (GraphMaternKernel(20.0, 3.0), 3),
    ):
        one = dense.terms(kernel, 0.1)
        other = PrecisionEvidence(graph, power, nodes, Y).terms(kernel, 0.1)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-7)
    # By definition: the evidence of the scaled covariance.
    K = dense_kernel(graph, RegularizedLaplacianKernel(200.0))[np.ix_(nodes, nodes)]
    A = K + 0.1 * np.eye(6)
    terms = dense.terms(RegularizedLaplacianKernel(200.0), 0.1)
    assert terms.fit == pytest.approx(float(Y[:, 0] @ np.linalg.solve(A, Y[:, 0])))
    assert terms.log_determinant == pytest.approx(np.linalg.slogdet(A)[1])


GRAPHS = {
    "karate": lambda: cgp.Graph.from_networkx(nx.karate_club_graph()),
    "loops": lambda: cgp.Graph.from_edges([0, 0, 1, 4], [0, 1, 2, 4], [2, 1, 3, 1], n_nodes=6),
    "no edges": lambda: cgp.Graph.from_edges([], [], n_nodes=3),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_combinatorial_graphs(name):
    graph = GRAPHS[name]()
    other = graph.combinatorial
    W = graph.adjacency.toarray()
    L, c = np.diag(W.sum(axis=1)) - W, W.sum(axis=1).max() or 1.0
    found = other.normalized_adjacency.toarray()
    np.testing.assert_allclose(found, np.eye(len(W)) - L / c, atol=1e-12)
    expected = linalg.expm(-0.7 * L / c)
    np.testing.assert_allclose(dense_kernel(other, HeatKernel(0.7)), expected, atol=1e-10)
    assert other.labels == graph.labels
    assert other.closed is other


def test_models_take_combinatorial_graphs():
    graph = GRAPHS["karate"]().combinatorial
    y = np.random.default_rng(0).standard_normal(34)
    model = cgp.GraphGPRegressor(graph, "heat", random_state=0).fit(graph.labels[:20], y[:20])
    twin = model.exact_twin()
    np.testing.assert_allclose(model.predict(), twin.predict(), atol=0.05)


@pytest.mark.parametrize("scale", [[1.0], [1.0, 0.0, 1.0], [1.0, np.nan, 1.0]])
def test_bad_scales_are_refused(scale):
    graph = cgp.Graph.from_edges([0, 1], [1, 2])
    with pytest.raises(InvalidInputError, match="node_scale: expected 3 positive"):
        cgp.Graph(Csr(graph.indptr, graph.indices, graph.weights), node_scale=scale)
