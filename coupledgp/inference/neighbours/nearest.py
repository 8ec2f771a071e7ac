"""Nearest neighbours among all rows, and among the earlier rows of an order.

In few dimensions SciPy's k-d trees find them; from `TREE_DIM` columns on a tree visits nearly every
row, and blocks of all distances, by matrix products, take less time.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from coupledgp.random import FloatArray

Places = NDArray[np.int64]

# Number of columns from which blocks of distances are cheaper than trees, for tables of at most
# `BRUTE_ROWS` rows; above, the quadratic cost of the blocks is the greater one in any dimension.
TREE_DIM, BRUTE_ROWS = 9, 60_000
# Distances that are formed at once.
BLOCK_ENTRIES = 2**23
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
    for number, part in zip(small, np.split(chosen, np.cumsum(sizes)[:-1]), strict=True):
        found[number][:, : part.shape[1]] = part


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
    squares, places = table.square().sum(1), torch.arange(len(rows))
    doubt = DOUBT * (squares.max() + points.square().sum(1))
    found = np.full((len(queries), k), MISSING, dtype=np.int64)
    step = max(1, BLOCK_ENTRIES // len(rows))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        block = torch.addmm(squares, points[part], table.T, alpha=-2.0)
        if before is not None:
            limit = torch.as_tensor(before[part])
            block.masked_fill_(places >= limit[:, None], torch.inf)
        last = torch.topk(block, k, largest=False).values[:, -1] + doubt[part]
        near = (block <= last[:, None]) & torch.isfinite(block)
        bounds = np.append(0, near.sum(1).cumsum(0).numpy())
        cuts = np.searchsorted(bounds, np.arange(0, bounds[-1], BLOCK_ENTRIES // rows.shape[1]))
        for own in np.split(np.arange(len(block)), np.unique(cuts)):
            query, place = (x.numpy() for x in torch.nonzero(near[own], as_tuple=True))
            gaps = rows[place] - queries[start + own[query]]
            order = np.lexsort((place, np.square(gaps).sum(axis=1), query))
            query, place = query[order], place[order]
            rank = np.arange(query.size) - np.searchsorted(query, query)
            kept = rank < k
            found[start + own[query[kept]], rank[kept]] = place[kept]
    return found


def _earlier_by_blocks(rows: FloatArray, wanted: Places, which: Places, found: Places) -> None:
    """Fill `found` (w, k) at the places `which` among the wanted rows."""
    order = which[np.argsort(wanted[which], kind="stable")]
    step = max(1, BLOCK_ENTRIES // len(rows))
    for start in range(0, len(order), step):
        chosen = order[start : start + step]
        places, last = wanted[chosen], int(wanted[chosen[-1]])
        if last:
            near = _by_blocks(rows[:last], rows[places], min(found.shape[1], last), places)
            found[chosen, : near.shape[1]] = near


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
