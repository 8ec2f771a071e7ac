"""Log evidence of a table under an expression of kernels, dense: O(n^3) time, O(n^2) memory."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from coupledgp.errors import NumericalError
from coupledgp.inference.evidence.objective import Box, VectorObjective
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.kernels.row_covariance import RowCovariance
from coupledgp.random import FloatArray

# Mean and standard deviation of the prior of the logarithm of the noise, and its least value.
NOISE_PRIOR, LEAST_NOISE = (-3.0, 2.5), 1e-9
# Bounds of the other logarithms.
WIDEST_LOGARITHM = 9.0


class ExpressionEvidence(VectorObjective):
    """Minus the log posterior of hyperparameters per observation, and its gradient.

    Variables (1 + q,) are logarithms of the noise variance and of the hyperparameters of the
    kernel. With `A = K + s R`, `alpha = A^-1 y` and `G = (k A^-1 - alpha alpha') / 2`, the gradient
    of minus the log evidence of k outputs is `sum_ij G_ij dA_ij`.

    Parameters
    ----------
    covariance
        Covariance of the rows.
    rows
        Standardised rows (n, D).
    targets
        Normalised targets (n, k).
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    known_noise
        Noise variance in normalised units, where it is known.
    """

    def __init__(
        self,
        covariance: RowCovariance,
        rows: FloatArray,
        targets: FloatArray,
        weights: RowWeights | None = None,
        known_noise: float | None = None,
    ) -> None:
        self.covariance, self.rows, self.targets = covariance, rows, targets
        self.weights = RowWeights.ones(len(rows)) if weights is None else weights
        self.known_noise = known_noise
        self.size = self.weights.n_counted * targets.shape[1]
        priors = [NOISE_PRIOR, *((each.mean, each.width) for each in covariance.parameters)]
        self.means, self.widths = np.array(priors).T

    @property
    def start(self) -> FloatArray:
        """Variables (1 + q,) at the means of the priors."""
        start = self.means.copy()
        if self.known_noise is not None:
            start[0] = math.log(self.known_noise)
        return start

    def box(self, start: FloatArray) -> Box:
        noise = (math.log(LEAST_NOISE), WIDEST_LOGARITHM)
        if self.known_noise is not None:
            noise = (math.log(self.known_noise),) * 2
        return [noise] + [
            (mean - WIDEST_LOGARITHM, mean + WIDEST_LOGARITHM) for mean in self.means[1:]
        ]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """See the base class.

        Raises
        ------
        NumericalError
            The covariance has no Cholesky factor.
        """
        noise, n_outputs = math.exp(variables[0]), self.targets.shape[1]
        found = self.covariance.evaluate(self.rows, self.rows, variables[1:])
        diagonal = noise * self.weights.relative_noise
        whole = found.covariance.copy()
        whole.flat[:: len(whole) + 1] += diagonal
        factor, failed = lapack.dpotrf(whole.T, lower=1, overwrite_a=1)
        if failed:
            raise NumericalError("K + noise I has no Cholesky factor at these hyperparameters")
        logdet = 2 * np.log(np.diagonal(factor)).sum()
        alpha, _ = lapack.dpotrs(factor, self.targets, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        quad = float((self.targets * alpha).sum())
        n_rows = len(self.rows)
        value = 0.5 * (quad + n_outputs * (logdet + n_rows * math.log(2 * math.pi)))
        value -= n_outputs * self.weights.log_repetition(noise)
        cotangent = 0.5 * (n_outputs * inverse - alpha @ alpha.T)
        of_noise = float(np.diagonal(cotangent) @ diagonal)
        of_noise += 0.5 * n_outputs * (self.weights.n_counted - n_rows)
        gradient = np.append(of_noise, found.pull(cotangent))
        gaps = (variables - self.means) / self.widths
        if self.known_noise is not None:
            gaps[0], gradient[0] = 0.0, 0.0
        value += 0.5 * float(gaps @ gaps)
        return value / self.size, (gradient + gaps / self.widths) / self.size
