"""Stationary kernels by functions of torch, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum


def distances_on(device: torch.device, a: FloatArray, b: FloatArray) -> Tensor:
    """Euclidean distances (n, p) between rows of `a` (n, d) and `b` (p, d), on a device.

    Each is a sum of squared differences, so that near rows lose no digits.
    """
    rows, others = (torch.tensor(x, dtype=torch.float64, device=device) for x in (a, b))
    return torch.cdist(rows, others, compute_mode="donot_use_mm_for_euclid_dist")


def kernel_of(spectrum: Spectrum, distances: Tensor) -> Tensor:
    """Kernel `kappa(r)` (n, p) of distances, where they are.

    Kernels that torch has no function for are computed on the CPU, and come back.
    """
    return spectrum.kernel_and_slope(distances.square())[0]


def slope_of(spectrum: Spectrum, distances: Tensor) -> Tensor:
    """`-kappa'(r) / r` (n, p) of distances, zero at distance zero where it has no limit."""
    return -2.0 * spectrum.kernel_and_slope(distances.square())[1]
