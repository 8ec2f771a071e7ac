"""Contract of laws of observations."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import integrate

from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray
from coupledgp.testing.checks import require, require_close, require_mean


class LikelihoodContract:
    """Tests of a likelihood: consistency of its log density, moments, distribution and draws.

    Attributes
    ----------
    likelihood
        The law to be tested.
    functions
        Values f (m,) at which it is tested.
    n_draws, seed
        Number of draws at each value, and the seed for them; the tests must pass for any seed.

    Examples
    --------
    >>> from coupledgp.likelihoods import Poisson
    >>> from coupledgp.testing import LikelihoodContract
    >>> class Counts(Poisson):
    ...     def moments(self, f):
    ...         mean, variance = super().moments(f)
    ...         return mean, 2 * variance
    >>> class TestCounts(LikelihoodContract):
    ...     likelihood = Counts()
    >>> TestCounts().test_draws_have_the_moments()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: squared deviations of draws: biased by ... standard errors
    """

    likelihood: Likelihood
    functions: FloatArray = np.array([-1.5, -0.2, 0.0, 0.7, 1.8])
    n_draws: ClassVar[int] = 20_000
    seed: int = 0

    def test_draws_have_the_moments(self) -> None:
        """Mean and variance of many draws are the stated ones, and draws are valid targets."""
        draws, f = self._draws()
        self.likelihood.check_targets(draws)
        mean, variance = self.likelihood.moments(f)
        require(mean.shape == variance.shape == f.shape, "moments: wrong shape")
        require_mean(draws, mean[0], "draws")
        require_mean(np.square(draws - mean), variance[0], "squared deviations of draws")

    def test_draws_follow_the_distribution(self) -> None:
        """The share of draws below a value is the chance that the distribution states."""
        draws, _ = self._draws()
        for probability in (0.1, 0.5, 0.9):
            at = np.quantile(draws, probability, axis=0, method="inverted_cdf")
            chances = self.likelihood.cdf(at, self.functions)
            require_mean((draws <= at).astype(np.float64), chances, f"draws up to {probability}")

    def test_density_is_that_of_the_distribution(self) -> None:
        """Differences of the distribution are probabilities, or integrals of the density."""
        draws, _ = self._draws()
        for number, f in enumerate(self.functions):
            low, high = np.quantile(draws[:, number], [0.05, 0.95])
            if self.likelihood.is_discrete:
                values = np.unique(draws[:, number])
                found = np.exp(self._log_density(values, f))
                expected = self.likelihood.cdf(values, np.full_like(values, f))
                expected = expected - self.likelihood.cdf(values - 1, np.full_like(values, f))
                require_close(found, expected, 1e-9, "probabilities")
                continue
            # Dense at the ends, where a density may be steep.
            grid = low + (high - low) * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 2001)))
            mass = integrate.trapezoid(np.exp(self._log_density(grid, f)), grid)
            ends = self.likelihood.cdf(np.array([low, high]), np.array([f, f]))
            require_close(mass, ends[1] - ends[0], 1e-5, "integral of the density")

    def test_slopes_are_derivatives(self) -> None:
        """Slopes are differences of the log density."""
        draws, _ = self._draws()
        y, step = draws[0], 1e-4
        low, middle, high = (
            self._log_density(y, self.functions + shift) for shift in (-step, 0.0, step)
        )
        scale = 1.0 + np.abs(middle)
        found = self.likelihood.slope(y, self.functions)
        require_close(found / scale, (high - low) / (2 * step) / scale, 1e-5, "slope")

    def test_laws_of_observations_are_integrals(self) -> None:
        """Marginal laws are averages over f, whether in closed form or not."""
        mean = self.functions[:, None]
        variance = np.full_like(mean, 0.3)
        rng = np.random.default_rng([self.seed, 1])
        f = mean[:, 0] + np.sqrt(0.3) * rng.standard_normal((self.n_draws, mean.size))
        draws = self.likelihood.draw(f, rng)
        center, spread = self.likelihood.marginal_moments(mean, variance)
        require_mean(draws, center[:, 0], "observations")
        require_mean(np.square(draws - center[:, 0]), spread[:, 0], "their squared deviations")
        at = np.median(draws, axis=0)
        chances = self.likelihood.marginal_cdf(at[:, None, None], mean, variance)[:, 0, 0]
        require_mean((draws <= at).astype(np.float64), chances, "observations up to the median")
        quantiles = self.likelihood.marginal_quantiles(np.array([0.2, 0.9]), mean, variance)
        found = self.likelihood.marginal_cdf(quantiles, mean, variance)[:, 0]
        require((found >= np.array([0.2, 0.9]) - 1e-8).all(), "quantiles: too low")

    def _draws(self) -> tuple[FloatArray, FloatArray]:
        """Draws (n_draws, m), and f of the same shape."""
        f = np.broadcast_to(self.functions, (self.n_draws, self.functions.size)).copy()
        return self.likelihood.draw(f, np.random.default_rng(self.seed)), f

    def _log_density(self, y: FloatArray, f: FloatArray | float) -> FloatArray:
        return np.asarray(self.likelihood.log_density(y, np.broadcast_to(f, y.shape)))
