"""The exact Gaussian process of a table: by a Cholesky factor, or by iteration in O(n) memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from coupledgp.core.codec import check_shapes, stored
from coupledgp.core.sites import DenseRows
from coupledgp.errors import ModelFileError
from coupledgp.expressions import AxisTerm, Factor
from coupledgp.gp.dense_prior import (
    NOISY_GRAM,
    DensePrior,
    ExactByPrior,
    Loadings,
    between,
    deviation_error,
    spectral_loadings,
    stacked,
)
from coupledgp.gp.drawn_functions import DrawnFunctions, MatheronFunctions, row_blocks
from coupledgp.gp.gradients import Gradient
from coupledgp.gp.inverse_covariance import FactoredInverse, InverseCovariance, IteratedInverse
from coupledgp.gp.local_prior import is_rough
from coupledgp.gp.protocol import (
    Data,
    Points,
    Want,
)
from coupledgp.gp.units import Units
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.ground.tensors import torch
from coupledgp.inference.dense.evidence import in_lengthscales
from coupledgp.inference.dense.system import StationarySystem
from coupledgp.inference.evidence.problem import Hyperparameters, distances_on, kernel_of
from coupledgp.linalg.distances import scaled_distances
from coupledgp.linalg.matrices import Matrix, as_numpy, beside, cholesky, library, on_device
from coupledgp.linalg.system import SystemOptions
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

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
    device : torch.device
        Where matrices of a process are.
    solver : SystemOptions or None
        How equations in the covariance of rows are solved by iteration; None: by a factor.
    """

    spectrum: Spectrum
    hyperparameters: Hyperparameters
    device: torch.device = field(default=CPU, metadata={"stored": False})
    solver: SystemOptions | None = None

    def check_points(self, points: Points) -> None:
        check_shapes(self.hyperparameters, lengthscale=points.shape[1:])

    @property
    def process_class(self) -> type[ExactGP]:
        return ExactGP

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, d) and b (p, d)."""
        found = scaled_distances(*self._scaled(a, b), self.spectrum.metric)
        # Distances become covariances in place: matrices between would be as large as the whole.
        for start in range(0, len(found), BLOCK_ROWS):
            part = found[start : start + BLOCK_ROWS]
            part[:] = self.hyperparameters.outputscale * self.spectrum.kernel(part)
        return found

    def matrix(self, a: Points, b: Points) -> Matrix:
        if self.device == CPU:
            return super().matrix(a, b)
        distances = distances_on(self.device, *self._scaled(a, b), self.spectrum.metric)
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

    def on(self, device: torch.device) -> StationaryPrior:
        return replace(self, device=device)

    def variance(self, points: Points) -> FloatArray:
        return np.full(len(points), self.hyperparameters.outputscale)

    def system(self, data: Data, targets: FloatArray, options: SystemOptions) -> StationarySystem:
        return StationarySystem(
            self.spectrum, self.hyperparameters, data.points, targets, data.relative_noise, options
        )


@stored
@dataclass(frozen=True, eq=False, repr=False)
class ExactGP(ExactByPrior):
    """A prior given data, by a Cholesky factor of `K + s R` or by conjugate gradients.

    R is the diagonal matrix of the relative noise of the rows, I where they are all alike. The
    prior's `solver` says which; by iteration the evidence is an estimate.

    Attributes
    ----------
    dense_prior : DensePrior
        Kernel, hyperparameters and likelihood.
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
    """

    dense_prior: DensePrior
    units: Units
    normalize: bool
    rows: Data
    alpha: Matrix
    evidence: float | None
    known_factor: Matrix | None = field(default=None, metadata={"stored": False})

    @cached_property
    def row_inverse(self) -> FactoredInverse | IteratedInverse:
        """The inverse of `K + s R`; files hold no factor of it."""
        prior, rows, alpha = self.dense_prior, self.rows, as_numpy(self.alpha)
        if prior.solver is None:
            # Bound to no process: its matrices would wait for the collector of cycles.
            return FactoredInverse(partial(_factor_of, prior, rows, self.known_factor), alpha)
        targets = self.units.normalized(rows.targets)
        return IteratedInverse(prior.system(rows, targets, prior.solver), alpha)

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
        value = self.dense_prior.evidence_of(quad, logdet, self.rows, self.units)
        return value, 0.5 * n_outputs * error

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
        prior = self.dense_prior
        size = BLOCK_ROWS if prior.device == CPU else max(len(points), 1)
        blocks = [slice(k, k + size) for k in range(0, max(len(points), 1), size)]
        means, variances, parts = [], [], []
        for block in blocks:
            cross = prior.matrix(points[block], self.rows.points)
            means.append(cross @ self.alpha)
            if want == "mean":
                continue
            known = self.row_inverse.explained(cross)
            # A difference of two variances: at training inputs it may round below zero.
            own = on_device(prior.variance(points[block]), prior.device)
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
        posterior = as_numpy(prior.matrix(points, points) - left @ right.T)
        # The covariance may be as small as its rounding errors, which need not be symmetric.
        posterior = (posterior + posterior.T) / 2
        np.fill_diagonal(posterior, variance)
        return mean, posterior

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
        found: ExactGP = self.dense_prior.given(data, units, self.normalize)
        return found

    def on(self, device: torch.device) -> Self:
        prior = self.dense_prior.on(device)
        known, alpha = self.known_factor, on_device(as_numpy(self.alpha), prior.device)
        if known is not None:
            known = on_device(as_numpy(known), prior.device)
        return replace(self, dense_prior=prior, alpha=alpha, known_factor=known)

    def as_stored(self) -> ExactGP:
        """The process on the CPU, where files hold it."""
        return self if self.dense_prior.device == CPU else self.on(parse_device(CPU))

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
        if (self.evidence is None) is (self.dense_prior.solver is None):
            raise ModelFileError("evidence: expected that of a process by a factor")
        return self

    def inverse_covariance(self) -> InverseCovariance:
        return self.row_inverse


def _factor_of(prior: DensePrior, rows: Data, known: Matrix | None) -> Matrix:
    """The Cholesky factor (n, n) that is known, or that of `K + s R`."""
    return cholesky(prior.noisy_gram(rows), NOISY_GRAM) if known is None else known
