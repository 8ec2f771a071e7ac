"""Laplace features under the optimal proposal: exact weights, no bias, least variance."""

import numpy as np
import pytest
import torch
from scipy import stats

from coupledgp.errors import InvalidInputError
from coupledgp.features import (
    ImportanceLaplaceFeatures,
    LaplaceFeatures,
    least_mean_variance,
    two_law_mean_variance,
)
from coupledgp.features.laplace import mixture_log_ratio
from tests.theory import assert_mean, z_score

DIM = 2


def points(n: int, shift: float = 0.0) -> np.ndarray:
    """Inputs that are not symmetric about zero."""
    return np.random.default_rng(n).gamma(2.0, 0.25, size=(n, DIM)) - 0.3 + shift


def gram_errors(n_draws: int, rng: np.random.Generator, m: int, **arguments) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Errors of the Gram matrix of the data, or of data against keys where there are keys."""
    X, Y = arguments["data"], arguments.get("keys", arguments["data"])
    exact = np.exp(-0.5 * np.square(X[:, None] - Y).sum(-1))
    errors = np.empty((n_draws, *exact.shape))
    for i in range(n_draws):
        feature_map = ImportanceLaplaceFeatures(n_frequencies=m, generator=rng, **arguments)
        errors[i] = (feature_map(X) @ feature_map(Y).T).numpy() - exact
    return errors


def test_ratio_is_that_of_the_densities(rng: np.random.Generator) -> None:
    X, w = points(7), rng.normal(size=(5, DIM))
    mixture = np.mean([stats.multivariate_normal(2 * x).pdf(w) for x in X], axis=0)
    density = stats.multivariate_normal(np.zeros(DIM)).pdf(w)
    np.testing.assert_allclose(mixture_log_ratio(w, X), np.log(mixture / density), rtol=1e-10)
    feature_map = ImportanceLaplaceFeatures(X, 5, generator=0)
    drawn = feature_map.frequencies.numpy()
    np.testing.assert_allclose(feature_map.log_ratios, -mixture_log_ratio(drawn, X))


def test_features_weigh_those_of_laplace() -> None:
    X = points(6)
    feature_map = ImportanceLaplaceFeatures(X, 9, generator=0)
    plain = LaplaceFeatures.from_frequencies(feature_map.frequencies, "iid", "gaussian")
    expected = plain(X) * (0.5 * feature_map.log_ratios).exp()
    torch.testing.assert_close(feature_map(X), expected)
    # Under its own proposal every feature has the mean square 1/m over the data.
    torch.testing.assert_close(feature_map(X).square().mean(0), torch.full((9,), 1 / 9).double())
    inputs = torch.as_tensor(X).requires_grad_()
    assert torch.autograd.gradcheck(feature_map, (inputs,))


@pytest.mark.parametrize(
    "arguments",
    [
        {"coupling": "iid"},
        {"coupling": "orthogonal+antithetic", "symmetric": True},
        {"coupling": "iid", "keys": points(5, 0.4)},
        {"coupling": "iid", "keys": points(5, 0.4), "symmetric": True},
    ],
    ids=str,
)
def test_unbiased(arguments: dict[str, object], rng: np.random.Generator) -> None:
    errors = gram_errors(800, rng, 3, data=points(6), **arguments)
    assert_mean(errors, 0.0)
    assert_mean(errors.mean(axis=(1, 2)), 0.0)


def test_mean_variance_is_the_least(rng: np.random.Generator) -> None:
    X = points(12)
    least = least_mean_variance(X)
    squares = np.square(X[:, None] - X).sum(-1)
    assert least == pytest.approx(1 - np.exp(-squares).mean())
    errors = gram_errors(1500, rng, 1, data=X, coupling="iid")
    assert_mean(np.square(errors).mean(axis=(1, 2)), least)
    sums = np.square(X[:, None] + X).sum(-1)
    norms = np.square(X).sum(1)
    scale = np.exp(-2 * norms[:, None] - 2 * norms)
    plain = (scale * (np.exp(2 * sums) - np.exp(sums))).mean()
    assert plain > 2 * least


def test_two_laws_have_their_own_least(rng: np.random.Generator) -> None:
    """By quadrature on a line; below the bound, and below both proposals of one law."""
    X, Y = points(5)[:, :1], points(7, 0.9)[:, :1]
    w = np.linspace(-9, 12, 4001)
    f, g = (stats.norm(2 * rows.T, 1).pdf(w[:, None]).mean(1) for rows in (X, Y))
    kernel = np.exp(-np.square(X - Y.T))
    exact = (np.sqrt(f * g).sum() * (w[1] - w[0])) ** 2 - kernel.mean()
    value, error = two_law_mean_variance(X, Y, 20_000, rng)
    assert 0 < error < 0.01
    assert abs(value - exact) < 4 * error
    bound = least_mean_variance(X, Y)
    assert bound == pytest.approx(1 - kernel.mean())
    assert exact < bound
    density = stats.norm().pdf(w) ** 2 * (f / stats.norm().pdf(w)) * (g / stats.norm().pdf(w))
    for psi in (f, g, (f + g) / 2):
        assert (density / psi).sum() * (w[1] - w[0]) - kernel.mean() > exact
    same, _ = two_law_mean_variance(X, X, 8)
    assert same == pytest.approx(least_mean_variance(X))


@pytest.mark.long
def test_resampled_frequencies_reach_the_least_of_two_laws(rng: np.random.Generator) -> None:
    X, Y = points(6), points(5, 0.5)
    squares = np.square(gram_errors(1500, rng, 1, data=X, keys=Y, coupling="iid"))
    mean, value = squares.mean(axis=(1, 2)), two_law_mean_variance(X, Y, 200_000, 1)[0]
    # Resampling from a finite pool adds the pool's own variance, 1 / 32 of that of its draws.
    assert mean.mean() - 4 * mean.std() / 1500**0.5 < 1.1 * value
    assert mean.mean() + 4 * mean.std() / 1500**0.5 > value


def test_antithetic_under_a_lopsided_proposal_would_be_biased(rng: np.random.Generator) -> None:
    """The bias for which the class refuses them: -w weighted as if it came from the mixture."""
    X = points(6)
    w = 2 * X[rng.integers(6, size=50_000)] + rng.normal(size=(50_000, DIM))

    def estimates(frequencies: np.ndarray) -> np.ndarray:
        """Estimates of `K(x_0, x_0) = 1`, one for each frequency."""
        x, log_ratio = X[0], -mixture_log_ratio(frequencies, X)
        return np.exp(2 * (frequencies @ x - x @ x) + log_ratio)

    assert_mean(estimates(w), 1.0)
    assert abs(z_score(estimates(-w), 1.0)) > 5


def test_refusals() -> None:
    X = points(6)
    with pytest.raises(InvalidInputError, match=r"would bias the estimates.*symmetric=True"):
        ImportanceLaplaceFeatures(X, 4, "orthogonal+antithetic")
    with pytest.raises(InvalidInputError, match=r"with keys expected 'iid'.*got 'orthogonal'"):
        ImportanceLaplaceFeatures(X, 4, keys=X)
    with pytest.raises(InvalidInputError, match="expected a random law, got 'quadrature"):
        ImportanceLaplaceFeatures(X, 4, "quadrature+antithetic", symmetric=True)
    with pytest.raises(InvalidInputError, match=r"data: expected rows \(n, d\), got shape \(3,\)"):
        ImportanceLaplaceFeatures(np.ones(3), 4)
    with pytest.raises(InvalidInputError, match="keys: expected finite values"):
        ImportanceLaplaceFeatures(X, 4, "iid", keys=np.full((2, DIM), np.nan))
    with pytest.raises(InvalidInputError, match="keys: expected 2 columns as data, got 3"):
        ImportanceLaplaceFeatures(X, 4, "iid", keys=np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match="keys: expected 2 columns as data, got 3"):
        two_law_mean_variance(X, np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match="n_draws: expected an int >= 4"):
        two_law_mean_variance(X, X, 3)
    with pytest.raises(InvalidInputError, match="expected to be made from data"):
        ImportanceLaplaceFeatures.from_frequencies(torch.ones(2, 2), "iid", "gaussian")


def test_same_seed_same_bits_and_state() -> None:
    X = points(6)
    first, second = (ImportanceLaplaceFeatures(X, 4, generator=3) for _ in range(2))
    assert torch.equal(first.frequencies, second.frequencies)
    other = ImportanceLaplaceFeatures(X, 4, generator=4)
    other.load_state_dict(first.state_dict())
    assert torch.equal(other(X), first(X))
    assert list(first.state_dict()) == ["frequencies", "log_ratios"]
