"""Scales of the columns of a table, from which a search for lengthscales starts."""

from __future__ import annotations

import numpy as np
import torch

from coupledgp.gp.units import safe_scale
from coupledgp.inference.search.optimize import first_places
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
    return spread_of_moments(*column_moments(inputs, counts), ard, groups)


def spread_of_moments(
    mean: FloatArray, variance: FloatArray, ard: bool, groups: IntArray | None
) -> FloatArray:
    """`column_spread` (d,) from the means and variances (d,) of the columns."""
    if ard and groups is not None:
        total = np.sqrt(np.bincount(groups, weights=variance))
        largest = np.maximum.reduceat(np.abs(mean), first_places(groups))
        spread: FloatArray = safe_scale(total, largest)[groups]
        return spread
    if ard:
        return safe_scale(np.sqrt(variance), mean)
    pooled = safe_scale(np.sqrt(variance.mean()), np.abs(mean).max())
    return np.full(mean.size, pooled)


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
