"""Chances that somebody states are judged as they are stated, and their scale by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

import coupledgp as cgp
from coupledgp.diagnostics.likelihoods.class_laws import ClassLaws
from coupledgp.diagnostics.likelihoods.reliability import Reliability


def case(seed: int, factor: float) -> Reliability:
    rng = np.random.default_rng(seed)
    logits = 1.6 * rng.normal(size=250)
    labels = (rng.uniform(size=250) < expit(logits)).astype(int)
    p = expit(factor * logits)
    laws = ClassLaws.of(np.column_stack([1 - p, p]), np.array([0, 1]), 250)
    return Reliability.of(laws, labels, laws.drawn(1000, rng))


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
    assert found.slope_p_value == pytest.approx(rank, abs=0.05)


def _z(seed: int, p: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    labels = np.random.default_rng([seed, 1]).uniform(size=p.size) < p
    return float(((labels - p) * x).sum() / np.sqrt((w * x * x).sum()))


def test_half_logits_are_found_and_right_ones_are_not() -> None:
    assert sum(case(seed, 1.0).is_off for seed in range(60)) <= 2
    half = [case(seed, 0.5) for seed in range(40)]
    assert sum(one.is_off for one in half) >= 24
    assert sum(one.recalibration_p_value <= 0.003 for one in half) < sum(one.is_off for one in half)


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
