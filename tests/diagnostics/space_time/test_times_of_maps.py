"""The time at which a map opens."""

from types import SimpleNamespace

import numpy as np

from coupledgp.diagnostics.space_time.times import last_observed, telling_time


def page(mean, observed=None):
    return SimpleNamespace(
        mean=mean, times=np.arange(float(mean.shape[1])),
        observed=np.zeros_like(mean) if observed is None else observed,
    )  # fmt: skip


def test_a_map_opens_when_means_are_farthest_from_usual():
    mean = np.random.default_rng(0).normal(60.0, 1.0, (30, 50))
    mean[5:25, 31] -= 30.0
    assert telling_time(page(mean)) == 31
    assert telling_time(page(mean), np.arange(1, 50, 3)) == 10  # the frame number of time 31


def test_a_forecast_and_a_dark_time_are_no_times_to_open_at():
    mean = np.random.default_rng(1).normal(60.0, 1.0, (30, 50))
    mean[:, 45] -= 30.0
    observed = np.zeros_like(mean)
    observed[:, 40:] = np.nan
    found = telling_time(page(mean, observed))
    assert found <= 39


def test_where_no_time_tells_more_it_is_the_last_with_data():
    mean = np.array([[50.0], [60.0], [70.0]]) + np.sin(2 * np.pi * np.arange(48) / 24)
    report = page(mean)
    assert telling_time(report) == last_observed(report) == 47
    nothing = page(mean, np.full_like(mean, np.nan))
    assert telling_time(nothing) == 0
