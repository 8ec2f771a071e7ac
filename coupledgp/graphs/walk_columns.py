"""Visits as codes, in columns that one loop sorts side by side.

A row's codes are `node * 2^step_bits + step`, one for each walker and step, and one for all walkers
at their start. `WIDTH` rows stand side by side, one to a column of a table, and a sorting network
(Batcher, 1968) orders all columns at once: an exchange of two lines is one vector instruction for
several rows. Rows that are too long for that lie one behind the other and are sorted by their
bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.compiled import compiled, part
from coupledgp.random import IntArray

# Rows that are sorted side by side: four registers of sixteen words.
WIDTH = 64
# Longest rows that are; beyond it the network makes more exchanges than bytes are moved.
TALLEST = 1024

CodeArray = NDArray[np.unsignedinteger[Any]]


class SortedVisits(NamedTuple):
    """Codes of some rows.

    Code j of row r is `codes[(r // width) * height * width + j * width + r % width]`, for j below
    `n_codes[r]`; `spare` (height,) is room to sort long rows, and a code has `code_bits`.
    """

    codes: CodeArray
    spare: CodeArray
    n_codes: IntArray
    width: int
    height: int
    code_bits: int

    def sort(self) -> None:
        """Sort the codes of every row."""
        if self.width == 1:
            ends = np.empty(256, dtype=np.int64)
            _sort_long(self.codes, self.n_codes, self.height, self.code_bits, self.spare, ends)
        else:
            tables = -(-self.n_codes.size // WIDTH)
            size = tables * self.height * WIDTH
            lines = self.codes[:size].reshape(tables, self.height, WIDTH)
            _sort_columns(lines, self.n_codes, ~self.codes.dtype.type(0))

    @property
    def read(self) -> tuple[CodeArray, IntArray, int, int]:
        """The visits that sorted columns hold."""
        return self.codes, self.n_codes, self.width, self.height


def columns_for(n_codes: IntArray, height: int, code_bits: int, codes: CodeArray) -> SortedVisits:
    """Columns of rows of given lengths (n,), in the memory of `codes` if it is large enough."""
    width = WIDTH if height <= TALLEST else 1
    needed = -(-n_codes.size // width) * width * height
    dtype: Any = np.uint32 if code_bits <= 32 else np.uint64
    if codes.size < needed or codes.dtype != dtype:
        codes = np.empty(needed, dtype)
    spare = np.empty(height if width == 1 else 0, dtype)
    return SortedVisits(codes, spare, n_codes, width, height, code_bits)


@part
def place_of(r, width, height):  # type: ignore[no-untyped-def]
    """The place of the first code of row r."""
    return (r // width) * width * height + r % width


@part
def _exchange(lines, first, last, by):  # type: ignore[no-untyped-def]
    """Exchange entries of lines first..last with those `by` lines below where these are less."""
    for line in range(first, last):
        upper, lower = lines[line], lines[line + by]
        for k in range(WIDTH):  # a constant, so that the loop becomes vector instructions
            a, b = upper[k], lower[k]
            upper[k] = a if a < b else b
            lower[k] = b if a < b else a


@part
def _sort_lines(lines, n):  # type: ignore[no-untyped-def]
    """Sort the columns of the first n lines by Batcher's merges of odd and even places."""
    span = 1
    while span < n:
        by = span
        while by >= 1:
            first = by & (span - 1)
            while first + by < n:
                if (first + by) & (2 * span - 1) != 0:
                    _exchange(lines, first, first + min(by, n - first - by), by)
                first += 2 * by
            by >>= 1
        span <<= 1


@compiled
def _sort_columns(tables, n_codes, largest):  # type: ignore[no-untyped-def]
    """Sort the columns of tables (k, height, WIDTH); `largest` fills them below their codes."""
    for table in range(tables.shape[0]):
        lines, first = tables[table], table * WIDTH
        last, most = min(first + WIDTH, n_codes.size), np.int64(0)
        for r in range(first, last):
            most = max(most, n_codes[r])
        for r in range(first, last):
            for j in range(n_codes[r], most):
                lines[j, r - first] = largest
        _sort_lines(lines, most)


@compiled
def _sort_long(codes, n_codes, height, code_bits, spare, ends):  # type: ignore[no-untyped-def]
    """Sort rows, one stored behind the other, by the bytes of their codes, lowest first."""
    for r in range(n_codes.size):
        begin = r * height
        for shift in range(0, code_bits, 8):
            for byte in range(256):
                ends[byte] = 0
            for k in range(n_codes[r]):
                ends[(np.int64(codes[begin + k]) >> shift) & 255] += 1
            for byte in range(1, 256):
                ends[byte] += ends[byte - 1]
            for k in range(n_codes[r] - 1, -1, -1):
                own = (np.int64(codes[begin + k]) >> shift) & 255
                ends[own] -= 1
                spare[ends[own]] = codes[begin + k]
            for k in range(n_codes[r]):
                codes[begin + k] = spare[k]


@compiled
def merge_columns(  # type: ignore[no-untyped-def]
    codes, n_codes, width, height, step_bits, count_bits, n_walks,
    nodes, entries, n_pairs, n_entries,
):  # fmt: skip
    """Count equal codes: write nodes and packed visits of all rows, and how many there are.

    All walkers of a row, `n_walks[r]`, share the code of their start. Entries are written as
    `visits.Form` says.
    """
    pair, entry = np.int64(-1), np.int64(-1)
    for r in range(n_codes.size):
        at = place_of(r, width, height)
        pairs, found = pair, entry
        node_before, code_before, packed = np.int64(-1), np.int64(-1), np.int64(0)
        for j in range(n_codes[r]):
            code = np.int64(codes[at + j * width])
            node, step = code >> step_bits, code & ((1 << step_bits) - 1)
            is_pair, is_entry = node != node_before, code != code_before
            pair += is_pair
            entry += is_entry
            begun = (((is_pair << step_bits) | step) << count_bits) + (n_walks[r] - 1) * (step == 0)
            packed = begun if is_entry else packed + 1
            nodes[pair] = node
            entries[entry] = packed
            node_before, code_before = node, code
        n_pairs[r], n_entries[r] = pair - pairs, entry - found


@compiled
def weigh_columns(  # type: ignore[no-untyped-def]
    codes, n_codes, width, height, step_bits, n_walks, per_step, row_scale, node_scale,
    nodes, values, n_pairs,
):  # fmt: skip
    """Sum `per_step` over equal nodes: write nodes and values of all rows, and how many there are.

    The sums are those of `visits.weigh`, to the last bit: equal codes count at once.
    """
    pair = np.int64(-1)
    for r in range(n_codes.size):
        at = place_of(r, width, height)
        pairs, scale = pair, row_scale[r]
        node_before, code_before = np.int64(-1), np.int64(-1)
        before, total, count = 0.0, 0.0, np.int64(0)
        for j in range(n_codes[r]):
            code = np.int64(codes[at + j * width])
            node, step = code >> step_bits, code & ((1 << step_bits) - 1)
            is_pair, is_entry = node != node_before, code != code_before
            pair += is_pair
            before = (0.0 if is_pair else total) if is_entry else before
            count = np.int64(n_walks[r] if step == 0 else 1) if is_entry else count + 1
            total = before + per_step[step] * count
            nodes[pair] = node
            values[pair] = total * (scale * node_scale[node])
            node_before, code_before = node, code
        n_pairs[r] = pair - pairs
