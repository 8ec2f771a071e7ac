"""Covariances of a stationary kernel as functions of torch, differentiable in lengthscales."""

from __future__ import annotations

from typing import Any

from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.inference.evidence.stationary import distances_between
from coupledgp.spectra import Spectrum


class _Covariance(Differentiable):
    """`kappa(|x - x'|)` of rows in units of their lengthscales.

    Its derivative in `log l_j` is `-p (d kappa / d r^p) |x_j - x'_j|^p / l_j^p`, p the order of the
    metric. It is zero at equal rows, where the slope of a rough kernel is infinite.
    """

    @staticmethod
    def forward(ctx: Any, X: Tensor, log_lengthscale: Tensor, spectrum: Spectrum) -> Tensor:
        scaled = X / log_lengthscale.exp()
        ctx.metric = spectrum.metric
        powers = ctx.metric.powers(distances_between(scaled, scaled, ctx.metric))
        covariance, slope = spectrum.kernel_and_slope(powers)
        ctx.save_for_backward(scaled, slope)
        return covariance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        scaled, slope = ctx.saved_tensors
        weighted = -ctx.metric.order * gradients[0] * slope
        differences = (column[:, None] - column for column in scaled.T)
        found = [(weighted * ctx.metric.powers(each)).sum() for each in differences]
        return None, torch.stack(found), None


def stationary_covariance(spectrum: Spectrum, X: Tensor, log_lengthscale: Tensor) -> Tensor:
    """Covariance (n, n) of rows X (n, d), differentiable once in `log l` (d,); O(n^2) memory."""
    found: Tensor = _Covariance.apply(X, log_lengthscale, spectrum)
    return found
