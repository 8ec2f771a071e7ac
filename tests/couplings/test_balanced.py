"""Balanced and recombined samples: means, sizes, what is kept, what is refused."""

import numpy as np
import pytest

from coupledgp.couplings.balanced import balanced_sample, recombined_sample
from coupledgp.errors import InvalidInputError

N, M, R = 80, 16, 10
DRAWS = 300


def pool():
    rng = np.random.default_rng([20, 25])
    sizes = rng.uniform(0.2, 3.0, N)
    return M * sizes / sizes.sum(), rng.normal(size=(R, N))


def test_inclusion_probabilities_and_size():
    pi, functions = pool()
    counts = np.zeros(N)
    for k in range(DRAWS):
        chosen = balanced_sample(pi, functions, k)
        assert chosen.size == M
        counts[chosen] += 1
    z = (counts / DRAWS - pi) / np.sqrt(pi * (1 - pi) / DRAWS)
    # The squares of N standard normal numbers, nearly independent: five standard deviations.
    assert abs(np.mean(z**2) - 1) < 5 * np.sqrt(2 / N)
    assert np.abs(z).max() < 4.5


def test_one_of_two_is_sampled_with_its_probability():
    pi, none = np.array([0.2, 0.8]), np.zeros((0, 2))
    first = np.array([balanced_sample(pi, none, k)[0] == 0 for k in range(400)])
    assert abs(first.mean() - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 400)
    moved = [recombined_sample(np.array([1.0, 4.0, 2.0]), none[:, :1].repeat(3, 1), 2, k)
             for k in range(400)]  # fmt: skip
    mean = np.mean([np.bincount(places, weights, 3) for places, weights in moved], axis=0)
    np.testing.assert_allclose(mean, [1, 4, 2], atol=0.5)


def test_totals_are_kept_better_than_by_independent_draws_the_first_ones_best():
    n, m, r = 200, 40, 20
    rng = np.random.default_rng([20, 26])
    sizes, functions = rng.uniform(0.2, 3.0, n), rng.normal(size=(r, n))
    pi, totals = m * sizes / sizes.sum(), functions.sum(axis=1)
    gaps = np.array([
        (functions[:, s] / pi[s]).sum(axis=1) - totals
        for s in (balanced_sample(pi, functions, k) for k in range(40))
    ])  # fmt: skip
    independent = np.sqrt((functions**2 * (1 / pi - 1)).sum(axis=1))
    ratio = np.sqrt(np.mean(gaps**2, axis=0)) / independent
    assert ratio.mean() < 0.65
    assert ratio[:4].mean() < 0.8 * ratio[-4:].mean()


def test_one_function_that_is_the_probability_itself_is_the_size():
    pi, _ = pool()
    assert balanced_sample(pi, np.zeros((0, N)), 0).size == M
    assert balanced_sample(pi, pi[None], 0).size == M


def test_atoms_that_are_sure_are_always_taken():
    pi = np.full(20, 0.5)
    pi[:4] = 1.0
    for k in range(20):
        chosen = balanced_sample(pi, np.random.default_rng(1).normal(size=(5, 20)), k)
        assert set(range(4)) <= set(chosen)
        assert chosen.size == 12


def test_functions_that_depend_on_each_other_end():
    pi, functions = pool()
    twice = np.vstack([functions, functions, functions[:1] + functions[1:2], np.zeros((1, N))])
    assert balanced_sample(pi, twice, 0).size == M
    places, weights = recombined_sample(np.full(N, 1 / N), twice, M, 0)
    np.testing.assert_allclose(functions[:, places] @ weights, functions.mean(axis=1), atol=1e-13)


def test_recombined_means_are_exact():
    _, functions = pool()
    start = np.full(N, 1 / N)
    places, weights = recombined_sample(start, functions[: M - 2], M, 3)
    assert places.size <= M
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    kept = functions[: M - 2]
    np.testing.assert_allclose(kept[:, places] @ weights, kept @ start, atol=1e-13)


def test_weights_are_those_of_the_start_on_average():
    _, functions = pool()
    start = np.random.default_rng(5).uniform(0.5, 1.5, N)
    total, squares = np.zeros(N), np.zeros(N)
    for k in range(DRAWS):
        places, weights = recombined_sample(start, functions[:6], M, k)
        total[places] += weights
        squares[places] += weights**2
    mean = total / DRAWS
    z = (mean - start) / np.sqrt((squares / DRAWS - mean**2) / DRAWS)
    assert abs(np.mean(z**2) - 1) < 6 * np.sqrt(2 / N)


def test_functions_that_are_the_generators_own_numbers_leave_a_direction():
    start = np.full(N, 0.2)
    functions = np.random.default_rng(4).standard_normal((8, N))
    assert balanced_sample(start, functions, 4).size == round(0.2 * N)


def test_every_atom_may_be_left_out():
    _, functions = pool()
    seen = np.zeros(N)
    for k in range(60):
        places, _ = recombined_sample(np.full(N, 1 / N), functions, M, k)
        seen[places] += 1
    # Each is kept with a chance of about M / N = .2 at least, and left out as often as not.
    assert seen.max() < 40


def test_the_same_seed_gives_the_same_sample():
    pi, functions = pool()
    one, two = (balanced_sample(pi, functions, 7) for _ in range(2))
    assert one.tobytes() == two.tobytes()
    assert one.tobytes() != balanced_sample(pi, functions, 8).tobytes()
    one, two = (recombined_sample(pi, functions, 9, 7) for _ in range(2))
    assert one[1].tobytes() == two[1].tobytes()


def test_rounding_of_the_functions_does_not_change_the_sample():
    """Nothing drawn may hang on the last bits of matrix products."""
    pi, functions = pool()
    near = functions * (1 + 1e-13 * np.random.default_rng(2).normal(size=functions.shape))
    for k in range(10):
        assert (balanced_sample(pi, functions, k) == balanced_sample(pi, near, k)).all()
        here, there = (recombined_sample(pi, f, M, k) for f in (functions, near))
        assert (here[0] == there[0]).all()
        np.testing.assert_allclose(here[1], there[1], rtol=1e-8)


def test_a_mixed_basis_of_the_functions_does_not_change_the_sample():
    pi, functions = pool()
    turned = np.linalg.qr(np.random.default_rng(3).normal(size=(R, R)))[0] @ functions
    blocks = balanced_sample(pi, functions, 1), balanced_sample(pi, turned, 1)
    # Until functions are let go the walks are one.
    assert np.intersect1d(*blocks).size > 0.5 * M


@pytest.mark.parametrize(
    ("probabilities", "functions", "text"),
    [
        ([0.5, 0.5, -1.0], np.ones((1, 3)), "positive"),
        ([0.5, 0.5, np.nan], np.ones((1, 3)), "positive"),
        ([0.5, 0.7], np.ones((1, 2)), "whole sum"),
        ([1.5, 0.5], np.ones((1, 2)), "at most 1"),
        ([0.5, 0.5], np.ones((1, 3)), r"shape \(r, 2\)"),
        ([0.5, 0.5], np.array([[1.0, np.inf]]), "finite"),
    ],
)
def test_what_is_refused(probabilities, functions, text):
    with pytest.raises(InvalidInputError, match=text):
        balanced_sample(np.array(probabilities), functions, 0)


def test_a_quadrature_of_one_atom_is_refused():
    with pytest.raises(InvalidInputError, match="n_atoms: expected at least 2, got 1"):
        recombined_sample(np.ones(5), np.ones((1, 5)), 1, 0)
