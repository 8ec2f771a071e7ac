"""Distances between rows, and weighted sums of their powers, by compiled loops.

Gradients of stationary kernels in lengthscales are `sum_ij W_ij |x_ij - c_jk|^p` for each column.
Differences are formed before they are squared, so that near rows lose no digits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coupledgp.ground.compiled import SUMMED, compiled, part, share_rows
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray

# Rows, and tables, of a block that a thread takes at once.
LEAST_ROWS, MOST_ROWS = 4, 256


def scaled_distances(a: FloatArray, b: FloatArray, metric: Metric) -> FloatArray:
    """Distances (n, p) between rows of `a` (n, d) and `b` (p, d), columns in lengthscales."""
    found = np.empty((len(a), len(b)))
    into = distances_into if metric is Metric.L2 else sums_into
    into(np.ascontiguousarray(a), np.ascontiguousarray(b.T), found)
    return found


@compiled
def distances_into(rows: FloatArray, columns: FloatArray, found: FloatArray) -> None:
    """Write Euclidean distances (n, p) between rows (n, d) and columns (d, p) into `found`.

    Four columns at a time are added to the sums of a row, so that these are read less often.
    """
    dim, n_others = columns.shape
    for i in range(rows.shape[0]):
        sums = found[i]
        sums[:] = 0.0
        whole = dim - dim % 4
        for j in range(0, whole, 4):
            x0, x1, x2, x3 = rows[i, j], rows[i, j + 1], rows[i, j + 2], rows[i, j + 3]
            c0, c1, c2, c3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
            for q in range(n_others):
                d0, d1, d2, d3 = x0 - c0[q], x1 - c1[q], x2 - c2[q], x3 - c3[q]
                sums[q] = sums[q] + d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
        for j in range(whole, dim):
            x0, c0 = rows[i, j], columns[j]
            for q in range(n_others):
                d0 = x0 - c0[q]
                sums[q] += d0 * d0
        for q in range(n_others):
            sums[q] = np.sqrt(sums[q])


@compiled
def sums_into(rows: FloatArray, columns: FloatArray, found: FloatArray) -> None:
    """Write sums (n, p) of the columns' distances, of rows (n, d) and columns (d, p)."""
    for i in range(rows.shape[0]):
        sums = found[i]
        sums[:] = 0.0
        for j in range(columns.shape[0]):
            x, others = rows[i, j], columns[j]
            for q in range(columns.shape[1]):
                sums[q] += abs(x - others[q])


def weighted_powers(
    rows: FloatArray, others: FloatArray, weights: FloatArray, order: int
) -> FloatArray:
    """`sum_ij W_ij |a_ik - b_jk|^p` (d,) for rows a (n, d) and b (q, d), and weights W (n, q).

    Parameters
    ----------
    rows, others, weights
        a, b and W.
    order
        The power p, 1 or 2.
    """
    out, columns = np.empty(rows.shape), np.ascontiguousarray(others.T)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            _powers_of_rows(first, last, rows, columns, weights, order, out)

    share_rows(work, len(rows), LEAST_ROWS, MOST_ROWS)
    return np.asarray(out.sum(axis=0))


def weighted_powers_within(tables: FloatArray, weights: FloatArray, order: int) -> FloatArray:
    """`sum_bij W_bij |u_bik - u_bjk|^p` (d,) for tables u (b, n, d) and weights W (b, n, n).

    The weights are symmetric; those of the diagonals have no part.
    """
    out = np.zeros((len(tables), tables.shape[2]))

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            _powers_within(first, last, tables, weights, order, out)

    share_rows(work, len(tables), LEAST_ROWS, MOST_ROWS)
    return 2.0 * np.asarray(out.sum(axis=0))


@part(SUMMED)
def _weighted_sum(x, others, weights, order):  # type: ignore[no-untyped-def]
    total = 0.0
    if order == 1:
        for j in range(len(others)):
            total += weights[j] * abs(x - others[j])
    else:
        for j in range(len(others)):
            gap = x - others[j]
            total += weights[j] * (gap * gap)
    return total


@compiled
def _powers_of_rows(first, last, rows, columns, weights, order, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        for column in range(rows.shape[1]):
            out[i, column] = _weighted_sum(rows[i, column], columns[column], weights[i], order)


@compiled
def _powers_within(first, last, tables, weights, order, out):  # type: ignore[no-untyped-def]
    dim = tables.shape[2]
    for b in range(first, last):
        found = out[b]
        for i in range(tables.shape[1]):
            own = tables[b, i]
            for j in range(i):
                other, weight = tables[b, j], weights[b, i, j]
                if order == 1:
                    for column in range(dim):
                        found[column] += weight * abs(own[column] - other[column])
                else:
                    for column in range(dim):
                        gap = own[column] - other[column]
                        found[column] += weight * (gap * gap)
