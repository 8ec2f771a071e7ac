"""Rows of a table in cells of space on a cluster, each whitened with a halo from its neighbours.

A cell is a box of a k-d tree over a sample of the rows, in the metric of the local part. Most
neighbours of a row lie in its own cell. Where the candidates of the own cell are farther away than
another cell, the row is sent to that cell. The near rows that come back are the halo.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import getitem
from typing import Any, NamedTuple

import numpy as np

from coupledgp.dask.cluster import Cluster
from coupledgp.dask.neighbours import Candidates, Queries, RankedPass, RankedRows
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.local_table import Table
from coupledgp.gp.tables import Box
from coupledgp.inference.neighbours.nearest import Places, earlier_by_trees, first_block
from coupledgp.inference.neighbours.whitening import WhitenedSums
from coupledgp.random import FloatArray

# Rows of a block of the order for each cell, in candidates of a query, from which its neighbours
# are found cell by cell; earlier blocks are known to all cells.
LEAST_SHARE = 4
# Rows of the sample by which space is cut, for each cell.
SAMPLED_ROWS = 64


class Cut(NamedTuple):
    """A cut of space: rows whose coordinate is below a value go to the first half of the cells."""

    axis: int
    value: float
    n_below: int


@dataclass(frozen=True, eq=False)
class DaskCells:
    """A cut of space into cells.

    Attributes
    ----------
    n_cells : int
        Number of cells.
    cut : Cut or None
        The first cut; None for one cell.
    below, above : Cells or None
        The cells on both sides.
    """

    n_cells: int
    cut: Cut | None = None
    below: DaskCells | None = None
    above: DaskCells | None = None

    @classmethod
    def of(cls, sample: FloatArray, n_cells: int) -> DaskCells:
        """Cells of nearly as many rows of a sample (s, d) each, cut along the widest axis."""
        if n_cells < 2:
            return cls(1)
        axis, n_below = int(np.ptp(sample, axis=0).argmax()), n_cells // 2
        value = float(np.quantile(sample[:, axis], n_below / n_cells))
        low = sample[:, axis] < value
        if not low.any():  # equal rows cannot be cut: all are above
            low[0] = True
        return cls(
            n_cells, Cut(axis, value, n_below),
            cls.of(sample[low], n_below), cls.of(sample[~low], n_cells - n_below),
        )  # fmt: skip

    def numbers(self, rows: FloatArray) -> Places:
        """Numbers (n,) of the cells of rows (n, d)."""
        found = np.zeros(len(rows), dtype=np.int64)
        if self.cut is None or self.below is None or self.above is None:
            return found
        low = rows[:, self.cut.axis] < self.cut.value
        found[low] = self.below.numbers(rows[low])
        found[~low] = self.cut.n_below + self.above.numbers(rows[~low])
        return found


@dataclass(frozen=True, eq=False)
class CellTable:
    """All rows of a table in cells.

    Attributes
    ----------
    cluster : Cluster
        The workers.
    cells : tuple of Future
        `RankedRows` of each cell that has any.
    early : RankedRows
        Rows of the first blocks of the order, known to all.
    low, high : FloatArray (c, d)
        Range of the inputs of each cell, standardised.
    """

    cluster: Cluster
    cells: tuple[Any, ...]
    early: RankedRows
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, cluster: Cluster, parts: list[Any], scale: FloatArray, k: int) -> CellTable:
        """Bring rows together that are near in units of lengthscales (d,).

        Parameters
        ----------
        cluster
            The workers.
        parts
            Futures of `RankedRows`, one for each partition; there are as many cells.
        scale
            Lengthscales (d,).
        k
            Number of neighbours.
        """
        count = len(parts)
        n_early = first_block(k)
        while n_early < LEAST_SHARE * (2 * k + 1) * count:
            n_early *= 2
        size = max(n_early, SAMPLED_ROWS * count)
        early = cluster.result(cluster.total(RankedPass(np.arange(size)), parts))
        cut = cluster.shared(DaskCells.of(early.inputs / scale, count))
        pieces = cluster.map(_cut, parts, cut, scale)
        cells = cluster.spread(_joined, [cluster.map(getitem, pieces, j) for j in range(count)])
        ranges = cluster.result(cluster.map(_range, cells))
        there = [number for number, found in enumerate(ranges) if found is not None]
        low, high = (np.array([ranges[number][side] for number in there]) for side in (0, 1))
        return cls(cluster, tuple(cells[i] for i in there), early.before(n_early), low, high)

    @property
    def box(self) -> Box:
        """Range of all inputs."""
        return Box(self.low.min(axis=0), self.high.max(axis=0))

    def sums(self, prior: LocalPrior) -> WhitenedSums:
        """Sums over all rows, each whitened by near earlier ones."""
        cluster, k = self.cluster, prior.structure.n_neighbours
        shared = cluster.shared(prior)
        if prior.structure.spectrum is None:
            return self._total(cluster.map(_whitened_alone, self.cells, shared))
        scale = prior.local_lengthscale
        early = cluster.shared(self.early)
        queries = cluster.map(_queries, self.cells, early, scale, k)
        own = cluster.map(Candidates.of, self.cells, scale, queries)
        boxes = self.low / scale, self.high / scale
        across = cluster.map(_across, range(len(self.cells)), queries, own, *boxes)
        counts = cluster.result(cluster.map(_counts, across))
        parts = []
        for number, reached in enumerate(counts):
            halo = _Halo(self, number, queries[number], own[number], across[number])
            parts.append(halo.sums(np.flatnonzero(reached).tolist(), early, scale, shared))
        return self._total(parts)

    def _total(self, parts: list[Any]) -> WhitenedSums:
        total: WhitenedSums = self.cluster.result(self.cluster.merged(parts, WhitenedSums.merge))
        return total


@dataclass(frozen=True, eq=False)
class _Halo:
    """The tasks of a cell: ask cells within reach, get the near rows, whiten."""

    table: CellTable
    number: int
    queries: Any
    own: Any
    across: Any

    def sums(self, reached: list[int], early: Any, scale: FloatArray, prior: Any) -> Any:
        """A future of the sums over the cell's rows."""
        cluster, submit, cells = self.table.cluster, self.table.cluster.submit, self.table.cells
        there = [cells[other] for other in reached]
        asked = cluster.map(_asked, reached, self.queries, self.across)
        answers = cluster.map(Candidates.of, there, scale, asked)
        near = submit(_near, self.queries, self.own, self.across, reached, *answers)
        halo = cluster.map(RankedRows.among, there, submit(np.unique, near))
        return submit(_whitened, cells[self.number], early, scale, prior, self.queries, near, *halo)


def _cut(rows: RankedRows, cut: DaskCells, scale: FloatArray) -> list[RankedRows]:
    numbers = cut.numbers(rows.inputs / scale)
    return [rows.take(np.flatnonzero(numbers == number)) for number in range(cut.n_cells)]


def _joined(pieces: list[RankedRows]) -> RankedRows:
    return RankedRows.joined(*pieces)


def _range(rows: RankedRows) -> tuple[FloatArray, FloatArray] | None:
    if not len(rows.ranks):
        return None
    return rows.inputs.min(axis=0), rows.inputs.max(axis=0)


def _queries(rows: RankedRows, early: RankedRows, scale: FloatArray, k: int) -> Queries:
    """The rows of a cell that are in no early block."""
    late = rows.take(np.arange(np.searchsorted(rows.ranks, len(early.ranks)), len(rows.ranks)))
    return Queries(late.ranks, late.inputs / scale, k)


def _across(
    number: int, queries: Queries, own: Candidates, low: FloatArray, high: FloatArray
) -> tuple[Places, ...]:
    """For each cell the queries of this one that have candidates as far away as the cell is."""
    reach, found = own.reach, []
    for other in range(len(low)):
        gaps = queries.inputs - np.clip(queries.inputs, low[other], high[other])
        within = np.sqrt(np.square(gaps).sum(axis=1)) <= reach
        found.append(np.flatnonzero(within & (other != number)))
    return tuple(found)


def _counts(across: tuple[Places, ...]) -> Places:
    return np.array([places.size for places in across])


def _asked(other: int, queries: Queries, across: tuple[Places, ...]) -> Queries:
    return queries.take(across[other])


def _near(
    queries: Queries,
    own: Candidates,
    across: tuple[Places, ...],
    reached: list[int],
    *answers: Candidates,
) -> Places:
    """Ranks (q, k) of the near earlier rows of queries."""
    for other, answer in zip(reached, answers, strict=True):
        own = own.merge_at(across[other], answer)
    return own.nearest(queries)


def _whitened(
    rows: RankedRows,
    early: RankedRows,
    scale: FloatArray,
    prior: LocalPrior,
    queries: Queries,
    near: Places,
    *halo: RankedRows,
) -> WhitenedSums:
    """Sums over the rows of a cell."""
    first = rows.ranks[: len(rows.ranks) - len(queries.ranks)]
    places = earlier_by_trees(early.inputs / scale, first, queries.k)
    known = RankedRows.joined(rows, early, *halo)
    both = np.concatenate([places, near])
    return _sums(known, prior, known.places(rows.ranks), known.places(both))


def _whitened_alone(rows: RankedRows, prior: LocalPrior) -> WhitenedSums:
    """Sums over the rows of a cell under a prior without a local part."""
    count = len(rows.ranks)
    return _sums(rows, prior, np.arange(count), np.empty((count, 0), dtype=np.int64))


def _sums(known: RankedRows, prior: LocalPrior, rows: Places, near: Places) -> WhitenedSums:
    return local_table(known, prior, np.zeros(0)).sums_of(prior, rows, near)


def local_table(
    rows: RankedRows, prior: LocalPrior, offset: FloatArray, box: Box | None = None
) -> Table:
    """A table of some rows, at least one, targets minus the offset (k,); None: their own range."""
    return Table(
        rows.ranks, rows.inputs, rows.columns, np.ones(len(rows.ranks)), offset,
        box or Box.of(rows.inputs), prior.center, prior.spread,
    )  # fmt: skip
