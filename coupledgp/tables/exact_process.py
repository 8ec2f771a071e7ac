"""The exact Gaussian process of a table: by a Cholesky factor, or by iteration in O(n) memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from coupledgp.core.dense_evidence import in_lengthscales
from coupledgp.core.dense_system import CovarianceSystem, StationarySystem
from coupledgp.core.drawn_functions import DrawnFunctions, Gradient, MatheronFunctions, row_blocks
from coupledgp.core.inverse_covariance import FactoredInverse, InverseCovariance, IteratedInverse
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.problem import (
    Hyperparameters,
    distances_on,
    kernel_of,
    log_evidence,
)
from coupledgp.core.process import (
    Data,
    GaussianProcess,
    Points,
    Want,
)
from coupledgp.core.sites import DenseRows
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.expressions import AxisTerm, Factor
from coupledgp.ground.codec import check_shapes, stored
from coupledgp.ground.devices import CPU, check_device_memory, parse_device
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import tell
from coupledgp.ground.tensors import torch
from coupledgp.linalg.distances import scaled_distances
from coupledgp.linalg.low_rank import dense_error, warn_if_imprecise
from coupledgp.linalg.matrices import (
    Matrix,
    add_to_diagonal,
    as_numpy,
    beside,
    cholesky,
    cholesky_solve,
    library,
    on_device,
)
from coupledgp.linalg.system import SystemOptions
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.dense_prior import (
    DensePrior,
    DenseProblem,
    Loadings,
    between,
    deviation_error,
    sharing_tables,
    spectral_loadings,
    stacked,
)
from coupledgp.tables.local_prior import is_rough

# Name of `K + s R` in errors.
NOISY_GRAM = "K + noise I"
# Number of (n, n) matrices of float64 in memory at once while the evidence is optimised.
MATRICES_AT_ONCE = 6
# Rows up to which equations are solved by iteration: five minutes for the mean.
MOST_ITERATED = 50_000
# Points whose variances are solved for at once, and steps that a solve takes at most, as a rule.
SOLVED_AT_ONCE, USUAL_STEPS = 256, 40
# CPU seconds an entry of the kernel takes in a product (`benchmarks/performance/iterated.py`).
SECONDS_OF_ENTRY = 3e-9
# The same on a GPU, whose solvers have working memory beside their results.
MATRICES_ON_DEVICE = 8
# Points whose covariances with the rows are formed at once: those of 1000 rows fit the cache.
BLOCK_ROWS = 256
# Probes and products by which the evidence is estimated where equations are iterated.
EVIDENCE_PROBES, EVIDENCE_STEPS = 12, 40


@stored
@dataclass(frozen=True, eq=False)
class StationaryPrior(DensePrior):
    """`f ~ GP(0, v kappa(|x - x'| / l))`, distances in the metric of the kernel.

    Attributes
    ----------
    spectrum : Spectrum
        Kernel kappa of unit lengthscale and variance.
    hyperparameters : Hyperparameters
        Lengthscales l (d,) in units of the inputs; v and the noise variance in normalised units.
    """

    spectrum: Spectrum
    hyperparameters: Hyperparameters
    takes_devices: ClassVar[bool] = True

    def check_points(self, points: Points) -> None:
        check_shapes(self.hyperparameters, lengthscale=points.shape[1:])

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, d) and b (p, d)."""
        found = scaled_distances(*self._scaled(a, b), self.spectrum.metric)
        # Distances become covariances in place: matrices between would be as large as the whole.
        for start in range(0, len(found), BLOCK_ROWS):
            part = found[start : start + BLOCK_ROWS]
            part[:] = self.hyperparameters.outputscale * self.spectrum.kernel(part)
        return found

    def matrix(self, a: Points, b: Points, device: torch.device = CPU) -> Matrix:
        if device == CPU:
            return self.covariance(a, b)
        distances = distances_on(device, *self._scaled(a, b), self.spectrum.metric)
        return self.hyperparameters.outputscale * kernel_of(self.spectrum, distances)

    def _scaled(self, a: Points, b: Points) -> tuple[FloatArray, FloatArray]:
        """Points in units of the lengthscales, from the middle of b, which are rows if any are."""
        scale = self.hyperparameters.lengthscale
        return in_lengthscales(a, scale, b), in_lengthscales(b, scale, b)

    def loadings(self, points: Points, rng: np.random.Generator) -> Loadings | None:
        if self.spectrum.metric != Metric.L2:  # whose frequencies have no mean
            return None
        hyper = self.hyperparameters
        middle = np.median(points, axis=0)
        return spectral_loadings(self.spectrum, hyper.outputscale, middle, hyper.lengthscale, rng)

    @property
    def is_rough(self) -> bool:
        return is_rough(self.spectrum)

    def slopes(self, points: Points, rows: Points) -> tuple[FloatArray, FloatArray]:
        a, b = self._scaled(points, rows)
        hyper = self.hyperparameters
        metric = self.spectrum.metric
        slope = hyper.outputscale * self.spectrum.kernel_slope(scaled_distances(a, b, metric))
        steps = metric.slopes(b.T[:, None, :] - a.T[:, :, None])
        scale = np.broadcast_to(hyper.lengthscale, a.shape[1])
        limit = hyper.outputscale * float(self.spectrum.kernel_slope(np.zeros(1))[0])
        return steps * slope / scale[:, None, None], limit / np.square(scale)

    def axes(self) -> tuple[AxisTerm, ...] | None:
        """Separable kernels are products over columns; others of Euclidean distances are not."""
        if not self.spectrum.is_separable:
            return None
        scales = np.log(self.hyperparameters.lengthscale)
        factors = tuple(
            Factor((place,), self.spectrum, scale[None]) for place, scale in enumerate(scales)
        )
        return (AxisTerm(self.hyperparameters.outputscale, len(factors), factors),)

    def extent(self, points: Points) -> float:
        return float(np.abs(self._scaled(points, points)[0]).max(initial=0.0))

    def variance(self, points: Points) -> FloatArray:
        return np.full(len(points), self.hyperparameters.outputscale)

    def system(self, data: Data, targets: FloatArray, options: SystemOptions) -> StationarySystem:
        return StationarySystem(
            self.spectrum, self.hyperparameters, data.points, targets, data.relative_noise, options
        )


@stored
@dataclass(frozen=True)
class Dense:
    """The solver by the covariance of rows: a Cholesky factor, or conjugate gradients.

    Attributes
    ----------
    iteration : SystemOptions or None
        How equations are solved by iteration, in O(n) memory; None: by a factor.
    device : torch.device
        Where matrices are, of priors that take devices.
    """

    iteration: SystemOptions | None = None
    device: torch.device = field(default=CPU, metadata={"stored": False})

    def noisy_gram(self, prior: DensePrior, data: Data) -> Matrix:
        """Covariance `K + s R` (n, n) of observations, normalised units.

        Raises
        ------
        MemoryLimitError
            The matrix and its factor do not fit in this machine's memory.
        """
        check_dense_size(len(data), MATRICES_AT_ONCE, self.device)
        gram = prior.matrix(data.points, data.points, self.device)
        noise, weights = prior.noise, data.weights
        more = noise if weights is None else on_device(noise * weights.relative_noise, self.device)
        add_to_diagonal(gram, more)
        return gram

    def factor(self, prior: DensePrior, data: Data) -> Matrix:
        """Lower Cholesky factor (n, n) of `K + s R`."""
        return cholesky(self.noisy_gram(prior, data), NOISY_GRAM)

    def system(self, prior: DensePrior, data: Data, targets: FloatArray) -> CovarianceSystem:
        """Equations in `K + s R` with normalised targets (n, k), solved by iteration.

        Raises
        ------
        InvalidInputError
            There are too many rows.
        MemoryLimitError
            Vectors do not fit in this machine's memory.
        """
        assert self.iteration is not None
        n_rows = len(data)
        seconds = SECONDS_OF_ENTRY * USUAL_STEPS * float(n_rows) ** 2
        if n_rows > MOST_ITERATED:
            raise InvalidInputError(
                f"X: expected at most {MOST_ITERATED} rows for solver='iterative', whose time "
                f"grows with their square (about {seconds:.0f} CPU s for the "
                f"mean alone), got {n_rows}; use the model itself, or a subset of rows"
            )
        tell(f"{n_rows} rows by iteration: about {seconds:.0f} CPU s")
        found = prior.system(data, targets, self.iteration)
        check_memory(found.bytes_needed(SOLVED_AT_ONCE), f"X: {n_rows} rows", "use fewer rows")
        return found


FACTORED = Dense()


class ExactByPrior(NormalizedProcess):
    """A process whose exact counterpart is a prior with covariances, given the same data."""

    normalize: bool

    @property
    @abstractmethod
    def exact_prior(self) -> DensePrior:
        """The prior of the exact process."""

    def exact(self) -> Any:
        return ExactGP.given(self.exact_prior, self.data, self.units, self.normalize)

    def exact_by(self, solver: SystemOptions) -> Any:
        prior, by = self.exact_prior, Dense(solver)
        return ExactGP.given(prior, self.data, self.units, self.normalize, by)

    def exact_problem(self) -> DenseProblem:
        return self.exact_prior.problem(self.data, self.units)


def _same(factor: Matrix) -> Matrix:
    return factor


@stored
@dataclass(frozen=True, eq=False, repr=False)
class ExactGP(ExactByPrior):
    """A prior given data, by a Cholesky factor of `K + s R` or by conjugate gradients.

    R is the diagonal matrix of the relative noise of the rows, I where they are all alike. By
    iteration the evidence is an estimate.

    Attributes
    ----------
    dense_prior : DensePrior
        Kernel and hyperparameters.
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when rows are added.
    rows : Data
        Rows (n, d) and targets (n, k).
    alpha : Matrix (n, k)
        `(K + s R)^-1 y`, normalised targets.
    evidence : float or None
        Log evidence of y in its own units, nats; None where it is estimated at its first use.
    known_factor : Matrix (n, n) or None
        Lower Cholesky factor of `K + s R`; None where it is computed at its first use.
    solver : Dense
        How equations in `K + s R` are solved.
    """

    dense_prior: DensePrior
    units: Units
    normalize: bool
    rows: Data
    alpha: Matrix
    evidence: float | None
    known_factor: Matrix | None = field(default=None, metadata={"stored": False})
    solver: Dense = FACTORED

    @classmethod
    def given(
        cls,
        prior: DensePrior,
        data: Data,
        units: Units,
        normalize: bool,
        solver: Dense = FACTORED,
        warns: bool = True,
    ) -> Self:
        """Condition a prior on data, whose rows bound its trends.

        With `warns` there is a PrecisionWarning where rounding shows. By iteration the evidence is
        estimated when it is asked for.

        Raises
        ------
        InvalidInputError
            The matrices do not fit in this machine's memory, or rows are too many to iterate.
        NumericalError
            The covariance is not positive definite to working precision.
        """
        prior, normalized = prior.bounded_by(data.points), units.normalized(data.targets)
        if solver.iteration is not None:
            system = solver.system(prior, data, normalized)
            alpha = system.solve(normalized, solver.iteration.tolerance).values
            found = cls(prior, units, normalize, data, alpha, None, None, solver)
            # Solves of predictions start from the same preconditioner.
            found.__dict__["row_inverse"] = IteratedInverse(system, alpha)
            return found
        gram, targets = solver.noisy_gram(prior, data), on_device(normalized, solver.device)
        factor = cholesky(gram, NOISY_GRAM)
        alpha = cholesky_solve(targets, factor)
        noise, weights = prior.noise, data.weights
        if warns:
            least = noise if weights is None else noise * float(weights.relative_noise.min())
            warn_if_imprecise(
                dense_error(gram, alpha, targets, least, prior.extent(data.points)),
                f"noise: {noise:.1g} of the variance of y",
                "raise the noise, or use SparseSpectrumGPRegressor",
            )
        quad = float((targets * alpha).sum())
        logdet = 2 * float(library(factor).log(factor.diagonal()).sum())
        found = cls(prior, units, normalize, data, alpha, 0.0, factor, solver)
        return replace(found, evidence=found._evidence_of(quad, logdet))

    def _evidence_of(self, quad: float, logdet: float) -> float:
        """Log evidence of y, from `y' A^-1 y` of normalised targets and from `log det A`."""
        data, n_outputs = self.rows, self.units.n_outputs
        evidence = log_evidence(quad, logdet, 1.0, len(data), n_outputs)
        n_rows: float = len(data)
        if data.weights is not None:
            evidence += n_outputs * data.weights.log_repetition(self.dense_prior.noise)
            n_rows = data.weights.n_counted
        return evidence - self.units.log_jacobian(n_rows)

    @cached_property
    def row_inverse(self) -> FactoredInverse | IteratedInverse:
        """The inverse of `K + s R`; files hold no factor of it."""
        prior, rows, alpha = self.dense_prior, self.rows, as_numpy(self.alpha)
        if self.solver.iteration is not None:
            targets = self.units.normalized(rows.targets)
            return IteratedInverse(self.solver.system(prior, rows, targets), alpha)
        if self.known_factor is not None:
            return FactoredInverse(partial(_same, self.known_factor), alpha)
        # Bound to no process: its matrices would wait for the collector of cycles.
        return FactoredInverse(partial(self.solver.factor, prior, rows), alpha)

    @property
    def factor(self) -> Matrix:
        """Lower Cholesky factor (n, n) of `K + s R`, for a process that is not iterated."""
        assert isinstance(self.row_inverse, FactoredInverse)
        return self.row_inverse.factor

    @property
    def hyperparameters(self) -> Hyperparameters:
        found: Hyperparameters = self.dense_prior.hyperparameters
        return found

    @property
    def log_evidence(self) -> float:
        """Log evidence of y; an estimate by random probes where equations are iterated."""
        return self._estimated[0] if self.evidence is None else self.evidence

    @property
    def log_evidence_error(self) -> float:
        """Standard error of the log evidence, nats; zero where it is no estimate."""
        return self._estimated[1] if self.evidence is None else 0.0

    @cached_property
    def _estimated(self) -> tuple[float, float]:
        assert isinstance(self.row_inverse, IteratedInverse)
        system, n_outputs = self.row_inverse.system, self.units.n_outputs
        rng = np.random.default_rng([system.options.seed, 5])
        logdet, error = system.log_determinant(EVIDENCE_PROBES, EVIDENCE_STEPS, rng)
        quad = float((system.targets * self.alpha).sum())
        return self._evidence_of(quad, logdet), 0.5 * n_outputs * error

    @property
    def remarks(self) -> tuple[str, ...]:
        if isinstance(self.row_inverse, FactoredInverse):
            return ()
        return (
            "The exact law comes from conjugate gradients: no mean is off by more than "
            f"{self.mean_error_bound:.1g} standard deviations of y.",
        )

    @cached_property
    def mean_error_bound(self) -> float:
        """Bound of the errors of all means that the iteration leaves, in normalised units.

        With the residual `r = y - A alpha` the error at a point of cross covariance c is
        `c' A^-1 r`, at most `(c' A^-1 c)^1/2 (r' A^-1 r)^1/2`; the first is below the prior
        deviation, the second below its value with the preconditioner. Zero for a factor.
        """
        if isinstance(self.row_inverse, FactoredInverse):
            return 0.0
        system = self.row_inverse.system
        residuals = system.targets - system.times(self.alpha)
        deviation = np.sqrt(self.dense_prior.variance(self.rows.points).max())
        return float(deviation * np.sqrt(np.diagonal(system.inverse_bound(residuals)).max()))

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        prior, device = self.dense_prior, self.solver.device
        size = BLOCK_ROWS if device == CPU else max(len(points), 1)
        blocks = [slice(k, k + size) for k in range(0, max(len(points), 1), size)]
        means, variances, parts = [], [], []
        for block in blocks:
            cross = prior.matrix(points[block], self.rows.points, device)
            means.append(cross @ self.alpha)
            if want == "mean":
                continue
            known = self.row_inverse.explained(cross)
            # A difference of two variances: at training inputs it may round below zero.
            own = on_device(prior.variance(points[block]), device)
            variances.append((own - known.variance).clip(0.0, None))
            if want == "covariance":
                parts.append(known)
        join = library(self.alpha).concatenate
        mean = as_numpy(join(means))
        if want == "mean":
            return mean, None
        variance = as_numpy(join(variances))
        if want == "variance":
            return mean, variance
        left, right = (join(side) for side in zip(*(p[1:] for p in parts), strict=True))
        posterior = as_numpy(prior.matrix(points, points, device) - left @ right.T)
        # The covariance may be as small as its rounding errors, which need not be symmetric.
        posterior = (posterior + posterior.T) / 2
        np.fill_diagonal(posterior, variance)
        return mean, posterior

    @staticmethod
    def sharing(processes: Sequence[GaussianProcess]) -> Sequence[GaussianProcess]:
        return sharing_tables(processes)

    @property
    def is_rough(self) -> bool:
        return self.dense_prior.is_rough

    def gradient(self, points: Points, want_variance: bool) -> Gradient:
        """By derivatives of the kernel in closed form, or by differences where it has none."""
        if self.dense_prior.slopes(points[:0], self.rows.points) is None or (
            want_variance and self.is_rough
        ):
            return super().gradient(points, want_variance)
        means, variances = [], []
        size = max(BLOCK_ROWS // points.shape[1], 1)
        for start in range(0, max(len(points), 1), size):
            found = self.dense_prior.slopes(points[start : start + size], self.rows.points)
            assert found is not None
            slopes, prior = found
            means.append(np.einsum("dpn,nk->pdk", slopes, as_numpy(self.alpha)))
            flat = beside(slopes.reshape(-1, slopes.shape[2]), self.alpha)
            if want_variance:
                lost = as_numpy(self.row_inverse.explained(flat).variance)
                variances.append(np.maximum(prior - lost.reshape(slopes.shape[:2]).T, 0.0))
        mean = np.concatenate(means) * self.units.scale
        if not want_variance:
            return Gradient(mean, None)
        return Gradient(mean, self.units.spread(np.concatenate(variances)))

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions by Matheron's rule, or by joint laws where the prior has no spectrum."""
        rows, prior, size = self.rows, self.dense_prior, self.units.n_outputs * n_functions
        loadings = prior.loadings(rows.points, rng)
        if loadings is None:
            return super().draw_functions(n_functions, rng)
        relative = np.ones(len(rows)) if rows.relative_noise is None else rows.relative_noise
        noise = prior.noise * relative[:, None]
        own = stacked(loadings, rows.points, list(row_blocks(len(rows))))
        innovations = rng.standard_normal((own.shape[1], size))
        drawn = own @ innovations + np.sqrt(noise) * rng.standard_normal((len(rows), size))
        targets = np.repeat(self.units.normalized(rows.targets), n_functions, axis=1)
        weights = self.row_inverse.solved(targets - drawn)
        points = between(rows.points, rng)
        gains = self.row_inverse.solved(prior.covariance(rows.points, points))
        gaps = loadings(points) - gains.T @ own
        variance = np.square(gaps).sum(axis=1) + (noise * np.square(gains)).sum(axis=0)
        exact = self.latent_law(points, "variance")[1]
        assert exact is not None

        def prior_draw(points: Points) -> FloatArray:
            return loadings(points) @ innovations

        def cross(points: Points) -> FloatArray:
            return prior.covariance(points, rows.points)

        error = deviation_error(variance, exact)
        return MatheronFunctions(prior_draw, cross, weights, self.units, n_functions, error)

    def site_prior(self, points: Points) -> DenseRows:
        return DenseRows(self.latent_prior(points))

    def latent_prior(self, points: Points) -> FloatArray:
        return self.dense_prior.covariance(points, points)

    @property
    def exact_prior(self) -> DensePrior:
        return self.dense_prior

    def exact(self) -> ExactGP:
        """Return the process itself."""
        return self

    def conditioned(self, data: Data, *, renormalize: bool = False) -> ExactGP:
        units = Units.of(data.targets, self.normalize, data.counts) if renormalize else self.units
        return self.given(self.dense_prior, data, units, self.normalize, self.solver)

    def on(self, device: torch.device) -> Self:
        if not self.dense_prior.takes_devices:
            return self
        known, alpha = self.known_factor, on_device(as_numpy(self.alpha), device)
        if known is not None:
            known = on_device(as_numpy(known), device)
        solver = replace(self.solver, device=device)
        return replace(self, alpha=alpha, known_factor=known, solver=solver)

    def as_stored(self) -> ExactGP:
        """The process on the CPU, where files hold it."""
        return self if self.solver.device == CPU else self.on(parse_device(CPU))

    def read_back(self) -> Self:
        """The process of a file.

        Raises
        ------
        ModelFileError
            Rows have other columns than the prior, or the evidence is missing.
        """
        self.dense_prior.check_points(self.rows.points)
        check_shapes(self, alpha=(len(self.rows), self.units.n_outputs))
        check_shapes(self.rows, targets=("n", self.units.n_outputs))
        if (self.evidence is None) is (self.solver.iteration is None):
            raise ModelFileError("evidence: expected that of a process by a factor")
        return self

    def inverse_covariance(self) -> InverseCovariance:
        return self.row_inverse


def check_dense_size(n_rows: int, n_matrices: int, device: torch.device = CPU) -> None:
    """Refuse a dense computation that does not fit in the memory of the device or of the CPU."""
    check_device_memory(
        device,
        (n_matrices if device == CPU else MATRICES_ON_DEVICE) * 8 * n_rows**2,
        f"X: {n_rows} rows of the exact GP",
        "use SparseSpectrumGPRegressor, or a subset of rows "
        "(conditioned_on(X_subset, y_subset).exact_twin())",
    )
