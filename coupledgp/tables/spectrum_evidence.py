"""Log evidence of Fourier features as a function of their frequencies and weights (MATH 4, 6).

The features are `phi_i(x) = sqrt(a_i) [sin(w_i . x), cos(w_i . x)]`, `y = sqrt(v) Phi u + e`. With
`A = Phi' Phi + lam I`, `u = A^-1 Phi' y` and the gradient `G = d log p / d Phi` of
`feature_gradients`, whose part in the phases is `Z = G_sin * Phi_cos - G_cos * Phi_sin`,

    d log p / d w = Z' X,
    d log p / d log a_i = 1/2 sum_j [ |u_j|^2 / v - k (1 - lam A^-1_jj) ],  j the two features of i.

Both passes over the rows go chunk by chunk, O(n M^2) time and O(M^2) memory for any n.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.normal_equations import solve_ridge
from coupledgp.core.posterior_kl import (
    check_frequencies,
    check_hyperparameters,
    check_table,
    with_weights,
)
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.weights_evidence import feature_gradients, normal_equations
from coupledgp.core.weights_posterior import FeatureStream, WeightPosterior
from coupledgp.features import FourierFeatures
from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.random import FloatArray


class EvidenceLoss:
    """Loss `frequencies, weights -> -log evidence per target`; see `evidence_loss`.

    Parameters
    ----------
    X
        Inputs (n, d), near the origin: a shift changes no evidence, but loses digits of the phases.
    targets
        Targets (n, k).
    hyperparameters
        Lengthscales (d,) and variances.
    """

    def __init__(
        self, X: FloatArray, targets: FloatArray, hyperparameters: Hyperparameters
    ) -> None:
        self.X, self.targets, self.hyperparameters = X, targets, hyperparameters
        # As logarithms and back: the last digit of a fit depends on it.
        scales = [hyperparameters.outputscale, hyperparameters.noise]
        self._scales = torch.tensor(scales, dtype=torch.float64).log().exp().tolist()
        self._map: FourierFeatures | None = None

    @property
    def dim(self) -> int:
        """Input dimension d."""
        return self.X.shape[1]

    def __call__(self, frequencies: Tensor, weights: Tensor | None = None) -> Tensor:
        """Nats per target, differentiable; weights (m,) of sum one, equal if None."""
        check_frequencies(frequencies, self.dim)
        frequencies, weights = with_weights(frequencies, weights)
        log_weights = weights.clamp_min(torch.finfo(torch.float64).tiny).log()
        lengthscale = torch.as_tensor(self.hyperparameters.lengthscale, device=frequencies.device)
        scaled = frequencies / lengthscale
        if torch.is_grad_enabled():
            value: Tensor = _LogEvidence.apply(self, scaled, log_weights)
        else:  # the gradient would take a second pass
            equations = normal_equations(self._stream(scaled, log_weights), self.targets, None)
            posterior = WeightPosterior.from_moments(equations, *self._scales)
            value = frequencies.new_tensor(posterior.log_evidence)
        return -value / self.targets.size

    def _stream(self, frequencies: Tensor, log_weights: Tensor) -> FeatureStream:
        weights = log_weights.exp()
        if self._map is None:
            self._map = FourierFeatures.from_frequencies(frequencies, "iid", "gaussian")
        # Any positive weights will do here, so they go past the check that their sum is one.
        self._map.frequencies, self._map.weights = frequencies, weights
        self._map.n_frequencies, dim = frequencies.shape
        return FeatureStream(self._map, self.X, np.zeros(dim), np.ones(dim))

    def log_evidence_and_gradients(
        self, frequencies: Tensor, log_weights: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        """Log evidence, nats, and its gradients in frequencies (m, d) and log weights (m,)."""
        stream, (v, s) = self._stream(frequencies, log_weights), self._scales
        equations = normal_equations(stream, self.targets, None)
        factor, weights, value = solve_ridge(equations, v, s)
        inverse = torch.cholesky_inverse(factor)
        explained = self.targets.shape[1] * (1 - s / v * inverse.diagonal())
        by_feature = weights.square().sum(1) / v - explained
        assert self._map is not None
        gradient = torch.zeros_like(self._map.frequencies)
        for inputs, features, upstream in feature_gradients(
            stream, self.targets, weights, inverse, s
        ):
            gradient.addmm_(self._map.phase_gradient(features, upstream).T, inputs)
        return value, gradient, 0.5 * by_feature.reshape(2, -1).sum(0)


class _LogEvidence(Differentiable):
    """Log evidence as one differentiable operation."""

    @staticmethod
    def forward(ctx: Any, loss: EvidenceLoss, frequencies: Tensor, log_weights: Tensor) -> Tensor:
        """Log evidence; the gradients are computed at once and kept."""
        value, *gradients = loss.log_evidence_and_gradients(
            frequencies.detach(), log_weights.detach()
        )
        ctx.save_for_backward(*gradients)
        return frequencies.new_tensor(value)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        """Scale the gradients."""
        return None, *(upstream * gradient for gradient in ctx.saved_tensors)


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
    return EvidenceLoss(inputs - inputs.mean(axis=0), targets, hyper)
