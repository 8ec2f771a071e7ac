"""Lengths of walkers drawn by compiled loops, to the bit equal to `couplings.walkers.lengths`.

Modulation coefficients: the series `F(W~) = sum_t f_t W~^t` whose square is the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings.walkers.lengths import (
    AntitheticLengths,
    IidLengths,
    LengthLaw,
    Lengths,
    SigmaLengths,
    StratifiedLengths,
)
from coupledgp.errors import InvalidInputError
from coupledgp.ground.compiled import compiled, part
from coupledgp.ground.counter import (
    LENGTH_STREAMS,
    LengthUniforms,
    key_of_stream,
    node_key,
    uniform,
)
from coupledgp.ground.validation import check_vector
from coupledgp.random import FloatArray, IntArray

LengthsOf = Callable[[IntArray], IntArray]
# Equal parts of (0, 1), for each of which the shortest length is known; a power of two.
PARTS = 256
# Uniforms that are ordered by comparing each with all.
RUN = 32


def lengths_of(
    lengths: Lengths, law: LengthLaw, longest: int, seed: int, n_walks: int
) -> LengthsOf:
    """A function that draws the lengths (n, n_walks) of the walkers of start nodes (n,).

    Joint laws of this package run compiled unless the law of one length has a way of its own.
    """
    key, kind = np.uint64(seed), type(lengths)
    own = type(law)
    if kind is AntitheticLengths and own.hazards is LengthLaw.hazards:
        return partial(_drawn, _antithetic, n_walks, key, law.hazards(longest))
    if own.lengths is LengthLaw.lengths:
        cdf = 1.0 - law.survival(longest)[1:]
        least = np.searchsorted(cdf, np.arange(PARTS) / PARTS, side="right")
        table = key, cdf, least.astype(np.int64)
        if kind is IidLengths:
            return partial(_drawn, _apart, n_walks, *table)
        if kind is StratifiedLengths:
            return partial(_stratified_lengths, n_walks, *table)
        if isinstance(lengths, SigmaLengths) and kind is SigmaLengths and lengths.permutation:
            sigma = np.asarray(lengths.permutation, dtype=np.int64)
            return partial(_drawn, _sigma, n_walks, *table, sigma)
    return lambda rows: lengths.sample(law, longest, LengthUniforms(seed, rows, n_walks))


def spread_lengths_of(
    lengths: Lengths, law: LengthLaw, longest: int, seed: int, n_walks: IntArray, most: int
) -> LengthsOf:
    """A function that draws the lengths (n, most) of `n_walks[i]` walkers of each start node i.

    Those of a node are what `lengths_of` draws for as many walkers, and zeros beyond them.
    """
    own = lru_cache(maxsize=None)(partial(lengths_of, lengths, law, longest, seed))

    def draw(rows: IntArray) -> IntArray:
        found = np.zeros((rows.size, most), dtype=np.int64)
        counts = n_walks[rows]
        for m in np.unique(counts).tolist():
            alike = np.flatnonzero(counts == m)
            found[alike, :m] = own(m)(rows[alike])
        return found

    return draw


def _drawn(draw: Callable[..., None], n_walks: int, *arguments: Any) -> IntArray:
    *given, rows = arguments
    lengths = np.empty((rows.size, n_walks), dtype=np.int64)
    draw(rows, *given, np.empty(n_walks), lengths)
    return lengths


def _stratified_lengths(n_walks: int, *arguments: Any) -> IntArray:
    *given, rows = arguments
    order, spare = np.empty((2, n_walks), dtype=np.int64)
    return _drawn(_stratified, n_walks, *given, order, spare, rows)


@part
def _length(u, cdf, least):  # type: ignore[no-untyped-def]
    """The number of entries of `cdf` that are at most u."""
    t = least[np.int64(u * least.size)]
    while t < cdf.size and cdf[t] <= u:
        t += 1
    return t


@compiled
def _apart(rows, seed, cdf, least, u, lengths):  # type: ignore[no-untyped-def]
    for r in range(rows.size):
        key = key_of_stream(node_key(seed, rows[r]), LENGTH_STREAMS)
        for w in range(u.size):
            u[w] = uniform(key, w)
        for w in range(u.size):
            lengths[r, w] = _length(u[w], cdf, least)


@compiled
def _antithetic(rows, seed, hazards, u, lengths):  # type: ignore[no-untyped-def]
    """Every walker moves until the first coin below the hazard of its step."""
    for r in range(rows.size):
        key = node_key(seed, rows[r])
        for w in range(u.size):
            step = 0
            while step < hazards.size:
                u[w] = uniform(key_of_stream(key, LENGTH_STREAMS + step), w - w % 2)
                if w % 2 == 1:
                    u[w] += 0.5
                    u[w] -= u[w] >= 1.0
                if u[w] < hazards[step]:
                    break
                step += 1
            lengths[r, w] = step


@compiled
def _sigma(rows, seed, cdf, least, sigma, u, lengths):  # type: ignore[no-untyped-def]
    for r in range(rows.size):
        key = node_key(seed, rows[r])
        first, second = key_of_stream(key, LENGTH_STREAMS), key_of_stream(key, LENGTH_STREAMS + 1)
        quantile = np.int64(0)
        for w in range(lengths.shape[1]):
            if w % 2 == 0:
                u[w] = uniform(first, w)
                quantile = np.int64(u[w] * sigma.size)
            else:
                u[w] = (sigma[quantile] + uniform(second, w)) / sigma.size
            lengths[r, w] = _length(u[w], cdf, least)


@compiled
def _stratified(rows, seed, cdf, least, order, spare, u, lengths):  # type: ignore[no-untyped-def]
    m = u.size
    for r in range(rows.size):
        key = node_key(seed, rows[r])
        within, among = key_of_stream(key, LENGTH_STREAMS), key_of_stream(key, LENGTH_STREAMS + 1)
        for w in range(m):
            u[w] = uniform(among, w)
        _order(u, order, spare)
        for w in range(m):
            lengths[r, w] = _length((order[w] + uniform(within, w)) / m, cdf, least)


@part
def _order(u, order, spare):  # type: ignore[no-untyped-def]
    """Positions of u from the least to the largest, equal ones as they stand, by merging runs."""
    m, run = u.size, RUN
    for begin in range(0, m, run):
        _order_run(u, begin, min(begin + run, m), order)
    while run < m:
        for begin in range(0, m, 2 * run):
            middle, end = min(begin + run, m), min(begin + 2 * run, m)
            left, right = begin, middle
            for to in range(begin, end):
                if right == end or (left < middle and u[order[left]] <= u[order[right]]):
                    spare[to] = order[left]
                    left += 1
                else:
                    spare[to] = order[right]
                    right += 1
        for w in range(m):
            order[w] = spare[w]
        run *= 2


@part
def _order_run(u, begin, end, order):  # type: ignore[no-untyped-def]
    """Positions of the entries begin..end in rising order, equal entries in their given order."""
    for k in range(begin, end):
        place = begin
        for other in range(begin, k):
            place += u[other] <= u[k]
        for other in range(k + 1, end):
            place += u[other] < u[k]
        order[place] = k


SERIES_TOLERANCE = 1e-6


@runtime_checkable
class HasModulation(Protocol):
    """An object with modulation coefficients, such as a graph kernel.

    Attributes
    ----------
    max_terms : int
        Largest number of terms that are summed.
    """

    max_terms: int

    def modulation(self, n_terms: int) -> FloatArray:
        """`f_0, ..., f_(n_terms-1)` with `K = (sum_t f_t W~^t)^2`, shape (n_terms,)."""

    def tail(self, n_terms: int) -> float:
        """A bound of `sum_{t >= n_terms} |f_t|`."""


ModulationLike: TypeAlias = ArrayLike | HasModulation


def n_terms_for(modulation: ModulationLike, tolerance: float = SERIES_TOLERANCE) -> int:
    """The least number n of terms with `tail(n) <= tolerance * tail(0)`, at most `max_terms`.

    For an array (n_terms,) it is the number of all coefficients. `tail_of` bounds the part that is
    neglected.
    """
    if not isinstance(modulation, HasModulation):
        return check_vector(modulation, "modulation").size
    goal = tolerance * modulation.tail(0)
    high = 1
    while high < modulation.max_terms and modulation.tail(high) > goal:
        high *= 2
    low, high = high // 2, min(high, modulation.max_terms)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if modulation.tail(middle) <= goal else (middle, high)
    return high


def coefficients(modulation: ModulationLike, n_terms: int) -> FloatArray:
    """The first coefficients (n_terms,), with zeros after the last one of an array."""
    if isinstance(modulation, HasModulation):
        return modulation.modulation(n_terms)
    given = check_vector(modulation, "modulation")
    f = np.zeros(n_terms)
    size = min(n_terms, given.size)
    f[:size] = given[:size]
    return f


def tail_of(modulation: ModulationLike, n_terms: int) -> float:
    """`sum_{t >= n_terms} |f_t|`, a bound of the part of a series beyond `n_terms` terms."""
    if isinstance(modulation, HasModulation):
        return modulation.tail(n_terms)
    return float(np.abs(check_vector(modulation, "modulation")[n_terms:]).sum())


def check_modulation(modulation: object) -> ModulationLike:
    """Return a kernel with modulation coefficients, or an array (n_terms,) of coefficients."""
    if isinstance(modulation, HasModulation):
        return modulation
    if isinstance(modulation, str):
        raise InvalidInputError(
            f"modulation: expected coefficients or a graph kernel, got the text {modulation!r}"
        )
    return check_vector(modulation, "modulation")  # type: ignore[arg-type]
