"""The equations of the weights on a lattice, by conjugate gradients about a dense block.

    A = D G D + s I ,    alpha = A^-1 D g ,

G and g the products of all features (waves, then trend columns) with each other and with the
targets. The block of the K heaviest waves and the trend columns is solved by a Cholesky factor; of
the others the diagonal of A stands for A. With K = M there is nothing but the block, one step
solves, and traces and the determinant are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack, solve_triangular

from coupledgp.errors import NumericalError
from coupledgp.linalg.conjugate_gradients import solve_columns
from coupledgp.linalg.lanczos import inverse_root, lanczos_quadrature
from coupledgp.random import FloatArray
from coupledgp.tables.lattice import MOST_FACTORED, ROOT2, Lattice
from coupledgp.tables.lattice_sums import LatticeSums

# Most waves of the block: its Cholesky factor takes about as long as the steps it saves. It is
# wider where the signal of the first wave outside exceeds the noise so many times.
BLOCK_WAVES, WIDE_BLOCK, WIDE_SIGNAL = 1500, MOST_FACTORED, 500.0
# Most steps of conjugate gradients: with a noise of 1e-4 of the outputscale they are some hundreds.
MOST_STEPS = 1500
# Steps of Lanczos' method for the determinant of what the block leaves.
DETERMINANT_STEPS = 60


@dataclass(frozen=True, eq=False)
class LatticeSystem:
    """The matrix A of a lattice at given hyperparameters.

    Attributes
    ----------
    lattice : Lattice
        Frequencies.
    sums : LatticeSums
        Sums over rows, of normalised targets.
    n_outputs : int
        Number k of targets; the p trend columns follow them in the sums.
    loadings : FloatArray (M + p,)
        Prior standard deviations D of the weights of waves and trend columns.
    noise : float
        Noise variance s, that of waves beyond the lattice included.
    multiplier : FloatArray (N_1, ..., N_d)
        Of the Toeplitz matrix; see `Lattice.multiplier`.
    most_waves : int
        Most waves of the block.
    """

    lattice: Lattice
    sums: LatticeSums
    n_outputs: int
    loadings: FloatArray
    noise: float
    multiplier: FloatArray
    most_waves: int = BLOCK_WAVES

    @classmethod
    def of(
        cls,
        lattice: Lattice,
        sums: LatticeSums,
        n_outputs: int,
        loadings: FloatArray,
        noise: float,
        multiplier: FloatArray | None = None,
        most_waves: int | None = None,
    ) -> Self:
        """The system; a multiplier that is known need not be computed anew."""
        own = lattice.multiplier(sums.waves) if multiplier is None else multiplier
        found = cls(lattice, sums, n_outputs, loadings, noise, own, most_waves or BLOCK_WAVES)
        wide = most_waves is None and found.signal_outside > WIDE_SIGNAL
        return replace(found, most_waves=WIDE_BLOCK) if wide else found

    @property
    def n_weights(self) -> int:
        """Number M + p of weights."""
        return len(self.loadings)

    @property
    def signal_outside(self) -> float:
        """Greatest signal of a wave outside of the block, in units of the noise; zero without one.

        Steps of conjugate gradients grow with its root.
        """
        if self.is_dense:
            return 0.0
        own = self.loadings[1 : self.lattice.n_waves]
        outside = float(-np.partition(-own, self.most_waves - 1)[self.most_waves - 1])
        return outside**2 * self.count / self.noise

    @property
    def is_dense(self) -> bool:
        """Whether the block holds all waves."""
        return self.lattice.n_waves <= self.most_waves

    @cached_property
    def _of_trend(self) -> FloatArray:
        """Products (M, p) of waves and trend columns."""
        return self.lattice.vectors(self.sums.cross[self.n_outputs :])

    @property
    def _trend_products(self) -> FloatArray:
        return self.sums.products[self.n_outputs :, self.n_outputs :]

    @cached_property
    def right_hand_side(self) -> FloatArray:
        """`D g` (M + p, k)."""
        waves = self.lattice.vectors(self.sums.cross[: self.n_outputs])
        trend = self.sums.products[self.n_outputs :, : self.n_outputs]
        return self.loadings[:, None] * np.vstack([waves, trend])

    def product(self, vectors: FloatArray) -> FloatArray:
        """`A V` (M + p, c) of vectors V."""
        n = self.lattice.n_waves
        scaled = self.loadings[:, None] * vectors
        found = np.empty_like(scaled)
        found[:n] = self.lattice.convolved(self.multiplier, scaled[:n])
        found[:n] += self._of_trend @ scaled[n:]
        found[n:] = self._of_trend.T @ scaled[:n] + self._trend_products @ scaled[n:]
        return self.loadings[:, None] * found + self.noise * vectors

    @cached_property
    def block(self) -> tuple[NDArray[np.int64], FloatArray]:
        """Places (K + p,) of the weights of the block, and its Cholesky factor.

        Raises
        ------
        NumericalError
            The block is not positive definite to working precision.
        """
        n, n_pairs = self.lattice.n_waves, (self.lattice.n_waves - 1) // 2
        heaviest = np.argsort(-self.loadings[1 : n_pairs + 1], kind="stable")
        pairs = np.sort(heaviest[: (self.most_waves - 1) // 2])
        trend = np.arange(n, self.n_weights)
        places = np.concatenate([[0], 1 + pairs, 1 + n_pairs + pairs, trend])
        matrix = self._gram(pairs, places)
        own = self.loadings[places]
        matrix *= own[:, None] * own
        matrix[np.diag_indices_from(matrix)] += self.noise
        factor, fault = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
        if fault:
            raise NumericalError(
                f"noise: {self.noise:.1g} of the variance of y is lost in the rounding of sums "
                "over the rows; raise the noise, or use LocalGPRegressor"
            )
        return places, factor

    def _gram(self, pairs: NDArray[np.int64], places: NDArray[np.int64]) -> FloatArray:
        """Products (K + p, K + p) of one, cosines and sines of pairs, and trend columns."""
        j = self.lattice.pairs[pairs]
        k, n = len(j), self.lattice.n_waves
        size = 2 * k + 1
        found = np.empty((len(places), len(places)))
        less, more = self._waves_at(j[:, None] - j), self._waves_at(j[:, None] + j)
        own = self._waves_at(j)
        found[0, 0] = self._waves_at(np.zeros((1, self.lattice.dim), dtype=np.int64))[0].real
        found[0, 1 : k + 1], found[0, k + 1 : size] = ROOT2 * own.real, -ROOT2 * own.imag
        found[1 : k + 1, 1 : k + 1] = (less + more).real
        found[k + 1 : size, k + 1 : size] = (less - more).real
        found[1 : k + 1, k + 1 : size] = (less - more).imag
        found[k + 1 : size, 1 : k + 1] = found[1 : k + 1, k + 1 : size].T
        found[1:size, 0] = found[0, 1:size]
        found[size:, :size] = self._of_trend[places[places < n]].T
        found[:size, size:] = found[size:, :size].T
        found[size:, size:] = self._trend_products
        return found

    def _waves_at(self, t: NDArray[np.int64]) -> NDArray[np.complex128]:
        """T at differences t (..., d)."""
        negative = t[..., -1] < 0
        t = np.where(negative[..., None], -t, t) + np.append(2 * self.lattice.halves[:-1], 0)
        found = self.sums.waves[tuple(np.moveaxis(t, -1, 0))]
        return np.asarray(np.where(negative, np.conj(found), found))

    @property
    def count(self) -> float:
        """Sum of the weights of all rows."""
        middle = tuple(2 * self.lattice.halves[:-1].astype(int))
        return float(self.sums.waves[(*middle, 0)].real)

    @cached_property
    def _others(self) -> FloatArray:
        """Diagonal of A (M + p,), that stands for A outside of the block."""
        return np.square(self.loadings) * self.count + self.noise

    def precondition(self, vectors: FloatArray) -> FloatArray:
        """`P^-1 V` (M + p, c)."""
        places, factor = self.block
        found = vectors / self._others[:, None]
        found[places] = cho_solve((factor, True), vectors[places], check_finite=False)
        return found

    def solve(self, vectors: FloatArray, tolerance: float | FloatArray) -> FloatArray:
        """`A^-1 V` (M + p, c) to a relative residual, one or one a column, in the norm of `P^-1`.

        Raises
        ------
        NumericalError
            Conjugate gradients did not converge.
        """
        if self.is_dense:
            return self.precondition(vectors)
        try:
            return solve_columns(
                self.product, self.precondition, vectors, tolerance, MOST_STEPS,
                in_norm_of_preconditioner=True,
            )  # fmt: skip
        except NumericalError as error:
            raise NumericalError(
                f"lattice: the equations of {self.lattice.n_waves} waves are not solved in "
                f"{MOST_STEPS} steps, with a noise of {self.noise:.1g} of the variance of y; raise "
                "the noise, take a smoother kernel, or use LocalGPRegressor"
            ) from error

    @cached_property
    def block_inverse(self) -> FloatArray:
        """Inverse (K + p, K + p) of the block."""
        inverse, _ = lapack.dpotri(self.block[1], lower=1)
        lower = np.tril(inverse)
        return np.asarray(lower + np.tril(inverse, -1).T)

    @property
    def block_places(self) -> NDArray[np.int64]:
        """Places (K + p,) of the weights of the block."""
        return self.block[0]

    @cached_property
    def inverse_diagonal(self) -> FloatArray:
        """Diagonal (M + p,) of `P^-1`."""
        found = 1.0 / self._others
        found[self.block_places] = np.diag(self.block_inverse)
        return found

    def log_determinant(self, n_probes: int, rng: np.random.Generator) -> tuple[float, float]:
        """`log |A|`, nats, and its standard error, by Lanczos' method about the block.

        `log |P|` is exact, and `log |P^-1/2 A P^-1/2|` is the mean over probes of signs.
        """
        factor = self.block[1]
        outside = np.ones(self.n_weights, dtype=bool)
        outside[self.block_places] = False
        value = 2 * float(np.log(np.diag(factor)).sum())
        value += float(np.log(self._others[outside]).sum())
        if self.is_dense:
            return value, 0.0
        signs = rng.choice([-1.0, 1.0], size=(self.n_weights, n_probes))
        rules = lanczos_quadrature(self._balanced, signs, DETERMINANT_STEPS)
        logs = np.log(np.where(rules.weights > 0, rules.values, 1.0))
        found = self.n_weights * (rules.weights * logs).sum(axis=1)
        return value + float(found.mean()), float(found.std(ddof=1) / np.sqrt(n_probes))

    def deviations(self, normals: FloatArray, tolerance: float) -> FloatArray:
        """Draws (M + p, P) of the weights less their mean, from normal numbers (M + p, P).

        `sqrt(s) P^-T/2 B^-1/2 z` with `B = P^-1/2 A P^-T/2` has the covariance `s A^-1`. It needs
        no rows, only their sums.

        Raises
        ------
        NumericalError
            Lanczos' method did not come within the relative tolerance.
        """
        root = np.sqrt(self.noise)
        if self.is_dense:
            return root * self._whitened(normals, True)
        found = inverse_root(self._balanced, normals, tolerance, MOST_STEPS)
        return root * self._whitened(found, True)

    def _balanced(self, vectors: FloatArray) -> FloatArray:
        """`B V` for the matrix B = P^-1/2 A P^-T/2, near one."""
        return self._whitened(self.product(self._whitened(vectors, True)))

    def _whitened(self, vectors: FloatArray, transposed: bool = False) -> FloatArray:
        """`P^-1/2 V`, or by its transpose."""
        places, factor = self.block
        found = vectors / np.sqrt(self._others)[:, None]
        found[places] = solve_triangular(
            factor, vectors[places], lower=True, trans=int(transposed), check_finite=False
        )
        return found
