"""Rules of the verdicts on evidence made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.figures import Accuracy, Figures
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.verdicts.adequacy import Cost, adequacy
from coupledgp.diagnostics.verdicts.advising import advise
from coupledgp.diagnostics.verdicts.closing import Closing, closest
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.gathering import gather
from coupledgp.diagnostics.verdicts.honesty import honesty
from coupledgp.diagnostics.verdicts.neighbour_residuals import ResidualCorrelation
from coupledgp.diagnostics.verdicts.quality import linear_badge, quality
from coupledgp.diagnostics.verdicts.result import advised, judged
from coupledgp.diagnostics.verdicts.variations import Variation
from coupledgp.diagnostics.verdicts.verdict import Advice, Verdict


def beside(
    name: str, nlpd: float, error: float | None = 0.01, rmse: float = 1.0, squared: float = -1.0
) -> BesideBaseline:
    """A baseline whose NLPD is smaller than the model's by `nlpd`."""
    gaps = {"nlpd": nlpd, "squared_error": squared}
    return BesideBaseline(
        name, rmse, 0.0, {key: {"mean": gap, "standard_error": error} for key, gap in gaps.items()}
    )


@dataclass(frozen=True)
class Other:
    """Another model that was fitted."""

    name: str
    gain: float
    standard_error: float
    action: str = "Do it."
    rmse: float = 0.4


MEAN = beside("mean", -1.0)


class TestQuality:
    @pytest.mark.parametrize(
        ("baselines", "colour", "said"),
        [
            ([MEAN], "green", "better than every simple baseline"),
            ([MEAN, beside("linear", -0.005)], "green", "a linear model does as well as it"),
            ([MEAN, beside("linear", 0.02)], "green", "a linear model does as well as it"),
            ([MEAN, beside("linear", 0.03)], "red", "A linear model predicts better than this"),
            ([MEAN, beside("linear", 0.009, 1e-4)], "green", "a linear model does as well"),
            ([MEAN, beside("boosted trees", 0.09)], "amber", "predicts better: boosted trees"),
            ([MEAN, beside("additive kernel", 0.11)], "red", "Another kind of model"),
            ([MEAN, beside("boosted trees", 0.2, 0.09)], "green", "boosted trees does as well"),
            ([beside("mean", -0.001, 0.005)], "amber", "no better than the mean"),
            ([beside("mean", -0.02, 0.05)], "grey", "do not tell whether it predicts better"),
            ([beside("mean", -1.0, None)], "grey", "One point"),
            ([], "grey", "no baseline"),
        ],
    )
    def test_beside_baselines(
        self, baselines: list[BesideBaseline], colour: str, said: str
    ) -> None:
        found = quality(Evidence(tuple(baselines)), 0.5)
        assert (found.colour, said in found.sentence) == (colour, True), found

    @pytest.mark.parametrize(
        ("linear", "colour", "said"),
        [
            (beside("linear", -0.5), "green", "Yes: RMSE 0.4, the linear one's "),
            (beside("linear", -0.005), "amber", "No, a linear model does as well"),
            (beside("linear", 0.2), "red", "No, a linear model is better"),
        ],
    )
    def test_the_badge_of_a_linear_model(
        self, linear: BesideBaseline, colour: str, said: str
    ) -> None:
        found = linear_badge(Evidence((MEAN, linear)), 0.4)
        assert found is not None
        assert (found.colour, found.question) == (colour, "Better than a linear model?")
        assert found.sentence.startswith(said)
        assert "nats" not in found.sentence
        verb = "gains" if linear.gain <= 0 else "loses"
        assert f"It {verb} {abs(linear.gain):.3g}" in found.detail
        assert linear_badge(Evidence((MEAN,)), 0.4) is None

    def test_sentences_are_in_the_unit_of_the_reader(self) -> None:
        """Nats stand in the detail, which pages fold."""
        for one in (
            (MEAN, beside("linear", -0.5)), (MEAN, beside("linear", 0.03)),
            (MEAN, beside("boosted trees", 0.2)), (beside("mean", -0.001, 0.005),),
        ):  # fmt: skip
            found = quality(Evidence(one), 0.5)
            assert "nats" not in found.sentence
            assert "nats per point" in found.detail
            assert found.text() == f"{found.sentence} {found.detail}"

    def test_a_larger_rmse_than_a_baseline_is_red_whatever_the_density(self) -> None:
        nearest = beside("nearest", -0.5, 0.1, rmse=0.4, squared=0.3)
        found = quality(Evidence((MEAN, nearest)), 0.5)
        assert found.colour == "red"
        assert found.sentence.startswith("The nearest observation predicts better")
        assert "RMSE 0.5 against 0.4" in found.sentence
        assert quality(Evidence((MEAN, nearest)), 0.403).colour == "green"

    @pytest.mark.parametrize(
        ("gain", "error", "colour"),
        [(0.05, 0.01, "amber"), (0.2, 0.01, "red"), (0.05, 0.021, "green"), (0.005, 1e-4, "green")],
    )
    def test_other_models(self, gain: float, error: float, colour: str) -> None:
        others = (Other("a local GP", gain, error), Other("boosting", -1.0, 0.1))
        evidence = Evidence((MEAN,), refits=others)
        assert quality(evidence, 0.5).colour == colour
        if colour != "green":
            assert "a local GP" in quality(evidence, 0.5).sentence
            assert [one.action for one in advise(evidence, 0.5, 0.0)] == ["Do it."]

    @pytest.mark.parametrize(
        ("variation", "colour"),
        [
            (Variation("half the lengthscales", "", 7.0, 100, 0.05, 0.01), "amber"),
            (Variation("half the lengthscales", "", 7.0, 100, 0.5, 0.01), "red"),
            (Variation("half the lengthscales", "", 5.0, 100, 0.05, 0.01), "green"),
            (Variation("half the lengthscales", "", 7.0, 100, 0.05, 0.04), "green"),
            (Variation("half the lengthscales", "", 7.0, 100, 0.005, 0.001), "green"),
        ],
    )
    def test_nearby_kernels(self, variation: Variation, colour: str) -> None:
        evidence = Evidence((MEAN,), variations=(variation,))
        assert quality(evidence, 0.5).colour == colour
        advice = advise(evidence, 0.5, 0.0)
        assert len(advice) == (colour != "green")

    def test_residuals_of_neighbours(self) -> None:
        found = ResidualCorrelation(0.5, 0.1, 0.05, 0.001)
        evidence = Evidence((MEAN,), misfit=found)
        assert quality(evidence, 0.5).colour == "amber"
        (advice,) = advise(evidence, 0.5, 0.0)
        assert advice.basis == "estimated"
        assert advice.gain == pytest.approx(-0.5 * np.log(1 - 0.4**2))
        chance = ResidualCorrelation(0.2, 0.1, 0.05, 0.02)
        assert quality(Evidence((MEAN,), misfit=chance), 0.5).colour == "green"


class TestHonesty:
    def colours(self, factor: float, shift: float = 0.0, n: int = 400) -> list[str]:
        rng = np.random.default_rng(5)
        laws = np.full(n, shift), np.full(n, factor)
        return [honesty(Calibration.of(rng.normal(size=n), *laws)).colour for _ in range(5)]

    def test_scales(self) -> None:
        assert self.colours(1.0).count("green") == 5
        assert self.colours(0.6).count("red") == 5
        assert self.colours(5 / 3).count("red") == 5
        assert set(self.colours(0.84, n=1000)) <= {"amber", "red"}
        assert set(self.colours(1.2, n=1000)) == {"amber"}

    def test_a_group(self) -> None:
        rng = np.random.default_rng(6)
        y, place = rng.normal(size=400), np.repeat(["north", "south"], 200)
        y[place == "south"] *= 0.6
        y[place == "north"] *= np.sqrt(2 - 0.36)
        found = Calibration.of(y, np.zeros(400), np.ones(400), groups={"region": place})
        verdict = honesty(found)
        assert (verdict.colour, found.is_off) == ("amber", False)
        assert "where region is" in verdict.sentence
        assert found.worst_group is not None
        rows = y[place == found.worst_group.name]
        half = {0.5: 0.6745, 0.8: 1.2816, 0.95: 1.96}[found.worst_group.level]
        assert found.worst_group.share == pytest.approx(np.mean(np.abs(rows) < half))

    def test_tails(self) -> None:
        rng = np.random.default_rng(7)
        y = rng.standard_t(2, size=2000)
        y /= 2.2 * np.median(np.abs(y))
        assert "heavier tails" in honesty(Calibration.of(y, np.zeros(2000), np.ones(2000))).sentence

    def test_a_shift_is_named_before_its_consequences(self) -> None:
        y = 1.5 + np.random.default_rng(10).normal(size=300)
        found = Calibration.of(y, np.zeros(300), np.ones(300))
        assert found.shift == pytest.approx(y.mean())
        assert f"targets lie {y.mean():.2g} standard deviations above" in honesty(found).sentence
        better = Variation("more noise", "", 50.0, 100, 0.4, 0.01)
        advice = advise(Evidence((MEAN,), found, variations=(better,)), 0.5, 1.0)
        assert [one.gain for one in advice] == [pytest.approx(0.5 * y.mean() ** 2)]
        assert "differ from training rows" in advice[0].action
        honest = Calibration.of(y - 1.5, np.zeros(300), np.ones(300))
        assert not honest.is_shifted

    def test_heavy_tails_are_not_rescaled(self) -> None:
        y = np.random.default_rng(11).standard_t(1.5, size=1000)
        y /= 2.2 * np.median(np.abs(y))
        (advice,) = advise(
            Evidence((MEAN,), Calibration.of(y, np.zeros(1000), np.ones(1000))), 1, 1
        )
        assert "largest residuals" in advice.action
        assert advice.basis == "estimated"

    def test_scales_fitted_to_few_rows_are_known_up_to_an_error(self) -> None:
        y = 1.18 * np.random.default_rng(8).normal(size=600)
        laws = np.zeros(600), np.ones(600)
        known, fitted = Calibration.of(y, *laws), Calibration.of(y, *laws, n_train=30)
        assert known.is_off
        assert not fitted.is_off
        for level in (0.5, 0.8, 0.95):
            assert fitted.standard_error[level] > 1.5 * known.standard_error[level]


class TestAdequacy:
    @pytest.mark.parametrize(
        ("kl", "errors", "gap", "colour"),
        [
            (0.002, (0.0, 0.0, 0.0), None, "green"),
            (0.002, (0.0, 0.009, 0.0), None, "amber"),
            (0.002, (0.0, 0.0, 0.005), None, "amber"),
            (0.02, (0.0, 0.0, 0.0), None, "amber"),
            (0.2, (0.0, 0.0, 0.0), None, "red"),
            (0.2, (0.15, 0.0, 0.0), None, "amber"),
            (0.2, (0.0, 0.0, 0.0), (-0.3, 0.05), "amber"),
            (0.002, (0.0, 0.0, 0.0), (0.02, 0.004), "amber"),
            (0.002, (0.0, 0.0, 0.0), (0.02, 0.02), "green"),
            (0.02, (0.0, 0.0, 0.0), (0.3, 0.05), "red"),
        ],
    )
    def test_colours(
        self, kl: float, errors: Any, gap: tuple[float, float] | None, colour: str
    ) -> None:
        cost = None if gap is None else Cost({"mean": gap[0], "standard_error": gap[1]})
        assert adequacy(kl, errors, "", cost).colour == colour

    def test_small_clear_costs_are_told(self) -> None:
        """Four thousandths of a nat beyond chance are said, though they do not matter."""
        gap = {"mean": 0.004, "standard_error": 0.001}
        cost = Cost(gap, 0.0, 1.02, {"mean": 0.1, "standard_error": 0.03})
        found = adequacy(0.005, (0.0, 0.0, 0.0), "", cost)
        assert found.colour == "green"
        assert "the reference predicts better, by little" in found.sentence
        assert "NLPD +0.004 ± 0.001 nats per point" in found.detail
        assert "RMSE is 2 % larger" in found.sentence

    def test_a_member_of_a_mixture_says_little(self) -> None:
        far = (0.5, (0.0, 0.0, 0.0), "")
        same = Cost({"mean": 0.01, "standard_error": 0.02})
        found = adequacy(*far, same, beside_a_member=True)
        assert found.colour == "green"
        assert "heaviest member only" in found.sentence
        worse = Cost({"mean": 0.3, "standard_error": 0.02})
        assert adequacy(*far, worse, beside_a_member=True).colour == "red"

    def test_the_exact_process_itself(self) -> None:
        found = adequacy(1e-17, (0.0, 0.0, 0.0), "", Cost({"mean": 0.0, "standard_error": 0.0}))
        assert (found.colour, found.figure, found.detail) == ("green", None, "")

    def test_closer_draws(self) -> None:
        near, far = Closing("n=8", "2", 0.01, 0.3), Closing("n=4", "2", 0.2, 0.1)
        assert closest((near, far), 0.1) == "; with n=8 the KL is 0.01"
        assert closest((far,), 0.1) == ""
        cost = Cost({"mean": 0.2, "standard_error": 0.01})
        advice = advise(Evidence(cost=cost, closings=(near, far)), None, 0.4)
        assert [one.gain for one in advice] == pytest.approx([0.3, 0.2, 0.1])
        assert "n=4" in advice[0].action
        assert "exact_twin" in advice[1].action


def test_what_is_not_known_is_grey() -> None:
    figures = Figures(3, 1, 0.001, 0.001)
    colours = [one.colour for one in judged(figures, Accuracy("dense"), None)]
    assert colours == ["grey", "grey", "green"]
    assert advised(figures, None) == ()
    alone = judged(Figures(3, 1), Accuracy("dense"), Evidence((MEAN,)))
    assert [one.colour for one in alone] == ["green", "grey", "grey"]
    assert [one.is_given for one in alone] == [True, False, False]


def test_advice_is_in_order_of_gain() -> None:
    found = Calibration.of(
        np.random.default_rng(9).normal(size=300), np.zeros(300), np.full(300, 0.5)
    )
    nearest = beside("nearest", 0.1, 0.01)
    evidence = Evidence((MEAN, nearest), found)
    advice = advise(evidence, 0.5, 1.0)
    assert [one.gain for one in advice] == sorted((one.gain for one in advice), reverse=True)
    assert advice[0].action.startswith("Multiply its standard deviations by 2")
    factor = found.rescaling
    y, s = np.random.default_rng(9).normal(size=300), 0.5
    before = np.mean(0.5 * (y / s) ** 2 + np.log(s))
    after = np.mean(0.5 * (y / (factor * s)) ** 2 + np.log(factor * s))
    assert advice[0].gain == pytest.approx(before - after)


def test_the_factor_of_standard_deviations_far_too_small() -> None:
    y = np.random.default_rng(9).normal(size=(300, 1))
    found = gather(y, Law(np.zeros((300, 1)), 1e-6 * np.eye(300)[:, :, None])).calibration
    assert found is not None
    assert found.rescaling == pytest.approx(1e3 * np.sqrt(np.mean(y**2)))


def test_no_factor_where_targets_are_the_predictions() -> None:
    found = Calibration.of(np.ones(40), np.ones(40), np.full(40, 0.3))
    assert found.is_off
    assert advise(Evidence((MEAN,), found), 0.0, -1.0) == ()


@pytest.mark.parametrize(("n_points", "colour"), [(7, "grey"), (8, "green")])
def test_few_points_are_not_judged(n_points: int, colour: str) -> None:
    y = np.linspace(-1.2, 1.2, n_points)
    honest = Calibration.of(y, np.zeros(n_points), np.ones(n_points))
    evidence = Evidence((MEAN,), honest, n_judged=n_points, n_points=n_points)
    found = judged(Figures(n_points, 1, rmse=0.5), Accuracy("dense"), evidence)
    assert [one.colour for one in found[:2]] == [colour, colour]
    assert ("Not judged: 7 test points are too few" in found[0].sentence) == (colour == "grey")
    narrow = Calibration.of(100 * y, np.zeros(n_points), np.ones(n_points))
    evidence = Evidence((MEAN,), narrow, n_judged=n_points, n_points=n_points)
    assert judged(Figures(n_points, 1, rmse=0.5), Accuracy("dense"), evidence)[1].colour == "red"


def test_a_baseline_without_error() -> None:
    perfect = beside("nearest", -1.0, 0.01, rmse=0.0, squared=0.3)
    (advice,) = advise(Evidence((MEAN, perfect)), 0.5, 1.0)
    assert np.isfinite(advice.gain)
    assert advice.basis == "estimated"


def test_plain_data() -> None:
    verdict = Verdict("?", "red", "Bad.", "Rule.")
    assert verdict.to_dict()["colour"] == "red"
    text = Advice("Do it.", 0.123, 0.011).text()
    assert text == "Do it. It gains 0.12 ± 0.01 nats per point, measured."


def test_a_linear_model_that_does_as_well_is_told_even_if_another_rival_is_nearer():
    def beside(name: str, gain: float, error: float) -> BesideBaseline:
        gap = {"mean": gain, "standard_error": error}
        return BesideBaseline(name, 1.0, 1.0, {"nlpd": gap, "squared_error": gap})

    rivals = (beside("mean", -1.0, 0.05), beside("linear", -0.03, 0.05),
              beside("additive kernel", 0.001, 0.05))  # fmt: skip
    told = quality(Evidence(rivals, None, None), 0.5)
    assert told.colour == "green"
    assert "A linear model does as well as it." in told.sentence
    assert "It gains 0.03 ± 0.05 nats per point over a linear model." in told.detail
    assert "It loses 0.001 ± 0.05 nats per point to a process" in told.detail
    clear = (rivals[0], beside("linear", -0.5, 0.05), rivals[2])
    assert "linear model" not in quality(Evidence(clear, None, None), 0.5).sentence
