"""Calibration by hand, envelopes by counting paths, whitened residuals by plain formulas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from coupledgp.diagnostics import Normal, Predictions, Quantiles
from coupledgp.diagnostics.calibration import coverage as module
from coupledgp.diagnostics.calibration.coverage import (
    Calibration,
    calibration_of,
    chance_inside,
    counts_below,
    envelope,
    envelope_of_draws,
    envelope_table,
)
from coupledgp.diagnostics.calibration.whitened import Whitened

LEVELS = (0.5, 0.8, 0.95)
HALVES = dict(zip(LEVELS, stats.norm.ppf([0.75, 0.9, 0.975]), strict=True))


def standard(
    z: np.ndarray, groups: dict[str, Any] | None = None, std: float = 1.0, **roles: Any
) -> Calibration:
    law = Normal(np.zeros((z.size, 1)), np.full((z.size, 1), std))
    return calibration_of(Predictions(law, z[:, None], **roles), groups)


def test_draws_have_the_correlations_of_each_output() -> None:
    """Correlated with the first point only, which tells a root from its transpose."""
    first = np.eye(4)
    first[0, 1:] = first[1:, 0] = 0.55
    second = np.eye(4)
    second[2, 3] = second[3, 2] = -0.9
    draws = module.drawn((4, 2), np.stack([first, second], axis=-1), None).reshape(-1, 4, 2)
    for k, expected in enumerate((first, second)):
        found = np.cov(draws[:, :, k].T)
        np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(2 / len(draws)))
    assert np.abs(np.corrcoef(draws[:, 0].T)[0, 1]) < 0.12, "outputs are independent"


def test_a_scale_that_was_fitted_is_known_up_to_an_error() -> None:
    """Of n rows the relative error `(2 n)^-1/2`, shared by all points of an output."""
    draws = module.drawn((400, 1), None, 8)
    scales = np.log(np.sqrt(np.square(draws).mean(axis=1)))
    # The root mean square of 400 deviates is one to 3.5 per cent.
    expected = np.sqrt(1 / 16 + 1 / 800)
    assert scales.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * len(draws)))


def test_groups_are_of_eight_points_and_not_of_all() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=40)
    z[:8] = 5.0  # none of eight in its intervals
    labels = np.repeat(["far", "near"], [8, 32])
    found = standard(z, {"where": labels}).worst
    assert found is not None
    assert (found.group, found.n, found.share) == ("far", 8, 0.0)
    z[7] = 0.0
    small = np.repeat(["far", "near"], [7, 33])
    found = standard(z, {"where": small}).worst
    assert found is not None
    assert found.group == "near"
    assert standard(z, {"all": np.zeros(40)}).worst is None


def test_the_worst_group_may_hold_too_many() -> None:
    """All of a group in its 50 % intervals, where another holds one too few."""
    near = np.linspace(-0.6, 0.6, 60)
    usual = stats.norm.ppf((np.arange(60) + 0.5) / 60)
    usual[0] = -9.0
    labels = np.repeat(["near", "usual"], 60)
    found = standard(np.concatenate([near, usual]), {"where": labels}).worst
    assert found is not None
    assert (found.group, found.level, found.share) == ("near", 0.5, 1.0)
    assert found.off == pytest.approx(0.5 / found.error)


def test_a_share_that_never_varies_is_not_certain() -> None:
    """Half a target is the least error of a share: here draws never leave the wide intervals."""
    rows, inside = np.arange(10), np.ones((3, module.N_DRAWS, 20), dtype=bool)
    own = np.ones((3, 20), dtype=bool)
    _, worst, _ = module._groups(own, inside, [("where", "here", rows)], LEVELS)
    assert worst is not None
    assert worst.error == pytest.approx(0.5 / 10)
    assert (worst.level, worst.off) == (0.5, pytest.approx(0.5 / 0.05))


@pytest.mark.parametrize(
    ("value", "draws", "share"),
    [(2.0, [1.0, 2.0, 3.0], 3 / 4), (4.0, [1.0, 2.0, 3.0], 1 / 4), (0.0, [1.0, 2.0], 1.0)],
)
def test_shares_of_draws_that_are_as_far(value: float, draws: list[float], share: float) -> None:
    assert module._share_beyond(value, np.array(draws)) == share


def test_how_far_shares_are_off_is_that_of_the_worst_level() -> None:
    shares = np.array([[0.5, 0.6], [0.8, 0.8], [0.85, 0.95]])
    found = module._furthest(shares, np.array([0.1, 0.1, 0.02]), LEVELS)
    np.testing.assert_allclose(found, [5.0, 1.0])


@pytest.mark.parametrize("side", [-1, 1])
def test_a_shift_to_either_side(side: int) -> None:
    z = side * (1.0 + 0.5 * np.random.default_rng(2).normal(size=50))
    found = standard(z)
    assert found.shift == pytest.approx(z.mean())
    assert found.shift_p == pytest.approx(1 / (1 + module.N_DRAWS))
    ratio = module._one_sided(np.array([[1.0, -3.0], [2.0, 2.0], [0.0, 0.0]]))
    np.testing.assert_allclose(ratio, [1 / np.sqrt(5), 1.0, 0.0])


@pytest.mark.parametrize("factor", [0.3, 0.9, 2.0])
def test_another_scale_gains_what_the_density_says(factor: float) -> None:
    z = factor * np.random.default_rng(3).normal(size=80)
    found, s = standard(z), np.sqrt(np.mean(z**2))
    before = -stats.norm.logpdf(z).mean()
    assert found.rescaling == pytest.approx(s)
    assert found.rescaling_gain == pytest.approx(before + stats.norm.logpdf(z, scale=s).mean())


@pytest.mark.parametrize("shift", [-0.4, 0.4])
def test_the_distance_of_transforms_is_that_of_kolmogorov(shift: float) -> None:
    z = np.random.default_rng(4).normal(size=30) + shift
    assert standard(z).pit_distance == pytest.approx(stats.kstest(z, "norm").statistic, rel=1e-12)


def test_coverage_and_its_chance() -> None:
    z = np.random.default_rng(5).normal(size=200)
    found = standard(z)
    for level, share, error in zip(LEVELS, found.shares, found.errors, strict=True):
        assert share == np.mean(np.abs(z) <= HALVES[level])
        assert error == pytest.approx(np.sqrt(level * (1 - level) / 200), rel=0.08)
    off = np.subtract(found.shares, LEVELS) / np.array(found.errors)
    np.testing.assert_allclose(found.off, off)


def test_intervals_of_other_levels() -> None:
    y = np.random.default_rng(6).normal(size=(400, 1))
    law = Quantiles(np.array([0.1, 0.9]), np.tile(stats.norm.ppf([0.1, 0.9]), (400, 1, 1)))
    found = calibration_of(Predictions(law, y))
    assert found.levels == (0.8,)
    assert found.shares == (pytest.approx((np.abs(y) <= stats.norm.ppf(0.9)).mean()),)


def test_errors_that_go_together_in_clusters_are_no_fault() -> None:
    """Twelve sensors of forty readings, whose errors share half of their variance."""
    rng, sensor = np.random.default_rng(7), np.repeat(np.arange(12), 40)
    cluster, alone, together = pd.DataFrame({"sensor": sensor}), 0, 0
    for _ in range(40):
        z = np.sqrt(0.5) * (rng.normal(size=480) + rng.normal(size=12)[sensor])
        found = [standard(z), standard(z, cluster=cluster)]
        alone, together = (
            n + (one.coverage_p <= 0.001 or one.spread_p <= 0.003 or one.shift_p <= 0.001)
            for n, one in zip((alone, together), found, strict=True)
        )
    assert alone > 10
    assert together <= 1


def is_inside(pit: pd.DataFrame) -> bool:
    return bool(((pit.share >= pit.low - 1e-9) & (pit.share <= pit.high + 1e-9)).all())


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
    inside = [is_inside(envelope_table(rng.uniform(size=n), level=level)) for _ in range(1500)]
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
    draws = stats.norm.cdf(np.sqrt(0.5) * (alone + shared))
    together = envelope_table(draws[0], draws)
    single = envelope_table(draws[0])
    width = (together.high - together.low) / (single.high - single.low)
    assert width.mean() > 2


def test_a_calibration_has_the_envelope_of_its_joint_law() -> None:
    rng = np.random.default_rng(2)
    right = standard(0.5 * rng.normal(size=150), std=0.5)
    assert is_inside(right.pit)
    assert not is_inside(standard(0.9 * rng.normal(size=150), std=0.5).pit)
    shared = (np.full((150, 150), 0.6) + 0.4 * np.eye(150))[..., None]
    joint = standard(0.5 * rng.normal(size=150), std=0.5, correlation=shared)
    assert joint.pit.high.mean() > right.pit.high.mean()


P = 80
SHARED = 0.05 * np.eye(P) + 0.95
NEAR = np.exp(-np.abs(np.arange(P)[:, None] - np.arange(P)) / 5.0)


@pytest.mark.parametrize("matrix", [SHARED, NEAR], ids=["shared", "near"])
def test_figures_by_plain_formulas(matrix: np.ndarray) -> None:
    z = np.random.default_rng(1).normal(size=P)
    found = Whitened.of(z, matrix, None)
    square = z @ np.linalg.solve(matrix, z) / P
    assert found.rescaling == pytest.approx(np.sqrt(square))
    chance = stats.chi2(P)
    expected = 2 * min(chance.cdf(P * square), chance.sf(P * square))
    assert found.spread_p == pytest.approx(expected)
    joint = stats.multivariate_normal(np.zeros(P), square * matrix).logpdf(z)
    alone = stats.norm.logpdf(z, scale=np.sqrt(square)).sum()
    assert found.joint_gain == pytest.approx((joint - alone) / P)


@pytest.mark.parametrize("matrix", [SHARED, NEAR], ids=["shared", "near"])
def test_right_laws_have_uniform_ps(matrix: np.ndarray) -> None:
    rng, root = np.random.default_rng(2), np.linalg.cholesky(matrix)
    laws = [Whitened.of(root @ rng.normal(size=P), matrix, None) for _ in range(80)]
    for name in ("spread_p", "pit_p", "joint_p", "neighbour_p"):
        values = [getattr(one, name) for one in laws]
        assert stats.kstest(values, "uniform").pvalue > 1e-3, name


def test_small_deviations_do_not_hide_behind_stated_correlations() -> None:
    """Errors are independent, or go together as stated, and deviations are six tenths."""
    rng = np.random.default_rng(3)
    for matrix in (np.eye(P), SHARED):
        z = np.linalg.cholesky(matrix) @ rng.normal(size=P) / 0.6
        found = Whitened.of(z, SHARED, None)
        assert found.spread_p <= 0.003
        assert found.rescaling_gain > 0.1


WEAK = np.exp(-np.abs(np.arange(P)[:, None] - np.arange(P)))


@pytest.mark.parametrize(("true", "stated", "strong"), [(WEAK, NEAR, True), (NEAR, WEAK, False)])
def test_correlations_too_strong_and_too_weak(
    true: np.ndarray, stated: np.ndarray, strong: bool
) -> None:
    z = np.linalg.cholesky(true) @ np.random.default_rng(4).normal(size=P)
    found = Whitened.of(z, stated, None)
    assert (found.joint_gain < found.expected_gain) == strong
    assert found.joint_p < 0.05


@pytest.mark.parametrize("sign", [-1, 1])
def test_neighbours_go_together_either_way(sign: int) -> None:
    w = np.random.default_rng(5).normal(size=P)
    for place in range(1, P):
        w[place] = sign * 0.6 * w[place - 1] + 0.8 * w[place]
    weak = np.exp(-np.abs(np.arange(P)[:, None] - np.arange(P)) / 0.4)
    found = Whitened.of(np.linalg.cholesky(weak) @ w, weak, None)
    assert np.sign(found.neighbour) == sign
    assert found.neighbour_p < 0.002


def test_what_was_fitted_to_few_rows_has_more_chance() -> None:
    z = 1.25 * np.random.default_rng(6).normal(size=P)
    known, fitted = (Whitened.of(z, NEAR * 0 + np.eye(P), n) for n in (None, 20))
    assert fitted.spread_p > 3 * known.spread_p
