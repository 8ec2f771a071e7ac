"""Laplace's sites against scikit-learn, quadrature and differences."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from coupledgp.inference.dense.covariance import stationary_covariance
from coupledgp.inference.sites.laplace import laplace_evidence, laplace_sites
from coupledgp.inference.sites.objective import LaplaceObjective
from coupledgp.inference.sites.priors import DenseSites, FeatureSites
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


def objective(likelihood, targets, name="gaussian", offset=None):
    rows = torch.as_tensor(X[: len(targets)])
    spectrum = parse_spectrum(name)
    return LaplaceObjective(
        lambda v: DenseSites(v[0].exp() * stationary_covariance(spectrum, rows, v[1:])),
        3, likelihood, targets, np.zeros(targets.shape[1]) if offset is None else offset,
    )  # fmt: skip


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


def test_gaussian_sites_are_exact():
    covariance = np.exp(-0.5 * np.square(X[:, :1] - X[:, 0])) + np.eye(60)
    found = laplace_sites(
        DenseSites(torch.as_tensor(covariance)), Gaussian(0.3),
        torch.as_tensor(Y[None]), ZERO + 0.2,
    )  # fmt: skip
    noisy = covariance + 0.3 * np.eye(60)
    law = stats.multivariate_normal(np.full(60, 0.2), noisy)
    assert float(found.evidence) == pytest.approx(law.logpdf(Y), rel=1e-12)
    np.testing.assert_allclose(found.targets[0], Y, rtol=1e-10, atol=1e-10)


def test_evidence_of_one_observation_by_quadrature():
    """Laplace's evidence is off by the third and fourth derivatives; less for narrow priors."""
    for variance, tolerance in ((0.01, 1e-5), (0.1, 1e-3), (1.0, 0.03)):
        prior = DenseSites(torch.full((1, 1), variance, dtype=torch.float64))
        found = laplace_sites(prior, Bernoulli(), torch.ones(1, 1).double(), ZERO + 0.7)
        law = stats.norm(0.7, variance**0.5)
        exact = integrate.quad(lambda f: law.pdf(f) / (1 + np.exp(-f)), -20, 20, epsabs=1e-13)[0]  # noqa: B023
        assert abs(float(found.evidence) - np.log(exact)) < tolerance


def test_features_and_their_covariance_give_the_same_sites():
    features = torch.as_tensor(RNG.normal(size=(60, 20)))
    y = torch.as_tensor(np.stack([Y, Y[::-1]]))
    offset = torch.tensor([0.1, -0.3]).double()
    one = laplace_sites(FeatureSites(features), Bernoulli(), y, offset)
    other = laplace_sites(DenseSites(features @ features.T), Bernoulli(), y, offset)
    np.testing.assert_allclose(one.evidence, other.evidence, atol=1e-9)
    np.testing.assert_allclose(one.mode, other.mode, atol=1e-8)
    alone = laplace_sites(FeatureSites(features), Bernoulli(), y[1:], offset[1:])
    assert float(alone.evidence) == pytest.approx(float(one.evidence[1]), abs=1e-10)


@pytest.mark.parametrize("outputscale", [1.0, 1e3, 1e8])
def test_separable_classes_converge(outputscale):
    """At the mode the slopes of likelihood and prior cancel, however far the mode is."""
    rows = np.linspace(-1, 1, 40)
    y = torch.as_tensor((rows > 0).astype(float))[None]
    covariance = outputscale * torch.as_tensor(np.exp(-0.5 * np.square(rows[:, None] - rows) / 0.1))
    prior = DenseSites(covariance)
    found = laplace_sites(prior, Bernoulli(), y, ZERO)
    slope = Bernoulli().site(y, found.mode).slope.detach()
    np.testing.assert_allclose(found.alpha, slope, atol=1e-9)
    assert bool(((found.mode > 0) == (y > 0)).all())
    again = laplace_evidence(prior, Bernoulli(), y, ZERO, found.mode).detach()
    assert float(again) == pytest.approx(float(found.evidence), abs=1e-6)


def test_outliers_under_heavy_tails_are_left_aside():
    """One observation far away moves the mode by little; under normal noise by much."""
    covariance = torch.as_tensor(np.exp(-0.5 * np.square(X[:, :1] - X[:, 0])))
    smooth = np.sin(X[:, 0])
    far = smooth.copy()
    far[3] += 20.0
    moved = {}
    for likelihood in (StudentT(0.1, 3.0), Gaussian(0.01)):
        modes = [
            laplace_sites(DenseSites(covariance), likelihood, torch.as_tensor(y)[None], ZERO).mode
            for y in (smooth, far)
        ]
        moved[type(likelihood)] = float((modes[0] - modes[1]).abs().max())
    assert moved[StudentT] < 0.05 < 1 < moved[Gaussian]
