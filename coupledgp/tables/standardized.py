"""Standardised tables, their distances and products, computed once for several priors.

Members of a mixture for a table of many columns have one lengthscale for all columns. Their
covariances are different functions of the same distances and inner products. These take a pass over
the table; the functions take as many operations as there are pairs of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import blas

from coupledgp.core.process import Points
from coupledgp.ground.codec import stored
from coupledgp.linalg.distances import scaled_distances
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray

# Columns from which matrices of all pairs of rows are kept for the next prior: below they cost
# little, and would take memory.
WIDE = 256
# Ranges of a column beyond its training rows for which a linear trend goes on.
REACH = 1.0


@stored
@dataclass(frozen=True, eq=False)
class Box:
    """The range of the rows of a table, outside of which features fade and trends end.

    Inside the range of the training rows the features are `phi(x)`. Outside they fade, and the
    variance that they lose is restored by a process g of the same kernel that no row informs:

        f_g(x) = a(x) phi(x)'w + sqrt(1 - a(x)^2) g(x) ,   a(x) = exp(-|excess(x) / l_g|^2 / 2) .

    A sum of many waves is a good interpolation and says nothing far away, where it would answer
    with the full size of its weights; so far away the mean is that of trend and prior. A linear
    trend goes on for `REACH` ranges of each column, to the nearest place b(x) in a wider box:

        t(x)'c = t(b(x))'c + (x - b(x))'c' ,   c' another draw of the slopes that no row informs.

    So a slope that few rows determine does not change means far away, and deviations grow.

    Attributes
    ----------
    low, high : FloatArray (d,)
        Least and greatest value of each standardised column.
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, inputs: FloatArray) -> Box:
        """The range of standardised inputs (n, d)."""
        return cls(inputs.min(axis=0), inputs.max(axis=0))

    @property
    def wide(self) -> tuple[FloatArray, FloatArray]:
        """Ends (d,) of the wider box, `REACH` ranges beyond the rows."""
        room = REACH * (self.high - self.low)
        return self.low - room, self.high + room

    def bounded(self, inputs: FloatArray) -> FloatArray:
        """Standardised inputs (p, d) of a trend, each column within `REACH` ranges of the rows."""
        return np.clip(inputs, *self.wide)

    def fading(self, inputs: FloatArray, lengthscale: FloatArray) -> FloatArray:
        """Factors a (p,) of the features at standardised inputs (p, d)."""
        excess = inputs - np.clip(inputs, self.low, self.high)
        factor: FloatArray = np.exp(-0.5 * np.square(excess / lengthscale).sum(axis=1))
        return factor


def standardised(points: Points, center: FloatArray, spread: FloatArray) -> FloatArray:
    """Rows (p, d) less the `center` (d,), over the `spread` (d,) of their columns."""
    scaled: FloatArray = points - center
    scaled /= spread
    return scaled


class TablePair:
    """Two standardised tables.

    Attributes
    ----------
    a, b : FloatArray (n, d), (p, d)
        The tables.
    box : Box or None
        Range of the training rows, by which trends are bounded; None for no bounds.
    """

    def __init__(self, a: FloatArray, b: FloatArray, box: Box | None = None) -> None:
        self.a, self.b, self.box = a, b, box
        self._distances: dict[Metric, FloatArray] = {}

    def distances(self, metric: Metric) -> FloatArray:
        """Distances (n, p) between rows, computed once for each metric."""
        if metric not in self._distances:
            self._distances[metric] = scaled_distances(self.a, self.b, metric)
        return self._distances[metric]

    @cached_property
    def products(self) -> FloatArray:
        """Inner products (n, p) of the columns of trends, by the box where there is one.

        They have the same bits whether the tables are one array, of which numpy would make another
        product, or equal ones, as after a model was read from a file.
        """
        a, b = (rows if self.box is None else self.box.bounded(rows) for rows in (self.a, self.b))
        found: FloatArray = blas.dgemm(1.0, b.T, a.T, trans_a=True).T
        beyond = self.a - a, self.b - b
        if all(rows.any() for rows in beyond):
            found += beyond[0] @ beyond[1].T
        return found

    def scaled_distances(self, lengthscale: FloatArray, metric: Metric) -> FloatArray:
        """Distances (n, p) between rows, columns in units of their lengthscales (d,)."""
        if np.ptp(lengthscale) == 0:
            return self.distances(metric) / lengthscale[0]
        return scaled_distances(self.a / lengthscale, self.b / lengthscale, metric)


class Tables:
    """Standardised tables by one standardisation; tables of `WIDE` columns or more are cached.

    Parameters
    ----------
    center, spread
        Mean and standard deviation (d,) of each column.
    box
        See `TablePair`.
    """

    def __init__(self, center: FloatArray, spread: FloatArray, box: Box | None = None) -> None:
        self.center, self.spread, self.box = center, spread, box
        self._keeps = center.size >= WIDE
        self._tables: list[tuple[Points, FloatArray]] = []
        self._pairs: list[TablePair] = []

    def standardised(self, points: Points) -> FloatArray:
        """Standardised rows (p, d)."""
        for known, scaled in self._tables:
            if _are_the_same(known, points):
                return scaled
        scaled = standardised(points, self.center, self.spread)
        if self._keeps:
            self._tables.append((points, scaled))
        return scaled

    def squares(self, points: Points) -> FloatArray:
        """Squares (p,) of the columns of a trend, its products of each row with itself."""
        scaled = self.standardised(points)
        if self.box is None:
            return np.einsum("ij,ij->i", scaled, scaled)
        bounded = self.box.bounded(scaled)
        beyond = scaled - bounded
        own: FloatArray = np.einsum("ij,ij->i", bounded, bounded)
        return own + np.einsum("ij,ij->i", beyond, beyond)

    def pair(self, a: Points, b: Points) -> TablePair:
        """Two tables, of rows (n, d) and (p, d)."""
        first, second = self.standardised(a), self.standardised(b)
        for pair in self._pairs:
            if pair.a is first and pair.b is second:
                return pair
        pair = TablePair(first, second, self.box)
        if self._keeps:
            self._pairs.append(pair)
        return pair


def _are_the_same(a: Points, b: Points) -> bool:
    """Whether two arrays are one, or views of the same numbers in memory."""
    return a is b or (
        a.shape == b.shape and a.strides == b.strides and a.ctypes.data == b.ctypes.data
    )


# Bytes of the hash of the inputs, and of inputs and targets. Of 10^6 training rows and 10^4 test
# rows that are others, one pair or fewer in 10^4 such comparisons agrees in six bytes.
# Bits of a digest that belong to the targets.
# Bytes of the key of the hashes.
