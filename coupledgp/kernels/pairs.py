"""Additive kernels of all pairs of rows, and their gradients, in one pass over the pairs.

With factors `k_j = kappa(r_j)`, `r_j` the distance in the columns of group j in lengthscales, and
weights `w_q`,

    K = sum_q w_q e_q(k_1, ..., k_g) + v_f prod_j k_j .

Without factor j, `e_q^(j) = e_q - k_j e_{q-1}^(j)`; since every factor is at most one, its rounding
is that of `e_q`. No array of the size of the pairs times the columns exists: a row takes `PAIRS`
pairs at a time, group by group, so that the processor takes several pairs in one instruction.

Exponentials of many numbers in compiled loops, several in one instruction of the processor.

`exp(-x) = 2^m exp(r)` with m the nearest integer to `-x / log 2` and `|r| <= log(2) / 2`. A
polynomial of degree 12 gives `exp(r)` to rounding, and the bits of a float64 hold m. Compilers
leave a call of the library's exponential for each number, which takes five times as long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coupledgp.ground.compiled import FUSED, SUMMED, compiled, part, share_rows
from coupledgp.random import FloatArray, IntArray

# Added to a number below 2^51 it leaves the nearest integer in the last bits of the sum.
ROUNDER = 1.5 * 2.0**52
# Bits of the sum for the integer zero, less the bias of the exponent of a float64.
ZERO = int(np.float64(ROUNDER).view(np.int64)) - 1023
# Largest argument: beyond it `2^m` would have no normal number.
LARGEST = 700.0
# log 2 as a sum whose first part has few bits, so that products with integers are exact.
HIGH, LOW = 0.693145751953125, 1.42860682030941723212e-6
PER_LOG2 = 1.0 / math.log(2.0)
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (1.0 / math.factorial(k) for k in range(2, 13))


@part(FUSED)
def exponentials(values, n, out, bits):  # type: ignore[no-untyped-def]
    """Write `exp(-x)` of n values x >= 0 into `out`, at least exp(-700); `bits` is int64 (n,)."""
    powers = bits.view(np.float64)
    for j in range(n):
        x = -min(values[j], LARGEST)
        powers[j] = x * PER_LOG2 + ROUNDER
        m = powers[j] - ROUNDER
        r = (x - m * HIGH) - m * LOW
        high = C6 + r * (C7 + r * (C8 + r * (C9 + r * (C10 + r * (C11 + r * C12)))))
        out[j] = 1.0 + r * (1.0 + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * high)))))
    for j in range(n):
        bits[j] = (bits[j] - ZERO) << 52
    for j in range(n):
        out[j] *= powers[j]


# Numbers of the one-column kernels.
MATERN_12, MATERN_32, MATERN_52, GAUSSIAN = range(4)
# Rows of a block that a thread takes at once, and pairs of a row whose arrays stay in the cache.
LEAST_ROWS, MOST_ROWS, PAIRS = 4, 256, 128
# Rows from which threads share them.
LEAST_SHARED = 400


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
        columns = np.ascontiguousarray(self.b.T)

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                _gram_rows(first, last, *self._replace(b=columns), out)

        share_rows(work, len(self.a), LEAST_ROWS, MOST_ROWS, LEAST_SHARED)
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
        columns = np.ascontiguousarray(self.b.T)

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                _gradient_rows(first, last, *self._replace(b=columns), cotangent, out)

        share_rows(work, len(self.a), LEAST_ROWS, MOST_ROWS, LEAST_SHARED)
        return np.asarray(out.sum(axis=0))


def _mirrored(lower: FloatArray) -> FloatArray:
    """The symmetric matrix of a lower triangle, whatever stands above it."""
    return np.tril(lower) + np.tril(lower, -1).T


@part(FUSED)
def _factors(row, columns, first, last, begin, n, base, k, slopes, work, bits):  # type: ignore[no-untyped-def]
    """Kernel of one factor for n pairs from `begin`, and its slopes in log l over it."""
    for j in range(n):
        work[j] = 0.0
    for column in range(first, last):
        x, others = row[column], columns[column]
        for j in range(n):
            gap = x - others[begin + j]
            work[j] += gap * gap
    if base == GAUSSIAN:
        for j in range(n):
            slopes[j] = work[j]
            work[j] = 0.5 * work[j]
        exponentials(work, n, k, bits)
        return
    scale = np.sqrt(1.0 if base == MATERN_12 else 3.0 if base == MATERN_32 else 5.0)
    for j in range(n):
        work[j] = scale * np.sqrt(work[j])
    exponentials(work, n, k, bits)
    if base == MATERN_12:
        for j in range(n):
            slopes[j] = work[j]
    elif base == MATERN_32:
        for j in range(n):
            s = work[j]
            slopes[j] = s * s / (1 + s)
            k[j] *= 1 + s
    else:
        for j in range(n):
            s = work[j]
            whole = 1 + s + s * s / 3
            slopes[j] = s * s * (1 + s) / (3 * whole)
            k[j] *= whole


@part(FUSED)
def _add_factor(k, n, order, sums, product):  # type: ignore[no-untyped-def]
    """Take one more factor into the sums of products of each order and the full product."""
    for j in range(n):
        product[j] *= k[j]
    for q in range(order, 0, -1):
        more, fewer = sums[q], sums[q - 1]
        for j in range(n):
            more[j] += k[j] * fewer[j]


@part
def _start(n, order, sums, product):  # type: ignore[no-untyped-def]
    """The sums and the product of no factor."""
    for j in range(n):
        product[j] = 1.0
        sums[0, j] = 1.0
    for q in range(1, order + 1):
        for j in range(n):
            sums[q, j] = 0.0


@part(SUMMED)
def _weighed(weights, values, n):  # type: ignore[no-untyped-def]
    """Sum of the products of weights and values of n pairs."""
    total = 0.0
    for j in range(n):
        total += weights[j] * values[j]
    return total


@compiled
def _gram_rows(first, last, a, columns, starts, base, weights, full, symmetric, out):  # type: ignore[no-untyped-def]
    """Rows first..last-1 of the covariance; of a symmetric one up to the diagonal."""
    order, bits = len(weights), np.empty(PAIRS, np.int64)
    sums, product = np.empty((order + 1, PAIRS)), np.empty(PAIRS)
    k, slopes, work = np.empty(PAIRS), np.empty(PAIRS), np.empty(PAIRS)
    for i in range(first, last):
        end = i + 1 if symmetric else columns.shape[1]
        for begin in range(0, end, PAIRS):
            n = min(PAIRS, end - begin)
            _start(n, order, sums, product)
            for group in range(len(starts) - 1):
                _factors(
                    a[i], columns, starts[group], starts[group + 1], begin, n, base, k, slopes,
                    work, bits,
                )  # fmt: skip
                _add_factor(k, n, order, sums, product)
            found = out[i, begin : begin + n]
            for j in range(n):
                found[j] = full * product[j]
            for q in range(order):
                weight, own = weights[q], sums[q + 1]
                for j in range(n):
                    found[j] += weight * own[j]


@compiled
def _gradient_rows(first, last, a, columns, starts, base, weights, full, symmetric, cotangent, out):  # type: ignore[no-untyped-def]
    """Contributions of rows first..last-1 to the gradient, each in its own row of `out`."""
    order, n_groups = len(weights), len(starts) - 1
    sums, product = np.empty((order + 1, PAIRS)), np.empty(PAIRS)
    k, slopes = np.empty((n_groups, PAIRS)), np.empty((n_groups, PAIRS))
    work, without, bits = np.empty(PAIRS), np.empty(PAIRS), np.empty(PAIRS, np.int64)
    for i in range(first, last):
        end = i + 1 if symmetric else columns.shape[1]
        for begin in range(0, end, PAIRS):
            n = min(PAIRS, end - begin)
            _start(n, order, sums, product)
            for group in range(n_groups):
                _factors(
                    a[i], columns, starts[group], starts[group + 1], begin, n, base, k[group],
                    slopes[group], work, bits,
                )  # fmt: skip
                _add_factor(k[group], n, order, sums, product)
            given = cotangent[i, begin : begin + n]
            for group in range(n_groups):
                own = k[group]
                for j in range(n):
                    without[j] = 1.0
                    work[j] = 0.0
                for q in range(order):
                    weight, whole = weights[q], sums[q + 1]
                    for j in range(n):
                        work[j] += weight * without[j]
                        without[j] = whole[j] - own[j] * without[j]
                for j in range(n):
                    work[j] = (work[j] * own[j] + full * product[j]) * slopes[group, j]
                out[i, group] += _weighed(given, work, n)
            for q in range(order):
                out[i, n_groups + q] += _weighed(given, sums[q + 1], n)
            out[i, n_groups + order] += _weighed(given, product, n)
