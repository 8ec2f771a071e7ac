"""Every threshold of the rules of verdicts: evidence just below it, and just above."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.figures import Accuracy, Figures
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.verdicts.adequacy import Cost, adequacy
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.honesty import honesty, is_serious
from coupledgp.diagnostics.verdicts.neighbour_residuals import clear_gap, shared_variances, widened
from coupledgp.diagnostics.verdicts.quality import quality
from coupledgp.diagnostics.verdicts.result import judged
from coupledgp.diagnostics.verdicts.variations import Variation
from tests.diagnostics.verdicts.test_rules import MEAN, Other, beside

# Just below and just above a threshold of one.
AROUND = (0.99, 1.01)
HONEST = Calibration.of(np.linspace(-1.9, 1.9, 60), np.zeros(60), np.ones(60))


def around(threshold: float) -> list[float]:
    return [threshold * factor for factor in AROUND]


def colours(evidence: list[Evidence], rmse: float = 0.5) -> list[str]:
    return [quality(one, rmse).colour for one in evidence]


class TestQuality:
    def test_a_baseline_is_better_beyond_two_and_a_half_errors(self) -> None:
        rivals = [beside("linear", gap, 0.02) for gap in around(0.05)]
        assert colours([Evidence((MEAN, one)) for one in rivals]) == ["green", "red"]

    def test_a_baseline_is_better_from_one_hundredth_of_a_nat_on(self) -> None:
        rivals = [beside("linear", gap, 1e-4) for gap in around(0.01)]
        assert colours([Evidence((MEAN, one)) for one in rivals]) == ["green", "red"]

    def test_a_baseline_has_a_smaller_error_from_one_per_cent_on(self) -> None:
        rival = beside("linear", -0.5, 0.01, rmse=0.4, squared=0.3)
        evidence = Evidence((MEAN, rival))
        assert [quality(evidence, rmse).colour for rmse in (0.4039, 0.4041)] == ["green", "red"]

    def test_squared_errors_differ_beyond_two_and_a_half_errors(self) -> None:
        rivals = [beside("linear", -0.5, 0.02, 0.4, squared) for squared in around(0.05)]
        assert colours([Evidence((MEAN, one)) for one in rivals]) == ["green", "red"]

    @pytest.mark.parametrize(
        ("gains", "error", "expected"),
        [
            (around(0.05), 0.02, ["green", "amber"]),  # two and a half errors
            (around(0.01), 1e-4, ["green", "amber"]),  # what matters
            (around(0.1), 0.01, ["amber", "red"]),  # what is serious
        ],
    )
    def test_another_model(self, gains: list[float], error: float, expected: list[str]) -> None:
        found = [Evidence((MEAN,), refits=(Other("one", gain, error),)) for gain in gains]
        assert colours(found) == expected  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("evidence", "gains", "error", "expected"),
        [
            ([5.99, 6.01], [0.05, 0.05], 0.01, ["green", "amber"]),
            ([7.0, 7.0], around(0.04), 0.02, ["green", "amber"]),  # two errors
            ([7.0, 7.0], around(0.01), 1e-4, ["green", "amber"]),
            ([7.0, 7.0], around(0.1), 0.01, ["amber", "red"]),
        ],
    )
    def test_a_nearby_kernel(
        self, evidence: list[float], gains: list[float], error: float, expected: list[str]
    ) -> None:
        found = [
            Evidence((MEAN,), variations=(Variation("one", "", nats, 100, gain, error),))
            for nats, gain in zip(evidence, gains, strict=True)
        ]
        assert colours(found) == expected

    def test_an_advantage_over_the_mean_is_told_beyond_two_errors(self) -> None:
        means = [beside("mean", -gap, 0.05) for gap in around(0.1)]
        assert colours([Evidence((one,)) for one in means]) == ["grey", "green"]

    def test_clearly_no_better_is_below_two_hundredths_with_two_errors(self) -> None:
        means = [beside("mean", 0.0, error) for error in around(0.01)]
        assert colours([Evidence((one,)) for one in means]) == ["amber", "grey"]
        means = [beside("mean", -gap, 0.006) for gap in around(0.008)]
        assert colours([Evidence((one,)) for one in means]) == ["amber", "grey"]

    def test_what_is_worse_than_the_model_is_no_better_than_it(self) -> None:
        assert colours([Evidence((MEAN, beside("linear", -9.0, 0.01)))]) == ["green"]
        assert colours([Evidence((MEAN, beside("linear", -9.0, 0.01, 0.4, -0.3)))]) == ["green"]

    def test_a_clear_gap_is_above_zero(self) -> None:
        found = [
            clear_gap({"mean": mean, "standard_error": 0.1}, 2.0) for mean in (-1.0, 0.19, 0.21)
        ]
        assert found == [False, False, True]
        assert not clear_gap({"mean": 1.0, "standard_error": None}, 2.0)


class TestHonesty:
    def found(self, **shares: float) -> Calibration:
        coverage = {0.5: 0.5, 0.8: 0.8, 0.95: 0.95}
        coverage |= {float(name.removeprefix("of_")) / 100: v for name, v in shares.items()}
        return replace(
            HONEST, coverage=coverage, coverage_p_value=0.001, pit_p_value=0.5, rescaling_gain=0.0
        )

    @pytest.mark.parametrize(
        ("name", "level", "lacking"),
        [("of_50", 0.5, 0.1), ("of_80", 0.8, 0.1), ("of_95", 0.95, 0.05)],
    )
    def test_shares_that_lack_too_much_are_red(
        self, name: str, level: float, lacking: float
    ) -> None:
        shares = [level - one for one in around(lacking)]
        found = [honesty(self.found(**{name: share})).colour for share in shares]
        assert found == ["amber", "red"]

    def test_shares_that_are_too_large_are_not(self) -> None:
        assert not is_serious(self.found(of_50=0.9, of_80=1.0, of_95=1.0))

    def test_a_tenth_of_a_nat_by_another_scale_is_red(self) -> None:
        found = [replace(self.found(), rescaling_gain=gain) for gain in around(0.1)]
        assert [honesty(one).colour for one in found] == ["amber", "red"]

    @pytest.mark.parametrize(
        ("name", "limit", "off"),
        [
            ("coverage_p_value", 0.001, "is_off"),
            ("spread_p_value", 0.003, "is_spread_off"),
            ("group_p_value", 0.001, "is_group_off"),
            ("pit_p_value", 0.001, "is_shape_off"),
        ],
    )
    def test_shares_of_honest_laws(self, name: str, limit: float, off: str) -> None:
        fair = replace(self.found(), coverage_p_value=0.5, group_p_value=0.5)
        found = [getattr(replace(fair, **{name: p}), off) for p in around(limit)]
        assert found == [True, False]

    @pytest.mark.parametrize(
        ("shift", "rescaling", "p_value", "expected"),
        [
            (0.299, 1.0, 0.001, False),
            (0.301, 1.0, 0.001, True),
            (-0.301, 1.0, 0.001, True),
            (0.301, 0.5, 0.001, True),
            (0.599, 2.0, 0.001, False),
            (0.601, 2.0, 0.001, True),
            (0.301, 1.0, 0.0011, False),
        ],
    )
    def test_shifts(self, shift: float, rescaling: float, p_value: float, expected: bool) -> None:
        found = replace(HONEST, shift=shift, rescaling=rescaling, shift_p_value=p_value)
        assert found.is_shifted is expected


class TestAdequacy:
    @pytest.mark.parametrize(
        ("kl", "errors", "expected"),
        [
            ((0.0099, 0.0101), (0.0, 0.0, 0.0), ["green", "amber"]),
            ((0.0049, 0.0051), (0.0, 0.005, 0.0), ["green", "amber"]),  # bound above
            ((0.0049, 0.0051), (0.005, 0.0, 0.0), ["green", "green"]),  # not the one below
            ((0.0039, 0.0041), (0.0, 0.0, 0.003), ["green", "amber"]),  # two errors
            ((0.099, 0.101), (0.0, 0.0, 0.0), ["amber", "red"]),
            ((0.149, 0.151), (0.05, 0.0, 0.0), ["amber", "red"]),  # bound below
            ((0.101, 0.102), (0.0, 0.05, 0.0), ["red", "red"]),
            ((0.159, 0.161), (0.0, 0.0, 0.03), ["amber", "red"]),
        ],
    )
    def test_the_divergence(
        self, kl: tuple[float, float], errors: Any, expected: list[str]
    ) -> None:
        assert [adequacy(one, errors, "", None).colour for one in kl] == expected

    @pytest.mark.parametrize(
        ("gaps", "error", "bound", "expected"),
        [
            (around(0.05), 0.02, 0.0, ["green", "amber"]),  # two and a half errors
            (around(0.01), 1e-4, 0.0, ["green", "amber"]),
            ([0.029, 0.031], 1e-4, 0.02, ["green", "amber"]),  # less its bound
            (around(0.1), 0.01, 0.0, ["amber", "red"]),
            ([0.119, 0.121], 0.01, 0.02, ["amber", "red"]),
        ],
    )
    def test_what_the_reference_gains(
        self, gaps: list[float], error: float, bound: float, expected: list[str]
    ) -> None:
        costs = [Cost({"mean": gap, "standard_error": error}, bound) for gap in gaps]
        assert [adequacy(0.001, (0.0, 0.0, 0.0), "", cost).colour for cost in costs] == expected

    def test_a_model_that_predicts_better_is_far_but_not_red(self) -> None:
        costs = [Cost({"mean": -gap, "standard_error": 0.02}) for gap in around(0.05)]
        found = [adequacy(0.5, (0.0, 0.0, 0.0), "", cost).colour for cost in costs]
        assert found == ["red", "amber"]

    def test_a_difference_is_told_beyond_two_errors(self) -> None:
        texts = [Cost({"mean": gap, "standard_error": 0.02}).text() for gap in around(0.04)]
        assert ["would not predict better" in text for text in texts] == [True, False]


def test_eight_points_are_judged() -> None:
    colour = {}
    for n_points in (7, 8):
        evidence = Evidence((MEAN,), n_points=n_points, n_judged=n_points)
        colour[n_points] = judged(Figures(n_points, 1, rmse=0.5), Accuracy("dense"), evidence)[0]
    assert (colour[7].colour, colour[8].colour) == ("grey", "green")


class TestSharedErrors:
    """Two points in closed form: `cov(d_1, d_2) = a_1 a_2 C^2 / 2 + c_1 c_2 C`."""

    def test_of_one_output(self) -> None:
        s, t = np.array([0.7, 1.3]), np.array([2.0, 1.9])
        m, b, r = np.array([0.4, -1.0]), np.array([1.0, 0.5]), 0.6
        C = r * s[0] * s[1]
        law = Law(m[:, None], np.array([[s[0] ** 2, C], [C, s[1] ** 2]])[..., None])
        correlation = np.array([[1.0, r], [r, 1.0]])[..., None]
        found = shared_variances(law, correlation, b[:, None], t[:, None])
        a, c = 1 / s**2 - 1 / t**2, (m - b) / t**2
        nlpd = 2 * (a[0] * a[1] * C**2 / 2 + c[0] * c[1] * C) / 4
        squared = 2 * 4 * (b - m)[0] * (b - m)[1] * C / 4
        assert found["nlpd"] == pytest.approx(max(nlpd, 0.0), rel=1e-12)
        assert found["squared_error"] == pytest.approx(max(squared, 0.0), rel=1e-12)
        assert min(found.values()) > 0

    def test_of_outputs(self) -> None:
        """Each with correlations of its own: one that shares nothing adds nothing."""
        alone, both = np.eye(3), np.full((3, 3), 0.5) + 0.5 * np.eye(3)
        law = Law(np.ones((3, 2)), np.stack([np.eye(3), both], axis=-1))
        rival = np.zeros((3, 2)), np.full((3, 2), 2.0)
        found = shared_variances(law, np.stack([alone, both], axis=-1), *rival)
        second = shared_variances(
            Law(np.ones((3, 1)), both[..., None]), both[..., None], rival[0][:, 1:], rival[1][:, 1:]
        )
        for name, value in second.items():
            assert found[name] == pytest.approx(value / 4, rel=1e-12)
            assert value > 0

    @pytest.mark.parametrize("gains", [False, True])
    def test_it_adds_to_the_variance_of_the_mean(self, gains: bool) -> None:
        both = (np.full((5, 5), 0.5) + 0.5 * np.eye(5))[..., None]
        law = Law(np.zeros((5, 1)), both)
        rival = BaselinePrediction("mean", np.ones(5), np.full(5, 1.5))
        y = np.arange(5.0) if gains else -np.ones(5)
        before = BesideBaseline.of(y, np.zeros(5), np.ones(5), rival)
        assert (before.gain > 0) == gains
        after = widened(before, law, both, rival)
        shared = shared_variances(law, both, np.ones((5, 1)), np.full((5, 1), 1.5))
        if gains:  # beside what the rival would lose if the model were true
            kl = np.log(1.5) + (1 + 1) / (2 * 1.5**2) - 0.5
            shared["nlpd"] *= (before.gain / (before.gain + kl)) ** 2
        for name, variance in shared.items():
            error = before.differences[name]["standard_error"]
            assert error is not None
            found = after.differences[name]["standard_error"]
            assert found == pytest.approx(np.sqrt(error**2 + variance), rel=1e-12)
