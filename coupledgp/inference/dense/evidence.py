"""Log evidence of the exact GP and its gradient, dense: O(n^3) time, O(n^2) memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import EvidenceProblem, GramAtLengthscale
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.inference.evidence.stationary import (
    distances_on,
    kernel_of,
    slope_of,
)
from coupledgp.linalg.distances import scaled_distances, weighted_powers
from coupledgp.linalg.matrices import Matrix, on_device
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

# Differences that are formed at once on a device: 256 MiB of them keep a GPU busy.
_DEVICE_VALUES = 2**25
# Columns above which the gradient is a product of matrices if the kernel allows it: with 150
# columns and 1500 rows it takes a tenth of the time.
_WIDE = 64


def in_lengthscales(points: FloatArray, lengthscale: FloatArray, rows: FloatArray) -> FloatArray:
    """Points (p, d) in units of the lengthscales (d,), from the middle of rows (n, d).

    The middle is a value of each column that half of the rows are at most. Near it differences of
    floating-point numbers are exact, so that an offset of all rows changes nothing; quotients
    first would be rounded to the digits of the offset.
    """
    half = len(rows) // 2
    middle = np.partition(rows, half, axis=0)[half] if len(rows) else 0.0
    found: FloatArray = (points - middle) / lengthscale
    return found


class ExactEvidence(EvidenceProblem):
    """Evidence of one table under the exact kernel of a spectrum.

    Parameters
    ----------
    spectrum
        The kernel.
    X
        Inputs (n, d).
    targets
        Normalised targets (n, k).
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    device
        Where matrices are.
    """

    def __init__(
        self,
        spectrum: Spectrum,
        X: FloatArray,
        targets: FloatArray,
        weights: RowWeights | None = None,
        device: torch.device = CPU,
    ) -> None:
        self.spectrum = spectrum
        self.X = X
        self.targets = targets
        self.weights = weights
        self.device = device
        self.n_rows, self.n_outputs = targets.shape

    @property
    def inputs(self) -> FloatArray:
        return self.X

    def at(self, lengthscale: FloatArray) -> KernelAtLengthscale:
        """Return the evidence at lengthscales (d,)."""
        inputs = in_lengthscales(self.X, lengthscale, self.X)
        return KernelAtLengthscale(self.spectrum, inputs, self.targets, self.weights, self.device)

    def subset(self, rows: NDArray[np.intp]) -> ExactEvidence:
        """Return the problem of some rows, given by their numbers (b,)."""
        weights = None if self.weights is None else self.weights.take(rows)
        return ExactEvidence(self.spectrum, self.X[rows], self.targets[rows], weights, self.device)


class KernelAtLengthscale(GramAtLengthscale):
    """Evidence of the kernel matrix of scaled inputs.

    Parameters
    ----------
    spectrum
        The kernel.
    inputs
        Inputs (n, d) in units of the lengthscales.
    targets
        Normalised targets (n, k).
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    device
        Where matrices are.
    """

    def __init__(
        self,
        spectrum: Spectrum,
        inputs: FloatArray,
        targets: FloatArray,
        weights: RowWeights | None = None,
        device: torch.device = CPU,
    ) -> None:
        self.spectrum = spectrum
        self.inputs = inputs
        self._device = device
        if device == CPU:
            self._distances: Matrix = scaled_distances(inputs, inputs, spectrum.metric)
            gram: Matrix = spectrum.kernel(self._distances)
        else:
            self._distances = distances_on(device, inputs, inputs, spectrum.metric)
            gram = kernel_of(spectrum, self._distances)
        super().__init__(gram, on_device(targets, device), weights)

    @property
    def _expands(self) -> bool:
        """Whether squares may be expanded: of a bounded slope, since others have zero at zero."""
        is_bounded = self.spectrum.kernel_slope(np.zeros(1))[0] > 0
        return self.spectrum.metric == Metric.L2 and bool(is_bounded)

    def _slope(self) -> Matrix:
        """Slopes `kernel_slope` of all distances (n, n)."""
        if isinstance(self._distances, Tensor):
            return slope_of(self.spectrum, self._distances)
        return self.spectrum.kernel_slope(self._distances)

    def _lengthscale_gradient(self, cotangent: Matrix) -> Matrix:
        # d k / d log l_j = |u_j - u_j'|^p slope(r). Between near rows the slope of a rough kernel
        # is huge: expanding a square would leave nothing but rounding.
        weighted = cotangent * self._slope()
        u = on_device(self.inputs, self._device)
        if u.shape[1] > _WIDE and self._expands:
            u = u - u.mean(0)
            sums = weighted.sum(0) + weighted.sum(1)
            return sums @ (u * u) - 2 * (u * (weighted @ u)).sum(0)
        if self._device == CPU:
            order = self.spectrum.metric.order
            return weighted_powers(self.inputs, self.inputs, weighted, order)
        gradient = u.new_zeros(u.shape[1])
        size = max(_DEVICE_VALUES // max(u.numel(), 1), 1)
        for start in range(0, len(u), size):
            rows = slice(start, start + size)
            powers = self.spectrum.metric.powers(u[rows, None] - u).flatten(0, 1)
            gradient += weighted[rows].ravel() @ powers
        return gradient
