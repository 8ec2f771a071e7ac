"""Laws of counts, classes in an order, heavy tails, positive numbers and shares."""

import numpy as np
import pytest
from scipy import stats

from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import (
    NegativeBinomial,
    Poisson,
    StudentT,
)
from coupledgp.likelihoods.registry import likelihood_from, likelihood_state
from coupledgp.testing import LikelihoodContract

LAWS = [
    NegativeBinomial(0.7), Poisson(), StudentT(0.3, 6.0),
]  # fmt: skip
FAR = np.linspace(-40.0, 40.0, 33)


class TestNegativeBinomial(LikelihoodContract):
    likelihood = NegativeBinomial(0.3)


class TestPoisson(LikelihoodContract):
    likelihood = Poisson()


class TestStudentT(LikelihoodContract):
    likelihood = StudentT(0.3, 12.0)


@pytest.mark.parametrize(
    ("law", "theirs"),
    [
        (NegativeBinomial(0.7), lambda f: stats.nbinom(1 / 0.7, 1 / (1 + 0.7 * np.exp(f)))),
        (Poisson(), lambda f: stats.poisson(np.exp(f))),
        (StudentT(0.3, 6.0), lambda f: stats.t(6.0, f, 0.3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_laws_are_those_of_scipy(law, theirs):
    f = np.linspace(-3, 3, 7)
    y = law.draw(f, np.random.default_rng(0))
    density = theirs(f).logpmf(y) if law.is_discrete else theirs(f).logpdf(y)
    np.testing.assert_allclose(law.log_density(y, f), density, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(law.cdf(y, f), theirs(f).cdf(y), rtol=1e-10)
    np.testing.assert_allclose(law.moments(f), (theirs(f).mean(), theirs(f).var()), rtol=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_densities_and_slopes_are_finite_far_away(law):
    """They are numbers where chances are 1e-17."""
    y = law.draw(np.zeros(FAR.size), np.random.default_rng(1))
    assert np.isfinite([law.log_density(y, FAR), law.slope(y, FAR)]).all()


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
    assert (Poisson().center(np.zeros((4, 1))) == -10).all(), "no counts, no infinite prior mean"


@pytest.mark.parametrize(
    ("law", "bad", "message"),
    [
        (Poisson(), 1.5, "expected counts .* got 1.5"),
        (NegativeBinomial(), -1.0, "expected counts .* got -1"),
    ],
)
def test_impossible_targets_are_refused(law, bad, message):
    with pytest.raises(InvalidInputError, match=message):
        law.check_targets(np.array([[bad]]))


def test_impossible_parameters_are_refused():
    for make, message in (
        (lambda: StudentT(1.0, 2.0), "dof: expected a number between 2 and 1e"),
        (lambda: Poisson().with_parameters({"scale": 1.0}), "expected parameters"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            make()
