"""Priors whose covariances between points can be computed as matrices: views alone, no solver.

Loadings of prior functions of tables: `g(x) = a(x)'z`, z standard normal. A stationary part has
Fourier features of its spectrum for loadings, whose products estimate its kernel; features and
trend have their own, which are exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.dense_system import CovarianceSystem
from coupledgp.core.process import Data, Points
from coupledgp.core.units import Units
from coupledgp.errors import ModelFileError
from coupledgp.expressions import AxisTerm, Kernel, Sum
from coupledgp.features.registry import make_features
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.kernels.row_covariance import RowColumns, RowCovariance
from coupledgp.linalg.matrices import (
    Matrix,
)
from coupledgp.linalg.system import SystemOptions
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, Spectrum
from coupledgp.tables.local_prior import (
    LARGEST_LOGARITHM,
    LocalHyperparameters,
    LocalPrior,
)
from coupledgp.tables.standardized import Box, Tables, standardised

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


@dataclass(frozen=True, eq=False)
class KernelHyperparameters:
    """Hyperparameters of an expression, variances in units of the normalised targets.

    Attributes
    ----------
    lengthscale : FloatArray (D,)
        Shortest lengthscale of any kernel in each column, in units of the inputs.
    outputscale : float
        Prior variance of f at the means of the columns.
    noise : float
        Variance of the noise.
    parameters : dict
        Each hyperparameter of the expression by its name, for standardised columns.
    """

    lengthscale: FloatArray
    outputscale: float
    noise: float
    parameters: dict[str, float]


@stored
@dataclass(frozen=True, eq=False)
class KernelPrior(DensePrior):
    """`f ~ GP(0, K)` with an expression K of kernels of standardised columns.

    Attributes
    ----------
    kernel : Kernel
        The expression; each term of a sum has a variance of its own.
    vector : FloatArray (1 + q,)
        Logarithms of the noise variance and of the kernel's hyperparameters.
    columns : RowColumns
        The encoded columns.
    center, spread : FloatArray (D,)
        Mean and spread of each column, by which rows are standardised.
    box : Box or None
        Range of the standardised rows that it is given, by which trends are bounded.
    """

    kernel: Kernel
    vector: FloatArray
    columns: RowColumns
    center: FloatArray
    spread: FloatArray
    box: Box | None = None

    def read_back(self) -> KernelPrior:
        """The prior of a file.

        Raises
        ------
        ModelFileError
            Columns or hyperparameters are not those of the expression.
        """
        columns = self.columns
        labels, names = len(columns.labels), len(columns.names)
        check_shapes(columns, sources=(labels,), groups=("D",))
        check_range(columns, 0, names - 1, "sources")
        check_range(columns, 0, labels - 1, "groups")
        dim = columns.groups.shape
        check_shapes(self, center=dim, spread=dim)
        check_range(self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "spread")
        own = covariance_of(self.kernel, columns, self.center, self.spread)
        check_shapes(self, vector=(1 + len(own.parameters),))
        check_range(self, -LARGEST_LOGARITHM, LARGEST_LOGARITHM, "vector")
        if self.box is None:
            raise ModelFileError("box: expected the range of the rows, got none")
        check_shapes(self.box, low=dim, high=dim)
        return self

    def check_points(self, points: Points) -> None:
        check_shapes(self, center=points.shape[1:])

    def bounded_by(self, points: Points) -> KernelPrior:
        """The prior whose trends are bounded by the range of rows (n, D)."""
        return replace(self, box=Box.of(self.standardised(points)))

    @cached_property
    def rows(self) -> RowCovariance:
        """The covariance of standardised rows."""
        return covariance_of(self.kernel, self.columns, self.center, self.spread, self.box)

    @property
    def theta(self) -> FloatArray:
        """Hyperparameters (q,) of the kernel: logarithms."""
        return self.vector[1:]

    @cached_property
    def hyperparameters(self) -> KernelHyperparameters:
        """Hyperparameters in units of the inputs."""
        middle = np.zeros((1, len(self.center)))
        return KernelHyperparameters(
            self.rows.lengthscales(self.theta) * self.spread,
            float(self.rows.diagonal(middle, self.theta)[0]),
            math.exp(self.vector[0]),
            dict(zip(self.rows.names, np.exp(self.theta).tolist(), strict=True)),
        )

    def standardised(self, points: Points) -> FloatArray:
        """Standardised rows (n, D)."""
        return standardised(points, self.center, self.spread)

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, D) and b (p, D)."""
        inputs = self.standardised(a)
        others = inputs if a is b else self.standardised(b)
        return self.rows.gram(inputs, others, self.theta)

    def variance(self, points: Points) -> FloatArray:
        return self.rows.diagonal(self.standardised(points), self.theta)

    def axes(self) -> tuple[AxisTerm, ...] | None:
        """The kernel as a polynomial in kernels of single standardised columns, if it is one."""
        return self.rows.axes(self.theta)

    def extent(self, points: Points) -> float:
        scale = self.rows.lengthscales(self.theta)
        return float(np.abs(self.standardised(points) / scale).max(initial=0.0))

    def with_noise(self, noise: float) -> KernelPrior:
        """The prior with another noise variance, in normalised units."""
        return replace(self, vector=np.append(math.log(noise), self.theta))


def covariance_of(
    kernel: Kernel | str,
    columns: RowColumns,
    center: FloatArray,
    spread: FloatArray,
    box: Box | None = None,
) -> RowCovariance:
    """The covariance of a model: of an expression with a variance for each of its terms.

    A kernel that is no sum is a sum of one term.
    """
    parsed = parse_kernel(kernel)
    whole = parsed if isinstance(parsed, Sum) else Sum((parsed,))
    ends = None if box is None else np.array(box.wide)
    return RowCovariance(whole, columns, center, spread, ends)


Process = TypeVar("Process")


@stored
@dataclass(frozen=True, eq=False)
class AdditivePrior(DensePrior):
    """The prior of a local model with the kernel that its features estimate.

    Attributes
    ----------
    parts : LocalPrior
        The parts of the sum.
    tables : Tables or None
        Tables that several priors share, see `sharing_tables`.
    box : Box or None
        Range of the standardised rows that it is given, by which its trend is bounded.
    """

    parts: LocalPrior
    tables: Tables | None = field(default=None, metadata={"stored": False})
    box: Box | None = None

    def read_back(self) -> AdditivePrior:
        """The prior of a file, which has the range of its rows."""
        if self.box is None:
            raise ModelFileError("box: expected the range of the rows, got none")
        check_shapes(self.box, low=self.parts.center.shape, high=self.parts.center.shape)
        return self

    def check_points(self, points: Points) -> None:
        check_shapes(self.parts, center=points.shape[1:])

    def bounded_by(self, points: Points) -> AdditivePrior:
        """The prior whose trend is bounded by the range of rows (n, d)."""
        return replace(self, box=Box.of(self.parts.standardised(points)))

    @property
    def _own_tables(self) -> Tables:
        return self.tables or Tables(self.parts.center, self.parts.spread, self.box)

    @property
    def hyperparameters(self) -> LocalHyperparameters:
        """Hyperparameters of the parts."""
        return self.parts.hyperparameters

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, d) and b (p, d)."""
        return self.parts.covariance(a, b, self._own_tables)

    def variance(self, points: Points) -> FloatArray:
        return self.parts.variance(points, self._own_tables)

    @property
    def is_rough(self) -> bool:
        return self.parts.is_rough

    def loadings(self, points: Points, rng: np.random.Generator) -> Loadings | None:
        spectrum = self.parts.structure.spectrum
        if spectrum is not None and spectrum.metric != Metric.L2:
            return None
        return parts_loadings(self.parts, self._own_tables.box, rng)

    def extent(self, points: Points) -> float:
        """Largest coordinate of rows (n, d), in lengthscales of the local part."""
        tables = self.tables or Tables(self.parts.center, self.parts.spread)
        return self.parts.extent_of(tables.standardised(points))


def sharing_tables(processes: Sequence[Any]) -> Sequence[Any]:
    """The processes with one store of tables for sums of parts that standardise columns alike.

    Their answers do not change. The shared store lives as long as the processes do.
    """
    priors = [getattr(process, "dense_prior", None) for process in processes]
    known = [prior for prior in priors if isinstance(prior, AdditivePrior)]
    if not known:
        return processes
    first = known[0]
    for prior in known[1:]:
        if not all(map(np.array_equal, _standardisation(prior), _standardisation(first))):
            return processes
    tables = first._own_tables
    return [
        _with_tables(process, tables) if isinstance(prior, AdditivePrior) else process
        for process, prior in zip(processes, priors, strict=True)
    ]


def _with_tables(process: Any, tables: Tables) -> Any:
    """The process with other tables, and with its own factor, which stays known to it."""
    shared = replace(process, dense_prior=replace(process.dense_prior, tables=tables))
    vars(shared)["row_inverse"] = process.row_inverse
    return shared


def _standardisation(prior: AdditivePrior) -> tuple[FloatArray, ...]:
    """Centers and spreads (d,) of the columns, and the ends (d,) of the prior's box, if any."""
    parts, box = prior.parts, prior.box
    return (parts.center, parts.spread, *(() if box is None else (box.low, box.high)))
