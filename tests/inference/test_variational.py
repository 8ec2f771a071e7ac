"""Variational sites: the bound, its gradient, counts and exposures."""

import numpy as np
import pytest
import torch
from scipy import special

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.inference.dense.system import stationary_covariance
from coupledgp.inference.evidence.problem import RowWeights
from coupledgp.inference.sites.objective import SiteObjective
from coupledgp.inference.sites.priors import DenseSites, GivenSites
from coupledgp.inference.sites.rules import RULES, Observed, rule_of
from coupledgp.inference.sites.steps import find_sites
from coupledgp.likelihoods import (
    Bernoulli,
    Gaussian,
    NegativeBinomial,
    Poisson,
    SquaredNormal,
    StudentT,
)
from coupledgp.spectra import parse_spectrum

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 2))
SPECTRUM = parse_spectrum("matern-5/2")
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
LAWS = [
    Bernoulli(), Gaussian(0.3), NegativeBinomial(0.7), Poisson(), SquaredNormal(),
    StudentT(0.3, 4.0),
]  # fmt: skip


def covariance(n=40, outputscale=1.5):
    rows = torch.as_tensor(X[:n])
    return outputscale * stationary_covariance(SPECTRUM, rows, torch.zeros(2).double())


def observed(law, n=40, offset=0.2, weights=None):
    y = law.draw(F[:n, None], np.random.default_rng(5))
    return Observed.of(law, y, np.array([offset]), weights)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_gradients_are_differences(law, rule):
    rows = torch.as_tensor(X)

    def prior(v):
        return DenseSites(v[0].exp() * stationary_covariance(SPECTRUM, rows, v[1:]))

    def at(point):
        return SiteObjective(prior, 3, observed(law), RULES[rule]).value_and_gradient(point)

    point = np.array([0.4, -0.2, 0.1, *np.log([*law.parameters.values()])])
    _, gradient = at(point)
    for place in range(point.size):
        step = np.zeros(point.size)
        step[place] = 1e-4
        up, down, far, near = (at(point + by * step)[0] for by in (1, -1, 2, -2))
        slope = (8 * (up - down) - (far - near)) / 12e-4
        assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_bound_is_below_the_evidence(law):
    """The evidence of three observations by a product rule; Laplace's is further away or above."""
    own = observed(law, 3)
    prior = covariance(3)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij")).reshape(3, -1)
    mass = np.prod(np.meshgrid(weights, weights, weights, indexing="ij"), axis=0).ravel()
    f = own.shift + torch.linalg.cholesky(prior) @ torch.as_tensor(grid)
    density = law.log_density(own.y[0][:, None], f).sum(0).numpy()
    exact = special.logsumexp(density + np.log(mass / mass.sum()))
    bound = float(find_sites(DenseSites(prior), RULES["variational"], own).evidence)
    assert exact - 0.15 < bound < exact + (1e-7 if law.is_gaussian else 0.0)


def test_moments_are_nearer_to_the_posterior_than_those_of_laplace():
    """One observation, whose posterior is known by quadrature."""
    own = Observed.of(Poisson(), np.zeros((1, 1)), np.zeros(1))
    prior = DenseSites(torch.full((1, 1), 2.0).double())
    f = np.linspace(-12, 8, 20_001)
    density = np.exp(-0.25 * f**2 - np.exp(f))
    density /= density.sum()
    mean = density @ f
    found = {name: float(find_sites(prior, rule, own).mean) for name, rule in RULES.items()}
    assert abs(found["variational"] - mean) < 0.02 < 0.2 < abs(found["laplace"] - mean)


@pytest.mark.parametrize("rule", RULES)
def test_counts_are_repeated_rows_and_exposures_are_shifts(rule):
    counts, exposure = RNG.integers(1, 4, 40).astype(float), RNG.uniform(0.2, 5.0, 40)
    y = Poisson().draw(F[:, None] + np.log(exposure)[:, None], RNG)
    whole = np.repeat(np.arange(40), counts.astype(int))
    prior = covariance()
    weights = RowWeights(np.ones(40), counts, exposure=exposure)
    one = find_sites(
        DenseSites(prior), RULES[rule], Observed.of(Poisson(), y, np.zeros(1), weights)
    )
    repeated = Observed(
        Poisson(), torch.as_tensor(y.T)[:, whole], torch.as_tensor(np.log(exposure))[None, whole]
    )
    other = find_sites(DenseSites(prior[whole][:, whole]), RULES[rule], repeated)
    assert float(one.evidence) == pytest.approx(float(other.evidence), abs=1e-8)
    np.testing.assert_allclose(one.mean[:, whole], other.mean, atol=1e-6)


@pytest.mark.parametrize("outputscale", [1.0, 1e3])
def test_separable_classes_converge(outputscale):
    rows = np.linspace(-1, 1, 40)
    y = (rows > 0).astype(float)[:, None]
    prior = outputscale * torch.as_tensor(np.exp(-0.5 * np.square(rows[:, None] - rows) / 0.1))
    found = find_sites(
        DenseSites(prior), RULES["variational"], Observed.of(Bernoulli(), y, np.zeros(1))
    )
    assert bool(((found.mean.T > 0) == torch.as_tensor(y > 0)).all())
    assert -20 < float(found.evidence) < 0


def test_steps_that_swing_about_the_optimum_are_shortened():
    """Whole steps turn back by .98 of the last one here, and come 2 % nearer with each."""
    rows, rng = np.linspace(0, 1, 40), np.random.default_rng(0)
    y = (3 * np.sin(6 * rows) + rng.logistic(size=40) > 0).astype(float)[:, None]
    prior = 100 * torch.as_tensor(np.exp(-50 * np.square(rows[:, None] - rows)))
    found = find_sites(
        DenseSites(prior), RULES["variational"], Observed.of(Bernoulli(), y, np.zeros(1))
    )
    assert found.n_steps < 60
    # Several outputs have steps of their own.
    several = Observed.of(Bernoulli(), np.column_stack([y, 1 - y, y[::-1]]), np.zeros(3))
    each = find_sites(DenseSites(prior), RULES["variational"], several)
    assert each.n_steps < 60
    np.testing.assert_allclose(each.mean[0], found.mean[0], atol=1e-5)
    np.testing.assert_allclose(each.evidence, float(found.evidence), atol=1e-8)


def test_sites_of_a_process_are_those_of_its_covariance():
    """The determinant is found from what a process says of pseudo-observations."""
    prior = covariance().numpy()

    def given(targets, precision):
        noisy = prior + np.diag(1 / precision)
        gain = np.linalg.solve(noisy, prior).T
        evidence = -0.5 * targets @ np.linalg.solve(noisy, targets)
        evidence -= 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
        return gain @ targets, np.diag(prior - gain @ prior), evidence

    for rule in RULES.values():
        for law in (Poisson(), StudentT(0.3, 4.0)):
            one = find_sites(GivenSites(given), rule, observed(law))
            other = find_sites(DenseSites(covariance()), rule, observed(law))
            assert float(one.evidence) == pytest.approx(float(other.evidence), abs=1e-7)
            np.testing.assert_allclose(one.precision, other.precision, rtol=1e-5, atol=1e-6)


def test_what_is_refused():
    with pytest.raises(InvalidInputError, match="inference: expected one of"):
        rule_of("laplacian")
    own = RowWeights.ones(40, np.full(40, 2.0))
    with pytest.raises(InvalidInputError, match="exposure: expected none for a Bernoulli law"):
        observed(Bernoulli(), weights=own)
    with pytest.raises(InvalidInputError, match="exposure: expected positive numbers, got"):
        observed(Poisson(), weights=RowWeights.ones(40, np.zeros(40)))
    with pytest.raises(InvalidInputError, match="none of single rows"):
        observed(Poisson(), weights=RowWeights(np.full(40, 2.0), np.ones(40)))


def test_steps_that_cannot_climb_end_with_an_error():
    class Wrong(Bernoulli):
        """A law whose density has no number where steps go."""

        def log_density(self, y, f):
            return torch.where(f == 0.2, super().log_density(y, f), torch.nan * f)

    with pytest.raises(NumericalError, match="no step from the sites"):
        find_sites(DenseSites(covariance()), RULES["laplace"], observed(Wrong()))
