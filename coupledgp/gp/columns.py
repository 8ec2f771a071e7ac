"""Scales of the columns of a table, from which a search for lengthscales starts."""

from __future__ import annotations

import numpy as np

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
