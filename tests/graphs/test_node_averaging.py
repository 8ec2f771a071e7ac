"""Kernels of a graph averaged over their posterior: against brute-force quadrature."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import coupledgp as cgp
from coupledgp.core.averaging import HyperparameterPrior
from coupledgp.errors import InvalidInputError
from coupledgp.graphs.average import FINE, KernelPosterior, distinguishable_range
from coupledgp.graphs.search import FixedHyperparameters
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel, RegularizedLaplacianKernel
from coupledgp.kernels.graph_families import InverseCosineKernel, LearnedKernel

GRAPH = cgp.Graph.from_edges(range(14), [*range(1, 14), 0], weights=np.linspace(1, 2, 14))
NODES = np.array([0, 1, 3, 4, 7, 11])
Y = np.array([1.0, 0.8, -0.2, -0.9, -1.3, 0.6])[:, None]
FAMILIES = (HeatKernel(), RegularizedLaplacianKernel())
PRIOR = HyperparameterPrior(outputscale_sd=0.8, noise_mean=-2.0, noise_sd=1.2)
VALUES, VECTORS = np.linalg.eigh(GRAPH.normalized_adjacency.toarray())


def covariance(kernel, nodes=NODES):
    return (VECTORS[nodes] * kernel.spectral(VALUES)) @ VECTORS[nodes].T


def posterior(families=FAMILIES, kept=None, y=Y):
    kept = kept or FixedHyperparameters()
    return KernelPosterior(GRAPH, covariance, y - y.mean(axis=0), families, kept, PRIOR)


def log_joint(kernel, outputscale, noise, y=Y, kept=()):
    """Log density of targets times prior of log V and log s, at scales (m,); by solves."""
    y = y - y.mean(axis=0)
    K = covariance(kernel)
    n = len(y)
    center = np.eye(n) - 1 / n
    spread = np.trace(center @ K @ center) / (n - 1)
    unit = np.mean(y**2)
    outputscale, noise = np.atleast_1d(outputscale), np.atleast_1d(noise)
    A = outputscale[:, None, None] * K + noise[:, None, None] * np.eye(n)
    fit = (np.linalg.solve(A, y) * y).sum(axis=(1, 2))
    logs = np.linalg.slogdet(A)[1] + n * np.log(2 * np.pi)
    value = -0.5 * (fit + y.shape[1] * logs)
    if "outputscale" not in kept:
        value += norm.logpdf(np.log(outputscale * spread / unit), 0.0, PRIOR.outputscale_sd)
    if "noise" not in kept:
        value += norm.logpdf(np.log(noise / unit), PRIOR.noise_mean, PRIOR.noise_sd)
    return value


def test_the_average_is_that_of_a_brute_force_grid():
    """Probabilities of families and moments of all logarithms over 2 x 24 x 30 x 30 places."""
    v, s = (part.ravel() for part in np.meshgrid(np.linspace(-4, 8, 30), np.linspace(-8, 2.5, 30)))
    logs, features, families = [], [], []
    for number, family in enumerate(FAMILIES):
        low, high = distinguishable_range(GRAPH, family)
        thetas = low + (high - low) * (np.arange(24) + 0.5) / 24
        for theta in thetas:
            kernel = family.with_theta(np.array([theta]))
            logs.append(log_joint(kernel, np.exp(v), np.exp(s)))
            features.append(np.stack([np.full(v.size, theta), v, s], axis=1))
            families.append(np.full(v.size, number))
    logs, features, families = map(np.concatenate, (logs, features, families))
    chances = np.exp(logs - logsumexp(logs))
    found = posterior().average(4000)
    probabilities = [chances[families == k].sum() for k in range(2)]
    np.testing.assert_allclose(found.families, probabilities, atol=5e-3)
    for k, family in enumerate(FAMILIES):
        inside = [type(draw.kernel) is type(family) for draw in found.draws]
        weights = found.weights * inside
        drawn = np.array([[*d.kernel.theta, np.log(d.outputscale), np.log(d.noise)]
                          for d in found.draws])  # fmt: skip
        own = chances * (families == k)
        mean = own @ features / own.sum()
        np.testing.assert_allclose(weights @ drawn / weights.sum(), mean, atol=0.04)
        second = np.sqrt(own @ (features - mean) ** 2 / own.sum())
        spread = np.sqrt(weights @ (drawn - mean) ** 2 / weights.sum())
        np.testing.assert_allclose(spread, second, rtol=0.05)


@pytest.mark.parametrize("kept", [{}, {"outputscale": 1.3}, {"noise": 0.2},
                                  {"outputscale": 1.3, "noise": 0.2}])  # fmt: skip
def test_the_density_at_a_node(kept):
    """Log densities of any two nodes differ as those of the plain formula do."""
    two = np.hstack([Y, Y[::-1] ** 2])
    found = posterior(FAMILIES[:1], FixedHyperparameters(**kept), two)
    nodes = found.nodes(FAMILIES[0], found._ranges(FAMILIES[0]), FINE)
    shape = nodes.log_density.shape
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(5):
        place = tuple(rng.integers(size) for size in shape)
        kernel = HeatKernel(float(np.exp(nodes.theta[place])))
        v = nodes.outputscale[place]
        plain = log_joint(kernel, v, v * nodes.ratio[place], two, kept)
        gaps.append(nodes.log_density[place] - plain)
    low, high = distinguishable_range(GRAPH, FAMILIES[0])
    constants = (2 - len(kept)) * 0.5 * np.log(2 * np.pi)  # of the two normal laws
    np.testing.assert_allclose(np.ravel(gaps), constants - np.log(high - low), rtol=1e-9)


def test_given_values_are_kept_and_draws_are_in_order():
    found = posterior(kept=FixedHyperparameters(kernel=True, noise=0.3)).average(9)
    assert {draw.kernel for draw in found.draws} <= set(FAMILIES)
    np.testing.assert_allclose([draw.noise for draw in found.draws], 0.3)
    free = posterior().average(24)
    assert free.weights.sum() == pytest.approx(1)
    densities = [float(log_joint(*draw)[0]) for draw in free.draws]
    ranges = [distinguishable_range(GRAPH, type(draw.kernel)()) for draw in free.draws]
    ordered = np.array(densities) - np.log([high - low for low, high in ranges])
    assert (np.diff(ordered) <= 1e-9).all()
    assert 1 <= free.n_effective <= 24
    assert all(low < draw.kernel.theta[0] < high
               for draw, (low, high) in zip(free.draws, ranges, strict=True))  # fmt: skip


@pytest.mark.parametrize("noise", [1e-6, 1e-8, 1e-20, 1e-75])
def test_a_small_noise_that_is_kept_makes_no_small_function(noise):
    """The law of v hardly depends on a noise far below the function that the targets show."""
    usual = posterior(kept=FixedHyperparameters(noise=1e-4)).average(24)
    found = posterior(kept=FixedHyperparameters(noise=noise)).average(24)
    np.testing.assert_allclose(mean_log_scale(found), mean_log_scale(usual), atol=0.05)
    np.testing.assert_allclose([draw.noise for draw in found.draws], noise)


@pytest.mark.parametrize("outputscale", [1e-4, 1e-8, 1e-75])
def test_a_small_function_that_is_kept_makes_no_small_noise(outputscale):
    """Without a function the noise is that of independent targets, by quadrature over log s."""
    found = posterior(kept=FixedHyperparameters(outputscale=outputscale)).average(400)
    y = Y - Y.mean()
    logs = np.linspace(-8, 6, 2000)
    density = norm.logpdf(y, scale=np.exp(logs / 2)).sum(axis=0)
    density += norm.logpdf(logs - np.log(np.mean(y**2)), PRIOR.noise_mean, PRIOR.noise_sd)
    expected = np.average(logs, weights=np.exp(density - density.max()))
    mean = found.weights @ np.log([draw.noise for draw in found.draws])
    assert mean == pytest.approx(expected, abs=0.05)


def mean_log_scale(found):
    return found.weights @ np.log([draw.outputscale for draw in found.draws])


@pytest.mark.parametrize("n", [1, 3, 20])
def test_targets_without_a_spread_are_as_large_as_they_are(n):
    """Where they are not centred, hyperparameters of constant targets are in their squares."""
    nodes = np.arange(n) % 14
    model = cgp.GraphGPRegressor(GRAPH, normalize_y=False, random_state=0)
    model.fit(nodes, np.full(n, 5.0))
    scaled = cgp.GraphGPRegressor(GRAPH, normalize_y=False, random_state=0)
    scaled.fit(nodes, np.full(n, 5.0e6))
    std = model.predict(return_std=True)[1]
    assert (std > 0.02).all()
    assert (std < 20).all()
    np.testing.assert_allclose(scaled.predict(return_std=True)[1], 1e6 * std, rtol=1e-6)


def test_observations_at_one_node_have_the_variance_of_that_node():
    """They do not tell how much the function varies, so it is as large as the observations."""
    model = cgp.GraphGPRegressor(GRAPH, random_state=0).fit([3, 3, 3], [1.0, 2.0, 3.0])
    assert (model.predict(return_std=True)[1] < 5).all()
    assert model.outputscale_ < 100


@pytest.mark.long
def test_small_noise_on_many_nodes_is_answered_by_the_greatest_evidence():
    """There the covariance is a series, which has not the digits for so small a noise."""
    ends = np.arange(3000)
    ring = cgp.Graph.from_edges(ends, (ends + 1) % 3000)
    given = {"kernel": "regularized-laplacian", "noise": 1e-8, "fixed": ("noise",)}
    nodes, y = np.arange(0, 3000, 250), np.sin(np.arange(12.0))
    model = cgp.GraphGPRegressor(
        ring, **folded(cgp.GraphGPRegressor, dict(random_state=0, **given))
    ).fit(nodes, y)
    assert not hasattr(model, "n_effective_draws_")
    with pytest.raises(InvalidInputError, match="expected 'maximum' on 3000 nodes where a noise"):
        model.set_params(hyperparameters="averaged").fit(nodes, y)


def test_kernels_that_have_no_grid():
    with pytest.raises(InvalidInputError, match="hyperparameters: expected 'maximum'"):
        posterior([LearnedKernel()])
    found = posterior([LearnedKernel()], FixedHyperparameters(kernel=True)).average(4)
    assert len(found.draws) > 1
    assert posterior([InverseCosineKernel()]).average(4).n_evaluations == 2


def test_the_range_that_a_graph_tells_apart():
    """On a ring of 14 nodes: from hardly any spreading to two waves that are left."""
    low, high = np.exp(distinguishable_range(GRAPH, HeatKernel()))
    for time, local in ((low / 2, True), (high * 2, False)):
        g = HeatKernel(time).spectral(VALUES)
        share = g.sum() ** 2 / (g**2).sum() / g.size
        assert share > 0.9 if local else np.sort(g)[-2] < 0.02 * g.max()
