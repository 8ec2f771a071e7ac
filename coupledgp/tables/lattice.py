"""Frequencies on a lattice, and the weights of their waves as real vectors.

With steps `h_a` and half-widths `m_a` the lattice has the M whole vectors j with `|j_a| <= m_a`:

    f(x) = sum_j D_j w_j exp(2 pi i h j.(x - c)) ,  w_-j = conj(w_j) ,  D_j^2 = v S(h j) prod h_a ,

S the spectral density of the kernel of variance one for ordinary frequencies. With `w_j = (a_j - i
b_j) / sqrt 2` for one j of each pair (j, -j) this is f = D_0 w_0 + sum_j D_j sqrt 2 (a_j cos + b_j
sin), whose coefficients (w_0, a, b) are M independent standard normal numbers: vectors are these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special
from scipy.optimize import brentq

from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.spreading import PlaneWaves, half_shape, wave_places

Complex = NDArray[np.complex128]
# Most columns that can be places: the number of waves is that of one axis to their power.
MOST_AXES = 3
# The reach of a kernel is the distance at which it falls to this.
LEAST_KERNEL = 1e-3
# The period exceeds the box by so many reaches: answers up to half a reach beyond the box do not
# see the repetition of the rows.
PADDING = 1.5
# Waves whose signal in all rows together is below this share of the noise are left out.
LEAST_SIGNAL = 0.1
ROOT2 = float(np.sqrt(2.0))
# Share of the rows beyond the core of a box, on either end of a column.
CORE = 0.02
# Most waves of a lattice, however many rows, and those that any number of rows may have.
MOST_WAVES, FEW_WAVES = 2_000_000, 10_000
# Waves whose equations a Cholesky factor solves in no time, and in some seconds.
FEW_FACTORED, MOST_FACTORED = 1000, 3000
# Variance of the waves beyond them, in units of the noise, up to which conjugate gradients solve
# the equations of more than one wave for two rows; and the signal of each in all rows together,
# for fewer waves.
MOST_VARIANCE, MOST_SIGNAL = 4.0, 2e4
ROOT2 = float(np.sqrt(2.0))
# Share of the rows beyond the core of a box, on either end of a column.
CORE = 0.02
# Most waves of a lattice, however many rows, and those that any number of rows may have.
MOST_WAVES, FEW_WAVES = 2_000_000, 10_000
# Waves whose equations a Cholesky factor solves in no time, and in some seconds.
FEW_FACTORED, MOST_FACTORED = 1000, 3000
# Greatest signal of a wave beyond them, in units of the noise, up to which conjugate gradients
# solve the equations of all waves: of more than one for two rows, and of fewer.
MOST_SIGNAL, WELL_SEEN_SIGNAL = 50.0, 2e4
ROOT2 = float(np.sqrt(2.0))
# Share of the rows beyond the core of a box, on either end of a column.
CORE = 0.02
# Most waves of a lattice, however many rows, and those that any number of rows may have.
MOST_WAVES, FEW_WAVES = 2_000_000, 10_000
# Waves whose equations a Cholesky factor solves, and the greatest signal of a wave beyond them, in
# units of the noise, up to which conjugate gradients solve those of all.
FACTORED_WAVES, MOST_SIGNAL = 3000, 2e4
# Largest share of the variance that a lattice of too few waves may leave out.
MOST_LEFT_OUT = 0.5


class TooManyWavesError(InvalidInputError):
    """A kernel takes a lattice of more waves than are allowed."""


@stored
@dataclass(frozen=True, eq=False)
class PlaceBox:
    """The box that holds the rows.

    Attributes
    ----------
    low, high : FloatArray (d,)
        Its ends, units of the columns.
    core : FloatArray (d,)
        Sides of a box with the density that most rows have: few rows far off do not thin it.
    """

    low: FloatArray
    high: FloatArray
    core: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> Self:
        """The smallest box of rows (n, d)."""
        return cls.within(points.min(axis=0), points.max(axis=0), points)

    @classmethod
    def within(cls, low: FloatArray, high: FloatArray, sample: FloatArray) -> Self:
        """The box with ends (d,), of rows of which some (n, d) stand for all."""
        first, last = np.quantile(sample, [CORE, 1 - CORE], axis=0)
        return cls(low, high, np.minimum((last - first) / (1 - 2 * CORE), high - low))

    @property
    def center(self) -> FloatArray:
        """Its middle (d,)."""
        return self.low + 0.5 * (self.high - self.low)

    @property
    def sides(self) -> FloatArray:
        """Its sides (d,)."""
        return self.high - self.low

    def joined(self, other: PlaceBox) -> PlaceBox:
        """The smallest box that holds both."""
        return PlaceBox(
            np.minimum(self.low, other.low), np.maximum(self.high, other.high),
            np.maximum(self.core, other.core),
        )  # fmt: skip


@stored
@dataclass(frozen=True, eq=False)
class Lattice:
    """The lattice of frequencies.

    Attributes
    ----------
    center : FloatArray (d,)
        Point c from which waves are counted.
    steps : FloatArray (d,)
        Distances h of neighbours, cycles per unit of the columns.
    halves : NDArray[np.int64] (d,)
        Half-widths m.
    """

    center: FloatArray
    steps: FloatArray
    halves: NDArray[np.int64]

    @classmethod
    def for_kernel(
        cls,
        spectrum: Spectrum,
        lengthscale: FloatArray,
        signal: float,
        box: PlaceBox,
        n_rows: float,
        precision: float | None = None,
        most_waves: int | None = None,
    ) -> Self:
        """The lattice that n rows in a box can use, and whose equations can be solved.

        Parameters
        ----------
        spectrum
            Gaussian or Matern kernel.
        lengthscale
            Lengthscales (d,), units of the columns.
        signal
            Ratio v / s of outputscale and noise.
        box
            The box of the rows.
        n_rows
            Number of rows, each as often as it counts.
        precision
            Sum of their counts over their relative noise variances; None: all are one.
        most_waves
            Most waves of the lattice, whose band is narrower where it would have more. There are
            never more than twice the number of rows, within `FEW_WAVES` and `MOST_WAVES`, and no
            more than have a Cholesky factor where conjugate gradients would not converge.

        Raises
        ------
        InvalidInputError
            The spectral density of the kernel is not known in closed form.
        TooManyWavesError
            The lattice would leave out more than `MOST_LEFT_OUT` of the variance.
        """
        dim = len(lengthscale)
        sides = np.maximum(box.sides, 1e-9 * lengthscale)
        period = sides + PADDING * kernel_reach(spectrum) * lengthscale
        # Largest norm of a frequency whose signal in all rows exceeds a share of the noise.
        core = np.maximum(box.core, 1e-9 * lengthscale)
        seen = signal * (n_rows if precision is None else precision)
        level = LEAST_SIGNAL * float(np.prod(core / lengthscale)) / seen
        reach = _band(spectrum, dim, level)
        halves = np.maximum(np.ceil(reach / lengthscale * period), 1).astype(np.int64)
        allowed = int(np.clip(2 * n_rows, FEW_WAVES, MOST_WAVES))
        most_waves = allowed if most_waves is None else min(most_waves, allowed)
        found = cls(box.center, 1 / period, halves).of_at_most(most_waves)
        factored = int(np.clip(n_rows / 2, FEW_FACTORED, MOST_FACTORED))
        if found.n_waves > factored:
            squares = np.square(found.amplitudes(spectrum, lengthscale))
            beyond = -np.partition(-squares, factored)[factored:]
            if found.n_waves > n_rows / 2:
                is_hard = seen / n_rows * beyond.sum() > MOST_VARIANCE
            else:
                is_hard = seen * beyond[0] > MOST_SIGNAL
            if is_hard:
                found = found.of_at_most(factored)
        if (found.halves == halves).all():
            return found
        held = float(np.square(found.amplitudes(spectrum, lengthscale)).sum())
        if held < 1 - MOST_LEFT_OUT:
            raise TooManyWavesError(
                f"kernel: {spectrum} with lengthscales {np.array2string(lengthscale, precision=3)} "
                f"in a box of sides {np.array2string(sides, precision=3)} takes "
                f"{math.prod((2 * halves + 1).tolist())} waves, more than {found.n_waves} for "
                f"{n_rows:.0f} rows; take a smoother kernel, "
                "leave out rows that are far from all others, or use LocalGPRegressor"
            )
        return found

    def of_at_most(self, n_waves: int) -> Self:
        """The lattice, or the inner part of it that has at most so many waves."""
        if self.n_waves <= n_waves:
            return self
        shrink = (n_waves / self.n_waves) ** (1 / self.dim)
        return replace(self, halves=np.maximum((self.halves * shrink).astype(np.int64), 1))

    @property
    def n_waves(self) -> int:
        """Number M of frequencies, that of a vector's entries."""
        return math.prod(2 * int(half) + 1 for half in self.halves)

    @property
    def dim(self) -> int:
        """Number d of columns."""
        return len(self.steps)

    def relative(self, points: FloatArray) -> FloatArray:
        """Rows (n, d) in units of the period, from the centre."""
        return (points - self.center) * self.steps

    @cached_property
    def waves(self) -> PlaneWaves:
        """Transforms between rows and coefficients of the lattice's own frequencies."""
        return PlaneWaves(self.halves)

    @cached_property
    def differences(self) -> PlaneWaves:
        """Transforms between rows and coefficients of differences of two frequencies."""
        return PlaneWaves(2 * self.halves)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return half_shape(self.halves)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """One frequency j (H, d) of each pair (j, -j), in whole steps."""
        axes = [np.arange(-n, n + 1) for n in self.halves[:-1]]
        axes.append(np.arange(self.halves[-1] + 1))
        whole = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dim)
        return whole[self._places]

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Places (H,) of one frequency of each pair in coefficients of one function."""
        size = int(np.prod(self._shape))
        # On the plane of the last axis at zero the order is symmetric about the middle.
        plane = np.arange(0, size, self._shape[-1])
        kept = np.ones(size, dtype=bool)
        kept[plane[: len(plane) // 2 + 1]] = False
        return np.flatnonzero(kept)

    @cached_property
    def _mirrored(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Places on the plane of the last axis at zero: one of each pair, the other, the middle."""
        plane = np.arange(0, int(np.prod(self._shape)), self._shape[-1])
        middle = len(plane) // 2
        return plane[middle + 1 :], plane[:middle][::-1], int(plane[middle])

    def coefficients(self, vectors: FloatArray) -> Complex:
        """Coefficients (k, *shape) of the functions with weights (M, k)."""
        n_pairs = (self.n_waves - 1) // 2
        found = np.zeros((vectors.shape[1], int(np.prod(self._shape))), dtype=complex)
        own = (vectors[1 : n_pairs + 1] - 1j * vectors[n_pairs + 1 :]) / ROOT2
        found[:, self._places] = own.T
        one, other, middle = self._mirrored
        found[:, other] = np.conj(found[:, one])
        found[:, middle] = vectors[0]
        return found.reshape(-1, *self._shape)

    def vectors(self, coefficients: Complex) -> FloatArray:
        """Products (M, k) with the waves, from sums (k, *shape) of `exp(-2 pi i h j.(x - c))`."""
        flat = coefficients.reshape(len(coefficients), int(np.prod(self._shape)))
        own = flat[:, self._places].T * ROOT2
        middle = self._mirrored[2]
        return np.vstack([flat[:, middle].real[None], own.real, -own.imag])

    def of_pairs(self, values: FloatArray, at_zero: FloatArray) -> FloatArray:
        """Vectors (M, ...) that have the values (H, ...) at both waves of each pair."""
        return np.concatenate([np.asarray(at_zero)[None], values, values])

    def amplitudes(self, spectrum: Spectrum, lengthscale: FloatArray) -> FloatArray:
        """`D_j / sqrt(v)` (M,) of all waves."""
        squares = np.square(2 * np.pi * self.pairs * self.steps * lengthscale).sum(axis=1)
        volume = float(np.log(lengthscale * self.steps).sum())
        logs = log_spectral_density(spectrum, np.concatenate([[0.0], squares]), self.dim) + volume
        whole = np.exp(0.5 * logs)
        return self.of_pairs(whole[1:], whole[0])

    def log_slopes(self, spectrum: Spectrum, lengthscale: FloatArray) -> FloatArray:
        """Derivatives (d, M) of log D in the logarithm of the lengthscale of each column."""
        own = np.square(2 * np.pi * self.pairs * self.steps * lengthscale)
        smoothness = _smoothness(spectrum)
        if np.isinf(smoothness):
            slopes = 0.5 * (1.0 - own)
        else:
            whole = 1.0 + own.sum(axis=1, keepdims=True) / (2 * smoothness)
            slopes = 0.5 - (smoothness + self.dim / 2) * own / (2 * smoothness * whole)
        return np.stack([self.of_pairs(slope, np.array(0.5)) for slope in slopes.T])

    def multiplier(self, sums: Complex) -> FloatArray:
        """Values (N_1, ..., N_d) by which the product with the Toeplitz matrix multiplies.

        Parameters
        ----------
        sums
            Sums (*shape) of waves of all differences of two frequencies over the rows.
        """
        whole = np.zeros((*self._grid[:-1], self._grid[-1] // 2 + 1), dtype=complex)
        whole[np.ix_(*wave_places(2 * self.halves, self._grid))] = sums
        return np.asarray(fft.irfftn(whole, self._grid, norm="forward"))

    def convolved(self, multiplier: FloatArray, vectors: FloatArray) -> FloatArray:
        """Products (M, k) of the Toeplitz matrix of a `multiplier` with vectors (M, k).

        One column after the other, whose transforms stay near the processor.
        """
        places: Any = np.ix_(*wave_places(self.halves, self._grid))
        shape = (*self._grid[:-1], self._grid[-1] // 2 + 1)
        products = np.empty_like(vectors)
        for column in range(vectors.shape[1]):
            own = slice(column, column + 1)
            whole = np.zeros(shape, dtype=complex)
            whole[places] = self.coefficients(vectors[:, own])[0]
            values = fft.irfftn(whole, self._grid, norm="forward", overwrite_x=True)
            values *= multiplier
            found = fft.rfftn(values, norm="forward", overwrite_x=True)
            products[:, own] = self.vectors(found[places][None])
        return products

    @cached_property
    def _grid(self) -> tuple[int, ...]:
        """Cells of discrete transforms on which products with a Toeplitz matrix do not wrap."""
        return tuple(fft.next_fast_len(4 * int(n) + 1, real=True) for n in self.halves)

    def features(self, relative: FloatArray) -> FloatArray:
        """Features (n, M) at rows (n, d) in units of the period, from the centre.

        They are one, then `sqrt 2 cos` and `sqrt 2 sin` of each pair.
        """
        phase = 2 * np.pi * relative @ self.pairs.T
        return np.hstack(
            [np.ones((len(relative), 1)), ROOT2 * np.cos(phase), ROOT2 * np.sin(phase)]
        )


def _smoothness(spectrum: Spectrum) -> float:
    if spectrum.smoothness is None or spectrum.metric is not Metric.L2:
        raise InvalidInputError(
            "kernel: expected a Gaussian or Matern kernel, whose spectral density is known in "
            f"closed form, got {spectrum}"
        )
    return spectrum.smoothness


def log_spectral_density(spectrum: Spectrum, squares: FloatArray, dim: int) -> FloatArray:
    """Log spectral density for ordinary frequencies f, lengthscale one, at `q = (2 pi f)^2`.

    Gaussian: `d/2 log 2 pi - q / 2`. Matern: `log Gamma(nu + d/2) - log Gamma(nu) + d/2 log(2 pi /
    nu) - (nu + d/2) log(1 + q / (2 nu))`. Its integral over all frequencies is one.
    """
    nu = _smoothness(spectrum)
    if np.isinf(nu):
        return 0.5 * dim * np.log(2 * np.pi) - 0.5 * squares
    level = special.gammaln(nu + dim / 2) - special.gammaln(nu) + 0.5 * dim * np.log(2 * np.pi / nu)
    return np.asarray(level - (nu + dim / 2) * np.log1p(squares / (2 * nu)))


def kernel_reach(spectrum: Spectrum) -> float:
    """Distance in lengthscales at which the kernel is `LEAST_KERNEL`."""
    return float(brentq(lambda r: float(spectrum.kernel(r)) - LEAST_KERNEL, 1e-6, 1e4))


def _band(spectrum: Spectrum, dim: int, level: float) -> float:
    """Largest frequency, lengthscale one, at which the spectral density is at least `level`."""
    nu = _smoothness(spectrum)
    excess = float(log_spectral_density(spectrum, np.zeros(()), dim) - np.log(level))
    if excess <= 0:
        return 0.0
    square = 2 * excess if np.isinf(nu) else 2 * nu * np.expm1(excess / (nu + dim / 2))
    return float(np.sqrt(square) / (2 * np.pi))
