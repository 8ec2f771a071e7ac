"""Cures of laws of wrong scale or tails: by closed forms, and told apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.diagnostics.residuals.shapes import CURES, Shapes

RNG = np.random.default_rng(11)
STD = np.exp(0.5 * RNG.normal(size=600))


def test_losses_are_those_of_the_laws():
    e, s = RNG.normal(size=50), np.exp(RNG.normal(size=50))
    half = 0.5 * np.log(2 * np.pi)
    for name, found, law in (
        ("scale", (1.7,), stats.norm(0, 1.7 * s)),
        ("noise", (0.4,), stats.norm(0, np.sqrt(s**2 + 0.4))),
        ("tails", (3.0, 0.8), stats.t(3.0, 0, 0.8 * s)),
    ):
        np.testing.assert_allclose(CURES[name][1](found, e, s), -law.logpdf(e) - half, atol=1e-9)


def test_the_gain_of_a_factor_is_its_closed_form():
    e = 1.5 * STD * RNG.normal(size=600)
    found = Shapes.of(e, STD)
    c = np.sqrt(np.mean((e / STD) ** 2))
    assert found.scale.value == pytest.approx(c)
    # One number learned from 480 points costs about 1 / 960 nats.
    assert found.scale.gain == pytest.approx((c**2 - 1 - np.log(c**2)) / 2, abs=0.004)
    assert found.scale.lead == 0
    assert not found.is_latent
    assert not found.is_heavy


def test_missing_noise_is_told_from_another_factor():
    e = np.sqrt(STD**2 + 9.0) * RNG.normal(size=600)
    found = Shapes.of(e, STD)
    assert found.is_latent
    # The grid has steps of an eighth, and a variance of 600 points an error of six per cent.
    assert found.noise.value == pytest.approx(9.0, rel=0.25)
    assert not Shapes.of(3.0 * STD * RNG.normal(size=600), STD).is_latent


def test_heavy_tails_are_told_from_another_factor():
    e = STD * RNG.standard_t(3, 600)
    found = Shapes.of(e, STD)
    assert found.is_heavy
    assert found.tails.value in (2.2, 3.0, 4.0)
    alarms = sum(Shapes.of(STD * RNG.normal(size=600), STD).is_heavy for _ in range(20))
    assert alarms == 0


@pytest.mark.parametrize("errors", [np.zeros(40), np.arange(29.0)])
def test_few_points_and_none_that_differ_say_nothing(errors):
    assert Shapes.of(errors, np.ones(errors.size)) is None


def smooth(noise, n=400):
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + noise(rng, n)


@pytest.mark.long
def test_an_audit_of_a_law_of_the_function_says_which_noise_to_add():
    X, y = smooth(lambda rng, n: 0.3 * rng.normal(size=n))
    model = cgp.ExactGPRegressor(random_state=0).fit(X[:200], y[:200])
    mean, std = model.predict(X[200:], return_std=True)
    noise = float(model.process_.units.spread(model.process_.noise.variance)[0])
    latent = np.sqrt(std**2 - noise)
    tables = X[:200], y[:200], X[200:], y[200:]
    report = cgp.audit((mean, latent), *tables)
    assert len(report.advice) == 1
    assert report.advice[0].action.startswith("Add the noise 0.")
    assert report.evidence.shapes.noise.value == pytest.approx(noise, rel=0.35)
    assert not cgp.audit((mean, std), *tables).evidence.shapes.is_latent
    assert cgp.audit((mean, latent), *tables, kernel=model).advice[0].action == (
        report.advice[0].action
    )


@pytest.mark.long
def test_rows_that_are_left_out_tell_tails_that_few_test_rows_do_not():
    X, y = smooth(lambda rng, n: 0.25 * rng.standard_t(3, n))
    model = cgp.ExactGPRegressor(random_state=0).fit(X[:300], y[:300])
    few = compare(model, X[300:340], y[300:340]).evidence.shapes
    mean, std = model.predict(X[300:340], return_std=True)
    assert not Shapes.of(y[300:340] - mean, std).is_heavy
    assert few.is_heavy
    assert few.n_points == 340
    assert few.scale == Shapes.of(y[300:340] - mean, std).scale
    left_out = cgp.diagnostics.cross_validate(model)
    assert left_out.evidence.shapes.is_heavy
    assert "heavier tails" in left_out.verdicts[1].sentence


def test_tails_are_told_before_a_scale_that_they_explain():
    rng = np.random.default_rng(4)
    e = 0.5 * rng.standard_t(3, 400)
    wide = Shapes.of(e, np.full(400, np.sqrt(0.75)))
    assert wide.is_tails_alone
    narrow = Shapes.of(e, np.full(400, 0.2))
    assert narrow.is_heavy
    assert not narrow.is_tails_alone


def test_a_report_names_heavy_tails():
    X, y = smooth(lambda rng, n: 0.3 * rng.standard_t(2.5, n))
    model = cgp.ExactGPRegressor(random_state=0).fit(X[:200], y[:200])
    report = compare(model, X[200:], y[200:])
    assert report.evidence.shapes.is_heavy
    assert report.verdicts[1].colour in ("amber", "red")
    assert "likelihood='student-t'" in " ".join(one.action for one in report.advice)
