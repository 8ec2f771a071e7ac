"""Hybrid features of clusters: exact at the centres, better where there are clusters."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid.base import SoftmaxFeatures
from coupledgp.features.hybrid.clustered import ClusteredHybridFeatures, pair_diagonals
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from tests.features.hybrid_cases import DIM, pairs


class TestClustered:
    def test_exact_at_the_centres(self, rng: np.random.Generator) -> None:
        R, S = rng.uniform(0.5, 1.5, size=(2, 4, DIM)) * rng.choice([-1, 1], size=(2, 4, DIM))
        features = ClusteredHybridFeatures(R, S, 3, generator=rng, max_ratio=100)
        np.testing.assert_allclose(features.estimate(R, S).numpy(), np.exp(R @ S.T), rtol=1e-10)

    def test_is_the_estimator_of_its_pair(self, rng: np.random.Generator) -> None:
        R, S = rng.normal(size=(2, 2, DIM))
        X, Y = pairs(rng)
        features = ClusteredHybridFeatures(R, S, 5, generator=1)
        diagonals = pair_diagonals(R, S, 10.0)
        for x, y in zip(X, Y, strict=True):
            i = np.linalg.norm(R - x, axis=1).argmin()
            j = np.linalg.norm(S - y, axis=1).argmin()
            single = ComplexExponentialFeatures.from_frequencies(
                features.frequencies, diagonals[i, j]
            )
            torch.testing.assert_close(
                features.estimate(x[None], y[None]), single.estimate(x[None], y[None])
            )

    def test_ratio_is_bounded(self) -> None:
        R, S = np.array([[0.0, 1.0, 0.0]]), np.array([[1.0, 0.0, 0.0]])
        sizes = np.abs(pair_diagonals(R, S, 4.0)).ravel()
        np.testing.assert_allclose(sizes, [2, 0.5, 1])

    def test_smaller_error_on_clustered_data(self, rng: np.random.Generator) -> None:
        """Far below plain positive and trigonometric features; the margin is wide."""
        R, S = np.array([[2.0, -1.5, 1.0], [-1.5, 1, 2]]), np.array([[1.0, 2, -1.5], [1.5, 1, 1]])
        X = np.repeat(R, 20, axis=0) + 0.05 * rng.normal(size=(40, DIM))
        Y = np.repeat(S, 20, axis=0) + 0.05 * rng.normal(size=(40, DIM))
        exact = np.exp(X @ Y.T)

        def error(make: Callable[[], SoftmaxFeatures]) -> float:
            relative = [make().estimate(X, Y).numpy() / exact - 1 for _ in range(20)]
            return float(np.mean(np.square(relative)))

        fitted = error(lambda: ClusteredHybridFeatures.fit(X, Y, 32, 2, 2, generator=rng))
        for matrix in (1.0, 1j):
            plain = error(lambda A=matrix: ComplexExponentialFeatures(DIM, 64, A, generator=rng))
            assert fitted < plain / 4

    def test_errors(self, rng: np.random.Generator) -> None:
        X = rng.normal(size=(5, DIM))
        with pytest.raises(InvalidInputError, match="n_key_clusters: expected at most 5, got 6"):
            ClusteredHybridFeatures.fit(X, X, 4, 2, 6)
        with pytest.raises(InvalidInputError, match="key_centers: expected 3 columns"):
            ClusteredHybridFeatures(X, X[:, :2], 4)
        with pytest.raises(InvalidInputError, match="query_centers: expected a non-empty 2-D"):
            ClusteredHybridFeatures(np.full((2, 3), np.nan), X, 4)
