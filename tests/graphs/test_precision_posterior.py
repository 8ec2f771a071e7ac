"""Posteriors by sparse precisions against dense ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import PrecisionEvidence
from coupledgp.graphs.laplacian_power import ObservedPrecision, SolvePrior
from coupledgp.graphs.posterior import DensePosterior, PrecisionNodePosterior
from coupledgp.graphs.priors import SpectralPrior, scaled
from coupledgp.graphs.readers import Csr
from coupledgp.kernels import RegularizedLaplacianKernel

RNG = np.random.default_rng(8)
GRID = Graph.from_networkx(nx.grid_2d_graph(7, 8))


def with_scales(graph):
    """The graph with scales of its nodes."""
    csr = Csr(graph.indptr.copy(), graph.indices.copy(), graph.weights.copy())
    return Graph(csr, node_scale=np.exp(RNG.normal(size=graph.n_nodes)))


GRAPHS = {
    "grid": GRID,
    "scaled": with_scales(GRID),
    "parts": Graph.from_edges([0, 1, 2, 4, 5, 9], [1, 2, 0, 5, 6, 10], n_nodes=13).closed,
}


def pair(name, power, noise=0.01):
    """The sparse posterior of repeated nodes with two outputs, and the dense one."""
    graph = GRAPHS[name]
    kernel = RegularizedLaplacianKernel(6.0, float(power))
    nodes = RNG.integers(graph.n_nodes, size=graph.n_nodes // 2)
    data = nodes, RNG.normal(size=(nodes.size, 2)), 1.7, noise
    priors = scaled(SolvePrior(graph, kernel)), scaled(SpectralPrior(graph, kernel))
    return PrecisionNodePosterior(priors[0], *data), DensePosterior(priors[1], *data)


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_laws_are_the_dense_ones(name, power):
    for noise in (1e-6, 0.01, 10.0):
        found, expected = pair(name, power, noise)
        wanted = RNG.permutation(found.prior.graph.n_nodes)[:9]
        close = {"rtol": 1e-6, "atol": 1e-8}
        np.testing.assert_allclose(found.mean(wanted), expected.mean(wanted), **close)
        np.testing.assert_allclose(found.variance(wanted), expected.variance(wanted), **close)
        np.testing.assert_allclose(found.covariance(wanted), expected.covariance(wanted), **close)
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_evidence_is_that_of_the_covariance(name):
    found, expected = pair(name, 2)
    nodes, Y = found.nodes, found._Y
    A = 1.7 * expected.prior.matrix(nodes, nodes) + 0.01 * np.eye(nodes.size)
    law = stats.multivariate_normal(np.zeros(nodes.size), A, allow_singular=False)
    np.testing.assert_allclose(found.log_evidence(), law.logpdf(Y.T).sum(), rtol=1e-9)


@pytest.mark.parametrize("power", [1, 2])
def test_draws_follow_the_rule_of_the_dense_posterior(power, monkeypatch):
    """The same prior draws and noise, and solves that are dense: blocks of columns included."""
    monkeypatch.setattr("coupledgp.graphs.posterior.COLUMN_VALUES", 4 * 56)
    monkeypatch.setattr("coupledgp.graphs.posterior.BLOCK", 4)
    found, _ = pair("scaled", power)
    dense = DensePosterior(found.prior, found.nodes, found._Y, 1.7, 0.01)
    wanted = np.array([3, 50, 3, 0])
    draws = [p.deviations(wanted, 6, np.random.default_rng(4)) for p in (found, dense)]
    np.testing.assert_allclose(*draws, atol=1e-10)
    np.testing.assert_array_equal(draws[0][0], draws[0][2])


def test_evidence_and_posterior_share_a_factor(monkeypatch):
    made = []
    init = ObservedPrecision.__init__

    def counted(self, pattern, scale, weights):
        made.append(weights.any())
        init(self, pattern, scale, weights)

    monkeypatch.setattr(ObservedPrecision, "__init__", counted)
    kernel, nodes = RegularizedLaplacianKernel(3.0, 2.0), np.arange(20)
    Y = RNG.normal(size=(20, 1))
    evidence = PrecisionEvidence(GRID, 2, nodes, Y)
    evidence.terms(kernel, 0.01)
    noise = 0.01 * 1.7  # over 1.7 it is 0.01 but for the last bits
    posterior = PrecisionNodePosterior(SolvePrior(GRID, kernel), nodes, Y, 1.7, noise)
    posterior.variance(nodes)
    assert sum(made) == 1
    other = PrecisionNodePosterior(SolvePrior(GRID, kernel), nodes + 1, Y, 1.7, noise)
    assert sum(made) == 2
    assert np.abs(other.variance(nodes) - posterior.variance(nodes)).max() > 1e-4


@pytest.mark.parametrize("power", [1, 2, 4])
def test_prior_variances_of_many_nodes(power, monkeypatch):
    monkeypatch.setattr("coupledgp.graphs.laplacian_power.BLOCK_COLUMNS", 3)
    kernel = RegularizedLaplacianKernel(6.0, float(power))
    for name in ("grid", "parts"):
        priors = SolvePrior(GRAPHS[name], kernel), SpectralPrior(GRAPHS[name], kernel)
        found, expected = (prior.diagonal(np.arange(2, 11)) for prior in priors)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
