"""Targets that are counts, told from rounded and from continuous ones."""

import numpy as np
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.diagnostics.residuals.counts import EXCESSES, CountLaw, _losses
from coupledgp.diagnostics.verdicts.verdict import HONESTY

RNG = np.random.default_rng(4)
MEANS = np.exp(RNG.normal(0.5, 0.8, size=400))


def test_losses_are_those_of_the_laws():
    y, m = RNG.poisson(MEANS).astype(float), MEANS
    np.testing.assert_allclose(_losses(0.0, y, m), -stats.poisson.logpmf(y, m), rtol=1e-10)
    for a in (0.2, 3.0):
        expected = -stats.nbinom.logpmf(y, 1 / a, 1 / (1 + a * m))
        np.testing.assert_allclose(_losses(a, y, m), expected, rtol=1e-9)


def test_counts_are_found_and_their_law_named():
    y = RNG.poisson(MEANS).astype(float)
    std = np.full(400, np.sqrt(np.mean((y - MEANS) ** 2)))
    found = CountLaw.of(y, MEANS, std)
    assert found.is_better
    assert found.gain > 0.1
    many = RNG.negative_binomial(1, 1 / (1 + MEANS)).astype(float)
    law = CountLaw.of(many, MEANS, np.sqrt(MEANS + MEANS**2))
    assert law.name == "negative-binomial"
    assert law.excess == pytest.approx(1.0, abs=EXCESSES[-6])


def test_other_targets_are_no_counts():
    mean, std = np.full(400, 60.0), np.full(400, 5.0)
    assert CountLaw.of(mean + 5 * RNG.normal(size=400), mean, std) is None
    assert CountLaw.of(np.round(RNG.normal(size=400)), np.zeros(400), np.ones(400)) is None
    assert CountLaw.of(np.ones(400), np.ones(400), np.ones(400)) is None
    assert CountLaw.of(np.arange(5.0), np.arange(5.0), np.ones(5)) is None
    # Rounded measurements of a right normal law: a law of counts has no lead.
    for seed in range(20):
        y = np.round(60 + 5 * np.random.default_rng(seed).normal(size=400))
        assert not CountLaw.of(y, mean, std).is_better


@pytest.mark.long
def test_a_report_says_so_and_what_to_do():
    X = RNG.uniform(size=(300, 2))
    y = RNG.poisson(np.exp(0.5 + 1.5 * np.sin(5 * X[:, 0]))).astype(float)
    gp = cgp.ExactGPRegressor(random_state=0).fit(X[:150], y[:150])
    found = compare(gp, X[150:], y[150:], progress=False)
    intervals = next(one for one in found.verdicts if one.question == HONESTY)
    assert "the targets are counts" in intervals.sentence
    assert intervals.colour in ("amber", "red")
    assert any("likelihood='" in one.action for one in found.advice)
