"""Priors whose covariances between points can be computed as matrices, and their processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coupledgp.expressions import AxisTerm
from coupledgp.gp.prior_draws import Loadings
from coupledgp.gp.protocol import Data, Points, Problem
from coupledgp.gp.units import Units
from coupledgp.ground.devices import CPU, check_device_memory
from coupledgp.inference.evidence.problem import log_evidence
from coupledgp.likelihoods.base import NoiseLaw
from coupledgp.linalg.cholesky import cholesky
from coupledgp.linalg.rounding import dense_error, warn_if_imprecise
from coupledgp.random import FloatArray

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
    def process_class(self) -> type[Any]:
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


def check_dense_size(n_rows: int, n_matrices: int, device: torch.device = CPU) -> None:
    """Refuse a dense computation that does not fit in the memory of the device or of the CPU."""
    check_device_memory(
        device,
        (n_matrices if device == CPU else MATRICES_ON_DEVICE) * 8 * n_rows**2,
        f"X: {n_rows} rows of the exact GP",
        "use SparseSpectrumGPRegressor, or a subset of rows "
        "(conditioned_on(X_subset, y_subset).exact_twin())",
    )
