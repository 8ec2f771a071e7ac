"""Variational sites: the bound beside quadrature, its gradient, counts, exposures, solvers."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from coupledgp.core import sites as module
from coupledgp.core.problem import RowWeights
from coupledgp.core.sites import (
    DenseRows,
    FeatureRows,
    GivenRows,
    Observed,
    SiteObjective,
    find_sites,
)
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.likelihoods import (
    Bernoulli,
    Gaussian,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 2))
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
LAWS = [
    Bernoulli(), Probit(), Gaussian(0.3), NegativeBinomial(0.7), Poisson(),
    StudentT(0.3, 4.0),
]  # fmt: skip
laws = pytest.mark.parametrize("law", LAWS, ids=repr)


def squares(lengthscale=(1.0, 1.0)):
    """Squared differences (2, n, n) of the columns over their lengthscales."""
    u = X / lengthscale
    return np.square(u.T[:, :, None] - u.T[:, None, :])


def covariance(n=40, outputscale=1.5):
    return outputscale * np.exp(-0.5 * squares().sum(0))[:n, :n] + 1e-6 * np.eye(n)


def observed(law, n=40, offset=0.2, weights=None):
    y = law.draw(F[:n, None], np.random.default_rng(5))
    return Observed.of(law, y, np.array([offset]), weights)[0]


def dense(variables):
    parts = squares(np.exp(variables[1:]))
    gram = np.exp(variables[0] - 0.5 * parts.sum(0))

    def pull(cotangent):
        weighted = cotangent * gram
        return np.append(weighted.sum(), (parts * weighted).sum((1, 2)))

    return DenseRows(gram + 1e-6 * np.eye(40)), pull


FREQUENCIES = np.random.default_rng(3).normal(size=(2, 15))


def features(variables):
    scaled = X / np.exp(variables[1:])
    phases, root = scaled @ FREQUENCIES, np.exp(0.5 * variables[0]) / 15**0.5
    whole = root * np.hstack([np.sin(phases), np.cos(phases)])

    def pull(cotangent):
        of_sine, of_cosine = np.hsplit(cotangent, 2)
        of_phases = root * (of_sine * np.cos(phases) - of_cosine * np.sin(phases))
        scales = -(scaled * (of_phases @ FREQUENCIES.T)).sum(0)
        return np.append(0.5 * (cotangent * whole).sum(), scales)

    return FeatureRows(lambda: [whole]), pull


@pytest.mark.parametrize("prior", [dense, features])
@laws
def test_gradients_are_differences(law, prior):
    if prior is features and not law.is_log_concave:
        return

    def at(point):
        return SiteObjective(prior, 3, [observed(law)]).value_and_gradient(point)

    point = np.array([0.4, -0.2, 0.1, *np.log([*law.parameters.values()])])
    _, gradient = at(point)
    for place in range(point.size):
        step = np.zeros(point.size)
        step[place] = 1e-4
        up, down, far, near = (at(point + by * step)[0] for by in (1, -1, 2, -2))
        slope = (8 * (up - down) - (far - near)) / 12e-4
        assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=2e-6)


@laws
def test_the_bound_and_moments_are_those_of_quadrature(law):
    """Three observations by a product rule: the bound is below, and moments are near."""
    own, prior = observed(law, 3), covariance(3)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.array(list(itertools.product(nodes, repeat=3)))
    mass = np.prod(list(itertools.product(weights / weights.sum(), repeat=3)), axis=1)
    f = grid @ np.linalg.cholesky(prior).T
    joint = np.log(mass) + law.log_density(own.y, own.shift + f).sum(1)
    exact = special.logsumexp(joint)
    posterior = np.exp(joint - exact)
    mean = posterior @ f
    deviation = np.sqrt(posterior @ np.square(f - mean))
    found = find_sites(DenseRows(prior), own)
    assert exact - 0.15 < found.evidence < exact + (1e-7 if law.is_gaussian else 0.0)
    near = 0.1 if law.is_log_concave else 0.3
    assert (np.abs(found.mean - mean) < near * deviation).all()
    np.testing.assert_allclose(np.sqrt(found.variance) / deviation, 1, atol=near)


def test_gaussian_sites_are_the_observations():
    own = observed(Gaussian(0.3))
    found = find_sites(DenseRows(covariance()), own)
    law = stats.multivariate_normal(own.shift, covariance() + 0.3 * np.eye(40))
    assert found.evidence == pytest.approx(law.logpdf(own.y), rel=1e-10)
    np.testing.assert_allclose(own.shift + found.targets, own.y, rtol=1e-9, atol=1e-9)


@laws
def test_solvers_agree(law):
    """Features, their covariance, and a process by what it says of pseudo-observations."""
    whole = features(np.array([0.4, -0.2, 0.1]))[0].chunks()[0]
    prior = whole @ whole.T

    def given(targets, precision):
        noisy = prior + np.diag(1 / precision)
        gain = np.linalg.solve(noisy, prior).T
        evidence = -0.5 * targets @ np.linalg.solve(noisy, targets)
        evidence -= 0.5 * np.linalg.slogdet(2 * np.pi * noisy)[1]
        return gain @ targets, np.diag(prior - gain @ prior), evidence

    one = find_sites(DenseRows(prior), observed(law))
    for other in (FeatureRows(lambda: np.array_split(whole, 6)), GivenRows(given)):
        found = find_sites(other, observed(law))
        assert found.evidence == pytest.approx(one.evidence, abs=1e-7)
        np.testing.assert_allclose(found.mean, one.mean, atol=1e-5)
        np.testing.assert_allclose(found.precision, one.precision, rtol=1e-5, atol=1e-6)


def test_counts_are_repeated_rows_and_exposures_are_shifts():
    counts, exposure = RNG.integers(1, 4, 40).astype(float), RNG.uniform(0.2, 5.0, 40)
    y = Poisson().draw(F[:, None] + np.log(exposure)[:, None], RNG)
    whole, prior = np.repeat(np.arange(40), counts.astype(int)), covariance()
    weights = RowWeights(np.ones(40), counts, exposure=exposure)
    (own,) = Observed.of(Poisson(), y, np.zeros(1), weights)
    one = find_sites(DenseRows(prior), own)
    repeated = Observed(Poisson(), y[whole, 0], np.log(exposure)[whole])
    other = find_sites(DenseRows(prior[whole][:, whole]), repeated)
    assert one.evidence == pytest.approx(other.evidence, abs=1e-8)
    np.testing.assert_allclose(one.mean[whole], other.mean, atol=1e-6)


@pytest.mark.parametrize("outputscale", [1.0, 1e3])
def test_separable_classes_converge(outputscale):
    rows = np.linspace(-1, 1, 40)
    y = (rows > 0).astype(float)
    prior = outputscale * np.exp(-0.5 * np.square(rows[:, None] - rows) / 0.1)
    found = find_sites(DenseRows(prior), Observed(Bernoulli(), y, np.zeros(40)))
    assert ((found.mean > 0) == (y > 0)).all()
    assert -20 < found.evidence < 0


def test_steps_that_swing_about_the_optimum_are_shortened():
    """Whole steps turn back by .98 of the last one here, and come 2 % nearer with each."""
    rows, rng = np.linspace(0, 1, 40), np.random.default_rng(0)
    y = (3 * np.sin(6 * rows) + rng.logistic(size=40) > 0).astype(float)
    prior = 100 * np.exp(-50 * np.square(rows[:, None] - rows))
    found = find_sites(DenseRows(prior), Observed(Bernoulli(), y, np.zeros(40)))
    assert found.n_steps < 60


def test_outliers_under_heavy_tails_are_left_aside():
    """One observation far away moves the mean by little; under normal noise by much."""
    prior = covariance()
    far = F.copy()
    far[3] += 20.0
    moved = {}
    for law in (StudentT(0.1, 3.0), Gaussian(0.01)):
        means = [
            find_sites(DenseRows(prior), Observed(law, y, np.zeros(40))).mean for y in (F, far)
        ]
        moved[type(law)] = np.abs(means[0] - means[1]).max()
    assert moved[StudentT] < 0.05 < 1 < moved[Gaussian]


def test_many_rows_are_averaged_in_blocks(monkeypatch):
    own = observed(Poisson())
    at = RNG.normal(size=40), RNG.uniform(0.1, 1.0, 40)
    whole = own.rule(*at)
    monkeypatch.setattr(module, "AT_ONCE", 7 * module.N_NODES)
    for one, other in zip(own.rule(*at), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_what_is_refused():
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
            return np.where(np.abs(f - 0.2) < 0.8, super().log_density(y, f), np.nan)

    with pytest.raises(NumericalError, match="no step from the sites"):
        find_sites(DenseRows(1e4 * covariance()), observed(Wrong()))
