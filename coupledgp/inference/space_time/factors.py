"""Compiled steps of a Kalman filter on factors of the covariance of the state, `P = U D U'`.

U is upper triangular with ones on its diagonal and D diagonal, so that P is symmetric and
nonnegative whatever is rounded; no difference of covariances is taken. Bierman's update by an
observation and Thornton's step in time: Bierman (1977), Factorization methods for discrete
sequential estimation, chapters 5 and 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.compiled import compiled, part
from coupledgp.random import FloatArray


@compiled
def factor(banded: FloatArray) -> Any:
    """Return U (K, D, D) and the diagonals of D (K, D) of covariances (K, 2w + 1, D).

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
def update(upper: Any, diagonal: Any, output: Any, noise: Any, gain: Any) -> Any:
    """Condition on an observation `h'x + e`, e of variance `noise`; fill the gain G (D,).

    Returns the variance `S = h'P h + noise`.
    """
    n_states = diagonal.size
    total = noise
    for k in range(n_states):
        seen = output[k]
        for i in range(k):
            seen += upper[i, k] * output[i]
        weighted = diagonal[k] * seen
        before = total
        total += seen * weighted
        share = -seen / before
        diagonal[k] *= before / total
        for i in range(k):
            entry = upper[i, k]
            upper[i, k] = entry + gain[i] * share
            gain[i] += entry * weighted
        gain[k] = weighted
    for k in range(n_states):
        gain[k] /= total
    return total


@part
def predict(upper: Any, diagonal: Any, move: Any, noise_upper: Any, noise: Any, work: Any) -> None:
    """Step in time, `P <- A P A' + Q` with `Q = V diag(noise) V'`; `work` is (D, 2 D + 1).

    The rows of `(A U, V)` are made orthogonal in the metric of `(D, noise)`, from the last one up.
    """
    n_states = diagonal.size
    _spread(upper, move, noise_upper, work)
    for j in range(n_states - 1, -1, -1):
        length = 0.0
        for k in range(n_states):
            length += work[j, k] * work[j, k] * diagonal[k]
            length += work[j, n_states + k] * work[j, n_states + k] * noise[k]
        work[j, 2 * n_states] = length
        for i in range(j):
            along = 0.0
            for k in range(n_states):
                along += work[i, k] * work[j, k] * diagonal[k]
                along += work[i, n_states + k] * work[j, n_states + k] * noise[k]
            ratio = along / length if length > 0.0 else 0.0
            for k in range(2 * n_states):
                work[i, k] -= ratio * work[j, k]
            upper[i, j] = ratio
    for j in range(n_states):
        diagonal[j] = work[j, 2 * n_states]


@part
def _spread(upper: Any, move: Any, noise_upper: Any, work: Any) -> None:
    """Write `(A U, V)` into the first 2 D columns of `work`."""
    n_states = upper.shape[0]
    width = move.shape[0] // 2
    for i in range(n_states):
        low, high = max(i - width, 0), min(i + width + 1, n_states)
        for k in range(n_states):
            total = 0.0
            for column in range(low, min(high, k + 1)):
                total += move[column - i + width, i] * upper[column, k]
            work[i, k] = total
            work[i, n_states + k] = noise_upper[i, k]
