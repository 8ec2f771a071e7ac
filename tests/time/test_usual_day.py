"""The usual day: against refits, differences and the law that days were drawn from."""

from __future__ import annotations

import numpy as np
import pytest

from coupledgp.random import FloatArray
from coupledgp.time import usual_day as ud
from coupledgp.time.axis import TimeAxis
from coupledgp.time.usual_day import DayMoments, UsualDay, variance_loss

P = 24
NO_HOLIDAYS = np.empty(0, dtype=np.int64)


def axis_of(n_days: float, start: str = "2024-03-04") -> TimeAxis:
    """Hours from a Monday on."""
    times = np.datetime64(start, "h") + np.arange(round(n_days * P)) * np.timedelta64(1, "h")
    return TimeAxis.of(times)


def moments_of(n_days: int, seed: int = 0, holidays: tuple[int, ...] = ()) -> DayMoments:
    dates = 19786 + np.arange(n_days)  # 2024-03-04 is a Monday
    same = ud.parts_of_days(dates, np.array(holidays, dtype=np.int64))
    variances = np.random.default_rng(seed).uniform(0.2, 2.0, (4, 4))
    variances[0, 0] = 0.0
    return DayMoments(same, variances)


def refit(V: FloatArray, k: FloatArray, own: float, *, flat: bool) -> tuple[FloatArray, float]:
    """Weights and variance of the best linear prediction, by Lagrange's equations if flat."""
    D = len(V)
    if not flat:
        weights = np.linalg.solve(V, k)
        return weights, own - k @ weights
    system = np.zeros((D + 1, D + 1))
    system[:D, :D] = V
    system[D, :D] = system[:D, D] = 1.0
    solved = np.linalg.solve(system, np.append(k, 1.0))
    weights = solved[:D]
    return weights, own - 2 * k @ weights + weights @ V @ weights


@pytest.mark.parametrize("n_days", [2, 9])
def test_days_left_out_are_refits_without_them(n_days: int) -> None:
    moments = moments_of(n_days, holidays=(19788,))
    weights, variances = moments.left_out()
    for b, v in enumerate(moments.variances):
        V = np.tensordot(v, moments.same, axes=1)
        for d in range(n_days):
            rest = np.arange(n_days) != d
            k = V[rest, d]
            expected, variance = refit(V[np.ix_(rest, rest)], k, v[:3].sum(), flat=b == 0)
            np.testing.assert_allclose(weights[b, d, rest], expected, atol=1e-10)
            assert weights[b, d, d] == 0.0
            assert variances[b, d] == pytest.approx(variance, abs=1e-10)


def test_further_day_is_the_regression_on_all_days() -> None:
    moments = moments_of(8)
    alike = ud.parts_of_days(19786 + np.arange(9), NO_HOLIDAYS)[:, -1, :-1]
    weights, variances = moments.further(alike)
    for b, v in enumerate(moments.variances):
        V = np.tensordot(v, moments.same, axes=1)
        expected, variance = refit(V, v @ alike, v[:3].sum(), flat=b == 0)
        np.testing.assert_allclose(weights[b], expected, atol=1e-10)
        assert variances[b] == pytest.approx(variance, abs=1e-10)


@pytest.mark.parametrize("flat", [False, True])
def test_slopes_of_the_loss_are_differences(flat: bool) -> None:
    rng = np.random.default_rng(1)
    same = ud.parts_of_days(19786 + np.arange(9), np.array([19787]))
    parts = same[ud.distinct_parts(same, flat=flat)]
    M = np.cov(rng.normal(size=(9, 30)))
    logs = rng.normal(size=len(parts))
    free = np.ones(9) if flat else None
    _, slopes = variance_loss(logs, parts, M, free)
    for j in range(logs.size):
        away = 1e-5 * np.eye(logs.size)[j]
        ends = [variance_loss(logs + s * away, parts, M, free)[0] for s in (1, -1)]
        assert slopes[j] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-8)


def test_one_kind_of_day_is_the_shrinkage_of_textbooks() -> None:
    # Five working days: the balanced one-way layout, whose estimates have a closed form.
    rng = np.random.default_rng(2)
    a = rng.normal(size=(1, 400)) * 1.5 + rng.normal(size=(5, 400))
    same = ud.parts_of_days(19786 + np.arange(5), NO_HOLIDAYS)
    M = a @ a.T / 400
    v = ud.fitted_variances(M, same, flat=False)
    within = (np.trace(M) - M.sum() / 5) / 4
    between = M.sum() / 25
    assert v[3] == pytest.approx(within, rel=1e-3)
    assert v[0] == pytest.approx(between - within / 5, rel=1e-3)
    assert v[1] == v[2] == 0.0
    weights = DayMoments(same, np.array([v, v])).left_out()[0][1]
    shrunk = v[0] / (v[0] + v[3] / 4)
    np.testing.assert_allclose(weights[0, 1:], shrunk / 4, rtol=1e-9)


def test_parts_that_repeat_others_are_dropped() -> None:
    working = ud.parts_of_days(19786 + np.arange(5), NO_HOLIDAYS)
    assert ud.distinct_parts(working, flat=False) == [0, 3]
    assert ud.distinct_parts(working, flat=True) == [3]
    week = ud.parts_of_days(19786 + np.arange(14), NO_HOLIDAYS)
    assert ud.distinct_parts(week, flat=False) == [0, 1, 2, 3]
    friday = ud.parts_of_days(19790 + np.arange(2), NO_HOLIDAYS)
    assert ud.distinct_parts(friday, flat=False) == [0, 3]


def drawn(n_days: int, p: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Values (p, n) of days with a shape of each kind, and the shape of each (p, D, P)."""
    rng = np.random.default_rng(seed)
    hours = np.arange(P)
    kinds = ud.kinds_of(19786 + np.arange(n_days), NO_HOLIDAYS)
    waves = np.cos(2 * np.pi * (hours - rng.uniform(0, P, (p, 2, 1))) / P)
    shape = 3.0 * waves[:, kinds]
    own = rng.normal(size=(p, n_days, P))
    return (shape + own + 50.0).reshape(p, -1), shape + 50.0


def test_the_shape_of_days_is_found_and_gaps_have_it() -> None:
    axis = axis_of(14)
    values, shape = drawn(14, 30, 3)
    observed = np.ones(values.shape, dtype=bool)
    observed[:10, 100:108] = False
    observed[3, 200:224] = False
    found = ud.fitted_usual_day(axis, values, observed, axis.values)
    assert found.is_worth_it
    assert found.usual is not None
    error = found.usual.means(axis.values) - shape.reshape(30, -1)
    # A mean of at least three days of the kind with noise of variance one, and no more.
    assert np.sqrt((error**2).mean()) < 0.5
    gaps = found.usual.values.reshape(30, -1)[:10, 100:108] - shape.reshape(30, -1)[:10, 100:108]
    assert np.sqrt((gaps**2).mean()) < 1.6
    shares = found.usual.shares
    assert shares["kind of day"] > 0.5
    assert sum(shares.values()) == pytest.approx(1.0)
    assert found.usual.days_by_kind == {"working day": 10, "weekend": 4, "holiday": 0}


def test_a_day_s_own_values_are_not_in_its_mean() -> None:
    axis = axis_of(6)
    values, _ = drawn(6, 5, 4)
    usual = ud.usual_day_of(axis, values, axis.values)
    assert usual is not None
    other = values.copy()
    other[:, P : 2 * P] += 1000.0
    changed = UsualDay(
        axis, P, usual.dates, other.reshape(5, 6, P), usual.variances, usual.holidays
    )
    day = slice(P, 2 * P)
    before, after = usual.means(axis.values), changed.means(axis.values)
    np.testing.assert_allclose(after[:, day], before[:, day], rtol=1e-9)
    assert np.abs(after[:, :P] - before[:, :P]).min() > 1.0


def test_noise_has_no_usual_day() -> None:
    axis = axis_of(10)
    values = np.random.default_rng(5).normal(size=(20, 10 * P))
    found = ud.fitted_usual_day(axis, values, np.ones(values.shape, bool), axis.values)
    assert not found.is_worth_it
    assert found.usual is not None
    assert found.usual.shares["day itself"] > 0.9


def test_units_and_the_order_of_sensors_do_not_matter() -> None:
    axis = axis_of(8)
    values, _ = drawn(8, 6, 6)
    order = np.array([3, 1, 5, 0, 2, 4])
    factor = np.array([1.0, 100.0, 1e-3, 7.0, 1.0, 2.0])[:, None]
    one, two = (
        ud.usual_day_of(axis, v, axis.values) for v in (values, factor * values[order] + 5.0)
    )
    assert one is not None
    assert two is not None
    expected = factor * one.means(axis.values)[order] + 5.0
    np.testing.assert_allclose(two.means(axis.values), expected, rtol=1e-6)


def test_days_that_begin_or_end_within_the_times_are_no_whole_days() -> None:
    axis = axis_of(3.5, "2024-03-04T12")
    n = axis.n_times
    values = np.random.default_rng(7).normal(size=(2, n))
    dates, days = ud.whole_days(axis, values, axis.values, P)
    np.testing.assert_array_equal(dates, [19787, 19788, 19789])
    np.testing.assert_array_equal(days[:, 0], values[:, 12 : 12 + P])
    usual = ud.usual_day_of(axis, values, axis.values)
    assert usual is not None
    mean, variance = usual.further_day(19786)
    np.testing.assert_allclose(usual.means(axis.values)[:, :12], mean[:, 12:])
    assert variance.shape == (2,)
    assert (variance > 0).all()
    assert ud.usual_day_of(axis_of(1.9), values[:, :46], axis_of(1.9).values) is None


def test_days_are_those_of_local_clocks() -> None:
    # The night of 31 March 2024 skips an hour in Paris.
    pd = pytest.importorskip("pandas")
    times = pd.date_range("2024-03-29", periods=4 * P - 1, freq="h", tz="Europe/Paris")
    axis = TimeAxis.of(times)
    clock = np.array([time.hour for time in times], dtype=np.float64)
    dates, days = ud.whole_days(axis, clock[None], axis.values, P)
    assert dates.size == 4
    np.testing.assert_allclose(days[0], np.tile(np.arange(24.0), (4, 1)))


def test_a_day_that_ends_is_added_with_variances_kept() -> None:
    axis, longer = axis_of(6), axis_of(7)
    values, _ = drawn(7, 4, 8)
    usual = ud.usual_day_of(axis, values[:, : 6 * P], axis.values)
    assert usual is not None
    added = usual.with_days(values[:, 5 * P :], longer.values[5 * P :])
    whole = UsualDay(
        axis, P, 19786 + np.arange(7), values.reshape(4, 7, P), usual.variances, NO_HOLIDAYS
    )
    np.testing.assert_allclose(added.means(longer.values), whole.means(longer.values), rtol=1e-12)


def test_times_without_days_have_no_usual_day() -> None:
    assert ud.steps_of_day(TimeAxis.of(np.arange(100.0)), np.arange(100.0)) is None
    odd = axis_of(4).values * 7.0 / 24.0
    assert ud.steps_of_day(axis_of(4), odd) is None
    assert ud.steps_of_day(axis_of(4), axis_of(4).values) == P
