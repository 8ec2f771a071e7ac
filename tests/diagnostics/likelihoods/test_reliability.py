"""Calibration of chances of classes, and the scores of labels."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, confusion_matrix, log_loss

from coupledgp.diagnostics.likelihoods.class_laws import ClassLaws
from coupledgp.diagnostics.likelihoods.reliability import (
    Reliability,
    binomial_interval,
    recalibrated,
)
from coupledgp.diagnostics.likelihoods.report import chances_honesty
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(0)
ONE = RNG.beta(0.7, 0.7, 400)
LAWS = ClassLaws.of(ONE, ["no", "yes"], 400)
CODES = (RNG.random(400) < ONE).astype(int)


def reliability(laws, codes, seed=1):
    return Reliability.of(laws, codes, laws.drawn(2000, np.random.default_rng(seed)))


def powered(chances, power):
    raised = chances**power
    return raised / raised.sum(axis=1, keepdims=True)


def test_scores_are_those_of_scikit_learn():
    three = RNG.dirichlet(np.ones(3), 50)
    laws, codes = ClassLaws.of(three, list("abc"), 50), RNG.integers(3, size=50)
    assert laws.log_losses(codes).mean() == pytest.approx(log_loss(codes, three))
    expected = brier_score_loss(codes, three, scale_by_half=False, labels=[0, 1, 2])
    assert laws.brier_losses(codes).mean() == pytest.approx(expected)
    np.testing.assert_array_equal(laws.confusion(codes), confusion_matrix(codes, laws.predicted))


def test_parts_of_the_brier_score_add_up():
    found = reliability(LAWS, CODES).brier
    assert found.score == pytest.approx(np.square(ONE - CODES).mean())
    parts = found.reliability - found.resolution + found.uncertainty + found.within
    assert parts == pytest.approx(found.score)
    assert found.within != 0


def test_equal_chances_within_bins_leave_nothing_within():
    chances = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 40)
    codes = (np.random.default_rng(2).random(200) < chances).astype(int)
    found = reliability(ClassLaws.of(chances, [0, 1], 200), codes)
    assert found.brier.within == pytest.approx(0, abs=1e-15)
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
        laws = ClassLaws(chances, np.arange(chances.shape[1]))
        off += reliability(laws, laws.drawn(1, rng)[0], trial).is_off
    # A share of .02 gives more than 6 of 100 in four of a thousand runs.
    assert off <= 6


@pytest.mark.parametrize(
    ("power", "sign", "words"), [(3.0, -1, "too sure"), (0.4, 1, "not sure enough")]
)
def test_wrong_slopes_are_found_and_told(power, sign, words):
    laws = ClassLaws(powered(LAWS.chances, power), LAWS.classes)
    found = reliability(laws, CODES)
    assert found.is_off
    assert np.sign(found.slope - 1) == sign
    verdict = chances_honesty(found)
    assert verdict.colour in ("amber", "red")
    assert words in verdict.sentence


def test_a_class_that_is_too_rare_is_named():
    chances = np.tile([0.5, 0.3, 0.2], (300, 1))
    codes = np.repeat([0, 1, 2], [150, 30, 120])
    found = reliability(ClassLaws(chances, np.array(list("abc"))), codes)
    assert found.worst_class in ("b", "c")
    assert "Class" in chances_honesty(found).sentence


def test_chances_and_labels_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="sum to one"):
        ClassLaws.of(np.full((3, 2), 0.4), [0, 1], 3)
    with pytest.raises(InvalidInputError, match=r"predict: expected chances \(4, 2\)"):
        ClassLaws.of(np.full((3, 2), 0.5), [0, 1], 4)
    with pytest.raises(InvalidInputError, match=r"labels \['no', 'yes'\], got 'maybe'$"):
        LAWS.codes(["maybe"] * 400)
    with pytest.raises(InvalidInputError, match="expected 400 labels"):
        LAWS.codes(["no"] * 3)
    unordered = ClassLaws(LAWS.chances, np.array(["yes", "no"]))
    np.testing.assert_array_equal(unordered.codes(["yes", "no"] * 200), np.tile([0, 1], 200))
