"""Quantiles and intervals of observations: closed forms, and the mixture's own distribution."""

import numpy as np
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(4)
X, X_TEST = RNG.normal(size=(60, 2)), RNG.normal(size=(9, 2))
Y = 5.0 + 2.0 * np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=60)
LEVELS = np.array([0.01, 0.2, 0.5, 0.9, 0.999])
GRAPH = cgp.Graph.from_edges(np.arange(30), (np.arange(30) + 1) % 30)


@pytest.fixture(scope="module")
def mixture():
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=4,
        hyperparameters="averaged",
        options={"n_hyperparameter_draws": 4, "max_iter": 5},
        random_state=0,
    ).fit(X, Y)
    assert len(gp.members_) > 1
    return gp


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_a_gaussian_law_has_normal_quantiles(n_outputs):
    y = Y if n_outputs is None else np.column_stack([Y, -3 * Y])
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X, y)
    mean, std = gp.predict(X_TEST, return_std=True)
    expected = stats.norm.ppf(LEVELS, mean[..., None], std[..., None])
    np.testing.assert_allclose(gp.predict_quantiles(X_TEST, LEVELS), expected, rtol=1e-12)
    low, high = gp.predict_interval(X_TEST, 0.9)
    np.testing.assert_allclose(high - low, 2 * stats.norm.ppf(0.95) * std, rtol=1e-12)
    np.testing.assert_allclose((high + low) / 2, mean, rtol=1e-12)


def test_graphs_have_them_too():
    nodes = np.arange(0, 30, 2)
    gp = cgp.GraphGPRegressor(GRAPH, random_state=0, hyperparameters="maximum")
    gp.fit(nodes, np.sin(nodes / 5))
    mean, std = gp.predict([1, 3], return_std=True)
    low, high = gp.predict_interval([1, 3])
    np.testing.assert_allclose([low, high], mean + np.outer([-1, 1], 1.959963984540054 * std))


def test_quantiles_of_a_mixture_invert_its_distribution_function(mixture):
    found = mixture.predict_quantiles(X_TEST, LEVELS)
    chances = np.zeros_like(found)
    for weight, member in zip(mixture.member_weights_, mixture.members_, strict=True):
        mean, std = member.predict(X_TEST, return_std=True)
        chances += weight * stats.norm.cdf(found, mean[:, None], std[:, None])
    np.testing.assert_allclose(chances, np.broadcast_to(LEVELS, chances.shape), atol=1e-12)
    assert (np.diff(found, axis=1) > 0).all()


def test_intervals_of_a_mixture_hold_its_draws(mixture):
    low, high = mixture.predict_interval(X_TEST, 0.8)
    draws = mixture.sample_y(X_TEST, n_samples=4000, random_state=1)
    inside = ((draws > low[:, None]) & (draws < high[:, None])).mean(axis=1)
    # Draws at one point are independent: five standard errors of a share of 0.8.
    assert np.abs(inside - 0.8).max() < 5 * np.sqrt(0.16 / 4000)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, np.nan, "much"])
def test_levels_that_are_none(mixture, level):
    with pytest.raises(InvalidInputError, match="level: expected"):
        mixture.predict_interval(X_TEST, level)


def test_quantiles_that_are_none(mixture):
    with pytest.raises(InvalidInputError, match="quantiles: expected probabilities between 0 and"):
        mixture.predict_quantiles(X_TEST, [0.5, 1.0])
    with pytest.raises(InvalidInputError, match="quantiles: expected a non-empty"):
        mixture.predict_quantiles(X_TEST, [])
