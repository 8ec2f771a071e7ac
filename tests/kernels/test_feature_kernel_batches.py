"""Batches of feature kernels: members, broadcasting, indexing, the last dimension as a batch."""

import gpytorch
import numpy as np
import pytest
import torch

from coupledgp.kernels.gpytorch.features import FeatureKernel
from tests.kernels.feature_kernel_cases import both, data


class TestBatches:
    @both
    def test_members_have_frequencies_of_their_own(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = kind(4, 2, batch_shape=torch.Size([3, 2]), generator=1).double()
        assert kernel.frequencies is not None
        assert kernel.frequencies.shape == (3, 2, 4, 2)
        assert len(set(kernel.seeds.flatten().tolist())) == 6
        kernel.lengthscale = torch.rand(3, 2, 1, 1) + 0.5
        x = data(rng, 3, 2, 5, 2)
        with torch.no_grad():
            gram = kernel(x).to_dense()
            for i, j in np.ndindex(3, 2):
                phi = kind.feature_map.from_frequencies(
                    kernel.frequencies[i, j], "iid", "gaussian"
                )(x[i, j] / kernel.lengthscale[i, j])
                torch.testing.assert_close(gram[i, j], phi @ phi.T)
                torch.testing.assert_close(kernel[i, j](x[i, j]).to_dense(), phi @ phi.T)

    @both
    def test_batches_broadcast(self, kind: type[FeatureKernel], rng: np.random.Generator) -> None:
        kernel = kind(4, 2, batch_shape=torch.Size([2, 1]), generator=1).double()
        x = data(rng, 5, 1, 3, 6, 2)
        with torch.no_grad():
            gram = kernel(x).to_dense()
            assert gram.shape == (5, 2, 3, 6, 6)
            torch.testing.assert_close(gram[4, 1, 2], kernel[1, 0](x[4, 0, 2]).to_dense())
            torch.testing.assert_close(kernel(x, diag=True), gram.diagonal(dim1=-1, dim2=-2))

    @both
    def test_a_member_is_the_same_before_and_after_the_first_call(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        x = data(rng, 2, 5, 3)
        kernel = kind(4, batch_shape=torch.Size([2]), generator=1).double()
        scaled = gpytorch.kernels.ScaleKernel(kernel, batch_shape=torch.Size([2])).double()
        with torch.no_grad():
            uncalled = scaled(x)[1].to_dense()
            assert kernel.frequencies is None
            torch.testing.assert_close(uncalled, scaled(x).to_dense()[1])

    @both
    def test_active_dims_survive_indexing_and_expansion(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        kernel = kind(4, active_dims=(0, 2), batch_shape=torch.Size([2]), generator=1).double()
        x = data(rng, 5, 3)
        with torch.no_grad():
            gram = kernel(x).to_dense()
            torch.testing.assert_close(kernel[1](x).to_dense(), gram[1])
            wide = kernel.expand_batch(3, 2)
            assert wide.batch_shape == (3, 2)
            torch.testing.assert_close(wide(x).to_dense(), gram.expand(3, 2, 5, 5))
        assert kernel.expand_batch(torch.Size([2])) is kernel

    @pytest.mark.filterwarnings("ignore:The last_dim_is_batch")
    @pytest.mark.filterwarnings("ignore:AdditiveStructureKernel is deprecated")
    @both
    def test_last_dimension_as_batch(
        self, kind: type[FeatureKernel], rng: np.random.Generator
    ) -> None:
        for shape in ((), (2,)):
            kernel = kind(4, batch_shape=torch.Size(shape), generator=1).double()
            x1, x2 = data(rng, 5, 3), data(rng, 4, 3)
            with torch.no_grad():
                gram = kernel(x1, x2, last_dim_is_batch=True).to_dense()
                assert gram.shape == (*shape, 3, 5, 4)
                for j in range(3):
                    column = kernel(x1[:, [j]], x2[:, [j]]).to_dense()
                    torch.testing.assert_close(gram[..., j, :, :], column)
                diagonal = kernel(x1, diag=True, last_dim_is_batch=True)
                square = kernel(x1, last_dim_is_batch=True).to_dense()
                torch.testing.assert_close(diagonal, square.diagonal(dim1=-1, dim2=-2))
        additive = gpytorch.kernels.AdditiveStructureKernel(kind(4, generator=1).double(), 3)
        with torch.no_grad():
            columns = [additive.base_kernel(x1[:, [j]]).to_dense() for j in range(3)]
            torch.testing.assert_close(additive(x1).to_dense(), sum(columns))
            assert additive(x1).evaluate_kernel().root.shape[-1] % 3 == 0  # side by side
