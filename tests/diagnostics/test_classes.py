"""Calibration of chances of classes, and the scores of labels."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

import coupledgp as cgp
from coupledgp.diagnostics import Chances, Predictions, Tables
from coupledgp.diagnostics.calibration.classes import (
    binomial_interval,
    label_draws,
    recalibrated,
    reliability_of,
)
from coupledgp.diagnostics.rules import class_chances
from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import Bernoulli

RNG = np.random.default_rng(0)
ONE = RNG.beta(0.7, 0.7, 400)
LAWS = Chances.of(ONE, ["no", "yes"], 400)
CODES = (RNG.random(400) < ONE).astype(int)


def reliability(laws, codes, seed=1):
    return reliability_of(laws, codes, drawn(laws, 2000, seed))


def drawn(laws, n, seed):
    rng = np.random.default_rng(seed)
    ends = np.cumsum(laws.chances[:, :-1], axis=1)
    return (rng.random((n, len(ends)))[..., None] > ends).sum(axis=2)


def powered(chances, power):
    raised = chances**power
    return raised / raised.sum(axis=1, keepdims=True)


def test_scores_are_those_of_scikit_learn():
    three = RNG.dirichlet(np.ones(3), 50)
    laws, codes = Chances.of(three, list("abc"), 50), RNG.integers(3, size=50)
    assert -laws.log_density(codes).mean() == pytest.approx(log_loss(codes, three))
    expected = brier_score_loss(codes, three, scale_by_half=False, labels=[0, 1, 2])
    assert laws.squared_error(codes).mean() == pytest.approx(expected)


def test_equal_chances_within_bins_leave_nothing_within():
    chances = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 40)
    codes = (np.random.default_rng(2).random(200) < chances).astype(int)
    found = reliability(Chances.of(chances, [0, 1], 200), codes)
    shares = codes.reshape(10, 20).mean(axis=1)
    assert found.error == pytest.approx(np.abs(shares - chances[::20]).mean())


def test_intervals_are_those_of_clopper_and_pearson():
    for k, n in ((0, 20), (7, 20), (20, 20)):
        expected = stats.binomtest(k, n).proportion_ci(0.95, "exact")
        np.testing.assert_allclose(binomial_interval(k, n), expected, atol=1e-12)


def test_recalibration_is_logistic_regression_of_the_logits():
    laws = powered(LAWS.chances, 2.0)
    shift, slope, gain = recalibrated(laws[:, 1], CODES.astype(bool))
    logits = np.log(laws[:, 1] / laws[:, 0])[:, None]
    logits = np.clip(logits, -np.log(1e6 - 1), np.log(1e6 - 1))
    model = LogisticRegression(C=np.inf).fit(logits, CODES)
    assert slope == pytest.approx(model.coef_[0, 0], rel=1e-2)
    assert shift == pytest.approx(model.intercept_[0], abs=1e-2)
    better = log_loss(CODES, model.predict_proba(logits))
    assert gain == pytest.approx(log_loss(CODES, laws) - better - 1 / 400, abs=1e-3)


@pytest.mark.long
def test_honest_chances_are_called_off_in_at_most_one_of_fifty():
    rng, off = np.random.default_rng(5), 0
    for trial in range(100):
        if trial % 2:
            chances = rng.dirichlet(np.full(3, 0.8), 150)
        else:
            one = rng.beta(0.5, 1.0, 150)
            chances = np.column_stack([1 - one, one])
        laws = Chances(chances, np.arange(chances.shape[1]))
        off += reliability(laws, drawn(laws, 1, 1000 + trial)[0], trial).is_off
    # A share of .02 gives more than 6 of 100 in four of a thousand runs.
    assert off <= 6


@pytest.mark.parametrize(
    ("power", "sign", "words"), [(3.0, -1, "too sure"), (0.4, 1, "not sure enough")]
)
def test_wrong_slopes_are_found_and_told(power, sign, words):
    laws = Chances(powered(LAWS.chances, power), LAWS.classes)
    found = reliability(laws, CODES)
    assert found.is_off
    assert np.sign(found.slope - 1) == sign
    (check,) = class_chances(Tables(Predictions(laws, CODES[:, None]), reliability=found))
    assert check.colour in ("amber", "red")
    assert words in check.sentence


def test_a_class_that_is_too_rare_is_named():
    chances = np.tile([0.5, 0.3, 0.2], (300, 1))
    codes = np.repeat([0, 1, 2], [150, 30, 120])
    found = reliability(Chances(chances, np.array(list("abc"))), codes)
    assert found.worst in ("b", "c")
    assert found.class_p <= 0.001


def test_chances_and_labels_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="sum to one"):
        Chances.of(np.full((3, 2), 0.4), [0, 1], 3)
    with pytest.raises(InvalidInputError, match=r"model: expected chances \(4, 2\)"):
        Chances.of(np.full((3, 2), 0.5), [0, 1], 4)
    with pytest.raises(InvalidInputError, match=r"labels \['no', 'yes'\], got 'maybe'$"):
        LAWS.codes(["maybe"] * 400)
    with pytest.raises(InvalidInputError, match="expected 400 labels"):
        LAWS.codes(["no"] * 3)
    unordered = Chances(LAWS.chances, np.array(["yes", "no"]))
    np.testing.assert_array_equal(unordered.codes(["yes", "no"] * 200), np.tile([0, 1], 200))


def case(seed: int, factor: float) -> Any:
    rng = np.random.default_rng(seed)
    logits = 1.6 * rng.normal(size=250)
    labels = (rng.uniform(size=250) < expit(logits)).astype(int)
    p = expit(factor * logits)
    laws = Chances.of(np.column_stack([1 - p, p]), np.array([0, 1]), 250)
    return reliability_of(laws, labels, drawn(laws, 1000, seed))


def test_the_slope_has_the_score_of_a_logistic_regression() -> None:
    found = case(0, 1.0)
    rng = np.random.default_rng(0)
    logits = 1.6 * rng.normal(size=250)
    labels = (rng.uniform(size=250) < expit(logits)).astype(int)
    p = expit(logits)
    w = p * (1 - p)
    x = logit(p) - (w * logit(p)).sum() / w.sum()
    z = ((labels - p) * x).sum() / np.sqrt((w * x * x).sum())
    rank = np.mean([_z(seed, p, x, w) ** 2 >= z**2 for seed in range(2000)])
    assert found.slope_p == pytest.approx(rank, abs=0.05)


def _z(seed: int, p: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    labels = np.random.default_rng([seed, 1]).uniform(size=p.size) < p
    return float(((labels - p) * x).sum() / np.sqrt((w * x * x).sum()))


def test_half_logits_are_found_and_right_ones_are_not() -> None:
    assert sum(case(seed, 1.0).is_off for seed in range(60)) <= 2
    half = [case(seed, 0.5) for seed in range(40)]
    assert sum(one.is_off for one in half) >= 24
    assert sum(one.recalibration_p <= 0.003 for one in half) < sum(one.is_off for one in half)


def test_stated_chances_have_no_error_of_their_scale() -> None:
    """Few training rows leave the scale of a fitted model open, not that of what is stated."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (230, 2))
    logits = 2.5 * X[:, 0]
    y = (rng.uniform(size=230) < expit(logits)).astype(int)
    p = expit(0.5 * logits[30:])
    law = {"chances": np.column_stack([1 - p, p]), "classes": [0, 1]}
    report = cgp.audit(law, X[:30], y[:30], X[30:], y[30:], progress=False)
    assert report.verdicts[1].colour in ("amber", "red")
    assert "not sure enough" in report.verdicts[1].sentence


def test_draws_of_labels_have_the_chances_and_share_errors():
    """Of functions that go together, whose labels agree more often than by chance."""
    mean, cov = np.zeros((60, 1)), np.full((60, 60, 1), 4.0) + 1e-6 * np.eye(60)[..., None]
    law = Chances.of(np.full(60, 0.5), [0, 1], 60)
    joint = label_draws(law, None, (mean, cov), Bernoulli())
    alone = label_draws(law, None)
    for draws in (joint, alone):
        assert draws.mean() == pytest.approx(0.5, abs=0.05)
    assert joint.mean(axis=1).std() > 3 * alone.mean(axis=1).std()
