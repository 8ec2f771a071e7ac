"""Compiled recursions in time: products with kernels, and draws of processes.

Buffers (n, LANES) hold a value of each lane at each time, as in the solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.ground.compiled import compiled, part
from coupledgp.inference.space_time.factors import LANES
from coupledgp.inference.space_time.recursions import load, move, move_back, store


@compiled
def multiply_rows(
    values: Any, products: Any, rows: Any, room: Any, outputs: Any, moves_in: Any, moves: Any,
    steps: Any,
) -> None:  # fmt: skip
    """Write products of the rows (LANES,) of `values` (.., n) into the same rows of `products`.

    `room` is (2, n, LANES); see `multiply`.
    """
    load(values, rows, room[0])
    _multiply(room[0], room[1], outputs, moves_in, moves, steps)
    store(room[1], rows, products)


@compiled
def multiply(buffer: Any, found: Any, outputs: Any, moves_in: Any, moves: Any, steps: Any) -> None:
    """Write the products of `k(t, t')` with the values of a buffer into another one.

    `k(t, t') = h' A .. A P h` with the A of the steps between t' and t, for the outputs h of each
    lane (d, LANES); `moves_in` is `P h`.
    """
    _multiply(buffer, found, outputs, moves_in, moves, steps)


@part
def _multiply(buffer: Any, found: Any, outputs: Any, moves_in: Any, moves: Any, steps: Any) -> None:
    n_states, n = outputs.shape[0], buffer.shape[0]
    state, moved = np.zeros((n_states, LANES)), np.zeros((n_states, LANES))
    for t in range(n):
        for w in range(LANES):
            found[t, w] = 0.0
        for k in range(n_states):
            for w in range(LANES):
                state[k, w] += moves_in[k, w] * buffer[t, w]
                found[t, w] += outputs[k, w] * state[k, w]
        move(moves, steps[t], state, moved)
        state, moved = moved, state
    state[:] = 0.0
    for t in range(n - 2, -1, -1):
        for k in range(n_states):
            for w in range(LANES):
                state[k, w] += outputs[k, w] * buffer[t + 1, w]
        move_back(moves, steps[t], state, moved)
        state, moved = moved, state
        for k in range(n_states):
            for w in range(LANES):
                found[t, w] += moves_in[k, w] * state[k, w]


@compiled
def draw_rows(
    normals: Any, drawn: Any, rows: Any, buffer: Any, output: Any, root: Any, moves: Any,
    roots: Any, steps: Any,
) -> None:  # fmt: skip
    """Write draws of the prior, made of normals (n, d, LANES), into the rows (LANES,) of `drawn`.

    `output` is h (d,); `root` (1, 2w + 1, d) and `roots` (K, 2w + 1, d) are those of P and of the
    innovations.
    """
    n_states, n = output.size, buffer.shape[0]
    state, moved = np.zeros((n_states, LANES)), np.zeros((n_states, LANES))
    move(root, 0, normals[0], state)
    for t in range(n):
        for w in range(LANES):
            buffer[t, w] = 0.0
        for k in range(n_states):
            for w in range(LANES):
                buffer[t, w] += output[k] * state[k, w]
        if t + 1 < n:
            move(moves, steps[t], state, moved)
            move(roots, steps[t], normals[t + 1], state)
            for k in range(n_states):
                for w in range(LANES):
                    state[k, w] += moved[k, w]
    store(buffer, rows, drawn)
