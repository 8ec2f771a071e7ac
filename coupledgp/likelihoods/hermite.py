"""Moments of functions of jointly normal variables, by Hermite expansions.

With normalised Hermite polynomials `he_n` and a standard normal x,

    h(m + s x) = sum_n b_n he_n(x) ,     b_n = E[ h(m + s x) he_n(x) ] .

For two such variables of correlation rho (Mehler's formula)

    E h = b_0 ,     Cov(h_i, h_j) = sum_(n >= 1) rho^n b_n(i) b_n(j) ,

which is positive semidefinite whatever the number of terms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from coupledgp.random import FloatArray

# Nodes of the Gauss-Hermite rule and terms of the expansion. For `h = exp` the relative error of
# mean and variance is below 1e-9 for standard deviations s up to 2; for h with a kink, or one that
# is cut off at a value that z passes with a noticeable probability, 1e-3 of the deviation.
N_NODES, N_TERMS = 96, 40
# Nodes of the trapezoid rule, and where they end, in standard deviations.
N_FINE, FINE_END = 721, 9.0


@cache
def _rule() -> tuple[FloatArray, FloatArray]:
    """Nodes (q,) and the matrix (q, N_TERMS) of weights times polynomials."""
    return _projection(*np.polynomial.hermite_e.hermegauss(N_NODES))


@cache
def _fine_rule() -> tuple[FloatArray, FloatArray]:
    """Nodes (q,) and matrix (q, N_TERMS) of the trapezoid rule, for kinks and steep rises."""
    nodes = np.linspace(-FINE_END, FINE_END, N_FINE)
    return _projection(nodes, np.exp(-0.5 * nodes**2))


def fine_nodes() -> tuple[FloatArray, FloatArray]:
    """Nodes (q,) and weights (q,) of sum one of the trapezoid rule for a standard normal law.

    Its error falls exponentially for analytic functions: for the mean of a sigmoid of a normal
    variable of standard deviation s it is about `exp(-800 / s)`.
    """
    nodes, projection = _fine_rule()
    return nodes, projection[:, 0]


def average(
    function: Callable[[FloatArray], FloatArray], mean: FloatArray, std: FloatArray
) -> FloatArray:
    """Means (p,) of a function of normal variables of moments (p,), by the trapezoid rule."""
    nodes, weights = fine_nodes()
    return np.asarray(function(mean[:, None] + std[:, None] * nodes) @ weights)


def _projection(nodes: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    polynomials = [np.ones_like(nodes), nodes]
    for n in range(1, N_TERMS - 1):
        polynomials.append(
            (nodes * polynomials[n] - np.sqrt(n) * polynomials[n - 1]) / np.sqrt(n + 1)
        )
    return nodes, (weights / weights.sum())[:, None] * np.column_stack(polynomials)


def coefficients(
    function: Callable[[FloatArray], FloatArray], mean: FloatArray, std: FloatArray
) -> FloatArray:
    """Coefficients (p, N_TERMS) of a function of normal variables of moments (p,)."""
    nodes, projection = _rule()
    return np.asarray(function(mean[:, None] + std[:, None] * nodes) @ projection)


def bounded_coefficients(
    function: Callable[[FloatArray], FloatArray], mean: FloatArray, std: FloatArray
) -> FloatArray:
    """Coefficients (p, N_TERMS + 1) of a bounded function that may have kinks.

    The last one has the variance that so few terms leave out. It goes with the powers of
    correlations that come next, so that covariances stay positive semidefinite.
    """
    nodes, projection = _fine_rule()
    values = function(mean[:, None] + std[:, None] * nodes)
    found = values @ projection
    variance = np.square(values - found[:, :1]) @ projection[:, 0]
    rest = np.maximum(variance - variance_of(found), 0.0)
    return np.column_stack([found, np.sqrt(rest)])


def variance_of(expansion: FloatArray) -> FloatArray:
    """Variances (p,) of the expanded functions."""
    return np.asarray(np.square(expansion[:, 1:]).sum(axis=1))


def covariance_of(expansion: FloatArray, correlation: FloatArray) -> FloatArray:
    """Covariance (p, p) of the expanded functions of variables of correlation (p, p)."""
    power, total = np.ones_like(correlation), np.zeros_like(correlation)
    for column in expansion[:, 1:].T:
        power = power * correlation
        total += power * np.multiply.outer(column, column)
    np.fill_diagonal(total, variance_of(expansion))
    return total
