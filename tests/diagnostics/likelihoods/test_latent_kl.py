"""The divergence of posteriors of a function that is observed through a likelihood."""

import numpy as np
import pytest
from scipy import integrate, stats

import coupledgp as cgp
from coupledgp.diagnostics import latent_kl
from coupledgp.diagnostics.likelihoods.latent_kl import FunctionLaw, LatentKL, mean_curvature
from coupledgp.diagnostics.scoring.divergences import gaussian_kl
from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson, Probit, StudentT
from tests.diagnostics.likelihoods import cases

POINTS = cases.X[cases.TEST]


def laws(seed, p=6):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, p, 1))
    return FunctionLaw(rng.normal(size=(p, 1)), np.einsum("ijk,ljk->ilk", root, root))


def test_normal_observations_have_the_divergence_of_their_joint_laws():
    p, q = laws(0), laws(1)
    found = LatentKL.between(p, q, Gaussian(0.7), "own")
    noise = 0.7 * np.eye(6)
    expected = gaussian_kl(p.mean[:, 0], p.cov[..., 0] + noise, q.mean[:, 0], q.cov[..., 0] + noise)
    assert found.kl_per_point == pytest.approx(expected / 6)
    single = [
        gaussian_kl(p.mean[i], p.cov[i, i : i + 1], q.mean[i], q.cov[i, i : i + 1])
        for i in range(6)
    ]
    assert found.marginal == pytest.approx(np.mean(single))


@pytest.mark.parametrize("likelihood", [Bernoulli(), Probit(), Poisson(), NegativeBinomial(1.0)])
def test_the_curvature_is_the_mean_fisher_information(likelihood):
    """`E (d log p / d f)^2`, which is the mean of the curvature, by draws of another seed."""
    mean, variance = np.full((40, 1), 0.4), np.full((40, 1), 0.3)
    rng = np.random.default_rng(1)
    f = 0.4 + np.sqrt(0.3) * rng.standard_normal(200_000)
    squares = np.square(likelihood.slope(likelihood.draw(f, rng), f))
    error = squares.std() / np.sqrt(len(f))
    found = mean_curvature(likelihood, mean, variance).mean()
    assert abs(found - squares.mean()) < 5 * error


def test_the_curvature_of_a_logit_is_its_integral():
    def integrand(f):
        chance = 1 / (1 + np.exp(-f))
        return chance * (1 - chance) * stats.norm.pdf(f, 0.4, np.sqrt(0.3))

    expected, _ = integrate.quad(integrand, -8, 8)
    found = mean_curvature(Bernoulli(), np.array([[0.4]]), np.array([[0.3]]))
    assert found[0, 0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("make", [cases.classifier, cases.counts])
def test_more_features_are_nearer_to_the_exact_posterior(make):
    found = [latent_kl(make(m), POINTS).kl_per_point for m in (4, 512)]
    assert found[0] > 3 * found[1] > 0
    assert latent_kl(make(), POINTS).kl_per_point == pytest.approx(0, abs=1e-12)


def test_the_sites_of_the_model_serve_as_well_as_own_ones():
    own, same = (latent_kl(cases.classifier(64), POINTS, sites=s) for s in ("own", "same"))
    assert (own.sites, same.sites) == ("own", "same")
    assert same.kl_per_point == pytest.approx(own.kl_per_point, rel=0.2)
    assert same.kl_per_point != own.kl_per_point


def test_own_sites_are_those_of_the_exact_process():
    model, exact = cases.classifier(32), cases.classifier()
    found = latent_kl(model, POINTS)
    beside = latent_kl(model, POINTS, exact)
    assert beside.kl_per_point == pytest.approx(found.kl_per_point, rel=1e-5)
    means = [one.law(POINTS, "mean").mean for one in (model, exact)]
    assert found.largest_change == pytest.approx(np.abs(means[0] - means[1]).max(), rel=1e-4)


def test_solves_give_the_law_of_dense_algebra(monkeypatch):
    dense = latent_kl(cases.classifier(32), POINTS[:20], sites="same")
    monkeypatch.setattr("coupledgp.diagnostics.likelihoods.latent_kl.DENSE_ROWS", 10)
    options = cgp.diagnostics.StochasticOptions(tolerance=1e-6, dtype="float64", rank=40)
    solved = latent_kl(cases.classifier(32), POINTS[:20], sites="same", options=options)
    assert solved.kl_per_point == pytest.approx(dense.kl_per_point, rel=1e-3)
    with pytest.raises(InvalidInputError, match="sites: expected 'same' for 120 rows"):
        latent_kl(cases.classifier(32), POINTS, sites="own")


def test_the_curvature_of_a_heavy_tail_is_by_draws():
    """The information `(nu + 1) / ((nu + 3) s^2)` of the place of Student's law, nu = 4, s = .5."""
    found = mean_curvature(StudentT(0.5, 4.0), np.zeros((9, 1)), np.ones((9, 1))).mean()
    assert found == pytest.approx(5 / (7 * 0.25), rel=0.05)


def test_what_has_no_likelihood_is_refused():
    gp = cgp.ExactGPRegressor(optimizer=None).fit(cases.X[:9], cases.F[:9])
    with pytest.raises(InvalidInputError, match="model: expected one whose observations follow"):
        latent_kl(gp, POINTS)
    with pytest.raises(InvalidInputError, match="reference: expected 1 functions, got 3"):
        latent_kl(cases.classifier(), POINTS, cases.three_classes())
    with pytest.raises(InvalidInputError, match="sites"):
        latent_kl(cases.classifier(), POINTS, sites="other")


def test_counts_of_a_negative_binomial_have_less_curvature_than_poisson():
    mean, variance = np.full((1, 1), 1.0), np.full((1, 1), 0.01)
    poisson, wider = (
        mean_curvature(one, mean, variance)[0, 0] for one in (Poisson(), NegativeBinomial(1.0))
    )
    # mu and mu / (1 + mu) at mu = e.
    assert poisson == pytest.approx(np.exp(1.005), rel=1e-9)
    assert wider == pytest.approx(np.e / (1 + np.e), rel=2e-2)
