"""Tables of places whose sums on any lattice can be asked for, in memory or in passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from coupledgp.batches.passes import PartwisePass
from coupledgp.gp.lattice_parts import TrendColumns
from coupledgp.gp.protocol import Data
from coupledgp.gp.table_passes import BlockedPass, TablePasses
from coupledgp.gp.units import Units
from coupledgp.inference.lattice.lattice import Lattice, PlaceBox
from coupledgp.inference.lattice.sums import LatticeSums
from coupledgp.random import FloatArray

# Random rows that stand for a table in choices, and rows that are summed at once.
SAMPLE_ROWS, SUM_ROWS = 2**16, 2**18


class LatticeRows(ABC):
    """A table whose sums on any lattice can be asked for.

    Attributes
    ----------
    units : Units
        Units of the targets.
    trend : TrendColumns
        Places and trend columns.
    box : PlaceBox
        The box of the places.
    n_counted : float
        Number of rows, each as often as it counts.
    sample : Data
        Random rows, at most `SAMPLE_ROWS`; all where there are no more.
    kept : Data or None
        All rows, where they are in memory.
    seconds_a_pass : float
        Seconds that a pass takes for reading the rows alone.
    """

    units: Units
    trend: TrendColumns
    box: PlaceBox
    n_counted: float
    sample: Data
    kept: Data | None = None
    seconds_a_pass: float = 0.0

    @property
    def n_outputs(self) -> int:
        """Number k of targets."""
        return self.units.n_outputs

    @property
    def n_trend(self) -> int:
        """Number p of trend columns."""
        return len(self.trend.columns)

    @abstractmethod
    def raw_sums(self, lattice: Lattice) -> LatticeSums:
        """Sums over all rows, of targets less the offset of the units, in units of y."""

    def sums(self, lattice: Lattice) -> LatticeSums:
        """Sums over all rows, targets in normalised units."""
        return self.raw_sums(lattice).shifted(np.zeros(self.n_outputs), 1 / self.units.scale)

    def some(self, n_rows: int, rng: np.random.Generator) -> Data:
        """At most so many random rows, of the sample."""
        count = len(self.sample)
        if count <= n_rows:
            return self.sample
        return self.sample.take(np.sort(rng.choice(count, n_rows, replace=False)))

    def part(self, data: Data) -> RowsInMemory:
        """Some rows by themselves, in the same box and units."""
        return RowsInMemory(data, self.units, self.trend, self.box)


class RowsInMemory(LatticeRows):
    """Rows in memory.

    Parameters
    ----------
    data
        Observations.
    units, trend
        As of `LatticeRows`.
    box
        The box of the places; None: that of these rows.
    """

    def __init__(
        self, data: Data, units: Units, trend: TrendColumns, box: PlaceBox | None = None
    ) -> None:
        self.kept, self.units, self.trend = data, units, trend
        self.n_counted = float(len(data)) if data.weights is None else data.weights.n_counted
        self.sample = data
        if len(data) > SAMPLE_ROWS:
            self.sample = data.take(sample_of(len(data)))
        if box is None:
            places = data.points[:, trend.places]
            sample = self.sample.points[:, trend.places]
            box = PlaceBox.within(places.min(axis=0), places.max(axis=0), sample)
        self.box = box

    @cached_property
    def places(self) -> FloatArray:
        """Places (n, d)."""
        assert self.kept is not None
        return np.asarray(self.kept.points[:, self.trend.places])

    @cached_property
    def targets(self) -> FloatArray:
        """Normalised targets (n, k)."""
        assert self.kept is not None
        return self.units.normalized(self.kept.targets)

    def raw_sums(self, lattice: Lattice) -> LatticeSums:
        data = self.kept
        assert data is not None
        sums, found = LatticePass(lattice, self.trend, self.units), None
        for start in range(0, len(data), SUM_ROWS):
            found = sums.add(found, data.between(start, start + SUM_ROWS))
        assert found is not None
        return found


class RowsInPasses(LatticeRows):
    """A table that is gone through once for the sums of each lattice, and once for its sample.

    Parameters
    ----------
    passes
        The table.
    units, trend
        As of `LatticeRows`.
    """

    def __init__(self, passes: TablePasses, units: Units, trend: TrendColumns) -> None:
        self.passes, self.units, self.trend = passes, units, trend
        summary = passes.summary
        self.n_counted, self.seconds_a_pass = summary.targets.n_counted, passes.seconds_a_pass
        self.sample = passes.take(sample_of(summary.n_rows))
        low, high = (end[trend.places] for end in (summary.inputs.low, summary.inputs.high))
        self.box = PlaceBox.within(low, high, self.sample.points[:, trend.places])

    def raw_sums(self, lattice: Lattice) -> LatticeSums:
        found: LatticeSums = self.passes.total(LatticePass(lattice, self.trend, self.units))
        return found


class LatticePass(PartwisePass[LatticeSums], BlockedPass[LatticeSums | None]):
    """Sums on a lattice of targets less the offset of their units.

    Parameters
    ----------
    lattice, trend, units
        Frequencies, places and trend columns, and units of the targets.
    """

    name = "lattice"

    def __init__(self, lattice: Lattice, trend: TrendColumns, units: Units) -> None:
        self.lattice, self.trend, self.offset = lattice, trend, units.offset

    @property
    def block_rows(self) -> int:
        return SUM_ROWS

    def of(self, part: Data) -> LatticeSums:
        return self.trend.sums(self.lattice, part, self.offset)


def sample_of(n_rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Numbers of the rows of the sample of a table, which ascend; the same for all tables."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows)
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n_rows, SAMPLE_ROWS, replace=False, shuffle=False))
