"""A mixture's laws are those of its members by weight: members that are far apart show it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.ground.codec import decoded, encoded

RNG = np.random.default_rng(4)
X, POINTS = RNG.normal(size=(20, 2)), RNG.normal(size=(5, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=20)
WEIGHTS = np.array([0.15, 0.85])


def member(lengthscale, noise, offset=0.0):
    """A process of the same data whose mean is moved by an offset."""
    gp = cgp.ExactGPRegressor(
        lengthscale=lengthscale, outputscale=1.0, noise=noise, optimizer=None, normalize_y=False
    ).fit(X, Y)
    return replace(gp.process_, units=Units(np.array([offset]), np.ones(1)))


NEAR, FAR = member(1.0, 0.1), member(0.7, 0.4, 1000.0)
MIXTURE = MixtureGP.of([NEAR, FAR], WEIGHTS, NEAR.data)
SINGLE = [member(1.0, 0.1), member(0.7, 0.4)]
CLOSE = MixtureGP.of(SINGLE, WEIGHTS, NEAR.data, "hyperparameters")


def moments(process, want="variance", latent=False):
    mean, spread = process.law(POINTS, want, latent=latent)
    return mean, spread


def test_draws_come_from_each_member_by_its_weight():
    """Members a thousand apart: it is seen where a draw comes from."""
    n = 3000
    draws = MIXTURE.sample(POINTS, n, np.random.default_rng(5))
    from_far = draws[:, 0] > 500
    assert (from_far == from_far[0]).all(), "a draw is of one member at all points"
    error = np.sqrt(WEIGHTS[0] * WEIGHTS[1] / n)
    assert from_far[0].mean() == pytest.approx(WEIGHTS[1], abs=5 * error)


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("latent", [False, True])
def test_a_mixture_of_one_is_its_member(k, latent):
    alone = MixtureGP.of([NEAR, FAR], np.maximum(np.eye(2)[k], 1e-300), NEAR.data)
    one = (NEAR, FAR)[k]
    for want in ("variance", "covariance"):
        for found, expected in zip(
            moments(alone, want, latent), moments(one, want, latent), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    targets = one.law(POINTS, "mean").mean + 0.3
    np.testing.assert_allclose(alone.log_density(POINTS, targets), one.log_density(POINTS, targets))
    np.testing.assert_allclose(alone.cdf(POINTS, targets), one.cdf(POINTS, targets))
    np.testing.assert_allclose(alone.prior(POINTS), one.prior(POINTS))


def test_moments_are_those_of_the_mixture():
    """About its precision-weighted mean, with the spread of the members' means."""
    (means, variances) = (np.array(part) for part in zip(*map(moments, SINGLE), strict=True))
    precision = WEIGHTS[:, None, None] / variances
    center = (precision * means).sum(axis=0) / precision.sum(axis=0)
    second = np.einsum("q,qpk->pk", WEIGHTS, variances + (means - center) ** 2)
    mean, variance = moments(CLOSE)
    np.testing.assert_allclose(mean, center, rtol=1e-10)
    np.testing.assert_allclose(variance, second, rtol=1e-10)
    _, covariance = moments(CLOSE, "covariance")
    parts = [moments(one, "covariance")[1] for one in SINGLE]
    gaps = means - center
    expected = sum(
        w * (part + np.einsum("pk,rk->prk", gap, gap))
        for w, part, gap in zip(WEIGHTS, parts, gaps, strict=True)
    )
    np.testing.assert_allclose(covariance, expected, rtol=1e-9, atol=1e-12)
    _, latent = moments(CLOSE, latent=True)
    noise = WEIGHTS @ [0.1, 0.4]
    np.testing.assert_allclose(variance - latent, noise, rtol=1e-9)


def test_densities_and_quantiles_are_those_of_the_mixture():
    targets = np.linspace(-1, 1, 5)[:, None]
    laws = [stats.norm(mean, np.sqrt(variance)) for mean, variance in map(moments, SINGLE)]
    density = sum(w * law.pdf(targets) for w, law in zip(WEIGHTS, laws, strict=True))
    np.testing.assert_allclose(CLOSE.log_density(POINTS, targets), np.log(density[:, 0]))
    chances = sum(w * law.cdf(targets) for w, law in zip(WEIGHTS, laws, strict=True))
    np.testing.assert_allclose(CLOSE.cdf(POINTS, targets), chances)
    levels = np.array([0.01, 0.5, 0.9])
    found = CLOSE.quantiles(POINTS, levels)[:, 0]
    back = sum(w * law.cdf(found) for w, law in zip(WEIGHTS, laws, strict=True))
    np.testing.assert_allclose(back, np.broadcast_to(levels, back.shape), rtol=0, atol=1e-12)


def test_what_is_made_of_a_mixture_keeps_its_weights_and_rows():
    more = Data.of(POINTS, np.zeros((5, 1)))
    for made, n_rows in (
        (CLOSE.conditioned(more), 5), (CLOSE.updated(more), 25), (CLOSE.exact(), 20)
    ):  # fmt: skip
        assert isinstance(made, MixtureGP)
        np.testing.assert_array_equal(made.weights, WEIGHTS)
        assert len(made.data) == n_rows
        for process, own in zip(made.members, SINGLE, strict=True):
            assert isinstance(process.hyperparameters, Hyperparameters)
            assert process.hyperparameters.noise == own.hyperparameters.noise  # type: ignore[union-attr]


def test_the_exact_process_of_features_has_their_weights():
    drawn = [
        cgp.SparseSpectrumGPRegressor(
            n_frequencies=4, lengthscale=1.0, outputscale=1.0, noise=noise, optimizer=None
        ).fit(X, Y).process_
        for noise in (0.1, 0.4)
    ]  # fmt: skip
    found = MixtureGP.of(drawn, WEIGHTS, drawn[0].data).exact()
    assert isinstance(found, MixtureGP)
    np.testing.assert_array_equal(found.weights, WEIGHTS)
    for exact, own in zip(found.members_with_data, drawn, strict=True):
        np.testing.assert_allclose(
            exact.law(POINTS, "mean").mean, own.exact().law(POINTS, "mean").mean
        )


def test_what_is_left_out_is_predicted_with_the_weights():
    groups, rows = np.arange(20) % 5, np.array([0, 4, 9])
    laws = [one.left_out(groups, rows) for one in SINGLE]
    found = CLOSE.left_out(groups, rows)
    targets = Y[rows, None]
    density, chances = (
        sum(
            w * getattr(stats.norm(law.mean, np.sqrt(law.variance)), name)(targets)
            for w, law in zip(WEIGHTS, laws, strict=True)
        )
        for name in ("pdf", "cdf")
    )
    np.testing.assert_allclose(found.log_density(targets), np.log(density[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(found.transforms(targets), chances, rtol=1e-9)
    parts = [one.left_out_correlation(groups, rows) for one in SINGLE]
    expected = sum(w * part for w, part in zip(WEIGHTS, parts, strict=True))
    np.testing.assert_allclose(CLOSE.left_out_correlation(groups, rows), expected, rtol=1e-9)


def test_a_file_keeps_the_weights():
    again = decoded(encoded(CLOSE), MixtureGP)
    assert again.purpose == "hyperparameters"
    np.testing.assert_array_equal(again.weights, WEIGHTS)
