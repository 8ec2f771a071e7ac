"""The posterior on a lattice: means and variances everywhere are sums of waves.

With the mean alpha of the whitened weights and their covariance `s A^-1`, f has at x the mean
`sum_j D_j alpha_j exp(2 pi i h j.(x - c))`, and with `C = s D A^-1 D` the variance

    var f(x) = sum_t c_t exp(2 pi i h t.(x - c)) ,    c_t = sum over j - k = t of C_jk ,

so that one transform gives it at any number of points. Where the block holds all waves c is exact.
Else it is the mean square of P draws of the deviation, `s^1/2 A^-1/2` times normal numbers; a
standard deviation then has a relative error of `1 / sqrt(2 P)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from coupledgp.ground.codec import stored
from coupledgp.random import FloatArray
from coupledgp.tables.lattice import Complex, Lattice
from coupledgp.tables.lattice_system import LatticeSystem
from coupledgp.tables.spreading import wave_places

# Relative residuals of the solves for the mean, and for draws of the deviation.
MEAN_TOLERANCE, DRAW_TOLERANCE = 1e-6, 1e-3


@stored
@dataclass(frozen=True, eq=False)
class LatticePosterior:
    """Moments of the posterior, normalised units.

    Attributes
    ----------
    mean : FloatArray (M + p, k)
        Mean of the whitened weights, alpha.
    spread : Complex (4 m_1 + 1, ..., 2 m_d + 1)
        c, coefficients of the variance of the waves' part; half of the last axis.
    cross : Complex (p, 2 m_1 + 1, ..., m_d + 1)
        Coefficients of the covariances of the waves' part with the coefficients of the trend.
    trend_covariance : FloatArray (p, p)
        Covariance of the coefficients of the trend.
    draws : FloatArray (M + p, P)
        Draws of the deviation of the whitened weights; no columns where the moments are exact.
    """

    mean: FloatArray
    spread: Complex
    cross: Complex
    trend_covariance: FloatArray
    draws: FloatArray

    @classmethod
    def of(
        cls,
        system: LatticeSystem,
        n_draws: int,
        rng: np.random.Generator,
    ) -> Self:
        """Solve for the mean and the variances.

        Parameters
        ----------
        system
            Equations of the weights.
        n_draws
            Number of draws; none are made where the block holds all waves.
        rng
            Source of the draws.

        Raises
        ------
        NumericalError
            The equations are not solved to working precision.
        """
        mean = system.solve(system.right_hand_side, MEAN_TOLERANCE)
        if system.is_dense:
            return cls(
                mean, *_exact_moments(system, system.loadings), np.empty((system.n_weights, 0))
            )
        normals = rng.standard_normal((system.n_weights, n_draws))
        draws = system.deviations(normals, DRAW_TOLERANCE)
        loaded = system.loadings[:, None] * draws
        return cls(mean, *_sampled_moments(system.lattice, loaded), draws)

    @property
    def relative_error(self) -> float:
        """Standard error of a standard deviation of f, relative; zero where it is exact."""
        n_draws = self.draws.shape[1]
        return 1 / np.sqrt(2 * n_draws) if n_draws else 0.0

    def loaded(self, system: LatticeSystem, loadings: FloatArray) -> LatticePosterior:
        """The same posterior of the weights with other amplitudes (M + p,) of the features."""
        if system.is_dense:
            moments = _exact_moments(system, loadings)
        else:
            moments = _sampled_moments(system.lattice, loadings[:, None] * self.draws)
        return LatticePosterior(self.mean, *moments, self.draws)

    def means(
        self, lattice: Lattice, loadings: FloatArray, points: FloatArray, trend: FloatArray
    ) -> FloatArray:
        """Means (n, k) of f at rows (n, d), in units of the period, with trend columns (n, p)."""
        return values_at(lattice, loadings[:, None] * self.mean, points, trend)

    def variances(self, lattice: Lattice, points: FloatArray, trend: FloatArray) -> FloatArray:
        """Variances (n,) of the waves' part and the trend at rows (n, d) in units of the period."""
        found = lattice.differences.forward(points, self.spread[None])[:, 0]
        if trend.shape[1]:
            beside = lattice.waves.forward(points, self.cross)
            found = found + 2 * (trend * beside).sum(axis=1)
            found += np.einsum("ip,pq,iq->i", trend, self.trend_covariance, trend)
        return np.maximum(found, 0.0)


def values_at(
    lattice: Lattice, weights: FloatArray, points: FloatArray, trend: FloatArray
) -> FloatArray:
    """Values (n, c) at rows of functions with weights (M + p, c) of waves and trend columns."""
    n = lattice.n_waves
    found = lattice.waves.forward(points, lattice.coefficients(weights[:n]))
    return found + trend @ weights[n:]


def _exact_moments(
    system: LatticeSystem, loadings: FloatArray
) -> tuple[Complex, Complex, FloatArray]:
    """Coefficients of the variance and of covariances with the trend; the trend's covariance."""
    lattice, n = system.lattice, system.lattice.n_waves
    order = np.argsort(system.block_places)
    own = system.noise * system.block_inverse[np.ix_(order, order)]
    own *= loadings[:, None] * loadings
    cross = lattice.coefficients(own[:n, n:]) if own.shape[0] > n else _no_cross(lattice)
    return _autocorrelation(lattice, own[:n, :n]), cross, own[n:, n:]


def _no_cross(lattice: Lattice) -> Complex:
    return np.empty((0, *lattice.waves.shape), dtype=complex)


def _autocorrelation(lattice: Lattice, own: FloatArray) -> Complex:
    """Coefficients c of `phi(x)'C phi(x)` for the covariance C (M, M) of weights."""
    j = np.vstack([np.zeros((1, lattice.dim), dtype=np.int64), lattice.pairs])
    n_pairs, whole = len(lattice.pairs), 4 * lattice.halves + 1
    # A weight of one is that of a cosine of frequency zero, without the root of two.
    root = np.concatenate([[np.sqrt(0.5)], np.ones(n_pairs)])
    cosines = np.zeros((1 + n_pairs, 1 + n_pairs))
    sines, mixed = np.zeros_like(cosines), np.zeros_like(cosines)
    cosines[:] = own[: n_pairs + 1, : n_pairs + 1] * np.outer(root, root)
    sines[1:, 1:] = own[n_pairs + 1 :, n_pairs + 1 :]
    mixed[:, 1:] = own[: n_pairs + 1, n_pairs + 1 :] * root[:, None]
    strides = np.append(np.cumprod(whole[::-1])[::-1][1:], 1)
    middle = int((2 * lattice.halves * strides).sum())
    places = j @ strides
    size = int(np.prod(whole))
    found = np.zeros(size, dtype=complex)
    # 2 cos cos = cos less + cos more, 2 sin sin = cos less - cos more, and, twice for both orders,
    # 2 cos_j sin_k = sin(j + k) - sin(j - k), whose coefficients are imaginary.
    for sign, real, imaginary in (
        (-1, cosines + sines, -2 * mixed),
        (1, cosines - sines, 2 * mixed),
    ):
        at = middle + places[:, None] + sign * places
        values = np.bincount(at.ravel(), real.ravel(), size) + 0j
        values -= 1j * np.bincount(at.ravel(), imaginary.ravel(), size)
        found += 0.5 * (values + np.conj(values[::-1]))
    last = int(lattice.halves[-1])
    return found.reshape(whole)[..., 2 * last :]


def _sampled_moments(
    lattice: Lattice, deviations: FloatArray
) -> tuple[Complex, Complex, FloatArray]:
    """The same as mean squares and products of draws (M + p, P) of the weights' deviations."""
    n, n_draws = lattice.n_waves, deviations.shape[1]
    grid = tuple(fft.next_fast_len(4 * int(m) + 1, real=True) for m in lattice.halves)
    squares = np.zeros(grid)
    places = np.ix_(*wave_places(lattice.halves, grid))
    for draw in range(n_draws):
        whole = np.zeros((*grid[:-1], grid[-1] // 2 + 1), dtype=complex)
        whole[places] = lattice.coefficients(deviations[:n, draw : draw + 1])[0]
        squares += np.square(fft.irfftn(whole, grid, norm="forward"))
    spectrum = fft.rfftn(squares / n_draws, norm="forward")
    spread = spectrum[np.ix_(*wave_places(2 * lattice.halves, grid))]
    trend = deviations[n:]
    cross = _no_cross(lattice)
    if len(trend):
        cross = lattice.coefficients(deviations[:n] @ trend.T / n_draws)
    return spread, cross, trend @ trend.T / n_draws


def boxed(
    coefficients: Complex, lattice: Lattice, sides: FloatArray, whole: NDArray[np.int64]
) -> Complex:
    """Coefficients (..., *shape) of averages over boxes of some sides (d,), by `sinc` of each wave.

    `whole` are the half-widths of the coefficients' own frequencies.
    """
    found = coefficients
    n_axes = lattice.dim
    for axis, (half, side) in enumerate(zip(whole, sides * lattice.steps, strict=True)):
        first = 0 if axis == n_axes - 1 else -half
        factor = np.sinc(np.arange(first, half + 1) * side)
        found = found * factor.reshape(-1, *(1,) * (n_axes - 1 - axis))
    return found
