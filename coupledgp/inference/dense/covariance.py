"""Covariances of a stationary kernel as functions of torch, differentiable in lengthscales."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from coupledgp.spectra import Spectrum


class _Covariance(torch.autograd.Function):
    """`kappa(|x - x'|)` of rows in units of their lengthscales.

    Its derivative in `log l_j` is `-2 (d kappa / d r^2) (x_j - x'_j)^2 / l_j^2`, which is zero at
    equal rows, where the slope of a rough kernel is infinite.
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, log_lengthscale: Tensor, spectrum: Spectrum) -> Tensor:
        scaled = X / log_lengthscale.exp()
        squares = torch.cdist(scaled, scaled, compute_mode="donot_use_mm_for_euclid_dist").square()
        covariance, slope = spectrum.kernel_and_slope(squares)
        ctx.save_for_backward(scaled, slope)
        return covariance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        scaled, slope = ctx.saved_tensors
        weighted = -2 * gradients[0] * slope
        found = [(weighted * (column[:, None] - column).square()).sum() for column in scaled.T]
        return None, torch.stack(found), None


def stationary_covariance(spectrum: Spectrum, X: Tensor, log_lengthscale: Tensor) -> Tensor:
    """Covariance (n, n) of rows X (n, d), differentiable once in `log l` (d,); O(n^2) memory."""
    found: Tensor = _Covariance.apply(X, log_lengthscale, spectrum)  # type: ignore[no-untyped-call]
    return found
