"""Every process under likelihoods; values at nodes with noise of their own."""

from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.latent import LatentGP
from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.sites import DenseRows, Observed, find_sites
from coupledgp.core.units import Units
from coupledgp.ground.codec import decoded, encoded
from coupledgp.likelihoods import Gaussian, Poisson
from coupledgp.testing import ProcessContract
from tests.tables import test_local_process

RNG = np.random.default_rng(1)
X = RNG.normal(size=(30, 2))
Y = np.sin(2 * X[:, 0])
RING = cgp.Graph.from_edges(np.arange(40), (np.arange(40) + 1) % 40)
NODES = RNG.permutation(40)[:25]
OFF = {"optimizer": None, "random_state": 0}


def on_ring(**options):
    model = cgp.ExactGraphGPRegressor(RING, "matern", **OFF, **options)
    return model.fit(NODES, np.sin(NODES / 4)).process_


MADE = {
    "exact": lambda: cgp.ExactGPRegressor(**OFF).fit(X, Y).process_,
    "features": lambda: cgp.SparseSpectrumGPRegressor(n_frequencies=16, **OFF).fit(X, Y).process_,
    "local": lambda: test_local_process.process("fitted"),
    "nodes": on_ring,
    "nodes by walks": lambda: (
        cgp.GraphGPRegressor(RING, n_walks=20, **OFF).fit(NODES, np.sin(NODES / 4)).process_
    ),
}


@pytest.fixture(params=MADE)
def function(request):
    """A process of one output in units of f, of prior mean .3."""
    made = MADE[request.param]()
    return replace(made, units=Units(np.array([0.3]), np.ones(1)))


def counts(n):
    rng = np.random.default_rng(7)
    return rng.poisson(np.exp(0.3 + 0.5 * np.sin(np.arange(n) / 4)))[:, None].astype(float)


class TestEveryProcess:
    def test_sites_are_those_of_its_covariance(self, function):
        points = function.data.points
        data = Data.of(points, counts(len(points)))
        (observed,) = Observed.of(Poisson(), data.targets, np.array([0.3]))
        expected = find_sites(DenseRows(function.latent_prior(points)), observed)
        found = LatentGP.given([function], Poisson(), data)
        assert found.log_evidence == pytest.approx(expected.evidence, abs=1e-6)
        mean = found.law(points, "mean", latent=True).mean[:, 0]
        np.testing.assert_allclose(mean, 0.3 + expected.mean, atol=1e-5)

    def test_normal_noise_is_conditioning(self, function):
        """Sites of normal observations are these observations."""
        points = function.data.points
        y = np.sin(np.arange(len(points)))[:, None]
        given = LatentGP.given([function], Gaussian(0.4), Data.of(points, y))
        noise = np.full(len(y), 0.4 / function.noise.variance)
        direct = function.conditioned(Data.of(points, y, noise))
        assert given.log_evidence == pytest.approx(direct.log_evidence, abs=1e-6)
        one, other = (p.law(points[:5], "variance", latent=True) for p in (given, direct))
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-7)
        np.testing.assert_allclose(one.spread, other.spread, atol=1e-7)

    def test_what_follows_from_it(self, function, tmp_path):
        """Rows left out, more rows, exposures, draws and files, whatever the process."""
        points, rng = function.data.points, np.random.default_rng(0)
        y, exposure = counts(len(points)), rng.uniform(0.5, 2.0, len(points))
        weights = RowWeights.ones(len(y), exposure)
        process = LatentGP.given([function], Poisson(), Data.of(points, y, weights=weights))
        wanted = np.array([4])
        kept = process.left_out_law(np.arange(len(y)), wanted)
        for place, row in enumerate(wanted):
            rest = process.conditioned(process.data.take(np.delete(np.arange(len(y)), row)))
            anew = rest.marginals(points[[row]], exposure=exposure[[row]])
            mean, variance = Poisson().marginal_moments(anew.mean, anew.variance)
            assert abs(kept.mean[place, 0] - mean[0, 0]) < 0.05 * np.sqrt(variance[0, 0])
        part = process.conditioned(process.data.take(np.arange(len(y) - 3)))
        whole = part.updated(process.data.take(np.arange(len(y) - 3, len(y))))
        assert whole.log_evidence == pytest.approx(process.log_evidence, abs=1e-5)
        drawn = process.sample(points[:4], 3, rng)
        Poisson().check_targets(drawn[:, 0])
        restored = decoded(encoded(process), LatentGP)
        np.testing.assert_array_equal(restored.data.weights.exposure, exposure)
        one, other = (p.law(points[:4], "variance") for p in (process, restored))
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9)
        np.testing.assert_allclose(one.spread, other.spread, rtol=1e-9)


def test_exposures_of_predictions():
    function = replace(MADE["exact"](), units=Units(np.array([0.3]), np.ones(1)))
    process = LatentGP.given([function], Poisson(), Data.of(X, counts(30)))
    one, five = (process.marginals(X[:3], exposure=np.full(3, e)) for e in (1.0, 5.0))
    np.testing.assert_allclose(five.mean, one.mean + np.log(5.0))
    means = [m.likelihood.marginal_moments(m.mean, m.variance)[0] for m in (one, five)]
    np.testing.assert_allclose(means[1], 5 * means[0], rtol=1e-9)
    transformed = one.pit(counts(3), np.random.default_rng(0))
    assert ((transformed > 0) & (transformed < 1)).all()


RELATIVE = np.random.default_rng(3).uniform(0.2, 5.0, 25)
SEEN = Data.of(NODES, np.sin(NODES / 4)[:, None], RELATIVE)
FURTHER = Data.of(np.setdiff1d(np.arange(40), NODES)[:4], np.ones((4, 1)))


class TestNodesOfUnequalNoise(ProcessContract):
    process = on_ring().conditioned(SEEN)
    points, further = np.array([0, 5, 11, 26]), FURTHER


class TestNodesOfUnequalNoiseByIterations(TestNodesOfUnequalNoise):
    process = on_ring(solver="iterative").conditioned(SEEN)
    tolerance, solver_tolerance = 1e-4, 1e-3


@pytest.mark.parametrize("solver", ["auto", "iterative"])
def test_nodes_of_unequal_noise_by_hand(solver):
    process = on_ring(solver=solver).conditioned(SEEN)
    posterior, units = process.posterior, process.units
    prior = posterior.outputscale * posterior.prior.matrix(np.arange(40), np.arange(40))
    noisy = prior[np.ix_(NODES, NODES)] + posterior.noise * np.diag(RELATIVE)
    cross = prior[:, NODES]
    gain = np.linalg.solve(noisy, cross.T).T
    mean, spread = process.latent_law(np.arange(40), "covariance")
    targets = units.normalized(SEEN.targets)
    np.testing.assert_allclose(mean, gain @ targets, atol=1e-5)
    np.testing.assert_allclose(spread, prior - gain @ cross.T, atol=1e-5)
    fit = -0.5 * float((targets * np.linalg.solve(noisy, targets)).sum())
    value = fit - 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1] - units.log_jacobian(25)
    error = 1e-8 if solver == "auto" else 4 * process.node_evidence.error + 0.2
    assert abs(process.log_evidence - value) < error
