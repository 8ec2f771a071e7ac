"""Moments, joint evidence and its search against plain linear algebra."""

import numpy as np
import pytest
from scipy import stats

from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs import evidence as graph_joint
from coupledgp.graphs.evidence import ObservedEvidence
from coupledgp.graphs.search import ExactKernelObjective, FixedHyperparameters, fit_families
from coupledgp.graphs.spectral import (
    ChebyshevMoments,
    SpectralMoments,
    series_diagonal,
)
from coupledgp.kernels import (
    GraphMaternKernel,
    HeatKernel,
    RegularizedLaplacianKernel,
    dense_kernel,
)
from tests.graph_cases import weighted_graph

SIDE = 12
SERIES_ERROR = graph_joint.TOLERANCE_PER_RATIO  # of a covariance's eigenvalues, relative


def grid() -> Graph:
    """A 12 x 12 grid with weights."""
    k = np.arange(SIDE**2).reshape(SIDE, SIDE)
    start = np.concatenate([k[:, :-1].ravel(), k[:-1].ravel()])
    end = np.concatenate([k[:, 1:].ravel(), k[1:].ravel()])
    return Graph.from_edges(start, end, np.random.default_rng(0).uniform(0.5, 2.0, start.size))


GRID = grid()
NODES = np.random.default_rng(1).permutation(SIDE**2)[:110]
Y = np.random.default_rng(2).standard_normal((110, 2)) + 1.0


def test_moments_of_every_kind_are_the_spectral_ones_and_are_extended() -> None:
    places, functions = np.array([3, 9, 40]), [HeatKernel(300.0).spectral, lambda x: 2.0 - x**3]
    exact = SpectralMoments(GRID, places)
    K = dense_kernel(GRID, HeatKernel(300.0))
    np.testing.assert_allclose(exact.blocks(functions)[0], K[np.ix_(places, places)], atol=1e-10)
    moments = ChebyshevMoments(GRID, places)
    first = moments.blocks([HeatKernel(1.0).spectral])
    np.testing.assert_allclose(moments.blocks(functions, 1e-10), exact.blocks(functions), atol=1e-7)
    np.testing.assert_allclose(moments.blocks([HeatKernel(1.0).spectral]), first, atol=1e-12)
    with pytest.raises(NumericalError, match="Chebyshev moments"):
        ChebyshevMoments(GRID, places, max_bytes=1).blocks([HeatKernel(900.0).spectral])


@pytest.mark.parametrize(
    "kernel", [HeatKernel(0.1), HeatKernel(40.0), RegularizedLaplacianKernel(9.0)]
)
def test_diagonals_come_from_half_the_degree(kernel) -> None:  # type: ignore[no-untyped-def]
    expected = np.diag(dense_kernel(GRID, kernel))
    found = series_diagonal(GRID, kernel.spectral, 1e-10, NODES)
    np.testing.assert_allclose(found, expected[NODES], atol=1e-9)


@pytest.mark.parametrize("kernel", [HeatKernel(4.0), RegularizedLaplacianKernel(9.0)])
@pytest.mark.parametrize("moments", [SpectralMoments, ChebyshevMoments])
def test_terms_are_those_of_the_covariance(kernel, moments) -> None:  # type: ignore[no-untyped-def]
    ratio = 0.03
    terms = ObservedEvidence(GRID, NODES, Y, moments).terms(kernel, ratio)
    A = dense_kernel(GRID, kernel)[np.ix_(NODES, NODES)] + ratio * np.eye(NODES.size)
    assert terms.fit == pytest.approx(np.vdot(Y, np.linalg.solve(A, Y)))
    gap = abs(terms.log_determinant - np.linalg.slogdet(A)[1])
    assert gap <= SERIES_ERROR * NODES.size


@pytest.mark.parametrize(
    "kept",
    [
        FixedHyperparameters(),
        FixedHyperparameters(outputscale=1.3),
        FixedHyperparameters(noise=0.1),
        FixedHyperparameters(False, 2, 1),
    ],
)
def test_objective_is_the_density_and_its_gradient(kept: FixedHyperparameters) -> None:
    objective = ExactKernelObjective(
        ObservedEvidence(GRID, NODES, Y, ChebyshevMoments), GraphMaternKernel(), kept
    )
    variables = objective.near(GraphMaternKernel(4.0), 0.05)
    point = objective.at(variables)
    v, s = point.scales.outputscale, point.scales.noise
    A = v * dense_kernel(GRID, point.kernel)[np.ix_(NODES, NODES)] + s * np.eye(NODES.size)
    density = stats.multivariate_normal(np.zeros(NODES.size), A)
    expected = sum(density.logpdf(y) for y in Y.T)
    allowed = SERIES_ERROR * (NODES.size + abs(point.value))
    assert abs(-point.value - expected) <= allowed
    for name in ("outputscale", "noise"):
        if getattr(kept, name) is not None:
            assert getattr(point.scales, name) == pytest.approx(getattr(kept, name))
    for k, step in enumerate(1e-4 * np.eye(variables.size)):
        slope = (objective.at(variables + step).value - objective.at(variables - step).value) / 2e-4
        assert point.gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_search_reaches_the_best_of_a_grid() -> None:
    K = dense_kernel(GRID, HeatKernel(30.0)) + 1e-3 * np.eye(GRID.n_nodes)
    y = (np.linalg.cholesky(K) @ np.random.default_rng(5).standard_normal(GRID.n_nodes))[NODES]
    evidence = ObservedEvidence(GRID, NODES, y[:, None], SpectralMoments)
    starts = [HeatKernel(), GraphMaternKernel()]
    point = fit_families(evidence, starts, FixedHyperparameters()).point
    objective = ExactKernelObjective(evidence, HeatKernel(), FixedHyperparameters())
    best = min(
        objective.at(np.array([np.log(t), u])).value
        for t in np.geomspace(0.1, 1000, 30)
        for u in np.linspace(-15, 5, 30)
    )
    assert point.value <= best + 1e-6


def test_a_search_that_goes_on_ends_where_a_whole_one_does() -> None:
    evidence = ObservedEvidence(GRID, NODES, Y, SpectralMoments)
    starts = [HeatKernel(), GraphMaternKernel()]
    whole = fit_families(evidence, starts, FixedHyperparameters()).point
    begun = [HeatKernel(2.0), GraphMaternKernel(whole.kernel.theta[0])]
    for kernel in (HeatKernel, GraphMaternKernel):
        if isinstance(whole.kernel, kernel):
            begun[[HeatKernel, GraphMaternKernel].index(kernel)] = whole.kernel
    ratio = whole.scales.noise / whole.scales.outputscale
    found = fit_families(
        [evidence, evidence], [k.scaled(1.6) for k in begun], FixedHyperparameters(),
        ratios=[2 * ratio, 2 * ratio],
    )  # fmt: skip
    assert found.point.value == pytest.approx(whole.value, abs=0.05)
    assert found.n_evaluations < 60


def test_a_point_is_evaluated_once() -> None:
    objective = ExactKernelObjective(
        ObservedEvidence(GRID, NODES, Y, SpectralMoments), HeatKernel(), FixedHyperparameters()
    )
    first = objective.at(np.array([0.5, -2.0]))
    assert objective.at(np.array([0.5, -2.0])) is first
    assert objective.n_evaluations == 1


def test_components_and_isolated_nodes_are_no_obstacle() -> None:
    graph, nodes, y = weighted_graph(), np.arange(0, 14, 2), np.ones((7, 1))
    for moments in (SpectralMoments, ChebyshevMoments):
        terms = ObservedEvidence(graph, nodes, y, moments).terms(HeatKernel(3.0), 0.1)
        A = dense_kernel(graph, HeatKernel(3.0))[np.ix_(nodes, nodes)] + 0.1 * np.eye(7)
        assert terms.log_determinant == pytest.approx(np.linalg.slogdet(A)[1])
