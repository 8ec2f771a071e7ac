"""Fourier and Laplace features: definition, stability, gradients, and life as a torch module."""

import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coupledgp.couplings import IidDirections
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum

MAPS = [FourierFeatures, LaplaceFeatures]
both = pytest.mark.parametrize("kind", MAPS, ids=lambda kind: kind.__name__)


def plain(feature_map: FeatureMap, X: np.ndarray) -> np.ndarray:
    """Features (n, M) by the formulas of MATH 2, row by row."""
    w = feature_map.frequencies.double().numpy()
    m = len(w)
    rows = []
    for x in X:
        if isinstance(feature_map, FourierFeatures):
            rows.append([*[np.sin(f @ x) for f in w], *[np.cos(f @ x) for f in w]])
        else:
            rows.append([np.exp(-(x @ x)) * np.exp(f @ x) for f in w])
    return np.array(rows) / np.sqrt(m)


class TestValues:
    @both
    @pytest.mark.parametrize(("m", "dim"), [(1, 1), (3, 5), (7, 3)])
    def test_definition(
        self, kind: type[FeatureMap], m: int, dim: int, rng: np.random.Generator
    ) -> None:
        feature_map = kind(dim, m, generator=1)
        X = rng.normal(size=(6, dim))
        phi = feature_map(X)
        assert phi.shape == (6, feature_map.n_features)
        assert feature_map.n_features == (2 * m if kind is FourierFeatures else m)
        np.testing.assert_allclose(phi.numpy(), plain(feature_map, X), rtol=1e-12, atol=1e-15)

    @both
    def test_leading_dimensions(self, kind: type[FeatureMap], rng: np.random.Generator) -> None:
        feature_map = kind(2, 3, generator=1)
        X = torch.as_tensor(rng.normal(size=(4, 5, 6, 2)))
        phi = feature_map(X)
        assert phi.shape == (4, 5, 6, feature_map.n_features)
        torch.testing.assert_close(phi[2, 3], feature_map(X[2, 3]), rtol=1e-13, atol=1e-14)

    @both
    def test_read_only_and_reversed_rows(
        self, kind: type[FeatureMap], rng: np.random.Generator
    ) -> None:
        features, X = kind(3, 8, generator=0), rng.normal(size=(4, 3))
        phi = features(X)
        torch.testing.assert_close(features(X[::-1]), phi.flip(0))
        X.flags.writeable = False
        torch.testing.assert_close(features(X), phi)

    @both
    def test_no_rows(self, kind: type[FeatureMap]) -> None:
        assert kind(3, 2)(np.empty((0, 3))).shape == (0, kind(3, 2).n_features)

    @given(shift=st.floats(-5, 5), scale=st.floats(0.01, 3))
    def test_fourier_gram_depends_on_differences_and_has_a_unit_diagonal(
        self, shift: float, scale: float
    ) -> None:
        feature_map = FourierFeatures(2, 5, generator=0)
        X = scale * np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.3]])
        phi, moved = feature_map(X), feature_map(X + shift)
        torch.testing.assert_close(phi @ phi.T, moved @ moved.T, rtol=0, atol=1e-12)
        torch.testing.assert_close((phi @ phi.T).diagonal(), torch.ones(3).double())

    @given(scale=st.floats(0.0, 30.0))
    def test_laplace_features_are_positive_and_bounded(self, scale: float) -> None:
        feature_map = LaplaceFeatures(2, 6, generator=0)
        phi = feature_map(scale * np.array([[1.0, -1.0], [0.3, 0.9]]))
        bound = (feature_map.frequencies.square().sum(1) / 4).exp() / np.sqrt(6)
        assert (phi >= 0).all()
        assert (phi <= bound * (1 + 1e-12)).all()


class TestStability:
    @pytest.mark.parametrize("size", [1e3, 1e8, 1e50, 1e100, 1e154, 1e155, 1e160])
    def test_laplace_never_overflows(self, size: float) -> None:
        feature_map = LaplaceFeatures(3, 64, generator=0)
        X = size * np.array([[1.0, 1.0, 1.0], [-1.0, 2.0, 0.0], [1e-3, 0.0, 1.0]])
        with np.errstate(all="raise"):
            phi = feature_map(X)
        assert torch.isfinite(phi).all()
        assert (phi == 0).all()
        upstream = torch.ones_like(phi)
        inputs = torch.as_tensor(X)
        assert torch.isfinite(feature_map.pullback(inputs, phi, upstream)).all()

    @pytest.mark.parametrize("size", [10.0, 1e3, 1e19, 1e25])
    def test_laplace_never_overflows_in_single_precision(self, size: float) -> None:
        feature_map = LaplaceFeatures(3, 64, generator=0, dtype=torch.float32)
        phi = feature_map(size * np.array([[1.0, 1.0, 1.0], [-1.0, 2.0, 0.0]]))
        assert phi.dtype == torch.float32
        assert (phi == 0).all()

    def test_laplace_near_a_large_frequency(self) -> None:
        """exp(w.x) alone would overflow, the whole exponent is moderate."""
        feature_map = LaplaceFeatures(1, 1)
        feature_map.frequencies.fill_(45.0)
        X = np.array([[44.0], [45.5], [22.5]])
        expected = np.exp(45.0 * X - X**2)
        assert expected.max() > 1e200
        np.testing.assert_allclose(feature_map(X).numpy(), expected, rtol=1e-12)
        with np.errstate(over="ignore"):
            assert np.exp(45.0 * X[0]) == np.inf

    @both
    def test_single_precision_is_the_rounded_double(
        self, kind: type[FeatureMap], rng: np.random.Generator
    ) -> None:
        double, single = kind(3, 32, generator=5), kind(3, 32, generator=5, dtype=torch.float32)
        np.testing.assert_array_equal(
            single.frequencies.numpy(), double.frequencies.numpy().astype(np.float32)
        )
        X = rng.normal(size=(20, 3))
        assert single(X).dtype == torch.float32
        scale = double(X).abs().max()
        torch.testing.assert_close(single(X).double(), double(X), rtol=0, atol=float(2e-5 * scale))


class TestGradients:
    @both
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_pullback_is_that_of_automatic_differentiation(
        self, kind: type[FeatureMap], dtype: torch.dtype, rng: np.random.Generator
    ) -> None:
        feature_map = kind(4, 9, generator=2, dtype=dtype)
        inputs = torch.as_tensor(rng.normal(size=(7, 4)) / 2).to(dtype).requires_grad_()
        upstream = torch.as_tensor(rng.normal(size=(7, feature_map.n_features))).to(dtype)
        phi = feature_map(inputs)
        (expected,) = torch.autograd.grad(phi, inputs, upstream)
        inherited = FeatureMap.pullback(feature_map, inputs.detach(), phi.detach(), upstream)
        torch.testing.assert_close(inherited, expected)
        closed = feature_map.pullback(inputs.detach(), phi.detach(), upstream.clone())
        tolerance = 1e-12 if dtype == torch.float64 else 1e-4
        torch.testing.assert_close(closed, expected, rtol=tolerance, atol=tolerance)

    @both
    def test_pullback_by_differences(
        self, kind: type[FeatureMap], rng: np.random.Generator
    ) -> None:
        feature_map = kind(2, 3, generator=2)
        X = rng.normal(size=(3, 2)) / 2
        upstream = rng.normal(size=(3, feature_map.n_features))

        def total(inputs: np.ndarray) -> float:
            return float((upstream * plain(feature_map, inputs)).sum())

        expected, step = np.empty_like(X), 1e-6
        for index in np.ndindex(X.shape):
            moved = [X.copy(), X.copy()]
            moved[0][index] += step
            moved[1][index] -= step
            expected[index] = (total(moved[0]) - total(moved[1])) / (2 * step)
        inputs = torch.as_tensor(X)
        actual = feature_map.pullback(inputs, feature_map(inputs), torch.as_tensor(upstream))
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-6, atol=1e-8)

    @both
    def test_gradcheck(self, kind: type[FeatureMap], rng: np.random.Generator) -> None:
        inputs = torch.as_tensor(rng.normal(size=(3, 2)) / 2).requires_grad_()
        assert torch.autograd.gradcheck(kind(2, 3, generator=0), (inputs,))


class TestOut:
    @both
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_out_holds_the_same_features(
        self, kind: type[FeatureMap], dtype: torch.dtype, rng: np.random.Generator
    ) -> None:
        feature_map = kind(3, 5, generator=0, dtype=dtype)
        X = rng.normal(size=(6, 3))
        out = torch.full((6, feature_map.n_features), torch.nan, dtype=dtype)
        result = feature_map(X, out=out)
        assert result.data_ptr() == out.data_ptr()
        torch.testing.assert_close(out, feature_map(X), rtol=1e-6, atol=1e-7)

    @both
    def test_out_may_be_part_of_a_buffer(
        self, kind: type[FeatureMap], rng: np.random.Generator
    ) -> None:
        feature_map = kind(2, 3, generator=0)
        buffer = torch.full((10, feature_map.n_features), -7.0, dtype=torch.float64)
        feature_map(rng.normal(size=(4, 2)), out=buffer[:4])
        assert (buffer[4:] == -7).all()
        assert (buffer[:4] != -7).all()


class TestModule:
    @both
    def test_frequencies_are_in_the_state(self, kind: type[FeatureMap]) -> None:
        source, target = kind(3, 4, generator=1), kind(3, 4, generator=2)
        assert list(source.state_dict()) == ["frequencies"]
        stored = io.BytesIO()
        torch.save(source.state_dict(), stored)
        stored.seek(0)
        assert not torch.equal(source.frequencies, target.frequencies)
        target.load_state_dict(torch.load(stored, weights_only=True))
        assert torch.equal(source.frequencies, target.frequencies)
        X = np.ones((2, 3))
        assert torch.equal(source(X), target(X))

    @both
    def test_to_moves_the_frequencies(self, kind: type[FeatureMap]) -> None:
        feature_map = kind(3, 4, generator=1)
        twin = feature_map.to(dtype=torch.float32)
        assert twin(np.ones((2, 3))).dtype == torch.float32
        assert feature_map(torch.ones(2, 3)).dtype == torch.float64

    @both
    def test_same_seed_same_frequencies(self, kind: type[FeatureMap]) -> None:
        assert torch.equal(kind(3, 4, generator=0).frequencies, kind(3, 4, generator=0).frequencies)
        assert not torch.equal(
            kind(3, 4, generator=0).frequencies, kind(3, 4, generator=1).frequencies
        )

    def test_text(self) -> None:
        text = repr(FourierFeatures(3, 4, "iid+pnc", "matern-3/2"))
        for part in ("dim=3", "4 fourier frequencies", "iid+pnc", "matern-3/2", "n_features=8"):
            assert part in text

    def test_frequencies_are_those_of_the_coupling(self) -> None:
        feature_map = FourierFeatures(3, 4, "sobol", MaternSpectrum(1.5), 3)
        drawn = feature_map.coupling.sample(4, 3, "matern-3/2", 3)
        np.testing.assert_array_equal(feature_map.frequencies.numpy(), drawn)

    def test_a_users_own_map_inherits_pullback_and_out(self, rng: np.random.Generator) -> None:
        class Cosines(FeatureMap):
            @property
            def n_features(self) -> int:
                return self.n_frequencies

            def _features(self, inputs: Tensor) -> Tensor:
                return (inputs @ self.frequencies.T).cos()

        feature_map = Cosines(2, 3, generator=0)
        X = torch.as_tensor(rng.normal(size=(4, 2)))
        out = torch.empty(4, 3, dtype=torch.float64)
        assert torch.equal(feature_map(X, out=out), feature_map(X))
        upstream = torch.as_tensor(rng.normal(size=(4, 3)))
        expected = -(upstream * (X @ feature_map.frequencies.T).sin()) @ feature_map.frequencies
        torch.testing.assert_close(feature_map.pullback(X, out, upstream), expected)


class TestWeights:
    @staticmethod
    def weighted(kind: type[FeatureMap], m: int = 5) -> FeatureMap:
        drawn = kind(3, m, generator=1)
        weights = torch.arange(m, dtype=torch.float64)
        weights /= weights.sum()
        return kind.from_frequencies(drawn.frequencies, "iid", "gaussian", weights)

    @both
    def test_weights_stand_in_place_of_one_over_m(
        self, kind: type[FeatureMap], rng: np.random.Generator
    ) -> None:
        feature_map = self.weighted(kind)
        X = rng.normal(size=(6, 3))
        phi = feature_map(X)
        amplitudes = np.sqrt(5 * feature_map.weights.numpy())
        repeats = feature_map.n_features // 5
        expected = plain(feature_map, X) * np.tile(amplitudes, repeats)
        np.testing.assert_allclose(phi.numpy(), expected, rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(feature_map(X, out=torch.empty_like(phi)), phi)

    @both
    def test_pullback(self, kind: type[FeatureMap], rng: np.random.Generator) -> None:
        feature_map = self.weighted(kind)
        inputs = torch.as_tensor(rng.normal(size=(7, 3)) / 2)
        upstream = torch.as_tensor(rng.normal(size=(7, feature_map.n_features)))
        phi = feature_map(inputs)
        expected = FeatureMap.pullback(feature_map, inputs, phi, upstream)
        torch.testing.assert_close(feature_map.pullback(inputs, phi, upstream), expected)

    @both
    def test_weights_are_in_the_state(self, kind: type[FeatureMap]) -> None:
        source, target = self.weighted(kind), kind(3, 5, generator=2)
        target.load_state_dict(source.state_dict())
        X = np.ones((2, 3))
        assert torch.equal(source(X), target(X))
        assert source.to(dtype=torch.float32).weights.dtype == torch.float32

    @both
    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([0.5, 0.5], r"expected shape \(3,\), one a frequency, got \(2,\)"),
            ([1.5, -0.5, 0.0], "numbers >= 0"),
            ([np.nan, 0.5, 0.5], "finite numbers"),
            ([0.5, 0.5, 0.5], "sum is 1, got the sum 1.5"),
        ],
    )
    def test_wrong_weights(
        self, kind: type[FeatureMap], weights: list[float], message: str
    ) -> None:
        frequencies = torch.zeros(3, 2, dtype=torch.float64)
        with pytest.raises(InvalidInputError, match=message):
            kind.from_frequencies(frequencies, "iid", "gaussian", torch.tensor(weights).double())


class TestErrors:
    @both
    @pytest.mark.parametrize("shape", [(3,), (), (4, 2), (4, 4), (5, 4, 1)])
    def test_wrong_shapes(self, kind: type[FeatureMap], shape: tuple[int, ...]) -> None:
        with pytest.raises(InvalidInputError, match=r"X: expected shape \(\.\.\., n, 3\), got \("):
            kind(3, 2)(np.ones(shape))

    @both
    @pytest.mark.parametrize("name", ["dim", "n_frequencies"])
    @pytest.mark.parametrize("value", [0, -3, 1.5, True, None])
    def test_counts(self, kind: type[FeatureMap], name: str, value: object) -> None:
        with pytest.raises(InvalidInputError, match=f"{name}: expected an int >= 1"):
            kind(**{"dim": 2, "n_frequencies": 2, name: value})

    @both
    def test_names(self, kind: type[FeatureMap]) -> None:
        with pytest.raises(InvalidInputError, match="coupling: expected one of"):
            kind(2, 3, "orthogonall")
        with pytest.raises(InvalidInputError, match="coupling: expected a text"):
            kind(2, 3, IidDirections())  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="spectrum: expected one of 'gaussian'"):
            kind(2, 3, "iid", "gauss")

    def test_laplace_is_gaussian_only(self) -> None:
        with pytest.raises(InvalidInputError, match=r"'gaussian' only, got 'matern-3/2'; use Four"):
            LaplaceFeatures(2, 3, spectrum="matern-3/2")
        assert isinstance(LaplaceFeatures(2, 3, spectrum="rbf").spectrum, GaussianSpectrum)
