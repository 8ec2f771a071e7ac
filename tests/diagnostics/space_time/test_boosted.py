"""Boosted trees, means of days and of weeks, and their columns, against plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.space_time import boosted
from coupledgp.diagnostics.space_time.boosted import (
    LAGS,
    LagColumns,
    boosted_trees,
    most_correlated,
)
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, rival_seconds
from coupledgp.diagnostics.space_time.simple import (
    last_value,
    mean_at_the_time_of_the_week,
    mean_of_other_days,
)
from coupledgp.diagnostics.space_time.splits import SensorReadings

P, PER_DAY, N_DAYS = 6, 24, 21
STEP = 3600.0


def city(seed=0, gaps=0.1):
    """Hourly values whose next one is a bent function of the last, about a usual day."""
    rng = np.random.default_rng(seed)
    n = PER_DAY * N_DAYS
    x = np.zeros((P, n))
    for t in range(1, n):
        x[:, t] = 2.0 * np.tanh(x[:, t - 1]) * np.sign(1.2 - np.abs(x[:, t - 1]))
        x[:, t] += 0.3 * rng.normal(size=P)
    hours = np.arange(n) % PER_DAY
    values = 50 + 5 * np.cos(2 * np.pi * hours / PER_DAY) + x
    values[rng.random((P, n)) < gaps] = np.nan
    seconds = STEP * np.arange(n)
    graph = cgp.Graph.from_edges(np.arange(P - 1), np.arange(1, P))
    days = 19_000 + np.arange(n) // PER_DAY
    return SensorReadings(
        values, seconds, np.arange(P), graph, seconds % 86400, list(range(P)), seconds, days
    )


@pytest.mark.parametrize("width", [0, 2])
def test_means_of_other_days_are_those_of_a_loop(width):
    data = city()
    found = mean_of_other_days(data, width)
    hours = np.arange(data.times.size) % PER_DAY
    for i, t in [(0, 0), (1, 30), (5, 300), (2, data.times.size - 1)]:
        away = np.abs(hours - hours[t])
        near = np.minimum(away, PER_DAY - away) <= width
        other = near & (data.days != data.days[t]) & data.seen[i]
        assert found[i, t] == pytest.approx(data.values[i, other].mean())


def test_without_days_they_are_counted_by_midnights():
    data = city()
    one, two = (mean_of_other_days(d, 1) for d in (data, replace(data, days=None)))
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_means_of_the_week_are_those_of_a_loop():
    data = city()
    found = mean_at_the_time_of_the_week(data)
    hours = np.arange(data.times.size) % PER_DAY
    for i, t in [(0, 5), (3, 200)]:
        same = (hours == hours[t]) & (data.days % 7 == data.days[t] % 7) & data.seen[i]
        assert found[i, t] == pytest.approx(data.values[i, same].mean())
    week = slice(0, 7 * PER_DAY)
    short = replace(
        data, values=data.values[:, week], times=data.times[week], stamps=data.stamps[week],
        seconds_of_day=data.seconds_of_day[week], days=data.days[week],
    )  # fmt: skip
    assert np.isnan(mean_at_the_time_of_the_week(short)).all()


@pytest.mark.parametrize("ahead", [True, False])
def test_columns_are_readings_before_and_after(ahead):
    data = city(gaps=0.3)
    peers = most_correlated(data)
    rows, times = np.array([0, 3, 5]), np.array([100, 211, 498])
    origins = times - (4 if ahead else 1)
    X = LagColumns(data, peers).of(rows, times, origins, ahead)
    for k, (i, t, o) in enumerate(zip(rows, times, origins, strict=True)):
        before = np.flatnonzero(data.seen[i, : o + 1])[-1]
        assert X[k, 0] == data.values[i, before]
        assert X[k, len(LAGS)] == t - before
        other = peers[i, 0]
        last = np.flatnonzero(data.seen[other, : o + 1])[-1]
        assert X[k, len(LAGS) + 1] == data.values[other, last]
        if not ahead:
            later = t + 1 + np.flatnonzero(data.seen[i, t + 1 :])[0]
            place = len(LAGS) + 1 + peers.shape[1]
            assert X[k, place] == data.values[i, later]
            assert X[k, place + 1] == later - t
            np.testing.assert_array_equal(X[k, place + 2 :][: peers.shape[1]],
                                          data.values[peers[i], t])  # fmt: skip
    if ahead:
        # Nothing after an origin is in a row: later readings do not matter but for the usual day.
        changed = data.values.copy()
        changed[:, 97:101] += 1000.0
        other = LagColumns(replace(data, values=changed), peers).of(rows, times, origins, True)
        known = len(LAGS) + 1 + peers.shape[1]
        np.testing.assert_array_equal(other[0, :known], X[0, :known])
        assert not np.array_equal(other[0], X[0])


def test_it_finds_a_bent_recursion_and_its_errors():
    """One step ahead and in single gaps; the noise has a standard deviation of .3."""
    data = city()
    hidden = np.zeros(data.values.shape, dtype=bool)
    hidden[:, -2:] = True
    hidden[:, :-2] |= np.random.default_rng(1).random((P, hidden.shape[1] - 2)) < 0.05
    mean, std = boosted_trees(data.without(hidden))
    ahead = (mean - data.values)[:, -2:]
    last = (last_value(data.without(hidden)) - data.values)[:, -2:]
    assert np.nanmean(ahead**2) < 0.5 * np.nanmean(last**2)
    one = hidden & data.seen
    one[:, -2:] = False
    error = (mean - data.values)[one]
    usual = (mean_of_other_days(data.without(hidden), 0) - data.values)[one]
    assert np.sqrt(np.mean(error**2)) < 0.6 * np.sqrt(np.mean(usual**2))
    assert 0.88 < (np.abs(error) < 1.96 * std[one]).mean() < 0.99
    assert np.isnan(mean[data.seen & ~hidden]).all()


def test_few_times_and_silent_sensors():
    data = city()
    few = replace(
        data, values=data.values[:, :6], times=data.times[:6], stamps=data.stamps[:6],
        seconds_of_day=data.seconds_of_day[:6], days=data.days[:6],
    )  # fmt: skip
    assert np.isnan(boosted_trees(few)[0]).all()
    silent = data.values.copy()
    silent[2] = np.nan
    mean, std = boosted_trees(replace(data, values=silent))
    assert np.isnan(mean[2]).all()
    assert np.isnan(std[2]).all()
    others = np.delete(np.isnan(silent), 2, axis=0)
    assert np.isfinite(np.delete(mean, 2, axis=0)[others]).all()


def test_costs_grow_with_sensors_and_times():
    for name in SPACE_TIME_RIVALS:
        assert 0 < rival_seconds(name, 10, 100) < rival_seconds(name, 400, 5000)
    assert rival_seconds("low rank", 2000, 2000) > 60


def test_errors_are_of_blocks_that_are_kept_back(monkeypatch):
    """Trees that learn rows by heart are not sure of others."""
    monkeypatch.setattr(boosted, "TREES", 400)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)), rng.normal(size=1500)
    groups, blocks = np.ones(1500, dtype=int), np.arange(1500) // 60
    _, std = boosted._fitted(X, y, groups, blocks, X[:5], groups[:5])
    assert (std > 1.0).all()
