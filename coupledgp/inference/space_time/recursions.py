"""Compiled recursions in time: gains, and solves with the covariance.

Notation of `StateSpace`; h are outputs and s is the noise. A record of a time is `(1/S, G)` of each
lane (d + 1, LANES), G the gain; it is zero where nothing is seen. There is one record for each of
the first times, and the last record holds for all later ones up to `stop`, after which nothing is
seen. A buffer (n, LANES) holds a value of each lane at each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.ground.compiled import compiled, part
from coupledgp.inference.space_time.factors import LANES, predict, room_for_rows, spread, update

# Times after which gains are compared, and the relative difference that counts as none.
EVERY, STATIONARY = 64, 1e-14
# Times whose values are moved between rows and lanes at once.
TILE = 64


@compiled
def fill_records(
    outputs: Any, noise: Any, start: Any, moves: Any, noises: Any, steps: Any, seen: Any, stop: Any,
    regular: Any, records: Any, total: Any,
) -> Any:  # fmt: skip
    """Fill the records (n, d + 1, LANES) until they are stationary; return their number.

    Parameters
    ----------
    start, noises
        Factors `(U, D)` of the first covariance (1, d, d), (1, d) and of the innovations (K, ...).
    regular
        First time from which on all steps are equal and something is always seen up to `stop`.
    total
        Receives `sum_t log S_t` of each lane over the times with observations.
    """
    n_states = outputs.shape[0]
    upper, diagonal = np.zeros((n_states, n_states, LANES)), np.zeros((n_states, LANES))
    gains, work = np.zeros((n_states, LANES)), np.zeros((5, LANES))
    rows = room_for_rows(n_states)
    spread(start, upper, diagonal)
    total[:] = 0.0
    for t in range(stop):
        if seen[t]:
            gains[:] = 0.0
            update(upper, diagonal, outputs, noise, gains, work)
            for w in range(LANES):
                records[t, 0, w] = work[1, w]
                total[w] += np.log(work[0, w])
                for k in range(n_states):
                    records[t, 1 + k, w] = gains[k, w]
            is_due = t >= regular + EVERY and (t - regular) % EVERY == 0
            if is_due and _is_same(records, t, t - EVERY):
                for w in range(LANES):
                    total[w] += (stop - 1 - t) * np.log(work[0, w])
                return t + 1
        else:
            records[t, :, :] = 0.0
        predict(upper, diagonal, moves, noises, steps[t], rows, work)
    return stop


@part
def _is_same(records: Any, one: Any, other: Any) -> Any:
    """Whether the records of two times differ by rounding only."""
    for w in range(LANES):
        if abs(records[one, 0, w] - records[other, 0, w]) > STATIONARY * records[one, 0, w]:
            return False
        largest, change = 0.0, 0.0
        for k in range(1, records.shape[1]):
            largest = max(largest, abs(records[one, k, w]))
            change = max(change, abs(records[one, k, w] - records[other, k, w]))
        if change > STATIONARY * largest:
            return False
    return True


@compiled
def solve_rows(
    values: Any, solved: Any, rows: Any, buffer: Any, outputs: Any, moves: Any, steps: Any,
    seen: Any, records: Any, stop: Any, answers: Any, shares: Any,
) -> None:  # fmt: skip
    """Write `A^-1 y` of the rows (LANES,) of `values` (.., n) into the same rows of `solved`.

    A negative row stands for none. `A = B + c 1 1'`: the recursions have B, and the part of a
    constant is taken off with `b = B^-1 1`, which are `answers` (n, LANES), of no rows if c = 0,
    and `shares = c / (1 + c 1'b)` (LANES,).
    """
    load(values, rows, buffer)
    solve(buffer, outputs, moves, steps, seen, records, stop)
    if answers.shape[0]:
        means = np.zeros(LANES)
        for t in range(stop):
            for w in range(LANES):
                means[w] += buffer[t, w]
        for w in range(LANES):
            means[w] *= shares[w]
        for t in range(stop):
            for w in range(LANES):
                buffer[t, w] -= answers[t, w] * means[w]
    store(buffer, rows, solved)


@part
def load(values: Any, rows: Any, buffer: Any) -> None:
    """Write the rows (LANES,) of `values` (.., n) into the lanes; a negative row is zero."""
    n = buffer.shape[0]
    for first in range(0, n, TILE):
        last = min(first + TILE, n)
        for w in range(LANES):
            if rows[w] >= 0:
                for t in range(first, last):
                    buffer[t, w] = values[rows[w], t]
            else:
                for t in range(first, last):
                    buffer[t, w] = 0.0


@part
def store(buffer: Any, rows: Any, values: Any) -> None:
    """Write the lanes into the rows (LANES,) of `values` (.., n); a negative row is left out."""
    n = buffer.shape[0]
    for first in range(0, n, TILE):
        last = min(first + TILE, n)
        for w in range(LANES):
            if rows[w] >= 0:
                for t in range(first, last):
                    values[rows[w], t] = buffer[t, w]


@compiled
def solve(
    buffer: Any, outputs: Any, moves: Any, steps: Any, seen: Any, records: Any, stop: Any
) -> None:
    """Replace the values in a buffer by `A^-1 y`; Koopman (1993), Disturbance smoother."""
    n_states, last = outputs.shape[0], records.shape[0] - 1
    state, moved = np.zeros((n_states, LANES)), np.zeros((n_states, LANES))
    error = np.zeros(LANES)
    for t in range(stop):
        r = min(t, last)
        for w in range(LANES):
            error[w] = buffer[t, w] if seen[t] else 0.0
        for k in range(n_states):
            for w in range(LANES):
                error[w] -= outputs[k, w] * state[k, w]
        for w in range(LANES):
            buffer[t, w] = error[w]
        for k in range(n_states):
            for w in range(LANES):
                state[k, w] += records[r, 1 + k, w] * error[w]
        move(moves, steps[t], state, moved)
        state, moved = moved, state
    state[:] = 0.0
    buffer[stop:] = 0.0
    for t in range(stop - 1, -1, -1):
        r = min(t, last)
        move_back(moves, steps[t], state, moved)
        state, moved = moved, state
        for w in range(LANES):
            error[w] = buffer[t, w] * records[r, 0, w]
        for k in range(n_states):
            for w in range(LANES):
                error[w] -= records[r, 1 + k, w] * state[k, w]
        for w in range(LANES):
            buffer[t, w] = error[w]
        for k in range(n_states):
            for w in range(LANES):
                state[k, w] += outputs[k, w] * error[w]


@part
def move(moves: Any, step: Any, state: Any, moved: Any) -> None:
    """Write `A x` into `moved`."""
    n_states, width = state.shape[0], moves.shape[1] // 2
    for k in range(n_states):
        entry = moves[step, width, k]
        for w in range(LANES):
            moved[k, w] = entry * state[k, w]
        for column in range(max(k - width, 0), min(k + width + 1, n_states)):
            entry = moves[step, column - k + width, k]
            if column != k and entry != 0.0:
                for w in range(LANES):
                    moved[k, w] += entry * state[column, w]


@part
def move_back(moves: Any, step: Any, state: Any, moved: Any) -> None:
    """Write `A' x` into `moved`."""
    n_states, width = state.shape[0], moves.shape[1] // 2
    for k in range(n_states):
        entry = moves[step, width, k]
        for w in range(LANES):
            moved[k, w] = entry * state[k, w]
        for row in range(max(k - width, 0), min(k + width + 1, n_states)):
            entry = moves[step, k - row + width, row]
            if row != k and entry != 0.0:
                for w in range(LANES):
                    moved[k, w] += entry * state[row, w]
