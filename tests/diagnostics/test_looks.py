"""Looks at residuals along columns: statistics by definition, corrections, false alarms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from coupledgp.diagnostics import LOOKS, Look, Normal, Predictions, Tables
from coupledgp.diagnostics.checks.data import INPUT, ORDER, UNSEEN, Column, columns_of
from coupledgp.diagnostics.checks.residuals import (
    ALARM,
    _label,
    corrected_gain,
    exchanged_neighbours,
    look_at,
    neighbours,
    residual_checks,
    rows_in_runs,
)
from coupledgp.errors import InvalidInputError

N = 120
ONE = np.ones(1)
CHECKS = {one.name: one for one in LOOKS}


def column(values, origin=UNSEEN, name="c"):
    found = Column.of(name, values, origin)
    assert found is not None
    return found


def test_next_is_the_correlation_with_the_next_value_in_the_order_of_the_column():
    rng = np.random.default_rng(0)
    values, r = rng.permutation(N).astype(float), rng.normal(size=(3, N))
    ordered = (r - r.mean(axis=1, keepdims=True))[:, np.argsort(values)]
    wanted = (ordered[:, 1:] * ordered[:, :-1]).sum(axis=1) / np.square(ordered).sum(axis=1)
    assert CHECKS["next"].statistic(column(values), r) == pytest.approx(wanted, rel=1e-12)


def test_next_is_corrected_by_least_squares_on_both_neighbours():
    rng = np.random.default_rng(1)
    r = np.convolve(rng.normal(size=N + 9), 0.7 ** np.arange(10), "valid")
    found = CHECKS["next"].correction(column(np.arange(float(N))), r, np.arange(N))
    away = r - r.mean()
    before, after = np.r_[0.0, away[:-1]], np.r_[away[1:], 0.0]
    design = np.column_stack([before, after])
    rows = np.vstack([design, 2 * np.eye(2)])  # a penalty of four rows
    weights = np.linalg.lstsq(rows, np.r_[r, 0.0, 0.0], rcond=None)[0]
    assert found[0] == pytest.approx(design @ weights, rel=1e-10)


def test_course_is_the_share_that_cosines_explain():
    rng = np.random.default_rng(2)
    values, r = rng.uniform(size=N), rng.normal(size=(2, N))
    rank = (np.argsort(np.argsort(values)) + 0.5) / N
    design = np.column_stack([np.cos(np.pi * k * rank) for k in range(5)])
    for own, found in zip(r, CHECKS["course"].statistic(column(values), r), strict=True):
        fitted = design @ np.linalg.lstsq(design, own, rcond=None)[0]
        share = 1 - np.square(own - fitted).sum() / np.square(own - own.mean()).sum()
        assert found**3 == pytest.approx(share, rel=1e-9)


def test_statistics_know_no_scale_and_those_of_means_no_shift():
    rng = np.random.default_rng(3)
    r = rng.normal(size=(2, N))
    for check in CHECKS.values():
        one = column(rng.integers(0, 6, N).astype(str) if check.of_groups else rng.uniform(size=N))
        assert check.applies(one, True)
        own = check.statistic(one, r)
        assert check.statistic(one, 7 * r) == pytest.approx(own, rel=1e-9)
        if check.concerns != "spread":  # a bias of all rows is told by calibration
            assert check.statistic(one, r + 3.0) == pytest.approx(own, rel=1e-6)


def test_groups_are_shrunk_by_the_variances_of_the_analysis_of_variance():
    rng = np.random.default_rng(4)
    labels = np.repeat(["a", "b", "c", "d"], 30)
    offsets = np.repeat([2.0, -2.0, 1.0, -1.0], 30)
    r = offsets + 0.5 * rng.normal(size=N)
    found = CHECKS["groups"].correction(column(labels), r, np.arange(N))[0]
    means = np.array([r[labels == one].mean() for one in "abcd"])
    within = np.mean([r[labels == one].var(ddof=1) for one in "abcd"])
    between = means.var(ddof=1) - within / 30
    wanted = means * 30 / (30 + within / between)
    assert found[::30] == pytest.approx(wanted, rel=1e-10)
    text = CHECKS["groups"].sentence(column(labels, name="site"), r, 2.0)
    assert "`site` differ by 3.6" in text  # twice the deviation of the offsets


def test_spread_is_the_likeliest_log_variance():
    rng = np.random.default_rng(5)
    values = rng.uniform(size=4000)
    r = np.exp(1.5 * (values - 0.5)) * rng.normal(size=4000)
    one = column(values, name="depth")
    found = CHECKS["spread"].correction(one, r, np.arange(4000))[1]
    # Two cosines follow a line but for its ends; the estimate has 4000 rows.
    assert np.log(found) == pytest.approx(1.5 * (values - 0.5), abs=0.2)
    assert CHECKS["spread"].sentence(one, r, 1.0).startswith("Errors grow with column `depth`")
    assert CHECKS["spread"].sentence(column(-values), r, 1.0).startswith("Errors shrink")


@pytest.mark.parametrize("period", [12.0, 24.0])
def test_a_period_is_named(period):
    hours = np.arange(200.0)
    r = np.sin(2 * np.pi * hours / period) ** 3 + 0.3 * np.random.default_rng(6).normal(size=200)
    found = CHECKS["repeats"].sentence(column(hours, name="hour"), r, 1.0)
    assert found.startswith("Errors repeat with period ")
    named = float(found.split("period ")[1].split()[0])
    assert named == pytest.approx(period, rel=0.06)  # half a cycle of the range


def test_a_period_of_times_is_in_their_unit():
    stamps = np.datetime64("2024-03-01") + np.arange(240) * np.timedelta64(1, "h")
    r = np.sin(2 * np.pi * np.arange(240) / 24)
    text = CHECKS["repeats"].sentence(column(stamps, name="time"), r, 1.0)
    assert text == "Errors repeat with period 23.9 hours of column `time`"


def predictions(y, correlation=None, inputs=None, **columns):
    law = Normal(np.zeros((len(y), 1)), np.ones((len(y), 1)))
    frame = pd.DataFrame(columns) if columns else None
    matrix = None if correlation is None else correlation[..., None]
    return Predictions(law, y[:, None], inputs=inputs, columns=frame, correlation=matrix)


def found(values, correlation=None, inputs=None, looks=LOOKS, **columns):
    p = predictions(values, correlation, inputs, **columns)
    return [one for one in residual_checks(Tables(p, looks=looks)) if one.fired]


class TestColumns:
    def test_numbers_labels_and_times(self):
        assert not column(np.arange(50.0)).is_groups
        assert column(np.array(["a", "b"] * 25)).is_groups
        assert column(np.arange(50) % 3).is_groups  # few whole numbers
        assert not column(np.arange(50) % 3, INPUT).is_groups  # an input is a number
        assert column(np.arange(50).astype("datetime64[h]")).is_time

    @pytest.mark.parametrize(
        "values", [np.ones(20), np.array(["a"] * 20), np.arange(20).astype(str)]
    )
    def test_columns_that_tell_nothing_are_left_out(self, values):
        assert Column.of("c", values, UNSEEN) is None

    def test_missing_numbers_are_the_median(self):
        values = np.arange(9.0)
        values[0] = np.nan
        assert column(values).values[0] == pytest.approx(4.5)

    def test_a_column_under_two_names_is_looked_at_once(self):
        p = predictions(np.zeros(30), hour=np.arange(30.0))
        assert [one.name for one in columns_of(p)] == ["hour"]

    def test_some_points_of_groups_keep_their_names(self):
        part = column(np.array(list("aabbcc") * 5)).take(np.array([2, 3, 4, 5]))
        assert part is not None
        assert part.labels is not None
        assert part.labels.tolist() == ["b", "c"]

    def test_values_that_are_neither_numbers_nor_labels_are_refused(self):
        with pytest.raises(InvalidInputError, match="numbers, times or labels for 'c'"):
            Column.of("c", np.ones(3, dtype=complex), UNSEEN)


def test_true_laws_raise_as_many_alarms_as_promised():
    # Correlated residuals of a known law, with an order and groups that go with the correlation.
    place = np.linspace(0, 1, 100)
    correlation = 0.9 * np.exp(-np.abs(place[:, None] - place[None]) / 0.05) + 0.1 * np.eye(100)
    root = np.linalg.cholesky(correlation)
    columns = {"place": place, "part": np.repeat(list("abcde"), 20)}
    rng = np.random.default_rng(0)
    alarms = sum(
        bool(found(root @ rng.normal(size=100), correlation, **columns)) for _ in range(30)
    )
    # Of 30 at ALARM each three or more come in 1 of 2000 runs; as independent rows all are alarms.
    assert alarms <= 2
    assert found(root @ rng.normal(size=100), np.eye(100), **columns)


@pytest.mark.parametrize(
    ("name", "look"),
    [("persist", "next"), ("drift", "course"), ("repeat", "repeats"), ("sites", "groups"),
     ("grow", "spread"), ("loud", "group spread")],
)  # fmt: skip
def test_each_planted_pattern_is_found_alone(name, look):
    rng, n = np.random.default_rng(7), 240
    step, site = np.arange(float(n)), rng.integers(0, 8, 240)
    noise = rng.normal(size=n)
    values = {
        "persist": np.convolve(rng.normal(size=n + 9), 0.7 ** np.arange(10), "valid"),
        "drift": noise + 1.5 * (step / n) ** 2,
        "repeat": noise + 1.2 * np.sin(2 * np.pi * step / 24),
        "sites": noise + 1.2 * rng.normal(size=8)[site],
        "grow": noise * np.exp(1.5 * step / n),
        "loud": noise * np.where(site < 2, 4.0, 1.0),
    }[name]
    checks = found(values, None, step=step, site=np.char.add("s", site.astype(str)))
    assert checks[0].rule == look
    assert checks[0].gain > 0.05
    assert checks[0].p <= ALARM
    # The rest is explained by it, but that a course stands in part for what persists.
    assert len(checks) == 1 or name == "persist"


def test_the_gain_is_that_of_the_true_correction():
    # Offsets of forty sites: the gain is half the log of the variance over that within sites.
    rng, n, g = np.random.default_rng(8), 4000, 40
    site = np.arange(n) % g
    values = rng.normal(size=n) + rng.normal(size=g)[site]
    gap, left = corrected_gain(CHECKS["groups"], column(site.astype(str)), values[:, None])
    within = np.mean([values[site == k].var() for k in range(g)])
    true = 0.5 * np.log(np.square(values).mean() / within)
    # Forty means of 3200 rows cost 40 / 6400 nats, and the error of a chi-square besides.
    assert true - gap.mean == pytest.approx(40 / 6400, abs=0.01)
    assert left.std() == pytest.approx(1.0, abs=0.05)


def test_points_of_unknown_correlation_say_nothing_on_means_along_inputs():
    inputs = pd.DataFrame(np.random.default_rng(9).uniform(size=(100, 1)), columns=["x"])
    values = np.sin(5 * inputs["x"].to_numpy())
    assert not [one for one in found(values, None, inputs) if one.column == "x"]
    assert found(values, np.eye(100), inputs)[0].column == "x"


def test_errors_that_go_together_in_an_unknown_way_are_not_looked_at():
    from dataclasses import replace

    p = predictions(np.sin(np.arange(100.0) / 5), step=np.arange(100.0))
    assert residual_checks(Tables(p, looks=LOOKS))
    clustered = replace(p, cluster=pd.DataFrame({"sensor": np.arange(100) % 4}))
    assert residual_checks(Tables(clustered, looks=LOOKS)) == []


def test_many_points_are_looked_at_in_runs():
    rows = rows_in_runs(5000, 1000, 0)
    assert np.unique(rows).size == rows.size == 1000
    assert (np.diff(rows) == 1).sum() >= 900
    assert rows_in_runs(40, 1000, 0).size == 40


def test_few_points_say_nothing():
    step = column(np.arange(19.0), ORDER)
    assert look_at(np.arange(19.0)[:, None], ONE, None, [step], LOOKS) == []


def test_a_look_of_ones_own_joins_the_family():
    def signs(one):
        return 1 - 2 * (np.arange(len(one.values)) % 2)

    own = Look(
        "alternating", lambda one, r: np.abs((r * signs(one)).mean(axis=1)),
        lambda one, r, rows: ((r * signs(one))[rows].mean() * signs(one), np.ones(len(r))),
        lambda one, r, scale: "Errors alternate", lambda one, r: "Look at every other row.",
        origins=(ORDER,),
    )  # fmt: skip
    values = np.random.default_rng(0).normal(size=80) + np.tile([1.0, -1.0], 40)
    (check,) = [one for one in found(values, looks=(*LOOKS, own)) if one.rule == "alternating"]
    assert check.sentence == "Errors alternate."
    assert check.gain == pytest.approx(0.5 * np.log(2), abs=0.15)  # variances two and one


def test_morans_i_of_a_right_law_and_of_one_that_misses_what_neighbours_share():
    place = np.linspace(0, 1, 80)
    correlation = 0.8 * np.exp(-np.abs(place[:, None] - place[None]) / 0.1) + 0.2 * np.eye(80)
    near = np.r_[1, np.arange(79)]
    rng, root = np.random.default_rng(1), np.linalg.cholesky(correlation)
    own = neighbours((root @ rng.normal(size=80))[:, None], correlation[..., None], near)
    # The mean over draws is near that of a ratio of quadratic forms, the correlation of neighbours.
    assert own.expected == pytest.approx(correlation[0, 1] - 0.05, abs=0.08)
    assert own.p > 0.003
    r = (root @ rng.normal(size=80))[:, None]
    missed = neighbours(r, np.eye(80)[..., None], near)
    assert missed.p <= 0.003
    assert missed.gain == pytest.approx(-0.5 * np.log1p(-((missed.value - missed.expected) ** 2)))
    draws = (root @ rng.normal(size=(80, 41))).T
    assert exchanged_neighbours(draws, near).p > 0.003


def test_labels_that_are_whole_numbers_have_no_decimal_point():
    assert [_label(one) for one in (4.0, np.float64(-2.0), 1.5, "north", 7)] == [
        "4", "-2", "1.5", "north", "7",
    ]  # fmt: skip
