"""gpytorch kernels of coupled features: the maps' own Gram, and gpytorch's contract."""

import math
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from torch import Tensor

import coupledgp as cgp
from coupledgp.couplings import available_couplings
from coupledgp.errors import InvalidInputError
from coupledgp.features import FourierFeatures, LaplaceFeatures
from coupledgp.kernels import FourierFeatureKernel, LaplaceFeatureKernel
from coupledgp.kernels.gpytorch.features import FeatureKernel
from coupledgp.spectra import parse_spectrum
from tests.kernels.feature_kernel_cases import LENGTHSCALE, ard_kernel, both, data
from tests.theory import assert_mean

# Kernels of Fourier features with simplex directions work, and say that others are better.
pytestmark = pytest.mark.filterwarnings("ignore:.* serves Laplace features:UserWarning")


def serves(kind: type[FeatureKernel], coupling: str, dim: int) -> bool:
    """Whether a coupling draws frequencies of this dimension, for these features."""
    try:
        kind.feature_map(dim, 4, coupling, generator=0)
    except InvalidInputError:
        return False
    return True


# `TestValues` has every coupling.
DIRECTIONS = ["iid", "simplex-fast"]


class GpytorchContract(BaseKernelTestCase):
    """gpytorch's own tests, which see frequencies but not how they are coupled."""

    kind: type[FeatureKernel]

    @pytest.fixture(autouse=True, params=DIRECTIONS)
    def _coupling(self, request: pytest.FixtureRequest) -> None:
        self.coupling = request.param
        dim = 4 if request.function.__name__.startswith("test_active_dims") else 2
        if not serves(self.kind, self.coupling, dim):
            pytest.skip(f"{self.coupling} is not for these features, or for fewer dimensions")

    def create_kernel_no_ard(self, **kwargs: Any) -> FeatureKernel:
        return self.kind(14, coupling=self.coupling, generator=3, **kwargs)

    def create_kernel_ard(self, num_dims: int, **kwargs: Any) -> FeatureKernel:
        return self.create_kernel_no_ard(ard_num_dims=num_dims, **kwargs)


class TestFourierFeatureKernel(GpytorchContract):
    kind = FourierFeatureKernel


class TestLaplaceFeatureKernel(GpytorchContract):
    kind = LaplaceFeatureKernel


class TestValues:
    @pytest.mark.parametrize("coupling", available_couplings())
    @both
    def test_gram_is_that_of_the_feature_map(
        self, kind: type[FeatureKernel], coupling: str, rng: np.random.Generator
    ) -> None:
        if not serves(kind, coupling, 3):
            with pytest.raises(InvalidInputError, match="antithetic"):
                ard_kernel(kind, 7, coupling=coupling)
            return
        kernel = ard_kernel(kind, 7, coupling=coupling)
        x1, x2 = data(rng, 6, 3), data(rng, 4, 3)
        phi = kind.feature_map(3, 7, coupling, generator=5)
        left, right = phi(x1 / LENGTHSCALE), phi(x2 / LENGTHSCALE)
        with torch.no_grad():
            torch.testing.assert_close(kernel(x1).to_dense(), left @ left.T)
            torch.testing.assert_close(kernel(x1, x2).to_dense(), left @ right.T)
            torch.testing.assert_close(kernel(x1, diag=True), left.square().sum(1))
            torch.testing.assert_close(kernel(x1[:4], x2, diag=True), (left[:4] * right).sum(1))
            torch.testing.assert_close(kernel(x1).diagonal(), left.square().sum(1))

    @pytest.mark.parametrize(
        ("kind", "spectrum"),
        [
            (FourierFeatureKernel, "matern-5/2"),
            (LaplaceFeatureKernel, "gaussian"),
        ],
    )
    def test_unbiased_for_the_kernel_of_the_spectrum(
        self, kind: type[FeatureKernel], spectrum: str, rng: np.random.Generator
    ) -> None:
        x = data(rng, 5, 3)
        draws = []
        for _ in range(200):
            kernel = kind(6, 3, spectrum=spectrum, generator=rng).double()
            kernel.lengthscale = 1.7
            with torch.no_grad():
                draws.append(kernel(x).to_dense().numpy())
        distance = np.linalg.norm(x[:, None] - x[None], axis=-1) / 1.7
        exact = parse_spectrum(spectrum).kernel(distance)
        above = np.triu_indices(5, 1)
        assert_mean(np.stack(draws)[:, *above], exact[above])

    @both
    def test_gradient_in_the_lengthscale(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = ard_kernel(kind)
        x1, x2, weight = data(rng, 5, 3), data(rng, 4, 3), data(rng, 5, 4)

        def total(raw: Tensor) -> Tensor:
            kernel.raw_lengthscale.data = raw
            return (kernel(x1, x2).to_dense() * weight).sum()

        raw = kernel.raw_lengthscale.data.clone()
        total(raw).backward()
        steps = 1e-6 * torch.eye(3).double()[:, None]
        slopes = [(total(raw + step) - total(raw - step)) / 2e-6 for step in steps]
        expected = torch.stack(slopes).detach()[None]
        torch.testing.assert_close(kernel.raw_lengthscale.grad, expected, rtol=1e-6, atol=1e-9)

    @both
    def test_gradient_in_the_inputs(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = ard_kernel(kind, 3)
        x1, x2 = data(rng, 2, 3).requires_grad_(), data(rng, 3, 3).requires_grad_()
        assert torch.autograd.gradcheck(lambda a, b: kernel(a, b).to_dense(), (x1, x2))

    @both
    def test_single_precision(self, kind: type[FeatureKernel], rng: np.random.Generator) -> None:
        x = data(rng, 6, 3)
        double, single = ard_kernel(kind), ard_kernel(kind).float()
        with torch.no_grad():
            gram = single(x.float()).to_dense()
            assert gram.dtype == torch.float32
            torch.testing.assert_close(gram, double(x).to_dense().float(), rtol=1e-4, atol=1e-5)

    def test_stationary_or_not(self) -> None:
        assert FourierFeatureKernel(2).is_stationary
        assert not LaplaceFeatureKernel(2).is_stationary


@both
def test_composition(kind: type[FeatureKernel], rng: np.random.Generator) -> None:
    x1, x2 = data(rng, 6, 3), data(rng, 4, 3)
    first = kind(4, active_dims=(0, 1), generator=1).double()
    other = gpytorch.kernels.ScaleKernel(kind(5, active_dims=(2,), generator=2)).double()
    rbf = gpytorch.kernels.RBFKernel().double()
    with torch.no_grad():
        for args in ((x1,), (x1, x2)):
            a, b, c = (k(*args).to_dense() for k in (first, other, rbf))
            torch.testing.assert_close((rbf + first)(*args).to_dense(), c + a)
            torch.testing.assert_close((first + other)(*args).to_dense(), a + b)
            torch.testing.assert_close((first * other)(*args).to_dense(), a * b)
            torch.testing.assert_close((first * rbf + other)(*args).to_dense(), a * c + b)


class TestErrors:
    @pytest.mark.parametrize("value", [0, 2.5, True])
    def test_counts(self, value: object) -> None:
        with pytest.raises(InvalidInputError, match="n_frequencies: expected an int >= 1"):
            FourierFeatureKernel(value)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="dim: expected an int >= 1"):
            FourierFeatureKernel(3, value)  # type: ignore[arg-type]

    def test_dimensions_that_disagree(self) -> None:
        with pytest.raises(InvalidInputError, match=r"dim says 3, ard_num_dims says 2"):
            FourierFeatureKernel(4, 3, ard_num_dims=2)

    def test_inputs_of_another_dimension(self) -> None:
        with pytest.raises(InvalidInputError, match=r"X: expected shape \(\.\.\., n, 3\), got"):
            FourierFeatureKernel(4, 3)(torch.zeros(5, 2)).to_dense()
        with pytest.raises(InvalidInputError, match=r"X: .* \(\.\.\., n, 3\), got \(5, 10\)"):
            FourierFeatureKernel(4, ard_num_dims=3).features(torch.zeros(5, 10))

    def test_names(self) -> None:
        with pytest.raises(InvalidInputError, match="coupling: expected one of"):
            FourierFeatureKernel(4, coupling="orthogonall")
        with pytest.raises(InvalidInputError, match="spectrum: expected one of 'gaussian'"):
            FourierFeatureKernel(4, spectrum="gauss")
        with pytest.raises(InvalidInputError, match=r"'gaussian' only, got 'matern-3/2'"):
            LaplaceFeatureKernel(4, spectrum="matern-3/2")
        with pytest.raises(InvalidInputError, match="generator: expected a seed >= 0, got -1"):
            FourierFeatureKernel(4, generator=-1)

    def test_lazy_names(self) -> None:
        assert cgp.kernels.GraphFeatureKernel.__name__ == "GraphFeatureKernel"
        with pytest.raises(AttributeError, match="no attribute 'Feature'"):
            cgp.kernels.Feature  # noqa: B018


def test_maps_are_those_of_the_package() -> None:
    assert FourierFeatureKernel.feature_map is FourierFeatures
    assert LaplaceFeatureKernel.feature_map is LaplaceFeatures
    one = FourierFeatureKernel(3, generator=0).double()(torch.zeros(1, 2).double())
    assert math.isclose(one.to_dense().item(), 1.0)
