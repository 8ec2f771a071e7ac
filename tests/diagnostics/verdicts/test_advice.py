"""Advice, closer draws, groups and ranks by hand, on either side of every limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.studies.pairs import Draw, StudyRow, all_pairs
from coupledgp.diagnostics.verdicts.adequacy import Cost
from coupledgp.diagnostics.verdicts.advising import ENOUGH, advise
from coupledgp.diagnostics.verdicts.closing import Closing, closest
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.gathering import correlations, is_certain, thirds, usual_groups
from coupledgp.diagnostics.verdicts.variations import Variation
from tests.diagnostics.verdicts.test_rules import MEAN, Other, beside

HONEST = Calibration.of(np.linspace(-1.9, 1.9, 60), np.zeros(60), np.ones(60))
RNG = np.random.default_rng(6)


def gains(evidence: Evidence, rmse: float = 0.5, nlpd: float = 1.0) -> list[float]:
    return [one.gain for one in advise(evidence, rmse, nlpd)]


class TestAdvice:
    def test_the_greatest_gain_is_first(self) -> None:
        others = tuple(Other(name, gain, 0.01) for name, gain in (("a", 0.1), ("b", 0.4)))
        evidence = Evidence((MEAN, beside("nearest", 0.2, 0.01)), refits=others)  # type: ignore[arg-type]
        assert gains(evidence) == pytest.approx([0.4, 0.2, 0.1])

    @pytest.mark.parametrize(("fault", "alone"), [(0.99, True), (1.01, False)])
    def test_a_cure_stands_alone_if_it_gains_as_much_as_every_fault(
        self, fault: float, alone: bool
    ) -> None:
        """The same for both signs: one of them may be small."""
        better = Variation("more noise", "", 9.0, 100, 0.2, 0.01)
        nearest = beside("nearest", 0.2 * ENOUGH * fault, 0.001)
        cost = Cost({"mean": 0.05, "standard_error": 0.001})
        found = gains(Evidence((MEAN, nearest), variations=(better,), cost=cost))
        expected = [0.2] if alone else [0.2 * ENOUGH * fault, 0.2, 0.05]
        assert found == pytest.approx(expected)

    def test_a_shift_costs_half_its_square(self) -> None:
        shifted = replace(HONEST, shift=0.6, shift_p_value=0.001)
        assert gains(Evidence((MEAN,), shifted)) == pytest.approx([0.18])

    def test_a_larger_error_costs_the_logarithm_of_the_ratio(self) -> None:
        nearest = beside("nearest", -0.5, 0.01, rmse=0.4, squared=0.3)
        assert gains(Evidence((MEAN, nearest))) == pytest.approx([np.log(0.5 / 0.4)])

    @pytest.mark.parametrize(("nlpd", "expected"), [(0.9, [0.1]), (1.1, [])])
    def test_a_closer_draw_that_predicts_no_better_is_no_advice(
        self, nlpd: float, expected: list[float]
    ) -> None:
        evidence = Evidence((MEAN,), closings=(Closing("n=8", "2", 0.01, nlpd),))
        assert gains(evidence) == pytest.approx(expected)

    @pytest.mark.parametrize(("gain", "there"), [(0.0099, False), (0.0101, True)])
    def test_a_scale_that_gains_little_is_no_advice(self, gain: float, there: bool) -> None:
        off = replace(HONEST, coverage_p_value=0.001, rescaling_gain=gain)
        assert bool(gains(Evidence((MEAN,), off))) is there

    def test_of_better_kernels_the_best_is_advised(self) -> None:
        found = tuple(Variation(str(gain), "", 9.0, 100, gain, 0.01) for gain in (0.1, 0.3, 0.2))
        (advice,) = advise(Evidence((MEAN,), variations=found), 0.5, 1.0)
        assert advice.gain == 0.3


def test_closer_draws_are_told_beyond_a_tenth() -> None:
    draws = tuple(Closing(f"n={k}", "2", kl, None) for k, kl in ((4, 0.0895), (8, 0.05)))
    assert closest(draws, 0.1) == "; with n=8 the KL is 0.05"
    assert closest(draws[:1], 0.1) == "; with n=4 the KL is 0.089"
    assert closest((replace(draws[0], kl_per_point=0.091),), 0.1) == ""


class TestGroups:
    def test_thirds(self) -> None:
        names, counts = np.unique(thirds(RNG.permutation(90.0 * np.arange(90))), return_counts=True)
        assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
            "in the largest third": 30, "in the least third": 30, "in the middle": 30
        }  # fmt: skip

    @pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
    def test_units_change_no_group(self, unit: float) -> None:
        mean, std = np.linspace(1, 3, 30)[:, None], np.full((30, 1), 2.0)
        std[::2] *= 1.04  # a spread of four per cent is none
        found = usual_groups(unit * mean, unit * std)
        assert list(found) == ["its mean"]
        std[::2] *= 1.04
        assert len(usual_groups(unit * mean, unit * std)) == 2
        sure = BaselinePrediction("mean", unit * np.ones(4), unit * np.full(4, 1e-9))
        assert is_certain(sure)
        assert not is_certain(replace(sure, std=unit * np.full(4, 1e-7)))

    def test_correlations(self) -> None:
        root = RNG.normal(size=(2, 4, 4))
        cov = root @ root.transpose(0, 2, 1)
        found = correlations(np.moveaxis(cov, 0, 2))
        for k in range(2):
            std = np.sqrt(cov[k].diagonal())
            np.testing.assert_allclose(found[..., k], cov[k] / np.outer(std, std), rtol=1e-12)


def test_the_error_of_a_ratio_is_that_of_its_linearisation() -> None:
    """`(a - r b) / mean(b)`: zero where a is a multiple of b."""
    values = RNG.uniform(1, 2, 8)
    rows = [
        StudyRow.of(name, 8, [Draw(k, float(kl)) for k, kl in enumerate(draws)])
        for name, draws in (("a", 3 * values), ("b", values), ("c", RNG.uniform(1, 2, 8)))
    ]
    first, second, _ = all_pairs(rows, "kl_per_point")
    assert first.ratio == pytest.approx(3.0)
    assert first.ratio_standard_error == pytest.approx(0.0, abs=1e-12)
    a, c = 3 * values, np.array([draw.kl_per_point for draw in rows[2].draws])
    expected = stats.sem(a - a.mean() / c.mean() * c) / c.mean()
    assert second.ratio_standard_error == pytest.approx(expected)
