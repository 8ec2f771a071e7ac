"""Points of categories, at equal distances from each other.

Under a kernel `kappa(|a - b| / l)` points at the distance sqrt(2) from each other make an index
kernel: one for equal categories and `kappa(sqrt(2) / l)` for different ones, which is
`exp(-1 / l^2)` for the Gaussian kernel. Over several columns it is a Hamming kernel with a weight
for each column.
"""

from __future__ import annotations

import numpy as np

from coupledgp.random import FloatArray

# A dimension for each level is needed to tell the effects of many levels apart: with 600 levels of
# additive effects and 1500 rows the exact GP has an RMSE of .38 by it, and of .48 to .53 by codes
# of 62 or 122 dimensions, whatever their kind (docs/tables.md). It is given up where it costs too
# much: above this number of levels, or above 256 MB for the column; but not for 62 levels or fewer.
MOST_LEVELS, MOST_VALUES = 512, 2**25
# The points of more levels lie in as many dimensions as two times this prime.
PRIME = 31


def are_exact(n_levels: int, n_rows: int) -> bool:
    """Whether the levels of a column of n_rows get a dimension each."""
    if n_levels <= 2 * PRIME:
        return True
    return n_levels <= MOST_LEVELS and n_levels * n_rows <= MOST_VALUES


def category_points(n_levels: int, exact: bool) -> FloatArray:
    """Points (n_levels + 1, w) of the levels of a category, and last of every level not known.

    If they are `exact`, all distances are sqrt(2): level j is the unit vector e_j, w = n_levels,
    and a level not known is `a (1, ..., 1)` with `a = (1 - sqrt(1 + w)) / w`. Otherwise they are
    `polynomial_points`, w = 62, nearly so far from each other.
    """
    if not exact:
        return polynomial_points(n_levels + 1, PRIME)
    apart = np.full((1, n_levels), (1 - np.sqrt(1 + n_levels)) / n_levels)
    return np.vstack([np.eye(n_levels), apart])


def polynomial_points(n_points: int, prime: int) -> FloatArray:
    """Unit vectors (n_points, 2 prime) that are nearly orthogonal.

    The digits a_1, a_2, ... of the number j of a point, in base p = `prime`, are the coefficients
    of the polynomial `f_j(t) = a_1 t + a_2 t^2 + ...`, and the point is the complex vector

        exp(2 pi i f_j(t) / p) / sqrt(p) ,   t = 0, ..., p - 1 ,

    as real and imaginary parts. Two of them have an inner product of at most
    `(degree of f_i - f_j - 1) / sqrt(p)` by Weil's bound: zero among the first p points, at most
    `1 / sqrt(p)` among the first p^2. The bound holds for degrees below p.
    """
    number, t = np.arange(n_points), np.arange(prime)
    power, phase = t, np.zeros((n_points, prime), dtype=np.int64)
    while number.any():
        phase = (phase + np.outer(number % prime, power)) % prime
        number, power = number // prime, power * t % prime
    angle = 2 * np.pi / prime * phase
    points: FloatArray = np.hstack([np.cos(angle), np.sin(angle)]) / np.sqrt(prime)
    return points
