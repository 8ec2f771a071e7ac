"""The NLPD of a mixture is that of its density, in every way to compare; the rest is Gaussian."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import coupledgp as cgp
from coupledgp.diagnostics import StochasticOptions, compare

RNG = np.random.default_rng(8)
X = RNG.normal(size=(160, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_t(3, size=160)
TRAIN, TEST = slice(0, 120), slice(120, 160)


def fitted(y):
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=6, frequencies="fitted", random_state=0, max_iter=10
    )
    return model.fit(X[TRAIN], y[TRAIN])


@pytest.fixture(scope="module")
def model():
    return fitted(Y)


def plain_nlpd(model, X, y):
    """Negative log density of each point (p,), from the members' Gaussian laws."""
    terms = []
    for weight, member in zip(model.member_weights_, model.members_, strict=True):
        mean, std = member.predict(X, return_std=True)
        terms.append(np.log(weight) + norm.logpdf(y, mean, std).reshape(len(X), -1).sum(axis=1))
    return -logsumexp(terms, axis=0)


@pytest.mark.parametrize(
    "how",
    [
        {"method": "dense"},
        {"method": "stochastic"},
        {"method": "stochastic", "options": StochasticOptions(n_columns=15, n_probes=8)},
    ],
)
def test_nlpd_is_that_of_the_mixture(model, how):
    report = compare(model, X[TEST], Y[TEST], **how)
    shown = np.isin(Y[TEST], report.predictions.y)
    assert shown.sum() == (report.n_scored or 40)
    X_shown, y_shown = X[TEST][shown], Y[TEST][shown]
    expected = plain_nlpd(model, X_shown, y_shown)
    assert report.nlpd == pytest.approx(expected.mean(), rel=1e-10)
    mean, std = model.predict(X_shown, return_std=True)
    gaussian = -norm.logpdf(y_shown, mean, std)
    assert np.abs(expected - gaussian).max() > 1e-4  # the two laws are not the same
    p = report.predictions
    other = -norm.logpdf(y_shown, *p_of(p))
    if how["method"] == "dense":  # the exact process of a mixture is one of exact processes
        exact = model.process_.exact()
        other = -exact.log_density(model.points(X_shown), y_shown[:, None])
        assert np.abs(other - -norm.logpdf(y_shown, *p_of(p))).max() > 1e-6
    gap = expected - other
    difference = report.differences["nlpd"]
    assert difference["mean"] == pytest.approx(gap.mean(), rel=1e-9)
    assert difference["standard_error"] == pytest.approx(gap.std(ddof=1) / np.sqrt(gap.size))
    inside = np.abs(y_shown - mean) / std <= norm.ppf(0.975)
    assert report.coverage[0.95] == inside.mean()


def p_of(predictions):
    """Mean and standard deviation (p,) of the reference."""
    return predictions.reference_mean[:, 0], predictions.reference_std[:, 0]


def test_two_outputs():
    y = np.stack([Y, 3 * np.cos(X[:, 1]) + 0.2 * RNG.normal(size=160)], axis=1)
    model = fitted(y)
    report = compare(model, X[TEST], y[TEST])
    assert report.nlpd == pytest.approx(plain_nlpd(model, X[TEST], y[TEST]).mean() / 2, rel=1e-10)


def test_as_a_reference(model):
    sampled = model.members_[0]
    report = compare(sampled, X[TEST], Y[TEST], reference=model)
    assert report.reference_nlpd == pytest.approx(plain_nlpd(model, X[TEST], Y[TEST]).mean())
    mean, std = sampled.predict(X[TEST], return_std=True)
    assert report.nlpd == pytest.approx(-norm.logpdf(Y[TEST], mean, std).mean())


def test_the_report_says_so(model):
    report = compare(model, X[TEST], Y[TEST])
    prior, remark = report.to_dict()["remarks"]
    assert "no unbiased estimate" in prior
    assert f"a mixture of {len(model.members_)} Gaussian laws" in remark
    assert "the mixture&#39;s" in report.to_html()
    assert compare(model.members_[0], X[TEST], Y[TEST]).remarks == ()
