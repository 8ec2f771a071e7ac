"""Transforms of targets, and moments of what they give: closed forms and differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from coupledgp.core.process import PredictiveLaw
from coupledgp.core.target_maps import (
    Span,
    back_transformed,
    mapped_back,
    mapped_moments,
)
from coupledgp.core.transforms import (
    TARGET_TRANSFORMS,
    BoxCox,
    Counts,
    Identity,
    Log,
    Logit,
    YeoJohnson,
    transform_text,
)
from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import hermite

EVERY = [
    Identity(), Log(), Log(2.0), BoxCox(0.0), BoxCox(1e-9), BoxCox(0.3), BoxCox(1.0), BoxCox(1.5),
    YeoJohnson(0.0, 1.0, 2.0), YeoJohnson(0.7, 1.0, 2.0), YeoJohnson(1.0, 1.0, 2.0),
    YeoJohnson(2.0, 1.0, 2.0), Logit(), Logit(-1.0, 5.0), Counts(0.0), Counts(0.5), Counts(1.0),
]  # fmt: skip


def targets_of(transform, n=41):
    low, high = transform.domain
    low, high = max(low, -6.0), min(high, 9.0)
    return np.linspace(low, high, n + 2)[1:-1]


@pytest.mark.parametrize("transform", EVERY, ids=str)
def test_maps_back_and_slopes(transform):
    y = targets_of(transform)
    z = transform.forward(y)
    assert (np.diff(z) > 0).all()
    np.testing.assert_allclose(transform.inverse(z), y, rtol=1e-9, atol=1e-9)
    step = 1e-6 * (y - transform.domain[0] if np.isfinite(transform.domain[0]) else 1.0)
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(transform.log_slope(y)), slope, rtol=1e-4)


@given(power=st.floats(0.0, 1.5), y=st.floats(1e-3, 1e3))
def test_box_cox_is_that_of_scipy(power, y):
    assert BoxCox(power).forward(np.array([y]))[0] == pytest.approx(special.boxcox(y, power))


@given(power=st.floats(0.0, 2.0))
def test_yeo_johnson_is_that_of_scipy(power):
    y = np.linspace(-4, 4, 9)
    expected = stats.yeojohnson(y, power)
    np.testing.assert_allclose(YeoJohnson(power, 0.0, 1.0).forward(y), expected, rtol=1e-7)


def test_the_law_below_the_range_belongs_to_its_end():
    assert mapped_back(BoxCox(0.5), np.array([-2.0, -5.0, -np.inf])).tolist() == [0, 0, 0]
    assert mapped_back(Log(), np.array([800.0]))[0] == np.inf
    # Zero itself is a count, and what lies below its image belongs to it.
    assert mapped_back(Counts(0.5), np.array([-np.inf, -3.0, 0.0]))[:2].tolist() == [0, 0]
    for power in (0.0, 0.5, 1.0):
        zero = Counts(power).forward(np.zeros(1))
        assert mapped_back(Counts(power), zero)[0] == pytest.approx(0.0, abs=1e-12)


def test_anscombe_s_transform_makes_variances_of_poisson_counts_equal():
    rng = np.random.default_rng(0)
    for mean in (5.0, 20.0, 100.0):
        z = Counts(0.5).forward(rng.poisson(mean, 200_000).astype(float))
        assert z.var() == pytest.approx(1.0, rel=0.03)


def test_counts_below_zero_are_refused():
    with pytest.raises(InvalidInputError, match="expected values between"):
        Counts(0.5).check(np.array([0.0, -1.0]))
    with pytest.raises(InvalidInputError, match="power: expected a number from 0 to 1"):
        Counts(1.5)


@pytest.mark.parametrize("transform", EVERY, ids=str)
def test_texts_stand_for_transforms(transform):
    assert TARGET_TRANSFORMS.parse(transform_text(transform), "target_transform") == transform
    assert TARGET_TRANSFORMS.parse(str(transform), "target_transform") == transform


def test_location_and_scale_come_from_the_targets():
    y = np.array([1.0, 2.0, 4.0])
    plain = YeoJohnson().adapted(y, None)
    assert (plain.center, plain.scale) == pytest.approx((y.mean(), y.std()))
    counted = YeoJohnson().adapted(y, np.array([1.0, 3.0, 2.0]))
    repeated = YeoJohnson().adapted(np.repeat(y, [1, 3, 2]), None)
    assert (counted.center, counted.scale) == pytest.approx((repeated.center, repeated.scale))
    assert YeoJohnson(center=0.0, scale=1.0).adapted(y, None) == YeoJohnson(None, 0.0, 1.0)
    assert Log().adapted(y, None) == Log()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BoxCox(-0.5), "power: expected a number >= 0"),
        (lambda: YeoJohnson(2.5), "power: expected a number from 0 to 2"),
        (lambda: YeoJohnson(scale=0.0), "scale: expected a number > 0"),
        (lambda: Logit(1.0, 1.0), "expected low < high"),
        (lambda: TARGET_TRANSFORMS.parse("logg", "target_transform"), "did you mean 'log'"),
        (lambda: TARGET_TRANSFORMS.parse("log(shift=x)", "target_transform"), "expected one of"),
        (lambda: TARGET_TRANSFORMS.parse("box-cox(power=-1)", "t"), "expected a number >= 0"),
        (lambda: Log().check(np.array([1.0, 0.0])), "y: expected values between 0 and inf"),
    ],
)
def test_bad_transforms_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("s", [1e-6, 0.1, 1.0, 2.0])
def test_moments_of_the_lognormal_law(s):
    """Closed forms: mean `exp(m + s^2 / 2)`, variance `(exp(s^2) - 1) mean^2`."""
    mean, std = np.array([0.3, -2.0]), np.array([s, s / 2])
    found, variance = mapped_moments(Log(), mean, std**2)
    expected = np.exp(mean + std**2 / 2)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(variance, np.expm1(std**2) * expected**2, rtol=1e-6)
    cov = np.diag(std**2) + (np.ones((2, 2)) - np.eye(2)) * 0.6 * std.prod()
    _, found_cov = mapped_moments(Log(), mean, cov)
    np.testing.assert_allclose(found_cov, np.expm1(cov) * np.outer(expected, expected), rtol=1e-6)


@pytest.mark.parametrize("transform", EVERY, ids=str)
def test_moments_by_integration(transform):
    z = transform.forward(targets_of(transform)[20:21])
    mean, std = z, np.array([0.4])
    found, variance = mapped_moments(transform, mean, std**2)

    def moment(power):
        def integrand(x):
            y = mapped_back(transform, np.array([z[0] + 0.4 * x]))[0]
            return y**power * stats.norm.pdf(x)

        return integrate.quad(integrand, -9, 9, limit=200)[0]

    assert found[0] == pytest.approx(moment(1), rel=1e-6)
    assert variance[0] == pytest.approx(moment(2) - moment(1) ** 2, rel=1e-4)


def test_a_normal_law_stays_as_it_is():
    mean, root = np.array([1.0, 2.0, -1.0]), np.random.default_rng(0).normal(size=(3, 3))
    found, cov = mapped_moments(Identity(), mean, root @ root.T)
    np.testing.assert_allclose(found, mean, rtol=1e-12)
    np.testing.assert_allclose(cov, root @ root.T, rtol=1e-10)


def test_expansions_of_variables_without_spread():
    expansion = hermite.coefficients(np.exp, np.array([0.5]), np.array([0.0]))
    assert expansion[0, 0] == pytest.approx(np.exp(0.5))
    assert hermite.variance_of(expansion)[0] < 1e-25


@pytest.mark.parametrize("transform", [Log(), BoxCox(0.1), YeoJohnson(0.0, 0.0, 1.0)], ids=str)
def test_moments_that_no_target_is_near_are_those_of_clipped_targets(transform):
    """By Monte Carlo, with a row of a sane law among the others, which stays as it is."""
    rng, span = np.random.default_rng(0), Span(np.array([0.1]), np.array([9.0]))
    low, high = 0.1 - 3 * 8.9, 9.0 + 3 * 8.9
    mean, std = np.array([0.2, 0.5, 60.0, -3.0]), np.array([0.3, 9.0, 20.0, 40.0])
    root = np.array([[1.0, 0.2, 0.0, 0.0], [0.0, 1.0, 0.9, 0.0], [0, 0, 1.0, -0.5], [0, 0, 0, 1]])
    correlation = np.corrcoef(root.T @ root + 0.1 * np.eye(4))
    cov = correlation * np.outer(std, std)
    law, clipped = back_transformed(PredictiveLaw(mean[:, None], cov[..., None]), [transform], span)
    assert clipped.tolist() == [False, True, True, True]
    plain_mean, plain_cov = mapped_moments(transform, mean[:1], cov[:1, :1])
    assert law.mean[0, 0] == pytest.approx(plain_mean[0], rel=1e-12)
    assert law.spread[0, 0, 0] == pytest.approx(plain_cov[0, 0], rel=1e-12)
    z = mean + rng.multivariate_normal(np.zeros(4), cov, size=40_000, method="cholesky")
    y = np.clip(mapped_back(transform, z), low, high)
    error = y.std(axis=0) / 200
    assert (np.abs(y.mean(axis=0) - law.mean[:, 0])[1:] < 5 * error[1:]).all()
    np.testing.assert_allclose(np.sqrt(law.spread.diagonal()[0]), y.std(axis=0), rtol=0.02)
    np.testing.assert_allclose(np.cov(y.T), law.spread[..., 0], atol=0.03 * y.var())
    assert np.linalg.eigvalsh(law.spread[..., 0])[0] > -1e-9
    variance = back_transformed(PredictiveLaw(mean[:, None], std[:, None] ** 2), [transform], span)
    np.testing.assert_allclose(variance.law.spread[:, 0], law.spread.diagonal()[0], rtol=1e-12)
    # A mean beyond all targets is none, however narrow the law; nor are infinite moments.
    narrow = PredictiveLaw(transform.forward(np.array([[100.0]])), np.array([[1e-12]]))
    assert back_transformed(narrow, [transform]).law.mean[0, 0] == pytest.approx(100.0)
    law, told = back_transformed(narrow, [transform], span)
    assert (law.mean[0, 0], told[0]) == (pytest.approx(high), True)
    wide = PredictiveLaw(np.array([[1e3]]), np.array([[1e6]]))
    assert high / 2 < back_transformed(wide, [transform], span).law.mean[0, 0] <= high
