"""The likelihood is an object of its own: another one changes what is said of observations only."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.likelihoods import Likelihood

RNG = np.random.default_rng(9)
X, X_TEST = RNG.normal(size=(50, 2)), RNG.normal(size=(6, 2))
Y = 2.0 + np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=50)
GRAPH = cgp.Graph.from_edges(np.arange(20), (np.arange(20) + 1) % 20)


@dataclass(frozen=True)
class Contaminated(Likelihood):
    """Gaussian noise, one observation in ten of which has ten times the standard deviation."""

    variance: float
    share: float = 0.1
    factor: float = 100.0

    @property
    def parts(self):
        return ((1 - self.share, self.variance), (self.share, self.factor * self.variance))

    def log_density(self, y, f):
        return np.log(sum(w * stats.norm.pdf(y, f, v**0.5) for w, v in self.parts))

    def slope(self, y, f):
        parts = [(w * stats.norm.pdf(y, f, v**0.5), (y - f) / v) for w, v in self.parts]
        return sum(p * s for p, s in parts) / sum(p for p, _ in parts)

    def moments(self, f):
        return f, np.full_like(f, sum(weight * variance for weight, variance in self.parts))

    def cdf(self, y, f):
        return sum(weight * stats.norm.cdf(y, f, variance**0.5) for weight, variance in self.parts)

    def draw(self, f, rng):
        far = rng.random(f.shape) < self.share
        scale = np.sqrt(self.variance * np.where(far, self.factor, 1.0))
        return f + scale * rng.standard_normal(f.shape)


def fitted(kind):
    if kind == "nodes":
        nodes = np.arange(0, 20, 2)
        gp = cgp.GraphGPRegressor(GRAPH, random_state=0, hyperparameters="maximum")
        gp.fit(nodes, np.sin(nodes / 3))
        return gp.process_, np.array([1, 3, 5])
    gp = cgp.ExactGPRegressor if kind == "exact" else cgp.SparseSpectrumGPRegressor
    return gp(random_state=0).fit(X, Y).process_, X_TEST


def with_noise(process, likelihood):
    for name in ("feature_prior", "dense_prior"):
        if hasattr(process, name):
            prior = replace(getattr(process, name), likelihood=likelihood)
            return replace(process, **{name: prior})
    return replace(process, likelihood=likelihood)


@pytest.mark.parametrize("kind", ["features", "exact", "nodes"])
def test_another_likelihood(kind):
    process, points = fitted(kind)
    other = with_noise(process, Contaminated)
    mean, latent = other.law(points, "variance", latent=True)
    np.testing.assert_array_equal(latent, process.law(points, "variance", latent=True).spread)
    observed = other.law(points, "variance").spread
    noise = process.units.spread(process.noise.variance)
    np.testing.assert_allclose(observed - latent, np.broadcast_to(10.9 * noise, latent.shape))
    covariance = other.law(points, "covariance").spread
    np.testing.assert_allclose(np.einsum("iik->ik", covariance), observed)
    targets = mean + np.sqrt(noise)
    density = np.log(sum(
        weight * stats.norm.pdf(targets, mean, np.sqrt(latent + variance * process.units.scale**2))
        for weight, variance in other.noise.parts
    ))  # fmt: skip
    np.testing.assert_allclose(other.log_density(points, targets), density[:, 0], rtol=1e-7)
    at = other.quantiles(points, np.array([0.02, 0.5, 0.98]))
    for number, chance in enumerate((0.02, 0.5, 0.98)):
        np.testing.assert_allclose(other.cdf(points, at[..., number]), chance, rtol=1e-9)
    draws = other.sample(points, 4000, np.random.default_rng(0))
    gaps = draws[:, 0] - draws[:, 0].mean(axis=1, keepdims=True)
    if noise[0] > latent.max():
        assert (stats.kurtosis(gaps, axis=1) > 1).all(), "the tails of a Gaussian law"


@pytest.mark.parametrize("kind", ["features", "exact", "nodes"])
def test_it_stays_with_the_process(kind):
    process, points = fitted(kind)
    other = with_noise(process, Contaminated)
    more = Data.of(process.data.points[:3], process.data.targets[:3])
    assert isinstance(other.updated(more).noise, Contaminated)
    assert isinstance(other.conditioned(more).noise, Contaminated)
    if kind != "exact":
        assert isinstance(other.redrawn("iid", 4, 0).noise, Contaminated)
    report = cgp.diagnostics.compare(other, points, reference=process)
    assert report.kl_per_point > 0.01
    with pytest.raises(InvalidInputError, match="expected Gaussian noise"):
        other.state()
