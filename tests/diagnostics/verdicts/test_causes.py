"""Gains belong to what was changed, and sentences quote the figures of their rules."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.diagnostics import BesideBaseline, compare, cross_validate, rivals_of
from coupledgp.diagnostics.residuals.columns import Carried, equal_columns
from coupledgp.diagnostics.residuals.shapes import Shapes
from coupledgp.diagnostics.rivals.tables import table_baselines
from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.diagnostics.verdicts.advising import advise
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.quality import quality
from coupledgp.tables.weight_space import FITTED_REMARK
from coupledgp.time.axis import TimeAxis
from coupledgp.time.panel import constant_runs
from tests.diagnostics.verdicts.test_rules import MEAN, beside

N = 160


def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (2 * N, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=2 * N)


def printed_gains(report) -> list[float]:
    """Numbers of nats that texts of a report state as gains."""
    texts = [one.text() for one in (*report.verdicts, *report.advice)]
    found = re.findall(r"([-+\d.e]+)(?: ± [\d.e-]+)? nats per point", " ".join(texts))
    return [float(one) for one in found]


class TestCarried:
    def test_a_column_that_carries_y_in_training_alone_is_named(self) -> None:
        X, y = table(0)
        X[:N, 2] = y[:N] + 0.05 * np.random.default_rng(9).normal(size=N)
        model = cgp.ExactGPRegressor(options={"n_restarts": 0}, random_state=0).fit(X[:N], y[:N])
        report = compare(model, X[N:], y[N:], progress=False)
        carried = report.evidence.carried
        assert (carried.number, carried.column) == (2, "input 3")
        assert carried.gain > 1
        assert "input 3" in report.verdicts[0].sentence
        assert ["input 3" in one.action for one in report.advice] == [True]
        assert max(printed_gains(report), default=0.0) <= 5

    def test_columns_that_keep_their_relation_are_none(self) -> None:
        """Ranges that shrink, targets that move and relations of any shape are no loss."""
        for seed in range(40):
            rng = np.random.default_rng(seed)
            x, z = rng.uniform(-2, 2, (2, 400))
            y = np.sin(2 * x) + 0.3 * z + rng.normal(size=400) * rng.choice([0.05, 0.3])
            X = np.column_stack([x, z])
            for rows in (slice(200, None), x[200:] > rng.uniform(0, 1)):
                points, there = X[200:], y[200:] + rng.normal()
                if not isinstance(rows, slice):
                    points, there = points[rows], there[rows]
                assert Carried.of(X[:200], y[:200], points, there) is None

    @pytest.mark.parametrize("digits", [None, 3, 1, 0])
    def test_a_column_that_equals_y_is_named(self, digits) -> None:
        y = 30 * np.random.default_rng(1).normal(size=100)
        x = y.astype(np.float32).astype(float) if digits is None else np.round(y, digits)
        assert equal_columns(np.column_stack([y + 1, x]), y) == ("input 2",)
        assert equal_columns(x[:, None], y + 0.3) == ()

    @pytest.mark.long
    def test_it_is_said_of_a_model_that_is_green(self) -> None:
        X, y = table(1)
        X[:, 2] = np.round(y, 4)
        model = cgp.ExactGPRegressor(options={"n_restarts": 0}, random_state=0).fit(X[:N], y[:N])
        for report in (compare(model, X[N:], y[N:], progress=False), cross_validate(model)):
            assert report.evidence.equal == ("input 3",)
            assert any("input 3" in one for one in report.warnings)


def test_no_gain_above_five_nats_is_a_number() -> None:
    assert nats_text(4.99, 0.1, ".2f") == "4.99 ± 0.1"
    assert nats_text(5.01, 0.1) == "more than 5"
    assert nats_text(-8758.0, 0.1) == "less than -5"
    found = Evidence((MEAN, beside("boosted trees", 8758.0, 1.0)))
    texts = [quality(found, 0.5).text(), *(one.text() for one in advise(found, 0.5, 1.0))]
    assert not any("8" in one for one in texts)


def test_a_loss_by_density_quotes_no_error_that_is_equal() -> None:
    """The nearest observation is as far off, and its density is better."""
    nearest = beside("nearest", 0.4, 0.01, rmse=0.163)
    verdict = quality(Evidence((MEAN, nearest)), 0.1634)
    assert verdict.colour == "red"
    assert verdict.figure == pytest.approx(0.4)
    assert "0.163" not in verdict.sentence


def test_the_best_rival_is_that_of_the_greatest_gain_everywhere() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (2 * N, 4))
    y = np.sign(X[:, 0]) + (X[:, 1] > 0.5) + 0.1 * rng.normal(size=2 * N)
    model = cgp.ExactGPRegressor(optimizer=None, lengthscale=3.0, noise=0.3).fit(X[:N], y[:N])
    report = compare(model, X[N:], y[N:], progress=False)
    best = max(report.baselines, key=lambda one: one.gain)
    assert f"{best.rmse:.3g}" in report.headline


def test_members_that_are_exact_have_no_fitted_frequencies() -> None:
    X, y = table(2)
    lengths = (0.7, 1.5)
    parts = [
        cgp.ExactGPRegressor(optimizer=None, lengthscale=one).fit(X[:40], y[:40]).process_
        for one in lengths
    ]
    nested = MixtureGP.of(parts, np.full(2, 0.5), parts[0].data, "members")
    outer = MixtureGP.of([nested, parts[0]], np.full(2, 0.5), parts[0].data, "members")
    assert FITTED_REMARK not in outer.remarks


class TestSimplestCauseFirst:
    @pytest.mark.long
    def test_short_deviations_want_a_factor(self) -> None:
        """Deviations that are 40 % short: no noise is missing, and no kernel is at fault."""
        n_right = 0
        for seed in range(6):
            rng = np.random.default_rng([seed, 4])
            X = rng.uniform(-2, 2, (2 * N, 2))
            prior = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
            cov = prior + 0.05 * np.eye(2 * N)
            y = np.linalg.cholesky(cov) @ rng.normal(size=2 * N)
            gain = np.linalg.solve(cov[:N, :N], cov[:N, N:])
            mean = gain.T @ y[:N]
            std = np.sqrt(np.diagonal(cov[N:, N:] - cov[N:, :N] @ gain))
            report = cgp.audit((mean, 0.6 * std), X[:N], y[:N], X[N:], y[N:], progress=False)
            assert not report.evidence.shapes.is_latent
            n_right += report.advice[0].action.startswith("Multiply")
            assert report.advice[0].gain == pytest.approx(
                report.nlpd - gaussian_nlpd(y[N:], mean, std), abs=0.1
            )
        assert n_right == 6

    def test_noise_is_missing_where_it_beats_any_factor(self) -> None:
        errors, variance = np.random.default_rng(0).normal(size=300), np.geomspace(0.01, 1, 300)
        assert not Shapes.of(errors, np.full(300, 0.6)).is_latent
        assert not Shapes.of(errors * np.sqrt(variance), 0.6 * np.sqrt(variance)).is_latent
        assert Shapes.of(errors * np.sqrt(variance + 0.5), np.sqrt(variance)).is_latent

    def test_a_rival_gains_what_a_new_fit_does_not(self) -> None:
        rivals = (MEAN, beside("same kernel", 0.16, 0.01), beside("additive kernel", 0.17, 0.01))
        (advice,) = advise(Evidence(rivals), 0.5, 1.0)
        assert advice.gain == pytest.approx(0.16)
        assert "additive" not in advice.action
        rivals = (*rivals[:2], beside("additive kernel", 0.3, 0.01))
        (advice,) = advise(Evidence(rivals), 0.5, 1.0)
        assert advice.gain == pytest.approx(0.14)

    @pytest.mark.long
    def test_a_kernel_that_only_wants_a_fit(self) -> None:
        """Not additive: the same kernel with its own lengthscales is what gains."""
        X, y = table(5)
        y = np.sin(2 * X[:, 0] * X[:, 1]) + 0.1 * np.random.default_rng(1).normal(size=2 * N)
        model = cgp.ExactGPRegressor(optimizer=None, lengthscale=8.0, noise=0.5).fit(X[:N], y[:N])
        report = compare(model, X[N:], y[N:], progress=False)
        again = cgp.ExactGPRegressor(random_state=0).fit(X[:N], y[:N])
        mean, std = again.predict(X[N:], return_std=True)
        truth = report.nlpd - gaussian_nlpd(y[N:], mean, std)
        assert report.advice[0].gain == pytest.approx(truth, abs=0.05)
        assert "same kernel" in report.advice[0].action

    def test_predictions_in_other_units_lack_no_noise(self) -> None:
        X, y = table(6)
        model = cgp.ExactGPRegressor(options={"n_restarts": 0}, random_state=0).fit(X[:N], y[:N])
        mean, std = model.predict(X[N:], return_std=True)
        for law in ((mean, std), (100 + 30 * mean, 30 * std)):
            given = (X[:N], 100 + 30 * y[:N], X[N:], 100 + 30 * y[N:])
            report = cgp.audit(law, *given, progress=False)
            assert not any("noise" in one.action for one in report.advice)
            assert bool(report.advice) is (law[0] is mean)
            assert all("unit" in one.action for one in report.advice)


def gaussian_nlpd(y, mean, std) -> float:
    z = (y - mean) / std
    return float(np.mean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi)))


class TestConstantRuns:
    @staticmethod
    def record(seed: int) -> tuple[np.ndarray, TimeAxis]:
        rng = np.random.default_rng(seed)
        times = np.datetime64("2024-03-01") + np.arange(24 * 30) * np.timedelta64(1, "h")
        course = 50 + 20 * np.sin(np.arange(times.size) / 24 * 2 * np.pi)
        values = np.round(course + 3 * rng.normal(size=(8, times.size)), seed % 2)
        values[rng.uniform(size=values.shape) < 0.05] = np.nan
        if seed % 3 == 0:  # all rest at night, and one sensor for longer
            values[:, course < 38] = 0.0
            values[2, course < 50] = 0.0
        return values, TimeAxis.of(times)

    def test_readings_that_change_have_none(self) -> None:
        for seed in range(60):
            values, axis = self.record(seed)
            assert constant_runs(values, axis.values, axis) == []

    def test_a_detector_at_zero_for_two_weeks(self) -> None:
        for seed in range(12):
            values, axis = self.record(seed)
            values[5, 100 : 100 + 14 * 24] = 0.0
            (run,) = constant_runs(values, axis.values, axis)
            assert (run.sensor, run.value) == (5, 0.0)
            assert run.n >= 14 * 24
            assert run.stop - run.start >= (14 * 24 - 1) * 3600


class TestRivalsGetWhatTheModelHas:
    def test_the_transform_that_the_model_chose(self) -> None:
        """A linear law of log y, whose density in y is the one of the logarithms and the slope."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (2 * N, 2))
        y = np.exp(X @ [1.0, -0.7] + 0.2 * rng.normal(size=2 * N))
        plain = cgp.ExactGPRegressor(
            options={"n_restarts": 0}, target_transform="log", random_state=0
        )
        inner = plain.fit(X[:N], y[:N]).process_
        process = MixtureGP.of([inner, inner], np.full(2, 0.5), inner.data, "members")
        expected = {one.name: one for one in table_baselines(X[:N], np.log(y[:N]), X[N:])}["linear"]
        linear = {one.name: one for one in rivals_of(process, X[N:])}["linear"]
        found = BesideBaseline.of(y[N:], linear.mean[:, 0], linear.std[:, 0], linear)
        there = gaussian_nlpd(np.log(y[N:]), expected.mean, expected.std) + np.log(y[N:]).mean()
        assert found.nlpd == pytest.approx(there, rel=1e-9)
        mean = np.exp(expected.mean + 0.5 * expected.std**2)
        np.testing.assert_allclose(linear.mean[:, 0], mean, rtol=1e-6)

    @pytest.mark.long
    def test_categories_are_one_column_to_boosted_trees(self) -> None:
        """Their error is that of scikit-learn's trees given the column as a category."""
        rng = np.random.default_rng(0)
        level, x = rng.integers(0, 12, 900), rng.uniform(-1, 1, 900)
        y = np.where(np.isin(level, [0, 3, 5, 9, 11]), 5 * np.sign(x), 0) + rng.normal(size=900)
        frame = pd.DataFrame({"x": x, "s": [f"l{k}" for k in level]})
        model = cgp.ExactGPRegressor(optimizer=None).fit(frame[:600], y[:600])
        points, kinds = model.points(frame[600:]), model.encoding_.categories
        coded, plain = (
            {one.name: one for one in rivals_of(model.process_, points, given)}["boosted trees"]
            for given in (kinds, ())
        )
        errors = [float(np.mean((one.mean[:, 0] - y[600:]) ** 2)) for one in (coded, plain)]
        assert errors[0] < 0.8 * errors[1]
        with pytest.warns(UserWarning, match="'never' did not occur"):
            unseen = model.points(frame[600:].assign(s="never"))
        new = rivals_of(model.process_, unseen, kinds)
        assert all(np.isfinite(one.mean).all() for one in new)
