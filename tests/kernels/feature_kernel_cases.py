"""Kernels and inputs that the tests of feature kernels share."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from coupledgp.kernels import FourierFeatureKernel, LaplaceFeatureKernel
from coupledgp.kernels.gpytorch.features import FeatureKernel

KERNELS = [FourierFeatureKernel, LaplaceFeatureKernel]
both = pytest.mark.parametrize("kind", KERNELS, ids=lambda kind: kind.__name__)
LENGTHSCALE = torch.tensor([[1.4, 0.9, 2.2]]).double()


def data(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.as_tensor(rng.normal(size=shape)) / 2


def ard_kernel(kind: type[FeatureKernel], m: int = 8, **kwargs: Any) -> FeatureKernel:
    kernel = kind(m, ard_num_dims=3, generator=5, **kwargs).double()
    kernel.lengthscale = LENGTHSCALE
    return kernel
