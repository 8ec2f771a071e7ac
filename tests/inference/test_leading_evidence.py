"""Evidence from leading eigenpairs against the dense covariance, at noises down to 1e-10."""

import networkx as nx
import numpy as np
import pytest

from coupledgp.geometry import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.graphs.spectrum import Eigenpairs
from coupledgp.inference.nodes.exact_evidence import EvidenceTerms, ObservedEvidence
from coupledgp.inference.nodes.leading_evidence import LeadingEvidence, pairs_needed
from coupledgp.inference.nodes.moments import SpectralMoments
from coupledgp.kernels import (
    GraphKernel,
    GraphMaternKernel,
    HeatKernel,
    RegularizedLaplacianKernel,
    dense_spectrum,
)
from tests.geometry.shapes import slivers

GRID = Graph.from_networkx(nx.grid_2d_graph(15, 12), weight=None)
RNG = np.random.default_rng(5)
ORDER = RNG.permutation(GRID.n_nodes)
NODES = {
    "fewer than pairs": ORDER[:20],
    "more than pairs": ORDER[:120],
    "all": ORDER,
    "repeated": np.concatenate([ORDER[:90], ORDER[:40], ORDER[:7]]),
    "one": ORDER[:1],
}


class Raised(HeatKernel):
    """A heat kernel with a constant beside it: beyond its eigenpairs it is not zero."""

    def spectral(self, x: np.ndarray) -> np.ndarray:
        return super().spectral(x) + 0.25

    def spectral_gradient(self, x: np.ndarray) -> np.ndarray:
        return super().spectral_gradient(x) + 0.1


def pairs_of(graph: Graph, count: int) -> Eigenpairs:
    values, vectors = dense_spectrum(graph)
    return Eigenpairs(values[-count:], vectors[:, -count:])


def check(found: EvidenceTerms, expected: EvidenceTerms, rtol: float) -> None:
    assert found.fit == pytest.approx(expected.fit, rel=rtol)
    assert found.log_determinant == pytest.approx(expected.log_determinant, rel=rtol)
    slopes = np.abs(expected.fit_slope).max(), np.abs(expected.log_determinant_slope).max()
    np.testing.assert_allclose(found.fit_slope, expected.fit_slope, atol=rtol * slopes[0])
    np.testing.assert_allclose(
        found.log_determinant_slope, expected.log_determinant_slope, atol=rtol * slopes[1]
    )
    assert found.log_determinant_error == 0.0


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("kernel", [HeatKernel(600.0), HeatKernel(250.0), Raised(600.0)])
def test_terms_are_those_of_the_whole_spectrum(name: str, kernel: GraphKernel) -> None:
    nodes = NODES[name]
    Y = RNG.standard_normal((nodes.size, 3))
    found = LeadingEvidence(GRID, nodes, Y, pairs_of(GRID, 80))
    dense = ObservedEvidence(GRID, nodes, Y, SpectralMoments)
    is_raised = isinstance(kernel, Raised)
    assert found.covers(kernel, 1e-2) == (not is_raised or name != "repeated")
    if found.covers(kernel, 1e-2):
        np.testing.assert_allclose(found.traces(kernel), dense.traces(kernel), rtol=1e-9)
        for ratio in (1.0, 1e-2, 1e-5):
            check(found.terms(kernel, ratio), dense.terms(kernel, ratio), 1e-7)


@pytest.mark.parametrize(
    "kernel", [RegularizedLaplacianKernel(9e3, 4.0), GraphMaternKernel(140.0, 4.5)]
)
@pytest.mark.parametrize("name", ["more than pairs", "all", "repeated"])
def test_terms_of_powers_with_all_pairs(name: str, kernel: GraphKernel) -> None:
    nodes = NODES[name]
    Y = RNG.standard_normal((nodes.size, 2))
    found = LeadingEvidence(GRID, nodes, Y, dense_spectrum(GRID))
    dense = ObservedEvidence(GRID, nodes, Y, SpectralMoments)
    check(found.terms(kernel, 1e-3), dense.terms(kernel, 1e-3), 1e-8)
    few = LeadingEvidence(GRID, nodes, Y, pairs_of(GRID, 20))
    assert not few.covers(kernel, 1e-3)
    assert few.covers(kernel, 1e-3, tolerance=1.0)


def test_digits_are_kept_where_the_noise_is_a_ten_billionth() -> None:
    # In coordinates of the eigenvectors, all nodes observed: a sum over eigenvalues.
    kernel, ratio = HeatKernel(900.0), 1e-10
    values, vectors = dense_spectrum(GRID)
    weights = np.sqrt(kernel.spectral(values) + ratio) * RNG.standard_normal(values.size)
    Y = (vectors @ weights)[:, None]
    terms = LeadingEvidence(GRID, np.arange(GRID.n_nodes), Y, pairs_of(GRID, 60)).terms(
        kernel, ratio
    )
    variances = kernel.spectral(values) + ratio
    assert terms.fit == pytest.approx(float((weights**2 / variances).sum()), rel=1e-5)
    assert terms.log_determinant == pytest.approx(float(np.log(variances).sum()), rel=1e-9)
    by_noise = ratio * (weights**2 / variances**2).sum()
    assert -terms.fit_slope[-1] == pytest.approx(float(by_noise), rel=1e-5)


def test_slopes_are_differences() -> None:
    nodes = NODES["repeated"]
    evidence = LeadingEvidence(
        GRID, nodes, RNG.standard_normal((nodes.size, 2)), pairs_of(GRID, 80)
    )
    kernel, ratio, step = HeatKernel(300.0), 1e-3, 1e-5
    terms = evidence.terms(kernel, ratio)
    up, down = (evidence.terms(kernel.with_theta(kernel.theta + e), ratio) for e in (step, -step))
    assert terms.fit_slope[0] == pytest.approx((up.fit - down.fit) / (2 * step), rel=1e-5)
    difference = (up.log_determinant - down.log_determinant) / (2 * step)
    assert terms.log_determinant_slope[0] == pytest.approx(difference, rel=1e-5)
    up, down = (evidence.terms(kernel, ratio * np.exp(e)) for e in (step, -step))
    assert terms.fit_slope[1] == pytest.approx((up.fit - down.fit) / (2 * step), rel=1e-5)
    difference = (up.log_determinant - down.log_determinant) / (2 * step)
    assert terms.log_determinant_slope[1] == pytest.approx(difference, rel=1e-5)


def test_graphs_whose_nodes_have_scales() -> None:
    graph = LaplaceOperator.from_trimesh(slivers(), 0.2).as_graph()
    assert graph.node_scale is not None
    nodes = np.arange(0, graph.n_nodes, 2)
    Y = RNG.standard_normal((nodes.size, 1))
    kernel = HeatKernel(30.0 * graph.time_unit)
    found = LeadingEvidence(graph, nodes, Y, dense_spectrum(graph))
    dense = ObservedEvidence(graph, nodes, Y, SpectralMoments)
    check(found.terms(kernel, 1e-3), dense.terms(kernel, 1e-3), 1e-8)
    K = dense._blocks(kernel, 1e-12)[0]
    mean = (np.diag(K) * graph.node_scale[nodes] ** 2).mean()
    assert found.traces(kernel)[0] / graph.n_nodes == pytest.approx(mean)


def test_numbers_of_pairs_are_known_before_any_pair() -> None:
    graph = Graph.from_networkx(nx.grid_2d_graph(40, 30), weight=None)
    values = dense_spectrum(graph).values
    for time in (3.0, 30.0, 300.0):
        edge = 1.0 - np.log(1e10) / time  # g is below 1e-10 there, the slope somewhat later
        exact = np.count_nonzero(values > edge)
        needed = pairs_needed(graph, HeatKernel(time), 1e-2, tolerance=1e-10)
        assert 0.95 * exact <= needed <= 1.4 * exact + 12
    assert pairs_needed(graph, RegularizedLaplacianKernel(50.0), 1e-2) > 0.9 * graph.n_nodes
    assert pairs_needed(graph, HeatKernel(1e9), 1e-2) < 12
    # Pairs whose share is as large as the noise are never left out, however small that is.
    few, many = (pairs_needed(graph, HeatKernel(300.0), ratio) for ratio in (1e-2, 1e-11))
    assert many > 1.5 * few
    evidence = LeadingEvidence(graph, np.arange(50), np.ones((50, 1)), pairs_of(graph, few + 20))
    assert evidence.covers(HeatKernel(300.0), 1e-2)
    assert not evidence.covers(HeatKernel(300.0), 1e-11)
