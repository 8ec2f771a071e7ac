"""Log evidence of the exact GP and its gradient, dense: O(n^3) time, O(n^2) memory.

Log evidence of a table under an expression of kernels, dense: O(n^3) time, O(n^2) memory.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from coupledgp.core.problem import (
    Box,
    EvidenceProblem,
    GramAtLengthscale,
    RowWeights,
    VectorObjective,
    distances_on,
    kernel_of,
    slope_of,
)
from coupledgp.errors import NumericalError
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.kernels.row_covariance import RowCovariance
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


# Mean and standard deviation of the prior of the logarithm of the noise, and its least value.
NOISE_PRIOR, LEAST_NOISE = (-3.0, 2.5), 1e-9
# Bounds of the other logarithms.
WIDEST_LOGARITHM = 9.0


class ExpressionEvidence(VectorObjective):
    """Minus the log posterior of hyperparameters per observation, and its gradient.

    Variables (1 + q,) are logarithms of the noise variance and of the hyperparameters of the
    kernel. With `A = K + s R`, `alpha = A^-1 y` and `G = (k A^-1 - alpha alpha') / 2`, the gradient
    of minus the log evidence of k outputs is `sum_ij G_ij dA_ij`.

    Parameters
    ----------
    covariance
        Covariance of the rows.
    rows
        Standardised rows (n, D).
    targets
        Normalised targets (n, k).
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    known_noise
        Noise variance in normalised units, where it is known.
    """

    def __init__(
        self,
        covariance: RowCovariance,
        rows: FloatArray,
        targets: FloatArray,
        weights: RowWeights | None = None,
        known_noise: float | None = None,
    ) -> None:
        self.covariance, self.rows, self.targets = covariance, rows, targets
        self.weights = RowWeights.ones(len(rows)) if weights is None else weights
        self.known_noise = known_noise
        self.size = self.weights.n_counted * targets.shape[1]
        priors = [NOISE_PRIOR, *((each.mean, each.width) for each in covariance.parameters)]
        self.means, self.widths = np.array(priors).T

    @property
    def start(self) -> FloatArray:
        """Variables (1 + q,) at the means of the priors."""
        start = self.means.copy()
        if self.known_noise is not None:
            start[0] = math.log(self.known_noise)
        return start

    def box(self, start: FloatArray) -> Box:
        noise = (math.log(LEAST_NOISE), WIDEST_LOGARITHM)
        if self.known_noise is not None:
            noise = (math.log(self.known_noise),) * 2
        return [noise] + [
            (mean - WIDEST_LOGARITHM, mean + WIDEST_LOGARITHM) for mean in self.means[1:]
        ]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """See the base class.

        Raises
        ------
        NumericalError
            The covariance has no Cholesky factor.
        """
        noise, n_outputs = math.exp(variables[0]), self.targets.shape[1]
        found = self.covariance.evaluate(self.rows, self.rows, variables[1:])
        diagonal = noise * self.weights.relative_noise
        whole = found.covariance.copy()
        whole.flat[:: len(whole) + 1] += diagonal
        factor, failed = lapack.dpotrf(whole.T, lower=1, overwrite_a=1)
        if failed:
            raise NumericalError("K + noise I has no Cholesky factor at these hyperparameters")
        logdet = 2 * np.log(np.diagonal(factor)).sum()
        alpha, _ = lapack.dpotrs(factor, self.targets, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        quad = float((self.targets * alpha).sum())
        n_rows = len(self.rows)
        value = 0.5 * (quad + n_outputs * (logdet + n_rows * math.log(2 * math.pi)))
        value -= n_outputs * self.weights.log_repetition(noise)
        cotangent = 0.5 * (n_outputs * inverse - alpha @ alpha.T)
        of_noise = float(np.diagonal(cotangent) @ diagonal)
        of_noise += 0.5 * n_outputs * (self.weights.n_counted - n_rows)
        gradient = np.append(of_noise, found.pull(cotangent))
        gaps = (variables - self.means) / self.widths
        if self.known_noise is not None:
            gaps[0], gradient[0] = 0.0, 0.0
        value += 0.5 * float(gaps @ gaps)
        return value / self.size, (gradient + gaps / self.widths) / self.size
