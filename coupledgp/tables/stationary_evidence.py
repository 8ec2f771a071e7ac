"""The exact evidence of a local part and a trend on all rows, dense: O(n^3) time, O(n^2) memory.

One pass over the pairs of rows below the diagonal makes the covariance and the slope of the kernel,
and another one the gradient; between them LAPACK factors and inverts the covariance in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack

from coupledgp.ground.compiled import FUSED, SUMMED, compiled, part, share_rows
from coupledgp.kernels.pairs import exponentials
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.local_evidence import REFUSED, OrderedRows
from coupledgp.tables.local_parameters import LocalObjective, Structure

# Most rows on which the exact evidence costs no more than that of 32 neighbours.
MOST_ROWS = 1000
# Numbers of the kernels that are compiled, by their names.
KERNELS = {
    "matern-1/2": 0, "matern-3/2": 1, "matern-5/2": 2, "gaussian": 3, "laplace": 4,
}  # fmt: skip
# Rows of a block that a thread takes at once.
LEAST_BLOCK, MOST_BLOCK = 4, 256
# Rows from which threads share them.
LEAST_SHARED = 400


def has_compiled(spectrum: Spectrum | None) -> bool:
    """Whether the exact evidence knows a kernel."""
    return str(spectrum) in KERNELS


@dataclass(frozen=True, eq=False)
class DenseEvidence(LocalObjective):
    """Exact evidence of all rows under a local part and a trend.

    With `u` the inputs in lengthscales, T the product of the trend's columns and `A = K^-1 Y`,

        K = v kappa(|u_i - u_j|) + t T + s diag(r) ,
        log p(Y) = -(tr(Y' A) + k log det K + n k log 2 pi) / 2 ,
        d log p(Y) = tr((A A' - k K^-1) dK) / 2

    (Rasmussen and Williams, 2006, section 5.4.1).

    Attributes
    ----------
    structure : Structure
        A model without features.
    inputs, targets : FloatArray (n, d) and (n, k)
        Standardised inputs, and normalised targets Y.
    trend : FloatArray (n, 0), (n, 1) or (n, 1 + d)
        Columns of the trend.
    noise : FloatArray (n,)
        Relative noise variances r.
    n_counted : float
        Observations, each as often as it counts.
    """

    structure: Structure
    inputs: FloatArray
    targets: FloatArray
    trend: FloatArray
    noise: FloatArray
    n_counted: float

    @classmethod
    def of(cls, structure: Structure, rows: OrderedRows) -> DenseEvidence:
        """The evidence of a table."""
        ones = np.ones((len(rows), 0 if structure.trend == "none" else 1))
        parts = [ones, rows.inputs] if structure.trend == "linear" else [ones]
        trend = np.asfortranarray(np.concatenate(parts, axis=1))
        counted = float(rows.counts.sum())
        return cls(structure, rows.inputs, rows.targets, trend, rows.noise, counted)

    @property
    def n_total(self) -> float:
        """Observations of the table, each as often as it counts."""
        return self.n_counted

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.targets)

    def value_and_gradient(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log posterior of hyperparameters per observation, and its gradient."""
        found = self.log_evidence(vector)
        if found is None:
            return REFUSED, np.zeros_like(vector)
        evidence, slopes = found
        means, widths = self._priors
        gaps = (vector - means) / widths
        size = self.n_counted * self.targets.shape[1]
        value = -(evidence - 0.5 * float(gaps @ gaps)) / size
        gradient = -(self.structure.pack(slopes) - gaps / widths) / size
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return REFUSED, np.zeros_like(vector)
        return value, gradient

    @cached_property
    def _priors(self) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations (q,) of the priors."""
        priors = self.structure.priors
        means, widths = (
            {name: np.array(pair[place]) for name, pair in priors.items()} for place in (0, 1)
        )
        return self.structure.pack(means), self.structure.pack(widths)

    def _scales(self, vector: FloatArray) -> dict[str, FloatArray]:
        """Hyperparameters by name."""
        shapes = self.structure.shapes
        sizes = [math.prod(shape) for shape in shapes.values()]
        parts = np.split(np.exp(vector), np.cumsum(sizes)[:-1])
        return dict(zip(shapes, parts, strict=True))

    def log_evidence(self, vector: FloatArray) -> tuple[float, dict[str, FloatArray]] | None:
        """Log evidence, nats, and its derivative in the logarithm of each hyperparameter.

        None where the covariance is not positive definite to rounding.
        """
        scales = self._scales(vector)
        level, amount = scales["noise"][0], scales["trend"][0] if self.trend.size else 0.0
        groups = self.structure.groups
        points = np.ascontiguousarray(self.inputs / scales["lengthscale"][groups])
        kernel, slope = self._covariance(points, scales["outputscale"][0])
        upper = kernel.T  # LAPACK's columns are our rows
        if amount:
            upper = blas.dsyrk(amount, self.trend, 1.0, upper, lower=0, overwrite_c=1)
        kernel.flat[:: len(kernel) + 1] += level * self.noise
        factor, failed = lapack.dpotrf(upper, lower=0, clean=0, overwrite_a=1)
        if failed:
            return None
        n_rows, n_outputs = self.targets.shape
        determinant = 2 * float(np.log(factor.diagonal()).sum())
        solved = lapack.dpotrs(factor, self.targets, lower=0)[0]
        upper = lapack.dpotri(factor, lower=0, overwrite_c=1)[0]
        quadratic = float((self.targets * solved).sum())
        repeated = n_outputs * (self.n_counted - n_rows)
        evidence = -0.5 * (
            quadratic
            + n_outputs * determinant
            + self.targets.size * np.log(2 * np.pi)
            + repeated * np.log(level)
        )
        diagonal = np.square(solved).sum(axis=1) - n_outputs * upper.diagonal()
        of_noise = 0.5 * level * float(diagonal @ self.noise)
        of_trend = 0.0
        if amount:
            product = blas.dsymm(1.0, upper, self.trend, lower=0)
            inner = float(np.square(self.trend.T @ solved).sum())
            of_trend = 0.5 * amount * (inner - n_outputs * float((self.trend * product).sum()))
        # tr((A A' - k K^-1) K) / 2 is that of all parts together.
        whole = 0.5 * (quadratic - n_outputs * n_rows)
        of_columns = self._pull(points, slope, upper.T, np.ascontiguousarray(solved))
        slopes = {
            "noise": np.array(of_noise - 0.5 * repeated),
            "lengthscale": np.bincount(groups, of_columns),
            "outputscale": np.array(whole - of_noise - of_trend),
            "trend": np.array(of_trend),
        }
        return evidence, slopes

    def _covariance(self, points: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
        """Covariances (n, n) of the local part and slopes of its kernel, below the diagonal."""
        n_rows, spectrum = len(points), self.structure.spectrum
        kernel, slope = np.empty((n_rows, n_rows)), np.empty((n_rows, n_rows))
        columns, number = np.ascontiguousarray(points.T), KERNELS[str(spectrum)]

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                _kernel_rows(first, last, points, columns, number, variance, kernel, slope)

        share_rows(work, n_rows, LEAST_BLOCK, MOST_BLOCK, LEAST_SHARED)
        return kernel, slope

    def _pull(
        self, points: FloatArray, slope: FloatArray, inverse: FloatArray, solved: FloatArray
    ) -> FloatArray:
        """Derivative of the log evidence in the log lengthscale of each column (d,)."""
        assert self.structure.spectrum is not None
        out = np.zeros(points.shape)
        columns = np.ascontiguousarray(points.T)
        is_square = self.structure.spectrum.metric is Metric.L2

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                _gradient_rows(first, last, points, columns, is_square, slope, inverse, solved, out)

        share_rows(work, len(points), LEAST_BLOCK, MOST_BLOCK, LEAST_SHARED)
        return np.asarray(out.sum(axis=0))


@part(FUSED)
def _kernels(number, n, variance, work, bits, kernel, slope):  # type: ignore[no-untyped-def]
    """Kernel and slope of n pairs from the sums of powers in `kernel`, times the variance."""
    if number == 3:
        for j in range(n):
            work[j] = 0.5 * kernel[j]
    elif number == 4:
        for j in range(n):
            work[j] = kernel[j]
    else:
        scale = 1.0 if number == 0 else 3.0 if number == 1 else 5.0
        for j in range(n):
            work[j] = np.sqrt(scale * kernel[j])
    exponentials(work, n, slope, bits)
    if number == 0:
        for j in range(n):
            kernel[j] = variance * slope[j]
            slope[j] = kernel[j] / work[j] if work[j] > 0 else 0.0
    elif number == 1:
        for j in range(n):
            kernel[j] = variance * (1 + work[j]) * slope[j]
            slope[j] *= 3 * variance
    elif number == 2:
        for j in range(n):
            rate = variance * (1 + work[j]) * slope[j]
            kernel[j] = rate + variance * work[j] * work[j] / 3 * slope[j]
            slope[j] = 5 * rate / 3
    else:
        for j in range(n):
            slope[j] *= variance
            kernel[j] = slope[j]


@compiled
def _kernel_rows(first, last, points, columns, number, variance, kernel, slope):  # type: ignore[no-untyped-def]
    """Rows first..last-1 of the covariance and of the slopes, up to the diagonal."""
    work, bits = np.empty(last), np.empty(last, np.int64)
    for i in range(first, last):
        n = i + 1
        sums = kernel[i, :n]
        for j in range(n):
            sums[j] = 0.0
        for column in range(columns.shape[0]):
            x, others = points[i, column], columns[column]
            if number == 4:
                for j in range(n):
                    sums[j] += abs(x - others[j])
            else:
                for j in range(n):
                    gap = x - others[j]
                    sums[j] += gap * gap
        _kernels(number, n, variance, work, bits, sums, slope[i, :n])


@part(SUMMED)
def _weighed_powers(x, others, weights, n, is_square):  # type: ignore[no-untyped-def]
    """Sum of weights times squares, or absolute values, of n gaps."""
    total = 0.0
    if is_square:
        for j in range(n):
            gap = x - others[j]
            total += weights[j] * (gap * gap)
    else:
        for j in range(n):
            total += weights[j] * abs(x - others[j])
    return total


@compiled
def _gradient_rows(first, last, points, columns, is_square, slope, inverse, solved, out):  # type: ignore[no-untyped-def]
    """Contributions of rows first..last-1 to the derivatives, each in its own row of `out`."""
    n_outputs, weights = solved.shape[1], np.empty(last)
    for i in range(first, last):
        for j in range(i):
            weights[j] = -n_outputs * inverse[i, j]
        for output in range(n_outputs):
            own, others = solved[i, output], solved[:, output]
            for j in range(i):
                weights[j] += own * others[j]
        for j in range(i):
            weights[j] *= slope[i, j]
        for column in range(columns.shape[0]):
            out[i, column] = _weighed_powers(
                points[i, column], columns[column], weights, i, is_square
            )
