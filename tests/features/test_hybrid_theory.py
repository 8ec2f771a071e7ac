"""Theorems on hybrid features whose figures come from closed forms or from parts put together."""

import numpy as np
import pytest
import torch

from coupledgp.errors import InvalidInputError
from coupledgp.features import (
    AngularHybridFeatures,
    GaussianHybridFeatures,
    GaussianMixtureHybridFeatures,
)
from tests.features.hybrid_cases import DIM, paired, softmax, trigonometric_mse
from tests.theory import assert_mean


def positive_mse(x: np.ndarray, y: np.ndarray) -> float:
    """m times the mean squared error of positive features on frequencies and their negatives."""
    plus = np.sum((x + y) ** 2)
    return float(np.exp(plus + 2 * x @ y) * (1 - np.exp(-plus)) ** 2 / 2)


def on_the_sphere(r: float, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors of length r at an angle."""
    x, y = np.zeros((2, DIM))
    x[0], y[0], y[1] = r, r * np.cos(angle), r * np.sin(angle)
    return x, y


def weight_moment(angle: float, n: int) -> tuple[float, float]:
    """Second moments of the estimate of the angular weight and of one minus it (lemma 3.2)."""
    t = angle / np.pi
    return t * (t - t / n + 1 / n), (1 - t) * ((1 - t) * (1 - 1 / n) + 1 / n)


def test_relative_errors_mirror_each_other() -> None:
    """Lemma 3.4, from the mean squared errors of lemma 2.2."""
    r = 1.3
    for angle in np.linspace(0.1, 3.0, 7):
        x, y = on_the_sphere(r, angle)
        _, opposite = on_the_sphere(r, np.pi - angle)
        trigonometric = np.sqrt(trigonometric_mse(x, y)) / np.exp(x @ y)
        positive = np.sqrt(positive_mse(x, opposite)) / np.exp(x @ opposite)
        s = 2 * r**2 * np.sin(angle / 2) ** 2
        stated = np.exp(s) * (1 - np.exp(-2 * s)) / np.sqrt(2)
        np.testing.assert_allclose([trigonometric, positive], stated, rtol=1e-10)


def test_largest_relative_error_of_the_angular_hybrid() -> None:
    """Theorem 3.5 with m = 1: the bound for r >= 1, and both limits."""

    def relative(r: float, angle: float, n: int) -> float:
        x, y = on_the_sphere(r, angle)
        square, complement = weight_moment(angle, n)
        mse = square * positive_mse(x, y) + complement * trigonometric_mse(x, y)
        return float(np.sqrt(mse) / np.exp(x @ y))

    for r in (1.0, 1.5, 2.0):
        scale = np.exp(2 * r**2) * (1 - np.exp(-4 * r**2))
        for n in (1, 4, 16):
            bound = np.sqrt(1 / np.pi - 1 / (n * np.pi) + 1 / (n * np.sqrt(np.pi)))
            largest = max(relative(r, angle, n) for angle in np.linspace(0, np.pi, 400))
            assert 0.2 * bound < largest * r * np.sqrt(2) / scale <= bound
            limit = scale / np.sqrt(2 * np.pi * n)
            for angle in (1e-5, np.pi - 1e-5):
                found = relative(r, angle, n) / np.sqrt(1e-5)
                np.testing.assert_allclose(found, limit, rtol=1e-2)


@pytest.mark.parametrize("angle", [0.0, 0.9, 2.0, np.pi])
@pytest.mark.long
def test_error_of_the_gaussian_hybrid(angle: float, rng: np.random.Generator) -> None:
    """Theorems F.1 and F.2, weights normalised for one length."""
    r, m, n, width = 0.6, 3, 2, 0.8
    x, y = on_the_sphere(r, angle)
    rho = 1 - np.exp(-2 * r**2 / width**2)
    distance = np.sum((x - y) ** 2) / width**2
    spread = (1 - np.exp(-distance)) ** 2 / (2 * n * rho**2)
    square = ((1 - np.exp(-distance / 2)) / rho) ** 2 + spread
    complement = ((1 - rho - np.exp(-distance / 2)) / rho) ** 2 + spread
    expected = (square * positive_mse(x, y) + complement * trigonometric_mse(x, y)) / m
    rotations = np.linalg.qr(rng.normal(size=(12, DIM, DIM)))[0]
    X, Y = rotations @ x, rotations @ y
    draws = [
        paired(GaussianHybridFeatures(DIM, m, n, "iid", rng, width=width, length=r), X, Y)
        for _ in range(200)
    ]
    assert_mean(np.square(np.array(draws) - softmax(X, Y)).mean(1), np.array(expected))


def test_coefficients_of_hybrid_features(rng: np.random.Generator) -> None:
    """Appendix F: a hybrid estimator may estimate the weights of another one."""
    X, Y = rng.normal(size=(2, 5, DIM)) * 0.4
    draws, exact = [], None
    for _ in range(120):
        inner = AngularHybridFeatures(DIM, 3, 2, "iid", rng, kernel="gaussian")
        outer = GaussianHybridFeatures(
            DIM, 3, 1, "iid", rng, coefficient_features=inner, length=0.7
        )
        (weight,) = outer.coefficients
        exact = weight.exact(torch.as_tensor(X), torch.as_tensor(Y)).diagonal().numpy()
        products = weight.features(torch.as_tensor(X), "query") * weight.features(
            torch.as_tensor(Y), "key"
        )
        draws.append([paired(outer, X, Y), weight.constant + products.sum(-1).numpy()])
    assert_mean(np.array(draws), np.array([softmax(X, Y), exact]))
    softmax_kernel = AngularHybridFeatures(DIM, 3, 2)
    with pytest.raises(InvalidInputError, match="expected those of the Gaussian kernel in 3"):
        GaussianHybridFeatures(DIM, 3, coefficient_features=softmax_kernel)


def test_gaussian_mixtures_of_clusters(rng: np.random.Generator) -> None:
    """Definition H.1: unbiased, with the estimators and weights of the centres."""
    R, S = rng.normal(size=(2, 2, DIM)) * 0.5
    X, Y = R + 0.1, S - 0.1
    draws = []
    for _ in range(120):
        features = GaussianMixtureHybridFeatures(R, S, 2, 2, 1.5, "iid", rng)
        draws.append(paired(features, X, Y))
    assert_mean(np.array(draws), softmax(X, Y))
    assert features.n_features == features.queries(X).shape[1] == 2 * (1 + 4 * 2 * 2 * 2)
    assert len(features.estimators) == 5
    for weight, estimator, (i, j) in zip(
        features.coefficients, features.estimators, np.ndindex(2, 2), strict=False
    ):
        a = np.clip(np.sqrt(np.abs(S[j] / R[i])), 10**-0.5, 10**0.5)
        np.testing.assert_allclose(estimator.query_real, a)
        found = weight.exact(torch.as_tensor(X[i : i + 1]), torch.as_tensor(Y[j : j + 1]))
        assert float(found) == pytest.approx(np.exp(-np.sum((a * X[i] + Y[j] / a) ** 2) / 4.5))
    with pytest.raises(InvalidInputError, match="key_centers: expected 3 columns"):
        GaussianMixtureHybridFeatures(R, S[:, :2], 2)
