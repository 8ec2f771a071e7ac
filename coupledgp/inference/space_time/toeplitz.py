"""Inverses of symmetric Toeplitz blocks, one for each run of gaps.

By the formula of Gohberg and Semencul (1972), `T^-1 = (L(x) L(x)' - L(y) L(y)') / x_0` for the
first column x of the inverse and y = (0, x_{L-1}, ..., x_1), where L(v) is lower triangular and
Toeplitz.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coupledgp.ground.compiled import compiled, part, share_rows
from coupledgp.random import FloatArray, IntArray


@part
def _first_column(r, x, other):  # type: ignore[no-untyped-def]
    """Write the first column x (L,) of the inverse of toeplitz(r), by Durbin's recursion.

    Returns false where a reflection leaves (-1, 1), as the matrix is not positive definite then.
    """
    size = r.size
    error = r[0]
    x[0] = 1.0
    for k in range(1, size):
        total = r[k]
        for j in range(1, k):
            total += x[j] * r[k - j]
        reflection = -total / error
        for j in range(1, k):
            other[j] = x[j] + reflection * x[k - j]
        for j in range(1, k):
            x[j] = other[j]
        x[k] = reflection
        error *= 1.0 - reflection * reflection
        if not error > 0.0:
            return False
    for j in range(size):
        x[j] /= error
    return True


@compiled
def first_columns(symbols, rows, lengths, starts, out):  # type: ignore[no-untyped-def]
    """First columns of the inverses of `toeplitz(symbols[rows[b], :lengths[b]])`, into `out`.

    Block b is written from `starts[b]` on. Returns the number of the first block that is not
    positive definite, or -1.
    """
    other = np.empty(symbols.shape[1])
    for b in range(rows.size):
        column = out[starts[b] : starts[b] + lengths[b]]
        if not _first_column(symbols[rows[b], : lengths[b]], column, other):
            return b
    return -1


@part
def _apply(x, v, out, half):  # type: ignore[no-untyped-def]
    """Write `T^-1 v` (L,) for the first column x of T^-1."""
    size = x.size
    scale = 1.0 / x[0]
    for j in range(size):  # L(x)' v
        total = 0.0
        for k in range(j, size):
            total += x[k - j] * v[k]
        half[j] = total
    for j in range(size):
        total = 0.0
        for k in range(j + 1):
            total += x[j - k] * half[k]
        out[j] = total
    for j in range(size):  # L(y)' v, whose first column is (0, x_{L-1}, ..., x_1)
        total = 0.0
        for k in range(j + 1, size):
            total += x[size - k + j] * v[k]
        half[j] = total
    for j in range(size):
        total = out[j]
        for k in range(j):
            total -= x[size - j + k] * half[k]
        out[j] = total * scale


@compiled
def apply_inverses(  # type: ignore[no-untyped-def]
    columns, column_starts, starts, lengths, scales, V, out, first, last
):
    """Apply the inverses of runs first..last - 1 to V (m, cells), into `out` of the same shape.

    The block of a run is `S^-1 T^-1 S^-1` for the diagonal S of `scales` (cells,).
    """
    longest = 1
    for b in range(first, last):
        longest = max(longest, lengths[b])
    half, scaled = np.empty(longest), np.empty(longest)
    for b in range(first, last):
        a, size = starts[b], lengths[b]
        x = columns[column_starts[b] : column_starts[b] + size]
        for k in range(V.shape[0]):
            for j in range(size):
                scaled[j] = V[k, a + j] / scales[a + j]
            _apply(x, scaled[:size], out[k, a : a + size], half)
            for j in range(size):
                out[k, a + j] /= scales[a + j]


@compiled
def inverse_diagonals(columns, column_starts, starts, lengths, scales, out):  # type: ignore[no-untyped-def]
    """Write the diagonals of `S^-1 T^-1 S^-1` of all runs into `out` (cells,)."""
    for b in range(starts.size):
        a, size = starts[b], lengths[b]
        x = columns[column_starts[b] : column_starts[b] + size]
        total = 0.0
        for j in range(size):
            total += x[j] * x[j]
            if j > 0:
                total -= x[size - j] * x[size - j]
            out[a + j] = total / x[0] / (scales[a + j] * scales[a + j])


class Blocks(NamedTuple):
    """Inverses `S^-1 T^-1 S^-1` of the blocks of runs.

    Attributes
    ----------
    columns : FloatArray
        First columns of the inverses T^-1, one after the other; runs may share one.
    column_starts : IntArray (b,)
        Where the column of each run starts.
    starts, lengths : IntArray (b,)
        Place of the first cell of each run, and number of its cells.
    scales : FloatArray (c,)
        Diagonal of S.
    """

    columns: FloatArray
    column_starts: IntArray
    starts: IntArray
    lengths: IntArray
    scales: FloatArray


def applied_inverses(blocks: Blocks, V: FloatArray) -> FloatArray:
    """`B V` for V (m, cells) in the order of the runs; threads share the runs."""
    out = np.empty_like(V)

    def work(parts: Iterator[tuple[int, int]]) -> None:
        for first, last in parts:
            apply_inverses(*blocks, V, out, first, last)

    share_rows(work, blocks.starts.size, 64, 4096)
    return out


def diagonals_of(blocks: Blocks) -> FloatArray:
    """Diagonal (cells,) of B."""
    out = np.empty(blocks.scales.size)
    inverse_diagonals(*blocks, out)
    return out
