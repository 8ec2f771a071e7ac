"""Wide kernels with small noises: low rank from eigenpairs, and covariances that do not cancel."""

import networkx as nx
import numpy as np
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.features import WalkFeatures, sample_walks
from coupledgp.gp import node_priors
from coupledgp.graphs import Graph
from coupledgp.graphs.products import by_column_blocks
from coupledgp.inference.nodes import moments as graph_moments
from coupledgp.inference.nodes.leading import LeadingPosterior, LeadingPrior, is_leading
from coupledgp.inference.nodes.posterior import IterativePosterior
from coupledgp.inference.nodes.priors import SpectralPrior
from coupledgp.kernels import HeatKernel, dense_kernel, dense_spectrum
from coupledgp.models import ExactGraphGPRegressor, GraphGPRegressor

GRID = Graph.from_networkx(nx.grid_2d_graph(20, 11), weight=None)
WIDE = HeatKernel(2000.0)
RNG = np.random.default_rng(3)
HIDDEN, NODES = np.split(RNG.permutation(GRID.n_nodes), [20])
Y = np.sin(NODES[:, None] / 60.0) + 1e-3 * RNG.standard_normal((NODES.size, 1))


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the method use fewer eigenpairs than nodes, and allow no other method."""
    monkeypatch.setattr(graph_moments, "LEADING_PAIRS", 50)
    monkeypatch.setattr(node_priors, "SPECTRAL_LIMIT", 10)


def exact_law(v: float, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the hidden nodes, in coordinates where nothing cancels."""
    values, vectors = dense_spectrum(GRID)
    F = vectors * np.sqrt(WIDE.spectral(values))
    B = F[NODES].T @ F[NODES] + s / v * np.eye(values.size)
    half = np.linalg.solve(B, F[HIDDEN].T).T
    return half @ F[NODES].T @ Y, s * half @ F[HIDDEN].T


def test_prior_is_the_exact_kernel(few_pairs: None) -> None:
    prior, reference = LeadingPrior(GRID, WIDE), SpectralPrior(GRID, WIDE)
    K, V = dense_kernel(GRID, WIDE), RNG.standard_normal((NODES.size, 2))
    np.testing.assert_allclose(prior.matrix(HIDDEN, NODES), K[np.ix_(HIDDEN, NODES)], atol=1e-9)
    np.testing.assert_allclose(prior.diagonal(NODES), np.diag(K)[NODES], atol=1e-9)
    np.testing.assert_allclose(
        prior.product(HIDDEN, NODES, V), reference.product(HIDDEN, NODES, V), atol=1e-8
    )
    np.testing.assert_allclose(
        prior.gradient_products(NODES, V), reference.gradient_products(NODES, V), atol=1e-7
    )
    draws = prior.sample(HIDDEN, 40_000, np.random.default_rng(0))
    expected = K[np.ix_(HIDDEN, HIDDEN)]
    assert np.abs(draws @ draws.T / 40_000 - expected).max() < 6 * expected.max() * 2 / 200


def test_a_kernel_that_is_not_wide_is_refused(few_pairs: None) -> None:
    with pytest.raises(InvalidInputError, match="leading eigenvalues"):
        LeadingPrior(GRID, HeatKernel(2.0))
    assert not is_leading(GRID, HeatKernel(2.0), 1e-12)
    assert is_leading(GRID, HeatKernel(3e4), 1e-12)


@pytest.mark.parametrize("noise", [1e-2, 1e-6])
def test_posterior_is_exact_at_noises_far_below_the_output_scale(
    few_pairs: None, noise: float
) -> None:
    v = 1e3
    mean, covariance = exact_law(v, noise)
    posterior = LeadingPosterior(LeadingPrior(GRID, WIDE), NODES, Y, v, noise)
    np.testing.assert_allclose(posterior.mean(HIDDEN), mean, atol=1e-5)
    np.testing.assert_allclose(posterior.covariance(HIDDEN), covariance, atol=1e-4 * noise)
    np.testing.assert_allclose(posterior.variance(HIDDEN), np.diag(covariance), rtol=1e-3)
    draws = posterior.deviations(HIDDEN, 40_000, np.random.default_rng(0))
    gap = np.abs(draws @ draws.T / 40_000 - covariance).max()
    assert gap < 6 * covariance.max() * 2 / 200
    A = v * dense_kernel(GRID, WIDE)[np.ix_(NODES, NODES)] + noise * np.eye(NODES.size)
    np.testing.assert_allclose(A @ posterior.solve(Y), Y, atol=1e-5)


def test_covariances_of_conjugate_gradients_do_not_drown_in_their_residuals() -> None:
    v, s = 1e4, 1e-3
    posterior = IterativePosterior(SpectralPrior(GRID, WIDE), NODES, Y, v, s)
    covariance = exact_law(v, s)[1]
    np.testing.assert_allclose(posterior.covariance(HIDDEN), covariance, atol=0.01 * s)


def test_exact_model_and_twin_use_the_eigenpairs_of_wide_kernels(few_pairs: None) -> None:
    v, s = 1e3, 1e-4
    settings = {"normalize_y": False, "optimizer": None, "outputscale": v, "noise": s}
    kernel = HeatKernel(3e4)
    labels = [list(GRID.labels or range(GRID.n_nodes))[k] for k in NODES]
    exact = ExactGraphGPRegressor(GRID, kernel, tolerance=1e-12, **settings).fit(labels, Y[:, 0])
    assert exact.method_ == "leading"
    assert isinstance(exact.process_.posterior, LeadingPosterior)
    K = dense_kernel(GRID, kernel)
    A = v * K[np.ix_(NODES, NODES)] + s * np.eye(NODES.size)
    mean = v * K[np.ix_(HIDDEN, NODES)] @ np.linalg.solve(A, Y[:, 0])
    hidden = [list(GRID.labels or range(GRID.n_nodes))[k] for k in HIDDEN]
    np.testing.assert_allclose(exact.predict(hidden), mean, atol=1e-4)
    walked = GraphGPRegressor(GRID, HeatKernel(2.0), **settings).fit(labels, Y[:, 0])
    assert not isinstance(walked.exact_problem().prior, LeadingPrior)


@pytest.mark.parametrize("n_columns", [1, 8, 20])
def test_blocks_of_columns_are_the_whole(n_columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coupledgp.graphs.products.BLOCK_ENTRIES", 1)
    A, V = RNG.standard_normal((5, 7)), RNG.standard_normal((7, n_columns))
    np.testing.assert_allclose(by_column_blocks(lambda B: A @ B, V, 7), A @ V, atol=1e-12)


def test_rows_and_products_of_features_do_not_depend_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = sample_walks(GRID, 4, 0.3, max_length=6, generator=0)
    phi = WalkFeatures(features, HeatKernel(3.0), 5)
    V, W = RNG.standard_normal((GRID.n_nodes, 20)), RNG.standard_normal((GRID.n_nodes, 20))
    whole = phi.rows(), phi.matmat(V), phi.rmatmat(W)
    monkeypatch.setattr("coupledgp.graphs.products.BLOCK_ENTRIES", 1)
    for part, expected in zip((phi.rows(), phi.matmat(V), phi.rmatmat(W)), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(whole[0] @ V, whole[1], rtol=1e-9, atol=1e-12)
