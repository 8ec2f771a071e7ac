"""Priors whose covariances between points can be computed as matrices, and their processes.

Loadings of prior functions of tables: `g(x) = a(x)'z`, z standard normal.

A stationary part has Fourier features of its spectrum for loadings, whose products estimate its
kernel; features and trend have their own, which are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import AxisTerm
from coupledgp.features.registry import make_features
from coupledgp.gp.inverse_covariance import IteratedInverse
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.normalized_process import NormalizedProcess
from coupledgp.gp.protocol import Data, Points
from coupledgp.gp.tables import Box
from coupledgp.gp.units import Units
from coupledgp.ground.devices import CPU, check_device_memory
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import tell
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.dense.system import CovarianceSystem
from coupledgp.inference.evidence.problem import log_evidence
from coupledgp.linalg.low_rank import dense_error, warn_if_imprecise
from coupledgp.linalg.matrices import (
    Matrix,
    add_to_diagonal,
    cholesky,
    cholesky_solve,
    library,
    on_device,
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


# Name of `K + s R` in errors.
NOISY_GRAM = "K + noise I"
# Number of (n, n) matrices of float64 in memory at once while the evidence is optimised.
MATRICES_AT_ONCE = 6
# Rows up to which equations are solved by iteration: five minutes for the mean.
MOST_ITERATED = 50_000
# Points whose variances are solved for at once, and steps that a solve takes at most, as a rule.
SOLVED_AT_ONCE, USUAL_STEPS = 256, 40
# Entries of the covariance that are formed at once: 64 MiB, and a few temporaries of the size.
BLOCK_ENTRIES = 2**23
# CPU seconds an entry of the kernel takes in a product (`benchmarks/performance/iterated.py`).
SECONDS_OF_ENTRY = 3e-9
# The same on a GPU, whose solvers have working memory beside their results.
MATRICES_ON_DEVICE = 8


class DensePrior(ABC):
    """A prior whose covariances between points can be computed as matrices.

    Attributes
    ----------
    hyperparameters : Any
        Hyperparameters; the output scale and the noise variance are in normalised units.
    device : torch.device
        Where matrices of a process are.
    solver : SystemOptions or None
        How equations in the covariance of rows are solved by iteration; None: by a dense factor.
    """

    hyperparameters: Any
    device: torch.device = CPU
    solver: SystemOptions | None = None

    @abstractmethod
    def check_points(self, points: Points) -> None:
        """Refuse rows of a file that have other columns than the prior; ModelFileError."""

    @property
    @abstractmethod
    def process_class(self) -> type[Any]:
        """Class of the process given data."""

    @abstractmethod
    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between points a (n, ...) and b (p, ...)."""

    def matrix(self, a: Points, b: Points) -> Matrix:
        """The prior covariance (n, p) of f on the prior's device."""
        return self.covariance(a, b)

    def on(self, device: torch.device) -> DensePrior:
        """The prior on a device; itself where it computes on the CPU alone."""
        return self

    def solved_by(self, solver: SystemOptions | None) -> DensePrior:
        """The prior whose processes are solved for by iteration; None: by a factor.

        Raises
        ------
        InvalidInputError
            The prior has a dense solver only.
        """
        own: Any = self
        if not is_dataclass(self) or "solver" not in {field.name for field in fields(self)}:
            raise InvalidInputError(
                f"solver: expected 'dense' for a {type(self).__name__}, got 'iterative'"
            )
        found: DensePrior = replace(own, solver=solver)
        return found

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

    def given(
        self,
        data: Data,
        units: Units,
        normalize: bool,
        warns: bool = True,
    ) -> Any:
        """Condition on data, whose rows bound trends; return the process, of `process_class`.

        With `warns` there is a PrecisionWarning where rounding shows. A prior with a `solver`
        gives a process whose evidence is estimated when it is asked for.

        Raises
        ------
        InvalidInputError
            The matrices do not fit in this machine's memory, or rows are too many to iterate.
        NumericalError
            The covariance is not positive definite to working precision.
        """
        prior = self.bounded_by(data.points)
        if prior.solver is not None:
            return prior._iterated(prior.solver, data, units, normalize)
        return prior._factored(data, units, normalize, warns)

    def _factored(self, data: Data, units: Units, normalize: bool, warns: bool) -> Any:
        """Condition on data by a Cholesky factor."""
        gram = self.noisy_gram(data)
        targets = on_device(units.normalized(data.targets), self.device)
        factor = cholesky(gram, NOISY_GRAM)
        alpha = cholesky_solve(targets, factor)
        noise, weights = self.noise, data.weights
        if warns:
            least = noise if weights is None else noise * float(weights.relative_noise.min())
            warn_if_imprecise(
                dense_error(gram, alpha, targets, least, self.extent(data.points)),
                f"noise: {noise:.1g} of the variance of y",
                "raise the noise, or use SparseSpectrumGPRegressor",
            )
        quad = float((targets * alpha).sum())
        logdet = 2 * float(library(factor).log(factor.diagonal()).sum())
        evidence = self.evidence_of(quad, logdet, data, units)
        return self.process_class(self, units, normalize, data, alpha, evidence, factor)

    def evidence_of(self, quad: float, logdet: float, data: Data, units: Units) -> float:
        """Log evidence of y, from `y' A^-1 y` of normalised targets and from `log det A`."""
        n_outputs = units.n_outputs
        evidence = log_evidence(quad, logdet, 1.0, len(data), n_outputs)
        n_rows: float = len(data)
        if data.weights is not None:
            evidence += n_outputs * data.weights.log_repetition(self.noise)
            n_rows = data.weights.n_counted
        return evidence - units.log_jacobian(n_rows)

    def _iterated(
        self,
        solver: SystemOptions,
        data: Data,
        units: Units,
        normalize: bool,
    ) -> Any:
        """Condition on data by one solve for the targets."""
        n_rows = len(data)
        if n_rows > MOST_ITERATED:
            raise InvalidInputError(
                f"X: expected at most {MOST_ITERATED} rows for solver='iterative', whose time "
                f"grows with their square (about {iteration_seconds(n_rows):.0f} CPU s for the "
                f"mean alone), got {n_rows}; use the model itself, or a subset of rows"
            )
        tell(f"{n_rows} rows by iteration: about {iteration_seconds(n_rows):.0f} CPU s")
        targets = units.normalized(data.targets)
        system = self.system(data, targets, solver)
        check_memory(system.bytes_needed(SOLVED_AT_ONCE), f"X: {n_rows} rows", "use fewer rows")
        alpha = system.solve(targets, solver.tolerance).values
        found = self.process_class(self, units, normalize, data, alpha, None)
        # Solves of predictions start from the same preconditioner.
        found.__dict__["row_inverse"] = IteratedInverse(system, alpha)
        return found

    def noisy_gram(self, data: Data) -> Matrix:
        """Covariance `K + s R` (n, n) of observations, normalised units.

        Raises
        ------
        MemoryLimitError
            The matrix and its factor do not fit in this machine's memory.
        """
        check_dense_size(len(data), MATRICES_AT_ONCE, self.device)
        gram = self.matrix(data.points, data.points)
        noise, weights = self.noise, data.weights
        more = noise if weights is None else on_device(noise * weights.relative_noise, self.device)
        add_to_diagonal(gram, more)
        return gram


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


def iteration_seconds(n_rows: int) -> float:
    """Forecast of the CPU seconds of a solve by conjugate gradients for few right-hand sides."""
    return SECONDS_OF_ENTRY * USUAL_STEPS * float(n_rows) ** 2


class ExactByPrior(NormalizedProcess):
    """A process whose exact counterpart is a prior with covariances, given the same data."""

    normalize: bool

    @property
    @abstractmethod
    def exact_prior(self) -> DensePrior:
        """The prior of the exact process."""

    def exact(self) -> Any:
        return self.exact_prior.given(self.data, self.units, self.normalize)

    def exact_by(self, solver: SystemOptions) -> Any:
        prior = self.exact_prior.solved_by(solver)
        return prior.given(self.data, self.units, self.normalize)

    def exact_problem(self) -> DenseProblem:
        return self.exact_prior.problem(self.data, self.units)


def check_dense_size(n_rows: int, n_matrices: int, device: torch.device = CPU) -> None:
    """Refuse a dense computation that does not fit in the memory of the device or of the CPU."""
    check_device_memory(
        device,
        (n_matrices if device == CPU else MATRICES_ON_DEVICE) * 8 * n_rows**2,
        f"X: {n_rows} rows of the exact GP",
        "use SparseSpectrumGPRegressor, or a subset of rows "
        "(conditioned_on(X_subset, y_subset).exact_twin())",
    )
