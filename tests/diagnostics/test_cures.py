"""Cures of laws of wrong shape, rows beyond the training rows, columns that carry the targets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from coupledgp.diagnostics.checks.data import Reach, carried, equal_columns, near_duplicates
from coupledgp.diagnostics.checks.shapes import CURES, EXCESSES, _count_losses, _counts, cures

RNG = np.random.default_rng(11)
STD = np.exp(0.5 * RNG.normal(size=600))
MEANS = np.exp(np.random.default_rng(4).normal(0.5, 0.8, size=400))
KNOWN = np.array([[0.0, 0.0], [1.0, 10.0]])


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
    found = cures(e, STD)
    c = np.sqrt(np.mean((e / STD) ** 2))
    assert found.scale.value == pytest.approx(c)
    # One number learned from 480 points costs about 1 / 960 nats.
    assert found.scale.gain == pytest.approx((c**2 - 1 - np.log(c**2)) / 2, abs=0.004)
    assert found.scale.lead == 0
    assert not found.is_latent
    assert not found.is_heavy


def test_missing_noise_is_told_from_another_factor():
    e = np.sqrt(STD**2 + 9.0) * RNG.normal(size=600)
    found = cures(e, STD)
    assert found.is_latent
    # The grid has steps of an eighth, and a variance of 600 points an error of six per cent.
    assert found.noise.value == pytest.approx(9.0, rel=0.25)
    assert not cures(3.0 * STD * RNG.normal(size=600), STD).is_latent


def test_heavy_tails_are_told_from_another_factor():
    e = STD * RNG.standard_t(3, 600)
    found = cures(e, STD)
    assert found.is_heavy
    assert found.tails.value in (2.2, 3.0, 4.0)
    alarms = sum(cures(STD * RNG.normal(size=600), STD).is_heavy for _ in range(20))
    assert alarms == 0


@pytest.mark.parametrize("errors", [np.zeros(40), np.arange(29.0)])
def test_few_points_and_none_that_differ_say_nothing(errors):
    assert cures(errors, np.ones(errors.size)) is None


def test_tails_are_told_before_a_scale_that_they_explain():
    rng = np.random.default_rng(4)
    e = 0.5 * rng.standard_t(3, 400)
    wide = cures(e, np.full(400, np.sqrt(0.75)))
    assert wide.is_tails_alone
    narrow = cures(e, np.full(400, 0.2))
    assert narrow.is_heavy
    assert not narrow.is_tails_alone


def test_losses_of_counts_are_those_of_the_laws():
    y, m = RNG.poisson(MEANS).astype(float), MEANS
    np.testing.assert_allclose(_count_losses(0.0, y, m), -stats.poisson.logpmf(y, m), rtol=1e-10)
    for a in (0.2, 3.0):
        expected = -stats.nbinom.logpmf(y, 1 / a, 1 / (1 + a * m))
        np.testing.assert_allclose(_count_losses(a, y, m), expected, rtol=1e-9)


def test_counts_are_found_and_their_law_named():
    y = RNG.poisson(MEANS).astype(float)
    std = np.full(400, np.sqrt(np.mean((y - MEANS) ** 2)))
    found = _counts(y, MEANS, std)
    assert cures(y - MEANS, std, y).is_counts
    assert found.gain > 0.1
    many = RNG.negative_binomial(1, 1 / (1 + MEANS)).astype(float)
    law = _counts(many, MEANS, np.sqrt(MEANS + MEANS**2))
    assert cures(many - MEANS, np.sqrt(MEANS + MEANS**2), many).count_law == "negative-binomial"
    assert law.value == pytest.approx(1.0, abs=EXCESSES[-6])


def test_other_targets_are_no_counts():
    mean, std = np.full(400, 60.0), np.full(400, 5.0)
    assert _counts(mean + 5 * RNG.normal(size=400), mean, std) is None
    assert _counts(np.round(RNG.normal(size=400)), np.zeros(400), np.ones(400)) is None
    assert _counts(np.ones(400), np.ones(400), np.ones(400)) is None
    # Rounded measurements of a right normal law: a law of counts has no lead.
    for seed in range(20):
        y = np.round(60 + 5 * np.random.default_rng(seed).normal(size=400))
        assert not cures(y - mean, std, y).is_counts


@pytest.mark.parametrize(
    ("row", "is_beyond"),
    [([1.09, 5.0], 0), ([1.11, 5.0], 1), ([0.5, -0.9], 0), ([0.5, -1.1], 1), ([2.0, 99.0], 1)],
)
def test_a_row_is_beyond_by_a_tenth_of_a_side(row, is_beyond):
    assert Reach.of(KNOWN, np.array([row]), np.zeros((1, 1)), ("a", "b")).n_beyond == is_beyond


def test_it_names_the_column_and_the_errors_of_both():
    points = np.array([[0.5, 20.0], [0.5, 30.0], [9.0, 5.0], [0.5, 5.0]])
    errors = np.array([[3.0], [4.0], [0.0], [2.0]])
    found = Reach.of(KNOWN, points, errors, ("east", "depth"))
    assert (found.n_beyond, found.column) == (3, "depth")
    assert found.rmse_beyond == pytest.approx(np.sqrt(25 / 3))
    assert found.rmse_inside == 2.0
    assert Reach.of(KNOWN, points[:1], errors[:1], ("a", "b")).rmse_inside is None


def test_what_rows_beyond_cost_is_the_mean_loss_above_that_of_rows_within():
    points = np.array([[0.5, 20.0], [0.5, 30.0], [0.9, 5.0], [0.5, 5.0]])
    errors = np.array([[3.0], [4.0], [0.5], [2.0]])
    std = np.array([[2.0], [1.0], [1.0], [0.5]])
    losses = (0.5 * (errors / std) ** 2 + np.log(std))[:, 0]
    names = ("a", "b")
    found = Reach.of(KNOWN, points, errors, names, losses)
    assert found.gain == pytest.approx(losses.mean() - losses[2:].mean())
    assert found.is_fault
    assert Reach.of(KNOWN, points, errors, names).gain == 0.0
    assert Reach.of(KNOWN, points[:2], errors[:2], names, losses[:2]).gain == 0.0
    assert not Reach.of(KNOWN, points, np.ones((4, 1)), names, losses).is_fault


def test_a_column_that_is_the_target_in_training_alone():
    rng = np.random.default_rng(0)
    X, points = rng.normal(size=(100, 3)), rng.normal(size=(80, 3))
    y, later = np.sin(X[:, 0]), np.sin(points[:, 0])
    X[:, 2] = y + 0.1 * rng.normal(size=100)  # at the test rows it is noise
    found = carried(X, y, points, later)
    assert found is not None
    assert found.column == 2
    assert found.trained > 0.9
    assert abs(found.tested) < 0.4
    points[:, 2] = later
    assert carried(X, y, points, later) is None


@pytest.mark.parametrize("digits", [None, 2])
def test_columns_that_equal_the_targets_but_for_rounding(digits):
    y = np.random.default_rng(0).normal(size=50)
    other = y if digits is None else np.round(y, digits)
    rows = np.column_stack([np.arange(50.0), other, 2 * y])
    assert equal_columns(rows, y) == [1]


def test_rows_that_are_training_rows_but_for_rounding():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(200, 2)), rng.normal(size=(200, 1))
    points = np.vstack([X[:3] + 1e-7, X[3:5] + 1e-7, rng.uniform(size=(5, 2))])
    targets = np.vstack([y[:3], y[3:5] + 1.0, rng.normal(size=(5, 1))])
    assert np.flatnonzero(near_duplicates(X, y, points, targets)).tolist() == [0, 1, 2]
