"""Scales of the columns of a table, from which a search for lengthscales starts.

Moments of the columns of a table, which merge over its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import varies
from coupledgp.random import FloatArray, IntArray

# Most rows over whose pairs the mean of |x_i + x_j| in the Laplace rule is taken: four million
# pairs, which take a fraction of a second.
RULE_ROWS = 2000
HYPERPARAMETERS = ("lengthscale", "outputscale", "noise")


def spread_lengthscale(
    inputs: FloatArray,
    ard: bool,
    groups: IntArray | None = None,
    counts: FloatArray | None = None,
) -> FloatArray:
    """Data-driven lengthscales (d,): `sqrt(q)` standard deviations of the q groups of columns.

    Without `groups`, the numbers (d,) of the group of each column of the inputs (n, d), each column
    is a group, q = d. Rows count as often as `counts` (n,) says, or once.
    """
    return root_of_parts(inputs.shape[1], ard, groups) * column_spread(inputs, ard, groups, counts)


def root_of_parts(n_columns: int, ard: bool, groups: IntArray | None) -> float:
    """Root of the number q of groups of columns, by which spreads become lengthscales."""
    return float(np.sqrt(n_columns if groups is None or not ard else int(groups[-1]) + 1))


def column_spread(
    inputs: FloatArray,
    ard: bool,
    groups: IntArray | None = None,
    counts: FloatArray | None = None,
) -> FloatArray:
    """Standard deviations (d,) of the columns of (n, d), or, without `ard`, their root mean square.

    The root mean square stands in all d places. With `ard` a constant column, which has no scale,
    gets the value one, and the columns of one of the `groups`, numbers (d,), get the root of the
    sum of their variances. Rows count as often as `counts` (n,) says, or once.
    """
    _, variance = column_moments(inputs, counts)
    return spread_of_moments(variance, inputs.min(axis=0), inputs.max(axis=0), ard, groups)


def spread_of_moments(
    variance: FloatArray, low: FloatArray, high: FloatArray, ard: bool, groups: IntArray | None
) -> FloatArray:
    """`column_spread` (d,) from the variances (d,) of the columns, and from where to where."""
    own = np.where(varies(low, high), variance, 0.0)
    if ard and groups is not None:
        own = np.bincount(groups, weights=own)[groups]
    elif not ard:
        own = np.full_like(own, own.mean())
    return np.where(own > 0, np.sqrt(own), 1.0)


def column_means(inputs: FloatArray, counts: FloatArray | None = None) -> FloatArray:
    """Means (d,) of the columns of (n, d), rows counted as often as `counts` (n,) says, or once.

    They are the first row and the mean gap from it: sums of large offsets would lose digits.
    """
    first: FloatArray = inputs[0]
    return first + _mean_gaps(inputs, first, counts)[0]


def column_moments(
    inputs: FloatArray, counts: FloatArray | None = None, chunk: int = 65536
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (d,) of the columns of (n, d), without a temporary of the table's size."""
    mean = column_means(inputs, counts)
    rest, squares = _mean_gaps(inputs, mean, counts, chunk)
    # The mean is rounded to the digits of the offset, which may be more than the spread allows.
    return mean, np.maximum(squares - np.square(rest), 0.0)


def _mean_gaps(
    inputs: FloatArray, center: FloatArray, counts: FloatArray | None, chunk: int = 65536
) -> tuple[FloatArray, FloatArray]:
    """Means (d,) of the gaps of the columns of (n, d) from a centre (d,), and of their squares."""
    sums, squares = np.zeros(inputs.shape[1]), np.zeros(inputs.shape[1])
    for start in range(0, len(inputs), chunk):
        gaps = inputs[start : start + chunk] - center
        shares = np.ones(len(gaps)) if counts is None else counts[start : start + chunk]
        sums += shares @ gaps
        squares += shares @ np.square(gaps, out=gaps)
    total = len(inputs) if counts is None else counts.sum()
    return sums / total, squares / total


def laplace_lengthscale(
    centred: FloatArray, rng: np.random.Generator, counts: FloatArray | None = None
) -> float:
    """`2 mean_ij |x_i + x_j|` over all pairs of rows of (n, d), of at most 2000 random rows."""
    if len(centred) > RULE_ROWS:
        chosen = np.sort(rng.choice(len(centred), RULE_ROWS, replace=False))
        centred, counts = centred[chosen], None if counts is None else counts[chosen]
    rows = torch.as_tensor(centred)
    sums = torch.cdist(rows, -rows)
    if counts is None:
        rule = 2 * float(sums.mean())
    else:
        shares = torch.as_tensor(counts / counts.sum())
        rule = 2 * float(shares @ sums @ shares)
    return rule if rule > 0 else 1.0


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
