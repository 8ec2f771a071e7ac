"""Distances of rows in the metric of a kernel, and stationary kernels on any device."""

from __future__ import annotations

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum


def distances_between(rows: Tensor, others: Tensor, metric: Metric) -> Tensor:
    """Distances (..., n, p) between rows (..., n, d) and (..., p, d), where they are.

    Each is a sum over differences of columns, so that near rows lose no digits.
    """
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(rows, others, p=float(metric.order), compute_mode=mode)


def distances_on(device: torch.device, a: FloatArray, b: FloatArray, metric: Metric) -> Tensor:
    """Distances (n, p) between rows of `a` (n, d) and `b` (p, d), on a device."""
    rows, others = (torch.tensor(x, dtype=torch.float64, device=device) for x in (a, b))
    return distances_between(rows, others, metric)


def kernel_of(spectrum: Spectrum, distances: Tensor) -> Tensor:
    """Kernel `kappa(r)` (n, p) of distances, where they are.

    Kernels that torch has no function for are computed on the CPU, and come back.
    """
    return spectrum.kernel_and_slope(spectrum.metric.powers(distances))[0]


def slope_of(spectrum: Spectrum, distances: Tensor) -> Tensor:
    """`kernel_slope` (n, p) of distances, zero at distance zero where it has no limit."""
    metric = spectrum.metric
    return -metric.order * spectrum.kernel_and_slope(metric.powers(distances))[1]
