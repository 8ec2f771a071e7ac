"""Moments of the columns of a table, which merge over its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Count, mean, variance and range of each of d columns.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    n_counted : float
        Number of rows, each as often as it counts.
    long_mean, long_variance : NDArray (d,)
        Mean and variance, rows counted so often, in more digits than float64 where the machine has
        them: how a table is split then changes no bit of `mean` and `variance`.
    low, high : FloatArray (d,)
        Least and greatest value.
    """

    n_rows: int
    n_counted: float
    long_mean: NDArray[np.longdouble]
    long_variance: NDArray[np.longdouble]
    low: FloatArray
    high: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Means (d,) of the columns."""
        return self.long_mean.astype(np.float64)

    @property
    def variance(self) -> FloatArray:
        """Variances (d,) of the columns."""
        return self.long_variance.astype(np.float64)

    @classmethod
    def of(cls, values: FloatArray, counts: FloatArray | None = None) -> ColumnMoments:
        """Moments of values (n, d), n > 0, that count as often as `counts` (n,) says, or once."""
        shares = None if counts is None else counts.astype(np.longdouble)
        total = len(values) if shares is None else shares.sum()
        mean = _sums(values, shares) / total
        variance = _sums(np.square(values - mean), shares) / total
        ends = values.min(axis=0), values.max(axis=0)
        return cls(len(values), float(total), mean, variance, *ends)

    def merge(self, other: ColumnMoments) -> ColumnMoments:
        """Moments of the rows of both tables (Chan, Golub and LeVeque, 1979)."""
        total = self.n_counted + other.n_counted
        share = np.longdouble(other.n_counted) / np.longdouble(total)
        gap = other.long_mean - self.long_mean
        within = (1 - share) * self.long_variance + share * other.long_variance
        return ColumnMoments(
            self.n_rows + other.n_rows,
            total,
            self.long_mean + share * gap,
            within + share * (1 - share) * np.square(gap),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def _sums(values: NDArray[Any], shares: NDArray[np.longdouble] | None) -> NDArray[np.longdouble]:
    """Sums (d,) of values (n, d), each row times its share."""
    if shares is not None:
        values = values * shares[:, None]
    found: NDArray[np.longdouble] = values.sum(axis=0, dtype=np.longdouble)
    return found
