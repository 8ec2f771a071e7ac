"""Variances of groups of weights and of noise from sums over the rows, without a further pass.

    Y = Psi W + E ,   w_i ~ N(0, tau_g I) for the weights i of group g ,   e_i ~ N(0, s r_i) .

With `A = Psi' R^-1 Psi / s + diag(1 / tau)`, mean `w = A^-1 Psi' R^-1 Y / s` and covariance
`Sigma = A^-1`, MacKay's fixed point of the log evidence is (MacKay, 1992; Tipping, 2001)

    gamma_g = m_g - tr(Sigma_gg) / tau_g ,   tau_g <- |w_g|^2 / (k gamma_g) ,
    s <- tr((Y - Psi w)' R^-1 (Y - Psi w)) / (k (n - sum_g gamma_g)) ,

with `m_g` weights in a group, k outputs and n observations. `gamma_g` is the number of weights of a
group that the data determine. A step costs O(M^3) and no gradient is taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray, IntArray

# Least and greatest variance of a group, of normalised targets.
LEAST_VARIANCE, CEILING = 1e-8, 1e8
# Determined weights below which a group is superfluous.
SUPERFLUOUS = 0.5
# Least share of its weights that counts as determined: fewer are rounding of the trace.
LEAST_DETERMINED = 1e-10
# Most steps, and the gain of the log evidence, nats, below which they end.
MOST_STEPS, LEAST_GAIN = 200, 0.01


class WeightSums(NamedTuple):
    """Sums over rows whose noise has the variance `s r_i`.

    Attributes
    ----------
    gram : FloatArray (M, M)
        `Psi' R^-1 Psi`.
    cross : FloatArray (M, k)
        `Psi' R^-1 Y`.
    squares : FloatArray (k,)
        Diagonal of `Y' R^-1 Y`.
    log_noise : float
        `sum_i log r_i`, over rows.
    n_counted : float
        Observations n, each row as often as it counts.
    """

    gram: FloatArray
    cross: FloatArray
    squares: FloatArray
    log_noise: float
    n_counted: float


class GroupVariances(NamedTuple):
    """Variances of greatest evidence that were found.

    Attributes
    ----------
    variances : FloatArray (G,)
        `tau_g`.
    noise : float
        s.
    log_evidence : float
        Nats of all outputs.
    determined : FloatArray (G,)
        `gamma_g`.
    n_steps : int
    converged : bool
        Whether the steps ended since the evidence grew no more.
    """

    variances: FloatArray
    noise: float
    log_evidence: float
    determined: FloatArray
    n_steps: int
    converged: bool

    @property
    def n_superfluous(self) -> int:
        """Number of groups of which the data determine less than half a weight."""
        return int((self.determined < SUPERFLUOUS).sum())


def fit_group_variances(
    sums: WeightSums,
    groups: IntArray,
    start: FloatArray,
    noise: float,
    *,
    fits_noise: bool = True,
    least_noise: float = 1e-10,
    most_steps: int = MOST_STEPS,
) -> GroupVariances:
    """Variances of groups, and of noise, of greatest evidence by MacKay's fixed point.

    The step of the greatest evidence is returned, since the fixed point need not rise in every one.

    Parameters
    ----------
    sums
        Sums over the rows.
    groups
        Number (M,) of the group of each weight, from 0 upwards.
    start
        Variances (G,) of the first step.
    noise
        Noise variance s of the first step, or the known one.
    fits_noise
        Whether the noise is fitted.
    least_noise
        Least noise variance.
    most_steps
        Most steps.

    Raises
    ------
    NumericalError
        The sums are not finite.
    """
    variances = np.clip(np.asarray(start, dtype=np.float64), LEAST_VARIANCE, CEILING)
    best: GroupVariances | None = None
    previous = -math.inf
    for step in range(most_steps + 1):
        fitted = GroupWeights(sums, groups, variances, noise)
        value = fitted.log_evidence
        converged = bool(value - previous < LEAST_GAIN)
        found = GroupVariances(variances, noise, value, fitted.determined, step, converged)
        if best is None or value >= best.log_evidence:
            best = found
        if converged:
            break
        previous = value
        n_outputs = sums.cross.shape[1]
        size = np.bincount(groups, np.square(fitted.mean).sum(axis=1), variances.size)
        variances = np.clip(size / (n_outputs * fitted.determined), LEAST_VARIANCE, CEILING)
        if fits_noise:
            free = max(sums.n_counted - float(fitted.determined.sum()), 1.0)
            noise = max(fitted.residual / (n_outputs * free), least_noise)
    assert best is not None
    return best._replace(n_steps=step, converged=converged)


class GroupWeights:
    """The posterior of the weights at some variances, with `B = D A D`, `D = diag(tau)^1/2`.

    Attributes
    ----------
    mean : FloatArray (M, k)
        w.
    determined : FloatArray (G,)
        `gamma_g`.
    residual : float
        `tr((Y - Psi w)' R^-1 (Y - Psi w))`.
    log_evidence : float
    """

    def __init__(
        self, sums: WeightSums, groups: IntArray, variances: FloatArray, noise: float
    ) -> None:
        root = np.sqrt(variances)[groups]
        scaled = sums.gram * (root[:, None] * root / noise)
        n_weights, n_outputs = sums.cross.shape
        scaled.flat[:: n_weights + 1] += 1.0
        try:
            factor = scipy.linalg.cholesky(scaled, lower=True)
        except (np.linalg.LinAlgError, ValueError) as error:
            raise NumericalError(
                "groups: the posterior of the weights is not finite; check that features and "
                "targets are of moderate size"
            ) from error
        right = root[:, None] * sums.cross / noise
        half = scipy.linalg.solve_triangular(factor, right, lower=True)
        self.mean = root[:, None] * scipy.linalg.solve_triangular(factor, half, lower=True, trans=1)
        inverse = scipy.linalg.solve_triangular(factor, np.eye(n_weights), lower=True)
        prior_share = np.bincount(groups, np.square(inverse).sum(axis=0), variances.size)
        sizes = np.bincount(groups, minlength=variances.size)
        self.determined = np.maximum(sizes - prior_share, LEAST_DETERMINED * sizes)
        fitted = np.einsum("ik,ij,jk->k", self.mean, sums.gram, self.mean, optimize=True)
        gaps = sums.squares - 2.0 * np.einsum("ik,ik->k", self.mean, sums.cross) + fitted
        self.residual = max(float(gaps.sum()), 0.0)
        quadratic = float(sums.squares.sum()) / noise - float(np.square(half).sum())
        log_det = 2.0 * float(np.log(factor.diagonal()).sum()) + sums.log_noise
        constant = sums.n_counted * math.log(2.0 * math.pi * noise)
        self.log_evidence = float(-0.5 * (quadratic + n_outputs * (log_det + constant)))
