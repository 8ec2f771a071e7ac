"""Each sensor left out, against laws that are conditioned on the others by dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.inference.space_time import left_out as module
from coupledgp.inference.space_time.left_out import first_left_out, sensors_left_out
from tests.inference.space_time.dense import made

LONG_DARK = np.random.default_rng(3).random((9, 60)) > 0.1
LONG_DARK[:, 20:35] = False
CASES = {
    "complete": {"observed": np.ones((9, 40), dtype=bool)},
    "gaps": {},
    "shared": {"own": False},
    "weights": {"weights": True},
    "irregular": {"irregular": True},
    "dark for long": {"n": 60, "observed": LONG_DARK},
    "two sensors": {"p": 2, "observed": np.random.default_rng(0).random((2, 40)) > 0.2},
    "one time": {"n": 1, "observed": np.arange(9)[:, None] > 2},
    "two times": {"n": 2, "observed": np.arange(18).reshape(9, 2) % 4 > 0},
}


def laws(dense):
    """Means and variances (p, n) of observations without extra noise, given other sensors."""
    mean, variance = np.full((2, *dense.shape), np.nan)
    for i in dense.sensors:
        if not dense.observed[i].any():
            continue
        kept = dense.observed.copy()
        kept[i] = False
        rest = replace(dense, observed=kept, values=dense.values * kept)
        law = rest.law(np.array([i]), dense.times)
        mean[i] = law[0][0]
        variance[i] = law[1].diagonal() + dense.noise * dense.roots[i] ** 2
    return mean, variance


@pytest.mark.parametrize("case", CASES)
def test_laws_are_those_without_the_sensor(case):
    dense = made(**CASES[case])
    found = sensors_left_out(dense.posterior(600))
    mean, variance = laws(dense)
    assert (np.isnan(found.mean) == ~dense.observed).all()
    assert (np.isnan(found.variance) == ~dense.observed).all()
    there = dense.observed
    error = (found.mean - mean) / np.sqrt(variance)
    assert np.abs(error[there]).max() < 2e-3
    ratio = np.sqrt(found.variance / variance)[there]
    assert np.abs(ratio - 1).max() < 0.05
    assert np.abs(ratio - 1).mean() < 0.01


def test_batches_of_sensors_do_not_matter(monkeypatch):
    posterior = made().posterior(4)
    first = sensors_left_out(posterior)
    monkeypatch.setattr(module, "MOST_ENTRIES", 1)
    second = sensors_left_out(posterior)
    np.testing.assert_allclose(first.mean, second.mean, atol=1e-3)
    np.testing.assert_allclose(first.variance, second.variance, rtol=1e-12)


def test_gaps_of_others_are_not_filled_with_the_sensors_help():
    dense = made()
    posterior = dense.posterior(4)
    found = sensors_left_out(posterior).mean[0]
    changed = dense.values.copy()
    changed[0] = np.where(dense.observed[0], 100.0, 0.0)
    other = sensors_left_out(replace(dense, values=changed).posterior(4)).mean[0]
    there = dense.observed[0]
    np.testing.assert_allclose(found[there], other[there], atol=0.02)


def test_some_sensors_have_the_laws_that_they_have_among_all():
    posterior = made().posterior(4)
    rows = np.array([1, 4, 7])
    whole, some = sensors_left_out(posterior), sensors_left_out(posterior, rows)
    np.testing.assert_allclose(some.mean, whole.mean[rows], atol=1e-3)
    np.testing.assert_allclose(some.variance, whole.variance[rows], rtol=1e-12)


def test_a_first_estimate_is_the_law_of_complete_data_away_from_the_ends():
    dense = made(observed=np.ones((9, 90), dtype=bool), n=90)
    posterior = dense.posterior(4)
    first, exact = first_left_out(posterior), sensors_left_out(posterior)
    inner = slice(30, 60)
    error = (first.mean - exact.mean) / np.sqrt(exact.variance)
    assert np.abs(error[:, inner]).max() < 0.01
    np.testing.assert_allclose(first.variance, exact.variance, rtol=1e-9)
