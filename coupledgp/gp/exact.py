"""The exact Gaussian process of a table: O(n^3) time, O(n^2) memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from coupledgp.errors import InvalidInputError
from coupledgp.gp.inverse_covariance import DenseInverse
from coupledgp.gp.protocol import (
    Arrays,
    Data,
    Header,
    NormalizedProcess,
    Points,
    Problem,
    Want,
)
from coupledgp.gp.schema import Entries
from coupledgp.gp.state import (
    data_arrays,
    data_from,
    hyperparameters_from,
    hyperparameters_state,
    text_of,
    units_from,
)
from coupledgp.gp.units import Units
from coupledgp.ground.devices import CPU, check_device_memory
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.dense.evidence import in_lengthscales
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.inference.evidence.problem import Hyperparameters, log_evidence
from coupledgp.inference.evidence.stationary import distances_on, kernel_of, scaled_distances
from coupledgp.likelihoods.base import Likelihood, NoiseLaw
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.likelihoods.registry import check_stored
from coupledgp.linalg.cholesky import cholesky
from coupledgp.linalg.rounding import dense_error, warn_if_imprecise
from coupledgp.random import FloatArray, symmetric_root
from coupledgp.spectra import Spectrum, parse_spectrum

# Name of `K + s R` in errors.
NOISY_GRAM = "K + noise I"
# Number of (n, n) matrices of float64 in memory at once while the evidence is optimised.
MATRICES_AT_ONCE = 6
# The same on a GPU, whose solvers have working memory beside their results.
MATRICES_ON_DEVICE = 8


class DensePrior(ABC):
    """A prior whose covariances between points can be computed as matrices.

    Attributes
    ----------
    hyperparameters : Any
        Hyperparameters; the output scale and the noise variance are in normalised units.
    likelihood : NoiseLaw
        Law of observations given f, made of the noise variance.
    device : torch.device
        Where matrices of a process are.
    """

    hyperparameters: Any
    likelihood: NoiseLaw
    device: torch.device = CPU

    @property
    @abstractmethod
    def process_class(self) -> type[ExactGP]:
        """Class of the process given data."""

    @abstractmethod
    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between points a (n, ...) and b (p, ...)."""

    def matrix(self, a: Points, b: Points) -> Tensor:
        """The prior covariance (n, p) of f as a tensor on the prior's device."""
        return torch.as_tensor(self.covariance(a, b))

    def on(self, device: torch.device) -> DensePrior:
        """The prior on a device; itself where it computes on the CPU alone."""
        return self

    @abstractmethod
    def variance(self, points: Points) -> FloatArray:
        """Prior variance (p,) of f at points, normalised units."""

    @abstractmethod
    def problem(self, data: Data, units: Units) -> Problem:
        """State prior and data as a problem, also where its law is too large to compute."""

    def extent(self, points: Points) -> float:
        """Largest coordinate of points, in lengthscales, from where they are centred.

        Distances are rounded relative to it. Zero for a prior that knows no coordinates.
        """
        return 0.0

    @property
    def noise(self) -> float:
        """Noise variance, normalised units."""
        return float(self.hyperparameters.noise)

    def given(self, data: Data, units: Units, normalize: bool, warns: bool = True) -> Any:
        """Condition on data; return the process, of `process_class`.

        With `warns` there is a PrecisionWarning where rounding shows.

        Raises
        ------
        InvalidInputError
            The matrices do not fit in this machine's memory.
        NumericalError
            The covariance is not positive definite to working precision.
        """
        gram = self.noisy_gram(data)
        targets = torch.as_tensor(units.normalized(data.targets), device=self.device)
        factor = cholesky(gram, NOISY_GRAM)
        alpha = torch.cholesky_solve(targets, factor)
        noise, weights = self.noise, data.weights
        if warns:
            least = noise if weights is None else noise * float(weights.relative_noise.min())
            warn_if_imprecise(
                dense_error(gram, alpha, targets, least, self.extent(data.points)),
                f"noise: {noise:.1g} of the variance of y",
                "raise the noise, or use SparseSpectrumGPRegressor",
            )
        quad = float((targets * alpha).sum())
        logdet = 2 * float(factor.diagonal().log().sum())
        evidence = log_evidence(quad, logdet, 1.0, *targets.shape)
        n_rows: float = len(data)
        if weights is not None:
            evidence += targets.shape[1] * weights.log_repetition(noise)
            n_rows = weights.n_counted
        evidence -= units.log_jacobian(n_rows)
        return self.process_class(self, units, normalize, data, alpha, evidence, factor)

    def noisy_gram(self, data: Data) -> Tensor:
        """Covariance `K + s R` (n, n) of observations, normalised units.

        Raises
        ------
        MemoryLimitError
            The matrix and its factor do not fit in this machine's memory.
        """
        check_dense_size(len(data), MATRICES_AT_ONCE, self.device)
        gram = self.matrix(data.points, data.points)
        noise, weights = self.noise, data.weights
        gram.diagonal().add_(
            noise
            if weights is None
            else torch.as_tensor(noise * weights.relative_noise, device=self.device)
        )
        return gram


@dataclass(frozen=True, eq=False)
class StationaryPrior(DensePrior):
    """`f ~ GP(0, v kappa(|x - x'| / l))`, distances in the metric of the kernel.

    Attributes
    ----------
    spectrum : Spectrum
        Kernel kappa of unit lengthscale and variance.
    hyperparameters : Hyperparameters
        Lengthscales l (d,) in units of the inputs; v and the noise variance in normalised units.
    likelihood : NoiseLaw
        Law of observations given f, made of the noise variance.
    device : torch.device
        Where matrices of a process are.
    """

    spectrum: Spectrum
    hyperparameters: Hyperparameters
    likelihood: NoiseLaw = Gaussian
    device: torch.device = CPU

    @property
    def process_class(self) -> type[ExactGP]:
        return ExactGP

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, d) and b (p, d)."""
        distances = scaled_distances(*self._scaled(a, b), self.spectrum.metric)
        return self.hyperparameters.outputscale * self.spectrum.kernel(distances)

    def matrix(self, a: Points, b: Points) -> Tensor:
        if self.device == CPU:
            return super().matrix(a, b)
        distances = distances_on(self.device, *self._scaled(a, b), self.spectrum.metric)
        return self.hyperparameters.outputscale * kernel_of(self.spectrum, distances)

    def _scaled(self, a: Points, b: Points) -> tuple[FloatArray, FloatArray]:
        """Points in units of the lengthscales, from the middle of b, which are rows if any are."""
        scale = self.hyperparameters.lengthscale
        return in_lengthscales(a, scale, b), in_lengthscales(b, scale, b)

    def extent(self, points: Points) -> float:
        return float(np.abs(self._scaled(points, points)[0]).max(initial=0.0))

    def on(self, device: torch.device) -> StationaryPrior:
        return replace(self, device=device)

    def variance(self, points: Points) -> FloatArray:
        return np.full(len(points), self.hyperparameters.outputscale)

    def problem(self, data: Data, units: Units) -> ExactProblem:
        hyper = self.hyperparameters
        return ExactProblem(
            self.spectrum, data.points, units.normalized(data.targets), hyper.lengthscale,
            hyper.outputscale, hyper.noise, units.offset, units.scale, data.relative_noise,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class ExactGP(NormalizedProcess):
    """A prior given data, by a Cholesky factor of `K + s R`.

    R is the diagonal matrix of the relative noise of the rows, I where they are all alike.

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
    alpha : Tensor (n, k)
        `(K + s R)^-1 y`, normalised targets.
    evidence : float
        Log evidence of y in its own units, nats.
    known_factor : Tensor (n, n) or None
        Lower Cholesky factor of `K + s R`; None where it is computed at its first use.
    """

    dense_prior: DensePrior
    units: Units
    normalize: bool
    rows: Data
    alpha: Tensor
    evidence: float
    known_factor: Tensor | None = None

    @cached_property
    def factor(self) -> Tensor:
        """Lower Cholesky factor (n, n) of `K + s R`, of which files hold none."""
        if self.known_factor is not None:
            return self.known_factor
        return cholesky(self.dense_prior.noisy_gram(self.rows), NOISY_GRAM)

    @property
    def data(self) -> Data:
        return self.rows

    @property
    def hyperparameters(self) -> Hyperparameters:
        found: Hyperparameters = self.dense_prior.hyperparameters
        return found

    @property
    def log_evidence(self) -> float:
        return self.evidence

    @property
    def noise(self) -> Likelihood:
        return self.dense_prior.likelihood(self.hyperparameters.noise)

    def latent_law(
        self, points: Points, want: Want, report: Progress = silent
    ) -> tuple[FloatArray, FloatArray | None]:
        prior = self.dense_prior
        cross = prior.matrix(points, self.rows.points)
        mean = (cross @ self.alpha).cpu().numpy()
        if want == "mean":
            return mean, None
        whitened = torch.linalg.solve_triangular(self.factor, cross.T, upper=False)
        # A difference of two variances: at training inputs it may round below zero.
        own = torch.as_tensor(prior.variance(points), device=prior.device)
        variance = own - whitened.square().sum(0)
        variance.clamp_min_(0.0)
        if want == "variance":
            return mean, variance.cpu().numpy()
        posterior = prior.matrix(points, points) - whitened.T @ whitened
        # The covariance may be as small as its rounding errors, which need not be symmetric.
        posterior = (posterior + posterior.T) / 2
        posterior.diagonal().copy_(variance)
        return mean, posterior.cpu().numpy()

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator, report: Progress = silent
    ) -> FloatArray:
        mean, posterior = self.latent_law(points, "covariance")
        assert posterior is not None
        # The covariance of near inputs is singular to rounding, where a Cholesky factor fails.
        root = symmetric_root(posterior)
        draws = rng.standard_normal((len(points), mean.shape[1] * n_samples))
        return mean[:, :, None] + (root @ draws).reshape(len(points), -1, n_samples)

    def latent_prior(self, points: Points) -> FloatArray:
        return self.dense_prior.covariance(points, points)

    def exact(self) -> ExactGP:
        """Return the process itself."""
        return self

    def exact_problem(self) -> Problem:
        return self.dense_prior.problem(self.rows, self.units)

    def conditioned(self, data: Data, *, renormalize: bool = False) -> ExactGP:
        units = Units.of(data.targets, self.normalize, data.counts) if renormalize else self.units
        found: ExactGP = self.dense_prior.given(data, units, self.normalize)
        return found

    def updated(self, data: Data) -> ExactGP:
        """Return the process given further data too, by one Cholesky factor of all rows."""
        both = self.rows.followed_by(data).as_one_batch()
        return self.conditioned(both, renormalize=True)

    def on(self, device: torch.device) -> Self:
        prior = self.dense_prior.on(device)
        known = None if self.known_factor is None else self.known_factor.to(prior.device)
        alpha = self.alpha.to(prior.device)
        return replace(self, dense_prior=prior, alpha=alpha, known_factor=known)

    def redrawn(self, coupling: Any, size: int, seed: int) -> ExactGP:
        """Refuse, since an exact process draws nothing."""
        raise InvalidInputError(
            "model: expected one with frequencies or walkers to draw again, got an exact GP"
        )

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of a file, always with the rows, since predictions need them."""
        prior = self.dense_prior
        assert isinstance(prior, StationaryPrior)
        header, arrays = hyperparameters_state(self.hyperparameters)
        header["kernel"] = text_of(prior.spectrum, "kernel")
        return self._completed(header, arrays)

    def _completed(self, header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
        """Header and arrays of a prior, completed by weights, units and rows."""
        check_stored(self.dense_prior.likelihood)
        arrays["alpha"] = self.alpha
        arrays |= {"y_mean": self.units.offset, "y_scale": self.units.scale}
        arrays |= data_arrays(self.rows)
        header["scalars"] = {"log_marginal_likelihood_value_": self.evidence}
        header["normalize"] = self.normalize
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> ExactGP:
        """Put the process of `state` together again."""
        entries = Entries(header, arrays)
        kernel = parse_spectrum(entries.text("kernel"), "kernel")
        return cls.restored(StationaryPrior(kernel, hyperparameters_from(entries)), entries)

    def inverse_covariance(self) -> DenseInverse:
        return DenseInverse(self.factor.cpu(), self.alpha.cpu().numpy())

    @classmethod
    def restored(cls, prior: DensePrior, entries: Entries) -> Self:
        """The process of a prior, with the weights, units and rows that a file holds."""
        return cls(
            prior,
            units_from(entries),
            entries.flag("normalize"),
            data_from(entries),
            entries.floats("alpha", "n", "k"),
            entries.number("scalars", "log_marginal_likelihood_value_"),
            # Files of earlier versions hold it.
            entries.factor("factor", "n") if "factor" in entries.arrays else None,
        )


def check_dense_size(n_rows: int, n_matrices: int, device: torch.device = CPU) -> None:
    """Refuse a dense computation that does not fit in the memory of the device or of the CPU."""
    check_device_memory(
        device,
        (n_matrices if device == CPU else MATRICES_ON_DEVICE) * 8 * n_rows**2,
        f"X: {n_rows} rows of the exact GP",
        "use SparseSpectrumGPRegressor, or a subset of rows "
        "(conditioned_on(X_subset, y_subset).exact_twin())",
    )
