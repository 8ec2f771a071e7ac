"""The equation of gaps against dense algebra: identities, weights, determinants, iterations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.inference.space_time import gaps as module
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.gaps import Runs
from coupledgp.kernels.time import Constant, Matern12, Matern32, Periodic
from tests.inference.space_time.dense import Dense, gram_of_places, made

CASES = {
    "regular": {},
    "irregular": {"irregular": True},
    "weights": {"weights": True},
    "shared": {"own": False},
    "cycle": {"terms": (Term("graph", Periodic(9.0), 1.0), Term("node", Matern12(3.0), 0.5))},
    "graph alone": {"terms": (Term("graph", Matern32(6.0), 1.0),)},
    "node alone": {"terms": (Term("node", Matern32(6.0), 1.0),)},
    "little noise": {"noise": 1e-3},
    "two times": {"n": 2, "observed": np.arange(18).reshape(9, 2) % 4 > 0},
    "one time": {"n": 1, "observed": np.arange(9)[:, None] > 2},
}


@pytest.fixture(scope="module", params=CASES)
def dense(request):
    return made(**CASES[request.param])


def test_complete_data_are_those_of_dense_algebra(dense):
    found = dense.filled()
    system = found.gaps().system
    Y = np.random.default_rng(0).normal(size=(2, *dense.shape)) * found.observed
    there = found.there
    expected = Y.reshape(2, -1)[:, there] @ found.inverse
    np.testing.assert_allclose(system.solve(Y).reshape(2, -1)[:, there], expected, atol=1e-8)
    diagonal = np.zeros(Y[0].size)
    diagonal[there] = found.inverse.diagonal()
    np.testing.assert_allclose(system.diagonal.reshape(-1), diagonal, atol=1e-8)
    assert system.log_determinant == pytest.approx(found.log_determinant, rel=1e-12, abs=1e-8)
    f = dense.covariance(dense.sensors, dense.times, dense.sensors, dense.times)
    np.testing.assert_allclose(system.applied(Y).reshape(2, -1), Y.reshape(2, -1) @ f, atol=1e-8)


def test_gaps_are_filled_with_their_means_and_weigh_nothing(dense):
    found = dense.gaps()
    values, alpha = found.filled(dense.values[None], 1e-12)
    np.testing.assert_allclose(alpha[0], dense.alpha, atol=1e-8)
    mean = dense.mean(dense.sensors, dense.times)
    np.testing.assert_allclose(values[0][dense.data.gaps], mean[dense.data.gaps], atol=1e-8)
    assert np.abs(alpha[0][~dense.observed]).max() < 1e-8


def test_the_determinant_is_that_of_complete_data_and_that_of_the_gaps(dense):
    gaps = dense.gaps()
    value, error = gaps.log_determinant(4, 20, 0)
    if gaps.precision is not None:
        value -= np.log(gaps.precision[gaps.precision > 0]).sum()
    total = gaps.system.log_determinant + value
    assert total == pytest.approx(dense.log_determinant, rel=1e-12, abs=1e-9)
    assert error == 0.0


def test_many_gaps_have_an_estimate_within_its_error(monkeypatch):
    dense = made()
    monkeypatch.setattr(module, "DENSE_GAPS", 10)
    gaps = dense.gaps()
    errors = []
    for seed in range(40):
        value, error = gaps.log_determinant(8, 40, seed)
        errors.append((value + gaps.system.log_determinant - dense.log_determinant) / error)
        assert 0 < error < 0.08 * gaps.size
    # Two standard errors of eight vectors hold 95 per cent, and not 91.
    assert np.mean(np.abs(errors) > 2) < 0.0455 + 2.5 * np.sqrt(0.0455 / 40)
    assert abs(np.mean(errors)) < 0.5


def test_draws_of_the_gaps_have_their_covariance_given_what_is_observed():
    dense = made(p=6, n=16, n_sites=6, weights=True)
    gaps, m = dense.gaps(), 2000
    d, w = gaps.deviations(m, np.random.default_rng(0), 1e-4)
    complete = dense.filled()
    everywhere = np.zeros((dense.observed.size,) * 2)
    everywhere[np.ix_(complete.there, complete.there)] = complete.inverse
    cells = gaps.runs.cells
    matrix = everywhere[np.ix_(cells, cells)] + np.diag(gaps.precision)
    inverse = np.linalg.inv(matrix)
    for draws, covariance in ((d, inverse), (w, matrix)):
        spread = np.sqrt(covariance.diagonal())
        z = (draws / spread).T @ (draws / spread) / m - covariance / np.outer(spread, spread)
        assert np.abs(z).max() < 5.5 * np.sqrt(2 / m)
    # E[d w'] is the unit matrix, on which variances in gaps rest.
    unit = np.eye(cells.size)
    spread = np.sqrt(np.outer(inverse.diagonal(), matrix.diagonal()) + unit)
    assert np.abs((d.T @ w / m - unit) / spread).max() < 5.5 / np.sqrt(m)


def test_draws_of_complete_data_have_the_covariance_of_the_system():
    dense = made(p=6, n=8, n_sites=6)
    m = 8000
    drawn = dense.gaps().system.drawn(m, np.random.default_rng(0)).reshape(m, -1)
    spread = np.sqrt(dense.system.diagonal())
    error = drawn.T @ drawn / m - dense.system
    assert np.abs(error / np.outer(spread, spread)).max() < 5.5 * np.sqrt(2 / m)


def test_noise_without_end_is_a_gap_and_none_is_an_observation():
    rng = np.random.default_rng(4)
    plain = made()
    cells = (rng.random(plain.shape) < 0.3) & plain.observed
    for extra, expected in ((1e9, replace(plain, observed=plain.observed & ~cells)),
                            (1e-9, plain)):  # fmt: skip
        noisy = replace(plain, extra=np.where(cells, extra, 0.0))
        _, alpha = noisy.gaps().filled(plain.values[None], 1e-12)
        np.testing.assert_allclose(alpha[0], expected.alpha, atol=1e-6)


def test_a_sensor_without_values_and_complete_data_are_no_special_cases():
    dense = made()
    complete = dense.filled()
    gaps = replace(complete, values=dense.values).gaps()
    assert gaps.size == 0
    values, _ = gaps.filled(dense.values[None])
    np.testing.assert_array_equal(values[0], dense.values)
    assert gaps.solve(np.empty((2, 0))).shape == (2, 0)
    assert gaps.log_determinant(4, 20, 0) == (0.0, 0.0)
    d, w = gaps.deviations(3, np.random.default_rng(0))
    assert d.shape == w.shape == (3, 0)
    # Leaving the dark sensor out leaves the weights of the others alone.
    rest = np.delete(np.arange(9), 3)
    gram = dense.gram[np.ix_(rest, rest)]
    without = Dense(
        gram, dense.terms, dense.noise, dense.roots[rest], dense.times, dense.observed[rest],
        values=dense.values[rest],
    )  # fmt: skip
    _, alpha = without.gaps().filled(without.values[None], 1e-12)
    np.testing.assert_allclose(alpha[0], dense.alpha[rest], atol=1e-8)


def test_a_start_saves_steps_and_leads_to_the_same_solution():
    dense = made()
    gaps = dense.gaps()
    right = np.random.default_rng(0).normal(size=(2, gaps.size))
    found = gaps.solve(right, 1e-10)
    n_steps = gaps.n_iterations
    near = gaps.solve(right, 1e-10, start=found * (1 + 1e-6))
    assert gaps.n_iterations < n_steps
    np.testing.assert_allclose(near, found, atol=1e-7)
    np.testing.assert_allclose(gaps.product(found), right, atol=1e-8)


def test_runs_are_cells_that_follow_each_other_on_one_sensor():
    unknown = np.zeros((3, 10), dtype=bool)
    unknown[0, 7:] = unknown[1, :4] = unknown[2, 5] = True
    runs = Runs.of(unknown)
    assert runs.lengths.tolist() == [3, 4, 1]
    assert runs.sensors.tolist() == [0, 1, 2]
    assert runs.firsts.tolist() == [7, 0, 5]
    assert runs.starts.tolist() == [0, 3, 7]
    np.testing.assert_array_equal(runs.cells, np.flatnonzero(unknown))


def test_long_runs_are_cut_into_pieces_of_nearly_equal_length():
    unknown = np.zeros((2, 25), dtype=bool)
    unknown[0, 1:24] = unknown[1, :7] = True
    runs = Runs.of(unknown, longest=7)
    assert runs.lengths.tolist() == [5, 6, 6, 6, 7]
    assert runs.lengths.sum() == unknown.sum()
    np.testing.assert_array_equal(runs.starts, np.cumsum(runs.lengths) - runs.lengths)
    assert runs.sensors.tolist() == [0, 0, 0, 0, 1]


def test_cells_with_noise_of_their_own_stand_alone():
    unknown = np.ones((1, 5), dtype=bool)
    alone = np.array([False, False, True, False, False])
    assert Runs.of(unknown, alone).lengths.tolist() == [2, 1, 2]


def test_a_run_longer_than_the_blocks_is_solved_for_all_the_same(monkeypatch):
    dense = made()
    monkeypatch.setattr(Runs.of.__func__, "__defaults__", (None, 4))
    gaps = dense.gaps()
    assert gaps.runs.lengths.max() <= 4
    _, alpha = gaps.filled(dense.values[None], 1e-12)
    np.testing.assert_allclose(alpha[0], dense.alpha, atol=1e-8)


def test_blocks_of_solves_do_not_change_them(monkeypatch):
    dense = made()
    gaps = dense.gaps()
    right = np.random.default_rng(0).normal(size=(5, gaps.size))
    expected = gaps.product(right)
    monkeypatch.setattr(module, "MOST_ENTRIES", 2 * dense.observed.size)
    np.testing.assert_allclose(gaps.product(right), expected, rtol=1e-12)


def iterations_of(observed, noise=0.05):
    p, n = observed.shape
    terms = (
        Term("graph", Matern32(12.0), 1.0),
        Term("graph", Constant(), 0.3),
        Term("node", Matern12(6.0), 0.1),
    )
    gram = gram_of_places(p, reach=2.0)
    values = np.random.default_rng(0).normal(size=(p, n)) * observed
    dense = Dense(gram, terms, noise, np.ones(p), np.arange(n) * 1.0, observed, values=values)
    gaps = dense.gaps()
    gaps.filled(dense.values[None], 1e-6)
    return gaps.n_iterations


def test_steps_of_conjugate_gradients_stay_few():
    rng = np.random.default_rng(1)
    p, n = 100, 300
    assert iterations_of(rng.random((p, n)) > 0.1) <= 15
    observed = np.ones((p, n), dtype=bool)
    for row in observed:
        start = rng.integers(0, n - 75)
        row[start : start + 75] = False
    assert iterations_of(observed) <= 40


@pytest.mark.parametrize("noise", [1e-8, 1e-12, 1e-16])
def test_with_hardly_any_noise_gaps_are_interpolated(noise):
    dense = made(noise=noise, own=False)
    values, _ = dense.gaps().filled(dense.values[None], 1e-8)
    expected = made(noise=1e-8, own=False, values=dense.values).mean(dense.sensors, dense.times)
    np.testing.assert_allclose(values[0][dense.data.gaps], expected[dense.data.gaps], atol=1e-3)
