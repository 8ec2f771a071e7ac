"""Additive kernels of all pairs of rows, and their gradients, in one pass over the pairs.

With factors `k_j = kappa(r_j)`, `r_j` the distance in the columns of group j in lengthscales, and
weights `w_q`,

    K = sum_q w_q e_q(k_1, ..., k_g) + v_f prod_j k_j .

Without factor j, `e_q^(j) = e_q - k_j e_{q-1}^(j)`; since every factor is at most one, its rounding
is that of `e_q`. No array of the size of the pairs times the columns exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coupledgp.ground.compiled import compiled, part, share_rows
from coupledgp.random import FloatArray, IntArray

# Numbers of the one-column kernels.
MATERN_12, MATERN_32, MATERN_52, GAUSSIAN = range(4)
# Rows of a block that a thread takes at once.
LEAST_ROWS, MOST_ROWS = 4, 256


class AdditivePairs(NamedTuple):
    """An additive kernel at its hyperparameters, and the rows of two tables.

    Attributes
    ----------
    a, b : FloatArray (n, d) and (p, d)
        Rows in units of the lengthscales, columns of a group side by side.
    starts : IntArray (g + 1,)
        First column of each group, and d.
    base : int
        Number of the one-column kernel.
    weights : FloatArray (order,)
        Factors `w_1, w_2, ...` of the orders.
    full : float
        Variance of the full product; zero for none.
    symmetric : bool
        Whether a and b are the same rows.
    """

    a: FloatArray
    b: FloatArray
    starts: IntArray
    base: int
    weights: FloatArray
    full: float
    symmetric: bool

    def gram(self) -> FloatArray:
        """Covariances (n, p)."""
        out = np.empty((len(self.a), len(self.b)))

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                _gram_rows(first, last, *self, out)

        share_rows(work, len(self.a), LEAST_ROWS, MOST_ROWS)
        return _mirrored(out) if self.symmetric else out

    def pull(self, cotangent: FloatArray) -> FloatArray:
        """Gradient of `sum_ij G_ij K_ij`: in `log l` (g,), in each `w_q`, and in `v_f`.

        Parameters
        ----------
        cotangent
            G (n, p).
        """
        n_groups, order = len(self.starts) - 1, len(self.weights)
        if self.symmetric:  # pairs once: those below the diagonal stand for both
            cotangent = (
                np.tril(cotangent, -1) + np.triu(cotangent, 1).T + np.diag(np.diagonal(cotangent))
            )
        out = np.zeros((len(self.a), n_groups + order + 1))

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                _gradient_rows(first, last, *self, cotangent, out)

        share_rows(work, len(self.a), LEAST_ROWS, MOST_ROWS)
        return np.asarray(out.sum(axis=0))


def _mirrored(lower: FloatArray) -> FloatArray:
    """The symmetric matrix of a lower triangle, whatever stands above it."""
    return np.tril(lower) + np.tril(lower, -1).T


@part
def _factor(base, square):  # type: ignore[no-untyped-def]
    """Kernel of one factor at a squared distance, and its logarithmic slope in log l over it."""
    if base == GAUSSIAN:
        return np.exp(-0.5 * square), square
    r = np.sqrt(square)
    if base == MATERN_12:
        return np.exp(-r), r
    if base == MATERN_32:
        s = np.sqrt(3.0) * r
        return (1 + s) * np.exp(-s), s * s / (1 + s)
    s = np.sqrt(5.0) * r
    whole = 1 + s + s * s / 3
    return whole * np.exp(-s), s * s * (1 + s) / (3 * whole)


@part
def _square(a, b, i, j, first, last):  # type: ignore[no-untyped-def]
    total = 0.0
    for column in range(first, last):
        gap = a[i, column] - b[j, column]
        total += gap * gap
    return total


@compiled
def _gram_rows(first, last, a, b, starts, base, weights, full, symmetric, out):  # type: ignore[no-untyped-def]
    """Rows first..last-1 of the covariance; of a symmetric one up to the diagonal."""
    order = len(weights)
    sums = np.empty(order + 1)
    for i in range(first, last):
        end = i + 1 if symmetric else len(b)
        for j in range(end):
            sums[:] = 0.0
            sums[0] = 1.0
            product = full
            for group in range(len(starts) - 1):
                square = _square(a, b, i, j, starts[group], starts[group + 1])
                k, _ = _factor(base, square)
                product *= k
                for q in range(order, 0, -1):
                    sums[q] += k * sums[q - 1]
            total = product
            for q in range(order):
                total += weights[q] * sums[q + 1]
            out[i, j] = total


@compiled
def _gradient_rows(first, last, a, b, starts, base, weights, full, symmetric, cotangent, out):  # type: ignore[no-untyped-def]
    """Contributions of rows first..last-1 to the gradient, each in its own row of `out`."""
    order, n_groups = len(weights), len(starts) - 1
    sums, k, slopes = np.empty(order + 1), np.empty(n_groups), np.empty(n_groups)
    for i in range(first, last):
        end = i + 1 if symmetric else len(b)
        for j in range(end):
            sums[:] = 0.0
            sums[0] = 1.0
            product = 1.0
            for group in range(n_groups):
                square = _square(a, b, i, j, starts[group], starts[group + 1])
                k[group], slopes[group] = _factor(base, square)
                product *= k[group]
                for q in range(order, 0, -1):
                    sums[q] += k[group] * sums[q - 1]
            weight = cotangent[i, j]
            for group in range(n_groups):
                without, total = 1.0, 0.0
                for q in range(order):
                    total += weights[q] * without
                    without = sums[q + 1] - k[group] * without
                total = (total * k[group] + full * product) * slopes[group]
                out[i, group] += weight * total
            for q in range(order):
                out[i, n_groups + q] += weight * sums[q + 1]
            out[i, n_groups + order] += weight * product
