"""Kernel regression by features against the sums it estimates."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import Tensor

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.features import (
    ComplexExponentialFeatures,
    FeatureMap,
    FourierFeatures,
    LaplaceFeatures,
)
from coupledgp.models import kernel_regression
from coupledgp.models.kernel_regression import scott_lengthscale
from coupledgp.spectra import parse_spectrum

FEATURES = ["laplace", "fourier", "angular-hybrid", "gaussian-hybrid"]
all_features = pytest.mark.parametrize("features", FEATURES)
Classifier, Regressor = cgp.models.KernelRegressionClassifier, cgp.KernelRegressionRegressor
CHECKS = [
    (estimator, check)
    for kind in (Classifier, Regressor)
    for features in ("laplace", "fourier")
    for estimator, check in estimator_checks_generator(
        kind(features=features, n_frequencies=32, random_state=0)
    )
]
N_CHECKS = {Classifier: 55, Regressor: 53}


def exact_sums(X: np.ndarray, Y: np.ndarray, targets: np.ndarray, scale: float) -> np.ndarray:
    """`sum_i k(x, x_i) (targets_i, 1)` by the kernel matrix."""
    kernel = rbf_kernel(X, Y, gamma=0.5 / scale**2)
    return kernel @ np.column_stack([targets, np.ones(len(Y))])


def data(rng: np.random.Generator, n: int = 300) -> tuple[np.ndarray, ...]:
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + np.sin(2 * X[:, 1]), rng.normal(size=(40, 2))


class TestSums:
    @all_features
    def test_many_features_approach_exact_kernel_regression(
        self, features: str, rng: np.random.Generator
    ) -> None:
        X, y, X_test = data(rng)
        m, tolerance = (300, 0.2) if features.endswith("hybrid") else (3000, 0.06)
        exact = exact_sums(X_test, X, y, 1.5)
        expected = exact[:, 0] / exact[:, 1]
        model = Regressor(1.5, features, m, "orthogonal+antithetic", random_state=0).fit(X, y)
        errors = model.predict(X_test) - expected
        assert np.sqrt(np.mean(errors**2)) < tolerance * y.std()
        labels = np.digitize(y, [-0.5, 0.5])
        classifier = Classifier(1.5, features, m, "orthogonal+antithetic", random_state=0)
        sums = exact_sums(X_test, X, np.eye(3)[labels], 1.5)
        proba = classifier.fit(X, labels).predict_proba(X_test)
        np.testing.assert_allclose(proba, sums[:, :-1] / sums[:, -1:], atol=1.5 * tolerance)

    @all_features
    @pytest.mark.parametrize("chunk", [7, 4096])
    def test_equals_the_quotient_of_the_features(
        self, features: str, chunk: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
    ) -> None:
        """Chunks and shifts of exponents do not matter: the plain sums over the estimated Gram."""
        monkeypatch.setattr(kernel_regression, "CHUNK_ROWS", chunk)
        X, y, X_test = data(rng, 50)
        X, X_test = X / 3, X_test / 3  # positive sums, so that nothing is clipped
        model = Regressor(1.0, features, 60, random_state=0).fit(X, y)
        inputs = [v - X.mean(axis=0) for v in (X_test, X)]
        f = model.features_
        one_map = isinstance(f, FeatureMap)
        gram = f(inputs[0]) @ f(inputs[1]).T if one_map else f.estimate(*inputs)
        expected = (gram.numpy() @ y) / gram.numpy().sum(1)
        np.testing.assert_allclose(model.predict(X_test), expected, rtol=1e-9)
        labels = y > 0
        classifier = Classifier(1.0, features, 60, random_state=0).fit(X, labels)
        sums = np.clip(gram.numpy() @ np.column_stack([~labels, labels]), 0, None)
        proba = classifier.predict_proba(X_test)
        np.testing.assert_allclose(proba, sums / sums.sum(1, keepdims=True), rtol=1e-9)

    def test_laplace_features_are_those_of_the_package(self, rng: np.random.Generator) -> None:
        X, y, _ = data(rng, 20)
        model = Regressor(1.0, "laplace", 9, "orthogonal+pnc", random_state=4).fit(X, y)
        expected = LaplaceFeatures(2, 9, "orthogonal+pnc", generator=4)(X)
        assert isinstance(model.features_, LaplaceFeatures)
        torch.testing.assert_close(model.features_(X), expected)

    def test_other_kernels(self, rng: np.random.Generator) -> None:
        X, y, X_test = data(rng)
        spectrum = parse_spectrum("matern-3/2")
        kernel = spectrum.kernel(np.linalg.norm(X_test[:, None] - X, axis=2) / 2)
        expected = kernel @ y / kernel.sum(1)
        model = Regressor(2.0, "fourier", 1500, kernel="matern-3/2", random_state=0).fit(X, y)
        assert np.sqrt(np.mean((model.predict(X_test) - expected) ** 2)) < 0.1 * y.std()

    def test_no_kernel_matrix(self, rng: np.random.Generator) -> None:
        """No tensor of an operation has as many entries as rows times rows."""
        sizes = []

        class Watch(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
                result = func(*args, **(kwargs or {}))
                if isinstance(result, Tensor):
                    sizes.append(result.numel())
                return result

        n, m = 3000, 16
        X = rng.normal(size=(n, 2))
        for features in FEATURES:
            with Watch():
                model = Classifier(1.0, features, m, random_state=0).fit(X, X[:, 0] > 0)
                model.predict(X)
            limit = n * max(getattr(model.features_, "n_features", m), m)
            assert max(sizes) <= limit < n * n or features.endswith("hybrid")
            assert max(sizes) <= limit
            sizes.clear()


class TestDenominators:
    def test_positive_features_never_fail_far_away(self, rng: np.random.Generator) -> None:
        """Where the features themselves underflow, the prediction is still an average."""
        X, y, _ = data(rng)
        far = np.array([[300.0, 0.0], [0.0, -300.0], [1e4, 1e4]])
        model = Regressor(1.0, "laplace", 64, random_state=0).fit(X, y)
        assert not LaplaceFeatures(2, 64, generator=0)(far).any()
        prediction = model.predict(far)
        assert (np.isfinite(prediction) & (prediction >= y.min()) & (prediction <= y.max())).all()
        proba = Classifier(1.0, "laplace", 64, random_state=0).fit(X, y > 0).predict_proba(far)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        shifted = Regressor(1.0, "laplace", 64, random_state=0).fit(X + 1e3, y)
        np.testing.assert_allclose(shifted.predict(far + 1e3), prediction, rtol=1e-6)

    @pytest.mark.parametrize("features", ["fourier", "angular-hybrid"])
    def test_signed_features_fall_back(self, features: str, rng: np.random.Generator) -> None:
        X, y, _ = data(rng)
        far = rng.normal(size=(200, 2)) * 30
        model = Regressor(0.3, features, 4, random_state=0).fit(X, y)
        sums = model._weighted_sums(far)
        prediction = model.predict(far)
        unusable = ~(sums[:, -1] > 0)
        assert unusable.any()
        np.testing.assert_allclose(prediction[unusable], y.mean())
        assert (prediction >= y.min()).all()
        assert (prediction <= y.max()).all()
        classifier = Classifier(0.3, features, 4, random_state=0).fit(X, y > 0)
        proba = classifier.predict_proba(far)
        assert (proba >= 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        none = (classifier._weighted_sums(far)[:, :-1] <= 0).all(axis=1)
        assert none.any()
        np.testing.assert_allclose(proba[none][:, 1], (y > 0).mean())


class TestInterface:
    @pytest.mark.parametrize("kind", [Classifier, Regressor])
    def test_number_of_checks(self, kind: Any) -> None:
        assert len(list(estimator_checks_generator(kind()))) == N_CHECKS[kind]

    @pytest.mark.parametrize(
        ("estimator", "check"),
        CHECKS,
        ids=[
            f"{type(e).__name__}-{e.features}-{getattr(c, 'func', c).__name__}-{i}"
            for i, (e, c) in enumerate(CHECKS)
        ],
    )
    @pytest.mark.filterwarnings("ignore:Estimator's parameters changed")
    def test_estimator_check(self, estimator: Any, check: Any) -> None:
        check(estimator)

    def test_outputs(self, rng: np.random.Generator) -> None:
        X, y, X_test = data(rng)
        model = Regressor(1.0, random_state=0)
        single = model.fit(X, y).predict(X_test)
        double = clone(model).fit(X, np.column_stack([y, -2 * y])).predict(X_test)
        assert single.shape == (40,)
        np.testing.assert_allclose(double, np.column_stack([single, -2 * single]))

    def test_labels(self, rng: np.random.Generator) -> None:
        X, y, X_test = data(rng)
        labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
        model = Classifier(0.5, random_state=0).fit(X, labels)
        np.testing.assert_array_equal(model.classes_, ["high", "low", "middle"])
        best = model.classes_[model.predict_proba(X_test).argmax(axis=1)]
        np.testing.assert_array_equal(model.predict(X_test), best)
        assert model.score(X, labels) > 0.7

    def test_lengthscales(self, rng: np.random.Generator) -> None:
        X, y, X_test = data(rng)
        model = Regressor(random_state=0).fit(X, y)
        np.testing.assert_allclose(model.lengthscale_, X.std(axis=0) * 300 ** (-1 / 6))
        assert scott_lengthscale(np.ones((3, 1))) > 0
        scaled = Regressor([1.0, 2.0], random_state=0).fit(X, y).predict(X_test)
        divided = Regressor(1.0, random_state=0).fit(X / [1, 2], y).predict(X_test / [1, 2])
        np.testing.assert_allclose(scaled, divided)

    def test_random_state(self, rng: np.random.Generator) -> None:
        X, y, X_test = data(rng)
        first, again, other = (
            Regressor(1.0, random_state=s).fit(X, y).predict(X_test) for s in (0, 0, 1)
        )
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()

    def test_own_features(self, rng: np.random.Generator) -> None:
        X, y, X_test = data(rng)
        own = Regressor(1.0, FourierFeatures, 32, random_state=0).fit(X, y).predict(X_test)
        named = Regressor(1.0, "fourier", 32, random_state=0).fit(X, y).predict(X_test)
        np.testing.assert_array_equal(own, named)

        def rotated(dim: int, m: int, coupling: Any, generator: int) -> ComplexExponentialFeatures:
            return ComplexExponentialFeatures(
                dim, m, [1, 1j], coupling, generator, kernel="gaussian"
            )

        model = Regressor(1.5, rotated, 1000, random_state=0).fit(X, y)
        exact = exact_sums(X_test, X, y, 1.5)
        errors = model.predict(X_test) - exact[:, 0] / exact[:, 1]
        assert np.sqrt(np.mean(errors**2)) < 0.2 * y.std()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"features": "laplac"}, r"features: expected one of .*\(did you mean 'laplace'"),
            ({"features": "laplace", "kernel": "matern-3/2"}, "kernel: 'laplace' features exist"),
            ({"features": lambda *a, **k: 3}, "features: expected a function that makes a Feat"),
            ({"lengthscale": [1.0, 2.0, 3.0]}, "lengthscale: expected a scalar or 2 values"),
            ({"lengthscale": 0.0}, "lengthscale: expected finite numbers > 0"),
            ({"n_frequencies": 0}, "n_frequencies: expected an int >= 1"),
            ({"coupling": "ortho"}, "coupling: expected one of"),
        ],
    )
    @pytest.mark.parametrize("kind", [Classifier, Regressor])
    def test_errors(self, kind: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            kind(**options).fit(np.eye(4)[:, :2], [0, 1, 0, 1])

    def test_one_class(self) -> None:
        with pytest.raises(InvalidInputError, match="y: expected two classes or more"):
            Classifier().fit(np.eye(3), [1, 1, 1])
