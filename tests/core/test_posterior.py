"""Posterior of the weights: against the n x n form, as a sum of squares, and its samples."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coupledgp.core.statistics import DataStatistics
from coupledgp.core.weights_posterior import WeightPosterior
from tests.theory import assert_mean

SIZE = 8


def posterior_of(features: Tensor, targets: Tensor, v: float, s: float) -> WeightPosterior:
    k = targets.shape[1]
    zero, one = torch.zeros(k).double(), torch.ones(k).double()
    statistics = DataStatistics(features.shape[1], zero).updated([(features, targets)])
    return statistics.posterior(zero, one, v, s)


def plain_law(
    features: np.ndarray, targets: np.ndarray, test: np.ndarray, v: float, s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Latent law at test features by the n x n form."""
    cross = v * test @ features.T
    gram = v * features @ features.T + s * np.eye(len(features))
    mean = cross @ np.linalg.solve(gram, targets)
    return mean, v * test @ test.T - cross @ np.linalg.solve(gram, cross.T)


def random_table(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features = rng.normal(size=(n, SIZE)) / np.sqrt(SIZE)
    return features, rng.normal(size=(n, 2)), rng.normal(size=(6, SIZE)) / np.sqrt(SIZE)


@pytest.mark.parametrize("n", [1, 5, SIZE - 1, SIZE, SIZE + 1, 40])
@pytest.mark.parametrize(("v", "s"), [(1.0, 0.1), (3.0, 2.0), (0.01, 0.5), (50.0, 1e-3)])
def test_against_the_dense_form(n: int, v: float, s: float, rng: np.random.Generator) -> None:
    features, targets, test = random_table(n, rng)
    posterior = posterior_of(torch.as_tensor(features), torch.as_tensor(targets), v, s)
    assert (posterior.basis is None) == (n >= SIZE)
    mean, cov = plain_law(features, targets, test, v, s)
    root = posterior.root(torch.as_tensor(test))
    tolerance = 1e-9 * max(1.0, v)
    np.testing.assert_allclose(posterior.predict(torch.as_tensor(test)).numpy(), mean, atol=1e-8)
    np.testing.assert_allclose((root @ root.T).numpy(), cov, rtol=1e-8, atol=tolerance)
    gram = v * features @ features.T + s * np.eye(n)
    evidence = -0.5 * (
        (targets * np.linalg.solve(gram, targets)).sum()
        + 2 * np.linalg.slogdet(gram)[1]
        + 2 * n * np.log(2 * np.pi)
    )
    assert posterior.log_evidence == pytest.approx(evidence, rel=1e-8)


@pytest.mark.parametrize("n", [3, 60])
@pytest.mark.parametrize("noise", [1e-12, 1e-10, 1e-6])
def test_variance_is_never_negative(n: int, noise: float, rng: np.random.Generator) -> None:
    """Nearly equal features, hardly any noise, test points among the data: where a difference of
    two variances would come out negative."""
    base = rng.normal(size=SIZE)
    features = torch.as_tensor(base + 1e-4 * rng.normal(size=(n, SIZE)))
    targets = torch.as_tensor(rng.normal(size=(n, 1)))
    posterior = posterior_of(features, targets, 1.0, noise)
    root = posterior.root(features)
    variance = root.square().sum(1)
    assert torch.isfinite(root).all()
    assert (variance >= 0).all()
    # At the data the variance is below that of the noise, but for rounding in a unit variance.
    scale = float(features.square().sum(1).max())
    assert (variance <= noise * (1 + 1e-3) + 1e-14 * scale).all()


@given(
    factor=st.floats(1.01, 100.0),
    noise=st.floats(1e-4, 10.0),
    outputscale=st.floats(0.01, 100.0),
    n=st.integers(1, 20),
)
def test_more_noise_more_variance(factor: float, noise: float, outputscale: float, n: int) -> None:
    features, targets, test = map(torch.as_tensor, random_table(n, np.random.default_rng(n)))
    quiet = posterior_of(features, targets, outputscale, noise).root(test).square().sum(1)
    noisy = posterior_of(features, targets, outputscale, factor * noise).root(test).square().sum(1)
    assert (noisy >= quiet * (1 - 1e-9)).all()
    prior = outputscale * test.square().sum(1)
    assert (noisy <= prior * (1 + 1e-9)).all()


@given(n=st.integers(1, 20), more=st.integers(1, 10), noise=st.floats(1e-4, 10.0))
def test_data_never_raise_the_variance(n: int, more: int, noise: float) -> None:
    """Also where they carry the posterior over from the rows to the moments."""
    features, targets, test = map(torch.as_tensor, random_table(n + more, np.random.default_rng(n)))
    few = posterior_of(features[:n], targets[:n], 1.3, noise).root(test)
    many = posterior_of(features, targets, 1.3, noise).root(test)
    difference = few @ few.T - many @ many.T
    assert float(torch.linalg.eigvalsh(difference).min()) > -1e-9


@pytest.mark.parametrize("n", [3, SIZE, 30])
def test_samples_have_the_posterior_law(n: int, rng: np.random.Generator) -> None:
    features, targets, test = map(torch.as_tensor, random_table(n, rng))
    posterior = posterior_of(features, targets, 2.0, 0.3)
    draws = 20_000
    innovations = torch.as_tensor(rng.standard_normal((posterior.n_innovations, draws)))
    f = (test @ posterior.sample(innovations)).T.numpy()
    root = posterior.root(test)
    cov = (root @ root.T).numpy()
    assert_mean(f, 0.0)
    assert_mean(f[:, :, None] * f[:, None, :], cov)


@pytest.mark.parametrize("n", [3, 30])
def test_samples_are_linear_in_the_innovations(n: int, rng: np.random.Generator) -> None:
    """The exact covariance of the samples, from unit innovations."""
    features, targets, test = map(torch.as_tensor, random_table(n, rng))
    posterior = posterior_of(features, targets, 2.0, 0.3)
    weights = posterior.sample(torch.eye(posterior.n_innovations).double())
    root = posterior.root(test)
    torch.testing.assert_close(test @ weights @ weights.T @ test.T, root @ root.T)


def test_repeated_rows_fewer_than_features(rng: np.random.Generator) -> None:
    """Two equal rows are one row with half the noise."""
    features, targets, test = random_table(3, rng)
    features, targets, test = map(torch.as_tensor, (features, targets, test))
    twice = posterior_of(torch.cat([features, features]), torch.cat([targets, targets]), 1.0, 0.2)
    once = posterior_of(features, targets, 1.0, 0.1)
    assert twice.basis is not None
    torch.testing.assert_close(twice.predict(test), once.predict(test))
    ours, theirs = twice.root(test), once.root(test)
    torch.testing.assert_close(ours @ ours.T, theirs @ theirs.T)


def test_single_precision_features_are_solved_in_double(rng: np.random.Generator) -> None:
    for n in (3, 30):
        features, targets, test = map(torch.as_tensor, random_table(n, rng))
        single = posterior_of(features.float(), targets, 1.0, 0.2)
        assert single.mean.dtype == single.factor.dtype == torch.float64
        assert single.predict(test.float()).dtype == torch.float64
        double = posterior_of(features, targets, 1.0, 0.2)
        torch.testing.assert_close(single.predict(test), double.predict(test), rtol=0, atol=1e-5)
