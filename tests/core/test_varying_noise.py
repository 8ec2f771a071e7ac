"""Laws whose variance depends on the point and whose tails are heavy, about inner laws."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special, stats
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from coupledgp.core.frozen_mean import BoostedTrees, folds_of
from coupledgp.core.latent import LatentGP
from coupledgp.core.left_out import LeftOut
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.transformed import TransformedGP, transformed_data
from coupledgp.core.transforms import Log
from coupledgp.core.units import NORMAL, Tail
from coupledgp.core.varying_noise import (
    VaryingNoiseGP,
    constant_noise,
    inner_parts,
    variance_columns,
)
from coupledgp.core.wrapped import innermost
from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import Bernoulli
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_process import StationaryPrior
from coupledgp.tables.latent_kernels import one_row
from coupledgp.tables.noise_choice import LeftOutRows, fit_noise
from coupledgp.testing import ProcessContract

RNG = np.random.default_rng(5)
X, X_MORE, AT = (RNG.uniform(-1, 1, (n, 2)) for n in (60, 15, 7))


def targets(points):
    spread = np.exp(points[:, 1] - 1)
    return (np.sin(2 * points[:, 0]) + spread * RNG.normal(size=len(points)))[:, None]


Y, Y_MORE = targets(X), targets(X_MORE)
PRIOR = StationaryPrior(parse_spectrum("matern-5/2"), Hyperparameters(np.ones(2), 1.0, 1.0))


@cache
def bent(first=0):
    """Logarithms of a factor that jump, by trees of five folds; alike, but for those of `first`."""
    rng = np.random.default_rng(0)
    columns = rng.uniform(-1, 1, (200, 4))
    squares = np.exp(0.5 * columns[:, 0]) * rng.chisquare(1, 200)
    same = HistGradientBoostingRegressor(loss="gamma", max_iter=3, l2_regularization=10)
    same.fit(columns, squares)
    others = [clone(same).fit(columns[20 * fold :], squares[20 * fold :]) for fold in range(first)]
    return BoostedTrees.of([*others, *[same] * (5 - first)], 5)


def flat(level):
    trees = bent()
    return replace(trees, base=np.full((5, 1), level), value=np.zeros_like(trees.value))


@cache
def inner(name):
    if name == "averaged":
        model = cgp.ExactGPRegressor(
            hyperparameters="averaged", options={"n_hyperparameter_draws": 4}, random_state=3
        )
        return model.fit(X, Y[:, 0]).process_
    if name == "transformed":
        data = Data.of(X, np.exp(Y))
        values = transformed_data(data, (Log(),))
        model = cgp.ExactGPRegressor(random_state=0).fit(X, values.targets[:, 0])
        return TransformedGP.of(model.process_, (Log(),), data)
    return cgp.ExactGPRegressor(random_state=0).fit(X, Y[:, 0]).process_


def varying(name, tail=NORMAL, log_factor=None):
    process = inner(name)
    return VaryingNoiseGP(process, process.data, log_factor or bent(), tail)


class TestVaryingNoise(ProcessContract):
    tolerance = 1e-5
    solver_tolerance = 1e-3

    @pytest.fixture(autouse=True, params=["exact", "averaged", "transformed"])
    def _choose(self, request):
        name = request.param
        # Targets of transformed values with heavy tails have no moments.
        self.process = varying(name, NORMAL if name == "transformed" else Tail(40.0))
        self.points = AT
        self.further = Data.of(X_MORE, np.exp(Y_MORE) if name == "transformed" else Y_MORE)


@pytest.mark.parametrize("degrees", [np.inf, 3.5])
def test_a_flat_factor_gives_the_laws_of_student_in_closed_form(degrees):
    process = varying("exact", Tail(degrees), flat(0.7))
    mean, variance = process.inner.law(AT, "variance")
    law = stats.norm if np.isinf(degrees) else stats.t
    own = (() if np.isinf(degrees) else (degrees,)), mean, np.sqrt(variance * np.exp(0.7))
    y = mean + 1.3
    shape, center, scale = own
    expected = law.logpdf(y, *shape, center, scale)[:, 0]
    np.testing.assert_allclose(process.log_density(AT, y), expected, rtol=1e-10)
    np.testing.assert_allclose(process.cdf(AT, y), law.cdf(y, *shape, center, scale), rtol=1e-10)
    found = process.quantiles(AT, np.array([0.1, 0.9]))
    for place, chance in enumerate((0.1, 0.9)):
        wanted = law.ppf(chance, *shape, center, scale)
        np.testing.assert_allclose(found[..., place], wanted, rtol=1e-8)
    spread = process.law(AT, "variance").spread
    np.testing.assert_allclose(spread, law.var(*shape, center, scale), rtol=1e-10)


def test_ranked_scores_of_heavy_tails_are_those_of_the_closed_form():
    nu, z = 3.0, np.array([[-4.0], [0.0], [0.5], [30.0]])
    zero = np.zeros_like(z)
    found = LeftOut.single(zero, zero + 1.0).scaled(zero + 4.0, Tail(nu)).crps(2 * z)
    density, chance = stats.t.pdf(z, nu), stats.t.cdf(z, nu)
    # Jordan, Krüger and Lerch (2019), whose last term is a ratio of beta functions.
    ratio = special.beta(0.5, nu - 0.5) / special.beta(0.5, nu / 2) ** 2
    expected = z * (2 * chance - 1) + 2 * density * (nu + z**2) / (nu - 1)
    expected -= 2 * np.sqrt(nu) / (nu - 1) * ratio
    np.testing.assert_allclose(found, 2 * expected, rtol=2e-4)


def test_transforms_of_own_draws_are_uniform_and_draws_have_its_moments():
    process, n = varying("averaged", Tail(6.0)), 4000
    drawn = process.sample(AT, n, np.random.default_rng(1))
    for place in range(3):
        points = np.repeat(AT[[place]], n, axis=0)
        chances = process.cdf(points, drawn[place].T)[:, 0]
        assert stats.kstest(chances, "uniform").statistic < 1.95 / np.sqrt(n)
    spread = process.law(AT, "variance").spread
    np.testing.assert_allclose(drawn.var(axis=2) / spread, 1.0, atol=0.2)
    inner_drawn = process.inner.sample(AT, n, np.random.default_rng(1))
    ranks = [stats.spearmanr(one[0, 0], one[1, 0]).statistic for one in (drawn, inner_drawn)]
    assert ranks[0] == pytest.approx(ranks[1], abs=1e-6)


def test_the_law_of_the_function_is_that_of_the_inner_process():
    process = varying("exact", Tail(5.0))
    laws = (one.law(AT, "covariance", latent=True) for one in (process, process.inner))
    for found, expected in zip(*laws, strict=True):
        np.testing.assert_array_equal(found, expected)
    covariance, inner_covariance = (
        one.law(AT, "covariance").spread[..., 0] for one in (process, process.inner)
    )
    std, inner_std = np.sqrt(covariance.diagonal()), np.sqrt(inner_covariance.diagonal())
    np.testing.assert_allclose(
        covariance / np.outer(std, std), inner_covariance / np.outer(inner_std, inner_std),
        rtol=1e-12,
    )  # fmt: skip
    assert constant_noise(process) is process.inner is innermost(process)
    assert not np.allclose(std, inner_std, rtol=0.05)
    assert "Student" in process.remarks[-1]
    assert process.summary()["noise_varies"]


def test_parts_of_transformed_targets_are_the_laws_that_are_mapped():
    process = inner("transformed")
    parts = process.parts_of_law(AT)
    y = process.law(AT, "mean").mean
    np.testing.assert_allclose(parts.log_density(y), process.log_density(AT, y), rtol=1e-10)
    np.testing.assert_allclose(parts.cdf(y[..., None])[..., 0], process.cdf(AT, y), rtol=1e-10)


def test_without_its_rows_a_process_has_the_same_laws_and_no_left_out_ones():
    process = varying("exact").without_data()
    np.testing.assert_array_equal(process.law(AT, "mean").mean, varying("exact").law(AT, "mean")[0])
    if process.rows is None:
        with pytest.raises(cgp.CoupledGPError, match="no training rows"):
            process.left_out(np.arange(60))


def test_what_cannot_have_noise_that_varies_is_named():
    latent = LatentGP.given(
        [one_row(PRIOR, Data.of(X, Y), 0.0)], Bernoulli(), Data.of(X, (Y > 0).astype(float))
    )
    with pytest.raises(InvalidInputError, match="noise: expected a model with normal laws"):
        inner_parts(latent, np.arange(60), np.arange(60))
    with pytest.raises(InvalidInputError, match="method: a model whose noise varies"):
        varying("exact").exact_problem()


def known(n, degrees, slope, seed):
    """Rows with laws of variance one, whose observations have another known variance."""
    rng = np.random.default_rng(seed)
    points, law = rng.uniform(-1, 1, (n, 2)), LeftOut.single(np.zeros((n, 1)), np.ones((n, 1)))
    log_variance = slope * points[:, 0]
    noise = rng.standard_normal(n) if np.isinf(degrees) else rng.standard_t(degrees, n)
    y = np.exp(0.5 * log_variance) * noise
    return LeftOutRows(points, law, y[:, None]), log_variance


def test_a_known_log_variance_is_found():
    rows, log_variance = known(600, np.inf, 2.0, 0)
    log_factor, tail, _ = fit_noise(rows, 0)
    error = log_factor.at(variance_columns(rows.points, rows.law))[:, 0] - log_variance
    # A leaf of twenty squares of variance two has a mean to sqrt(2 / 20) = 0.3.
    assert np.sqrt(np.mean(np.square(error))) < 0.4
    assert tail.degrees > 12


def test_heavy_tails_are_found_and_do_not_bend_the_variance():
    rows, log_variance = known(600, 4.0, 1.0, 1)
    log_factor, tail, _ = fit_noise(rows, 0)
    assert 2.5 < tail.degrees < 8
    error = log_factor.at(variance_columns(rows.points, rows.law))[:, 0] - log_variance
    assert np.sqrt(np.mean(np.square(error))) < 0.45


def test_the_same_seed_gives_the_same_bits():
    rows, _ = known(80, 4.0, 1.0, 1)
    found, again = fit_noise(rows, 3), fit_noise(rows, 3)
    np.testing.assert_array_equal(found.log_factor.value, again.log_factor.value)
    assert found.tail == again.tail


def test_rows_left_out_have_factors_of_trees_that_have_not_seen_them():
    process = varying("exact", log_factor=bent(5))
    law = process.inner.targets_left_out(np.arange(60), np.arange(60))
    columns, folds = variance_columns(X, law), folds_of(X, 5)
    found = process.left_out(np.arange(60)).variance / law.variance
    for fold in range(5):
        own = folds == fold
        expected = np.exp(process.log_factor.of_fold(columns[own], fold))
        np.testing.assert_allclose(found[own], expected, rtol=1e-12)


def test_two_levels_are_found():
    """Deviations .05 and .55 by the sign of a column, about a law of one: within .15 nats."""
    rng, n = np.random.default_rng(0), 500
    points, law = rng.uniform(-1, 1, (n, 3)), LeftOut.single(np.zeros((n, 1)), np.ones((n, 1)))
    std = np.where(points[:, 0] > 0, 0.55, 0.05)
    rows = LeftOutRows(points, law, (std * rng.standard_normal(n))[:, None])
    found = fit_noise(rows, 0)
    truth = stats.norm.logpdf(rows.targets[:, 0], 0, std) - law.log_density(rows.targets)
    assert truth.mean() - found.gains.mean() < 0.15
