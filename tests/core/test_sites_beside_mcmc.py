"""Variational sites beside elliptical slice sampling of the posterior and its evidence.

Chains are independent and start at draws of the prior, so that the spread of their averages is the
standard error of the reference. It is a test of laws, moments and evidence of 30 observations.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special

from coupledgp.core.sites import DenseRows, Observed, find_sites
from coupledgp.likelihoods import Bernoulli, Gaussian, Poisson

pytestmark = pytest.mark.long

N, N_CHAINS, BURNED, KEPT, N_WEIGHED = 30, 400, 250, 350, 20_000
PLACES = np.linspace(0, 1, N)
K = 2.0 * np.exp(-0.5 * np.square((PLACES[:, None] - PLACES) / 0.15)) + 1e-8 * np.eye(N)
ROOT, OFFSET = np.linalg.cholesky(K), 0.3
F = OFFSET + ROOT @ np.random.default_rng(1).standard_normal(N)
LAWS = {"counts": Poisson(), "classes": Bernoulli(), "normal": Gaussian(0.5)}
# Largest distances of variational means and deviations, in deviations of the posterior, and of
# log evidences in nats, for likelihoods that are not normal.
MEAN, SPREAD, EVIDENCE = 0.06, 0.06, 0.2
ERRORS = 5.0


@dataclass
class Case:
    """Observations under a likelihood, and chains of their posterior.

    `chains` are averages (3, n, n_chains) of the function less its mean, of its square, and of
    the mean of an observation.
    """

    observed: Observed
    chains: np.ndarray

    @classmethod
    def of(cls, name):
        law = LAWS[name]
        y = law.draw(F, np.random.default_rng(2))[:, None]
        (observed,) = Observed.of(law, y, np.array([OFFSET]))
        return cls(observed, sampled(observed, np.random.default_rng(3)))

    def expected(self):
        """Averages over chains (3, n), and their standard errors."""
        errors = self.chains.std(axis=-1, ddof=1) / np.sqrt(N_CHAINS)
        return self.chains.mean(axis=-1), errors


def log_density(observed, f):
    """Log density (c,) of the observations for functions (n, c) less the prior mean."""
    value = f + observed.shift[:, None]
    return observed.likelihood.log_density(observed.y[:, None], value).sum(0)


def sampled(observed, rng):
    """Averages over states of chains by elliptical slices (Murray, Adams and MacKay 2010)."""
    f = ROOT @ rng.standard_normal((N, N_CHAINS))
    density, total = log_density(observed, f), np.zeros((3, N, N_CHAINS))
    for step in range(BURNED + KEPT):
        other = ROOT @ rng.standard_normal((N, N_CHAINS))
        level = density + np.log(rng.random(N_CHAINS))
        angle = rng.uniform(0, 2 * np.pi, N_CHAINS)
        low, high = angle - 2 * np.pi, angle.copy()
        moving = np.arange(N_CHAINS)
        new = f.copy()
        while moving.size:
            at = angle[moving]
            new[:, moving] = f[:, moving] * np.cos(at) + other[:, moving] * np.sin(at)
            found = log_density(observed, new[:, moving])
            there = found >= level[moving]
            density[moving[there]] = found[there]
            moving = moving[~there]
            at = angle[moving]
            low[moving] = np.where(at < 0, at, low[moving])
            high[moving] = np.where(at < 0, high[moving], at)
            angle[moving] = rng.uniform(low[moving], high[moving])
        f = new
        if step >= BURNED:
            total += [f, f * f, observed.likelihood.moments(f + OFFSET)[0]]
    return total / KEPT


def weighed_evidence(observed, mean, covariance):
    """Log evidence and its standard error, from draws of a normal law that is widened by half."""
    root = np.linalg.cholesky(1.5 * covariance + 1e-10 * np.eye(N))
    draws = np.random.default_rng(4).standard_normal((N, N_WEIGHED))
    f = mean[:, None] + root @ draws
    whitened = np.linalg.solve(ROOT, f)
    ratio = log_density(observed, f) - 0.5 * np.square(whitened).sum(0)
    ratio += 0.5 * np.square(draws).sum(0) + np.log(np.diag(root) / np.diag(ROOT)).sum()
    weights = np.exp(ratio - ratio.max())
    error = weights.std(ddof=1) / weights.mean() / np.sqrt(N_WEIGHED)
    return float(special.logsumexp(ratio) - np.log(N_WEIGHED)), float(error)


@pytest.fixture(scope="module", params=LAWS)
def case(request):
    return Case.of(request.param)


def posterior(sites):
    """Covariance (n, n) of the function given sites."""
    gain = np.linalg.solve(K + np.diag(1 / sites.precision), K)
    return K - K @ gain


def test_the_law_is_that_of_chains(case):
    """Means, deviations and chances; normal observations have no allowance beyond sampling."""
    law = case.observed.likelihood
    normal = law.is_gaussian
    (first, second, response), (error, second_error, response_error) = case.expected()
    deviation = np.sqrt(second - first**2)
    assert (error < 0.05 * deviation).all()
    sites = find_sites(DenseRows(K), case.observed)
    mean, variance = sites.mean, np.diag(posterior(sites))
    allowed = 0.0 if normal else MEAN
    assert (np.abs(mean - first) < allowed * deviation + ERRORS * error).all()
    # The error of a variance from those of two moments.
    spread_error = second_error + 2 * np.abs(first) * error
    allowed = 0.0 if normal else 2 * SPREAD
    assert (np.abs(variance / deviation**2 - 1) < allowed + ERRORS * spread_error / variance).all()
    found = law.marginal_moments(mean[:, None] + OFFSET, variance[:, None])[0][:, 0]
    # The variance of an observation is the slope of its mean, for these links.
    slope = law.moments(first + OFFSET)[1]
    allowed = (0.0 if normal else 2 * MEAN) * deviation * slope
    assert (np.abs(found - response) < allowed + ERRORS * response_error).all()


def test_the_bound_is_near_the_evidence(case):
    sites = find_sites(DenseRows(K), case.observed)
    expected, error = weighed_evidence(case.observed, sites.mean, posterior(sites))
    assert error < 0.04
    least = 0.0 if case.observed.likelihood.is_gaussian else EVIDENCE
    assert expected - least - ERRORS * error < sites.evidence < expected + ERRORS * error
