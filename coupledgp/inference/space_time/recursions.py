"""Compiled recursions in time: gains, solves with the covariance, products with kernels, draws.

Notation of `StateSpace`; h (D,) is a series' output and s its noise. A record of a time is
`(1/S, G)`, G (D,) the gain; it is zero where nothing is seen. A series has one record for each of
its first times, and the last record holds for all later ones up to `stop`, after which nothing is
seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.compiled import compiled, part
from coupledgp.inference.space_time.factors import predict, update

# Times after which gains are compared, and the relative difference that counts as none.
EVERY, STATIONARY = 64, 1e-14


@compiled
def fill_records(
    output: Any, noise: Any, start: Any, moves: Any, noises: Any, steps: Any, seen: Any, stop: Any,
    regular: Any, records: Any,
) -> Any:  # fmt: skip
    """Fill the records (n, D + 1) of a series until they are stationary.

    Parameters
    ----------
    start, noises
        Factors `(U, D)` of the first covariance (1, D, D), (1, D) and of the innovations (K, ...).
    regular
        First time from which on all steps are equal and something is always seen up to `stop`.

    Returns
    -------
    n_records, log_determinant
        Number of records, and `sum_t log S_t` over what is seen.
    """
    n_states = output.size
    upper, diagonal = start[0][0].copy(), start[1][0].copy()
    gain, work = np.zeros(n_states), np.empty((n_states, 2 * n_states + 1))
    total = 0.0
    for t in range(stop):
        records[t] = 0.0
        if seen[t]:
            gain[:] = 0.0
            variance = update(upper, diagonal, output, noise, gain)
            records[t, 0] = 1.0 / variance
            records[t, 1:] = gain
            total += np.log(variance)
            is_due = t >= regular + EVERY and (t - regular) % EVERY == 0
            if is_due and _is_same(records[t], records[t - EVERY]):
                return t + 1, total + (stop - 1 - t) * np.log(variance)
        step = steps[t]
        predict(upper, diagonal, moves[step], noises[0][step], noises[1][step], work)
    return stop, total


@part
def _is_same(record: Any, before: Any) -> Any:
    """Whether two records differ by rounding only."""
    largest, change = 0.0, 0.0
    for k in range(1, record.size):
        largest = max(largest, abs(record[k]))
        change = max(change, abs(record[k] - before[k]))
    is_still = abs(record[0] - before[0]) <= STATIONARY * record[0]
    return is_still and change <= STATIONARY * largest


@compiled
def solve_series(
    values: Any, solved: Any, series: Any, output: Any, moves: Any, steps: Any, records: Any,
    stop: Any,
) -> None:  # fmt: skip
    """Write `A_i^-1 y` for all right sides y of one series of `values` (m, q, n) into `solved`.

    Koopman (1993), Disturbance smoother for state space models.
    """
    n_states, width, last = output.size, moves.shape[1] // 2, records.shape[0] - 1
    state, moved = np.zeros(n_states), np.zeros(n_states)
    for j in range(values.shape[0]):
        y, u = values[j, series], solved[j, series]
        state[:] = 0.0
        for t in range(stop):
            record = records[min(t, last)]
            error = y[t] if record[0] > 0.0 else 0.0
            for k in range(n_states):
                error -= output[k] * state[k]
            u[t] = error
            for k in range(n_states):
                state[k] += record[1 + k] * error
            _move(moves[steps[t]], state, moved, width)
        state[:] = 0.0
        u[stop:] = 0.0
        for t in range(stop - 1, -1, -1):
            record = records[min(t, last)]
            _move_back(moves[steps[t]], state, moved, width)
            u_t = u[t] * record[0]
            for k in range(n_states):
                u_t -= record[1 + k] * state[k]
            u[t] = u_t
            for k in range(n_states):
                state[k] += output[k] * u_t


@part
def _move(move: Any, state: Any, work: Any, width: Any) -> None:
    """`x <- A x`."""
    n_states = state.size
    for k in range(n_states):
        total = 0.0
        for column in range(max(k - width, 0), min(k + width + 1, n_states)):
            total += move[column - k + width, k] * state[column]
        work[k] = total
    state[:] = work


@part
def _move_back(move: Any, state: Any, work: Any, width: Any) -> None:
    """`x <- A' x`."""
    n_states = state.size
    work[:] = 0.0
    for k in range(n_states):
        for column in range(max(k - width, 0), min(k + width + 1, n_states)):
            work[column] += move[column - k + width, k] * state[k]
    state[:] = work


@compiled
def multiply_row(
    values: Any, found: Any, row: Any, output: Any, move_in: Any, moves: Any, steps: Any
) -> None:
    """Write the product of `k(t, t')` with one row (n,) of `values` into that of `found`.

    `k(t, t') = h' A .. A P h` with the factors A of the steps between t' and t; `move_in` is `P h`.
    """
    y, out = values[row], found[row]
    n_states, n, width = output.size, y.size, moves.shape[1] // 2
    state, moved = np.zeros(n_states), np.zeros(n_states)
    for t in range(n):
        total = 0.0
        for k in range(n_states):
            state[k] += move_in[k] * y[t]
            total += output[k] * state[k]
        out[t] = total
        _move(moves[steps[t]], state, moved, width)
    state[:] = 0.0
    for t in range(n - 2, -1, -1):
        for k in range(n_states):
            state[k] += output[k] * y[t + 1]
        _move_back(moves[steps[t]], state, moved, width)
        total = 0.0
        for k in range(n_states):
            total += move_in[k] * state[k]
        out[t] += total


@compiled
def draw_row(
    normals: Any, drawn: Any, output: Any, root: Any, moves: Any, roots: Any, steps: Any
) -> None:
    """Write a draw (n,) of the prior, made of normals (n, D) and the roots of P and of each Q."""
    n_states, n, width = output.size, drawn.size, moves.shape[1] // 2
    state, moved = normals[0].copy(), np.zeros(n_states)
    _move(root, state, moved, width)
    for t in range(n):
        total = 0.0
        for k in range(n_states):
            total += output[k] * state[k]
        drawn[t] = total
        if t + 1 < n:
            _move(moves[steps[t]], state, moved, width)
            fresh = normals[t + 1]
            _move(roots[steps[t]], fresh, moved, width)
            for k in range(n_states):
                state[k] += fresh[k]
