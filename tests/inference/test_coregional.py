"""Several outputs in the space of weights: against dense algebra, differences and drawn data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from coupledgp.errors import NumericalError
from coupledgp.inference.weights.coregional import (
    Coregionalisation,
    OutputSums,
    OutputWeights,
    evidence_loss,
    fitted_outputs,
    law_at,
    theta_of,
)
from coupledgp.random import FloatArray

N, Q, SIZES = 25, 3, (4, 6)
M = sum(SIZES)


def drawn_law(rng: np.random.Generator) -> Coregionalisation:
    roots = rng.normal(size=(2, Q, Q))
    B = roots @ roots.transpose(0, 2, 1) / Q + 0.05 * np.eye(Q)
    root = 0.4 * rng.normal(size=(Q, Q))
    return Coregionalisation(B, root @ root.T + 0.05 * np.eye(Q), SIZES)


def drawn_data(
    law: Coregionalisation, rng: np.random.Generator, n: int = N
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features (n, M), functions (n, Q) and observations (n, Q), of which a third is missing."""
    features = rng.normal(size=(n, M)) / np.sqrt(np.repeat(SIZES, SIZES))
    W = [np.linalg.cholesky(B) @ rng.normal(size=(Q, m))
         for B, m in zip(law.covariances, SIZES, strict=True)]  # fmt: skip
    f = features @ np.concatenate(W, axis=1).T
    y = f + rng.normal(size=f.shape) @ np.linalg.cholesky(law.noise).T
    y[rng.random(y.shape) < 0.33] = np.nan
    return features, f, y


def dense(law: Coregionalisation, a: FloatArray, b: FloatArray) -> FloatArray:
    """Covariance (p, Q, n, Q) of the functions at features a (p, M) and b (n, M)."""
    found = np.zeros((len(a), Q, len(b), Q))
    for B, part in zip(law.covariances, law.parts, strict=True):
        found += np.einsum("pn,qt->pqnt", a[:, part] @ b[:, part].T, B)
    return found


def test_the_posterior_is_that_of_dense_algebra() -> None:
    rng = np.random.default_rng(0)
    law = drawn_law(rng)
    features, _, y = drawn_data(law, rng)
    found = OutputWeights.given(law, OutputSums.of(features, y))
    there = ~np.isnan(y).ravel()
    K = dense(law, features, features).reshape(N * Q, N * Q)
    A = (K + np.kron(np.eye(N), law.noise))[np.ix_(there, there)]
    z = y.ravel()[there]
    assert found.log_evidence == pytest.approx(multivariate_normal.logpdf(z, cov=A), rel=1e-9)
    new = rng.normal(size=(7, M))
    cross = dense(law, new, features).reshape(7 * Q, N * Q)[:, there]
    mean = (cross @ np.linalg.solve(A, z)).reshape(7, Q)
    np.testing.assert_allclose(found.means(new), mean, atol=1e-9)
    joint = dense(law, new, new).reshape(7 * Q, 7 * Q) - cross @ np.linalg.solve(A, cross.T)
    own = np.einsum("pqpt->pqt", joint.reshape(7, Q, 7, Q))
    np.testing.assert_allclose(found.covariances(new), own, atol=1e-9)
    drawn = np.einsum("pm,qms->pqs", new, found.drawn(40_000, rng)).reshape(7 * Q, -1)
    scale = np.sqrt((np.outer(joint.diagonal(), joint.diagonal()) + joint**2) / 40_000)
    assert (np.abs(np.cov(drawn) - joint) < 5.0 * scale).all()


def test_slopes_of_the_evidence_are_differences() -> None:
    rng = np.random.default_rng(1)
    law = drawn_law(rng)
    features, _, y = drawn_data(law, rng)
    sums = OutputSums.of(features, y)
    theta = theta_of(law) + 0.1 * rng.normal(size=3 * 6)
    value, slopes = evidence_loss(theta, sums, SIZES, 3.0)
    plain, _ = evidence_loss(theta, sums, SIZES, 0.0)
    own = law_at(theta, SIZES, Q)
    assert plain == pytest.approx(-OutputWeights.given(own, sums).log_evidence)
    roots = np.sqrt(own.noise.diagonal())
    R = own.noise / np.outer(roots, roots)
    assert value == pytest.approx(plain - 3.0 / 2.0 * np.linalg.slogdet(R)[1])
    for k in range(theta.size):
        away = 1e-5 * np.eye(theta.size)[k]
        ends = [evidence_loss(theta + s * away, sums, SIZES, 3.0)[0] for s in (1, -1)]
        assert slopes[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-5)


def test_diagonal_covariances_are_models_of_single_outputs() -> None:
    rng = np.random.default_rng(2)
    law = drawn_law(rng)
    features, _, y = drawn_data(law, rng)
    apart = Coregionalisation(law.covariances * np.eye(Q), law.noise * np.eye(Q), SIZES)
    found = OutputWeights.given(apart, OutputSums.of(features, y))
    total = 0.0
    for q in range(Q):
        there = ~np.isnan(y[:, q])
        v = np.repeat(apart.covariances[:, q, q], SIZES)
        K = (features * v) @ features.T
        A = K[np.ix_(there, there)] + law.noise[q, q] * np.eye(there.sum())
        total += multivariate_normal.logpdf(y[there, q], cov=A)
        mean = K[:, there] @ np.linalg.solve(A, y[there, q])
        np.testing.assert_allclose(found.means(features)[:, q], mean, atol=1e-9)
    assert found.log_evidence == pytest.approx(total, rel=1e-9)


def test_rows_may_come_in_parts() -> None:
    rng = np.random.default_rng(3)
    law = drawn_law(rng)
    features, _, y = drawn_data(law, rng)
    whole = OutputSums.of(features, y)
    parts = OutputSums.of(features[:9], y[:9]).with_more(OutputSums.of(features[9:], y[9:]))
    order = [parts.patterns.tolist().index(row) for row in whole.patterns.tolist()]
    assert len(parts.patterns) == len(whole.patterns)
    for name in ("grams", "crosses", "squares", "counts"):
        found = getattr(parts, name)[order]
        np.testing.assert_allclose(found, getattr(whole, name), rtol=1e-9, atol=1e-12)


def test_the_law_of_the_data_is_found_and_covers_the_functions() -> None:
    rng = np.random.default_rng(4)
    B = np.array([[[1.0, -0.9, 0.0], [-0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]]) + 1e-3 * np.eye(Q)
    scores, found, noises = [], [], []
    for _ in range(8):
        S = np.diag([0.05, 0.2, 0.1])
        S[1, 2] = S[2, 1] = 0.1
        law = Coregionalisation(B, S, (60,))
        features = rng.normal(size=(150, 60)) / np.sqrt(60)
        f = features @ (np.linalg.cholesky(B[0]) @ rng.normal(size=(Q, 60))).T
        y = f + rng.normal(size=f.shape) @ np.linalg.cholesky(S).T
        y[rng.random(y.shape) < 0.4] = np.nan
        start = Coregionalisation(np.eye(Q)[None], 0.3 * np.eye(Q), (60,))
        sums = OutputSums.of(features, y)
        weights, _, converged = fitted_outputs(start, sums, 200)
        assert converged
        gap = weights.log_evidence - OutputWeights.given(law, sums).log_evidence
        assert gap > -10.0
        B_found = weights.law.covariances[0]
        roots = np.sqrt(B_found.diagonal())
        found.append(B_found / np.outer(roots, roots))
        noises.append(weights.law.noise)
        std = np.sqrt(np.diagonal(weights.covariances(features), axis1=1, axis2=2))
        scores.append(np.mean(np.abs(weights.means(features) - f) < 1.96 * std))
    mean = np.mean(found, axis=0)
    assert abs(mean[0, 1] + 0.9) < 0.1
    assert np.abs(mean[2, :2]).max() < 0.2
    assert 0.88 < np.mean(scores) < 0.98
    assert abs(np.mean(noises, axis=0)[1, 2] - 0.1) < 0.04
    assert np.abs(np.mean(noises, axis=0)[0, 1:]).max() < 0.04


def test_a_law_without_a_precision_is_refused() -> None:
    sums = OutputSums.of(np.full((3, M), np.nan), np.ones((3, Q)))
    law = drawn_law(np.random.default_rng(0))
    with pytest.raises(NumericalError, match="outputs: the precision"):
        OutputWeights.given(law, sums)
