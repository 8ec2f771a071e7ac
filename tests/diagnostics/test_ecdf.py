"""Envelopes of empirical distributions: their level by simulation, and by counting all paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.ecdf import (
    EcdfEnvelope,
    chance_inside,
    counts_below,
    envelope,
    envelope_of_draws,
)


def test_the_chance_inside_is_that_of_all_assignments() -> None:
    """Four values fall into three parts of the interval, each in one of 81 ways."""
    places = np.array([0.2, 0.7])
    widths = np.diff([0.0, 0.2, 0.7, 1.0])
    low, high = np.array([0, 2]), np.array([2, 3])
    total = 0.0
    for way in itertools.product(range(3), repeat=4):
        counts = np.cumsum(np.bincount(way, minlength=3))[:2]
        if (counts >= low).all() and (counts <= high).all():
            total += float(np.prod(widths[list(way)]))
    assert chance_inside(4, places, low, high) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(("n", "level"), [(15, 0.95), (60, 0.9), (400, 0.99)])
def test_uniform_values_stay_within_with_the_level(n: int, level: float) -> None:
    rng = np.random.default_rng(0)
    inside = [EcdfEnvelope.of(rng.uniform(size=n), level=level).is_inside for _ in range(1500)]
    error = np.sqrt(level * (1 - level) / 1500)
    places = np.arange(1, min(50, n) + 1) / (min(50, n) + 1)
    exact = chance_inside(n, places, *envelope(n, places.size, level))
    assert level <= exact < level + 0.02
    assert abs(np.mean(inside) - exact) < 4 * error
    drawn = counts_below(rng.uniform(size=(4000, n)), places)
    low, high = envelope_of_draws(drawn[:2000], level)
    share = ((drawn[2000:] >= low) & (drawn[2000:] <= high)).all(axis=1).mean()
    assert share > level - 4 * np.sqrt(level * (1 - level) / 1000)


def test_values_that_go_together_have_a_wider_envelope() -> None:
    rng = np.random.default_rng(1)
    alone, shared = rng.normal(size=(1000, 80)), rng.normal(size=(1000, 1))
    draws = norm.cdf(np.sqrt(0.5) * (alone + shared))
    together = EcdfEnvelope.of(draws[0], draws)
    single = EcdfEnvelope.of(draws[0])
    width = np.subtract(together.high, together.low) / np.subtract(single.high, single.low)
    assert width.mean() > 2


def test_what_leaves_the_envelope_is_named() -> None:
    n = 200
    narrow = norm.cdf(1.6 * norm.ppf((np.arange(n) + 0.5) / n))
    found = EcdfEnvelope.of(narrow)
    assert not found.is_inside
    assert "leaves its 95 % envelope" in found.text
    assert "everywhere" in EcdfEnvelope.of((np.arange(n) + 0.5) / n).text


def test_a_calibration_has_the_envelope_of_its_joint_law() -> None:
    rng = np.random.default_rng(2)
    std = np.full(150, 0.5)
    right = Calibration.of(0.5 * rng.normal(size=150), np.zeros(150), std)
    assert right.ecdf is not None
    assert right.ecdf.is_inside
    wrong = Calibration.of(0.9 * rng.normal(size=150), np.zeros(150), std)
    assert wrong.ecdf is not None
    assert not wrong.ecdf.is_inside
    shared = np.full((150, 150), 0.6) + 0.4 * np.eye(150)
    joint = Calibration.of(0.5 * rng.normal(size=150), np.zeros(150), std, shared)
    assert joint.ecdf is not None
    assert np.mean(joint.ecdf.high) > np.mean(right.ecdf.high)
