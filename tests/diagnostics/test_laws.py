"""Predictive distributions beside plain formulas, other libraries and known rates of chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scoringrules
from scipy import stats

from coupledgp.core.transforms import Log
from coupledgp.diagnostics import SCORES, Mapped, Mixture, Normal, Predictions
from coupledgp.diagnostics.checks.residuals import exchanged_neighbours
from coupledgp.diagnostics.distance.divergences import kl_of_draws
from coupledgp.diagnostics.laws import Draws, Quantiles, law_of_prediction
from coupledgp.diagnostics.laws.normal import normal_crps
from coupledgp.diagnostics.laws.stated import distribution_of
from coupledgp.diagnostics.scores import paired_losses
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
        laws = Draws(rain(rng, (m, 3000, 1)))
        assert is_uniform(laws.cdf(rain(rng, (3000, 1))))

    def test_the_rank_by_hand(self) -> None:
        laws = Draws(np.array([1.0, 2.0, 2.0, 5.0]).reshape(4, 1, 1))
        for y, low, high in ((0.0, 0, 1), (2.0, 1, 4), (3.0, 3, 4), (9.0, 4, 5)):
            found = float(laws.cdf(np.array([[y]]))[0, 0])
            assert low / 5 < found < high / 5

    def test_the_score_by_pairs(self) -> None:
        draws, y = RNG.normal(size=(9, 4, 2)), RNG.normal(size=(4, 2))
        near = np.abs(draws - y).mean(axis=0)
        apart = np.abs(draws[:, None] - draws).sum(axis=(0, 1)) / (9 * 8)
        found = Draws(draws).crps(y)
        np.testing.assert_allclose(found, near - 0.5 * apart, rtol=1e-12)

    def test_scores_of_few_draws_are_those_of_the_law(self) -> None:
        """Over 20 000 ensembles of eight, within five standard errors."""
        rng, p = np.random.default_rng(2), 20_000
        laws, y = Draws(rng.normal(size=(8, p, 1))), rng.normal(size=(p, 1))
        gap = laws.crps(y) - normal_crps(y, np.ones((p, 1)))
        assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(p)
        squares = laws.squared_error(y) - np.square(y)
        assert abs(squares.mean()) < 5 * squares.std() / np.sqrt(p)

    def test_the_energy_score_by_pairs(self) -> None:
        draws, y = RNG.normal(size=(12, 5, 1)), RNG.normal(size=(5, 1))
        flat = draws.reshape(12, 5)
        near = np.mean([np.linalg.norm(one - y[:, 0]) for one in flat])
        apart = sum(np.linalg.norm(a - b) for a in flat for b in flat) / (12 * 11)
        assert Draws(draws).energy(y) == pytest.approx((near - apart / 2) / np.sqrt(5))

    def test_joint_draws_score_better_than_shuffled_ones(self) -> None:
        rng = np.random.default_rng(3)
        draws = rng.normal(size=(400, 1, 1)) + 0.1 * rng.normal(size=(400, 20, 1))
        laws, shuffled = Draws(draws), Draws(draws).shuffled()
        np.testing.assert_allclose(shuffled.mean, laws.mean, rtol=1e-12)
        assert abs(np.corrcoef(shuffled.draws[:, 0, 0], shuffled.draws[:, 1, 0])[0, 1]) < 0.3
        gaps = [laws.energy(one) - shuffled.energy(one) for one in draws[:60]]
        assert np.mean(gaps) < -3 * np.std(gaps) / np.sqrt(60)

    @pytest.mark.parametrize("m", [10, 40, 1000])
    def test_correlations_are_shrunk_as_far_as_draws_are_few(self, m: int) -> None:
        rng = np.random.default_rng(m)
        own = Draws(rng.normal(size=(m, 60, 1))).correlation()[..., 0]
        shared = Draws(
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
        laws, y = Draws(rng.normal(size=(8, 4000, 1))), rng.normal(size=(4000, 1))
        ranks, (_, pooled) = laws.cdf(y)[:, 0], laws.pooled_moments(y)
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
            scores = Draws(rows[1:]).scores_with(rows[0])
            found.append(exchanged_neighbours(scores[..., 0], near).p)
        assert is_uniform(np.array(found))

    def test_a_kl_of_moments_is_that_of_chance(self) -> None:
        rng, m, p = np.random.default_rng(7), 12, 40
        mean, error = kl_of_draws(m, np.eye(p)[..., None])
        draws = rng.normal(size=(500, m, p))
        mu, var = draws.mean(axis=1), draws.var(axis=1, ddof=1)
        kl = 0.5 * (np.log(var) + (1 + mu**2) / var - 1).mean(axis=1)
        assert kl.mean() == pytest.approx(mean, abs=5 * kl.std() / np.sqrt(500))
        assert 0.5 < kl.std() / error < 2


class TestQuantiles:
    def test_transforms_are_uniform(self) -> None:
        rng = np.random.default_rng(8)
        mu = rng.normal(size=3000)
        laws = Quantiles(CHANCES, (mu[:, None] + stats.t.ppf(CHANCES, 3))[:, None])
        y = mu + stats.t.rvs(3, size=3000, random_state=rng)
        found = laws.cdf(y[:, None])
        assert is_uniform(found)
        inside = (laws.values[:, 0, 0] <= y) & (y <= laws.values[:, 0, -1])
        np.testing.assert_array_equal(inside, np.abs(found[:, 0] - 0.5) <= 0.45)

    @pytest.mark.parametrize("rate", [0.7, 3.0])
    def test_transforms_of_atoms(self, rate: float) -> None:
        """Zeros of rain, and counts, whose quantiles are equal or are hit."""
        rng = np.random.default_rng(9)
        rates = rate * rng.choice([1.0, 2.0], size=4000)
        laws = Quantiles(CHANCES, stats.poisson.ppf(CHANCES, rates[:, None])[:, None])
        assert is_uniform(laws.cdf(rng.poisson(rates).astype(float)[:, None]))
        wet = np.quantile(rain(rng, (200_000,)), CHANCES)
        dry = Quantiles(CHANCES, np.broadcast_to(wet, (4000, 1, 5)))
        assert is_uniform(dry.cdf(rain(rng, (4000, 1))))

    def test_levels_and_intervals(self) -> None:
        laws = Quantiles(CHANCES, np.arange(10.0).reshape(2, 1, 5))
        assert laws.levels == (0.5, 0.9)
        np.testing.assert_array_equal(laws.widths(), [[[2.0, 4.0]]] * 2)
        alone = Quantiles(np.array([0.2, 0.9]), np.zeros((2, 1, 2))).intervals
        assert alone.levels == (0.8, 0.9)
        np.testing.assert_array_equal(alone.low, [0.2, 0.0])
        np.testing.assert_array_equal(alone.high, [1.0, 0.9])

    def test_pinball_losses_and_shares(self) -> None:
        laws = Quantiles(np.array([0.1, 0.9]), np.array([[[0.0, 2.0]]]))
        np.testing.assert_allclose(laws.pinball(np.array([[3.0]])), [[[0.3, 0.9]]])
        np.testing.assert_allclose(laws.crps(np.array([[-1.0]])), [[0.9 + 0.3]])

    def test_many_quantiles_score_as_the_law(self) -> None:
        mean, std, y = RNG.normal(size=(6, 1)), RNG.uniform(0.5, 2, (6, 1)), RNG.normal(size=(6, 1))
        chances = (np.arange(4000) + 0.5) / 4000
        laws = Quantiles(chances, np.empty((6, 1, 0))).of_normal(mean, std)
        np.testing.assert_allclose(laws.crps(y), normal_crps(y - mean, std), rtol=2e-3)

    def test_rivals_are_reduced_to_the_same_quantiles(self) -> None:
        y, mean, std = RNG.normal(size=(50, 1)), np.zeros((50, 1)), np.ones((50, 1))
        own = Quantiles(CHANCES, np.empty((50, 1, 0))).of_normal(mean, std)
        found = paired_losses(Predictions(own, y), Normal(mean, std), SCORES)
        assert set(found) == {"log_crps", "mae", "crps"}
        assert found["log_crps"].mean() == pytest.approx(0.0, abs=1e-12)
        wide = paired_losses(Predictions(own, y), Normal(mean, 3 * std), SCORES)
        assert wide["log_crps"].mean() < 0

    def test_middles_and_scales(self) -> None:
        mean, std = RNG.normal(size=(4, 1)), RNG.uniform(0.5, 2, (4, 1))
        laws = Quantiles(np.array([0.1, 0.9]), np.empty((4, 1, 0))).of_normal(mean, std)
        np.testing.assert_allclose(laws.mean, mean)
        np.testing.assert_allclose(laws.std, std)


class TestDistributions:
    def test_scores_beside_normal_laws(self) -> None:
        mean, std, y = RNG.normal(size=7), RNG.uniform(0.5, 2, 7), RNG.normal(size=(7, 1))
        laws = distribution_of(stats.norm(mean, std), 7)
        z = (y[:, 0] - mean) / std
        np.testing.assert_allclose(laws.cdf(y)[:, 0], stats.norm.cdf(z))
        np.testing.assert_allclose(laws.log_density(y), stats.norm.logpdf(z) - np.log(std))
        expected = normal_crps(y - mean[:, None], std[:, None])
        np.testing.assert_allclose(laws.crps(y), expected, rtol=0.02)
        part = laws.take(np.array([5, 2]))
        np.testing.assert_allclose(part.cdf(y[[5, 2]]), laws.cdf(y)[[5, 2]])

    def test_counts_have_randomised_transforms(self) -> None:
        rng = np.random.default_rng(10)
        rates = rng.gamma(2.0, size=3000)
        laws = distribution_of(stats.poisson(rates), 3000)
        assert laws.is_discrete
        assert is_uniform(laws.cdf(rng.poisson(rates)[:, None].astype(float)))


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
            own = law_of_prediction(form, 6)
            assert isinstance(own, Quantiles)
            np.testing.assert_array_equal(own.values[:, 0], q)
        ends = {"lower": q[:, 0], "upper": q[:, 2], "level": 0.8}
        own = law_of_prediction(ends, 6)
        assert isinstance(own, Quantiles)
        np.testing.assert_allclose(own.chances, [0.1, 0.9])

    def test_a_weighted_mixture(self) -> None:
        means, stds = RNG.normal(size=(2, 5)), RNG.uniform(0.5, 1, (2, 5))
        law = law_of_prediction({"means": means, "stds": stds, "weights": [1, 3]}, 5)
        mean = means[0] / 4 + 3 * means[1] / 4
        np.testing.assert_allclose(law.mean[:, 0], mean)
        second = (stds[0] ** 2 + means[0] ** 2) / 4 + 3 * (stds[1] ** 2 + means[1] ** 2) / 4
        np.testing.assert_allclose(law.std[:, 0], np.sqrt(second - mean**2))

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


def test_scores_are_those_of_scoringrules() -> None:
    mean, std, y = RNG.normal(size=(9, 1)), RNG.uniform(0.5, 2, (9, 1)), RNG.normal(size=(9, 1))
    found = Normal(mean, std).crps(y)[:, 0]
    np.testing.assert_allclose(found, scoringrules.crps_normal(y, mean, std)[:, 0], rtol=1e-12)
    draws = RNG.normal(size=(30, 9, 1))
    fair = scoringrules.crps_ensemble(y[:, 0], draws[..., 0].T, estimator="fair")
    np.testing.assert_allclose(Draws(draws).crps(y)[:, 0], fair, rtol=1e-12)
    means, stds, weights = RNG.normal(size=(3, 9, 1)), np.full((3, 9, 1), 0.7), np.array([1, 2, 3])
    parts = Mixture.of(means, stds, weights / 6)
    mixed = scoringrules.crps_mixnorm(
        y[:, 0], means[..., 0].T, stds[..., 0].T, np.broadcast_to(weights / 6, (9, 3))
    )
    np.testing.assert_allclose(parts.crps(y)[:, 0], mixed, rtol=1e-9)


def test_a_mapped_law_is_the_lognormal_one() -> None:
    mean, std, y = (
        RNG.normal(size=(40, 1)),
        RNG.uniform(0.2, 0.6, (40, 1)),
        RNG.uniform(0.2, 4, (40, 1)),
    )
    law, own = Mapped.of(Log(), mean, std), stats.lognorm(std, scale=np.exp(mean))
    np.testing.assert_allclose(law.log_density(y), own.logpdf(y)[:, 0])
    np.testing.assert_allclose(law.cdf(y), own.cdf(y))
    np.testing.assert_allclose(law.ppf(np.array([0.1, 0.9]))[..., 1], own.ppf(0.9))
    np.testing.assert_allclose(law.mean, own.mean(), rtol=1e-3)


@pytest.mark.parametrize("law", [
    Normal(np.zeros((6, 1)), np.ones((6, 1))), Draws(RNG.normal(size=(9, 6, 1))),
    distribution_of(stats.norm(np.zeros(6), 1.0), 6),
    Mixture.of(RNG.normal(size=(2, 6, 1)), np.ones((2, 6, 1)), np.full(2, 0.5)),
])  # fmt: skip
def test_every_law_is_taken_at_some_points(law: Any) -> None:
    rows, chances = np.array([4, 1]), np.array([0.2, 0.5])
    y = RNG.normal(size=(6, 1))
    np.testing.assert_allclose(law.take(rows).crps(y[rows]), law.crps(y)[rows])
    np.testing.assert_allclose(law.take(rows).ppf(chances), law.ppf(chances)[rows])
    np.testing.assert_allclose(law.take(rows).std, law.std[rows])
