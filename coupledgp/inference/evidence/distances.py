"""Distances between rows, by a compiled loop whose sums stay in the processor's cache."""

from __future__ import annotations

import numpy as np

from coupledgp.ground.compiled import compiled
from coupledgp.random import FloatArray


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
