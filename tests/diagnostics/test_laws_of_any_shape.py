"""Laws by draws, quantiles and distributions, beside plain formulas and known rates of chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.diagnostics.audit_figures import chance_of_draws
from coupledgp.diagnostics.foreign.law import ForeignLaw, law_of_prediction
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.drawn_laws import DrawnLaws
from coupledgp.diagnostics.scoring.laws import Law, PointLaws
from coupledgp.diagnostics.scoring.measures import differences
from coupledgp.diagnostics.scoring.quantile_laws import DistributionLaws, QuantileLaws
from coupledgp.diagnostics.scoring.scores import point_crps
from coupledgp.diagnostics.verdicts.neighbour_residuals import exchanged_correlation
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(5)
CHANCES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def rain(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.where(rng.uniform(size=shape) < 0.6, 0.0, rng.gamma(1.5, size=shape))


def is_uniform(values: np.ndarray) -> bool:
    return bool(stats.kstest(np.ravel(values), "uniform").pvalue > 1e-3)


class TestDraws:
    @pytest.mark.parametrize("m", [8, 10, 300])
    def test_ranks_are_uniform_with_ties_and_few_draws(self, m: int) -> None:
        rng = np.random.default_rng(m)
        laws = DrawnLaws(rain(rng, (m, 3000, 1)))
        assert is_uniform(laws.transforms(rain(rng, (3000, 1))))

    def test_the_rank_by_hand(self) -> None:
        laws = DrawnLaws(np.array([1.0, 2.0, 2.0, 5.0]).reshape(4, 1, 1))
        for y, low, high in ((0.0, 0, 1), (2.0, 1, 4), (3.0, 3, 4), (9.0, 4, 5)):
            found = float(laws.transforms(np.array([[y]]))[0, 0])
            assert low / 5 < found < high / 5

    def test_the_score_by_pairs(self) -> None:
        draws, y = RNG.normal(size=(9, 4, 2)), RNG.normal(size=(4, 2))
        near = np.abs(draws - y).mean(axis=0)
        apart = np.abs(draws[:, None] - draws).sum(axis=(0, 1)) / (9 * 8)
        found = DrawnLaws(draws).crps(y)
        np.testing.assert_allclose(found, near - 0.5 * apart, rtol=1e-12)

    def test_scores_of_few_draws_are_those_of_the_law(self) -> None:
        """Over 20 000 ensembles of eight, within five standard errors."""
        rng, p = np.random.default_rng(2), 20_000
        laws, y = DrawnLaws(rng.normal(size=(8, p, 1))), rng.normal(size=(p, 1))
        gap = laws.crps(y) - point_crps(y, np.zeros((p, 1)), np.ones((p, 1)))
        assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(p)
        squares = laws.squared_error(y) - np.square(y)
        assert abs(squares.mean()) < 5 * squares.std() / np.sqrt(p)

    def test_the_energy_score_by_pairs(self) -> None:
        draws, y = RNG.normal(size=(12, 5, 1)), RNG.normal(size=(5, 1))
        flat = draws.reshape(12, 5)
        near = np.mean([np.linalg.norm(one - y[:, 0]) for one in flat])
        apart = sum(np.linalg.norm(a - b) for a in flat for b in flat) / (12 * 11)
        assert DrawnLaws(draws).energy(y) == pytest.approx((near - apart / 2) / np.sqrt(5))

    def test_joint_draws_score_better_than_shuffled_ones(self) -> None:
        rng = np.random.default_rng(3)
        draws = rng.normal(size=(400, 1, 1)) + 0.1 * rng.normal(size=(400, 20, 1))
        laws, shuffled = DrawnLaws(draws), DrawnLaws(draws).shuffled()
        np.testing.assert_allclose(shuffled.mean, laws.mean, rtol=1e-12)
        assert abs(np.corrcoef(shuffled.draws[:, 0, 0], shuffled.draws[:, 1, 0])[0, 1]) < 0.3
        gaps = [laws.energy(one) - shuffled.energy(one) for one in draws[:60]]
        assert np.mean(gaps) < -3 * np.std(gaps) / np.sqrt(60)

    @pytest.mark.parametrize("m", [10, 40, 1000])
    def test_correlations_are_shrunk_as_far_as_draws_are_few(self, m: int) -> None:
        rng = np.random.default_rng(m)
        own = DrawnLaws(rng.normal(size=(m, 60, 1))).correlation()[..., 0]
        shared = DrawnLaws(
            rng.normal(size=(m, 1, 1)) + 0.3 * rng.normal(size=(m, 60, 1))
        ).correlation()[..., 0]
        assert np.linalg.eigvalsh(own).min() > 0
        assert np.linalg.eigvalsh(shared).min() > 0
        rest = ~np.eye(60, dtype=bool)
        assert np.abs(own[rest]).mean() < 0.5 / np.sqrt(m)
        assert shared[rest].mean() == pytest.approx(1 / 1.09, abs=0.6 / np.sqrt(m) + 0.03)

    def test_groups_by_pooled_moments_keep_ranks_uniform(self) -> None:
        """Those by the deviation of few draws do not: too few targets where draws are close."""
        rng = np.random.default_rng(4)
        laws, y = DrawnLaws(rng.normal(size=(8, 4000, 1))), rng.normal(size=(4000, 1))
        ranks, (_, pooled) = laws.transforms(y)[:, 0], laws.pooled_moments(y)
        some = pooled[:, 0] < np.quantile(pooled, 1 / 3)
        assert is_uniform(ranks[some])
        close = laws.variance[:, 0] < np.quantile(laws.variance, 1 / 3)
        assert not is_uniform(ranks[close])

    def test_neighbours_of_draws_by_exchange(self) -> None:
        """P-values of right laws are uniform, however few draws tell the correlation."""
        rng = np.random.default_rng(6)
        near = np.arange(30) ^ 1
        found = []
        for _ in range(300):
            both = rng.normal(size=(11, 15, 1)) + rng.normal(size=(11, 15, 2))
            rows = both.reshape(11, 30, 1)
            scores = DrawnLaws(rows[1:]).scores_with(rows[0])
            found.append(exchanged_correlation(scores[..., 0], near).p_value)
        assert is_uniform(np.array(found))

    def test_a_kl_of_moments_is_that_of_chance(self) -> None:
        rng, m, p = np.random.default_rng(7), 12, 40
        mean, error = chance_of_draws(m, np.eye(p)[..., None])
        draws = rng.normal(size=(500, m, p))
        mu, var = draws.mean(axis=1), draws.var(axis=1, ddof=1)
        kl = 0.5 * (np.log(var) + (1 + mu**2) / var - 1).mean(axis=1)
        assert kl.mean() == pytest.approx(mean, abs=5 * kl.std() / np.sqrt(500))
        assert 0.5 < kl.std() / error < 2


class TestQuantiles:
    def test_transforms_are_uniform(self) -> None:
        rng = np.random.default_rng(8)
        mu = rng.normal(size=3000)
        laws = QuantileLaws(CHANCES, (mu[:, None] + stats.t.ppf(CHANCES, 3))[:, None])
        y = mu + stats.t.rvs(3, size=3000, random_state=rng)
        found = laws.transforms(y[:, None])
        assert is_uniform(found)
        inside = (laws.values[:, 0, 0] <= y) & (y <= laws.values[:, 0, -1])
        np.testing.assert_array_equal(inside, np.abs(found[:, 0] - 0.5) <= 0.45)

    @pytest.mark.parametrize("rate", [0.7, 3.0])
    def test_transforms_of_atoms(self, rate: float) -> None:
        """Zeros of rain, and counts, whose quantiles are equal or are hit."""
        rng = np.random.default_rng(9)
        rates = rate * rng.choice([1.0, 2.0], size=4000)
        laws = QuantileLaws(CHANCES, stats.poisson.ppf(CHANCES, rates[:, None])[:, None])
        assert is_uniform(laws.transforms(rng.poisson(rates).astype(float)[:, None]))
        wet = np.quantile(rain(rng, (200_000,)), CHANCES)
        dry = QuantileLaws(CHANCES, np.broadcast_to(wet, (4000, 1, 5)))
        assert is_uniform(dry.transforms(rain(rng, (4000, 1))))

    def test_levels_and_intervals(self) -> None:
        laws = QuantileLaws(CHANCES, np.arange(10.0).reshape(2, 1, 5))
        assert laws.levels == (0.5, 0.9)
        np.testing.assert_array_equal(laws.interval_widths(laws.levels), [[[2.0, 4.0]]] * 2)
        alone = QuantileLaws(np.array([0.2, 0.9]), np.zeros((2, 1, 2))).intervals
        assert alone.levels == (0.8, 0.9)
        np.testing.assert_array_equal(alone.low, [0.2, 0.0])
        np.testing.assert_array_equal(alone.high, [1.0, 0.9])

    def test_pinball_losses_and_shares(self) -> None:
        laws = QuantileLaws(np.array([0.1, 0.9]), np.array([[[0.0, 2.0]]]))
        np.testing.assert_allclose(laws.pinball(np.array([[3.0]])), [[[0.3, 0.9]]])
        np.testing.assert_allclose(laws.crps(np.array([[-1.0]])), [[0.9 + 0.3]])
        assert laws.below(np.array([[1.0]])) == {0.1: (0.0, pytest.approx(0.1)),
                                                 0.9: (1.0, pytest.approx(0.1))}  # fmt: skip

    def test_many_quantiles_score_as_the_law(self) -> None:
        mean, std, y = RNG.normal(size=(6, 1)), RNG.uniform(0.5, 2, (6, 1)), RNG.normal(size=(6, 1))
        chances = (np.arange(4000) + 0.5) / 4000
        laws = QuantileLaws(chances, np.empty((6, 1, 0))).of_normal(mean, std)
        np.testing.assert_allclose(laws.crps(y), point_crps(y, mean, std), rtol=2e-3)

    def test_rivals_are_reduced_to_the_same_quantiles(self) -> None:
        y, mean, std = RNG.normal(size=(50, 1)), np.zeros((50, 1)), np.ones((50, 1))
        own = QuantileLaws(CHANCES, np.empty((50, 1, 0))).of_normal(mean, std)
        found = differences(y, PointLaws(mean, std, own), PointLaws(mean, std))
        assert set(found) == {"log_crps", "absolute_error", "crps"}
        assert found["log_crps"]["mean"] == pytest.approx(0.0, abs=1e-12)
        wide = differences(y, PointLaws(mean, std, own), PointLaws(mean, 3 * std))
        assert wide["log_crps"]["mean"] < 0

    def test_middles_and_scales(self) -> None:
        mean, std = RNG.normal(size=(4, 1)), RNG.uniform(0.5, 2, (4, 1))
        laws = QuantileLaws(np.array([0.1, 0.9]), np.empty((4, 1, 0))).of_normal(mean, std)
        middle, scale = laws.moments()
        np.testing.assert_allclose(middle, mean)
        np.testing.assert_allclose(scale, std)


class TestDistributions:
    def test_scores_beside_normal_laws(self) -> None:
        mean, std, y = RNG.normal(size=7), RNG.uniform(0.5, 2, 7), RNG.normal(size=(7, 1))
        laws = DistributionLaws.of(stats.norm(mean, std), 7)
        z = (y[:, 0] - mean) / std
        np.testing.assert_allclose(laws.transforms(y)[:, 0], stats.norm.cdf(z))
        np.testing.assert_allclose(laws.log_density(y), stats.norm.logpdf(z) - np.log(std))
        expected = point_crps(y, mean[:, None], std[:, None])
        np.testing.assert_allclose(laws.crps(y), expected, rtol=0.02)
        part = laws.take(np.array([5, 2]))
        np.testing.assert_allclose(part.transforms(y[[5, 2]]), laws.transforms(y)[[5, 2]])

    def test_counts_have_randomised_transforms(self) -> None:
        rng = np.random.default_rng(10)
        rates = rng.gamma(2.0, size=3000)
        laws = DistributionLaws.of(stats.poisson(rates), 3000)
        assert laws.is_discrete
        assert is_uniform(laws.transforms(rng.poisson(rates)[:, None].astype(float)))


class TestForms:
    QUANTILES = np.sort(RNG.normal(size=(6, 3)), axis=1)

    def test_quantiles_in_all_their_forms(self) -> None:
        q, t = self.QUANTILES, [0.1, 0.5, 0.9]
        forms: list[Any] = [
            {"quantiles": q, "levels": t},
            {"quantiles": q.T, "levels": t},
            {"quantiles": q[:, ::-1], "levels": t[::-1]},
            pd.DataFrame(q, columns=["q0.1", "0.5", "0.9"]),
            dict(zip(t, q.T, strict=True)),
        ]
        for form in forms:
            own = law_of_prediction(form, 6).own
            assert isinstance(own, QuantileLaws)
            np.testing.assert_array_equal(own.values[:, 0], q)
        ends = {"lower": q[:, 0], "upper": q[:, 2], "level": 0.8}
        own = law_of_prediction(ends, 6).own
        assert isinstance(own, QuantileLaws)
        np.testing.assert_allclose(own.chances, [0.1, 0.9])

    def test_a_weighted_mixture(self) -> None:
        means, stds = RNG.normal(size=(2, 5)), RNG.uniform(0.5, 1, (2, 5))
        law = law_of_prediction({"means": means, "stds": stds, "weights": [1, 3]}, 5)
        mean = means[0] / 4 + 3 * means[1] / 4
        np.testing.assert_allclose(law.mean, mean)
        second = (stds[0] ** 2 + means[0] ** 2) / 4 + 3 * (stds[1] ** 2 + means[1] ** 2) / 4
        np.testing.assert_allclose(law.variance, second - mean**2)

    @pytest.mark.parametrize(
        ("form", "message"),
        [
            ({"quantiles": np.zeros((6, 2)), "levels": [0.1, 1.2]}, "between 0 and 1"),
            ({"quantiles": np.zeros((6, 2)), "levels": [0.1, 0.1]}, "that differ"),
            ({"quantiles": np.zeros((6, 3)), "levels": [0.1, 0.9]}, r"expected quantiles \(6, 2\)"),
            ({0.1: np.ones(6), 0.9: np.zeros(6)}, "do not descend"),
            ({"lower": np.ones(6), "upper": np.zeros(6), "level": 2}, "a level between 0 and 1"),
            ({"means": np.ones((2, 6)), "stds": np.ones((2, 6)), "weights": [1, -1]}, "2 weights"),
            (stats.cauchy(np.zeros(6)), "with a mean and a variance"),
            (np.ones((9, 6)), "draws that differ"),
        ],
    )
    def test_bad_input(self, form: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            law_of_prediction(form, 6)

    def test_noise_is_added_to_gaussian_laws_only(self) -> None:
        law = ForeignLaw.of_samples(RNG.normal(size=(20, 6)), 6)
        with pytest.raises(InvalidInputError, match="got 20 draws; add the noise to them"):
            law.with_noise(0.1)


def tables(rng: np.random.Generator, n: int = 120) -> tuple[Any, np.ndarray]:
    X = rng.uniform(-2, 2, (2 * n, 2))
    mu = np.sin(2 * X[:, 0]) * X[:, 1]
    y = np.exp(mu + 0.5 * rng.normal(size=2 * n))
    return (X[:n], y[:n], X[n:], y[n:]), mu[n:]


class TestReports:
    def forms(self, mu: np.ndarray, scale: float, rng: np.random.Generator) -> dict[str, Any]:
        z = stats.norm.ppf(CHANCES)
        return {
            "draws": np.exp(mu + 0.5 * scale * rng.normal(size=(60, mu.size))),
            "quantiles": {
                one: np.exp(mu + 0.5 * scale * z_of) for one, z_of in zip(CHANCES, z, strict=True)
            },
            "distribution": stats.lognorm(0.5 * scale, scale=np.exp(mu)),
        }  # fmt: skip

    @pytest.mark.long
    def test_right_laws_are_green_and_narrow_ones_found(self) -> None:
        rng = np.random.default_rng(12)
        given, mu = tables(rng)
        for law in self.forms(mu, 1.0, rng).values():
            report = cgp.audit(law, *given)
            assert [one.colour for one in report.verdicts] == ["green", "green", "grey"]
        for law in self.forms(mu, 0.5, rng).values():
            report = cgp.audit(law, *given)
            assert report.verdicts[1].colour == "red"
            assert report.calibration.rescaling == pytest.approx(2.0, rel=0.15)

    @pytest.mark.long
    def test_pages_say_what_was_judged(self) -> None:
        rng = np.random.default_rng(13)
        given, mu = tables(rng)
        laws = self.forms(mu, 1.0, rng)
        drawn = cgp.audit(laws["draws"], *given)
        assert drawn.nlpd is None
        assert "Energy score" in drawn.to_html()
        assert "of the CRPS" in drawn.verdicts[0].detail
        named = cgp.audit(laws["quantiles"], *given)
        assert named.rmse is None
        assert set(named.coverage) == {0.5, 0.9}
        assert len(named.tables()["quantiles"].rows) == 5
        assert "90 % are" in named.verdicts[1].sentence
        one = cgp.audit({0.9: laws["quantiles"][0.95]}, *given)
        assert one.coverage == {}
        assert "too wide" in one.verdicts[1].sentence or one.verdicts[1].colour == "green"
        for report in (drawn, named, one):
            assert report.to_json()
            assert str(report)

    def test_chances_of_classes(self) -> None:
        rng = np.random.default_rng(14)
        X = rng.uniform(-2, 2, (300, 2))
        p = 1 / (1 + np.exp(-3 * X[:, 0]))
        labels = np.where(rng.uniform(size=300) < p, "up", "down")
        law = {"chances": np.column_stack([1 - p, p])[100:], "classes": ["down", "up"]}
        report = cgp.audit(law, X[:100], labels[:100], X[100:], labels[100:])
        assert [one.colour for one in report.verdicts[:2]] == ["green", "green"]
        with pytest.raises(InvalidInputError, match=r"expected chances \(200, 2\)"):
            cgp.audit({**law, "chances": law["chances"][1:]}, X[:100], labels[:100], X[100:],
                      labels[100:])  # fmt: skip

    def test_from_the_command_line(self, tmp_path: Path, capsys: Any) -> None:
        from coupledgp.cli import run

        rng = np.random.default_rng(15)
        (X, y, new, z), mu = tables(rng)
        pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(
            tmp_path / "train.csv", index=False
        )
        pd.DataFrame({"a": new[:, 0], "b": new[:, 1], "y": z}).to_csv(
            tmp_path / "test.csv", index=False
        )
        quantiles = {f"q{t}": one for t, one in self.forms(mu, 1.0, rng)["quantiles"].items()}
        pd.DataFrame(quantiles).to_csv(tmp_path / "pred.csv", index=False)
        asked = ["audit", "--train", str(tmp_path / "train.csv"), "--test",
                 str(tmp_path / "test.csv"), "--target", "y", "--predictions",
                 str(tmp_path / "pred.csv"), "--quantiles", "-o",
                 str(tmp_path / "a.html")]  # fmt: skip
        assert run(asked) == 0
        assert "Its intervals are honest" in capsys.readouterr().out
        assert "pinball" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_intervals_of_other_levels() -> None:
    y = RNG.normal(size=(400, 1))
    laws = QuantileLaws(np.array([0.1, 0.9]), np.tile(stats.norm.ppf([0.1, 0.9]), (400, 1, 1)))
    found = Calibration.of_transforms(laws.transforms(y), intervals=laws.intervals)
    assert list(found.coverage) == [0.8]
    assert found.coverage[0.8] == pytest.approx((np.abs(y) <= stats.norm.ppf(0.9)).mean())


def test_a_law_of_draws_knows_its_points_jointly() -> None:
    law = ForeignLaw.of_samples(RNG.normal(size=(30, 1)) + 0.1 * RNG.normal(size=(30, 5)), 5).joint
    assert isinstance(law, Law)
    assert law.cov[0, 1, 0] > 0.5 * law.cov[0, 0, 0]
    assert ForeignLaw.of(np.zeros(5), np.ones(5), 5).joint is None


@pytest.mark.parametrize("seed", [15, 51, 86, 103, 197])
def test_few_draws_that_happen_to_be_near_each_other_are_no_pattern(seed: int) -> None:
    """Points are put in order by draws and target together, which a right law exchanges."""
    rng = np.random.default_rng([seed, 47])
    X = rng.uniform(-2, 2, (350, int(rng.choice([1, 2, 4]))))
    length, noise = float(rng.choice([0.5, 1.0, 2.0])), float(rng.choice([0.02, 0.1, 0.5]))
    squares = np.square(X[:, None] - X).sum(axis=2)
    cov = np.exp(-0.5 * squares / length**2) + noise * np.eye(len(X))
    y = np.linalg.cholesky(cov) @ rng.normal(size=len(X))
    a, b = slice(None, 150), slice(150, None)
    gain = np.linalg.solve(cov[a, a], cov[a, b]).T
    root = np.linalg.cholesky(cov[b, b] - gain @ cov[a, b])
    drawn = gain @ y[a] + np.random.default_rng([seed, 48]).normal(size=(10, 200)) @ root.T
    report = cgp.audit(drawn, X[a], y[a], X[b], y[b], progress=False)
    columns = {one.column for one in report.evidence.findings.found}
    assert not {"prediction", "stated standard deviation"} & columns
