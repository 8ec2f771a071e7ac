"""The vector autoregression, its precision and its variances: against dense algebra and refits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.linear_model import GammaRegressor, Ridge

from coupledgp.inference.space_time import autoregression as ar
from coupledgp.inference.space_time import markov as mk
from coupledgp.inference.space_time import precision as pr
from coupledgp.inference.space_time import pseudo_gaps as pg
from coupledgp.inference.space_time import spread as sp
from coupledgp.random import FloatArray


def law_of(p: int, seed: int = 0) -> mk.Markov:
    rng = np.random.default_rng(seed)
    A = 0.1 * rng.normal(size=(4, p, p))
    A[0] += 0.5 * np.eye(p)
    root = rng.normal(size=(p, p))
    Q = root @ root.T + np.eye(p)
    return mk.Markov(ar.Autoregression(A, 0.3 * rng.normal(size=p)), Q, 2.0 * Q + np.eye(p))


@dataclass
class Dense:
    """The same law by its covariance (pn, pn), from the equations of the steps."""

    mean: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, law: mk.Markov, n: int) -> Dense:
        p, (A, c) = law.n_sensors, (law.model.coefficients, law.model.constant)
        B, right = np.eye(n * p), np.zeros((n, p))
        noise = np.zeros((n * p, n * p))
        for t in range(n):
            rows = slice(t * p, (t + 1) * p)
            noise[rows, rows] = law.innovations if t else law.first
            right[t] = c if t else 0.0
            for g, lags in enumerate(ar.GROUPS):
                for lag in lags if t else ():
                    u = max(t - lag, 0)
                    B[rows, u * p : (u + 1) * p] -= A[g] / len(lags)
        inverse = np.linalg.inv(B)
        mean, covariance = inverse @ right.ravel(), inverse @ noise @ inverse.T
        order = np.arange(n * p).reshape(n, p).T.ravel()
        return cls(mean[order], covariance[np.ix_(order, order)])

    def given(self, x: FloatArray, known: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and covariance of the other values."""
        S, rest = self.covariance, ~known
        gain = np.linalg.solve(S[np.ix_(known, known)], S[np.ix_(known, rest)]).T
        mean = self.mean[rest] + gain @ (x[known] - self.mean[known])
        return mean, S[np.ix_(rest, rest)] - gain @ S[np.ix_(known, rest)]


def mask_of(case: str, p: int, n: int) -> FloatArray:
    observed = np.random.default_rng(3).random((p, n)) > 0.3
    if case == "runs and a dark step":
        observed[:, 20] = False
        observed[1, -15:] = False
        observed[2, :14] = False
    elif case == "no gap":
        observed[:] = True
    elif case == "one value":
        observed[:] = False
        observed[1, 17] = True
    elif case == "short":
        observed[0, 0] = False
    return observed


@pytest.mark.parametrize(
    ("case", "n"),
    [("runs and a dark step", 40), ("no gap", 30), ("one value", 30), ("short", 5), ("some", 13)],
)
def test_gaps_are_those_of_the_dense_law(case: str, n: int) -> None:
    p, law = 4, law_of(4)
    observed = mask_of(case, p, n)
    dense = Dense.of(law, n)
    x = np.random.default_rng(4).normal(size=(p, n))
    found = pr.filled_series(law, np.where(observed, x, np.nan), observed)
    known = observed.ravel()
    evidence = multivariate_normal(
        dense.mean[known], dense.covariance[np.ix_(known, known)]
    ).logpdf(x.ravel()[known])
    assert found.log_evidence == pytest.approx(evidence, abs=1e-8)
    np.testing.assert_array_equal(found.values[observed], x[observed])
    if known.all():
        return
    mean, covariance = dense.given(x.ravel(), known)
    np.testing.assert_allclose(found.values.ravel()[~known], mean, atol=1e-8)
    np.testing.assert_allclose(found.variances.ravel()[~known], covariance.diagonal(), atol=1e-8)
    precision = np.linalg.inv(dense.covariance).diagonal()
    np.testing.assert_allclose(law.diagonal(n).ravel(), precision, rtol=1e-8)


def test_forecasts_are_those_of_the_dense_law() -> None:
    p, n, h, law = 4, 40, 15, law_of(4, 1)
    observed = mask_of("runs and a dark step", p, n)
    x = np.random.default_rng(5).normal(size=(p, n))
    filled = pr.filled_series(law, x, observed)
    found = pr.ahead(law, filled, observed, h)
    longer = np.concatenate([observed, np.zeros((p, h), dtype=bool)], axis=1)
    with_rest = np.concatenate([x, np.zeros((p, h))], axis=1)
    mean, covariance = Dense.of(law, n + h).given(with_rest.ravel(), longer.ravel())
    places = np.flatnonzero(~longer.ravel())
    later = np.isin(places, np.arange(p * (n + h)).reshape(p, n + h)[:, n:].ravel())
    np.testing.assert_allclose(found.mean.ravel(), mean[later], atol=1e-8)
    np.testing.assert_allclose(found.variance.ravel(), covariance.diagonal()[later], rtol=1e-8)


def test_draws_have_the_covariance_of_the_gaps() -> None:
    p, n, law = 3, 30, law_of(3, 2)
    observed = np.random.default_rng(6).random((p, n)) > 0.2
    factor = pr.GapFactor.of(pr.GapChunks(law, ~observed))
    m = 4000
    drawn = factor.draws(m, np.random.default_rng(7))
    assert (drawn[:, observed] == 0.0).all()
    _, covariance = Dense.of(law, n).given(np.zeros(p * n), observed.ravel())
    sample = np.cov(drawn[:, ~observed].T)
    scale = np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    assert np.abs((sample - covariance) / scale).max() < 5.0 * np.sqrt(2.0 / m)


def test_one_autoregressive_series_is_the_markov_process_of_exponential_covariance() -> None:
    n, phi = 50, 0.9
    A = np.zeros((4, 1, 1))
    A[0] = phi
    law = mk.Markov(ar.Autoregression(A, np.zeros(1)), np.array([[1 - phi**2]]), np.eye(1))
    S = phi ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    np.testing.assert_allclose(Dense.of(law, n).covariance, S, atol=1e-10)
    observed = np.random.default_rng(8).random((1, n)) > 0.5
    x = np.random.default_rng(9).normal(size=(1, n))
    found = pr.filled_series(law, x, observed)
    known = observed[0]
    gain = np.linalg.solve(S[np.ix_(known, known)], S[np.ix_(known, ~known)]).T
    np.testing.assert_allclose(found.values[0, ~known], gain @ x[0, known], atol=1e-10)


def ridge_problem() -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(10)
    X = rng.normal(size=(5, 400)).cumsum(axis=1)
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    return X, ar.neighbour_means(rng.random((5, 5)))


@pytest.mark.parametrize("n_ways", [0, 1, 2, 3])
def test_partitioned_ridge_is_a_ridge_for_each_sensor(n_ways: int) -> None:
    X, W = ridge_problem()
    rng = np.random.default_rng(12)
    several = [ar.neighbour_means(rng.random((5, 5)) > 0.5) for _ in range(n_ways)]
    H, T = ar.group_means(X), X[:, ar.LONGEST_LAG :].T
    lam = 30.0
    given = np.stack(several) if several else W
    model = ar.LagMoments.of(H, T).fitted(lam, given, np.zeros(5, dtype=bool))
    around = np.concatenate(
        [H[:, g * 5 : (g + 1) * 5] @ V.T for V in several or [W] for g in range(4)], axis=1
    )
    for i in range(5):
        own = np.concatenate([H[:, i::5], around[:, i::5]], axis=1)
        # Columns over the roots of their ridges have a ridge of one.
        scaled = np.concatenate([H / np.sqrt(lam), own / np.sqrt(ar.OWN_RIDGE)], axis=1)
        fitted = Ridge(alpha=1.0, solver="cholesky").fit(scaled, T[:, i])
        expected = fitted.predict(scaled)
        found = H @ model.stacked[:, i] + model.constant[i]
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_blocks_left_out_are_refits_without_them() -> None:
    X, W = ridge_problem()
    observed = np.ones(X.shape, dtype=bool)
    observed[2, 50:60] = False
    fit = ar.fitted_autoregression(X, observed, W)
    assert np.isnan(fit.errors[2, 50:60]).all()
    H, T = ar.group_means(X), X[:, ar.LONGEST_LAG :].T
    block = fit.blocks[2]
    inside = slice(block.first - ar.LONGEST_LAG, block.last - ar.LONGEST_LAG)
    rest = np.ones(len(H), dtype=bool)
    rest[inside] = False
    ridge = fit.ridge * rest.sum() / len(H)
    again = ar.LagMoments.of(H[rest], T[rest]).fitted(ridge, W, np.zeros(5, dtype=bool))
    errors = T[inside] - H[inside] @ again.stacked - again.constant
    np.testing.assert_allclose(fit.errors[:, block.first : block.last], errors.T, atol=1e-8)


def test_sensors_with_few_values_have_own_lags_only() -> None:
    X, W = ridge_problem()
    observed = np.ones(X.shape, dtype=bool)
    observed[3, 30:] = False
    A = ar.fitted_autoregression(X, observed, W).model.coefficients
    others = np.arange(5) != 3
    assert (A[:, 3, others] == 0).all()
    assert (A[:, others, 3] == 0).all()
    usual = np.diagonal(A, axis1=1, axis2=2)[:, others].mean(axis=1)
    np.testing.assert_allclose(A[:, 3, 3], usual)


def test_growth_is_the_largest_eigenvalue_of_the_companion() -> None:
    model = law_of(4).model
    p = 4
    companion = np.zeros((12 * p, 12 * p))
    for g, lags in enumerate(ar.GROUPS):
        for lag in lags:
            companion[:p, (lag - 1) * p : lag * p] = model.coefficients[g] / len(lags)
    companion[p:, :-p] = np.eye(11 * p)
    radius = np.abs(np.linalg.eigvals(companion)).max()
    assert model.growth() == pytest.approx(radius, rel=0.01)


def simulated(n: int, seed: int) -> tuple[FloatArray, ar.Autoregression]:
    """Sensors in a row, each driven by the one behind it: jams that move upstream."""
    p = 8
    A = np.zeros((4, p, p))
    A[0] = 0.55 * np.eye(p) + 0.35 * np.eye(p, k=1)
    A[1] = 0.05 * np.eye(p)
    model = ar.Autoregression(A, np.zeros(p))
    rng = np.random.default_rng(seed)
    x = np.zeros((p, n + 200))
    for t in range(12, n + 200):
        x[:, t] = model.next(x[:, t - 12 : t].T[None])[0] + rng.normal(size=p)
    return x[:, 200:], model


def test_transport_is_learned_and_its_laws_hold_what_they_say() -> None:
    x, truth = simulated(4000, 11)
    W = ar.neighbour_means(np.eye(8, k=1) + np.eye(8, k=-1))
    train = x[:, :2500]
    observed = np.random.default_rng(12).random(x.shape) > 0.1
    scale = train.std(axis=1, keepdims=True)
    fit = ar.fitted_autoregression(train / scale, observed[:, :2500], W)
    graph = 0.5 * np.eye(8) + 0.5
    edges = [(b.first, b.last) for b in fit.blocks]
    Q = ar.fitted_innovations(fit.errors, edges, graph).covariance
    law = mk.Markov(fit.model, Q, np.eye(8))
    test, there = x[:, 2500:] / scale, observed[:, 2500:]
    filled = pr.filled_series(law, test, there)
    z = ((test - filled.values) / np.sqrt(np.maximum(filled.variances, 1e-12)))[~there]
    assert 0.93 < (np.abs(z) < 1.96).mean() < 0.97
    known = sp.errors_ahead(test, there, [ar.Block(12, 1500, fit.model)], (1, 3, 12))
    best = sp.errors_ahead(x[:, 2500:], there, [ar.Block(12, 1500, truth)], (1, 3, 12))
    responses = law.responses(12)
    for k, h in enumerate((1, 3, 12)):
        own = known.errors[k] * scale
        assert np.nanmean(own**2) < 1.03**2 * np.nanmean(best.errors[k] ** 2)
        variance = sum((r @ Q @ r.T).diagonal() for r in responses[:h])
        inside = np.abs(known.errors[k]) < 1.96 * np.sqrt(variance)[:, None]
        assert 0.93 < inside[~np.isnan(known.errors[k])].mean() < 0.97


def test_noise_has_no_dynamics() -> None:
    x = np.random.default_rng(13).normal(size=(6, 1500))
    fit = ar.fitted_autoregression(x, np.ones(x.shape, bool), np.zeros((6, 6)))
    assert np.abs(fit.model.coefficients).max() < 0.15
    Q = ar.fitted_innovations(fit.errors, [(b.first, b.last) for b in fit.blocks], np.eye(6))
    assert np.abs(Q.covariance - np.eye(6)).max() < 0.15


def test_gamma_regression_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(14)
    F = np.column_stack([np.ones(800), rng.normal(size=(800, 2))])
    r = np.exp(F @ [0.2, 0.5, -0.3]) * rng.gamma(0.5, 2.0, 800)
    r = np.clip(r, 1e-6, sp.MOST_RATIO)
    ridge = 4.0
    found = sp.gamma_coefficients(F, r, ridge)
    # Its loss is the mean, and its penalty half the square.
    other = GammaRegressor(alpha=2 * ridge / 800, tol=1e-10, max_iter=1000).fit(F[:, 1:], r)
    np.testing.assert_allclose(found, [other.intercept_, *other.coef_], atol=1e-5)


def test_variances_that_move_are_found() -> None:
    rng = np.random.default_rng(15)
    p, n = 20, 3000
    rough = np.repeat(rng.random((p, n // 50)) < 0.3, 50, axis=1)
    e = rng.normal(size=(p, n)) * np.where(rough, 3.0, 0.5)
    model = ar.Autoregression(np.zeros((4, p, p)), np.zeros(p))
    blocks = [ar.Block(12, n, model)]
    ahead = sp.errors_ahead(e, np.ones(e.shape, bool), blocks, sp.HORIZONS)
    after = sp.volatility_after(ahead.errors[0], np.zeros((p, p)))
    found = sp.fitted_spread(ahead, after, np.zeros((p, n)), np.ones(p))
    np.testing.assert_allclose(found.variances, np.mean(e[:, 12:] ** 2, axis=1) * np.ones((4, 1)),
                               rtol=0.02)  # fmt: skip
    own = sp.own_volatility(ahead.errors[0], found.variances[0], np.ones(p))
    volatility = sp.log_volatility(own, np.zeros((p, p)))
    t = 2040  # the last of 41 steps of one kind
    zero = np.zeros((p, 1))
    factor = found.factors(zero, zero, volatility[:, t])[:, 0]
    assert np.median(factor[rough[:, t]]) > 4.0 * np.median(factor[~rough[:, t]])
    levels = found.levels_of(np.ones((p, 6)))
    np.testing.assert_allclose(levels[:, 2], found.variances[1])


def test_regressions_on_peers_are_ridge_fits() -> None:
    rng = np.random.default_rng(16)
    X = rng.normal(size=(5, 5)) @ rng.normal(size=(5, 60))
    found = pg.peers(X, X @ X.T, 3.0)
    for i in range(5):
        others = np.delete(X, i, axis=0)
        fitted = Ridge(alpha=3.0, fit_intercept=False).fit(others.T, X[i])
        np.testing.assert_allclose(found[i], fitted.predict(others.T), atol=1e-8)


def test_weights_of_peers_are_those_of_least_squares_once_there_are_many() -> None:
    rng = np.random.default_rng(17)
    depths = np.exp(rng.uniform(0, np.log(6), 200_000))
    H = pg.hats(depths)
    np.testing.assert_allclose(H.sum(axis=1), 1.0)
    weights = np.array([0.1, 0.3, 0.5, 0.2, 0.6])
    difference = rng.normal(size=depths.size)
    error = (H @ weights) * difference + rng.normal(size=depths.size)
    found = pg.fitted_weights(H, difference, error)
    np.testing.assert_allclose(found, weights, atol=0.03)
    few = pg.fitted_weights(H[:20], difference[:20], error[:20])
    np.testing.assert_allclose(few, pg.USUAL_WEIGHTS, atol=0.05)


def test_patterns_hide_observed_cells_only() -> None:
    rng = np.random.default_rng(18)
    observed = rng.random((10, 300)) > 0.02
    observed[4, 100:140] = False
    laid = pg.laid_patterns(observed, observed.any(axis=0), rng)
    assert not (laid & ~observed).any()
    assert laid.mean() > 0.02
    assert not pg.laid_patterns(np.ones((3, 40), bool), np.ones(40, bool), rng).any()
