"""Log evidence of Fourier features as a function of their frequencies and weights (MATH 4, 6).

The features are `phi_i(x) = sqrt(a_i) [sin(w_i . x), cos(w_i . x)]`, `y = sqrt(v) Phi u + e`. With
`A = Phi' Phi + lam I`, `u = A^-1 Phi' y` and the gradient `G = d log p / d Phi` of
`feature_gradients`, whose part in the phases is `Z = G_sin * Phi_cos - G_cos * Phi_sin`,

    d log p / d w = Z' X,
    d log p / d log a_i = 1/2 sum_j [ |u_j|^2 / v - k (1 - lam A^-1_jj) ],  j the two features of i.

Both passes over the rows go chunk by chunk, O(n M^2) time and O(M^2) memory for any n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.features import FourierFeatures
from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.inference.evidence.problem import RowWeights
from coupledgp.inference.spectra.posterior_kl import (
    check_frequencies,
    check_hyperparameters,
    check_table,
    with_weights,
)
from coupledgp.inference.weights.evidence import feature_gradients, normal_equations
from coupledgp.inference.weights.normal_equations import solve_ridge
from coupledgp.inference.weights.posterior import FeatureStream, WeightPosterior
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class SpectrumGradient:
    """Log evidence and its gradients.

    Attributes
    ----------
    value : float
        Log evidence in nats.
    frequencies : Tensor (m, d)
        Gradient in the frequencies.
    log_weights : Tensor (m,)
        Gradient in the logs of the weights.
    outputscale, noise : float
        Derivatives in the log of v and in the log of s, the other one fixed.
    """

    value: float
    frequencies: Tensor
    log_weights: Tensor
    outputscale: float
    noise: float


class SpectrumEvidence:
    """Evidence of one table under Fourier features of any frequencies and weights.

    Parameters
    ----------
    X
        Inputs (n, d), near the origin: a shift changes no evidence, but loses digits of the phases.
    targets
        Normalised targets (n, k).
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    """

    def __init__(
        self, X: FloatArray, targets: FloatArray, weights: RowWeights | None = None
    ) -> None:
        self.X, self.targets, self.weights = X, targets, weights
        self._root = None if weights is None else weights.root
        self._weighted = targets if self._root is None else targets * self._root[:, None]
        self.n_rows, self.n_outputs = targets.shape
        self._map: FourierFeatures | None = None

    def subset(self, rows: NDArray[np.intp]) -> SpectrumEvidence:
        """Return the problem of some rows, given by their numbers (b,)."""
        weights = None if self.weights is None else self.weights.take(rows)
        return SpectrumEvidence(self.X[rows], self.targets[rows], weights)

    def _stream(self, frequencies: Tensor, log_weights: Tensor) -> FeatureStream:
        weights = log_weights.exp()
        if self._map is None:
            self._map = FourierFeatures.from_frequencies(frequencies, "iid", "gaussian")
        # Any positive weights will do here, so they go past the check that their sum is one.
        self._map.frequencies, self._map.weights = frequencies, weights
        self._map.n_frequencies, dim = frequencies.shape
        return FeatureStream(self._map, self.X, np.zeros(dim), np.ones(dim), self._root)

    def posterior(
        self, frequencies: Tensor, log_weights: Tensor, outputscale: float, noise: float
    ) -> WeightPosterior:
        """Posterior of the weights of features with frequencies (m, d) and log weights (m,)."""
        stream = self._stream(frequencies, log_weights)
        equations = normal_equations(stream, self._weighted, self.weights)
        return WeightPosterior.from_moments(equations, outputscale, noise)

    def features(self, frequencies: Tensor, log_weights: Tensor, X: FloatArray) -> Tensor:
        """Features (b, M) of other inputs (b, d)."""
        self._stream(frequencies, log_weights)
        assert self._map is not None
        with torch.no_grad():
            features: Tensor = self._map(torch.as_tensor(X))
        return features

    def evaluate(
        self, frequencies: Tensor, log_weights: Tensor, outputscale: float, noise: float
    ) -> SpectrumGradient:
        """Evidence and gradients for frequencies (m, d) and log weights (m,): two passes."""
        stream = self._stream(frequencies, log_weights)
        equations = normal_equations(stream, self._weighted, self.weights)
        factor, weights, value = solve_ridge(equations, outputscale, noise)
        inverse = torch.cholesky_inverse(factor)
        lam, k = noise / outputscale, self.n_outputs
        by_feature = weights.square().sum(1) / outputscale - k * (1 - lam * inverse.diagonal())
        by_outputscale = 0.5 * float(by_feature.sum())
        quad = float(equations.square.sum() - (equations.cross * weights).sum()) / lam
        # Scaling v and s together leaves lam alone, and the derivative along that is known.
        by_both = 0.5 * (quad / outputscale - k * equations.n_rows)
        return SpectrumGradient(
            value,
            self._frequency_gradient(stream, weights, inverse, noise),
            0.5 * by_feature.reshape(2, -1).sum(0),
            by_outputscale,
            by_both - by_outputscale,
        )

    def _frequency_gradient(
        self, stream: FeatureStream, weights: Tensor, inverse: Tensor, noise: float
    ) -> Tensor:
        assert self._map is not None
        gradient = torch.zeros_like(self._map.frequencies)
        chunks = feature_gradients(stream, self._weighted, weights, inverse, noise)
        for inputs, features, upstream in chunks:
            gradient.addmm_(self._map.phase_gradient(features, upstream).T, inputs)
        return gradient


class _LogEvidence(Differentiable):
    """`SpectrumEvidence.evaluate` as one differentiable operation."""

    @staticmethod
    def forward(
        ctx: Any,
        problem: SpectrumEvidence,
        frequencies: Tensor,
        log_weights: Tensor,
        log_outputscale: Tensor,
        log_noise: Tensor,
    ) -> Tensor:
        """Log evidence; the gradients are computed at once and kept."""
        result = problem.evaluate(
            frequencies.detach(),
            log_weights.detach(),
            float(log_outputscale.exp()),
            float(log_noise.exp()),
        )
        new = frequencies.new_tensor
        by_scales = new(result.outputscale), new(result.noise)
        ctx.save_for_backward(result.frequencies, result.log_weights, *by_scales)
        return new(result.value)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Scale the gradients."""
        return None, *(upstream * gradient for gradient in ctx.saved_tensors)


def log_evidence_of(
    problem: SpectrumEvidence,
    frequencies: Tensor,
    log_weights: Tensor,
    log_outputscale: Tensor,
    log_noise: Tensor,
) -> Tensor:
    """Log evidence in nats, a scalar tensor, differentiable in all arguments but the problem.

    Parameters
    ----------
    problem
        The table.
    frequencies
        Tensor (m, d), in units of one over the inputs.
    log_weights
        Tensor (m,).
    log_outputscale, log_noise
        Scalar tensors.
    """
    if not torch.is_grad_enabled():  # the gradient would take a second pass
        scales = float(log_outputscale.exp()), float(log_noise.exp())
        return frequencies.new_tensor(
            problem.posterior(frequencies, log_weights, *scales).log_evidence
        )
    value: Tensor = _LogEvidence.apply(
        problem, frequencies, log_weights, log_outputscale, log_noise
    )
    return value


class EvidenceLoss:
    """Loss `frequencies, weights -> -log evidence per target`; see `evidence_loss`."""

    def __init__(
        self, problem: SpectrumEvidence, lengthscale: FloatArray, outputscale: float, noise: float
    ) -> None:
        self.problem = problem
        self.lengthscale = lengthscale
        self.log_scales = torch.tensor([outputscale, noise], dtype=torch.float64).log()

    @property
    def dim(self) -> int:
        """Input dimension d."""
        return len(self.lengthscale)

    def __call__(self, frequencies: Tensor, weights: Tensor | None = None) -> Tensor:
        """Nats per target, differentiable; weights (m,) of sum one, equal if None."""
        check_frequencies(frequencies, self.dim)
        frequencies, weights = with_weights(frequencies, weights)
        log_weights = weights.clamp_min(torch.finfo(torch.float64).tiny).log()
        scaled = frequencies / torch.as_tensor(self.lengthscale, device=frequencies.device)
        value = log_evidence_of(self.problem, scaled, log_weights, *self.log_scales)
        return -value / (self.problem.n_rows * self.problem.n_outputs)


def evidence_loss(
    X: ArrayLike,
    y: ArrayLike,
    *,
    lengthscale: ArrayLike,
    outputscale: float,
    noise: float,
) -> EvidenceLoss:
    """Loss that measures a spectrum by its evidence on a table.

    `loss(frequencies, weights=None)` is minus the log evidence over the number of targets, in nats:
    a differentiable scalar of frequencies (m, d) in units of one over the lengthscale, as a
    coupling draws them, and weights (m,) of sum one. O(n M^2) time, O(M^2) memory. The evidence of
    a spectrum fitted to it is no measure of its predictions: they become over-confident.

    Parameters
    ----------
    X, y
        Inputs (n, d) and targets (n,) or (n, k), of mean zero.
    lengthscale, outputscale, noise
        Hyperparameters; the variances in the units of y squared.

    Raises
    ------
    InvalidInputError
        An array is empty, not finite or of a shape that does not fit; a hyperparameter is not
        positive.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> loss = cgp.evidence_loss(X, np.sin(X[:, 0]), lengthscale=1.0, outputscale=1.0, noise=0.01)
    >>> far = torch.full((1, 1), 9.0, dtype=torch.float64)
    >>> bool(loss(torch.ones_like(far)) < loss(far))
    True
    """
    inputs, targets = check_table(X, y)
    hyper = check_hyperparameters(inputs.shape[1], lengthscale, outputscale, noise)
    problem = SpectrumEvidence(inputs - inputs.mean(axis=0), targets)
    return EvidenceLoss(problem, hyper.lengthscale, hyper.outputscale, hyper.noise)
