"""Effects of covariates: against dense algebra, and the coefficients that data were drawn with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import binom

from coupledgp.errors import InvalidInputError
from coupledgp.inference.space_time import effects as fx
from coupledgp.inference.space_time.effect_columns import EffectColumns
from coupledgp.inference.space_time.effects import SensorEffects, fitted_effects
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.sensor_scores import SensorLaw, SensorScores
from coupledgp.kernels.time import Constant, Matern12
from coupledgp.random import FloatArray
from coupledgp.series import TimeAxis
from coupledgp.series.covariates import Covariate

p, n = 6, 50
TIMES = np.arange(n, dtype=np.float64)
AXIS = TimeAxis.of(TIMES)
SITES = np.arange(p) * 2
GRAPH = np.exp(-0.5 * np.abs(np.arange(p)[:, None] - np.arange(p)))
TERMS = (
    Term("graph", Matern12(6.0), 0.8), Term("graph", Constant(), 0.3),
    Term("node", Matern12(2.0), 0.2),
)  # fmt: skip
NONE = np.empty(0, dtype=np.int64)


def law_of(gram: FloatArray = GRAPH, roots: FloatArray | None = None) -> SensorLaw:
    return SensorLaw(TERMS, 0.1, gram, np.ones(p) if roots is None else roots, TIMES)


def dense(law: SensorLaw) -> FloatArray:
    """Covariance (p n, p n) of values under a law."""
    lags = TIMES[:, None] - TIMES
    parts = {"graph": np.zeros((n, n)), "node": 0.1 * np.eye(n)}
    for term in TERMS:
        parts[term.where] = parts[term.where] + term.variance * term.kernel.covariance(lags)
    D = np.diag(law.roots**2)
    return np.asarray(np.kron(law.gram, parts["graph"]) + np.kron(D, parts["node"]))


def covariates(rng: np.random.Generator) -> tuple[Covariate, ...]:
    """Lanes of nodes, rain of times, and flow of both."""
    no_times = np.empty(0)
    return (
        Covariate("lanes", "nodes", (), np.arange(2 * p), no_times,
                  rng.integers(1, 4, (2 * p, 1)).astype(float)),
        Covariate("rain", "times", (), NONE, TIMES, (rng.random((1, n)) < 0.3).astype(float)),
        Covariate("flow", "both", (), SITES, TIMES, rng.integers(0, 4, (p, n)).astype(float)),
    )  # fmt: skip


def columns_of(given: tuple[Covariate, ...]) -> tuple[EffectColumns, ...]:
    return tuple(EffectColumns.of(one, AXIS, SITES, TIMES) for one in given)


def fitted(
    law: SensorLaw, values: FloatArray, observed: FloatArray, columns: tuple[EffectColumns, ...]
) -> SensorEffects:
    Z = [one.at(AXIS, SITES, TIMES) for one in columns]
    return fitted_effects(law, AXIS, SITES, columns, values, observed, Z, Z)


def drawn_case(
    seed: int, coefficients: tuple[float, float, float], own: float = 0.0
) -> tuple[FloatArray, FloatArray, tuple[EffectColumns, ...]]:
    """Values of the law with effects of known coefficients for each column of unit scale."""
    rng = np.random.default_rng([7, seed])
    columns = columns_of(covariates(rng))
    root = np.linalg.cholesky(dense(law_of()))
    values = (root @ rng.normal(size=p * n)).reshape(p, n)
    for one, b in zip(columns, coefficients, strict=True):
        Z = np.broadcast_to(one.at(AXIS, SITES, TIMES)[0], (p, n))
        rest = own * rng.normal(size=(p, 1)) if one.covariate.over == "times" else 0.0
        values = values + (b + rest) * Z
    observed = rng.random((p, n)) < 0.9
    observed[2, 10:25] = False
    return values, observed, columns


def test_scores_and_the_covariance_of_their_errors_are_those_of_dense_algebra() -> None:
    rng = np.random.default_rng(0)
    law = law_of(roots=rng.uniform(0.7, 1.4, p))
    V = dense(law).reshape(p, n, p, n)
    observed = rng.random((p, n)) < 0.85
    values, Z = rng.normal(size=(p, n)), rng.normal(size=(2, p, n))
    Z[1, 3] = 0.0  # a column of which one sensor shows nothing
    found = SensorScores.of(law, values, observed, Z)
    weights, designs, expected = [], [], []
    for i in range(p):
        there = observed[i]
        W = np.zeros((n, 2))
        W[there] = np.linalg.solve(V[i, :, i, :][np.ix_(there, there)], Z[:, i, there].T)
        turn, size = found.designs[found.sensors == i], W.T @ np.where(there, Z[:, i], 0.0).T
        # The turned scores have designs `turn = H G`, so that H is a solution of that.
        H = turn @ np.linalg.pinv(size)
        weights.append(H @ W.T)
        expected.append(H @ W.T @ np.where(there, values[i], 0.0))
        designs.append(H @ size)
    np.testing.assert_allclose(found.values, np.concatenate(expected), atol=1e-9)
    np.testing.assert_allclose(found.designs, np.concatenate(designs), atol=1e-9)
    B = block_diag(*weights)
    np.testing.assert_allclose(found.covariance, B @ V.reshape(p * n, -1) @ B.T, atol=1e-8)
    assert (found.sensors == 3).sum() == 1


def test_of_independent_sensors_the_posterior_is_that_of_all_values() -> None:
    law = law_of(np.diag(GRAPH.diagonal()))
    values, observed, columns = drawn_case(0, (0.5, 1.0, -0.7), own=0.5)
    found = fitted(law, values, observed, columns)
    prior = np.zeros(found.mean.size)
    for group in found.groups:
        prior[list(group.places)] = found.variances[group.covariate, group.part]
    X = np.zeros((p * n, prior.size))
    for k in range(prior.size):
        moved = replace(found, mean=np.eye(prior.size)[k])
        X[:, k] = moved.fields(SITES, [c.at(AXIS, SITES, TIMES) for c in columns], n).ravel()
    there = observed.ravel()
    V = dense(law)[np.ix_(there, there)] + (X[there] * prior) @ X[there].T
    inverse = np.linalg.inv(V)
    ones = inverse.sum(axis=1)
    P = inverse - np.outer(ones, ones) / ones.sum()
    DX = prior[:, None] * X[there].T
    np.testing.assert_allclose(found.mean, DX @ P @ values.ravel()[there], atol=1e-8)
    np.testing.assert_allclose(found.covariance, np.diag(prior) - DX @ P @ DX.T, atol=1e-8)


def test_known_coefficients_are_within_their_stated_standard_deviations() -> None:
    truth, seeds = (0.6, 1.0, -0.4), 60
    hits = np.zeros(3)
    for seed in range(seeds):
        values, observed, columns = drawn_case(seed, truth)
        found = fitted(law_of(), values, observed, columns)
        std = np.sqrt(found.covariance.diagonal()[:3])
        hits += np.abs(found.mean[:3] - truth) < 1.96 * std
    assert (hits >= binom.ppf(0.001, seeds, 0.95)).all()


def test_own_coefficients_of_sensors_are_found_where_they_differ() -> None:
    errors, spreads = [], []
    for seed in range(20):
        values, observed, columns = drawn_case(seed, (0.0, 1.0, 0.0), own=0.6)
        found = fitted(law_of(), values, observed, columns[1:2])
        spreads.append(np.sqrt(found.variances[0, 2]))
        A = np.concatenate([np.ones((p, 1)), np.eye(p)], axis=1)
        std = np.sqrt((A @ found.covariance @ A.T).diagonal())
        errors += list(((A @ found.mean - true_slopes(seed, 1.0, 0.6)) / std) ** 2)
    assert 0.35 < np.median(spreads) < 0.85
    assert np.mean(errors) < 1.0 + 4.0 * np.sqrt(2.0 / len(errors))


def true_slopes(seed: int, b: float, own: float) -> FloatArray:
    """Slopes (p,) of rain of `drawn_case`."""
    rng = np.random.default_rng([7, seed])
    columns_of(covariates(rng))
    rng.normal(size=p * n)
    return np.asarray(b + own * rng.normal(size=(p, 1)))[:, 0]


def test_what_the_data_do_not_show_has_no_effect() -> None:
    values, observed, columns = drawn_case(3, (0.0, 0.0, 0.0))
    found = fitted(law_of(), values, observed, columns)
    assert np.abs(found.mean).max() < 0.35
    assert (found.gains < 3.0).all()
    strong = drawn_case(3, (1.0, 1.0, 1.0))
    assert fitted(law_of(), strong[0], strong[1], columns).gains[1:].min() > 10.0


def test_laws_at_points_are_one_law() -> None:
    values, observed, columns = drawn_case(1, (0.5, 1.0, -0.7), own=0.5)
    found = fitted(law_of(), values, observed, columns[:2])
    sites, known = np.array([0, 4, 5]), SITES
    times = TIMES[[3, 20, 21]]
    mean, variance = found.at(sites, times, known)
    at, when = np.repeat(sites, 3), np.tile(times, 3)
    covariance = found.covariance_of(at, when, known)
    np.testing.assert_allclose(covariance.diagonal(), variance.ravel(), atol=1e-12)
    drawn = found.drawn(at, when, known, 20_000, np.random.default_rng(0))
    spread = np.sqrt((np.outer(variance, variance) + covariance**2) / 20_000)
    assert (np.abs(np.cov(drawn) - covariance) < 4.5 * spread + 1e-12).all()
    # A site without a sensor has the prior of own coefficients, and its level is not known.
    other, unsure = found.without_own(sites, times)
    np.testing.assert_allclose(other[2], mean[2], atol=1e-12)
    np.testing.assert_allclose(unsure[2], variance[2], atol=1e-12)
    assert (unsure[:2] > variance[:2]).all()
    assert np.allclose(found.mean_of(0, sites, times) + found.mean_of(1, sites, times), mean)


def test_the_level_of_a_sensor_is_no_effect() -> None:
    values, observed, columns = drawn_case(1, (0.5, 1.0, -0.7))
    rain = columns[1].covariate.values[0]
    found = fitted(law_of(), values, observed, columns[:2])
    wet = observed & (rain == 1.0)
    means = wet.sum(axis=1) / observed.sum(axis=1)
    low, high = columns[1].of_values(np.array([[0.0, 1.0]]))[0, 0]
    np.testing.assert_allclose(found.sensor_means[:, 0], low + (high - low) * means)
    # In a city of ten lanes or of one, what is not known at a sensor is the effect of rain alone.
    _, variance = found.at(SITES, TIMES[:2], SITES)
    slope = np.array([found.covariance[1, 1]])
    own = found.covariance[found.own(1), found.own(1)].diagonal() + slope
    own = own + 2.0 * found.covariance[1, found.own(1)]
    away = columns[1].of_values(rain[None, :2])[0] - found.sensor_means
    np.testing.assert_allclose(variance, own[:, None] * away**2, atol=1e-12)


def test_more_sensors_than_are_worked_with_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    values, observed, columns = drawn_case(2, (0.5, 1.0, -0.7))
    monkeypatch.setattr(fx, "MOST_SCORES", 12)
    found = fitted(law_of(), values, observed, columns)
    assert found.sensors.size == 4
    assert found.fields(SITES, [c.at(AXIS, SITES, TIMES) for c in columns], n).shape == (p, n)


def test_smooth_columns_are_constant_beyond_the_data() -> None:
    one = Covariate("t", "times", (), NONE, TIMES, np.linspace(-1.0, 3.0, n)[None])
    columns = EffectColumns.of(one, AXIS, SITES, TIMES)
    assert columns.n_columns == 3
    inside = columns.at(AXIS, SITES, TIMES)
    np.testing.assert_allclose(inside.reshape(3, -1).mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(inside.reshape(3, -1).std(axis=1), 1.0)
    beyond = columns.of_values(np.array([[3.0, 9.0, -5.0, -1.0]]))
    np.testing.assert_allclose(beyond[1:, 0, 0], beyond[1:, 0, 1])
    np.testing.assert_allclose(beyond[1:, 0, 2], beyond[1:, 0, 3])
    assert beyond[0, 0, 1] > beyond[0, 0, 0]


def test_too_many_columns_are_refused() -> None:
    kinds = tuple(f"k{k:02}" for k in range(30))
    codes = np.arange(n)[None] % 30.0
    one = Covariate("a", "times", kinds, NONE, TIMES, codes)
    with pytest.raises(InvalidInputError, match="at most 48 columns"):
        fx.check_columns((*columns_of((one,)), *columns_of((one,))))
