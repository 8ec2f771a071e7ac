"""Likelihoods against differences, quadrature and closed forms."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import Bernoulli, Gaussian, Probit
from coupledgp.likelihoods.registry import likelihood_from, likelihood_state
from coupledgp.testing import LikelihoodContract

F = np.linspace(-40.0, 40.0, 33)


class TestBernoulliContract(LikelihoodContract):
    likelihood = Bernoulli()


class TestProbitContract(LikelihoodContract):
    likelihood = Probit()


class TestGaussianContract(LikelihoodContract):
    likelihood = Gaussian(0.3)


class Shifted(Gaussian):
    """A law whose distribution is not that of its density."""

    def cdf(self, y, f):
        return super().cdf(y + 0.1, f)


def test_the_contract_refuses_a_law_that_contradicts_itself():
    contract = LikelihoodContract()
    contract.likelihood = Shifted(0.3)
    with pytest.raises(AssertionError, match="draws up to"):
        contract.test_draws_follow_the_distribution()
    with pytest.raises(AssertionError, match="integral of the density"):
        contract.test_density_is_that_of_the_distribution()


class TestBernoulli:
    def test_slopes_far_from_zero(self):
        """Every digit where the chance of a class is 1e-17."""
        for y in (0.0, 1.0):
            sign = 2 * y - 1
            value, slope = Bernoulli().log_density(y, F), Bernoulli().slope(y, F)
            np.testing.assert_allclose(value, -np.logaddexp(0, -sign * F), rtol=1e-13)
            np.testing.assert_allclose(slope, sign * special.expit(-sign * F), rtol=1e-13)

    def test_chances_by_quadrature(self):
        mean, variance = np.array([[0.3, -2.0]]), np.array([[1.7, 30.0]])
        chance, _ = Bernoulli().marginal_moments(mean, variance)
        for k in range(2):
            law = stats.norm(mean[0, k], variance[0, k] ** 0.5)
            expected = integrate.quad(
                lambda f, law=law: special.expit(f) * law.pdf(f), -80, 80, epsabs=1e-13, limit=400
            )[0]
            assert chance[0, k] == pytest.approx(expected, abs=1e-10)
        np.testing.assert_allclose(
            np.exp(Bernoulli().marginal_log_density(np.ones((1, 2)), mean, variance)), chance
        )

    def test_moments_are_those_of_two_classes(self):
        mean = np.array([[0.3], [-2.0], [0.0]])
        root = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [0.0, 0.3, 0.1]])
        covariance = (root @ root.T)[..., None]
        chance, spread = Bernoulli().marginal_moments(mean, covariance)
        np.testing.assert_allclose(spread.diagonal(), (chance * (1 - chance)).T, rtol=1e-12)
        rng = np.random.default_rng(0)
        f = mean[:, 0] + rng.standard_normal((400_000, 3)) @ root.T
        drawn = Bernoulli().draw(f, rng)
        np.testing.assert_allclose(drawn.mean(0), chance[:, 0], atol=0.005)
        np.testing.assert_allclose(np.cov(drawn.T), spread[..., 0], atol=0.003)

    def test_quantiles_are_classes(self):
        mean, variance = np.array([[2.0], [-2.0]]), np.ones((2, 1))
        chance, _ = Bernoulli().marginal_moments(mean, variance)
        probabilities = np.array([0.05, 0.5, 0.95])
        found = Bernoulli().marginal_quantiles(probabilities, mean, variance)
        expected = (probabilities > 1 - chance[..., None]).astype(float)
        np.testing.assert_array_equal(found, expected)
        below = Bernoulli().marginal_cdf(np.zeros((2, 1, 1)), mean, variance)
        np.testing.assert_allclose(below[..., 0], 1 - chance)

    def test_other_targets_are_refused(self):
        with pytest.raises(InvalidInputError, match="expected classes 0 and 1, got 2"):
            Bernoulli().check_targets(np.array([[0.0], [2.0]]))


class TestGaussian:
    def test_noise_is_independent(self):
        covariance = np.array([[2.0, 0.5], [0.5, 1.0]])[..., None]
        _, found = Gaussian(0.25).marginal_moments(np.zeros((2, 1)), covariance)
        np.testing.assert_allclose(found[..., 0], [[2.25, 0.5], [0.5, 1.25]])
        assert covariance[0, 0, 0] == 2.0, "the given array stays as it was"

    def test_draws_have_its_variance(self):
        functions = np.zeros((4, 1, 5))
        one, other = (
            Gaussian(variance).draw(functions, np.random.default_rng(2)) for variance in (1.0, 0.25)
        )
        np.testing.assert_allclose(other, 0.5 * one, rtol=1e-12)
        assert one.std() > 0.5

    def test_rows_with_noise_of_their_own(self):
        scales = Gaussian(np.array([[1.0], [9.0]]))
        f = np.zeros((2, 1, 100_000))
        drawn = scales.draw(f, np.random.default_rng(3))
        np.testing.assert_allclose(drawn.var(axis=2), [[1.0], [9.0]], rtol=0.03)
        _, variance = scales.marginal_moments(np.zeros((2, 1)), np.ones((2, 1)))
        np.testing.assert_allclose(variance, [[2.0], [10.0]])

    def test_density_and_slope(self):
        y, f = np.array([1.0, -2.0]), np.array([0.4, 0.3])
        density = Gaussian(0.3).log_density(y, f)
        np.testing.assert_allclose(density, stats.norm.logpdf(y, f, 0.3**0.5))
        np.testing.assert_allclose(Gaussian(0.3).slope(y, f), (y - f) / 0.3)

    def test_closed_forms_are_the_integrals(self):
        """The integrals of the base class agree with the closed forms."""

        class ByQuadrature(Gaussian):
            marginal_moments = Bernoulli.marginal_moments
            marginal_log_density = Bernoulli.marginal_log_density
            marginal_cdf = Bernoulli.marginal_cdf
            marginal_quantiles = Bernoulli.marginal_quantiles

        rng = np.random.default_rng(1)
        mean, variance, y = (
            rng.normal(size=(5, 2)),
            rng.random((5, 2)) + 0.1,
            rng.normal(size=(5, 2)),
        )
        closed, integral = Gaussian(0.3), ByQuadrature(0.3)
        for name, given in (
            ("marginal_moments", (mean, variance)),
            ("marginal_log_density", (y, mean, variance)),
            ("marginal_cdf", (y[..., None], mean, variance)),
            ("marginal_quantiles", (np.array([0.01, 0.6]), mean, variance)),
        ):
            found, expected = getattr(integral, name)(*given), getattr(closed, name)(*given)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)


def test_names_and_parameters_of_files():
    for likelihood in (Bernoulli(), Gaussian(0.3)):
        state = likelihood_state(likelihood)
        assert likelihood_from(state["name"], state["parameters"]) == likelihood
    with pytest.raises(InvalidInputError, match="expected parameters"):
        likelihood_from("gaussian", {})
    with pytest.raises(InvalidInputError, match="variance: expected a number > 0"):
        likelihood_from("gaussian", {"variance": "1; import os"})
