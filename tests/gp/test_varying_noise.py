"""Laws whose variance depends on the point and whose tails are heavy, about inner laws."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special, stats

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.left_out import LeftOut
from coupledgp.gp.protocol import Data
from coupledgp.gp.transformed import TransformedGP, transformed_data
from coupledgp.gp.transforms import Log
from coupledgp.gp.units import NORMAL, Tail
from coupledgp.gp.varying_noise import (
    VarianceField,
    VaryingNoiseGP,
    constant_noise,
    inner_parts,
    variance_columns,
    variance_features,
)
from coupledgp.gp.wrapped import innermost
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.likelihoods import Bernoulli
from coupledgp.search.tables.variance_field import LeftOutRows, VarianceObjective, fit_variance
from coupledgp.selection.latent_kernels import one_row
from coupledgp.spectra import parse_spectrum
from coupledgp.testing import ProcessContract

RNG = np.random.default_rng(5)
X, X_MORE, AT = (RNG.uniform(-1, 1, (n, 2)) for n in (60, 15, 7))


def targets(points):
    spread = np.exp(points[:, 1] - 1)
    return (np.sin(2 * points[:, 0]) + spread * RNG.normal(size=len(points)))[:, None]


Y, Y_MORE = targets(X), targets(X_MORE)
PRIOR = StationaryPrior(parse_spectrum("matern-5/2"), Hyperparameters(np.ones(2), 1.0, 1.0))


def bent_field(n_columns=4):
    """A field with a constant, a slope and waves, whose weights are not sure."""
    rng = np.random.default_rng(0)
    size = 1 + n_columns + 6
    return VarianceField(
        np.full(n_columns, -2.0), np.full(n_columns, 2.0), np.zeros(n_columns), np.ones(n_columns),
        rng.normal(size=(3, n_columns)), 0.4 * rng.normal(size=size),
        0.1 * rng.normal(size=(size, size)), np.array([0.1]),
    )  # fmt: skip


def flat_field(level, n_columns=4):
    return replace(
        bent_field(n_columns), weights=np.zeros(11), root=np.zeros((11, 11)),
        level=np.array([level]),
    )  # fmt: skip


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


def varying(name, tail=NORMAL, field=None):
    process = inner(name)
    return VaryingNoiseGP(process, process.data, field or bent_field(), tail)


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
def test_a_flat_field_gives_the_laws_of_student_in_closed_form(degrees):
    process = varying("exact", Tail(degrees), flat_field(0.7))
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


def test_a_factor_beyond_the_range_of_the_columns_is_that_of_its_end():
    field = bent_field()
    inside = np.array([[2.0, -2.0, 0.3, 2.0]])
    np.testing.assert_array_equal(
        field.log_factor(np.array([[9.0, -7.0, 0.3, 2.0]])), field.log_factor(inside)
    )


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
    return LeftOutRows(variance_columns(points, law), law, y[:, None]), log_variance


def test_a_known_log_variance_is_found():
    rows, log_variance = known(600, np.inf, 2.0, 0)
    field, tail = fit_variance(rows, 0)
    error = field.log_factor(rows.columns) - log_variance
    # Three coefficients of a line from squares of variance two: about sqrt(3 * 2 / 600) = 0.1.
    assert np.sqrt(np.mean(np.square(error))) < 0.3
    assert tail.degrees > 12


def test_heavy_tails_are_found_and_do_not_bend_the_variance():
    rows, log_variance = known(600, 4.0, 1.0, 1)
    field, tail = fit_variance(rows, 0)
    assert 2.5 < tail.degrees < 8
    error = field.log_factor(rows.columns) - log_variance
    assert np.sqrt(np.mean(np.square(error))) < 0.45


def test_the_same_seed_gives_the_same_bits():
    rows, _ = known(80, 4.0, 1.0, 1)
    (field, tail), (again, same) = fit_variance(rows, 3), fit_variance(rows, 3)
    np.testing.assert_array_equal(field.weights, again.weights)
    assert tail == same


def test_the_factor_is_the_mean_over_weights():
    field, columns = bent_field(), RNG.uniform(-1, 1, (3, 4))
    weights = field.weights + RNG.normal(size=(20000, 11)) @ field.root.T
    features = variance_features(columns, field.frequencies)
    draws = np.exp(field.level + features @ weights.T)
    error = draws.std(axis=1) / np.sqrt(draws.shape[1])
    gap = draws.mean(axis=1) - np.exp(field.log_factor(columns))
    assert np.all(np.abs(gap) < 4.5 * error)


def test_factors_without_a_row_are_those_of_a_fit_without_it():
    rows, _ = known(60, np.inf, 1.0, 4)
    inputs, frequencies = rows.columns, np.random.default_rng(0).normal(size=(3, 4))

    def objective(own):
        return VarianceObjective(inputs[own], frequencies, rows.squares[own])

    every = np.arange(60)
    whole = objective(every)
    wide = replace(
        bent_field(), low=np.full(4, -np.inf), high=np.full(4, np.inf), level=np.zeros(1)
    )
    _, left_out = whole.field(whole.means, wide)
    own, _ = whole.field(whole.means, wide)
    gaps, seen = [], []
    for row in range(10):
        part = objective(np.delete(every, row))
        field, _ = part.field(whole.means, wide)
        expected = field.log_factor(rows.columns[[row]])[0]
        gaps.append(left_out[row] - expected)
        seen.append(own.log_factor(rows.columns[[row]])[0] - expected)
    # The other sites are held, which leaves a gap of second order.
    assert np.abs(gaps).max() < 0.3 * np.abs(seen).max()
