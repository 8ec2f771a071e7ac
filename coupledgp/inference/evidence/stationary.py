"""Stationary kernels by functions of torch, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum


def kernel_and_slope(spectrum: Spectrum, squares: Tensor) -> tuple[Tensor, Tensor]:
    """Kernel `kappa(r)` and its derivative in `r^2`, from squared distances of any shape.

    At distance zero the derivative of rough kernels is infinite; zero stands for it, since its
    factor in every gradient, a difference of coordinates, is zero too.
    """
    if isinstance(spectrum, GaussianSpectrum):
        kernel = torch.exp(-0.5 * squares)
        return kernel, -0.5 * kernel
    r = squares.sqrt()
    if isinstance(spectrum, MaternSpectrum) and spectrum.nu in (0.5, 1.5, 2.5):
        s = (2 * spectrum.nu) ** 0.5 * r
        decay = torch.exp(-s)
        if spectrum.nu == 0.5:
            return decay, torch.where(r > 0, -0.5 * decay / r.clamp_min(1e-300), 0.0)
        if spectrum.nu == 1.5:
            return (1 + s) * decay, -1.5 * decay
        linear = (1 + s) * decay
        return linear + s.square() * decay / 3, -5 / 6 * linear
    distances = r.cpu().numpy()
    found = spectrum.kernel(distances), -0.5 * spectrum.kernel_slope(distances)
    kernel, slope = (torch.as_tensor(values, device=r.device) for values in found)
    return kernel, slope


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
    return kernel_and_slope(spectrum, distances.square())[0]


def slope_of(spectrum: Spectrum, distances: Tensor) -> Tensor:
    """`-kappa'(r) / r` (n, p) of distances, zero at distance zero where it has no limit."""
    return -2.0 * kernel_and_slope(spectrum, distances.square())[1]
