"""Equations in the exact covariance of a stationary kernel, which is never stored as a whole.

Solving for one column takes O(n) memory.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.problem import Hyperparameters, distances_between, kernel_of
from coupledgp.ground.progress import tell
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.conjugate_gradients import solve_refined
from coupledgp.linalg.distances import scaled_distances
from coupledgp.linalg.lanczos import lanczos_quadrature, widened_error
from coupledgp.linalg.low_rank import LowRankPlusNoise, partial_cholesky
from coupledgp.linalg.system import LinearSystem, Solution, SystemOptions
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum

# Rows and columns of a tile of the kernel, whose entries stay in the cache until they are used.
TILE_ROWS, TILE_COLUMNS = 256, 1024


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


class CovarianceSystem(LinearSystem):
    """`A = K + s diag(r)` of n rows, solved by conjugate gradients.

    Rows of relative noise r are solved for as `r^-1/2 A r^-1/2`, whose noise is s alike for all
    rows. The preconditioner is a randomly pivoted Nystrom approximation of K. Steps in float32 are
    followed by residuals in float64, until these are small enough.

    Parameters
    ----------
    targets
        Normalised targets (n, k).
    noise
        Noise variance s, normalised.
    relative_noise
        The diagonal r (n,); None for ones.
    options
        Precision and preconditioner.
    """

    def __init__(
        self,
        targets: FloatArray,
        noise: float,
        relative_noise: FloatArray | None,
        options: SystemOptions,
    ) -> None:
        self.targets, self.noise, self.options = targets, noise, options
        root = np.ones(len(targets)) if relative_noise is None else relative_noise**-0.5
        self.root = torch.as_tensor(root)[:, None]

    @abstractmethod
    def product(self, V: Tensor) -> Tensor:
        """`r^-1/2 A r^-1/2 V` for V (n, k), in the dtype of V."""

    def times(self, X: FloatArray) -> FloatArray:
        """`A X` for X (n, k), in float64."""
        root = self.root
        found: FloatArray = (self.product(torch.as_tensor(X) / root) / root).numpy()
        return found

    @abstractmethod
    def prior_variances(self) -> FloatArray:
        """Prior variances (n,) of f at the rows."""

    @abstractmethod
    def prior_columns(self, pivots: NDArray[np.int64]) -> FloatArray:
        """Prior covariances (n, b) between all rows and the rows of some numbers (b,)."""

    @cached_property
    def preconditioner(self) -> LowRankPlusNoise:
        """A lower bound of `r^-1/2 A r^-1/2`: a matrix of low rank plus noise."""

        def columns(pivots: NDArray[np.int64]) -> Tensor:
            return self.root * torch.as_tensor(self.prior_columns(pivots)) * self.root[pivots].T

        rng = np.random.default_rng(self.options.seed)
        diagonal = self.prior_variances() * self.root.square()[:, 0].numpy()
        factor = partial_cholesky(diagonal, columns, self.options.rank, rng, 1e-3 * self.noise)
        return LowRankPlusNoise(factor, self.noise)

    def inverse_bound(self, R: FloatArray) -> FloatArray:
        residuals = self.root * torch.as_tensor(R)
        bound = (residuals.T @ self.preconditioner.solve(residuals)).numpy()
        return 0.5 * (bound + bound.T)

    def bytes_needed(self, n_columns: int) -> float:
        single = 4 if self.options.dtype == "float32" else 8
        rank = min(self.options.rank, self.n_rows)
        columns = n_columns * (6 * 8 + 6 * single)
        blocks = 4 * 8 * TILE_ROWS * max(TILE_COLUMNS, self.n_rows)
        return self.n_rows * (columns + rank * (3 * 8 + single)) + blocks

    def solve(self, B: FloatArray, tolerance: float) -> Solution:
        tell(f"preconditioner of rank {min(self.options.rank, self.n_rows)}")
        solved = solve_refined(
            self.product, self.preconditioner.solve, self.root * torch.as_tensor(B), tolerance,
            self.options.dtype,
        )  # fmt: skip
        root = self.root.numpy()
        return Solution(solved.values * root, solved.residuals / root, solved.n_iterations)

    def log_determinant(
        self, n_probes: int, n_steps: int, rng: np.random.Generator
    ) -> tuple[float, float]:
        """`log det A` and its standard error over random probes.

        With the preconditioner L it is `log det L + tr log(L^-1/2 A L^-1/2)`; the trace comes from
        Lanczos quadratures of probes with entries of 1 and -1 (Ubaru, Chen and Saad, 2017).

        Parameters
        ----------
        n_probes
            Number of probes, at least two.
        n_steps
            Number of products with A.
        rng
            Source of the probes.
        """
        lower = self.preconditioner
        probes = rng.choice([-1.0, 1.0], (self.n_rows, n_probes))

        def product(V: FloatArray) -> FloatArray:
            found = lower.inverse_root(self.product(lower.inverse_root(torch.as_tensor(V))))
            return np.asarray(found.numpy())

        rules = lanczos_quadrature(product, probes, n_steps)
        # L is a lower bound of A: no value lies below one but by rounding.
        each = (rules.weights * np.log(np.maximum(rules.values, 1.0))).sum(axis=1) * self.n_rows
        known = lower.log_determinant(self.n_rows) - 2 * float(self.root.log().sum())
        return known + float(each.mean()), float(widened_error(each))


class StationarySystem(CovarianceSystem):
    """`A = v kappa + s diag(r)` of the rows of a table, by tiles that fit the cache.

    Parameters
    ----------
    spectrum
        The kernel.
    hyperparameters
        Lengthscales (d,), and the variances of f and of the noise, normalised.
    X
        Inputs (n, d).
    targets, relative_noise, options
        As of a `CovarianceSystem`.
    """

    def __init__(
        self,
        spectrum: Spectrum,
        hyperparameters: Hyperparameters,
        X: FloatArray,
        targets: FloatArray,
        relative_noise: FloatArray | None,
        options: SystemOptions,
    ) -> None:
        super().__init__(targets, hyperparameters.noise, relative_noise, options)
        self.spectrum, self.hyperparameters, self.X = spectrum, hyperparameters, X
        # Centred: squared distances are formed from products, whose rounding grows with |x|^2.
        self._center = X.mean(axis=0)
        self._rows = torch.as_tensor(self._scaled(X))

    def _scaled(self, X: FloatArray) -> FloatArray:
        found: FloatArray = (X - self._center) / self.hyperparameters.lengthscale
        return found

    def prior(self, points: FloatArray) -> FloatArray:
        scaled = self._scaled(points)
        return self._kernel(self._distances(scaled, scaled))

    def cross(self, points: FloatArray) -> FloatArray:
        return self._kernel(self._distances(self._rows.numpy(), self._scaled(points)))

    def prior_variances(self) -> FloatArray:
        return np.full(self.n_rows, self.hyperparameters.outputscale)

    def prior_columns(self, pivots: NDArray[np.int64]) -> FloatArray:
        rows = self._rows.numpy()
        return self._kernel(self._distances(rows, rows[pivots]))

    def _distances(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return scaled_distances(a, b, self.spectrum.metric)

    def _kernel(self, distances: FloatArray) -> FloatArray:
        return self.hyperparameters.outputscale * self.spectrum.kernel(distances)

    def product(self, V: Tensor) -> Tensor:
        root = self.root.to(V.dtype)
        weighted, rows = V * root, self._rows.to(V.dtype)
        half = rows.square().sum(1).mul_(0.5)
        out = torch.zeros_like(V)
        for start in range(0, len(rows), TILE_ROWS):
            own = out[start : start + TILE_ROWS]
            for other in range(0, len(rows), TILE_COLUMNS):
                kernel = self._tile(rows, half, start, other)
                own.addmm_(kernel, weighted[other : other + TILE_COLUMNS])
        return out.mul_(root).mul_(self.hyperparameters.outputscale).add_(V, alpha=self.noise)

    def _tile(self, rows: Tensor, half: Tensor, start: int, other: int) -> Tensor:
        """Kernel values of rows from one place on with rows from another place on.

        Euclidean distances come from products of matrices, which take a fraction of the time.
        `half` holds half of the squared lengths of the rows.
        """
        spectrum = self.spectrum
        mine, others = slice(start, start + TILE_ROWS), slice(other, other + TILE_COLUMNS)
        if spectrum.metric != Metric.L2:
            gaps = distances_between(rows[mine], rows[others], spectrum.metric)
            return kernel_of(spectrum, gaps)
        exponents = torch.addmm(-half[others], rows[mine], rows[others].T)
        exponents.sub_(half[mine, None])
        # The distance of a row from itself is zero, not the rounding of a product.
        offset = start - other
        if -exponents.shape[0] < offset < exponents.shape[1]:
            exponents.diagonal(offset).zero_()
        return kernel_of_exponents(spectrum, exponents)
