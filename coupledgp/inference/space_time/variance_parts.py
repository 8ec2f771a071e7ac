"""Variances of random effects, by (restricted) likelihood.

Observations are `a ~ N(X mu, V)`, `V = S + sum_j v_j C_j`, with matrices C_j of what shares an
effect, a known part S, which may be zero, and one column X or none of which mu has a flat prior.
With M the mean of `Re(a a^H)` and `P = V^-1`, or `P = V^-1 - V^-1 X X'V^-1 / X'V^-1 X`,

    loss = log|V| (+ log X'V^-1 X) + tr(P M) ,   slope of v_j = tr(P C_j) - tr(P M P C_j) .
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from coupledgp.linalg.matrices import positive_inverse
from coupledgp.random import FloatArray

# Bounds of logarithms of variances in units of the mean variance of an observation.
LIMITS = (-12.0, 3.0)


def precision_of(V: FloatArray, free: FloatArray | None) -> tuple[FloatArray, float]:
    """P of a covariance (D, D), and `log|V|`, with `log X'V^-1 X` of a free column X (D,)."""
    inverse, logs = positive_inverse(V, "variances of effects: the covariance")
    if free is not None:
        solved = inverse @ free
        size = float(free @ solved)
        logs += float(np.log(size))
        inverse = inverse - np.outer(solved, solved) / size
    return inverse, logs


def variance_loss(
    logs: FloatArray,
    parts: FloatArray,
    M: FloatArray,
    free: FloatArray | None = None,
    known: FloatArray | None = None,
) -> tuple[float, FloatArray]:
    """The loss at logarithms (j,) of the variances of parts (j, D, D), and its slopes.

    M is (D, D), or observations (D,) of which it is the product.
    """
    v = np.exp(logs)
    V = np.tensordot(v, parts, axes=1)
    P, size = precision_of(V if known is None else V + known, free)
    if M.ndim == 1:
        solved = P @ M
        square, inner = float(M @ solved), P - np.outer(solved, solved)
    else:
        square, inner = float((P * M).sum()), P - P @ M @ P
    return size + square, v * np.tensordot(parts, inner, axes=2)


def fitted_parts(
    M: FloatArray,
    parts: FloatArray,
    start: FloatArray,
    free: FloatArray | None = None,
    known: FloatArray | None = None,
    limits: tuple[float, float] = LIMITS,
) -> tuple[FloatArray, float]:
    """Variances (j,) of least loss between limits of their logarithms, and the loss."""
    best = minimize(
        lambda logs: variance_loss(logs, parts, M, free, known), start, jac=True,
        bounds=[limits] * len(parts), method="L-BFGS-B",
    )  # fmt: skip
    return np.exp(best.x), float(best.fun)
