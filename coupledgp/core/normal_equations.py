"""Least squares of linear-Gaussian models, their rounding, and weighted rows (MATH section 6).

Errors of posteriors of weights by rounding, in predictive standard deviations (MATH section 6).

The posterior of weights at features `phi` has the mean `phi' w` and the variance
`s phi' A^-1 phi = s |L^-1 phi|^2`. Where `A` and `b` are off by `dA` and `db`, the mean is off by
`phi' A^-1 e`, `e = db - dA w`, at most `|L^-1 e| / sqrt(s)` standard deviations for any `phi`, and
the variance by a share of at most `|L^-1 dA L^-T|`. Errors `dF` of the features themselves make
`e = dF' r - Phi' dF w`, with the residuals `r = y - Phi w`. Rounding has no direction of its own,
so `|L^-1 e|^2` is about `|e|^2 tr(A^-1) / M`.

Posteriors of weights by an orthogonal factor of the rows, without their Gram matrix.

`[Phi, y; sqrt(lam) I, 0] = Q [R, z; 0, rho]`, so that `A = R'R`, `w = R^-1 z` and
`rho' rho = y'y - y' Phi A^-1 Phi' y`, without a square of the condition of `Phi` (Bjorck, Numerical
Methods for Least Squares Problems, 1996, section 2.4). `Q` is never formed: chunk by chunk, the
triangle so far stands above the rows of the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.core.problem import log_evidence
from coupledgp.ground.codec import stored
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.low_rank import GRAM_ROUNDINGS, bounded, inverse_sizes
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


EPS = float(np.finfo(np.float64).eps)
# Errors of an orthogonal factor, as multiples of the rounding of one operation on the norm of the
# rows.
FACTOR_ROUNDINGS = 2.0


@dataclass(frozen=True)
class FeatureRounding:
    """Relative rounding error of features.

    Attributes
    ----------
    eps : float
        Rounding error of one operation of their data type.
    phase : float
        Factor by which the features have it larger: one plus the size of their arguments.
    """

    eps: float = EPS
    phase: float = 1.0

    def entry(self, square: float, count: float) -> float:
        """Error of an entry of features, from the sum of squares of `count` entries."""
        return 0.5 * self.eps * self.phase * math.sqrt(square / max(count, 1.0))


def error_of_sums(
    equations: NormalEquations,
    factor: Tensor,
    weights: Tensor,
    noise: float,
    features: FeatureRounding,
) -> float:
    """Error of a posterior from sums over rows: of the mean in standard deviations, or of these.

    Parameters
    ----------
    equations
        Sums over the rows.
    factor
        Lower Cholesky factor of A (M, M).
    weights
        Mean w (M, k) of the weights.
    noise
        Noise variance s.
    features
        Rounding of the features that were summed.
    """
    size = len(factor)
    trace, norm = inverse_sizes(factor)
    matrix = GRAM_ROUNDINGS * equations.rounding * float(equations.gram.norm())
    length = weights.norm(dim=0)
    terms = matrix * length + EPS * equations.cross_terms()
    residual = (equations.square - (equations.cross * weights).sum(0)).clamp_min(0.0).sqrt()
    entry = features.entry(float(equations.gram.trace()), equations.n_rows * size)
    mean = terms * math.sqrt(trace / size)
    mean = mean + _of_entries(entry, length, residual, trace, min(equations.n_rows, size))
    spread = 0.5 * matrix * norm + entry * math.sqrt(equations.n_rows * norm)
    return bounded(max(float(mean.max()) / math.sqrt(noise), spread))


def error_of_rows(
    factor: Tensor,
    weights: Tensor,
    residual: Tensor,
    square: float,
    n_rows: float,
    noise: float,
    features: FeatureRounding,
) -> float:
    """Error of a posterior by an orthogonal factor of the rows, as `error_of_sums`.

    Parameters
    ----------
    factor, weights, noise, features
        As in `error_of_sums`.
    residual
        Norms (k,) of the residuals.
    square
        Sum of the squares of all features.
    n_rows
        Number n of rows.
    """
    size = len(factor)
    trace, norm = inverse_sizes(factor)
    length = weights.norm(dim=0)
    entry = features.entry(square, n_rows * size)
    own = FeatureRounding(EPS, 2 * FACTOR_ROUNDINGS).entry(square, n_rows * size)
    mean = _of_entries(entry, length, residual, trace, min(n_rows, size))
    mean = (
        mean + _of_entries(own, length, residual, trace, n_rows) + FACTOR_ROUNDINGS * EPS * residual
    )
    spread = (entry + own) * math.sqrt(n_rows * norm)
    return bounded(max(float(mean.max()) / math.sqrt(noise), spread))


def _of_entries(
    entry: float, length: Tensor, residual: Tensor, trace: float, n_directions: float
) -> Tensor:
    """Norms (k,) of `L^-1 e` from independent errors of that size in each feature."""
    return entry * (length * math.sqrt(n_directions) + residual * math.sqrt(trace))


def error_of_evidence(
    equations: NormalEquations, factor: Tensor, weights: Tensor, noise: float
) -> float:
    """Error in nats of a log evidence from sums over rows: `|w' dA w| / 2 s + tr(A^-1 dA) / 2`."""
    matrix = GRAM_ROUNDINGS * equations.rounding * float(equations.gram.norm())
    length = weights.norm(dim=0)
    quadratic = matrix * length.square() + 2 * EPS * equations.cross_terms() * length
    quadratic = quadratic + EPS * equations.square
    trace = len(length) * inverse_sizes(factor)[0]
    return bounded(0.5 * (float(quadratic.sum()) / noise + matrix * trace))


@dataclass(frozen=True)
class SquareRoot:
    """The factor of the rows.

    Attributes
    ----------
    factor : Tensor (M, M)
        `R'`, lower triangular with a diagonal above zero.
    projected : Tensor (M, k)
        z.
    quadratic : Tensor (k,)
        `rho' rho` of each output: `|y - Phi w|^2 + lam |w|^2`.
    square : float
        Sum of the squares of all features.
    lam : float
        The ridge.
    """

    factor: Tensor
    projected: Tensor
    quadratic: Tensor
    square: float
    lam: float

    @classmethod
    def of(cls, chunks: Iterable[tuple[Tensor, Tensor]], lam: float) -> SquareRoot:
        """Factor of chunks of features (b, M) and normalised targets (b, k); at least one."""
        top: Tensor | None = None
        square, size = 0.0, 0
        for features, targets in chunks:
            rows = torch.cat([features.to(targets.dtype), targets], dim=1)
            if top is None:
                size = features.shape[1]
                top = rows.new_zeros(size, rows.shape[1])
                top.diagonal().fill_(math.sqrt(lam))
            square += float(rows[:, :size].square().sum())
            top = torch.linalg.qr(torch.cat([top, rows]), mode="r").R
        assert top is not None
        signs = torch.where(top[:size, :size].diagonal() < 0, -1.0, 1.0).to(top)[:, None]
        upper = signs * top[:size]
        quadratic = top[size:, size:].square().sum(0)
        return cls(upper[:, :size].T.contiguous(), upper[:, size:], quadratic, square, lam)

    def weights(self) -> Tensor:
        """Posterior mean w (M, k) of the weights."""
        return torch.linalg.solve_triangular(self.factor.T, self.projected, upper=True)

    def log_evidence(self, outputscale: float, n_rows: float, log_noise: float = 0.0) -> float:
        """Log evidence in nats of the normalised targets, as `solve_ridge` returns it."""
        quad = float(self.quadratic.sum()) / self.lam
        logdet = 2 * float(self.factor.diagonal().log().sum()) + log_noise
        logdet += (n_rows - len(self.factor)) * math.log(self.lam)
        return log_evidence(quad, logdet, outputscale, n_rows, self.projected.shape[1])


@stored
@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Sums over rows of relative noise r and count c, stored in `Moments`.

    Attributes
    ----------
    precision : float
        Sum of `c / r`.
    count : float
        Sum of c.
    log_noise : float
        Sum of `c log r`.
    target_sum, target_square : Tensor (k,)
        Sums of `c (y - offset)` and of `c (y - offset)^2`.
    """

    precision: float
    count: float
    log_noise: float
    target_sum: Tensor
    target_square: Tensor

    def added(self, weights: Tensor, centred: Tensor) -> WeightedSums:
        """The sums with rows of weights (b, 2) and targets minus the offset (b, k)."""
        noise, counts = weights[:, 0], weights[:, 1]
        return self.merge(
            WeightedSums(
                float((counts / noise).sum()),
                float(counts.sum()),
                float((counts * noise.log()).sum()),
                counts @ centred,
                counts @ centred.square(),
            )
        )

    def merge(self, other: WeightedSums) -> WeightedSums:
        """The sums over the rows of both."""
        mine, its = vars(self), vars(other)
        return WeightedSums(**{name: mine[name] + its[name] for name in mine})

    def copied(self) -> WeightedSums:
        """The same sums in tensors of their own."""
        sums = {name: getattr(self, name).clone() for name in ("target_sum", "target_square")}
        return replace(self, **sums)


def row_factors(weights: Tensor) -> Tensor:
    """`sqrt(c / r)` as a column (b, 1), for weights (b, 2)."""
    return (weights[:, 1:] / weights[:, :1]).sqrt()
