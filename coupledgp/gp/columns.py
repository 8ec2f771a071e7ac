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


def spread_lengthscale(inputs: FloatArray, ard: bool, groups: IntArray | None = None) -> FloatArray:
    """Data-driven lengthscales (d,): `sqrt(q)` standard deviations of the q groups of columns.

    Without `groups`, the numbers (d,) of the group of each column of the inputs (n, d), each column
    is a group, q = d.
    """
    size = inputs.shape[1] if groups is None or not ard else int(groups[-1]) + 1
    return np.sqrt(size) * column_spread(inputs, ard, groups)


def column_spread(inputs: FloatArray, ard: bool, groups: IntArray | None = None) -> FloatArray:
    """Standard deviations (d,) of the columns of (n, d), or, without `ard`, their root mean square.

    The root mean square stands in all d places. With `ard` a constant column, which has no scale,
    gets the value one, and the columns of one of the `groups`, numbers (d,), get the root of the
    sum of their variances.
    """
    mean, variance = column_moments(inputs)
    if ard and groups is not None:
        total = np.sqrt(np.bincount(groups, weights=variance))
        largest = np.maximum.reduceat(np.abs(mean), first_places(groups))
        spread: FloatArray = safe_scale(total, largest)[groups]
        return spread
    if ard:
        return safe_scale(np.sqrt(variance), mean)
    pooled = safe_scale(np.sqrt(variance.mean()), np.abs(mean).max())
    return np.full(inputs.shape[1], pooled)


def column_moments(inputs: FloatArray, chunk: int = 65536) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (d,) of the columns of (n, d), without a temporary of the table's size."""
    mean = inputs.mean(axis=0)
    squares = np.zeros_like(mean)
    for start in range(0, len(inputs), chunk):
        squares += np.square(inputs[start : start + chunk] - mean).sum(axis=0)
    return mean, squares / len(inputs)


def laplace_lengthscale(centred: FloatArray, rng: np.random.Generator) -> float:
    """`2 mean_ij |x_i + x_j|` over all pairs of rows of (n, d), of at most 2000 random rows."""
    if len(centred) > RULE_ROWS:
        centred = centred[np.sort(rng.choice(len(centred), RULE_ROWS, replace=False))]
    rows = torch.as_tensor(centred)
    rule = 2 * float(torch.cdist(rows, -rows).mean())
    return rule if rule > 0 else 1.0
