"""Hybrid features of clusters: exact at the centres, better where there are clusters."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid.base import SoftmaxFeatures
from coupledgp.features.hybrid.clustered import (
    ClusteredHybridFeatures,
    ClusterPairs,
    imaginary_parts,
    log_cosh,
)
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from tests.features.hybrid_cases import DIM, pairs
from tests.theory import assert_mean


def clouds(spread: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows (80, 12) of two clusters each, of mean length one."""
    centers = rng.normal(size=(2, 2, 12))
    X, Y = (np.repeat(own, 40, axis=0) + spread * rng.normal(size=(80, 12)) for own in centers)
    return tuple(rows / np.linalg.norm(rows, axis=1).mean() for rows in (X, Y))


def assigned(features: ClusteredHybridFeatures, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Diagonals (n, p, d) of the pairs of clusters that the rows belong to."""
    own = [
        np.linalg.norm(rows[:, None] - centers.numpy(), axis=-1).argmin(1)
        for rows, centers in ((X, features.query_centers), (Y, features.key_centers))
    ]
    real, imag = features.factor.numpy()
    return (real + 1j * imag)[own[0][:, None], own[1]]


def mean_variance(X: np.ndarray, Y: np.ndarray, a: np.ndarray) -> float:
    """Mean over all pairs of the variance of one frequency, by the formula of MATH 5."""
    x, y = X[:, None] + 0j, Y[None] + 0j
    z = a * x + y / a
    square = ((a * x) ** 2 + (y / a) ** 2).sum(-1)
    kernel = np.exp(X @ Y.T)
    first = np.exp(-square.real + 2 * np.square(z.real).sum(-1))
    return float(((first + kernel**2 * np.exp((z**2).sum(-1)).real) / 2 - kernel**2).mean())


class TestClustered:
    def test_exact_at_the_centres(self, rng: np.random.Generator) -> None:
        R, S = rng.uniform(0.5, 1.5, size=(2, 4, DIM)) * rng.choice([-1, 1], size=(2, 4, DIM))
        features = ClusteredHybridFeatures(R, S, 3, generator=rng, form="complex", max_ratio=100)
        np.testing.assert_allclose(features.estimate(R, S).numpy(), np.exp(R @ S.T), rtol=1e-10)

    def test_centres_are_copies_and_may_be_reversed(self, rng: np.random.Generator) -> None:
        R = rng.normal(size=(3, DIM))
        features = ClusteredHybridFeatures(R[::-1], R, 3, generator=0)
        before = R.copy()
        R[:] = 0.0
        np.testing.assert_array_equal(features.query_centers.numpy(), before[::-1])
        np.testing.assert_array_equal(features.key_centers.numpy(), before)

    @pytest.mark.parametrize("form", ["real", "complex"])
    def test_is_the_estimator_of_its_pair(self, form: str, rng: np.random.Generator) -> None:
        R, S = rng.normal(size=(2, 2, DIM))
        X, Y = pairs(rng)
        features = ClusteredHybridFeatures(R, S, 5, generator=1, form=form)
        assert features.queries(X).shape[1] == features.n_features
        assert (form == "real") == bool((features.queries(X) >= 0).all())
        diagonals = ClusterPairs.without_spread(R, S).diagonals(10.0, form == "complex")
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
        sizes = np.abs(ClusterPairs.without_spread(R, S).diagonals(4.0, False)).ravel()
        np.testing.assert_allclose(sizes, [2, 0.5, 1])

    def test_moments_are_least(self, rng: np.random.Generator) -> None:
        """No other real diagonal has a smaller `E |A x + A^-1 y|^2` over the rows of a pair."""
        X, Y = rng.normal(0.3, [0.5, 1, 0.2], size=(40, DIM)), rng.normal(-0.2, 0.4, (30, DIM))
        features = ClusteredHybridFeatures.fit(X, Y, 4, 1, 1, generator=0, max_ratio=1e3)
        best = features.factor[0, 0, 0].numpy()

        def loss(a: np.ndarray) -> float:
            return float(np.square(a * X[:, None] + Y / a).sum(-1).mean())

        for step in (0.9, 1.1):
            for k in range(DIM):
                assert loss(best) < loss(np.where(np.arange(DIM) == k, step * best, best))

    @pytest.mark.parametrize("spread", [0.05, 0.3, 1.0, 3.0])
    def test_never_far_above_positive_features(
        self, spread: float, rng: np.random.Generator
    ) -> None:
        """Exact variances over all pairs of rows, from tight clusters to no clusters at all."""
        X, Y = clouds(spread, rng)
        real = ClusteredHybridFeatures.fit(X, Y, 1, 2, 2, generator=0)
        complex_form = ClusteredHybridFeatures.fit(X, Y, 1, 2, 2, generator=0, form="complex")
        plain = mean_variance(X, Y, np.ones((len(X), len(Y), X.shape[1])))
        own = mean_variance(X, Y, assigned(real, X, Y))
        assert own < 1.14 * plain
        assert own < (0.6 if spread < 0.1 else 1) * plain
        better = (
            "complex" if 2 * mean_variance(X, Y, assigned(complex_form, X, Y)) < own else "real"
        )
        assert ClusteredHybridFeatures.fit(X, Y, 1, 2, 2, generator=0, form="auto").form == better

    @pytest.mark.long
    def test_mean_variance_is_what_is_drawn(self, rng: np.random.Generator) -> None:
        X, Y = (rows[::8] / 3 for rows in clouds(0.3, rng))
        for form in ("real", "complex"):
            squares = []
            features = ClusteredHybridFeatures.fit(X, Y, 1, 2, 2, "iid", rng, form=form)
            for _ in range(800):
                features.frequencies = torch.as_tensor(rng.normal(size=(1, X.shape[1])))
                squares.append(np.square(features.estimate(X, Y).numpy() - np.exp(X @ Y.T)).mean())
            assert_mean(np.array(squares), mean_variance(X, Y, assigned(features, X, Y)))

    def test_imaginary_parts_are_the_best_subset(self, rng: np.random.Generator) -> None:
        for scale in (0.05, 0.5, 5.0):
            real, imaginary = scale * rng.gamma(0.5, size=(2, 6))
            subsets = np.array(list(itertools.product([False, True], repeat=6)))
            costs = (~subsets) @ real + log_cosh(subsets @ imaginary)
            found = imaginary_parts(real, imaginary)
            np.testing.assert_array_equal(found, subsets[costs.argmin()])

    def test_opposite_clusters_stay_positive(self) -> None:
        R = np.array([[1.0, -2.0, 0.5]])
        assert ClusteredHybridFeatures(R, -R, 4, form="auto").form == "real"
        assert ClusteredHybridFeatures(R, R, 4, form="auto").form == "complex"
        loose = {"query_squares": R**2 + 9, "key_squares": R**2 + 9}
        assert ClusteredHybridFeatures(R, R, 4, form="auto", **loose).form == "complex"
        assert ClusteredHybridFeatures(R, -R, 4, form="auto", **loose).form == "real"

    def test_antithetic_frequencies_favour_the_real_form(self) -> None:
        """At one pair of clusters of short vectors; both variances are written out."""
        R, S, squares = np.array([[0.2, 0.2]]), np.array([[0.1, -0.1]]), np.full((1, 2), 0.05)
        # g = .05 and r s = .02, -.02: the first coordinate is worth being imaginary.
        u, v = 2 * (0.05 + np.array([0.02, -0.02])), 2 * (0.05 - np.array([0.02, -0.02]))
        mixed = 2 * (np.exp(u[1]) * np.cosh(v[0]) - 1)
        assert 4 * np.sinh(u.sum() / 2) ** 2 < mixed < np.exp(u.sum()) - 1
        for coupling, form in (("iid", "complex"), ("iid+antithetic", "real")):
            found = ClusteredHybridFeatures(
                R, S, 4, coupling, form="auto", query_squares=squares, key_squares=squares
            )
            assert found.form == form

    def test_smaller_error_on_clustered_data(self, rng: np.random.Generator) -> None:
        """Far below plain positive and trigonometric features; the margin is wide."""
        R, S = np.array([[2.0, -1.5, 1.0], [-1.5, 1, 2]]), np.array([[1.0, 2, -1.5], [1.5, 1, 1]])
        X = np.repeat(R, 20, axis=0) + 0.05 * rng.normal(size=(40, DIM))
        Y = np.repeat(S, 20, axis=0) + 0.05 * rng.normal(size=(40, DIM))
        exact = np.exp(X @ Y.T)

        def error(make: Callable[[], SoftmaxFeatures]) -> float:
            relative = [make().estimate(X, Y).numpy() / exact - 1 for _ in range(20)]
            return float(np.mean(np.square(relative)))

        fitted = error(
            lambda: ClusteredHybridFeatures.fit(X, Y, 32, 2, 2, generator=rng, form="auto")
        )
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
        with pytest.raises(InvalidInputError, match=r"key_squares: expected shape \(5, 3\)"):
            ClusteredHybridFeatures(X, X, 4, key_squares=X**2 / 2)
        with pytest.raises(InvalidInputError, match="form: "):
            ClusteredHybridFeatures(X, X, 4, form="imaginary")
