"""Coefficients of hybrid features: their means, squares and errors."""

import numpy as np
import pytest
import torch

from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid.coefficients import AngularCoefficient, GaussianCoefficient
from tests.features.hybrid_cases import DIM, pairs
from tests.theory import assert_mean


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
        for _ in range(250):
            c = GaussianCoefficient(DIM, 4, M, 1.5, features, generator=rng)
            products = c.features(X, "query") * c.features(Y, "key")
            draws.append(products.sum(-1).numpy())
        exact = np.exp(-np.square(X.numpy() + Y.numpy() @ M.T).sum(1) / (2 * 1.5**2))
        np.testing.assert_allclose(c.exact(X, Y).diagonal(), exact)
        assert_mean(np.array(draws), exact)

    def test_errors(self) -> None:
        with pytest.raises(InvalidInputError, match="width: expected a finite number > 0"):
            GaussianCoefficient(DIM, 4, width=0.0)
        with pytest.raises(InvalidInputError, match="features: expected one of 'fourier', 'imp"):
            GaussianCoefficient(DIM, 4, features="cosine")
        with pytest.raises(InvalidInputError, match=r"matrix: expected a number, shape \(3,\)"):
            GaussianCoefficient(DIM, 4, matrix=np.ones((2, 2)))
