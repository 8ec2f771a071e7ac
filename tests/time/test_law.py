"""The law of sensors over time against dense algebra, closed forms and simulated worlds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.linear_model import GammaRegressor

from coupledgp.time import recursion as ar
from coupledgp.time import spread as st
from coupledgp.time.law import (
    MOST_AHEAD,
    Posterior,
    fitted_law,
    one_lag,
    start_law,
    started,
    units_of,
)
from coupledgp.time.precision import GapFactor, Markov
from coupledgp.time.spread import gamma_coefficients

P = 4


def some_law(seed: int = 0, p: int = P) -> Markov:
    """A stable law with all groups of lags."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(ar.N_GROUPS, p, p)) * np.array([0.15, 0.1, 0.06, 0.05])[:, None, None]
    A[0] += 0.4 * np.eye(p)
    B, C = rng.normal(size=(2, p, p))
    return Markov(ar.Recursion(A), B @ B.T + np.eye(p), C @ C.T + 0.5 * np.eye(p))


def dense_precision(law: Markov, n: int) -> np.ndarray:
    """Lam (p n, p n), step by step, from the recursion written out."""
    p = law.n_sensors
    M = np.zeros((n * p, n * p))
    for t in range(n):
        rows = slice(t * p, (t + 1) * p)
        M[rows, rows] = np.eye(p)
        if t:
            for g, lags in enumerate(ar.GROUPS):
                for lag in lags:
                    u = max(t - lag, 0)
                    M[rows, u * p : (u + 1) * p] -= law.model.coefficients[g] / len(lags)
    inverse = np.kron(np.eye(n), np.linalg.inv(law.innovations))
    inverse[:p, :p] = np.linalg.inv(law.first)
    return np.asarray(M.T @ inverse @ M)


def some_gaps(kind: str, n: int, seed: int = 1) -> np.ndarray:
    """Masks (p, n) of observed cells."""
    observed = np.random.default_rng(seed).random((P, n)) > 0.3
    if kind == "runs":
        observed[0, 5:30] = observed[1, -14:] = observed[:, 20:21] = observed[2, :3] = False
    if kind == "all but one":
        observed[:] = False
        observed[1, n // 2] = True
    return observed


@pytest.mark.parametrize("n", [2, 7, 12, 25, 40])
@pytest.mark.parametrize("kind", ["scattered", "runs", "all but one"])
def test_gaps_are_those_of_the_dense_law(kind: str, n: int) -> None:
    law, observed = some_law(), some_gaps(kind, n)
    X = np.random.default_rng(2).normal(size=(P, n))
    lam = dense_precision(law, n)
    u = ~observed.T.ravel()
    covariance = np.linalg.inv(lam[np.ix_(u, u)])
    mean = -covariance @ lam[np.ix_(u, ~u)] @ X.T.ravel()[~u]
    factor = GapFactor(law, X, observed)
    filled = factor.filled()
    np.testing.assert_allclose(filled.T.ravel()[u], mean, atol=1e-9)
    steps, rows = np.nonzero(~observed.T)
    np.testing.assert_allclose(factor.covariance(rows, steps), covariance, atol=1e-9)
    variances = np.zeros((P, n))
    for c, S in factor.covariances():
        variances[factor.cells(c)] = S.diagonal()
    np.testing.assert_allclose(variances.T.ravel()[u], covariance.diagonal(), atol=1e-9)
    np.testing.assert_allclose(factor.log_determinant, np.linalg.slogdet(lam[np.ix_(u, u)])[1])
    np.testing.assert_allclose(law.gradient(X).T.ravel(), lam @ X.T.ravel(), atol=1e-8)
    np.testing.assert_allclose(law.diagonal(n).T.ravel(), lam.diagonal(), atol=1e-9)


def test_steps_that_are_added_change_the_last_chunks_only() -> None:
    law, n = some_law(), 97
    X, observed = np.random.default_rng(3).normal(size=(P, n)), some_gaps("runs", n)
    whole = GapFactor(law, X, observed)
    grown = None
    for end in (30, 41, 42, 60, 97):
        grown = GapFactor(law, X[:, :end], observed[:, :end], grown)
    np.testing.assert_allclose(grown.filled(), whole.filled(), atol=1e-10)
    np.testing.assert_allclose(grown.log_determinant, whole.log_determinant, rtol=1e-12)
    np.testing.assert_allclose(grown.filled(80)[:, 80:], whole.filled()[:, 80:], atol=1e-10)


def test_one_sensor_of_one_lag_is_the_bridge() -> None:
    phi, n = 0.9, 30
    law = one_lag(phi, np.array([[2.0]]))
    X, observed = np.ones((1, n)), np.ones((1, n), dtype=bool)
    observed[0, 10:19] = False
    X[0, 9], X[0, 19] = 1.5, -0.5
    K = 2.0 * phi ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    u = ~observed[0]
    weights = K[np.ix_(u, ~u)] @ np.linalg.inv(K[np.ix_(~u, ~u)])
    factor = GapFactor(law, X, observed)
    np.testing.assert_allclose(factor.filled()[0, u], weights @ X[0, ~u], atol=1e-10)
    cov = K[np.ix_(u, u)] - weights @ K[np.ix_(~u, u)]
    found = factor.covariance(np.zeros(9, dtype=int), np.flatnonzero(u))
    np.testing.assert_allclose(found, cov, atol=1e-10)


def plain_world(n: int = 600, p: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Series (p, n) of a ring, in which values move to the next sensor, and its neighbours."""
    rng = np.random.default_rng(seed)
    x = np.zeros((p, n))
    for t in range(1, n):
        x[:, t] = 0.5 * x[:, t - 1] + 0.35 * np.roll(x[:, t - 1], 1) + rng.normal(size=p)
    ring = np.roll(np.eye(p), 1, axis=1)
    return x / x.std(axis=1, keepdims=True), ar.neighbour_means(ring + ring.T)


def test_coefficients_are_those_of_least_squares() -> None:
    x, near = plain_world()
    p = len(x)
    W = sparse.csr_array(near)
    H, T = ar.group_means(x), x[:, ar.LONGEST_LAG :]
    sums = ar.Sums.of(H, T, W, dense=True)
    found = sums.fitted(50.0, W, np.zeros(p, dtype=bool)).coefficients
    own = np.concatenate([H, np.stack([near @ part for part in H])])  # (8, p, n)
    rows = own.transpose(1, 2, 0)
    pooled = np.linalg.lstsq(rows.reshape(-1, 8), T.ravel(), rcond=None)[0]
    S = np.zeros((p, ar.N_GROUPS, p))
    for i in range(p):
        gram = rows[i].T @ rows[i] + ar.OWN_RIDGE * np.eye(8)
        a = np.linalg.solve(gram, rows[i].T @ T[i] + ar.OWN_RIDGE * pooled)
        S[i] = a[4:, None] * near[i]
        S[i, :, i] += a[:4]
    flat, S = H.reshape(-1, H.shape[2]).T, S.reshape(p, -1)
    C = np.linalg.solve(flat.T @ flat + 50.0 * np.eye(4 * p), flat.T @ (T.T - flat @ S.T))
    expected = (S + C.T).reshape(p, ar.N_GROUPS, p).transpose(1, 0, 2)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    alone = sums.fitted(np.inf, W, np.ones(p, dtype=bool)).coefficients
    np.testing.assert_allclose(alone[:, 0, 0], pooled[:4], atol=1e-9)
    np.testing.assert_allclose(alone[:, 0, 1], pooled[4:] * near[0, 1], atol=1e-9)


def test_blocks_left_out_are_refits_without_them() -> None:
    x, near = plain_world(300)
    observed = np.ones(x.shape, dtype=bool)
    W = sparse.csr_array(near)
    fit = ar.fitted_recursion(x, observed, W, kept=1e4)
    H, T = ar.group_means(x), x[:, ar.LONGEST_LAG :]
    first, last, model = fit.blocks[2]
    kept = np.r_[0 : first - 12, last - 12 : T.shape[1]]
    rest = ar.Sums.of(H[:, :, kept], T[:, kept], W, dense=True)
    again = rest.fitted(1e4 * rest.n_rows / ar.ROWS, W, np.zeros(len(x), dtype=bool))
    np.testing.assert_allclose(model.coefficients, again.coefficients, atol=1e-9)
    long = x[:, first - 12 : last]
    np.testing.assert_allclose(fit.ahead.errors[0][:, first:last], again.errors(long), atol=1e-9)


def test_growth_is_the_largest_eigenvalue_of_the_companion() -> None:
    model = some_law().model
    p, L = model.n_sensors, ar.LONGEST_LAG
    companion = np.zeros((p * L, p * L))
    companion[p:, :-p] = np.eye(p * (L - 1))
    for g, lags in enumerate(ar.GROUPS):
        for lag in lags:
            companion[:p, (lag - 1) * p : lag * p] = model.coefficients[g] / len(lags)
    largest = np.abs(np.linalg.eigvals(companion)).max()
    assert model.growth() == pytest.approx(largest, rel=0.01)


def test_shrunk_covariance_is_that_of_dense_algebra() -> None:
    rng = np.random.default_rng(5)
    errors = rng.normal(size=(5, 5)) @ rng.normal(size=(5, 60))
    graph = np.full((5, 5), 0.3) + 0.7 * np.eye(5)
    edges = list(itertools.pairwise(range(0, 61, 12)))
    found, density, *_ = ar.shrunk_covariance(errors, edges, graph)
    roots = np.sqrt((errors**2).mean(axis=1))
    Z = errors / roots[:, None]
    best = -np.inf
    for T in (np.eye(5), 0.5 * np.eye(5) + 0.5 * graph):
        for a in ar.SHRINKAGE:
            total = 0.0
            for first, last in edges:
                rest = np.delete(Z, np.s_[first:last], axis=1)
                R = np.corrcoef(np.hstack([rest, -rest]))
                M, part = (1 - a) * R + a * T, Z[:, first:last]
                total -= 0.5 * (
                    12 * np.linalg.slogdet(M)[1] + (part * np.linalg.solve(M, part)).sum()
                )
            if total > best:
                best = total
                full = np.corrcoef(np.hstack([Z, -Z]))
                expected = ((1 - a) * full + a * T) * np.outer(roots, roots)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    logs = np.log(2 * np.pi * roots**2).mean() / 2
    assert density == pytest.approx(best / errors.size - logs)


def posterior(x: np.ndarray, observed: np.ndarray, near: np.ndarray) -> Posterior:
    filled = started(np.where(observed, x, 0.0), observed, np.eye(len(x)))
    zeros = np.zeros(x.shape)
    law = fitted_law(np.arange(len(x)), filled, observed, zeros, near, np.eye(len(x)))
    return Posterior(law, law.standardized(filled), observed, zeros)


def test_a_simulated_world_is_held_by_its_intervals() -> None:
    x, near = plain_world(1500, seed=7)
    observed = np.random.default_rng(8).random(x.shape) > 0.05
    observed[0, 700:740] = False
    found = posterior(x[:, :900], observed[:, :900], near)
    mean, variance, _ = found.gap_law
    gaps = ~observed[:, :900]
    law = found.law
    z = (law.standardized(x[:, :900]) - mean)[gaps] / np.sqrt(variance[gaps])
    assert abs((np.abs(z) < 1.96).mean() - 0.95) < 3 * np.sqrt(0.05 * 0.95 / z.size) + 0.01
    inside, squares = [], []
    for at in range(900, 1480, 20):
        found = Posterior(
            law, law.standardized(x[:, :at]), np.ones((len(x), at), bool), np.zeros((len(x), at)),
            found if at > 900 else None,
        )  # fmt: skip
        mean, variance, _ = found.ahead(np.zeros((len(x), 12)))
        error = law.standardized(x[:, at : at + 12]) - mean
        inside.append(np.abs(error) < 1.96 * np.sqrt(variance))
        squares.append(error[:, 0] ** 2)
    assert abs(np.mean(inside) - 0.95) < 0.025
    truth = 1.0 / plain_scale(x)
    assert np.sqrt(np.mean(squares)) < 1.06 * truth


def plain_scale(x: np.ndarray) -> float:
    """Standard deviation of the world before its values were divided by it."""
    step = x[:, 1:] - 0.5 * x[:, :-1] - 0.35 * np.roll(x[:, :-1], 1, axis=0)
    return 1.0 / float(step.std())


def test_an_update_is_the_law_given_all_values() -> None:
    x, near = plain_world(500, seed=3)
    observed = np.random.default_rng(8).random(x.shape) > 0.1
    first = posterior(x[:, :470], observed[:, :470], near)
    law, zeros = first.law, np.zeros(x.shape)
    values = law.standardized(np.where(observed, x, 0.0))
    grown = first
    for end in (471, 480, 481, 499, 500):
        grown = Posterior(law, values[:, :end], observed[:, :end], zeros[:, :end], grown)
    whole = Posterior(law, values, observed, zeros)
    ahead = np.zeros((len(x), 9))
    for a, b in zip(grown.law_with(ahead), whole.law_with(ahead), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_allclose(grown.log_evidence, whole.log_evidence, rtol=1e-10)


def test_forecasts_are_later_gaps_of_the_recursion() -> None:
    """Their own variances, before they move, are those of unknown later steps."""
    x, near = plain_world(300, seed=4)
    observed = np.random.default_rng(8).random(x.shape) > 0.1
    found = posterior(x, observed, near)
    h = 7
    _, _, own = found.ahead(np.zeros((len(x), h)))
    longer = found.longer(h)
    rows, steps = np.repeat(np.arange(len(x)), h), np.tile(found.n + np.arange(h), len(x))
    expected = longer.covariance(rows, steps).diagonal().reshape(len(x), h)
    np.testing.assert_allclose(own, expected, rtol=1e-8)
    variance = found.ahead(np.zeros((len(x), h)))[1]
    joint = found.covariance(rows, steps, np.zeros((len(x), h)))
    np.testing.assert_allclose(joint.diagonal().reshape(len(x), h), variance, rtol=1e-8)
    assert h < MOST_AHEAD


@pytest.mark.parametrize("heavy", [False, True])
def test_single_gaps_of_few_steps_are_held_by_their_intervals(heavy: bool) -> None:
    rng = np.random.default_rng(11)
    p, n, inside = 30, 40, []
    for _ in range(6):
        x = rng.normal(size=(p, 3)) @ rng.normal(size=(3, n)) + rng.normal(size=(p, n))
        x += 8.0 * rng.normal(size=(p, n)) * (rng.random((p, n)) < 0.04) * heavy
        observed = rng.random((p, n)) > 0.1
        found = posterior(x, observed, ar.neighbour_means(np.ones((p, p))))
        mean, variance, tails = found.gap_law
        z = (found.law.standardized(x) - mean)[~observed] / np.sqrt(variance[~observed])
        inside.append(np.abs(z) < st.student_quantiles(np.array(0.975), tails[~observed]))
    assert (found.law.single[1] > 0.1) == heavy
    assert abs(np.concatenate(inside).mean() - 0.95) < 0.025


def test_joint_laws_of_a_thousand_hidden_cells_are_those_of_dense_algebra() -> None:
    p, n = 8, 160
    law, rng = some_law(p=p), np.random.default_rng(4)
    hidden = rng.permutation(p * n)[:1000]
    observed = np.ones(p * n, dtype=bool)
    observed[hidden] = False
    lam = dense_precision(law, n)
    steps, rows = np.divmod(np.sort(hidden), p)
    u = steps * p + rows
    factor = GapFactor(law, np.zeros((p, n)), observed.reshape(n, p).T)
    expected = np.linalg.inv(lam[np.ix_(u, u)])
    np.testing.assert_allclose(factor.covariance(rows, steps), expected, atol=1e-9)


def test_a_ridge_under_which_disturbances_grow_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are handed on along a ring that is longer than the lags, which own lags do not see."""
    p, rng = 16, np.random.default_rng(0)
    x = np.zeros((p, 300))
    for t in range(1, 300):
        x[:, t] = 1.006 * np.roll(x[:, t - 1], 1) + rng.normal(size=p)
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    W, seen = sparse.csr_array(np.zeros((p, p))), np.ones(x.shape, dtype=bool)
    sums = ar.Sums.of(ar.group_means(x), x[:, ar.LONGEST_LAG :], W, dense=True)
    growth = [
        sums.fitted(ridge * sums.n_rows / ar.ROWS, W, np.zeros(p, dtype=bool)).growth()
        for ridge in ar.RIDGES
    ]
    assert ar.fitted_recursion(x, seen, W).ridge == ar.RIDGES[0]
    monkeypatch.setattr(ar, "UNSTABLE", 0.5 * (growth[0] + growth[1]))
    raised = ar.fitted_recursion(x, seen, W)
    assert (raised.ridge, raised.is_stable) == (ar.RIDGES[1], True)
    monkeypatch.setattr(ar, "UNSTABLE", 0.5 * min(growth))
    assert not ar.fitted_recursion(x, seen, W).is_stable


def test_few_steps_have_one_lag() -> None:
    x, near = plain_world(60)
    observed = np.ones(x.shape, dtype=bool)
    found = posterior(x, observed, near)
    assert found.law.start is None
    assert found.law.spread is None
    assert not found.law.markov.model.coefficients[1:].any()


def test_the_start_is_as_its_formula_says() -> None:
    x, _ = plain_world(100)
    K = np.eye(len(x))
    law = start_law(x, K)
    phi = (x[:, 1:] * x[:, :-1]).sum() / (x[:, :-1] ** 2).sum()
    e = x[:, 1:] - phi * x[:, :-1]
    C = 0.5 * e @ e.T / ((1 - phi**2) * 100) + 0.5 * x @ x.T / 100 + 0.25 * K
    np.testing.assert_allclose(law.first, C / (np.trace(C) / len(x)), atol=1e-12)
    np.testing.assert_allclose(law.innovations, (1 - phi**2) * law.first, atol=1e-12)


def test_student_laws_are_those_of_scipy_with_variance_one() -> None:
    z, chances = np.linspace(-6, 6, 13), np.linspace(0.001, 0.999, 7)
    for tau in (0.0, 0.05, 0.2, 0.4):
        scale = np.sqrt(1 - 2 * tau)
        law = norm() if tau == 0 else student_t(1 / tau, scale=scale)
        np.testing.assert_allclose(st.student_log_density(z, tau), law.logpdf(z), atol=1e-10)
        np.testing.assert_allclose(st.student_cdf(z, tau), law.cdf(z), atol=1e-12)
        np.testing.assert_allclose(st.student_quantiles(chances, tau), law.ppf(chances), rtol=1e-8)
    rng = np.random.default_rng(3)
    n = 40_000
    assert st.fitted_tail(rng.normal(size=n)) == 0.0
    found = st.fitted_tail(rng.standard_t(4.0, n) * np.sqrt(0.5))
    assert found == pytest.approx(0.25, abs=0.03)  # Fisher information: a standard error of .006


def test_normal_worlds_have_normal_laws_and_rare_falls_student_ones() -> None:
    x, near = plain_world(1200, p=12, seed=5)
    seen = np.ones(x.shape, bool)
    found = posterior(x, seen, near).law.spread
    assert found is not None
    np.testing.assert_array_equal(found.tails, 0.0)
    rng = np.random.default_rng(6)
    falls = x - 6.0 * (rng.random(x.shape) < 0.01)
    spread = posterior(falls, seen, near).law.spread
    assert spread is not None
    assert (spread.tails > 0.15).all()
    ahead = spread.tails_ahead(60)
    np.testing.assert_allclose(ahead[[0, 2, 5, 11]], spread.tails)
    np.testing.assert_array_equal(ahead[47:], 0.0)


def test_forecasts_follow_levels_that_move() -> None:
    x, near = plain_world(700, seed=9)
    walk = np.cumsum(0.15 * np.random.default_rng(2).normal(size=x.shape), axis=1)
    found = posterior(x + walk, np.ones(x.shape, bool), near)
    law = found.law
    assert law.shares[1] > 0
    h, level = 60, found.x[:, -ar.FAR :].mean(axis=1)
    last = np.stack([found.x[:, -12:].T, found.x[:, -12:].T - level])
    weight = np.interp(np.log(np.arange(1, h + 1)), np.log([12, ar.FAR]), law.shares)
    expected = np.empty((len(x), h))
    for k in range(h):
        new = law.markov.model.next(last)
        last = np.concatenate([last[:, 1:], new[:, None]], axis=1)
        expected[:, k] = (1 - weight[k]) * new[0] + weight[k] * (level + new[1])
    plain = Posterior(replace(law, bend=None), found.x, found.observed, found.deviations)
    made = plain.ahead(np.zeros((len(x), h)))[0]
    np.testing.assert_allclose(made, expected, atol=1e-12)
    standing = Posterior(
        replace(law, bend=None, shares=(0.0, 0.0)), found.x, found.observed, found.deviations
    )
    error = (standing.ahead(np.zeros((len(x), h)))[0] - made)[:, -1]
    assert np.abs(error).max() > 0.1 * np.abs(level).max() * law.shares[1]


def test_gamma_regression_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    F = np.column_stack([np.ones(400), rng.normal(size=(400, 2))])
    y = rng.gamma(2.0, 0.5 * np.exp(F @ [0.1, 0.4, -0.2]))
    found = gamma_coefficients(F, np.minimum(y, 40.0), 0.0)
    other = GammaRegressor(alpha=0.0, max_iter=1000, tol=1e-10).fit(F[:, 1:], y)
    np.testing.assert_allclose(found, [other.intercept_, *other.coef_], atol=1e-4)


def test_a_sensor_of_few_values_that_are_mostly_equal_is_not_taken_for_certain() -> None:
    """Its scale is drawn to that of the others, those of many values are their own."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 400))
    observed = np.ones(values.shape, dtype=bool)
    observed[2] = False
    observed[2, 10:400:40] = True
    values[2] = 5.0
    values[2, 10] = 5.05
    _, scale = units_of(values, observed)
    others = np.delete(np.arange(6), 2)
    np.testing.assert_allclose(scale[others], values[others].std(axis=1))
    assert 0.5 < scale[2] / scale[others].mean() < 1.5
