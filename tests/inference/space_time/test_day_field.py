"""The usual day at sites without a sensor, against dense regressions."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.inference.space_time.day_field import DayField
from coupledgp.inference.space_time.sites import sites_of

N_NODES, N = 14, 48
ROAD = cgp.Graph.from_edges(np.arange(N_NODES - 1), np.arange(1, N_NODES))
SITES = sites_of(ROAD, "heat")
SENSORS = np.array([0, 1, 3, 4, 6, 7, 9, 10, 12])
OTHERS = np.array([2, 5, 13])


def deviations(seed=0):
    return np.random.default_rng(seed).normal(size=(SENSORS.size, N))


@pytest.mark.parametrize("shared", [0.0, 30.0])
def test_means_and_variances_are_those_of_dense_algebra(shared):
    m = deviations()
    field = DayField(SITES, SENSORS, 0.3, shared)
    every = np.concatenate([SENSORS, OTHERS])
    K = SITES.gram(every) + shared
    p = SENSORS.size
    own = K[:p, :p] + 0.3 * np.eye(p)
    mean, variance = field.at(OTHERS, m)
    np.testing.assert_allclose(mean, K[p:, :p] @ np.linalg.solve(own, m), atol=1e-9)
    left = np.diag(K)[p:] + 0.3 - np.diag(K[p:, :p] @ np.linalg.solve(own, K[:p, p:]))
    solved = np.linalg.solve(own, m)
    level = (solved**2 / np.diag(np.linalg.inv(own))[:, None]).mean(axis=0)
    np.testing.assert_allclose(variance, left[:, None] * level, rtol=1e-7)
    of_others, _ = field.others(m)
    for i in range(p):
        rest = np.delete(np.arange(p), i)
        expected = own[i, rest] @ np.linalg.solve(own[np.ix_(rest, rest)], m[rest])
        np.testing.assert_allclose(of_others[i], expected, atol=1e-9)


def test_a_day_that_all_share_is_told_at_other_sites():
    """Sizes of the day that are no neighbours' matter: the mean of all is the best guess."""
    rng = np.random.default_rng(1)
    day = np.cos(2 * np.pi * np.arange(N) / N)
    m = rng.uniform(0.5, 1.5, (SENSORS.size, 1)) * day
    field = DayField.of(SITES, SENSORS, m)
    assert field.shared > 0
    mean, _ = field.at(OTHERS, m)
    np.testing.assert_allclose(mean, np.tile(m.mean(axis=0), (3, 1)), atol=0.25)
    assert np.abs(mean).max() > 0.7


def test_a_day_that_moves_along_the_road_is_that_of_neighbours():
    m = np.cos(2 * np.pi * (np.arange(N) / N - SENSORS[:, None] / 12))
    field = DayField.of(SITES, SENSORS, m)
    mean, _ = field.at(OTHERS[:2], m)
    truth = np.cos(2 * np.pi * (np.arange(N) / N - OTHERS[:2, None] / 12))
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.35
