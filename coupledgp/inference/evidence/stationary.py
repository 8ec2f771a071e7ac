"""Distances of rows in the metric of a kernel, and stationary kernels on any device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from coupledgp.inference.evidence.distances import distances_into
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

# Columns whose differences are formed at once: a hundred rows of them fit the processor's cache.
_COLUMNS = 4096


def distances_between(rows: Tensor, others: Tensor, metric: Metric) -> Tensor:
    """Distances (..., n, p) between rows (..., n, d) and (..., p, d), where they are.

    Each is a sum over differences of columns, so that near rows lose no digits.
    """
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(rows, others, p=float(metric.order), compute_mode=mode)


def scaled_distances(a: FloatArray, b: FloatArray, metric: Metric) -> FloatArray:
    """Distances (n, p) between rows of `a` (n, d) and `b` (p, d), columns in lengthscales."""
    if metric is Metric.L2:
        found = np.empty((len(a), len(b)))
        distances_into(np.ascontiguousarray(a), np.ascontiguousarray(b.T), found)
        return found
    rows, others = torch.as_tensor(a), torch.as_tensor(b)
    if a.shape[1] <= _COLUMNS:
        return distances_between(rows, others, metric).numpy()
    powers = torch.zeros(len(a), len(b), dtype=torch.float64)
    for start in range(0, a.shape[1], _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        part = distances_between(rows[:, columns], others[:, columns], metric)
        powers += metric.powers(part)
    return metric.distances(powers).numpy()


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
