"""Standardised tables, their distances and products, computed once for priors that share them.

Members of a mixture for a table of many columns have one lengthscale for all of them. Their
covariances differ in what they make of the same distances and inner products, which take a pass
over the table; the rest takes as many operations as there are pairs of rows.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import blas

from coupledgp.gp.protocol import Points
from coupledgp.inference.dense.evidence import scaled_distances
from coupledgp.random import FloatArray

# Columns from which matrices of all pairs of rows are kept for the next prior: below they cost
# little, and would take memory.
WIDE = 256


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
    """

    def __init__(self, a: FloatArray, b: FloatArray) -> None:
        self.a, self.b = a, b

    @cached_property
    def distances(self) -> FloatArray:
        """Euclidean distances (n, p) between rows."""
        return scaled_distances(self.a, self.b)

    @cached_property
    def products(self) -> FloatArray:
        """Inner products (n, p) of rows.

        They have the same bits whether the tables are one array, of which numpy would make another
        product, or equal ones, as after a model was read from a file.
        """
        found: FloatArray = blas.dgemm(1.0, self.b.T, self.a.T, trans_a=True).T
        return found

    def scaled_distances(self, lengthscale: FloatArray) -> FloatArray:
        """Distances (n, p) between rows, columns in units of their lengthscales (d,)."""
        if np.ptp(lengthscale) == 0:
            return self.distances / lengthscale[0]
        return scaled_distances(self.a / lengthscale, self.b / lengthscale)


class Tables:
    """Tables by one standardisation; those of at least `WIDE` columns are kept, with their pairs.

    Parameters
    ----------
    center, spread
        Mean and standard deviation (d,) of each column.
    """

    def __init__(self, center: FloatArray, spread: FloatArray) -> None:
        self.center, self.spread = center, spread
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

    def pair(self, a: Points, b: Points) -> TablePair:
        """Two tables, of rows (n, d) and (p, d)."""
        first, second = self.standardised(a), self.standardised(b)
        for pair in self._pairs:
            if pair.a is first and pair.b is second:
                return pair
        pair = TablePair(first, second)
        if self._keeps:
            self._pairs.append(pair)
        return pair


def _are_the_same(a: Points, b: Points) -> bool:
    """Whether two arrays are one, or views of the same numbers in memory."""
    return a is b or (
        a.shape == b.shape and a.strides == b.strides and a.ctypes.data == b.ctypes.data
    )
