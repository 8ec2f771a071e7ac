"""Equations in the exact covariance of a stationary kernel, which is never stored as a whole.

Solving for one column takes O(n) memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coupledgp.ground.progress import Progress
from coupledgp.inference.evidence.stationary import (
    distances_between,
    kernel_of,
)
from coupledgp.linalg.conjugate_gradients import solve_refined
from coupledgp.linalg.distances import scaled_distances
from coupledgp.linalg.low_rank import LowRankPlusNoise, partial_cholesky
from coupledgp.linalg.system import LinearSystem, Solution, SystemOptions
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum

# Entries of the kernel that are formed at once: 256 MiB in double precision.
BLOCK_ENTRIES = 2**25


def kernel_of_exponents(spectrum: Spectrum, exponents: Tensor) -> Tensor:
    """Kernel values `kappa(r)`, from exponents `-r^2 / 2` of any shape, which are overwritten."""
    if isinstance(spectrum, GaussianSpectrum):
        return exponents.exp_()
    r = exponents.clamp_max_(0.0).mul_(-2.0).sqrt_()
    if isinstance(spectrum, MaternSpectrum) and spectrum.nu in (0.5, 1.5, 2.5):
        s = r.mul_((2 * spectrum.nu) ** 0.5)
        decay = torch.exp(-s)
        if spectrum.nu == 0.5:
            return decay
        return decay.mul_(1 + s if spectrum.nu == 1.5 else 1 + s + s.square() / 3)
    return torch.as_tensor(spectrum.kernel(r.double().numpy())).to(r.dtype)


@dataclass(frozen=True, eq=False)
class ExactProblem:
    """Data and hyperparameters of an exact GP of a table.

    Attributes
    ----------
    spectrum : Spectrum
        The kernel.
    X : FloatArray (n, d)
        Inputs.
    targets : FloatArray (n, k)
        Normalised targets.
    lengthscale : FloatArray (d,)
        Lengthscales in units of the inputs.
    outputscale, noise : float
        Variances of f and of the noise, in units of the normalised targets.
    offset, scale : FloatArray (k,)
        Units of the targets: `y = offset + scale * target`.
    relative_noise : FloatArray (n,) or None
        Noise variances of the rows over `noise`; None for ones.
    """

    spectrum: Spectrum
    X: FloatArray
    targets: FloatArray
    lengthscale: FloatArray
    outputscale: float
    noise: float
    offset: FloatArray
    scale: FloatArray
    relative_noise: FloatArray | None = None

    def system(self, options: SystemOptions) -> StationarySystem:
        """Return the equations in the covariance of the data."""
        return StationarySystem(self, options)


class StationarySystem(LinearSystem):
    """`A = v kappa + s diag(r)` of the rows of a table, by blocked products.

    They are solved by conjugate gradients, preconditioned by a randomly pivoted Nystrom
    approximation. In float32 the steps are made in single precision and the residuals in double,
    until these are small enough. Rows of relative noise r are solved for as `r^-1/2 A r^-1/2`,
    whose noise is s alike for all rows.

    Parameters
    ----------
    problem
        Data and hyperparameters.
    options
        Precision and preconditioner.
    """

    def __init__(self, problem: ExactProblem, options: SystemOptions) -> None:
        self.problem, self.options = problem, options
        self.targets, self.noise = problem.targets, problem.noise
        # Centred: squared distances are formed from products, whose rounding grows with |x|^2.
        self._center = problem.X.mean(axis=0)
        self._rows = torch.as_tensor(self._scaled(problem.X))
        relative = problem.relative_noise
        self._root = None if relative is None else torch.as_tensor(relative**-0.5)[:, None]

    def _weighted(self, V: Tensor) -> Tensor:
        """Columns V (n, k) with the factors `r^-1/2` of the rows, in the dtype of V."""
        return V if self._root is None else V * self._root.to(V.dtype)

    def _scaled(self, X: FloatArray) -> FloatArray:
        return (X - self._center) / self.problem.lengthscale

    def prior(self, points: FloatArray) -> FloatArray:
        scaled = self._scaled(points)
        return self._kernel(self._distances(scaled, scaled))

    def cross(self, points: FloatArray) -> FloatArray:
        return self._kernel(self._distances(self._rows.numpy(), self._scaled(points)))

    def _distances(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return scaled_distances(a, b, self.problem.spectrum.metric)

    def _kernel(self, distances: FloatArray) -> FloatArray:
        return self.problem.outputscale * self.problem.spectrum.kernel(distances)

    def product(self, V: Tensor) -> Tensor:
        """`r^-1/2 A r^-1/2 V` for V (n, k), in the dtype of V, a block of rows at a time."""
        weighted = self._weighted(V)
        out = torch.empty_like(V)
        start = 0
        for kernel in self._blocks(self._rows.to(V.dtype)):
            torch.mm(kernel, weighted, out=out[start : start + len(kernel)])
            start += len(kernel)
        out = self._weighted(out)
        return out.mul_(self.problem.outputscale).add_(V, alpha=self.noise)

    def _blocks(self, rows: Tensor) -> Iterator[Tensor]:
        """Kernel values of blocks of rows (n, d) with all rows, each until the next is formed.

        Euclidean distances come from products of matrices, which take a fraction of the time.
        """
        spectrum, step = self.problem.spectrum, max(BLOCK_ENTRIES // len(rows), 64)
        half = rows.square().sum(1).mul_(0.5)
        buffer = rows.new_empty(min(step, len(rows)), len(rows))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            if spectrum.metric != Metric.L2:
                yield kernel_of(spectrum, distances_between(block, rows, spectrum.metric))
                continue
            exponents = torch.addmm(-half, block, rows.T, out=buffer[: len(block)])
            exponents.sub_(half[start : start + step, None])
            # The distance of a row from itself is zero, not the rounding of a product.
            exponents.diagonal(start).zero_()
            yield kernel_of_exponents(spectrum, exponents)

    @cached_property
    def preconditioner(self) -> LowRankPlusNoise:
        """A lower bound of `r^-1/2 A r^-1/2`: a matrix of low rank plus noise."""
        n, v = self.n_rows, self.problem.outputscale
        rows = self._rows.numpy()

        def columns(pivots: NDArray[np.int64]) -> Tensor:
            kernel = torch.as_tensor(self._kernel(self._distances(rows, rows[pivots])))
            return kernel if self._root is None else self._weighted(kernel) * self._root[pivots].T

        rng = np.random.default_rng(self.options.seed)
        relative = self.problem.relative_noise
        diagonal = np.full(n, v) if relative is None else v / relative
        factor = partial_cholesky(diagonal, columns, self.options.rank, rng, 1e-3 * self.noise)
        return LowRankPlusNoise(factor, self.noise)

    def inverse_bound(self, R: FloatArray) -> FloatArray:
        residuals = self._weighted(torch.as_tensor(R))
        bound = (residuals.T @ self.preconditioner.solve(residuals)).numpy()
        return 0.5 * (bound + bound.T)

    def bytes_needed(self, n_columns: int) -> float:
        single = 4 if self.options.dtype == torch.float32 else 8
        rank = min(self.options.rank, self.n_rows)
        columns = n_columns * (6 * 8 + 6 * single)
        blocks = 3 * 8 * max(BLOCK_ENTRIES, 64 * self.n_rows)
        return self.n_rows * (columns + rank * (3 * 8 + single)) + blocks

    def solve(self, B: FloatArray, tolerance: float, report: Progress) -> Solution:
        report(f"preconditioner of rank {min(self.options.rank, self.n_rows)}")
        precondition = self.preconditioner.solve
        right = self._weighted(torch.as_tensor(B))
        solved = solve_refined(
            self.product, precondition, right, tolerance, self.options.dtype, report
        )
        if self._root is None:
            return solved
        root = self._root.numpy()
        return Solution(solved.values * root, solved.residuals / root, solved.n_iterations)
