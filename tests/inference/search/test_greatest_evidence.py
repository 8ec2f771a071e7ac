"""Searches end near the greatest evidence of many random starts, whatever the function."""

import warnings

import numpy as np
import pytest

import coupledgp as cgp
from benchmarks.hyperparameter_search import drawn_function, shortfall

# Functions that a search from multiples of the spread takes for noise, or partly so.
HARD = (38, 74, 287)


@pytest.mark.parametrize("number", [*HARD, 11])
def test_no_random_start_ends_higher(number: int) -> None:
    assert shortfall("exact", number, n_starts=4) < 1.0


def test_no_random_start_of_a_member_ends_much_higher() -> None:
    assert shortfall("member", 74, n_starts=2) < 2.0


def test_few_rows_of_features_are_searched_as_well() -> None:
    assert shortfall("sparse", 74, n_starts=2) < 2.0


def test_functions_have_the_sizes_that_are_said() -> None:
    for number in range(6):
        X, y, _ = drawn_function(number)
        assert X.shape[1] == 1 + number % 3
        assert 30 <= len(X) <= 300
        np.testing.assert_allclose([*X.std(axis=0), y.std()], 1.0)


@pytest.mark.parametrize("make", [
    lambda seed: cgp.ExactGPRegressor(random_state=seed),
    lambda seed: cgp.LocalGPRegressor("gaussian", n_frequencies=0, random_state=seed),
])  # fmt: skip
def test_a_function_of_many_periods_is_no_noise(make) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    t, asked = np.linspace(0, 4, 120), np.linspace(0.1, 3.9, 200)

    def wave(t: np.ndarray) -> np.ndarray:
        return np.sin(6 * np.pi * t) + 0.3 * np.sin(14 * np.pi * t)

    y = wave(t) + 0.03 * rng.normal(size=t.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = make(1).fit(t[:, None], y).predict(asked[:, None]) - wave(asked)
    assert np.sqrt(np.mean(error**2)) < 0.04
