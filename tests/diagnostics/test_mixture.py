"""Every figure of a mixture is that of its own law, in every way to compare."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import coupledgp as cgp
from coupledgp.core.left_out import LeftOut
from coupledgp.diagnostics import MarginalScore, compare
from coupledgp.diagnostics.scoring.arviz_groups import groups_of
from coupledgp.diagnostics.scoring.score_table import SCORES

RNG = np.random.default_rng(8)
X = RNG.normal(size=(160, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_t(3, size=160)
TRAIN, TEST = slice(0, 120), slice(120, 160)


def fitted(y):
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=6,
        hyperparameters="averaged",
        options={"n_hyperparameter_draws": 4, "max_iter": 10},
        random_state=0,
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


def test_nlpd_is_that_of_the_mixture(model):
    report = compare(model, X[TEST], Y[TEST])
    shown = np.isin(Y[TEST], report.predictions.y)
    assert shown.sum() == (report.n_scored or 40)
    X_shown, y_shown = X[TEST][shown], Y[TEST][shown]
    expected = plain_nlpd(model, X_shown, y_shown)
    assert report.nlpd == pytest.approx(expected.mean(), rel=1e-10)
    mean, std = model.predict(X_shown, return_std=True)
    gaussian = -norm.logpdf(y_shown, mean, std)
    assert np.abs(expected - gaussian).max() > 1e-4  # the two laws are not the same
    p = report.predictions
    exact = model.process_.exact()  # a mixture of exact processes
    other = -exact.log_density(model.points(X_shown), y_shown[:, None])
    assert np.abs(other - -norm.logpdf(y_shown, *p_of(p))).max() > 1e-6
    gap = expected - other
    difference = report.differences["nlpd"]
    assert difference["mean"] == pytest.approx(gap.mean(), rel=1e-9)
    assert difference["standard_error"] == pytest.approx(gap.std(ddof=1) / np.sqrt(gap.size))
    points = model.points(X_shown)
    transforms = model.process_.cdf(points, y_shown[:, None])[:, 0]
    for level in (0.5, 0.8, 0.95):
        inside = np.abs(2 * transforms - 1) <= level
        assert report.coverage[level] == report.calibration.coverage[level] == inside.mean()
        ends = model.process_.quantiles(points, np.array([0.5 - level / 2, 0.5 + level / 2]))
        width = float((ends[:, 0, 1] - ends[:, 0, 0]).mean())
        assert report.interval_width[level] == pytest.approx(width, rel=1e-9)
    shares = np.histogram(transforms, bins=10, range=(0, 1))[0] / transforms.size
    assert report.pit == pytest.approx(shares)
    assert report.crps == pytest.approx(plain_crps(model, X_shown, y_shown), rel=1e-5)


def plain_crps(model, X, y):
    """Mean of `int (F(t) - [t >= y])^2 dt` over points, by sums over small steps beside y."""
    laws = [member.predict(X, return_std=True) for member in model.members_]

    def below(t):
        return sum(
            weight * norm.cdf((t - mean.reshape(-1, 1)) / std.reshape(-1, 1))
            for weight, (mean, std) in zip(model.member_weights_, laws, strict=True)
        )

    steps = np.linspace(0, 12, 10_001)
    left = np.trapezoid(np.square(below(y[:, None] - steps)), steps, axis=1)
    right = np.trapezoid(np.square(1 - below(y[:, None] + steps)), steps, axis=1)
    return float((left + right).mean())


def p_of(predictions):
    """Mean and standard deviation (p,) of the reference."""
    return predictions.reference_mean[:, 0], predictions.reference_std[:, 0]


@pytest.mark.long
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


@pytest.mark.long
def test_the_report_says_so(model):
    report = compare(model, X[TEST], Y[TEST])
    (remark,) = report.to_dict()["remarks"]
    assert f"a mixture of {len(model.members_)} Gaussian laws" in remark
    assert "the mixture&#39;s" in report.to_html()
    assert compare(model.members_[0], X[TEST], Y[TEST]).remarks == ()


def test_intervals_of_two_far_parts_are_their_own():
    """At 11.5 the mixture of N(0, 1) and N(10, 1) has F = 0.967, a normal of its moments 0.898."""
    law = LeftOut(np.array([[[0.0]], [[10.0]]]), np.ones((2, 1, 1)), np.array([0.5, 0.5]))
    score = SCORES["coverage"]
    assert isinstance(score, MarginalScore)
    y, mean, std = np.array([[11.5]]), np.array([[5.0]]), np.array([[26.0**0.5]])
    assert score.value(y, mean, std) == {0.5: 0.0, 0.8: 1.0, 0.95: 1.0}
    assert score.value(y, mean, std, law) == {0.5: 0.0, 0.8: 0.0, 0.95: 1.0}


def test_densities_for_arviz_are_those_of_the_mixture(model):
    pytest.importorskip("xarray")
    report = compare(model, X[TEST], Y[TEST])
    found = groups_of(report, n_chains=1, n_draws=2, seed=0)["log_likelihood"]["y"].to_numpy()
    expected = -plain_nlpd(model, X[TEST], Y[TEST])
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=1e-8)
