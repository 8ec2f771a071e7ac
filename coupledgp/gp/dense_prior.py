"""Priors whose covariances between points can be computed as matrices, and their processes.

Loadings of prior functions of tables: `g(x) = a(x)'z`, z standard normal.

A stationary part has Fourier features of its spectrum for loadings, whose products estimate its
kernel; features and trend have their own, which are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.expressions import AxisTerm
from coupledgp.features.registry import make_features
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.protocol import Data, Points
from coupledgp.gp.tables import Box
from coupledgp.gp.units import Units
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.dense.system import CovarianceSystem
from coupledgp.linalg.matrices import (
    Matrix,
)
from coupledgp.linalg.system import SystemOptions
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, Spectrum

# Loadings (p, M) of points (p, ...).
Loadings: TypeAlias = Callable[[Points], FloatArray]
# Frequencies of a stationary part. Scrambled Sobol points had the least error of kernels from one
# to nine columns, and no larger one than others at thirty.
PRIOR_FREQUENCIES = 2048
# Columns above which orthogonal frequencies are drawn, since Sobol points have bounded dimensions.
MOST_SOBOL = 1000
# Points at which deviations of drawn functions are compared with those of the law.
COMPARED = 64


def spectral_loadings(
    spectrum: Spectrum,
    variance: float,
    center: FloatArray | float,
    lengthscale: FloatArray,
    rng: np.random.Generator,
) -> Loadings:
    """Loadings `sqrt(v) phi((x - c) / l)` (p, 2 m), of products near `v kappa(|x - x'| / l)`."""
    dim = lengthscale.size
    coupling = "sobol" if dim <= MOST_SOBOL else "orthogonal+stratified"
    made = make_features("fourier", dim, PRIOR_FREQUENCIES, coupling, spectrum, rng)

    def loadings(points: Points) -> FloatArray:
        found: FloatArray = made(torch.as_tensor((points - center) / lengthscale)).numpy()
        return np.sqrt(variance) * found

    return loadings


def local_loadings(parts: LocalPrior, rng: np.random.Generator) -> Loadings:
    """Loadings of the local part, of standardised rows."""
    assert parts.structure.spectrum is not None
    return spectral_loadings(
        parts.structure.spectrum, parts.local_outputscale, 0.0, parts.local_lengthscale, rng
    )


def parts_loadings(parts: LocalPrior, box: Box | None, rng: np.random.Generator) -> Loadings:
    """Loadings of all parts of rows (p, d), of products near `LocalPrior.covariance`."""
    structure = parts.structure
    stationary: list[Loadings] = []
    if structure.spectrum is not None:
        stationary.append(local_loadings(parts, rng))
    if structure.frequencies is not None and not structure.fits_frequencies:
        stationary.append(
            spectral_loadings(
                GaussianSpectrum(), parts.feature_outputscale, 0.0, parts.feature_lengthscale, rng
            )
        )

    def loadings(points: Points) -> FloatArray:
        inputs = parts.standardised(points)
        found = [part(inputs) for part in stationary]
        if structure.fits_frequencies:
            found.append(parts.features(inputs, np.ones(len(inputs))).numpy())
        elif structure.trend != "none":
            root = np.sqrt(float(parts.scales.trend))
            found.append(np.full((len(inputs), 1), root))
            if structure.trend == "linear":
                inside = inputs if box is None else box.bounded(inputs)
                found += [root * inside, root * (inputs - inside)]
        return np.hstack(found)

    return loadings


def between(points: Points, rng: np.random.Generator) -> Points:
    """Middles (`COMPARED`, d) between random pairs of rows (n, d)."""
    pairs = rng.integers(0, len(points), (2, COMPARED))
    middle: Points = 0.5 * (points[pairs[0]] + points[pairs[1]])
    return middle


def deviation_error(drawn: FloatArray, exact: FloatArray) -> float:
    """Root mean square of `sd / sd' - 1` of variances (p,) of draws and of their law."""
    known = np.sqrt(exact) > 0
    if not known.any():
        return 0.0
    ratio = np.sqrt(drawn[known] / exact[known])
    return float(np.sqrt(np.mean(np.square(ratio - 1.0))))


def stacked(loadings: Loadings, points: Points, blocks: Sequence[slice]) -> FloatArray:
    """Loadings (n, M) of rows (n, d), in blocks."""
    return np.concatenate([loadings(points[rows]) for rows in blocks])


# Entries of the covariance that are formed at once: 64 MiB, and a few temporaries of the size.
BLOCK_ENTRIES = 2**23


class DensePrior(ABC):
    """A prior whose covariances between points can be computed as matrices.

    Attributes
    ----------
    hyperparameters : Any
        Hyperparameters; the output scale and the noise variance are in normalised units.
    takes_devices : bool
        Whether matrices may be on a device; else they are on the CPU.
    """

    hyperparameters: Any
    takes_devices: ClassVar[bool] = False

    def check_points(self, points: Points) -> None:  # noqa: B027
        """Refuse rows of a file that have other columns than the prior; ModelFileError."""

    @abstractmethod
    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between points a (n, ...) and b (p, ...)."""

    def matrix(self, a: Points, b: Points, device: torch.device = CPU) -> Matrix:
        """The prior covariance (n, p) of f on a device."""
        return self.covariance(a, b)

    def bounded_by(self, points: Points) -> DensePrior:
        """The prior whose trends are bounded by the range of rows (n, ...); itself without any."""
        return self

    @abstractmethod
    def variance(self, points: Points) -> FloatArray:
        """Prior variance (p,) of f at points, normalised units."""

    def loadings(self, points: Points, rng: np.random.Generator) -> Loadings | None:
        """Loadings of functions with this prior near rows (n, d), or None where none are known.

        A spectrum has Fourier features, whose products estimate the covariance.
        """
        return None

    @property
    def is_rough(self) -> bool:
        """Whether paths of f are known to have no derivatives."""
        return False

    def slopes(self, points: Points, rows: Points) -> tuple[FloatArray, FloatArray] | None:
        """Derivatives (D, p, n) of covariances between points and rows, and prior variances (D,).

        The variances are those of partial derivatives of f. None where no closed form is known.
        """
        return None

    def axes(self) -> tuple[AxisTerm, ...] | None:
        """The covariance as terms of kernels of single columns of `standardised` points, or None.

        Effects of columns have closed forms where there are such terms.
        """
        return None

    def standardised(self, points: Points) -> Points:
        """Points (p, d) as the terms of `axes` take them."""
        return points

    def problem(self, data: Data, units: Units) -> DenseProblem:
        """State prior and data as a problem, also where its law is too large to compute."""
        return DenseProblem(self.bounded_by(data.points), data, units)

    def system(self, data: Data, targets: FloatArray, options: SystemOptions) -> CovarianceSystem:
        """Equations in the covariance of data, with normalised targets (n, k)."""
        return BlockSystem(self, data, targets, options)

    def extent(self, points: Points) -> float:
        """Largest coordinate of points, in lengthscales, from where they are centred.

        Distances are rounded relative to it. Zero for a prior that knows no coordinates.
        """
        return 0.0

    @property
    def noise(self) -> float:
        """Noise variance, normalised units."""
        return float(self.hyperparameters.noise)


@dataclass(frozen=True, eq=False)
class DenseProblem:
    """A prior and data, whose law may be solved for without a matrix of all rows.

    Attributes
    ----------
    prior : DensePrior
        The prior, its trends bounded by the rows.
    data : Data
        Observations.
    units : Units
        Units of the targets.
    """

    prior: DensePrior
    data: Data
    units: Units

    @cached_property
    def targets(self) -> FloatArray:
        """Normalised targets (n, k)."""
        return self.units.normalized(self.data.targets)

    @property
    def offset(self) -> FloatArray:
        """Offset (k,) of the units of y."""
        return self.units.offset

    @property
    def scale(self) -> FloatArray:
        """Scale (k,) of the units of y."""
        return self.units.scale

    def system(self, options: SystemOptions) -> CovarianceSystem:
        """Return the equations in the covariance of the data."""
        return self.prior.system(self.data, self.targets, options)


class BlockSystem(CovarianceSystem):
    """`A = K + s diag(r)` with covariances formed anew in blocks for each product.

    Parameters
    ----------
    own
        The prior.
    data
        Observations.
    targets
        Normalised targets (n, k).
    options
        Preconditioner; the precision is always double.
    """

    def __init__(
        self, own: DensePrior, data: Data, targets: FloatArray, options: SystemOptions
    ) -> None:
        double = replace(options, dtype="float64")
        super().__init__(targets, own.noise, data.relative_noise, double)
        self._own, self._points = own, data.points

    def prior(self, points: Points) -> FloatArray:
        return self._own.covariance(points, points)

    def cross(self, points: Points) -> FloatArray:
        return self._own.covariance(self._points, points)

    def prior_variances(self) -> FloatArray:
        return self._own.variance(self._points)

    def prior_columns(self, pivots: NDArray[np.int64]) -> FloatArray:
        return self.cross(self._points[pivots])

    def product(self, V: Tensor) -> Tensor:
        out, weighted = self.noise * V, self.root * V
        step = max(BLOCK_ENTRIES // self.n_rows, 16)
        for start in range(0, self.n_rows, step):
            own = slice(start, start + step)
            block = torch.as_tensor(self._own.covariance(self._points[own], self._points))
            out[own] += self.root[own] * (block @ weighted)
        return out

    def bytes_needed(self, n_columns: int) -> float:
        return super().bytes_needed(n_columns) + 4 * 8 * max(BLOCK_ENTRIES, 16 * self.n_rows)
