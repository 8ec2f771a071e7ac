"""Exact GP regression, the reference of every approximation: O(n^3) time, O(n^2) memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from coupledgp.errors import InvalidInputError
from coupledgp.inference.dense.evidence import ExactEvidence, scaled_distances
from coupledgp.inference.linalg.cholesky import cholesky
from coupledgp.inference.search.problem import log_evidence
from coupledgp.models.base import StationaryGPRegressor, target_scaling
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum, SpectrumLike, parse_spectrum

# Matrices of n x n float64 alive at once while the evidence is optimised.
MATRICES_AT_ONCE = 6


class ExactGPRegressor(StationaryGPRegressor):
    """Gaussian process regression without approximation.

    `y = f(x) + e`, `f ~ GP(0, v kappa(|x - x'| / l))`, `e ~ N(0, s)`, by Cholesky. Same interface
    and conventions as `SparseSpectrumGPRegressor`, whose `exact_twin` it is.

    Parameters
    ----------
    kernel
        `"gaussian"`, `"matern-1/2"`, `"matern-3/2"`, `"matern-5/2"`, `"matern-NU"` or a Spectrum.
    ard
        One lengthscale for each column of X; otherwise one for all.
    lengthscale
        Lengthscale, one or (d,), in units of X: where the optimizer starts, or kept if it is None.
        None takes it from the spread of the data.
    outputscale, noise
        Variances of f and of the noise, in units of the normalised y; kept if the optimizer is
        None (None: 1 and 0.1).
    normalize_y
        Subtract the mean of y and divide by its standard deviation before fitting.
    optimizer
        `"lbfgs"`, or None to keep the given hyperparameters.
    random_state
        Seed of the restarts.
    fixed
        Names of hyperparameters the optimizer leaves alone.
    n_restarts
        How many starts besides the best are tried.
    max_iter
        Most iterations of L-BFGS.
    progress
        Show progress on stderr; None does so on a terminal.

    Attributes
    ----------
    lengthscale_, outputscale_, noise_
        Fitted hyperparameters, in units of X and of y squared.
    log_marginal_likelihood_value_
        Log evidence of y (in its own units) at the fitted hyperparameters.
    """

    def __init__(
        self,
        kernel: SpectrumLike = "gaussian",
        ard: bool = True,
        lengthscale: ArrayLike | None = None,
        outputscale: float | None = None,
        noise: float | None = None,
        normalize_y: bool = True,
        optimizer: str | None = "lbfgs",
        random_state: Any = None,
        *,
        fixed: tuple[str, ...] | None = None,
        n_restarts: int = 1,
        max_iter: int = 100,
        progress: bool | None = None,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.lengthscale = lengthscale
        self.outputscale = outputscale
        self.noise = noise
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.random_state = random_state
        self.fixed = fixed
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.progress = progress

    def _prepare(self, inputs: FloatArray, rng: np.random.Generator) -> None:
        check_dense_size(len(inputs), MATRICES_AT_ONCE)
        self._spectrum = parse_spectrum(self.kernel, "kernel")

    def _evidence_problem(self, inputs: FloatArray, targets: FloatArray) -> ExactEvidence:
        return ExactEvidence(self._spectrum, inputs, targets)

    def _adopt(self, model: StationaryGPRegressor, spectrum: Spectrum) -> ExactGPRegressor:
        """Take over the data, normalisation and hyperparameters of another fitted model."""
        names = "n_features_in_ feature_names_in_ _hyperparameters _y_mean _y_scale _y_ndim"
        names += " _X_parts _y_parts _rows_kept"
        self.__dict__.update({k: v for k, v in model.__dict__.items() if k in names.split()})
        self._spectrum = spectrum
        inputs, targets = self._training_rows()
        check_dense_size(len(inputs), MATRICES_AT_ONCE)
        self._condition(inputs, targets)
        return self

    def _condition(self, inputs: FloatArray, targets: FloatArray) -> None:
        hyper = self._hyperparameters
        normalized = torch.as_tensor((targets - self._y_mean) / self._y_scale)
        gram = torch.as_tensor(self._cross(inputs, inputs))
        gram.diagonal().add_(hyper.noise)
        self._factor = cholesky(gram, "K + noise I")
        self._alpha = torch.cholesky_solve(normalized, self._factor)
        quad = float((normalized * self._alpha).sum())
        logdet = 2 * float(self._factor.diagonal().log().sum())
        self._set_log_evidence(log_evidence(quad, logdet, 1.0, *normalized.shape), len(targets))

    def _cross(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Prior covariance (n, p) of f between rows of `a` and `b`, normalised targets."""
        hyper = self._hyperparameters
        distances = scaled_distances(a / hyper.lengthscale, b / hyper.lengthscale)
        return hyper.outputscale * self._spectrum.kernel(distances)

    def _latent(self, inputs: FloatArray, want: str) -> tuple[FloatArray, FloatArray | None]:
        cross = torch.as_tensor(self._cross(inputs, self.X_train_))
        mean = (cross @ self._alpha).numpy()
        if want == "mean":
            return mean, None
        whitened = torch.linalg.solve_triangular(self._factor, cross.T, upper=False)
        # A difference of two variances: at training inputs it may round below zero.
        variance = self._hyperparameters.outputscale - whitened.square().sum(0)
        variance.clamp_min_(0.0)
        if want == "variance":
            return mean, variance.numpy()
        covariance = torch.as_tensor(self._cross(inputs, inputs)) - whitened.T @ whitened
        # Next to nothing may be left, and what rounding left of it need not be symmetric.
        covariance = (covariance + covariance.T) / 2
        covariance.diagonal().copy_(variance)
        return mean, covariance.numpy()

    def _latent_samples(
        self, inputs: FloatArray, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        mean, covariance = self._latent(inputs, "covariance")
        assert covariance is not None
        # The covariance of near inputs is singular to rounding, where a Cholesky factor fails.
        eigenvalues, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        draws = rng.standard_normal((len(inputs), mean.shape[1] * n_samples))
        return mean[:, :, None] + (root @ draws).reshape(len(inputs), -1, n_samples)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> ExactGPRegressor:
        """Add rows to the data, hyperparameters fixed; the first call is `fit`.

        The posterior is recomputed, at the cost of one Cholesky factor of all rows.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        new_inputs, new_targets = self._validate(X, y, reset=False)
        inputs = np.concatenate([*self._X_parts, new_inputs])
        targets = np.concatenate([*self._y_parts, new_targets])
        check_dense_size(len(inputs), MATRICES_AT_ONCE)
        self._y_mean, self._y_scale = target_scaling(targets, self.normalize_y)
        self._X_parts, self._y_parts = [inputs], [targets]
        self._condition(inputs, targets)
        return self

    def prior_covariance(self, X: ArrayLike) -> FloatArray:
        """Prior covariance `v kappa` of f at inputs (p, d), units of y squared.

        Shape (p, p), or (p, p, k) for targets of two dimensions.
        """
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        unit = self._cross(inputs, inputs) / self._hyperparameters.outputscale
        return np.multiply.outer(unit, self.outputscale_)

    def exact_twin(self) -> ExactGPRegressor:
        """Return this model: it is its own exact counterpart."""
        return self


def check_dense_size(n_rows: int, n_matrices: int) -> None:
    """Refuse a dense computation that cannot fit in this machine's memory."""
    needed = n_matrices * 8 * n_rows**2
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > total:
        raise InvalidInputError(
            f"X: {n_rows} rows need about {needed / 2**30:.0f} GiB for the exact GP, this machine "
            f"has {total / 2**30:.0f}; use SparseSpectrumGPRegressor, or a subset of rows "
            "(conditioned_on(X_subset, y_subset).exact_twin())"
        )
