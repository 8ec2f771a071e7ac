"""Residuals whitened by a stated covariance, beside plain formulas and known laws of chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.whitened import WhitenedResiduals
from coupledgp.diagnostics.verdicts.honesty import honesty
from coupledgp.diagnostics.verdicts.verdict import MATTERS

P = 80
SHARED = 0.05 * np.eye(P) + 0.95
NEAR = np.exp(-np.abs(np.arange(P)[:, None] - np.arange(P)) / 5.0)


@pytest.mark.parametrize("matrix", [SHARED, NEAR], ids=["shared", "near"])
def test_figures_by_plain_formulas(matrix: np.ndarray) -> None:
    z = np.random.default_rng(1).normal(size=P)
    found = WhitenedResiduals.of(z, matrix, None)
    square = z @ np.linalg.solve(matrix, z) / P
    assert found.rescaling == pytest.approx(np.sqrt(square))
    chance = stats.chi2(P)
    expected = 2 * min(chance.cdf(P * square), chance.sf(P * square))
    assert found.spread_p_value == pytest.approx(expected)
    joint = stats.multivariate_normal(np.zeros(P), square * matrix).logpdf(z)
    alone = stats.norm.logpdf(z, scale=np.sqrt(square)).sum()
    assert found.joint_gain == pytest.approx((joint - alone) / P)


@pytest.mark.parametrize("matrix", [SHARED, NEAR], ids=["shared", "near"])
def test_right_laws_have_uniform_p_values(matrix: np.ndarray) -> None:
    rng, root = np.random.default_rng(2), np.linalg.cholesky(matrix)
    laws = [WhitenedResiduals.of(root @ rng.normal(size=P), matrix, None) for _ in range(80)]
    for name in ("spread_p_value", "pit_p_value", "joint_p_value", "neighbour_p_value"):
        values = [getattr(one, name) for one in laws]
        assert stats.kstest(values, "uniform").pvalue > 1e-3, name
    assert sum(bool(one.fault(MATTERS)) for one in laws) <= 3


def test_small_deviations_do_not_hide_behind_stated_correlations() -> None:
    """Errors are independent, or go together as stated, and deviations are six tenths."""
    rng = np.random.default_rng(3)
    for matrix in (np.eye(P), SHARED):
        z = np.linalg.cholesky(matrix) @ rng.normal(size=P) / 0.6
        found = Calibration.of(z, np.zeros(P), np.ones(P), SHARED, whiten=True)
        assert honesty(found).colour == "red"


WEAK = np.exp(-np.abs(np.arange(P)[:, None] - np.arange(P)))


@pytest.mark.parametrize(("true", "stated", "strong"), [(WEAK, NEAR, True), (NEAR, WEAK, False)])
def test_correlations_too_strong_and_too_weak(
    true: np.ndarray, stated: np.ndarray, strong: bool
) -> None:
    z = np.linalg.cholesky(true) @ np.random.default_rng(4).normal(size=P)
    found = WhitenedResiduals.of(z, stated, None)
    assert (found.joint_gain < found.expected_gain) == strong
    assert found.joint_p_value < 0.05


@pytest.mark.parametrize("sign", [-1, 1])
def test_neighbours_go_together_either_way(sign: int) -> None:
    w = np.random.default_rng(5).normal(size=P)
    for place in range(1, P):
        w[place] = sign * 0.6 * w[place - 1] + 0.8 * w[place]
    weak = np.exp(-np.abs(np.arange(P)[:, None] - np.arange(P)) / 0.4)
    found = WhitenedResiduals.of(np.linalg.cholesky(weak) @ w, weak, None)
    assert np.sign(found.neighbour) == sign
    assert found.neighbour_p_value < 0.002


def test_what_was_fitted_to_few_rows_has_more_chance() -> None:
    z = 1.25 * np.random.default_rng(6).normal(size=P)
    known, fitted = (WhitenedResiduals.of(z, NEAR * 0 + np.eye(P), n) for n in (None, 20))
    assert fitted.spread_p_value > 3 * known.spread_p_value
