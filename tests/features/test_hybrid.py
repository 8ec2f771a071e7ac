"""Hybrid features: unbiased, with the errors of MATH section 5, and refused as covariances."""

import io
from typing import Any

import numpy as np
import pytest
import torch

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import refuse_as_covariance
from coupledgp.features.hybrid.coefficients import AngularCoefficient
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from coupledgp.features.hybrid.hybrid import (
    AngularHybridFeatures,
    GaussianHybridFeatures,
    HybridFeatures,
)
from tests.features.hybrid_cases import (
    DIM,
    HYBRIDS,
    all_hybrids,
    clustered,
    paired,
    pairs,
    softmax,
    trigonometric_mse,
)
from tests.theory import assert_mean

DRAWS = 700


def signed_mse(x: np.ndarray, y: np.ndarray) -> float:
    """m times the mean squared error of positive features on m frequencies and their negatives."""
    plus = np.sum((x + y) ** 2)
    return np.exp(plus) * np.exp(2 * x @ y) * (1 - np.exp(-plus)) ** 2 / 2


class TestHybrids:
    @all_hybrids
    def test_unbiased(self, name: str, rng: np.random.Generator) -> None:
        X, Y = pairs(rng)
        draws = [HYBRIDS[name](rng).estimate(X, Y).diagonal().numpy() for _ in range(150)]
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
        assert clustered(0).n_features == 4 * 2 * 3

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

    @pytest.mark.parametrize("constant", [-0.3, 0.0, 1.7])
    def test_constants_of_any_sign(self, constant: float, rng: np.random.Generator) -> None:
        """Products of features are the estimates, whose constants are a and 1 - a."""
        X, Y = pairs(rng)
        bases = [ComplexExponentialFeatures(DIM, 4, generator=k) for k in range(2)]
        weight = AngularCoefficient(DIM, 3, generator=2)
        weight.constant = constant
        features = HybridFeatures(bases, [weight])
        direct = features.queries(X) @ features.keys(Y).mT
        torch.testing.assert_close(features.estimate(X, Y), direct)
        first, last = (base.estimate(X, Y) for base in bases)
        rows, columns = (torch.as_tensor(rows) for rows in (X, Y))
        varying = weight.features(rows, "query") @ weight.features(columns, "key").mT
        torch.testing.assert_close(direct, last + (constant + varying) * (first - last))

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
    @pytest.mark.long
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

    @pytest.mark.parametrize("features", [AngularHybridFeatures, AngularHybridFeatures(1, 2)])
    def test_regressor_explains(self, features: Any) -> None:
        gp = cgp.SparseSpectrumGPRegressor(features=features)
        with pytest.raises(InvalidInputError, match=r"features: .* no covariance of a Gaussian"):
            gp.fit(np.ones((4, 1)), np.arange(4.0))

    def test_other_features_pass(self) -> None:
        for features in ("fourier", cgp.features.FourierFeatures, None):
            refuse_as_covariance(features)
