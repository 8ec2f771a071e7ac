"""Errors of posteriors of weights by rounding, in predictive standard deviations (MATH section 6).

The posterior of weights at features `phi` has the mean `phi' w` and the variance
`s phi' A^-1 phi = s |L^-1 phi|^2`. Where `A` and `b` are off by `dA` and `db`, the mean is off by
`phi' A^-1 e`, `e = db - dA w`, at most `|L^-1 e| / sqrt(s)` standard deviations for any `phi`, and
the variance by a share of at most `|L^-1 dA L^-T|`. Errors `dF` of the features themselves make
`e = dF' r - Phi' dF w`, with the residuals `r = y - Phi w`. Rounding has no direction of its own,
so `|L^-1 e|^2` is about `|e|^2 tr(A^-1) / M`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coupledgp.ground.tensors import Tensor
from coupledgp.inference.weights.normal_equations import NormalEquations
from coupledgp.linalg.rounding import GRAM_ROUNDINGS, bounded, inverse_sizes

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
