"""Nearest neighbours of rows that lie in parts on a cluster: each part is asked, answers merge.

The neighbours are those that `inference.neighbours.nearest` finds with trees on one machine. There
a row's neighbours come from its block of the order, where later rows are left out of the 2k + 1
nearest, and from all rows before the block. The nearest rows of a table are the nearest among those
of its parts, so that both lists can be found part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from coupledgp.batches.passes import PartwisePass, total_in_tree
from coupledgp.gp.tables import Box
from coupledgp.inference.neighbours.nearest import MISSING, Places, first_block
from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class RankedRows:
    """Some rows of a table, in the order in which all rows are conditioned on each other.

    Attributes
    ----------
    ranks : NDArray (r,)
        Places of the rows in the order of the whole table, ascending.
    inputs : FloatArray (r, d)
        Standardised inputs.
    columns : FloatArray (r, k + 1)
        Targets minus an offset, and ones, as in `gp.local_table.Table`.
    """

    ranks: Places
    inputs: FloatArray
    columns: FloatArray

    @classmethod
    def of(cls, ranks: Places, inputs: FloatArray, columns: FloatArray) -> RankedRows:
        """Rows in any order."""
        order = np.argsort(ranks)
        return cls(ranks[order], inputs[order], columns[order])

    @classmethod
    def joined(cls, *parts: RankedRows) -> RankedRows:
        """The different rows of some parts."""
        ranks, first = np.unique(np.concatenate([p.ranks for p in parts]), return_index=True)
        inputs = np.concatenate([p.inputs for p in parts])[first]
        return cls(ranks, inputs, np.concatenate([p.columns for p in parts])[first])

    def merge(self, other: RankedRows) -> RankedRows:
        """The different rows of both."""
        return RankedRows.joined(self, other)

    def take(self, places: Places) -> RankedRows:
        """The rows at places, ascending ones."""
        return RankedRows(self.ranks[places], self.inputs[places], self.columns[places])

    def among(self, ranks: Places) -> RankedRows:
        """Those of the rows whose ranks are among given ones."""
        return self.take(np.flatnonzero(np.isin(self.ranks, ranks)))

    def before(self, rank: int) -> RankedRows:
        """The rows of a rank below the given one."""
        return self.take(np.arange(np.searchsorted(self.ranks, rank)))

    def places(self, ranks: Places) -> Places:
        """Places of rows by their ranks; `MISSING` stays."""
        found = np.searchsorted(self.ranks, ranks)
        return np.where(ranks == MISSING, MISSING, found)


@dataclass(frozen=True, eq=False)
class Found:
    """The nearest of some rows to each of q queries.

    Attributes
    ----------
    distances : FloatArray (q, m)
        In ascending order, infinite for a row that there is not.
    ranks : NDArray (q, m)
        Their ranks.
    """

    distances: FloatArray
    ranks: Places

    @classmethod
    def of(cls, rows: FloatArray, ranks: Places, queries: FloatArray, m: int) -> Found:
        """The m rows (n, d) nearest to queries (q, d)."""
        if not (len(rows) and len(queries)):
            return cls.none(len(queries), m)
        distances, near = cKDTree(rows).query(queries, k=np.arange(1, m + 1))
        return cls(distances, np.append(ranks, MISSING)[near])

    def merge(self, other: Found) -> Found:
        """The nearest of the rows of both."""
        distances = np.hstack([self.distances, other.distances])
        ranks = np.hstack([self.ranks, other.ranks])
        best = np.lexsort((ranks, distances), axis=1)[:, : self.distances.shape[1]]
        return Found(
            np.take_along_axis(distances, best, axis=1), np.take_along_axis(ranks, best, axis=1)
        )

    def merge_at(self, places: Places, other: Found) -> Found:
        """These rows, merged with others of the queries at places."""
        merged = Found(self.distances[places], self.ranks[places]).merge(other)
        distances, ranks = self.distances.copy(), self.ranks.copy()
        distances[places], ranks[places] = merged.distances, merged.ranks
        return Found(distances, ranks)

    @classmethod
    def none(cls, n_queries: int, m: int) -> Found:
        """No rows for any query."""
        return cls(np.full((n_queries, m), np.inf), np.full((n_queries, m), MISSING))


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows whose near earlier rows are sought.

    Attributes
    ----------
    ranks : NDArray (q,)
        Their ranks, none below the first block of the order.
    inputs : FloatArray (q, d)
        Inputs in units of the lengthscales.
    k : int
        Number of neighbours of each.
    """

    ranks: Places
    inputs: FloatArray
    k: int

    @property
    def starts(self) -> Places:
        """First ranks of the blocks of the order that the queries are in."""
        first = first_block(self.k)
        return first << np.floor(np.log2(self.ranks / first)).astype(np.int64)

    def take(self, places: Places) -> Queries:
        """The queries at places."""
        return Queries(self.ranks[places], self.inputs[places], self.k)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Near rows of the block of each query, later ones too, and of all before the block.

    Attributes
    ----------
    block : Found (q, 2k + 1)
    before : Found (q, k)
    """

    block: Found
    before: Found

    @classmethod
    def of(cls, rows: RankedRows, scale: FloatArray, queries: Queries) -> Candidates:
        """Candidates among some rows, in units of lengthscales (d,)."""
        inputs, k, starts = rows.inputs / scale, queries.k, queries.starts
        found = cls(*(Found.none(starts.size, m) for m in (2 * k + 1, k)))
        for start in np.unique(starts):
            inside = np.flatnonzero(starts == start)
            low, high = np.searchsorted(rows.ranks, [start, 2 * start])
            wanted = queries.inputs[inside]
            own = Found.of(inputs[low:high], rows.ranks[low:high], wanted, 2 * k + 1)
            before = Found.of(inputs[:low], rows.ranks[:low], wanted, k)
            found = found.merge_at(inside, cls(own, before))
        return found

    def merge(self, other: Candidates) -> Candidates:
        """Candidates among the rows of both."""
        return Candidates(self.block.merge(other.block), self.before.merge(other.before))

    def merge_at(self, places: Places, other: Candidates) -> Candidates:
        """These candidates, merged with others of the queries at places."""
        return Candidates(
            self.block.merge_at(places, other.block), self.before.merge_at(places, other.before)
        )

    @property
    def reach(self) -> FloatArray:
        """Distance (q,) within which a row elsewhere could be a candidate."""
        return np.maximum(self.block.distances[:, -1], self.before.distances[:, -1])

    def nearest(self, queries: Queries) -> Places:
        """Ranks (q, k) of the near earlier rows."""
        late = self.block.ranks >= queries.ranks[:, None]
        distances = np.where(late, np.inf, self.block.distances)
        distances = np.hstack([distances, self.before.distances])
        best = np.argsort(distances, axis=1, kind="stable")[:, : queries.k]
        return np.take_along_axis(np.hstack([self.block.ranks, self.before.ranks]), best, axis=1)


@dataclass(frozen=True, eq=False)
class Asking:
    """The search for the near earlier rows of a cell's rows.

    Attributes
    ----------
    queries : Queries
        The rows of the cell that are in no early block, which all cells know.
    own : Candidates
        Their candidates in the cell.
    across : tuple of NDArray
        For each cell the places of the queries whose candidates are farther away than its box;
        none for the cell itself.
    """

    queries: Queries
    own: Candidates
    across: tuple[Places, ...]

    @classmethod
    def of(
        cls, rows: RankedRows, number: int, n_early: int, scale: FloatArray, k: int, boxes: Box
    ) -> Asking:
        """The search in the cell of a number, given boxes (c, d) in units of lengthscales (d,)."""
        late = rows.take(np.flatnonzero(rows.ranks >= n_early))
        queries = Queries(late.ranks, late.inputs / scale, k)
        own, across = Candidates.of(rows, scale, queries), []
        for other, ends in enumerate(zip(boxes.low, boxes.high, strict=True)):
            gaps = queries.inputs - np.clip(queries.inputs, *ends)
            within = np.sqrt(np.square(gaps).sum(axis=1)) <= own.reach
            across.append(np.flatnonzero(within & (other != number)))
        return cls(queries, own, tuple(across))

    def reached(self) -> list[int]:
        """Numbers of the cells that have to be asked."""
        return [other for other, places in enumerate(self.across) if places.size]

    def of_cell(self, other: int) -> Queries:
        """The queries that another cell has to answer."""
        return self.queries.take(self.across[other])

    def nearest(self, reached: list[int], *answers: Candidates) -> Places:
        """Ranks (q, k) of the near earlier rows, given the answers of the cells in reach."""
        found = self.own
        for other, answer in zip(reached, answers, strict=True):
            found = found.merge_at(self.across[other], answer)
        return found.nearest(self.queries)


class RankedPass(PartwisePass[RankedRows]):
    """Rows of a table by their ranks.

    Parameters
    ----------
    ranks
        Their ranks (r,).
    """

    name = "rows by rank"

    def __init__(self, ranks: Places) -> None:
        self.ranks = ranks

    def of(self, part: RankedRows) -> RankedRows:
        return part.among(self.ranks)


class NearPass(PartwisePass[Found]):
    """Ranks of the rows of a table that are among the nearest to a point.

    Parameters
    ----------
    scale
        Lengthscales (d,).
    inputs
        Points (q, d), standardised.
    k
        Number of nearest rows of each point.
    """

    name = "near rows"

    def __init__(self, scale: FloatArray, inputs: FloatArray, k: int) -> None:
        self.scale, self.inputs, self.k = scale, inputs, k

    def of(self, part: RankedRows) -> Found:
        rows, points = part.inputs / self.scale, self.inputs / self.scale
        return Found.of(rows, part.ranks, points, self.k)

    def finish(self, found: Found | None) -> Places:
        """Ranks of all rows that were found, ascending."""
        assert found is not None  # there is a part
        ranks = np.unique(found.ranks)
        return ranks[ranks != MISSING]


class CandidatesPass(PartwisePass[Candidates]):
    """Ranks (q, k) of the near earlier rows of queries.

    Parameters
    ----------
    scale
        Lengthscales (d,).
    queries
        Rows whose near earlier rows are sought.
    """

    name = "near earlier rows"

    def __init__(self, scale: FloatArray, queries: Queries) -> None:
        self.scale, self.queries = scale, queries

    def of(self, part: RankedRows) -> Candidates:
        return Candidates.of(part, self.scale, self.queries)

    def finish(self, found: Candidates | None) -> Places:
        assert found is not None  # there is a part
        return found.nearest(self.queries)


def near_rows(
    call: Callable[..., Any], parts: Sequence[Any], scale: FloatArray, inputs: Any, k: int
) -> Any:
    """A task of the rows that are among the k nearest to points (q, d); `call` makes tasks."""
    near = call(NearPass, scale, inputs, k)
    ranks = total_in_tree(call, near, NearPass.merge, parts)
    return total_in_tree(call, call(RankedPass, ranks), RankedPass.merge, parts)
