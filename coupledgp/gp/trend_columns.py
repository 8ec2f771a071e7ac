"""Places and trend columns among the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from coupledgp.gp.column_moments import ColumnMoments
from coupledgp.gp.columns import column_moments
from coupledgp.gp.protocol import Data
from coupledgp.inference.lattice.lattice import Lattice
from coupledgp.inference.lattice.sums import LatticeSums
from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class TrendColumns:
    """Which columns are places, and which enter by a linear trend.

    Attributes
    ----------
    places : NDArray[np.int64] (d,)
        Numbers of the columns that are places.
    is_linear : bool
        Whether places have a linear trend, too.
    center, scale : FloatArray (D,)
        Means and standard deviations of all columns.
    """

    places: NDArray[np.int64]
    is_linear: bool
    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(
        cls,
        places: NDArray[np.int64],
        is_linear: bool,
        points: FloatArray,
        counts: FloatArray | None = None,
    ) -> Self:
        """Columns standardised by rows (n, D), which count as often as `counts` (n,) says."""
        return cls._of(places, is_linear, *column_moments(points, counts))

    @classmethod
    def of_moments(cls, places: NDArray[np.int64], is_linear: bool, inputs: ColumnMoments) -> Self:
        """Columns standardised by their moments."""
        return cls._of(places, is_linear, inputs.mean, inputs.variance)

    @classmethod
    def _of(
        cls, places: NDArray[np.int64], is_linear: bool, mean: FloatArray, variance: FloatArray
    ) -> Self:
        scale = np.sqrt(variance)
        return cls(places, is_linear, mean, np.where(scale > 0, scale, 1.0))

    @property
    def columns(self) -> NDArray[np.int64]:
        """Numbers (p,) of the columns with a linear trend."""
        every = np.arange(len(self.center))
        return every if self.is_linear else np.setdiff1d(every, self.places)

    def standardised(self, points: FloatArray) -> FloatArray:
        """Standardised trend columns (n, p) of rows (n, D)."""
        own = self.columns
        found: FloatArray = (points[:, own] - self.center[own]) / self.scale[own]
        return found

    def sums(self, lattice: Lattice, data: Data, offset: FloatArray) -> LatticeSums:
        """Sums on a lattice over observations, of targets less an offset (k,)."""
        places, columns = data.points[:, self.places], self.standardised(data.points)
        return LatticeSums.of(lattice, places, data.targets - offset, columns, data.weights)
