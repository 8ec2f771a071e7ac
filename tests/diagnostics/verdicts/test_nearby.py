"""Kernels near a model's: additive ones by hand, and expressions with a term more or less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import coupledgp as cgp
from coupledgp.diagnostics.scoring.subject import Subject
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.variations import nearby, variations
from coupledgp.kernels import parse_kernel

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)


def matern(steps: np.ndarray) -> np.ndarray:
    return (1 + 3**0.5 * np.abs(steps)) * np.exp(-(3**0.5) * np.abs(steps))


def test_an_additive_kernel_has_the_variance_of_the_stationary_one() -> None:
    lengths, v, noise = np.array([0.7, 1.0, 2.0]), 1.7, 0.05
    model = cgp.ExactGPRegressor(
        "matern-3/2", lengthscale=lengths, outputscale=v, noise=noise, optimizer=None,
        normalize_y=False,
    ).fit(X[:40], Y[:40])  # fmt: skip
    found = {one.name: one for one in variations(Subject.of(model, X[40:]), Y[40:, None])}
    chosen = [one for one in found.values() if one.kernel == "additive(2, matern-3/2)"]
    assert len(chosen) == 4
    prior, centred = model.process_.dense_prior, Y - model.process_.units.offset
    own = prior.covariance(X, X) + noise * np.eye(60)
    base = multivariate_normal(cov=own).logpdf(centred)
    for factor, text in ((1.0, "1"), (3**-0.5, "0.58")):
        k = matern((X[:, None] - X[None]) / (factor * lengths))
        pairs = k[..., 0] * k[..., 1] + k[..., 0] * k[..., 2] + k[..., 1] * k[..., 2]
        whole = v * (0.2 * k.sum(axis=2) + 0.1 * pairs + 0.1 * k.prod(axis=2))
        assert np.allclose(whole.diagonal(), v)
        other = multivariate_normal(cov=whole + noise * np.eye(60)).logpdf(centred)
        one = found[f"additive(2, matern-3/2), lengthscales times {text}"]
        assert one.evidence_gain == pytest.approx(other - base, rel=1e-8)
        assert "ExactGPRegressor" in one.action


def test_a_trend_is_added_to_a_stationary_kernel() -> None:
    lengths, v = np.array([0.7, 1.0, 2.0]), 1.7
    model = cgp.ExactGPRegressor(
        "matern-3/2", lengthscale=lengths, outputscale=v, noise=0.1, optimizer=None,
        normalize_y=False,
    ).fit(X[:40], Y[:40])  # fmt: skip
    prior = model.process_.dense_prior
    found = next(one for one in nearby(prior, X) if one.name == "a linear trend")
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = prior.covariance(X, X) + np.exp(-1.0) * z @ z.T
    np.testing.assert_allclose(found.prior.covariance(X, X), expected, rtol=1e-9, atol=1e-9)
    assert found.prior.noise == pytest.approx(0.1)
    assert found.kernel == "matern-3/2 + linear"
    assert "a linear trend" not in [one.name for one in nearby(prior)]


def test_an_expression_has_a_term_more_or_less() -> None:
    kernel = parse_kernel("matern-3/2[0] + additive(1) + constant")
    model = cgp.ExactGPRegressor(kernel, options={"n_restarts": 0, "max_iter": 3}).fit(
        X[:40], Y[:40]
    )
    prior = model.process_.dense_prior
    own = {one.name: one for one in nearby(prior)}
    assert list(own) == [
        "a further term additive(2, matern-3/2)", "a further term linear", "no term matern-3/2[0]",
        "no term additive(1, matern-3/2)", "no term constant",
    ]  # fmt: skip
    more = own["a further term linear"].prior.covariance(X, X) - prior.covariance(X, X)
    inputs = prior.standardised(X)
    np.testing.assert_allclose(more, np.exp(-1.0) * inputs @ inputs.T, rtol=1e-9, atol=1e-9)
    less = prior.covariance(X, X) - own["no term constant"].prior.covariance(X, X)
    variance = prior.hyperparameters.parameters["variance of constant"]
    np.testing.assert_allclose(less, variance, rtol=1e-9)
    first = prior.variance(X) - own["no term matern-3/2[0]"].prior.variance(X)
    variance = prior.hyperparameters.parameters["variance of matern-3/2[0]"]
    np.testing.assert_allclose(first, variance, rtol=1e-9)
    for one in own.values():
        assert parse_kernel(one.kernel) == one.prior.kernel


def test_a_missing_term_is_found_and_named() -> None:
    rows = RNG.normal(size=(160, 3))
    y = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2] + 0.1 * RNG.normal(size=160)
    model = cgp.ExactGPRegressor(
        "matern-3/2[0] + constant", options={"n_restarts": 0, "max_iter": 15}
    )
    model.fit(rows[:100], y[:100])
    found = variations(Subject.of(model, rows[100:]), y[100:, None])
    better = Evidence(variations=found).better_variations
    assert [one.name for one in better] == ["a further term additive(2, matern-3/2)"]
    assert "'matern-3/2[0] + constant + additive(2, matern-3/2)'" in better[0].action
