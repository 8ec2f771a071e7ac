"""Checks of residuals along columns: statistics by definition, corrections by closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from coupledgp.diagnostics import (
    ResidualCheck,
    register_residual_check,
    unregister_residual_check,
)
from coupledgp.diagnostics.residuals.checks import CHECKS, _label
from coupledgp.diagnostics.residuals.columns import (
    INPUT,
    ORDER,
    PREDICTED,
    UNSEEN,
    Column,
    checked_metadata,
    columns_of,
)
from coupledgp.errors import InvalidInputError

N = 120


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
    assert found.shift == pytest.approx(design @ weights, rel=1e-10)


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
        assert check.applies(one)
        own = check.statistic(one, r)
        assert check.statistic(one, 7 * r) == pytest.approx(own, rel=1e-9)
        if check.concerns != "spread":  # a bias of all rows is told by calibration
            assert check.statistic(one, r + 3.0) == pytest.approx(own, rel=1e-6)


def test_groups_are_shrunk_by_the_variances_of_the_analysis_of_variance():
    rng = np.random.default_rng(4)
    labels = np.repeat(["a", "b", "c", "d"], 30)
    offsets = np.repeat([2.0, -2.0, 1.0, -1.0], 30)
    r = offsets + 0.5 * rng.normal(size=N)
    found = CHECKS["groups"].correction(column(labels), r, np.arange(N)).shift
    means = np.array([r[labels == one].mean() for one in "abcd"])
    within = np.mean([r[labels == one].var(ddof=1) for one in "abcd"])
    between = means.var(ddof=1) - within / 30
    wanted = means * 30 / (30 + within / between)
    assert found[::30] == pytest.approx(wanted, rel=1e-10)
    text = CHECKS["groups"].text(column(labels, name="site"), r, 2.0)
    assert "`site` differ by 3.6" in text  # twice the deviation of the offsets


def test_spread_is_the_likeliest_log_variance():
    rng = np.random.default_rng(5)
    values = rng.uniform(size=4000)
    r = np.exp(1.5 * (values - 0.5)) * rng.normal(size=4000)
    one = column(values, name="depth")
    found = CHECKS["spread"].correction(one, r, np.arange(4000)).spread
    # Two cosines follow a line but for its ends; the estimate has 4000 rows.
    assert np.log(found) == pytest.approx(1.5 * (values - 0.5), abs=0.2)
    assert CHECKS["spread"].text(one, r, 1.0).startswith("Errors grow with column `depth`")
    assert CHECKS["spread"].text(column(-values), r, 1.0).startswith("Errors shrink")


@pytest.mark.parametrize("period", [12.0, 24.0])
def test_a_period_is_named(period):
    hours = np.arange(200.0)
    r = np.sin(2 * np.pi * hours / period) ** 3 + 0.3 * np.random.default_rng(6).normal(size=200)
    found = CHECKS["repeats"].text(column(hours, name="hour"), r, 1.0)
    assert found.startswith("Errors repeat with period ")
    named = float(found.split("period ")[1].split()[0])
    assert named == pytest.approx(period, rel=0.06)  # half a cycle of the range


def test_a_period_of_times_is_in_their_unit():
    stamps = np.datetime64("2024-03-01") + np.arange(240) * np.timedelta64(1, "h")
    r = np.sin(2 * np.pi * np.arange(240) / 24)
    text = CHECKS["repeats"].text(column(stamps, name="time"), r, 1.0)
    assert text == "Errors repeat with period 23.9 hours of column `time`"


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
        rows = {"hour": np.arange(30.0), "row order": np.arange(30)}
        found = columns_of(rows, np.arange(30.0)[:, None])
        assert [one.name for one in found] == ["hour"]

    def test_names_of_inputs(self):
        inputs = np.random.default_rng(0).uniform(size=(30, 2))
        assert [one.name for one in columns_of({}, inputs, ("a", "b"))] == ["a", "b"]
        assert [one.name for one in columns_of({}, inputs)] == ["input 1", "input 2"]

    def test_some_points_of_groups_keep_their_names(self):
        part = column(np.array(list("aabbcc") * 5)).take(np.array([2, 3, 4, 5]))
        assert part is not None
        assert part.labels is not None
        assert part.labels.tolist() == ["b", "c"]

    @pytest.mark.parametrize(
        ("metadata", "said"),
        [
            ([1, 2, 3], "expected a data frame or a mapping"),
            ({"a": [1, 2]}, "expected 3 values of 'a'"),
        ],
    )
    def test_metadata_that_do_not_fit_are_refused(self, metadata, said):
        with pytest.raises(InvalidInputError, match=said):
            checked_metadata(metadata, 3)

    def test_values_that_are_neither_numbers_nor_labels_are_refused(self):
        with pytest.raises(InvalidInputError, match="numbers, times or labels for 'c'"):
            Column.of("c", np.ones(3, dtype=complex), UNSEEN)


class EveryOther(ResidualCheck):
    """Residuals of even rows above those of odd ones."""

    name = "every other"
    origins = (ORDER,)

    def statistic(self, column, residuals):
        return (residuals[:, ::2].mean(axis=1) - residuals[:, 1::2].mean(axis=1)) / residuals.std()

    def correction(self, column, residuals, rows):
        raise AssertionError("no pattern is planted")

    def text(self, column, residuals, scale):
        return "Even rows are above odd ones"

    def remedy(self, column, residuals):
        return "Look at the rows."


def test_a_check_of_ones_own_is_registered_and_taken_out():
    register_residual_check(EveryOther())
    try:
        with pytest.raises(InvalidInputError, match="'every other' is taken"):
            register_residual_check(EveryOther())
        register_residual_check(EveryOther(), replace=True)
        assert list(CHECKS)[-1] == "every other"
        assert CHECKS["every other"].applies(column(np.arange(40.0), ORDER))
        assert not CHECKS["every other"].applies(column(np.arange(40.0), PREDICTED))
    finally:
        unregister_residual_check("every other")
    with pytest.raises(InvalidInputError, match="got 'every other'"):
        unregister_residual_check("every other")
    with pytest.raises(InvalidInputError, match="subclass of ResidualCheck"):
        register_residual_check(len)


def test_labels_that_are_whole_numbers_have_no_decimal_point():
    assert [_label(one) for one in (4.0, np.float64(-2.0), 1.5, "north", 7)] == [
        "4", "-2", "1.5", "north", "7",
    ]  # fmt: skip
