"""Inputs, estimators and mean squared errors for the tests of hybrid features."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from coupledgp.features.hybrid.base import SoftmaxFeatures
from coupledgp.features.hybrid.clustered import ClusteredHybridFeatures
from coupledgp.features.hybrid.coefficients import AngularCoefficient, GaussianCoefficient
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from coupledgp.features.hybrid.hybrid import (
    AngularHybridFeatures,
    GaussianHybridFeatures,
    HybridFeatures,
)

DIM = 3


def pairs(rng: np.random.Generator, length: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Ten pairs of vectors of about the given length; estimates for long ones have heavy tails."""
    X, Y = rng.normal(size=(2, 10, DIM))
    scale = length * rng.uniform(0.7, 1.0, size=(2, 10, 1))
    return tuple(
        s * v / np.linalg.norm(v, axis=1, keepdims=True) for s, v in zip(scale, (X, Y), strict=True)
    )


def softmax(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.exp((X * Y).sum(axis=1))


def paired(features: SoftmaxFeatures, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Estimates of the kernel for each pair, shape (pairs,)."""
    return (features.queries(X) * features.keys(Y)).sum(-1).numpy()


def trigonometric_mse(x: np.ndarray, y: np.ndarray) -> float:
    """m times the mean squared error of sine and cosine features, by the formula of MATH 5."""
    plus, minus = np.sum((x + y) ** 2), np.sum((x - y) ** 2)
    return np.exp(plus) / np.exp(2 * x @ y) * (1 - np.exp(-minus)) ** 2 / 2


def general(generator: Any, kernel: str = "softmax") -> HybridFeatures:
    """A hybrid of three estimators, with one coefficient that has a constant and one without."""
    rng = np.random.default_rng(generator)
    bases = [
        ComplexExponentialFeatures(DIM, 3, A, "iid", rng, kernel=kernel)
        for A in (1j, np.diag([1, 1j, 1]), 1.0)
    ]
    weights = [
        AngularCoefficient(DIM, 2, generator=rng),
        GaussianCoefficient(DIM, 2, generator=rng),
    ]
    return HybridFeatures(bases, weights)


def clustered(generator: Any, kernel: str = "softmax") -> ClusteredHybridFeatures:
    centers = np.random.default_rng(7).normal(size=(2, 3, DIM)) / 2
    return ClusteredHybridFeatures(
        centers[0, :2], centers[1], 4, generator=generator, kernel=kernel
    )


HYBRIDS: dict[str, Callable[..., SoftmaxFeatures]] = {
    "angular": lambda g, **k: AngularHybridFeatures(DIM, 4, 3, generator=g, **k),
    "shared": lambda g, **k: AngularHybridFeatures(DIM, 4, 3, generator=g, shared=True, **k),
    "gaussian": lambda g, **k: GaussianHybridFeatures(DIM, 4, 3, generator=g, **k),
    "positive gaussian": lambda g, **k: GaussianHybridFeatures(
        DIM, 4, 3, generator=g, coefficient_features="laplace", **k
    ),
    "general": general,
    "clustered": clustered,
}
all_hybrids = pytest.mark.parametrize("name", HYBRIDS)
