"""Complex exponential features: unbiased, with the errors of MATH section 5."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from tests.features.hybrid_cases import (
    DIM,
    paired,
    pairs,
    softmax,
    trigonometric_mse,
)
from tests.theory import assert_mean

REPETITIONS = 20_000
MATRICES: dict[str, np.ndarray] = {
    "positive": np.eye(DIM),
    "trigonometric": 1j * np.eye(DIM),
    "diagonal": np.diag([1.2, 0.8j, -1.1]),
    "rotated": 0.9 * np.exp(0.3j) * np.eye(DIM),
    "full": np.eye(DIM) + 0.25 * np.array([[0, 1, 1j], [1j, 0, -1], [0.5, -1j, 0]]),
    "real": np.array([[1.0, 0.3, 0.0], [-0.2, 1.1, 0.1], [0.0, 0.2, 0.9]]),
}


def single_frequency_estimates(
    matrix: Any, X: np.ndarray, Y: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Independent estimates by one frequency each, shape (repetitions, pairs)."""
    features = ComplexExponentialFeatures(DIM, REPETITIONS, matrix, "iid", rng)
    terms = (features.queries(X) * features.keys(Y)).numpy() * REPETITIONS
    return terms.reshape(len(X), -1, REPETITIONS).sum(axis=1).T


def exponential_mse(matrix: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Mean squared error of estimates by one frequency, in plain complex arithmetic."""
    a, b = matrix @ x, np.linalg.inv(matrix).T @ y
    z, sm2 = a + b, np.exp(2 * x @ y)
    scale = np.exp(-a @ a - b @ b)
    second = abs(scale) * np.exp(2 * z.real @ z.real) + (scale * np.exp(2 * z @ z)).real
    return second / 2 - sm2


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

    @pytest.mark.parametrize(
        ("text", "name"),
        [("orthogonal+pnc", "positive"), ("orthogonal+monotone+antithetic", "trigonometric"),
         ("sobol", "diagonal")],
    )  # fmt: skip
    def test_unbiased_under_couplings(self, name: str, text: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        draws = [
            paired(ComplexExponentialFeatures(DIM, 6, MATRICES[name], text, rng), X, Y)
            for _ in range(200)
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
