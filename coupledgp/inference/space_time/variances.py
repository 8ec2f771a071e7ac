"""Variances of terms of series given complete data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from coupledgp.ground.compiled import compiled, part, share_rows
from coupledgp.inference.space_time.factors import LANES, predict, room_for_rows, spread, update
from coupledgp.inference.space_time.gains import MOST_GROUPS, Dynamics, Gains
from coupledgp.inference.space_time.products import multiply
from coupledgp.inference.space_time.recursions import EVERY, STATIONARY
from coupledgp.random import FloatArray

# Numbers of the factors of covariances that a thread keeps at once.
KEPT = 2**22


def posterior_variances(
    shared: Dynamics, gains: Gains, asked: FloatArray, asked_constants: FloatArray,
    constants: FloatArray, whole: int,
) -> FloatArray:  # fmt: skip
    """Return variances (k, G, LANES, n) of sums of terms given complete data where it is seen.

    Given the constant terms' sum, of variance c, a sum `g + e` of other terms g and constants e has
    the variance V of g that the smoother knows and that of e, `(1 - r) v`, `r = v / c`; its mean
    depends on that sum as `r - (K_g b)(t)`, `b = B^-1 1`. So its variance is

        V(t) + (1 - r) v + c / (1 + c 1'b) (r - (K_g b)(t))^2 .

    Parameters
    ----------
    asked
        Outputs (k, G, d, LANES) of g, for k sums.
    asked_constants
        v (k, G, LANES).
    constants
        c (G, LANES).
    whole
        Number of the sum that is that of all terms; negative if there is none.
    """
    n_asked, n_groups, n = asked.shape[0], asked.shape[1], shared.n_times
    found = np.empty((n_asked, n_groups, LANES, n))
    parts = np.divide(
        asked_constants, constants, out=np.zeros_like(asked_constants), where=constants > 0.0
    )
    space = shared.space
    start, noises = shared.factors
    size = max(KEPT // max(space.n_states**2 * LANES, 1), 1)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        room = np.empty((n_asked, n, LANES))
        for first, last in blocks:
            for g in range(first, last):
                fill_variances(
                    gains.outputs[g], shared.noise, start, space.transitions, noises, space.steps,
                    shared.seen, gains.records[g], shared.stop,
                    np.ascontiguousarray(asked[:, g]), whole, size, room,
                )  # fmt: skip
                if constants[g].any():
                    _add_constants(shared, gains, g, asked[:, g], parts[:, g], room)
                    room += ((1.0 - parts) * asked_constants)[:, g, None]
                found[:, g] = np.swapaxes(room, 1, 2)

    share_rows(work, n_groups, 1, MOST_GROUPS)
    return found


def _add_constants(
    shared: Dynamics, gains: Gains, g: int, asked: FloatArray, parts: FloatArray, found: FloatArray
) -> None:
    """Add `c / (1 + c 1'b) (r - K_g b)^2` of a group to variances (k, n, LANES)."""
    space = shared.space
    product = np.empty((shared.n_times, LANES))
    for outputs, solved, variances in zip(asked, parts, found, strict=True):
        outputs = np.ascontiguousarray(outputs)
        multiply(gains.answers[g], product, outputs, space.stationary_times(outputs),
                 space.transitions, space.steps)  # fmt: skip
        variances += gains.shares[g] * (solved - product) ** 2


@compiled
def fill_variances(
    outputs: Any, noise: Any, start: Any, moves: Any, noises: Any, steps: Any, seen: Any,
    records: Any, stop: Any, asked: Any, whole: Any, size: Any, found: Any,
) -> None:  # fmt: skip
    """Write variances (k, n, LANES) of `g'x` given the data, for g in `asked` (k, d, LANES).

    The other arguments are those of `fill_records`. Places are the r times at which the covariance
    of the state is not stationary yet, and the times from `stop` on. `N <- h h'/S + L'N L`, `L = A
    (I - G h')`, `V_t = P_t - P_t N P_t`. Row `whole` of `asked` is h (none if negative): `h'V h = s
    - s^2 (A^-1)_tt` is taken where s is less than `h'P h`, as its error is a rounding of s and the
    error of the other difference a rounding of P. Factors of P are stored at `size` places at once;
    factors at earlier places are computed anew when they are needed.
    """
    n_states, n_records = outputs.shape[0], records.shape[0]
    n_places = n_records + steps.size - stop
    size = min(size, n_places)
    n_kept = -(-n_places // size)
    # Factors at the first place of each of the parts, and at all places of one part.
    marks = (np.zeros((n_kept, n_states, n_states, LANES)), np.zeros((n_kept, n_states, LANES)))
    held = (np.zeros((size, n_states, n_states, LANES)), np.zeros((size, n_states, LANES)))
    spread(start, marks[0][0], marks[1][0])
    for kept in range(n_kept - 1):
        _fill(kept, outputs, noise, moves, noises, steps, seen, n_records, stop, marks, held)
    past, work = np.zeros((n_states, n_states, LANES)), np.zeros((n_states, n_states, LANES))
    before, room = np.full((n_states, n_states, LANES), np.inf), np.zeros((3, n_states, LANES))
    inverse = np.zeros(LANES)
    for kept in range(n_kept - 1, -1, -1):
        _fill(kept, outputs, noise, moves, noises, steps, seen, n_records, stop, marks, held)
        first, last = kept * size, min((kept + 1) * size, n_places)
        for place in range(last - 1, first - 1, -1):
            upper, diagonal = held[0][place - first], held[1][place - first]
            if place >= n_records:
                _project(upper, diagonal, past, asked, room, found[:, place - n_records + stop])
                continue
            # The covariance of the last record is that of all times up to `stop`.
            t = stop - 1 if place == n_records - 1 else place
            while t >= place:
                _back(moves, steps[t], past, work)
                if seen[t]:
                    _inform(outputs, records, place, past, room, inverse)
                _project(upper, diagonal, past, asked, room, found[:, t])
                if seen[t] and whole >= 0:
                    for w in range(LANES):
                        if records[place, 0, w] * noise < 0.5:
                            exact = noise * (1.0 - noise * inverse[w])
                            found[whole, t, w] = max(exact, 0.0)
                if t > place and (stop - 1 - t) % EVERY == 0:
                    if _is_same(past, before):
                        _repeat(found, place, t)
                        t = place
                    _copy(past, before)
                t -= 1


@part
def _fill(
    kept: Any, outputs: Any, noise: Any, moves: Any, noises: Any, steps: Any, seen: Any,
    n_records: Any, stop: Any, marks: Any, held: Any,
) -> None:  # fmt: skip
    """Fill the factors of the part behind a mark, and the next mark."""
    n_states = outputs.shape[0]
    gains, work = np.zeros((n_states, LANES)), np.zeros((5, LANES))
    rows = room_for_rows(n_states)
    upper, diagonal = marks[0][kept].copy(), marks[1][kept].copy()
    first, size = kept * held[1].shape[0], held[1].shape[0]
    n_places = n_records + steps.size - stop
    for place in range(first, min(first + size, n_places)):
        t = place if place < n_records else place - n_records + stop
        _copy(upper, held[0][place - first])
        _copy(diagonal, held[1][place - first])
        if t < stop and seen[t]:
            gains[:] = 0.0
            update(upper, diagonal, outputs, noise, gains, work)
        step = steps[stop - 1 if place == n_records - 1 else t]
        predict(upper, diagonal, moves, noises, step, rows, work)
    if kept + 1 < marks[1].shape[0]:
        _copy(upper, marks[0][kept + 1])
        _copy(diagonal, marks[1][kept + 1])


@part
def _copy(given: Any, target: Any) -> None:
    for i, value in enumerate(given.flat):
        target.flat[i] = value


@part
def _repeat(found: Any, first: Any, last: Any) -> None:
    """Write the variances (k, n, LANES) of the time `last` to those from `first` on before it."""
    for k in range(found.shape[0]):
        for t in range(first, last):
            for w in range(LANES):
                found[k, t, w] = found[k, last, w]


@part
def _is_same(one: Any, other: Any) -> Any:
    """Whether matrices differ by rounding only, in each lane."""
    for w in range(LANES):
        largest, change = 0.0, 0.0
        for a in range(one.shape[0]):
            for b in range(one.shape[1]):
                largest = max(largest, abs(one[a, b, w]))
                change = max(change, abs(one[a, b, w] - other[a, b, w]))
        if not change <= STATIONARY * largest:
            return False
    return True


@part
def _back(moves: Any, step: Any, past: Any, work: Any) -> None:
    """`N <- A' N A`."""
    n_states, width = past.shape[0], moves.shape[1] // 2
    work[:] = 0.0
    for b in range(n_states):
        for k in range(max(b - width, 0), min(b + width + 1, n_states)):
            entry = moves[step, b - k + width, k]
            if entry != 0.0:
                for a in range(n_states):
                    for w in range(LANES):
                        work[a, b, w] += past[a, k, w] * entry
    past[:] = 0.0
    for a in range(n_states):
        for k in range(max(a - width, 0), min(a + width + 1, n_states)):
            entry = moves[step, a - k + width, k]
            if entry != 0.0:
                for b in range(n_states):
                    for w in range(LANES):
                        past[a, b, w] += entry * work[k, b, w]


@part
def _inform(outputs: Any, records: Any, r: Any, past: Any, room: Any, inverse: Any) -> None:
    """`N <- h h'/S + (I - h G') N (I - G h')`, and `(A^-1)_tt` into `inverse`."""
    n_states = outputs.shape[0]
    for w in range(LANES):
        inverse[w] = records[r, 0, w]
    for a in range(n_states):
        for w in range(LANES):
            room[0, a, w] = 0.0
        for k in range(n_states):
            for w in range(LANES):
                room[0, a, w] += past[a, k, w] * records[r, 1 + k, w]
        for w in range(LANES):
            inverse[w] += room[0, a, w] * records[r, 1 + a, w]
    for a in range(n_states):
        for w in range(LANES):
            room[1, a, w] = inverse[w] * outputs[a, w] - room[0, a, w]
    for a in range(n_states):
        for b in range(n_states):
            for w in range(LANES):
                past[a, b, w] += room[1, a, w] * outputs[b, w] - outputs[a, w] * room[0, b, w]


@part
def _project(upper: Any, diagonal: Any, past: Any, asked: Any, room: Any, found: Any) -> None:
    """Write `g'V g` for each g, `V = P - P N P`, `P = U D U'`; `room` is (3, d, LANES)."""
    n_states = diagonal.shape[0]
    for i in range(asked.shape[0]):
        for w in range(LANES):
            found[i, w] = 0.0
        for k in range(n_states):
            for w in range(LANES):
                room[0, k, w] = 0.0
            for a in range(k + 1):
                for w in range(LANES):
                    room[0, k, w] += upper[a, k, w] * asked[i, a, w]
            for w in range(LANES):
                found[i, w] += diagonal[k, w] * room[0, k, w] * room[0, k, w]
                room[0, k, w] *= diagonal[k, w]
        for a in range(n_states):
            for w in range(LANES):
                room[1, a, w] = 0.0
            for k in range(a, n_states):
                for w in range(LANES):
                    room[1, a, w] += upper[a, k, w] * room[0, k, w]
        for a in range(n_states):
            for w in range(LANES):
                room[2, a, w] = 0.0
            for b in range(n_states):
                for w in range(LANES):
                    room[2, a, w] += past[a, b, w] * room[1, b, w]
            for w in range(LANES):
                found[i, w] -= room[1, a, w] * room[2, a, w]
        for w in range(LANES):
            found[i, w] = max(found[i, w], 0.0)
