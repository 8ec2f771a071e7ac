"""The search for hyperparameters: imputations, Fisher's identity, and what it finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.imputation import Imputer, SpaceTimeData
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.kernels.time import Constant, Matern12, Matern32
from coupledgp.search.space_time import rounds
from coupledgp.search.space_time.rounds import ImputationRounds
from tests.inference.space_time.dense import made

MOST = 5.5


def imputer_of(dense, seed=0):
    p = dense.roots.size
    return Imputer(dense.data, lambda theta: dense.gram[:p, :p], np.random.default_rng(seed))


def rounds_of(dense, **options):
    p = dense.roots.size
    settings = {"own_scales": False, "fixed_noise": False, "seed": 0} | options
    return ImputationRounds(dense.data, lambda theta: dense.gram[:p, :p], [], **settings)


def start_of(terms, p, noise=0.3):
    return SpaceTimeParameters(np.zeros(0), terms, noise, np.ones(p))


def test_data_state_their_gaps_and_steps():
    observed = np.array([[1, 0, 0, 1, 1], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]], dtype=bool)
    data = SpaceTimeData(np.where(observed, [1.0, 2, 3, 4, 8], 0), observed, np.arange(5.0) * 3)
    assert data.seen.tolist() == [True, True, False, True, True]
    assert data.gaps.sum() == 7
    assert not data.gaps[:, 2].any()
    assert (data.step, data.is_regular) == (3.0, True)
    expected = [[1, 2, 3, 4, 8], [2, 2, 4, 6, 8], [0, 0, 0, 0, 0]]
    np.testing.assert_allclose(data.interpolated(), expected)
    one = SpaceTimeData(np.ones((2, 1)), np.ones((2, 1), dtype=bool), np.zeros(1))
    assert (one.step, one.is_regular) == (1.0, True)
    assert not SpaceTimeData(data.values, observed, np.array([0, 1, 2, 3, 9.0])).is_regular


@pytest.mark.parametrize("irregular", [False, True])
def test_imputations_have_the_law_of_what_is_not_observed(irregular):
    dense, m = made(irregular=irregular), 500
    drawn = imputer_of(dense).drawn(dense.parameters, m)
    mean, covariance = dense.law(dense.sensors, dense.times)
    covariance = covariance + np.diag(np.repeat(dense.noise * dense.roots**2, dense.times.size))
    out = ~dense.observed
    assert (drawn[:, dense.observed] == dense.values[dense.observed]).all()
    spread = np.sqrt(covariance.diagonal().reshape(dense.shape))
    z = ((drawn - mean) / spread)[:, out]
    # Means are solved for to a residual of 1e-3.
    assert np.abs(z.mean(axis=0)).max() < MOST / np.sqrt(m) + 0.01
    cells = np.flatnonzero(out)
    expected = covariance[np.ix_(cells, cells)] / np.outer(spread[out], spread[out])
    error = np.abs(z.T @ z / m - expected)
    # Rows of cells at times at which nothing was observed are corrected by one of a few draws.
    assert error.max() < MOST * np.sqrt(2 / m) + 0.02


def test_complete_data_are_their_own_imputation():
    dense = made(observed=np.ones((9, 40), dtype=bool))
    np.testing.assert_array_equal(imputer_of(dense).drawn(dense.parameters, 3), dense.values[None])


def test_the_slope_of_the_evidence_is_the_mean_slope_of_complete_data():
    """Fisher's identity, by dense algebra on 64 imputations."""
    dense = made(p=6, n=24, n_sites=6, terms=(Term("graph", Matern12(6.0), 1.0),
                                              Term("node", Constant(), 0.3)))  # fmt: skip
    start = dense.parameters
    x, h = start.variables, 1e-4

    def at(moved, data):
        found = start.at(moved)
        return replace(data, terms=found.terms, noise=found.noise)

    def slopes(data, quads):
        found = []
        for e in h * np.eye(x.size):
            ahead, behind = (at(x + sign * e, data) for sign in (1, -1))
            change = (ahead.inverse - behind.inverse) / (2 * h)
            determinant = (ahead.log_determinant - behind.log_determinant) / (2 * h)
            quad = np.einsum("ma,ab,mb->m", quads, change, quads)
            found.append(-0.5 * (determinant + quad))
        return np.array(found)

    expected = slopes(dense, dense.values.reshape(1, -1)[:, dense.there])[:, 0]
    drawn = imputer_of(dense).drawn(start, 64).reshape(64, -1)
    whole = replace(dense, observed=np.ones(dense.shape, dtype=bool))
    each = slopes(whole, drawn)
    error = each.std(axis=1, ddof=1) / 8
    assert np.abs((each.mean(axis=1) - expected) / error).max() < 3.5


CASES = {
    "scattered gaps": {},
    "complete": {"observed": np.ones((9, 40), dtype=bool)},
    "irregular": {"irregular": True},
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_found_is_as_likely_as_the_truth(case):
    dense = made(**CASES[case], own=False, terms=(Term("graph", Matern12(8.0), 1.0),
                                                  Term("node", Matern12(2.0), 0.3)))  # fmt: skip
    start = start_of((Term("graph", Matern12(3.0), 0.5), Term("node", Matern12(3.0), 0.5)), 9)
    found = rounds_of(dense).run([start])
    at = found.point
    assert replace(dense, terms=at.terms, noise=at.noise).log_evidence > dense.log_evidence - 1.0
    assert found.n_evaluations > 5
    assert (found.n_rounds == 1) == (case == "complete")


def test_noise_may_be_fixed():
    dense = made(own=False)
    found = rounds_of(dense, fixed_noise=True).run([start_of(dense.terms, 9, 0.17)])
    assert found.point.noise == pytest.approx(0.17)


def test_the_kernel_of_greater_evidence_is_taken():
    for truth in (Matern12(8.0), Matern32(8.0)):
        dense = made(
            p=6, n=150, n_sites=6, own=False, noise=0.01, terms=(Term("graph", truth, 1.0),),
            observed=np.random.default_rng(0).random((6, 150)) > 0.1,
        )  # fmt: skip
        starts = [
            start_of((Term("graph", k, 0.5),), 6, 0.1) for k in (Matern12(5.0), Matern32(5.0))
        ]
        found = rounds_of(dense).run(starts).point.terms[0].kernel
        assert type(found) is type(truth)


def test_each_sensor_may_have_a_scale_of_its_own():
    roots = np.sqrt([0.2, 1.0, 5.0, 1.0, 1.0, 0.5, 2.0])
    observed = np.random.default_rng(0).random((7, 200)) > 0.2
    dense = made(
        p=7, n=200, n_sites=7, roots=roots / np.exp(np.log(roots).mean()), observed=observed,
        terms=(Term("graph", Matern12(8.0), 1.0),), noise=0.3,
    )  # fmt: skip
    start = start_of((Term("graph", Matern12(5.0), 0.5),), 7)
    found = rounds_of(dense, own_scales=True).run([start]).point.roots
    assert np.abs(np.log(found / dense.roots)).max() < 0.25
    shared = rounds_of(dense).run([start]).point.roots
    np.testing.assert_array_equal(shared, np.ones(7))


def test_one_seed_gives_the_same_bits():
    dense = made(own=False)
    start = start_of(dense.terms, 9)
    first, again, other = (
        rounds_of(dense, seed=seed).run([start]).point.variables for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_dark_times_change_little():
    """They hold no information; the search fills them by draws."""
    dense = made(own=False, n=80, observed=np.random.default_rng(0).random((9, 80)) > 0.2)
    start = start_of(dense.terms, 9)
    more = replace(
        dense, times=np.arange(100.0),
        observed=np.pad(dense.observed, ((0, 0), (0, 20))),
        values=np.pad(dense.values, ((0, 0), (0, 20))),
    )  # fmt: skip
    first, second = (rounds_of(data).run([start]).point for data in (dense, more))
    evidence = [
        replace(dense, terms=at.terms, noise=at.noise).log_evidence for at in (first, second)
    ]
    assert abs(evidence[1] - evidence[0]) < 1.5


def test_rounds_that_gain_nothing_are_the_least_number_of_them(monkeypatch):
    monkeypatch.setattr(rounds, "SETTLED", np.inf)
    dense = made()
    found = rounds_of(dense).run([dense.parameters])
    assert found.n_rounds == rounds.LEAST_ROUNDS
    assert found.converged
