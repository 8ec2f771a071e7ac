"""Rows of a table in cells of space on a cluster, each whitened with a halo from its neighbours.

A cell is a box of a k-d tree over a sample of the rows, in the metric of the local part. Most
neighbours of a row lie in its own cell. Where the candidates of the own cell are farther away than
another cell, the row is sent to that cell. The near rows that come back are the halo.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import Any, NamedTuple

import numpy as np

from coupledgp.dask.cluster import Cluster
from coupledgp.dask.neighbours import Asking, Candidates, RankedPass, RankedRows
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

    @cached_property
    def early_everywhere(self) -> Any:
        """A future of the early rows, for tasks."""
        return self.cluster.shared(self.early)

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
        scale, n_early = prior.local_lengthscale, len(self.early.ranks)
        numbers, boxes = list(range(len(self.cells))), Box(self.low / scale, self.high / scale)
        asking = cluster.map(Asking.of, self.cells, numbers, n_early, scale, k, boxes)
        reached = cluster.result(cluster.map(Asking.reached, asking))
        cells = zip(numbers, asking, reached, strict=True)
        return self._total([self._with_halo(*cell, scale, shared) for cell in cells])

    def _with_halo(
        self, number: int, asking: Any, reached: list[int], scale: FloatArray, prior: Any
    ) -> Any:
        """A future of the sums over a cell's rows, for which near rows of other cells are found."""
        cluster, there = self.cluster, [self.cells[other] for other in reached]
        asked = [cluster.submit(Asking.of_cell, asking, other) for other in reached]
        answers = cluster.map(Candidates.of, there, scale, asked)
        near = cluster.submit(Asking.nearest, asking, reached, *answers)
        halo = cluster.map(RankedRows.among, there, cluster.submit(np.unique, near))
        known = self.cells[number], self.early_everywhere
        return cluster.submit(_whitened, *known, scale, prior, near, *halo)

    def _total(self, parts: list[Any]) -> WhitenedSums:
        total: WhitenedSums = self.cluster.result(self.cluster.merged(parts, WhitenedSums.merge))
        return total


def _cut(rows: RankedRows, cut: DaskCells, scale: FloatArray) -> list[RankedRows]:
    numbers = cut.numbers(rows.inputs / scale)
    return [rows.take(np.flatnonzero(numbers == number)) for number in range(cut.n_cells)]


def _joined(pieces: list[RankedRows]) -> RankedRows:
    return RankedRows.joined(*pieces)


def _range(rows: RankedRows) -> tuple[FloatArray, FloatArray] | None:
    if not len(rows.ranks):
        return None
    return rows.inputs.min(axis=0), rows.inputs.max(axis=0)


def _whitened(
    rows: RankedRows,
    early: RankedRows,
    scale: FloatArray,
    prior: LocalPrior,
    near: Places,
    *halo: RankedRows,
) -> WhitenedSums:
    """Sums over the rows of a cell, given near rows (q, k) of the last q of them."""
    first = rows.ranks[: len(rows.ranks) - len(near)]
    places = earlier_by_trees(early.inputs / scale, first, near.shape[1])
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
