"""Calibration and residuals of neighbours by hand: figures in closed form or by plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from coupledgp.diagnostics.scoring import calibration as module
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation,
    nearest,
    residual_correlation_of,
)

LEVELS = (0.5, 0.8, 0.95)
HALVES = dict(zip(LEVELS, stats.norm.ppf([0.75, 0.9, 0.975]), strict=True))


def standard(z: np.ndarray, **options: object) -> Calibration:
    return Calibration.of(z, np.zeros_like(z), np.ones_like(z), **options)  # type: ignore[arg-type]


def test_draws_have_the_correlations_of_each_output() -> None:
    """Correlated with the first point only, which tells a root from its transpose."""
    first = np.eye(4)
    first[0, 1:] = first[1:, 0] = 0.55
    second = np.eye(4)
    second[2, 3] = second[3, 2] = -0.9
    draws = module._draws((4, 2), np.stack([first, second], axis=-1), None).reshape(-1, 4, 2)
    for k, expected in enumerate((first, second)):
        found = np.cov(draws[:, :, k].T)
        np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(2 / len(draws)))
    assert np.abs(np.corrcoef(draws[:, 0].T)[0, 1]) < 0.12, "outputs are independent"


def test_a_scale_that_was_fitted_is_known_up_to_an_error() -> None:
    """Of n rows the relative error `(2 n)^-1/2`, shared by all points of an output."""
    draws = module._draws((400, 1), None, 8)
    scales = np.log(np.sqrt(np.square(draws).mean(axis=1)))
    # The root mean square of 400 deviates is one to 3.5 per cent.
    expected = np.sqrt(1 / 16 + 1 / 800)
    assert scales.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * len(draws)))


def test_groups_are_of_eight_points_and_not_of_all() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=40)
    z[:8] = 5.0  # none of eight in its intervals
    labels = np.repeat(["far", "near"], [8, 32])
    found = standard(z, groups={"where": labels}).worst_group
    assert found is not None
    assert (found.name, found.n_points, found.share) == ("far", 8, 0.0)
    z[7] = 0.0
    small = np.repeat(["far", "near"], [7, 33])
    found = standard(z, groups={"where": small}).worst_group
    assert found is not None
    assert found.name == "near"
    assert standard(z, groups={"all": np.zeros(40)}).worst_group is None


def test_the_worst_group_may_hold_too_many() -> None:
    """All of a group in its 50 % intervals, where another holds one too few."""
    near = np.linspace(-0.6, 0.6, 60)
    usual = stats.norm.ppf((np.arange(60) + 0.5) / 60)
    usual[0] = -9.0
    labels = np.repeat(["near", "usual"], 60)
    found = standard(np.concatenate([near, usual]), groups={"where": labels}).worst_group
    assert found is not None
    assert (found.name, found.level, found.share) == ("near", 0.5, 1.0)
    assert found.off == pytest.approx(0.5 / found.standard_error)


def test_a_share_that_never_varies_is_not_certain() -> None:
    """Half a target is the least error of a share: here draws never leave the wide intervals."""
    rows, inside = np.arange(10), np.ones((3, module.N_DRAWS, 20), dtype=bool)
    own = np.ones((3, 20), dtype=bool)
    worst, _ = module._worst_group(own, inside, [("where", "here", rows)])
    assert worst is not None
    assert worst.standard_error == pytest.approx(0.5 / 10)
    assert (worst.level, worst.off) == (0.5, pytest.approx(0.5 / 0.05))


@pytest.mark.parametrize(
    ("value", "draws", "share"),
    [(2.0, [1.0, 2.0, 3.0], 3 / 4), (4.0, [1.0, 2.0, 3.0], 1 / 4), (0.0, [1.0, 2.0], 1.0)],
)
def test_shares_of_draws_that_are_as_far(value: float, draws: list[float], share: float) -> None:
    assert module._share_beyond(value, np.array(draws)) == share


def test_how_far_shares_are_off_is_that_of_the_worst_level() -> None:
    shares = np.array([[0.5, 0.6], [0.8, 0.8], [0.85, 0.95]])
    found = module._off(shares, np.array([0.1, 0.1, 0.02]))
    np.testing.assert_allclose(found, [5.0, 1.0])


@pytest.mark.parametrize("side", [-1, 1])
def test_a_shift_to_either_side(side: int) -> None:
    z = side * (1.0 + 0.5 * np.random.default_rng(2).normal(size=50))
    found = standard(z)
    assert found.shift == pytest.approx(z.mean())
    assert found.is_shifted
    assert found.shift_p_value == pytest.approx(1 / (1 + module.N_DRAWS))
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
    for level, half in HALVES.items():
        assert found.coverage[level] == np.mean(np.abs(z) <= half)
        binomial = np.sqrt(level * (1 - level) / 200)
        assert found.binomial_error[level] == pytest.approx(binomial)
        assert found.standard_error[level] == pytest.approx(binomial, rel=0.08)
        assert found.off(level) == pytest.approx(
            (found.coverage[level] - level) / found.standard_error[level]
        )
    assert found.worst_level == max(LEVELS, key=lambda level: abs(found.off(level)))


class TestNeighbours:
    def test_the_nearest_has_the_largest_correlation(self) -> None:
        """Not the largest covariance, which the third point's variance gives to it."""
        prior = np.array([[1.0, 0.9, 2.0], [0.9, 1.0, 1.0], [2.0, 1.0, 25.0]])
        law = Law(np.zeros((3, 1)), np.eye(3)[..., None], prior[..., None])
        np.testing.assert_array_equal(nearest(law), [1, 0, 0])

    def test_a_correlation_beyond_all_draws(self) -> None:
        law = Law(np.zeros((20, 1)), np.eye(20)[..., None])
        near = np.arange(20) ^ 1
        pairs = np.repeat(np.where(np.arange(10) % 2, 1.0, -2.0), 2)
        found = residual_correlation_of(law, pairs[:, None], near, n_draws=500)
        assert found.value == 1.0
        assert found.p_value == pytest.approx(1 / 501)
        against = residual_correlation_of(law, (pairs * (-1) ** np.arange(20))[:, None], near, 500)
        assert (against.value, against.p_value) == (-1.0, 1.0)

    def test_what_it_gains_and_when_it_is_one(self) -> None:
        found = ResidualCorrelation(0.5, 0.1, 0.05, 0.003)
        assert found.gain == pytest.approx(-0.5 * np.log(1 - 0.16))
        assert found.is_misfit
        assert not replace(found, p_value=0.0031).is_misfit
        # A hundredth of a nat: -log(1 - r^2) / 2 = .01.
        least = np.sqrt(1 - np.exp(-0.02))
        assert not replace(found, value=0.1 + 0.99 * least).is_misfit
        assert replace(found, value=0.1 + 1.01 * least).is_misfit
        assert replace(found, value=-0.9).gain == 0.0
