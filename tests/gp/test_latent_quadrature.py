"""Posteriors of three observations beside quadrature over the function."""

import itertools

import numpy as np
import pytest
import torch

from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.protocol import Data
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.likelihoods import Bernoulli, Poisson, Probit
from coupledgp.search.latent import one_row
from coupledgp.spectra import parse_spectrum

X = np.array([[0.0], [0.6], [1.5]])
# Nodes of each of three independent normal variables.
NODES = 60
CASES = {
    "classes": (Bernoulli(), [1.0, 1.0, 0.0]),
    "probit": (Probit(), [1.0, 0.0, 0.0]),
    "counts": (Poisson(), [3.0, 0.0, 1.0]),
}


@pytest.fixture(params=CASES, scope="module")
def case(request):
    """Process by a rule, log evidence, means and standard deviations of f by quadrature."""
    likelihood, y = CASES[request.param]
    prior = StationaryPrior(parse_spectrum("gaussian"), Hyperparameters(np.ones(1), 2.0, 1.0))
    data = Data.of(X, np.array(y)[:, None])
    function = one_row(prior, data, 0.3)
    root = np.linalg.cholesky(function.latent_prior(X))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    grid = np.array(list(itertools.product(nodes, repeat=3)))
    chance = np.prod(list(itertools.product(weights, repeat=3)), axis=1)
    f = 0.3 + grid @ root.T
    with torch.no_grad():
        density = likelihood.log_density(torch.as_tensor(y), torch.as_tensor(f)).sum(1).numpy()
    joint = chance * np.exp(density)
    posterior = joint / joint.sum()
    mean = posterior @ f
    std = np.sqrt(posterior @ np.square(f - mean))

    def by(rule):
        return LatentGP.given([function], likelihood, data, rule)

    return by, float(np.log(joint.sum())), mean, std


def test_the_variational_bound_is_below_the_evidence_and_near(case):
    by, evidence, _, _ = case
    gap = evidence - by("variational").log_evidence
    assert 0 < gap < 0.05
    assert by("laplace").log_evidence == pytest.approx(evidence, abs=0.15)


def test_variational_means_are_within_a_twentieth_of_a_standard_deviation(case):
    by, _, mean, std = case
    law = by("variational").law(X, "variance", latent=True)
    assert (np.abs(law.mean[:, 0] - mean) < 0.05 * std).all()
    np.testing.assert_allclose(np.sqrt(law.spread[:, 0]) / std, 1, atol=0.06)
    laplace = by("laplace").law(X, "mean", latent=True).mean[:, 0]
    assert np.abs(law.mean[:, 0] - mean).max() < np.abs(laplace - mean).max()
