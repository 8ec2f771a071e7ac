"""Laws of counts, classes in an order, heavy tails, positive numbers and shares."""

import numpy as np
import pytest
import torch
from scipy import special, stats

from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import (
    Beta,
    Gamma,
    NegativeBinomial,
    Ordinal,
    Poisson,
    SquaredNormal,
    StudentT,
)
from coupledgp.likelihoods.registry import likelihood_from, likelihood_state
from coupledgp.testing import LikelihoodContract

LAWS = [
    Beta(3.0), Gamma(2.5), NegativeBinomial(0.7), Ordinal((0.8, 1.5)), Ordinal(()), Poisson(),
    SquaredNormal(), StudentT(0.3, 6.0),
]  # fmt: skip
FAR = np.linspace(-40.0, 40.0, 33)


class TestBeta(LikelihoodContract):
    likelihood = Beta(3.0)


class TestGamma(LikelihoodContract):
    likelihood = Gamma(2.5)


class TestNegativeBinomial(LikelihoodContract):
    likelihood = NegativeBinomial(0.3)


class TestOrdinal(LikelihoodContract):
    likelihood = Ordinal((0.8, 1.5))


class TestPoisson(LikelihoodContract):
    likelihood = Poisson()


class TestSquaredNormal(LikelihoodContract):
    likelihood = SquaredNormal()


class TestStudentT(LikelihoodContract):
    likelihood = StudentT(0.3, 12.0)


def log_density(law, y, f):
    return law.log_density(torch.as_tensor(y), torch.as_tensor(f)).numpy()


@pytest.mark.parametrize(
    ("law", "theirs"),
    [
        (Beta(3.0), lambda f: stats.beta(3 * special.expit(f), 3 * special.expit(-f))),
        (Gamma(2.5), lambda f: stats.gamma(2.5, scale=np.exp(f) / 2.5)),
        (NegativeBinomial(0.7), lambda f: stats.nbinom(1 / 0.7, 1 / (1 + 0.7 * np.exp(f)))),
        (Poisson(), lambda f: stats.poisson(np.exp(f))),
        (SquaredNormal(), lambda f: stats.chi2(1, scale=np.exp(f))),
        (StudentT(0.3, 6.0), lambda f: stats.t(6.0, f, 0.3)),
    ],
    ids=repr,
)
def test_laws_are_those_of_scipy(law, theirs):
    f = np.linspace(-3, 3, 7)
    y = law.draw(f, np.random.default_rng(0))
    density = theirs(f).logpmf(y) if law.is_discrete else theirs(f).logpdf(y)
    np.testing.assert_allclose(log_density(law, y, f), density, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(law.cdf(y, f), theirs(f).cdf(y), rtol=1e-10)
    np.testing.assert_allclose(law.moments(f), (theirs(f).mean(), theirs(f).var()), rtol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_sites_are_finite_far_away(law):
    """Slopes and curvatures are numbers where chances are 1e-17."""
    y = law.draw(np.zeros(FAR.size), np.random.default_rng(1))
    f = torch.as_tensor(FAR)
    site = law.site(torch.as_tensor(y), f)
    for part in site:
        assert bool(part.isfinite().all())


class TestOrdinalClasses:
    law = Ordinal((0.8, 1.5))

    def test_chances_of_classes(self):
        """Differences of sigmoids, with every digit where they cancel."""
        f, y = np.meshgrid(np.linspace(-4, 4, 9), np.arange(4.0))
        ends = np.concatenate([[-np.inf], self.law.cuts, [np.inf]])
        place = y.astype(int)
        chance = special.expit(ends[place + 1] - f) - special.expit(ends[place] - f)
        np.testing.assert_allclose(np.exp(log_density(self.law, y, f)), chance, rtol=1e-12)
        far = log_density(self.law, np.ones(2), np.array([-40.0, 45.0]))
        # Between the first two cuts, sigma(c_1 - f) - sigma(c_0 - f) is near exp(f - c) there.
        expected = [-40 + np.log1p(-np.exp(-0.8)), 0.8 - 45 + np.log1p(-np.exp(-0.8))]
        np.testing.assert_allclose(far, expected, rtol=1e-14)

    def test_moments_and_marginal_chances(self):
        mean, variance = np.array([[0.4], [2.0]]), np.array([[0.5], [1e-12]])
        chances = self.law.marginal_probabilities(mean, variance)
        np.testing.assert_allclose(chances.sum(-1), 1.0, rtol=1e-12)
        first, _ = self.law.marginal_moments(mean, variance)
        np.testing.assert_allclose(chances @ np.arange(4.0), first, rtol=1e-9)
        square = chances[1] @ np.arange(4.0) ** 2
        np.testing.assert_allclose(self.law.moments(mean[1])[1], square - first[1] ** 2, rtol=1e-9)

    def test_cuts_by_shares(self):
        y = np.repeat([0.0, 1.0, 2.0], [200, 500, 300])[:, None]
        law = Ordinal.of(y)
        b = law.center(y)
        chances = law.marginal_probabilities(b[None], np.full((1, 1), 1e-14))
        np.testing.assert_allclose(chances[0, 0], [0.2, 0.5, 0.3], atol=2e-3)
        with pytest.raises(InvalidInputError, match="two at least"):
            Ordinal.of(np.zeros((3, 1)))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_own_draws_are_uniform(law):
    """Transforms of draws under their own law are uniform, of discrete laws by chance."""
    rng = np.random.default_rng(3)
    mean, variance = rng.normal(size=(2000, 1)), rng.random((2000, 1))
    f = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    found = law.pit(law.draw(f, rng), mean, variance, rng)
    assert stats.kstest(found.ravel(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_files_keep_parameters(law):
    state = likelihood_state(law)
    assert likelihood_from(state["name"], state["parameters"]) == law


def test_centers_are_links_of_means():
    y = np.random.default_rng(0).poisson(3.0, size=(50, 2)).astype(float)
    np.testing.assert_allclose(Poisson().center(y), np.log(y.mean(0)), atol=1e-6)
    np.testing.assert_allclose(Gamma(2.0).center(y + 1), np.log((y + 1).mean(0)), atol=1e-6)
    assert (Poisson().center(np.zeros((4, 1))) == -10).all(), "no counts, no infinite prior mean"


@pytest.mark.parametrize(
    ("law", "bad", "message"),
    [
        (Poisson(), 1.5, "expected counts .* got 1.5"),
        (NegativeBinomial(), -1.0, "expected counts .* got -1"),
        (Ordinal((1.0,)), 3.0, "expected classes 0 to 2, got 3"),
        (Gamma(2.0), 0.0, "expected positive numbers, got 0"),
        (SquaredNormal(), -1.0, "expected positive numbers, got -1"),
        (Beta(), 1.0, "expected shares between 0 and 1, got 1"),
    ],
)
def test_impossible_targets_are_refused(law, bad, message):
    with pytest.raises(InvalidInputError, match=message):
        law.check_targets(np.array([[bad]]))


def test_impossible_parameters_are_refused():
    for make, message in (
        (lambda: StudentT(1.0, 2.0), "dof: expected a number between 2 and 1e"),
        (lambda: Gamma(-1.0), "shape: expected"),
        (lambda: Ordinal((1.0, -1.0)), "gaps: expected positive"),
        (lambda: Poisson().with_parameters({"scale": 1.0}), "expected parameters"),
        (lambda: Ordinal(()).with_parameters({"scale": 1.0}), "expected parameters gap_1"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            make()
