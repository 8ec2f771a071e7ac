"""Compiled recursions of the variances of the states given complete data."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.compiled import compiled, part
from coupledgp.inference.space_time.factors import predict, update
from coupledgp.inference.space_time.recursions import EVERY, STATIONARY


@compiled
def fill_variances(
    output: Any, noise: Any, start: Any, moves: Any, noises: Any, steps: Any, seen: Any,
    records: Any, stop: Any, asked: Any, covariances: Any, found: Any,
) -> None:  # fmt: skip
    """Write the variances (k, n) of `g'x` for each row g of `asked` (k, D), given what is seen.

    The other arguments are those of `fill_records`, and `covariances` is room for P at r places:
    the times of records, where it is not stationary yet, and those from `stop` on.
    `N <- h h'/S + L'N L`, `L = A (I - G h')`, `V_t = P_t - P_t N P_t`.
    """
    n_records = records.shape[0]
    _forward(output, noise, start, moves, noises, steps, seen, n_records, stop, covariances)
    n_states = output.size
    past, work = np.zeros((n_states, n_states)), np.zeros((n_states, n_states))
    before = np.full((n_states, n_states), np.inf)
    for t in range(stop, steps.size):
        _project(covariances[n_records + t - stop], past, asked, found[:, t])
    t = stop - 1
    while t >= 0:
        _back(moves[steps[t]], past, work)
        if seen[t]:
            _inform(output, records[min(t, n_records - 1)], past)
        _project(covariances[min(t, n_records - 1)], past, asked, found[:, t])
        if t >= n_records and (stop - 1 - t) % EVERY == 0:
            if np.abs(past - before).max() <= STATIONARY * np.abs(past).max():
                for k in range(asked.shape[0]):
                    found[k, n_records:t] = found[k, t]
                t = n_records
            before[:] = past
        t -= 1


@part
def _forward(
    output: Any, noise: Any, start: Any, moves: Any, noises: Any, steps: Any, seen: Any,
    n_records: Any, stop: Any, covariances: Any,
) -> None:  # fmt: skip
    """Fill the covariances of the state before each record, and at the times from `stop` on."""
    n_states = output.size
    upper, diagonal = start[0][0].copy(), start[1][0].copy()
    gain, work = np.zeros(n_states), np.empty((n_states, 2 * n_states + 1))
    for place in range(covariances.shape[0]):
        t = place if place < n_records else place - n_records + stop
        for a in range(n_states):
            for b in range(n_states):
                total = 0.0
                for k in range(max(a, b), n_states):
                    total += upper[a, k] * diagonal[k] * upper[b, k]
                covariances[place, a, b] = total
        if t < stop and seen[t]:
            gain[:] = 0.0
            update(upper, diagonal, output, noise, gain)
        step = steps[stop - 1 if place == n_records - 1 else t]
        predict(upper, diagonal, moves[step], noises[0][step], noises[1][step], work)


@part
def _back(move: Any, past: Any, work: Any) -> None:
    """`N <- A' N A`."""
    n_states, width = past.shape[0], move.shape[0] // 2
    for a in range(n_states):
        for b in range(n_states):
            total = 0.0
            for k in range(max(b - width, 0), min(b + width + 1, n_states)):
                total += past[a, k] * move[b - k + width, k]
            work[a, b] = total
    for a in range(n_states):
        for b in range(n_states):
            total = 0.0
            for k in range(max(a - width, 0), min(a + width + 1, n_states)):
                total += move[a - k + width, k] * work[k, b]
            past[a, b] = total


@part
def _inform(output: Any, record: Any, past: Any) -> None:
    """`N <- h h'/S + (I - h G') N (I - G h')`."""
    n_states = output.size
    for a in range(n_states):
        total = 0.0
        for k in range(n_states):
            total += past[a, k] * record[1 + k]
        for b in range(n_states):
            past[a, b] -= total * output[b]
    for b in range(n_states):
        total = 0.0
        for k in range(n_states):
            total += record[1 + k] * past[k, b]
        for a in range(n_states):
            past[a, b] += output[a] * (record[0] * output[b] - total)


@part
def _project(covariance: Any, past: Any, asked: Any, found: Any) -> None:
    """Write `g'V g` for each g, `V = P - P N P`."""
    n_states = covariance.shape[0]
    along = np.empty(n_states)
    for i in range(asked.shape[0]):
        variance = 0.0
        for a in range(n_states):
            along[a] = 0.0
            for b in range(n_states):
                along[a] += covariance[a, b] * asked[i, b]
            variance += along[a] * asked[i, a]
        for a in range(n_states):
            total = 0.0
            for b in range(n_states):
                total += past[a, b] * along[b]
            variance -= along[a] * total
        found[i] = max(variance, 0.0)
