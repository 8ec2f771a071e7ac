"""Hybrid features: unbiased, with the errors of MATH section 5, and refused as covariances."""

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid import (
    AngularHybridFeatures,
    GaussianHybridFeatures,
    HybridFeatures,
)
from coupledgp.features.hybrid_base import SoftmaxFeatures, refuse_as_covariance
from coupledgp.features.hybrid_clustered import ClusteredHybridFeatures, pair_diagonals
from coupledgp.features.hybrid_coefficients import AngularCoefficient, GaussianCoefficient
from coupledgp.features.hybrid_exponential import ComplexExponentialFeatures
from tests.theory import assert_mean

DIM = 3
REPETITIONS = 20_000
DRAWS = 1500


def pairs(rng: np.random.Generator, length: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Ten pairs of vectors of about this length: long ones have heavy tails."""
    X, Y = rng.normal(size=(2, 10, DIM))
    scale = length * rng.uniform(0.7, 1.0, size=(2, 10, 1))
    return tuple(
        s * v / np.linalg.norm(v, axis=1, keepdims=True) for s, v in zip(scale, (X, Y), strict=True)
    )


def softmax(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.exp((X * Y).sum(axis=1))


def paired(features: SoftmaxFeatures, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Estimates of the kernel of each pair, (pairs,)."""
    return (features.queries(X) * features.keys(Y)).sum(-1).numpy()


def single_frequency_estimates(
    matrix: Any, X: np.ndarray, Y: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Independent estimates of one frequency each, (repetitions, pairs)."""
    features = ComplexExponentialFeatures(DIM, REPETITIONS, matrix, "iid", rng)
    terms = (features.queries(X) * features.keys(Y)).numpy() * REPETITIONS
    return terms.reshape(len(X), -1, REPETITIONS).sum(axis=1).T


def exponential_mse(matrix: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Of one frequency, by complex arithmetic of its own."""
    a, b = matrix @ x, np.linalg.inv(matrix).T @ y
    z, sm2 = a + b, np.exp(2 * x @ y)
    scale = np.exp(-a @ a - b @ b)
    second = abs(scale) * np.exp(2 * z.real @ z.real) + (scale * np.exp(2 * z @ z)).real
    return second / 2 - sm2


def trigonometric_mse(x: np.ndarray, y: np.ndarray) -> float:
    """Times m, sine and cosine features; the form of MATH section 5."""
    plus, minus = np.sum((x + y) ** 2), np.sum((x - y) ** 2)
    return np.exp(plus) / np.exp(2 * x @ y) * (1 - np.exp(-minus)) ** 2 / 2


def signed_mse(x: np.ndarray, y: np.ndarray) -> float:
    """Times m, positive features on m frequencies and their negatives."""
    plus = np.sum((x + y) ** 2)
    return np.exp(plus) * np.exp(2 * x @ y) * (1 - np.exp(-plus)) ** 2 / 2


MATRICES: dict[str, np.ndarray] = {
    "positive": np.eye(DIM),
    "trigonometric": 1j * np.eye(DIM),
    "diagonal": np.diag([1.2, 0.8j, -1.1]),
    "rotated": 0.9 * np.exp(0.3j) * np.eye(DIM),
    "full": np.eye(DIM) + 0.25 * np.array([[0, 1, 1j], [1j, 0, -1], [0.5, -1j, 0]]),
    "real": np.array([[1.0, 0.3, 0.0], [-0.2, 1.1, 0.1], [0.0, 0.2, 0.9]]),
}


class TestComplexExponential:
    @pytest.mark.parametrize("name", MATRICES)
    def test_bias_and_error(self, name: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng, 0.4)  # squares of longer ones are too skewed for a z-test
        errors = single_frequency_estimates(MATRICES[name], X, Y, rng) - softmax(X, Y)
        assert_mean(errors, 0.0)
        expected = [exponential_mse(MATRICES[name], x, y) for x, y in zip(X, Y, strict=True)]
        assert_mean(errors**2, np.array(expected))

    def test_formula_at_the_two_classical_matrices(self, rng: np.random.Generator) -> None:
        for x, y in zip(*pairs(rng, 2.0), strict=True):
            plus, sm2 = np.sum((x + y) ** 2), np.exp(2 * x @ y)
            positive = np.exp(plus) * sm2 * (1 - np.exp(-plus))
            np.testing.assert_allclose(exponential_mse(MATRICES["positive"], x, y), positive)
            trig = exponential_mse(MATRICES["trigonometric"], x, y)
            np.testing.assert_allclose(trig, trigonometric_mse(x, y))

    @pytest.mark.parametrize("name", MATRICES)
    def test_features_are_the_real_part_of_the_complex_ones(
        self, name: str, rng: np.random.Generator
    ) -> None:
        X, Y = pairs(rng)
        features = ComplexExponentialFeatures(DIM, 7, MATRICES[name], generator=1)
        W, A = features.frequencies.numpy(), MATRICES[name]

        def psi(B: np.ndarray, U: np.ndarray) -> np.ndarray:
            BU = U @ B.T
            return np.exp(BU @ W.T - (BU * BU).sum(1, keepdims=True) / 2) / math.sqrt(7)

        expected = (psi(A, X) @ psi(np.linalg.inv(A).T, Y).T).real
        np.testing.assert_allclose(features.estimate(X, Y).numpy(), expected, rtol=1e-12)
        assert features.is_positive == (not np.iscomplex(A).any())
        assert features.n_features == (7 if features.is_positive else 14)
        assert features.queries(X).shape == (10, features.n_features)

    def test_zero_variance_where_the_exponent_vanishes(self, rng: np.random.Generator) -> None:
        X = rng.normal(size=(6, DIM))
        for matrix in MATRICES.values():
            inverse = np.linalg.inv(matrix)
            Y = -X @ (matrix.T @ matrix).T  # A x + A^-T y = 0
            if np.abs(Y.imag).max() < 1e-12:
                features = ComplexExponentialFeatures(DIM, 2, matrix, generator=rng)
                np.testing.assert_allclose(paired(features, X, Y.real), softmax(X, Y.real))
                np.testing.assert_allclose(inverse.T @ Y.T, -matrix @ X.T, atol=1e-12)

    def test_number_diagonal_and_matrix_agree(self, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        value = 0.5 + 1j
        forms = [value, np.full(DIM, value), value * np.eye(DIM)]
        made = [ComplexExponentialFeatures(DIM, 4, A, generator=0).estimate(X, Y) for A in forms]
        for other in made[1:]:
            torch.testing.assert_close(other, made[0])

    def test_gaussian_kernel(self, rng: np.random.Generator) -> None:
        """The softmax features times `exp(-|x|^2 / 2)`, and no overflow far out."""
        X, _ = pairs(rng)
        for matrix in MATRICES.values():
            soft = ComplexExponentialFeatures(DIM, 4, matrix, generator=0)
            gauss = ComplexExponentialFeatures(DIM, 4, matrix, generator=0, kernel="gaussian")
            scale = np.exp(-0.5 * np.square(X).sum(1, keepdims=True))
            expected = soft.queries(X).numpy() * scale
            np.testing.assert_allclose(gauss.queries(X).numpy(), expected, rtol=1e-12)
        far = np.full((1, DIM), 1e3)
        for matrix in (1.0, 1j):
            gauss = ComplexExponentialFeatures(DIM, 4, matrix, generator=0, kernel="gaussian")
            assert torch.isfinite(gauss.estimate(far, far)).all()

    def test_logarithms(self, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        features = ComplexExponentialFeatures(DIM, 4, MATRICES["real"], generator=0)
        torch.testing.assert_close(features.log_queries(X).exp(), features.queries(X))
        torch.testing.assert_close(features.log_keys(Y).exp(), features.keys(Y))
        with pytest.raises(InvalidInputError, match="logarithms where A is real"):
            ComplexExponentialFeatures(DIM, 4, 1j).log_queries(X)

    @pytest.mark.parametrize("text", ["orthogonal+pnc", "orthogonal+monotone+antithetic", "sobol"])
    @pytest.mark.parametrize("name", ["positive", "trigonometric", "diagonal"])
    def test_unbiased_under_couplings(self, name: str, text: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        draws = [
            paired(ComplexExponentialFeatures(DIM, 6, MATRICES[name], text, rng), X, Y)
            for _ in range(400)
        ]
        assert_mean(np.array(draws), softmax(X, Y))

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (0.0, "matrix: expected an invertible"),
            (np.ones((DIM, DIM)), "matrix: expected an invertible matrix, got singular values"),
            ([1, 0, 1], "matrix: expected an invertible"),
            (np.ones(2), r"matrix: expected a number, shape \(3,\) or \(3, 3\), got \(2,\)"),
            (np.nan, "matrix: expected finite numbers"),
            ("identity", "matrix: expected numbers, got 'identity'"),
        ],
    )
    def test_bad_matrix(self, matrix: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            ComplexExponentialFeatures(DIM, 4, matrix)

    def test_bad_kernel_and_inputs(self) -> None:
        with pytest.raises(InvalidInputError, match="kernel: expected one of 'gaussian', 'softm"):
            ComplexExponentialFeatures(DIM, 4, kernel="gauss")
        features = ComplexExponentialFeatures(DIM, 4)
        with pytest.raises(InvalidInputError, match=r"X: expected shape \(\.\.\., n, 3\), got"):
            features.queries(np.ones((2, 4)))
        with pytest.raises(InvalidInputError, match=r"Y: expected shape \(\.\.\., n, 3\), got"):
            features.keys(np.ones(3))

    def test_gradients(self, rng: np.random.Generator) -> None:
        X = torch.as_tensor(rng.normal(size=(2, DIM))).requires_grad_()
        features = ComplexExponentialFeatures(DIM, 3, MATRICES["full"], generator=0)
        assert torch.autograd.gradcheck(features.queries, (X,))


class TestCoefficients:
    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_moments_of_the_angular_one(self, n: int, rng: np.random.Generator) -> None:
        """`E[lam] = t`, `E[lam^2] = t (t - t/n + 1/n)`."""
        X, Y = (torch.as_tensor(v) for v in pairs(rng))
        groups = 8000
        coefficient = AngularCoefficient(DIM, n * groups, generator=rng)
        terms = coefficient.features(X, "query") * coefficient.features(Y, "key")
        means = terms.reshape(len(X), groups, n).sum(-1).numpy().T * groups
        lam = coefficient.constant + means
        t = coefficient.exact(X, Y).diagonal().numpy()
        cosine = ((X * Y).sum(1) / X.norm(dim=1) / Y.norm(dim=1)).numpy()
        np.testing.assert_allclose(t, np.arccos(cosine) / np.pi)
        assert_mean(lam, t)
        assert_mean(lam**2, t * (t - t / n + 1 / n))

    @pytest.mark.parametrize("features", ["fourier", "laplace"])
    def test_gaussian_one_is_unbiased(self, features: str, rng: np.random.Generator) -> None:
        X, Y = (torch.as_tensor(v) for v in pairs(rng))
        M = rng.normal(size=(DIM, DIM)) / 2
        draws = []
        for _ in range(500):
            c = GaussianCoefficient(DIM, 4, M, 1.5, features, generator=rng)
            products = c.features(X, "query") * c.features(Y, "key")
            draws.append(products.sum(-1).numpy())
        exact = np.exp(-np.square(X.numpy() + Y.numpy() @ M.T).sum(1) / (2 * 1.5**2))
        np.testing.assert_allclose(c.exact(X, Y).diagonal(), exact)
        assert_mean(np.array(draws), exact)

    def test_errors(self) -> None:
        with pytest.raises(InvalidInputError, match="width: expected a finite number > 0"):
            GaussianCoefficient(DIM, 4, width=0.0)
        with pytest.raises(InvalidInputError, match="features: expected one of 'fourier', 'lap"):
            GaussianCoefficient(DIM, 4, features="cosine")
        with pytest.raises(InvalidInputError, match=r"matrix: expected a number, shape \(3,\)"):
            GaussianCoefficient(DIM, 4, matrix=np.ones((2, 2)))


def general(generator: Any, kernel: str = "softmax") -> HybridFeatures:
    """Three estimators, one coefficient with a constant and one without."""
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


class TestHybrids:
    @all_hybrids
    def test_unbiased(self, name: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        draws = [HYBRIDS[name](rng).estimate(X, Y).diagonal().numpy() for _ in range(300)]
        assert_mean(np.array(draws), softmax(X, Y))

    @all_hybrids
    def test_sizes_and_the_short_way_to_estimates(
        self, name: str, rng: np.random.Generator
    ) -> None:
        X, Y = pairs(rng)
        features = HYBRIDS[name](0)
        assert features.queries(X).shape == features.keys(Y).shape == (10, features.n_features)
        assert features.cost >= features.n_features / 10
        direct = features.queries(X) @ features.keys(Y).mT
        torch.testing.assert_close(features.estimate(X, Y), direct)
        batched = features.queries(X.reshape(2, 5, DIM))
        torch.testing.assert_close(batched.reshape(10, -1), features.queries(X))

    @pytest.mark.parametrize("name", ["angular", "shared", "gaussian", "positive gaussian"])
    @pytest.mark.parametrize("kernel", ["softmax", "gaussian"])
    def test_common_projections_change_nothing(
        self, kernel: str, name: str, rng: np.random.Generator
    ) -> None:
        X, Y = pairs(rng)
        features = HYBRIDS[name](0, kernel=kernel)
        assert isinstance(features, HybridFeatures)
        plain = HybridFeatures(list(features.estimators), list(features.coefficients))
        torch.testing.assert_close(features.queries(X), plain.queries(X))
        products = features.queries(X) @ features.keys(Y).mT
        torch.testing.assert_close(products, plain.queries(X) @ plain.keys(Y).mT)
        assert features.cost < plain.cost

    def test_stated_costs(self) -> None:
        for shared in (False, True):
            angular = AngularHybridFeatures(DIM, 5, 7, shared=shared)
            projections = DIM * (5 * (1 if shared else 2) + 7)
            assert angular.cost == projections + 4 * 5 + angular.n_features

    def test_stated_sizes(self) -> None:
        assert AngularHybridFeatures(DIM, 5, 7).n_features == 4 * 5 * (7 + 1)
        assert GaussianHybridFeatures(DIM, 5, 7).n_features == 2 * 5 * (2 * 14 + 1)
        assert clustered(0).n_features == 2 * 4 * 2 * 3

    @all_hybrids
    def test_gaussian_kernel_is_the_rescaled_one(self, name: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        soft, gauss = HYBRIDS[name](3), HYBRIDS[name](3, kernel="gaussian")
        norms = [np.exp(-0.5 * np.square(v).sum(1)) for v in (X, Y)]
        expected = soft.estimate(X, Y).numpy() * norms[0][:, None] * norms[1]
        np.testing.assert_allclose(gauss.estimate(X, Y).numpy(), expected, rtol=1e-10)

    @all_hybrids
    def test_same_seed_same_features_and_state(self, name: str, rng: np.random.Generator) -> None:
        X, _ = pairs(rng)
        first, second, other = HYBRIDS[name](1), HYBRIDS[name](1), HYBRIDS[name](2)
        assert torch.equal(first.queries(X), second.queries(X))
        assert not torch.equal(first.queries(X), other.queries(X))
        stored = io.BytesIO()
        torch.save(first.state_dict(), stored)
        stored.seek(0)
        other.load_state_dict(torch.load(stored, weights_only=True))
        assert torch.equal(first.keys(X), other.keys(X))
        assert list(first.parameters()) == []

    @all_hybrids
    def test_float32(self, name: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        double, single = HYBRIDS[name](1), HYBRIDS[name](1).to(torch.float32)
        assert single.queries(X).dtype == torch.float32
        torch.testing.assert_close(
            single.estimate(X, Y).double(), double.estimate(X, Y), rtol=1e-4, atol=1e-4
        )

    def test_counts_of_parts(self) -> None:
        base = ComplexExponentialFeatures(DIM, 2)
        with pytest.raises(InvalidInputError, match="one fewer than estimators, got 0 for 2"):
            HybridFeatures([base, base], [])
        with pytest.raises(InvalidInputError, match="expected dimension 3 everywhere"):
            HybridFeatures([base, ComplexExponentialFeatures(2, 2)], [AngularCoefficient(3, 2)])
        other = ComplexExponentialFeatures(DIM, 2, kernel="gaussian")
        with pytest.raises(InvalidInputError, match="expected one kernel"):
            HybridFeatures([base, other], [AngularCoefficient(3, 2)])


class TestAngular:
    @pytest.mark.parametrize("shared", [False, True])
    def test_error(self, shared: bool, rng: np.random.Generator) -> None:
        """The mean squared error of MATH section 5, frequencies apart or shared.

        It depends on lengths and angle only: squares are averaged over twelve rotations of each
        pair, since those of single pairs are too skewed for a z-test.
        """
        m, n = 4, 2
        lengths_and_angles = [(0.6, 0.6, 0.5), (0.7, 0.4, 1.5), (0.5, 0.7, 2.6)]
        expected, x, y = [], [], []
        for a, b, angle in lengths_and_angles:
            flat = np.array([[a, 0, 0], [b * np.cos(angle), b * np.sin(angle), 0]])
            t = angle / np.pi
            square = t * (t - t / n + 1 / n)
            complement = 1 - 2 * t + square
            total = (square * signed_mse(*flat) + complement * trigonometric_mse(*flat)) / m
            if shared:
                between = 1 - np.cos(a**2 - b**2)
                total -= 2 / m * np.exp(2 * flat[0] @ flat[1]) * between * (t - square)
            expected.append(total)
            rotations = np.linalg.qr(rng.normal(size=(12, DIM, DIM)))[0]
            x.append(rotations @ flat[0])
            y.append(rotations @ flat[1])
        X, Y = np.concatenate(x), np.concatenate(y)
        draws = [
            paired(AngularHybridFeatures(DIM, m, n, "iid", rng, shared=shared), X, Y)
            for _ in range(DRAWS)
        ]
        squares = np.square(np.array(draws) - softmax(X, Y)).reshape(DRAWS, 3, 12).mean(-1)
        assert_mean(squares, np.array(expected))

    def test_exact_at_angles_zero_and_pi(self, rng: np.random.Generator) -> None:
        X, _ = pairs(rng, 3.0)
        features = AngularHybridFeatures(DIM, 2, 3, "iid", rng)
        np.testing.assert_allclose(paired(features, X, X), softmax(X, X), rtol=1e-10)
        np.testing.assert_allclose(paired(features, X, -X), softmax(X, -X), rtol=1e-6)


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


class TestSampling:
    @all_hybrids
    def test_probabilities(self, name: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        features = HYBRIDS[name](0)
        p = features.probabilities(X, Y).numpy()
        positive = np.clip(features.estimate(X, Y).numpy(), 0, None)
        np.testing.assert_allclose(p, positive / positive.sum(1, keepdims=True), rtol=1e-12)
        gaussian = HYBRIDS[name](0, kernel="gaussian").probabilities(X, Y).numpy()
        np.testing.assert_allclose(gaussian, p, rtol=1e-9)

    def test_many_features_approach_the_softmax(self, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        features = AngularHybridFeatures(DIM, 3000, 100, "orthogonal", rng)
        exact = np.exp(X @ Y.T)
        exact /= exact.sum(1, keepdims=True)
        np.testing.assert_allclose(features.probabilities(X, Y).numpy(), exact, atol=0.02)

    def test_rows_without_mass_are_uniform(self) -> None:
        far = np.full((1, DIM), 1e3)
        features = ComplexExponentialFeatures(DIM, 2, kernel="gaussian", generator=0)
        p = features.probabilities(far, np.ones((4, DIM)))
        np.testing.assert_array_equal(p.numpy(), 0.25)

    def test_samples_follow_the_probabilities(self, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        features = AngularHybridFeatures(DIM, 8, 4, generator=0)
        indices, probabilities = features.sample(X, Y, 20_000, rng)
        p = features.probabilities(X, Y)
        torch.testing.assert_close(probabilities, p.gather(1, indices))
        for row, law in zip(indices, p, strict=True):
            assert_mean(torch.nn.functional.one_hot(row, len(Y)).numpy(), law.numpy())
        again = features.sample(X, Y, 5, 3)[0]
        assert torch.equal(again, features.sample(X, Y, 5, 3)[0])
        with pytest.raises(InvalidInputError, match="n_samples: expected an int >= 1"):
            features.sample(X, Y, 0)


class TestNoCovariance:
    @all_hybrids
    def test_calling_explains(self, name: str) -> None:
        with pytest.raises(InvalidInputError, match=r"features: \w+: the Gram matrix .* not draw"):
            HYBRIDS[name](0)(np.ones((2, DIM)))

    def test_the_gram_is_indeed_indefinite(self, rng: np.random.Generator) -> None:
        X = rng.normal(size=(40, DIM))
        features = AngularHybridFeatures(DIM, 4, 4, generator=0)
        gram = features.estimate(X, X).numpy()
        assert np.linalg.eigvalsh((gram + gram.T) / 2)[0] < -1e-3

    @pytest.mark.parametrize(
        "features", ["angular-hybrid", AngularHybridFeatures, AngularHybridFeatures(1, 2)]
    )
    def test_regressor_explains(self, features: Any) -> None:
        gp = cgp.SparseSpectrumGPRegressor(features=features)
        with pytest.raises(InvalidInputError, match=r"features: .* no covariance of a Gaussian"):
            gp.fit(np.ones((4, 1)), np.arange(4.0))

    def test_other_features_pass(self) -> None:
        for features in ("fourier", cgp.features.FourierFeatures, None):
            refuse_as_covariance(features)
