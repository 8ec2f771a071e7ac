"""Laplace's sites against scikit-learn, quadrature and differences."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from coupledgp.inference.dense.system import stationary_covariance
from coupledgp.inference.sites.objective import SiteObjective, differentiable_evidence
from coupledgp.inference.sites.priors import DenseSites, FeatureSites
from coupledgp.inference.sites.rules import RULES, Observed
from coupledgp.inference.sites.steps import find_sites
from coupledgp.likelihoods import Bernoulli, Gaussian, Likelihood
from coupledgp.spectra import parse_spectrum

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * RNG.normal(size=60) > 0).astype(float)
ZERO = torch.zeros(1, dtype=torch.float64)
THEIRS = {"gaussian": RBF, "matern-1/2": Matern, "matern-3/2": Matern, "matern-5/2": Matern}


@dataclass(frozen=True)
class StudentT(Likelihood):
    """Heavy tails: `y = f + s t`, t of nu degrees of freedom; not log-concave."""

    scale: float = 0.3
    degrees: float = 4.0

    def log_density(self, y, f):
        scale = torch.as_tensor(self.scale, dtype=f.dtype)
        degrees = torch.as_tensor(self.degrees, dtype=f.dtype)
        return torch.distributions.StudentT(degrees, f, scale).log_prob(y)

    def moments(self, f):
        return f, np.full_like(f, self.scale**2 * self.degrees / (self.degrees - 2))

    def cdf(self, y, f):
        return stats.t.cdf(y, self.degrees, f, self.scale)

    def draw(self, f, rng):
        return f + self.scale * rng.standard_t(self.degrees, f.shape)


def objective(likelihood, targets, name="gaussian", rule="laplace"):
    rows = torch.as_tensor(X[: len(targets)])
    spectrum = parse_spectrum(name)
    return SiteObjective(
        lambda v: DenseSites(v[0].exp() * stationary_covariance(spectrum, rows, v[1:])),
        3, Observed.of(likelihood, targets, np.zeros(targets.shape[1])), RULES[rule],
    )  # fmt: skip


def sites(prior, likelihood, y, offset=0.0, rule="laplace"):
    """Sites of targets (k, n)."""
    y = np.atleast_2d(np.asarray(y))
    observed = Observed.of(likelihood, y.T, np.broadcast_to(offset, len(y)))
    return find_sites(prior, RULES[rule], observed)


@pytest.mark.parametrize("name", THEIRS)
def test_evidence_and_gradient_are_those_of_scikit_learn(name):
    own = {} if name == "gaussian" else {"nu": parse_spectrum(name).nu}
    kernel = ConstantKernel(4.0) * THEIRS[name]([0.7, 1.3], **own)
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, Y).base_estimator_
    theta = theirs.kernel_.theta
    value, gradient = theirs.log_marginal_likelihood(theta, eval_gradient=True)
    found, slope = objective(Bernoulli(), Y[:, None], name).value_and_gradient(theta)
    assert -found == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(-slope, gradient, atol=1e-9)


@pytest.mark.parametrize("likelihood", [Bernoulli(), StudentT(), Gaussian(0.3)])
def test_gradients_are_differences(likelihood):
    targets = Y[:, None] if likelihood.is_discrete else (Y + 0.3 * X[:, 0])[:, None]
    own = objective(likelihood, np.column_stack([targets, targets[::-1]]))
    at = np.concatenate([[0.4, -0.2, 0.1], np.log([*likelihood.parameters.values()])])
    _, gradient = own.value_and_gradient(at)
    for place in range(at.size):
        step = np.zeros(at.size)
        step[place] = 1e-5
        up, down = (own.value_and_gradient(at + sign * step)[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_gaussian_sites_are_exact(rule):
    covariance = np.exp(-0.5 * np.square(X[:, :1] - X[:, 0])) + np.eye(60)
    found = sites(DenseSites(torch.as_tensor(covariance)), Gaussian(0.3), Y, 0.2, rule)
    noisy = covariance + 0.3 * np.eye(60)
    law = stats.multivariate_normal(np.full(60, 0.2), noisy)
    assert float(found.evidence) == pytest.approx(law.logpdf(Y), rel=1e-12)
    np.testing.assert_allclose(0.2 + found.targets[0], Y, rtol=1e-10, atol=1e-10)


def test_evidence_of_one_observation_by_quadrature():
    """Laplace's evidence is off by the third and fourth derivatives; less for narrow priors."""
    for variance, tolerance in ((0.01, 1e-5), (0.1, 1e-3), (1.0, 0.03)):
        prior = DenseSites(torch.full((1, 1), variance, dtype=torch.float64))
        found = sites(prior, Bernoulli(), np.ones((1, 1)), 0.7)
        law = stats.norm(0.7, variance**0.5)
        exact = integrate.quad(lambda f: law.pdf(f) / (1 + np.exp(-f)), -20, 20, epsabs=1e-13)[0]  # noqa: B023
        assert abs(float(found.evidence) - np.log(exact)) < tolerance


@pytest.mark.parametrize("rule", RULES)
def test_features_and_their_covariance_give_the_same_sites(rule):
    features = torch.as_tensor(RNG.normal(size=(60, 20)))
    y, offset = np.stack([Y, Y[::-1]]), np.array([0.1, -0.3])
    chunks = FeatureSites(lambda: features.split(7), 0.5)
    one = sites(chunks, Bernoulli(), y, offset, rule)
    dense = DenseSites(0.5 * features @ features.T)
    other = sites(dense, Bernoulli(), y, offset, rule)
    np.testing.assert_allclose(one.evidence, other.evidence, atol=1e-9)
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-7)
    np.testing.assert_allclose(one.precision, other.precision, atol=1e-7)
    alone = sites(chunks, Bernoulli(), y[1:], offset[1:], rule)
    assert float(alone.evidence) == pytest.approx(float(one.evidence[1]), abs=1e-9)


@pytest.mark.parametrize("outputscale", [1.0, 1e3, 1e8])
def test_separable_classes_converge(outputscale):
    """At the mode the slopes of likelihood and prior cancel, however far the mode is."""
    rows = np.linspace(-1, 1, 40)
    y = torch.as_tensor((rows > 0).astype(float))[None]
    observed = Observed(Bernoulli(), y, ZERO[:, None])
    covariance = outputscale * torch.as_tensor(np.exp(-0.5 * np.square(rows[:, None] - rows) / 0.1))
    prior = DenseSites(covariance)
    found = find_sites(prior, RULES["laplace"], observed)
    slope = Bernoulli().site(y, found.mean).slope.detach()
    np.testing.assert_allclose(found.alpha, slope, atol=1e-9)
    assert bool(((found.mean > 0) == (y > 0)).all())
    again = differentiable_evidence(prior, RULES["laplace"], observed, found).detach()
    assert float(again) == pytest.approx(float(found.evidence), abs=1e-6)


def test_outliers_under_heavy_tails_are_left_aside():
    """One observation far away moves the mode by little; under normal noise by much."""
    covariance = torch.as_tensor(np.exp(-0.5 * np.square(X[:, :1] - X[:, 0])))
    smooth = np.sin(X[:, 0])
    far = smooth.copy()
    far[3] += 20.0
    moved = {}
    for likelihood in (StudentT(0.1, 3.0), Gaussian(0.01)):
        modes = [sites(DenseSites(covariance), likelihood, y).mean for y in (smooth, far)]
        moved[type(likelihood)] = float((modes[0] - modes[1]).abs().max())
    assert moved[StudentT] < 0.05 < 1 < moved[Gaussian]
