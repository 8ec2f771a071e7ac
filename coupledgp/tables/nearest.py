"""Nearest neighbours among all rows, and among the earlier rows of an order.

In few dimensions SciPy's k-d trees find them; from `TREE_DIM` columns on a tree visits nearly every
row, and blocks of all distances, by matrix products, take less time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from coupledgp.ground.compiled import compiled, part, share_rows
from coupledgp.ground.tensors import torch
from coupledgp.random import FloatArray

Places = NDArray[np.int64]

# Number of columns from which blocks of distances are cheaper than trees, for tables of at most
# `BRUTE_ROWS` rows; above, the quadratic cost of the blocks is the greater one in any dimension.
TREE_DIM, BRUTE_ROWS = 7, 300_000
# Queries and rows whose distances are formed at once, distances scanned for one that is
# small, and room for rows that may be among the k nearest, over k.
BLOCK_QUERIES, BLOCK_ROWS, SCANNED, ROOM = 512, 2048, 64, 4
# Most that single precision changes squared distances by, over the largest squared norm.
DOUBT = 1e-6
# Most rows of a group whose neighbours outside of it are found among a few more near rows.
SMALL_GROUP = 32
# Stands for a neighbour that is missing.
MISSING = -1


def nearest(rows: FloatArray, queries: FloatArray, k: int) -> Places:
    """Places (q, min(k, n)) of the rows (n, d) nearest to queries (q, d), the nearest first.

    Coordinates are in units of the lengthscales. Ties are broken in an order that depends on the
    rows alone, on every processor.
    """
    k = min(k, len(rows))
    if k == 0:
        return np.empty((len(queries), 0), dtype=np.int64)
    if _by_tree(rows):
        found = cKDTree(rows).query(queries, k=np.arange(1, k + 1), workers=-1)[1]
        return np.asarray(found, dtype=np.int64)
    return _by_blocks(rows, queries, k, None)


def nearest_outside(rows: FloatArray, groups: list[Places], k: int) -> list[Places]:
    """Places (g, k) of the rows nearest to each group's rows, among all rows outside the group.

    Parameters
    ----------
    rows
        All rows (n, d), in units of the lengthscales.
    groups
        Places of the rows of each group, which do not overlap.
    k
        Number of neighbours; `MISSING` fills rows with fewer neighbours.
    """
    found = [np.full((group.size, k), MISSING, dtype=np.int64) for group in groups]
    if k == 0:
        return found
    small = [number for number, group in enumerate(groups) if group.size <= SMALL_GROUP]
    if small:
        _outside_small(rows, groups, small, found)
    for number, group in enumerate(groups):
        if group.size > SMALL_GROUP:
            others = np.setdiff1d(np.arange(len(rows)), group)
            near = others[nearest(rows[others], rows[group], k)]
            found[number][:, : near.shape[1]] = near
    return found


def _outside_small(
    rows: FloatArray, groups: list[Places], small: list[int], found: list[Places]
) -> None:
    """Fill `found` for groups of few rows by one query for somewhat more neighbours than k."""
    own = np.concatenate([groups[number] for number in small])
    sizes = [groups[number].size for number in small]
    member = np.full(len(rows), -1)
    member[own] = np.repeat(small, sizes)
    k = found[small[0]].shape[1]
    near = nearest(rows, rows[own], k + max(sizes))
    inside = member[near] == member[own][:, None]
    order = np.argsort(inside, axis=1, kind="stable")[:, :k]
    chosen = np.where(
        np.take_along_axis(inside, order, axis=1), MISSING, np.take_along_axis(near, order, axis=1)
    )
    for number, outside in zip(small, np.split(chosen, np.cumsum(sizes)[:-1]), strict=True):
        found[number][:, : outside.shape[1]] = outside


def nearest_earlier(rows: FloatArray, wanted: Places, k: int) -> Places:
    """Places (w, k) of near rows before each wanted row, `MISSING` where there are fewer than k.

    Parameters
    ----------
    rows
        All rows (n, d) in their order, in units of the lengthscales.
    wanted
        Places (w,) of the rows whose neighbours are sought.
    k
        Number of neighbours of each.

    Returns
    -------
    Places
        For a row at place i only places below i. With trees (see the module) a few of the k may be
        near rows that are not the very nearest: every set of earlier rows gives a valid law.
    """
    if k and len(wanted) and not _by_tree(rows):
        found = np.full((len(wanted), k), MISSING, dtype=np.int64)
        _earlier_by_blocks(rows, wanted, np.arange(len(wanted)), found)
        return found
    return earlier_by_trees(rows, wanted, k)


def first_block(k: int) -> int:
    """Number of rows of the first block of the order; each further one is as long as all before."""
    return max(8 * k, 256)


def earlier_by_trees(rows: FloatArray, wanted: Places, k: int) -> Places:
    """`nearest_earlier`, (w, k), by trees for any number of rows and columns."""
    found = np.full((len(wanted), k), MISSING, dtype=np.int64)
    if k and len(wanted):
        _earlier_by_trees(rows, wanted, found)
    return found


def _by_tree(rows: FloatArray) -> bool:
    return rows.shape[1] < TREE_DIM or len(rows) > BRUTE_ROWS


def _by_blocks(rows: FloatArray, queries: FloatArray, k: int, before: Places | None) -> Places:
    """The k nearest of the rows, or of those at places less than `before` (q,) where given.

    Matrix products in single precision leave the rows that may be among the nearest. Their
    distances in double precision, summed the same on every processor, and then their places
    decide.
    """
    center = rows.mean(axis=0)
    table = torch.as_tensor(rows - center, dtype=torch.float32)
    points = torch.as_tensor(queries - center, dtype=torch.float32)
    squares = table.square().sum(1)
    doubt = (DOUBT * (squares.max() + points.square().sum(1))).numpy()
    found = np.full((len(queries), k), MISSING, dtype=np.int64)
    ends = np.full(len(queries), len(rows)) if before is None else np.minimum(before, len(rows))
    for start in range(0, len(queries), BLOCK_QUERIES):
        part = slice(start, start + BLOCK_QUERIES)
        own, last = points[part], int(ends[part].max(initial=0))
        scan = _Scan.of(doubt[part], ends[part], rows, queries[part], k)
        for first in range(0, last, BLOCK_ROWS):
            some = slice(first, min(first + BLOCK_ROWS, last))
            scan.take(torch.addmm(squares[some], own, table[some].T, alpha=-2.0).numpy(), first)
        scan.finish(found[part])
    return found


class _Scan(NamedTuple):
    """The nearest rows of some queries among the rows seen so far.

    Attributes
    ----------
    doubt : FloatArray (q,)
        Most by which inexact distances of a query are wrong.
    ends : Places (q,)
        Rows from this place on are none of a query's neighbours.
    rows, queries : FloatArray
        Rows (n, d) and queries (q, d).
    heaps : array (q, k) of float32
        The least inexact distances of each query, the greatest first.
    near, counts : Places (q, c) and (q,)
        Places of rows that may be among the nearest, in rising order, and how many there are.
    """

    doubt: FloatArray
    ends: Places
    rows: FloatArray
    queries: FloatArray
    heaps: NDArray[np.float32]
    near: Places
    counts: Places

    @classmethod
    def of(
        cls, doubt: FloatArray, ends: Places, rows: FloatArray, queries: FloatArray, k: int
    ) -> _Scan:
        """The scan before any row; nothing is known of k neighbours."""
        heaps = np.full((len(queries), k), np.inf, dtype=np.float32)
        near = np.empty((len(queries), ROOM * k + SCANNED), dtype=np.int64)
        return cls(doubt, ends, rows, queries, heaps, near, np.zeros(len(queries), np.int64))

    def take(self, block: FloatArray, offset: int) -> None:
        """See inexact squared distances (q, m) of the rows from a place on."""

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                _scan_rows(first, last, *self, block, offset)

        share_rows(work, len(block), 1, 64)

    def finish(self, found: Places) -> None:
        """Write the places (q, k) of the nearest rows."""
        _write_nearest(*self, found)


@part
def _below(values, start, stop, limit):  # type: ignore[no-untyped-def]
    """How many of some values are at most a limit: several in one instruction."""
    found = 0
    for j in range(start, stop):
        found += values[j] <= limit
    return found


@part
def _replace_first(heap, value):  # type: ignore[no-untyped-def]
    """Put a value in the place of the greatest of a heap."""
    place, n = 0, len(heap)
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@part
def _sift(order, squares, place, n):  # type: ignore[no-untyped-def]
    """Let an entry sink in a heap of n places of distances, the greatest on top."""
    moved = order[place]
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and _further(squares, order[child + 1], order[child]):
            child += 1
        if _further(squares, moved, order[child]):
            break
        order[place] = order[child]
        place = child
    order[place] = moved


@part
def _further(squares, one, other):  # type: ignore[no-untyped-def]
    return squares[one] > squares[other] or (squares[one] == squares[other] and one > other)


@part
def _keep_nearest(near, count, rows, query, squares, order):  # type: ignore[no-untyped-def]
    """Write which of some rows are the nearest, the nearest first; return how many there are.

    Exact distances decide, then places. There is no sort by numpy: its code is slow to compile.
    """
    n = min(len(order), count)
    for c in range(count):
        squares[c] = 0.0
        for column in range(rows.shape[1]):
            gap = rows[near[c], column] - query[column]
            squares[c] += gap * gap
    for c in range(n):
        order[c] = c
    for place in range(n // 2 - 1, -1, -1):
        _sift(order, squares, place, n)
    for c in range(n, count):
        if squares[c] < squares[order[0]]:
            order[0] = c
            _sift(order, squares, 0, n)
    for end in range(n - 1, 0, -1):
        order[0], order[end] = order[end], order[0]
        _sift(order, squares, 0, end)
    return n


@compiled
def _scan_rows(first, last, doubt, ends, rows, queries, heaps, near, counts, block, offset):  # type: ignore[no-untyped-def]
    k, room = heaps.shape[1], near.shape[1] - SCANNED
    squares, order = np.empty(near.shape[1]), np.empty(k, np.int64)
    kept = np.empty(near.shape[1], np.bool_)
    for i in range(first, last):
        own, heap, end = block[i], heaps[i], min(ends[i] - offset, block.shape[1])
        for start in range(0, end, SCANNED):
            stop = min(start + SCANNED, end)
            if _below(own, start, stop, heap[0] + doubt[i]) == 0:
                continue
            for j in range(start, stop):
                if own[j] <= heap[0] + doubt[i]:
                    near[i, counts[i]] = offset + j
                    counts[i] += 1
                    if own[j] < heap[0]:
                        _replace_first(heap, own[j])
            if counts[i] > room:
                n = _keep_nearest(near[i], counts[i], rows, queries[i], squares, order)
                kept[: counts[i]] = False
                for c in range(n):
                    kept[order[c]] = True
                n = 0
                for c in range(counts[i]):  # in rising order, as they were
                    if kept[c]:
                        near[i, n] = near[i, c]
                        n += 1
                counts[i] = n


@compiled
def _write_nearest(doubt, ends, rows, queries, heaps, near, counts, found):  # type: ignore[no-untyped-def]
    squares, order = np.empty(near.shape[1]), np.empty(heaps.shape[1], np.int64)
    for i in range(len(queries)):
        n = _keep_nearest(near[i], counts[i], rows, queries[i], squares, order)
        for c in range(n):
            found[i, c] = near[i, order[c]]


def _earlier_by_blocks(rows: FloatArray, wanted: Places, which: Places, found: Places) -> None:
    """Fill `found` (w, k) at the places `which` among the wanted rows."""
    order = which[np.argsort(wanted[which], kind="stable")]
    places = wanted[order]
    if len(places):
        last = int(places[-1]) + 1
        found[order] = _by_blocks(rows[:last], rows[places], found.shape[1], places)


def _earlier_by_trees(rows: FloatArray, wanted: Places, found: Places) -> None:
    """Fill `found` (w, k) block by block of the order, each as long as all before it.

    A row's neighbours come from the tree of all rows before its block, and from the tree of its
    block, where later rows are left out. The first block, a few hundred rows, does without trees.
    """
    k = found.shape[1]
    first = first_block(k)
    _earlier_by_blocks(rows[:first], wanted, np.flatnonzero(wanted < first), found)
    start, stop = first, 2 * first
    while start < len(rows):
        inside = np.flatnonzero((wanted >= start) & (wanted < stop))
        if inside.size:
            places = wanted[inside]
            block = rows[start:stop]
            own = cKDTree(block).query(rows[places], k=np.arange(1, 2 * k + 2), workers=-1)
            distances, near = own[0], own[1] + start
            late = ~np.isfinite(distances) | (near >= places[:, None])
            before = cKDTree(rows[:start]).query(rows[places], k=np.arange(1, k + 1), workers=-1)
            distances = np.hstack([np.where(late, np.inf, distances), before[0]])
            best = np.argsort(distances, axis=1, kind="stable")[:, :k]
            found[inside] = np.take_along_axis(np.hstack([near, before[1]]), best, axis=1)
        start, stop = stop, 2 * stop
