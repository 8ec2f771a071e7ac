"""Evidence, gradients, solvers and posteriors on graphs against plain linear algebra."""

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from coupledgp.couplings import GeometricLaw, MatchedLaw, parse_walker_coupling
from coupledgp.errors import NumericalError
from coupledgp.features import WalkFeatures, plan_hops
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import (
    DenseEvidence,
    IterativeEvidence,
    Scales,
    SpectralMeasures,
)
from coupledgp.graphs.posterior import DensePosterior, IterativePosterior
from coupledgp.graphs.priors import GraphPrior, SeriesPrior, SpectralPrior, WalkPrior
from coupledgp.graphs.search import fit_kernel
from coupledgp.ground.progress import watched
from coupledgp.kernels import HeatKernel, LearnedKernel, dense_kernel
from tests.graph_cases import karate, weighted_graph

NODES = np.array([0, 3, 5, 9, 20, 31, 33, 3])
HEAT = HeatKernel(3.0)


def walk_prior(kernel=HEAT, n_hops: int = 2, seed: int = 0) -> WalkPrior:  # type: ignore[no-untyped-def]
    graph = karate()
    plan = plan_hops(graph, kernel, 8, n_hops)
    coupling = parse_walker_coupling("stratified+systematic")
    law = MatchedLaw(0.7 ** np.arange(12))
    return WalkPrior(graph, kernel, plan, 8, coupling, law, 11, seed)


def priors() -> list[GraphPrior]:
    return [SpectralPrior(karate(), HEAT), SeriesPrior(karate(), HEAT, 1e-10), walk_prior()]


def targets() -> np.ndarray:
    return np.random.default_rng(2).standard_normal(NODES.size)


@pytest.mark.parametrize("prior", priors(), ids=lambda p: type(p).__name__)
def test_prior_products_matrices_and_samples_agree(prior: GraphPrior) -> None:
    every = np.arange(34)
    K = prior.matrix(every, every)
    if not isinstance(prior, WalkPrior):
        np.testing.assert_allclose(K, dense_kernel(karate(), HEAT), atol=1e-8)
    np.testing.assert_allclose(prior.matrix(NODES, every), K[NODES], atol=1e-12)
    np.testing.assert_allclose(prior.matrix(every, NODES), K[:, NODES], atol=1e-12)
    np.testing.assert_allclose(prior.diagonal(NODES), np.diag(K)[NODES], atol=1e-10)
    V = np.random.default_rng(0).standard_normal((NODES.size, 2))
    product = prior.product(every, NODES, V)
    np.testing.assert_allclose(product, K[:, NODES] @ V, atol=1e-10)
    draws = prior.sample(NODES[:-1], 40_000, np.random.default_rng(1))
    expected = K[np.ix_(NODES[:-1], NODES[:-1])]
    assert np.abs(draws @ draws.T / 40_000 - expected).max() < 6 * expected.max() * 2 / 200
    np.testing.assert_allclose(prior.rough_diagonal(NODES), np.diag(K)[NODES], rtol=1.5)


def test_covariances_between_lists_form_rows_of_the_shorter_one(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A row costs every hop; those of all observations were formed for each block of nodes."""
    formed: list[int] = []
    rows = WalkFeatures.rows

    def counted(self, positions=None):  # type: ignore[no-untyped-def]
        formed.append(self.shape[0])
        return rows(self, positions)

    monkeypatch.setattr(WalkFeatures, "rows", counted)
    few, many = np.array([3, 7]), np.arange(8, 34)
    prior = walk_prior()
    np.testing.assert_allclose(prior.matrix(many, few), prior.matrix(few, many).T, atol=1e-14)
    assert formed == [few.size, few.size]


@pytest.mark.parametrize("prior", priors(), ids=lambda p: type(p).__name__)
def test_prior_gradients_are_finite_differences(prior: GraphPrior) -> None:
    step = 1e-5
    theta = prior.kernel.theta
    up, down = (prior.at(prior.kernel.with_theta(theta + d)) for d in (step, -step))
    slope = (up.matrix(NODES, NODES) - down.matrix(NODES, NODES)) / (2 * step)
    V = np.random.default_rng(0).standard_normal((NODES.size, 2))
    np.testing.assert_allclose(prior.gradient_products(NODES, V)[0], slope @ V, atol=1e-7)
    B = V @ V.T
    np.testing.assert_allclose(prior.gradient_inner(NODES, B)[0], np.vdot(B, slope), atol=1e-7)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("noise", [1e-8, 1e-10])
def test_a_tiny_noise_that_is_kept_does_not_bound_the_function(noise: float, unit: float) -> None:
    """Without noise `v = y' K^-1 y / n` is best, whatever the unit of the targets."""
    eigenvalues, energy = np.array([0.2, 0.7, 1.0, 2.5]), unit * np.array([0.3, 1.1, 0.6, 1.9])
    trace = eigenvalues[None], np.ones((1, 4))
    found = SpectralMeasures(eigenvalues, energy, *trace).profile(noise=noise * unit)
    assert found.outputscale == pytest.approx(float((energy / eigenvalues).mean()), rel=1e-4)
    assert found.noise == noise * unit
    large = SpectralMeasures(eigenvalues, energy, *trace).profile(outputscale=1e9 * unit)
    assert large.noise < 1e3 * unit  # the bounds follow the targets, not the function


@pytest.mark.parametrize("prior", priors(), ids=lambda p: type(p).__name__)
def test_dense_evidence_is_the_gaussian_density(prior: GraphPrior) -> None:
    y = targets()
    evidence = DenseEvidence(prior, NODES, y)
    for v, s in [(1.0, 0.1), (3.0, 0.7)]:
        A = v * prior.matrix(NODES, NODES) + s * np.eye(NODES.size)
        expected = stats.multivariate_normal(np.zeros(y.size), A).logpdf(y)
        assert evidence.measures.log_evidence(v, s) == pytest.approx(expected)
    assert evidence.measures.log_evidence_error(1.0, 0.1) == 0.0


def test_profile_is_the_best_of_a_fine_grid() -> None:
    measures = DenseEvidence(SpectralPrior(karate(), HEAT), NODES, targets()).measures
    scales = measures.profile()
    grid = np.exp(np.linspace(-9, 4, 60))
    best = max(measures.log_evidence(v, s) for v in grid for s in grid)
    assert scales.log_evidence >= best - 1e-9
    assert measures.profile(2.0, 0.3) == Scales(2.0, 0.3, measures.log_evidence(2.0, 0.3))
    for kept in ({"outputscale": 0.7}, {"noise": 0.2}):
        found = measures.profile(**kept)
        assert scales.log_evidence >= found.log_evidence - 1e-9
        assert getattr(found, next(iter(kept))) == next(iter(kept.values()))


@pytest.mark.parametrize("prior", priors(), ids=lambda p: type(p).__name__)
def test_evidence_gradient_is_a_finite_difference(prior: GraphPrior) -> None:
    y, step, scales = targets(), 1e-5, Scales(1.3, 0.2, 0.0)

    def value(shift: float) -> float:
        moved = prior.at(prior.kernel.with_theta(prior.kernel.theta + shift))
        return DenseEvidence(moved, NODES, y).measures.log_evidence(1.3, 0.2)

    slope = (value(step) - value(-step)) / (2 * step)
    assert DenseEvidence(prior, NODES, y).gradient(scales)[0] == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("prior", priors(), ids=lambda p: type(p).__name__)
def test_iterative_evidence_is_the_dense_one_within_its_error(prior: GraphPrior) -> None:
    y = targets()
    dense = DenseEvidence(prior, NODES, y)
    iterative = IterativeEvidence(prior, NODES, y, n_probes=400, tolerance=1e-10)
    value, error = (
        iterative.measures.log_evidence(1.0, 0.2),
        iterative.measures.log_evidence_error(1.0, 0.2),
    )
    assert abs(value - dense.measures.log_evidence(1.0, 0.2)) < 6 * error
    assert 0 < error < 0.5
    scales = Scales(1.0, 0.2, 0.0)
    gap = iterative.gradient(scales) - dense.gradient(scales)
    # The trace of a matrix of norm about one, of 8 rows, from 400 sign vectors.
    assert abs(gap[0]) < 6 * np.sqrt(2 * 8 / 400)


@pytest.mark.parametrize("prior", priors(), ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("iterative", [False, True])
def test_posterior_is_the_conditional_gaussian(prior: GraphPrior, iterative: bool) -> None:
    y, test = targets(), np.array([1, 3, 7, 33])
    v, s = 1.7, 0.3
    make = IterativePosterior if iterative else DensePosterior
    posterior = make(prior, NODES, y[:, None], v, s)
    A = v * prior.matrix(NODES, NODES) + s * np.eye(NODES.size)
    cross = v * prior.matrix(test, NODES)
    mean = cross @ np.linalg.solve(A, y)
    covariance = v * prior.matrix(test, test) - cross @ np.linalg.solve(A, cross.T)
    np.testing.assert_allclose(posterior.mean(test)[:, 0], mean, atol=1e-5)
    np.testing.assert_allclose(posterior.covariance(test), covariance, atol=1e-5)
    np.testing.assert_allclose(posterior.variance(test), np.diag(covariance), atol=1e-5)
    draws = posterior.sample(test, 20_000, np.random.default_rng(0))[:, 0]
    error = np.sqrt(np.diag(covariance) / 20_000)
    assert (np.abs(draws.mean(axis=1) - mean) < 6 * error + 1e-5).all()
    assert np.abs(np.cov(draws) - covariance).max() < 6 * covariance.max() * np.sqrt(2 / 20_000)
    sampled = posterior.sampled_variance(test, 5000, np.random.default_rng(1))
    np.testing.assert_allclose(sampled, np.diag(covariance), rtol=6 * np.sqrt(2 / 5000))


@pytest.mark.parametrize("noise", [1e-4, 0.3, 30.0])
def test_draws_for_variances_are_solved_for_as_roughly_as_is_asked(noise: float) -> None:
    graph = Graph.from_networkx(nx.random_regular_graph(3, 200, seed=0))
    seen = np.random.default_rng(0).choice(200, 90, replace=False)
    prior = SeriesPrior(graph, HeatKernel(2.0))
    posterior = IterativePosterior(prior, seen, np.ones((90, 1)), 1.7, noise)
    draws, steps = [], []
    for error in (0.0, 3e-3):
        lines: list[str] = []
        rng = np.random.default_rng(3)
        with watched(lines.append):
            draws.append(posterior.deviations(np.arange(200), 40, rng, error))
        steps.append([line for line in lines if line.startswith("conjugate gradients, step")])
    assert len(steps[1]) < len(steps[0])
    assert 0 < np.sqrt(np.square(draws[0] - draws[1]).mean()) < 3e-3 * np.sqrt(noise)


def test_impossible_covariance_is_refused_with_advice() -> None:
    with pytest.raises(NumericalError, match="raise the noise"):
        DensePosterior(
            SpectralPrior(karate(), HeatKernel(900.0)), NODES, targets()[:, None], 1.0, 0.0
        )


def smooth_values() -> np.ndarray:
    K = dense_kernel(weighted_graph(), HeatKernel(4.0))
    return np.linalg.cholesky(K + 1e-9 * np.eye(14)) @ np.random.default_rng(0).standard_normal(14)


def make_spectral(kernel):  # type: ignore[no-untyped-def]
    return SpectralPrior(weighted_graph(), kernel)


def test_fit_reaches_the_best_of_a_grid() -> None:
    nodes, y = np.arange(14), smooth_values()

    def evidence(prior: GraphPrior) -> DenseEvidence:
        return DenseEvidence(prior, nodes, y)

    kernel, state = fit_kernel(HeatKernel(), make_spectral, evidence)
    grid = [HeatKernel(float(t)) for t in np.geomspace(0.05, 500, 80)]
    best = max(evidence(make_spectral(k)).measures.profile().log_evidence for k in grid)
    assert state.settled
    assert -state.value >= best - 1e-3
    assert evidence(make_spectral(kernel)).measures.profile().log_evidence == pytest.approx(
        -state.value
    )


def test_learned_kernel_improves_on_its_start() -> None:
    nodes, y = np.arange(14), smooth_values()

    def evidence(prior: GraphPrior) -> DenseEvidence:
        return DenseEvidence(prior, nodes, y)

    start = LearnedKernel(n_terms=5)
    kernel, state = fit_kernel(start, make_spectral, evidence)
    assert kernel.theta.size == 5
    assert -state.value > evidence(make_spectral(start)).measures.profile().log_evidence


def overflowing(kernel) -> WalkPrior:  # type: ignore[no-untyped-def]
    """Walks of geometric lengths: at wide kernels the weights of the longest ones overflow."""
    graph = karate()
    plan = plan_hops(graph, kernel, 8, 0)
    coupling = parse_walker_coupling("iid")
    return WalkPrior(graph, kernel, plan, 8, coupling, GeometricLaw(0.6), 2000, 0)


@pytest.mark.parametrize("dense", [True, False])
def test_fit_avoids_kernels_whose_walks_overflow(dense: bool) -> None:
    y = targets()

    def evidence(prior: GraphPrior) -> DenseEvidence | IterativeEvidence:
        return (DenseEvidence if dense else IterativeEvidence)(prior, NODES, y)

    wide = HeatKernel(3900.0)
    with pytest.raises(NumericalError, match="kernel"):
        evidence(overflowing(wide)).measures.profile()
    kernel, state = fit_kernel(wide, overflowing, evidence, scan_starts=False)
    scales = evidence(overflowing(kernel)).measures.profile()
    assert np.isfinite([-state.value, *kernel.theta]).all()
    assert 1e-12 < scales.outputscale < 1e12
    assert 1e-12 < scales.noise < 1e12


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e200, np.inf, np.nan])
def test_scales_of_a_kernel_that_vanishes_or_overflows_are_refused(scale: float) -> None:
    n = 5
    measures = SpectralMeasures(
        np.full(n, scale), np.ones(n), np.full((1, n), scale), np.ones((1, n))
    )
    with pytest.raises(NumericalError, match="mean diagonal"):
        measures.profile()


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e9])
def test_scales_follow_the_units_of_the_targets(size: float) -> None:
    nodes = np.linspace(0.1, 2.0, 6)
    trace = nodes[None, :], np.ones((1, 6))
    base = SpectralMeasures(nodes, nodes**2 + 0.1, *trace).profile()
    scales = SpectralMeasures(nodes, size**2 * (nodes**2 + 0.1), *trace).profile()
    assert np.isfinite([scales.outputscale, scales.noise, scales.log_evidence]).all()
    if size:
        ratio = base.noise / base.outputscale
        assert scales.outputscale == pytest.approx(size**2 * base.outputscale, rel=1e-3)
        assert scales.noise == pytest.approx(ratio * scales.outputscale, rel=1e-3)
