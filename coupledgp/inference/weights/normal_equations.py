"""The regularised least-squares problem of a linear-Gaussian model (MATH section 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import log_evidence
from coupledgp.linalg.matrices import cholesky


@dataclass(frozen=True)
class NormalEquations:
    """Everything that the posterior of the weights needs to know of n rows.

    Attributes
    ----------
    gram : Tensor (M, M)
        `Phi' Phi` of features of unit outputscale.
    cross : Tensor (M, k)
        `Phi' y` of the normalised targets.
    square : Tensor (k,)
        `y' y`, one number for each output.
    n_rows : float
        Number n of rows, each as often as it counts.
    log_noise : float
        `RowWeights.log_noise` of the rows, whose sums above have the factors `RowWeights.root`;
        zero for rows that are all alike.
    rounding : float
        Error of `gram` as a share of its norm.
    cancelled : Tensor (k,) or None
        Norms of the sums whose difference `cross` is; None where it is no difference.
    """

    gram: Tensor
    cross: Tensor
    square: Tensor
    n_rows: float
    log_noise: float = 0.0
    rounding: float = float(np.finfo(np.float64).eps)
    cancelled: Tensor | None = None

    def cross_terms(self) -> Tensor:
        """Norms (k,) of the terms of `cross`, of which it carries the rounding errors."""
        terms = (self.gram.trace() * self.square).sqrt()
        return terms if self.cancelled is None else terms + self.cancelled


def solve_ridge(
    equations: NormalEquations, outputscale: float, noise: float
) -> tuple[Tensor, Tensor, float]:
    """Return the Cholesky factor of A (M, M), the mean `A^-1 Phi' y` (M, k), and the log evidence.

    `A = Phi' Phi + lam I`, `lam = noise / outputscale`; the evidence is that of the normalised
    targets, in nats.

    Raises
    ------
    NumericalError
        A is not positive definite to rounding; the message gives a remedy.
    """
    lam = noise / outputscale
    size, n_outputs = equations.cross.shape
    ridge = equations.gram.clone()
    ridge.diagonal().add_(lam)
    factor = cholesky(ridge, "Phi'Phi + (noise / outputscale) I")
    mean = torch.cholesky_solve(equations.cross, factor)
    quad = float(equations.square.sum() - (equations.cross * mean).sum()) / lam
    unreached = equations.n_rows - size
    logdet = 2 * float(factor.diagonal().log().sum()) + unreached * math.log(lam)
    logdet += equations.log_noise
    value = log_evidence(quad, logdet, outputscale, equations.n_rows, n_outputs)
    return factor, mean, value
