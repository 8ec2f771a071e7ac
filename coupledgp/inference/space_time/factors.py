"""Compiled steps of Kalman filters on factors of the covariance of the state, `P = U D U'`.

U is upper triangular with ones on its diagonal and D diagonal, so that P is symmetric and
nonnegative whatever is rounded; no difference of covariances is taken. Bierman's update by an
observation and Thornton's step in time: Bierman (1977), Factorization methods for discrete
sequential estimation, chapters 5 and 6.

`LANES` series stand side by side in the last axis, over which the innermost loops go: one
instruction of the processor treats several. The axis of the d states comes before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.ground.compiled import compiled, part
from coupledgp.random import FloatArray

# Series that are treated side by side.
LANES = 8


@compiled
def factor(banded: FloatArray) -> Any:
    """Return U (K, d, d) and the diagonals of D (K, d) of covariances (K, 2w + 1, d).

    A pivot that rounding has made negative counts as zero.
    """
    n, n_states = banded.shape[0], banded.shape[2]
    width = banded.shape[1] // 2
    upper, diagonal = np.zeros((n, n_states, n_states)), np.zeros((n, n_states))
    rest = np.zeros((n_states, n_states))
    for i in range(n):
        rest[:] = 0.0
        for row in range(n_states):
            for column in range(max(row - width, 0), min(row + width + 1, n_states)):
                rest[row, column] = banded[i, column - row + width, row]
        for k in range(n_states - 1, -1, -1):
            pivot = max(rest[k, k], 0.0)
            diagonal[i, k] = pivot
            upper[i, k, k] = 1.0
            for a in range(max(k - width, 0), k):
                upper[i, a, k] = rest[a, k] / pivot if pivot > 0.0 else 0.0
            for a in range(max(k - width, 0), k):
                for b in range(max(k - width, 0), k):
                    rest[a, b] -= upper[i, a, k] * pivot * upper[i, b, k]
    return upper, diagonal


@part
def spread(factors: Any, upper: Any, diagonal: Any) -> None:
    """Write the factors `(U, D)` of one covariance, (1, d, d) and (1, d), to all lanes."""
    for i in range(diagonal.shape[0]):
        for w in range(LANES):
            diagonal[i, w] = factors[1][0, i]
        for k in range(diagonal.shape[0]):
            for w in range(LANES):
                upper[i, k, w] = factors[0][0, i, k]


@part
def update(upper: Any, diagonal: Any, outputs: Any, noise: Any, gains: Any, work: Any) -> None:
    """Condition on observations `h'x + e`, e of variance `noise`, for outputs h (d, LANES).

    Fills the gains G (d, LANES), and `work[0]` with the variances `S = h'P h + noise`; `work` is
    (5, LANES).
    """
    n_states = diagonal.shape[0]
    for w in range(LANES):
        work[0, w] = noise
        work[1, w] = 1.0 / noise
    for k in range(n_states):
        for w in range(LANES):
            work[2, w] = outputs[k, w]
        for i in range(k):
            for w in range(LANES):
                work[2, w] += upper[i, k, w] * outputs[i, w]
        for w in range(LANES):
            work[3, w] = diagonal[k, w] * work[2, w]
            work[4, w] = -work[2, w] * work[1, w]
            before = work[0, w]
            work[0, w] = before + work[2, w] * work[3, w]
            work[1, w] = 1.0 / work[0, w]
            diagonal[k, w] *= before * work[1, w]
        for i in range(k):
            for w in range(LANES):
                entry = upper[i, k, w]
                upper[i, k, w] = entry + gains[i, w] * work[4, w]
                gains[i, w] += entry * work[3, w]
        for w in range(LANES):
            gains[k, w] = work[3, w]
    for k in range(n_states):
        for w in range(LANES):
            gains[k, w] *= work[1, w]


@part
def predict(
    upper: Any, diagonal: Any, moves: Any, noises: Any, step: Any, rows: Any, work: Any
) -> None:
    """Step in time, `P <- A P A' + Q` with `Q = V diag(q) V'`, V and q in `noises`.

    The rows of `(A U, V)` are made orthogonal in the metric M of `(D, q)`, from the last one up:
    its share in each row above it is taken off. Row j is zero before column `j - w` of `A U` and
    before column j of V. `rows` is room for the rows, and one times M, (d + 1, 2 d, LANES); `work`
    is (5, LANES).
    """
    n_states, width = diagonal.shape[0], moves.shape[1] // 2
    _fill_rows(upper, moves, noises, step, rows)
    for j in range(n_states - 1, -1, -1):
        first, last = max(j - width, 0), n_states + j
        for w in range(LANES):
            work[0, w] = 0.0
        for k in range(first, n_states):
            for w in range(LANES):
                rows[n_states, k, w] = rows[j, k, w] * diagonal[k, w]
                work[0, w] += rows[j, k, w] * rows[n_states, k, w]
        for k in range(last, 2 * n_states):
            for w in range(LANES):
                rows[n_states, k, w] = rows[j, k, w] * noises[1][step, k - n_states]
                work[0, w] += rows[j, k, w] * rows[n_states, k, w]
        for w in range(LANES):
            work[1, w] = 1.0 / work[0, w] if work[0, w] > 0.0 else 0.0
            upper[j, j, w] = work[0, w]
        for i in range(j):
            for w in range(LANES):
                work[2, w] = 0.0
            for k in range(first, n_states):
                for w in range(LANES):
                    work[2, w] += rows[i, k, w] * rows[n_states, k, w]
            for k in range(last, 2 * n_states):
                for w in range(LANES):
                    work[2, w] += rows[i, k, w] * rows[n_states, k, w]
            for w in range(LANES):
                work[2, w] *= work[1, w]
                upper[i, j, w] = work[2, w]
            for k in range(first, n_states):
                for w in range(LANES):
                    rows[i, k, w] -= work[2, w] * rows[j, k, w]
            for k in range(last, 2 * n_states):
                for w in range(LANES):
                    rows[i, k, w] -= work[2, w] * rows[j, k, w]
    for j in range(n_states):
        for w in range(LANES):
            diagonal[j, w] = upper[j, j, w]
            upper[j, j, w] = 1.0


@part
def _fill_rows(upper: Any, moves: Any, noises: Any, step: Any, rows: Any) -> None:
    """Write `(A U, V)` into the first d rows of `rows`."""
    n_states, width = upper.shape[0], moves.shape[1] // 2
    for i in range(n_states):
        low, high = max(i - width, 0), min(i + width + 1, n_states)
        for k in range(low, n_states):
            for w in range(LANES):
                rows[i, k, w] = 0.0
            for column in range(low, min(high, k + 1)):
                entry = moves[step, column - i + width, i]
                for w in range(LANES):
                    rows[i, k, w] += entry * upper[column, k, w]
        for k in range(i, n_states):
            fresh = noises[0][step, i, k]
            for w in range(LANES):
                rows[i, n_states + k, w] = fresh


@part
def room_for_rows(n_states: Any) -> Any:
    """Room that `predict` takes for rows."""
    return np.zeros((n_states + 1, 2 * n_states, LANES))
