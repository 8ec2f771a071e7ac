"""Laws of observations that are left out, from the inverse covariance of all observations.

With the covariance C of the observations and a group G of them, the residual of the group given all
others is `(C^-1)_GG^-1 (C^-1 y)_G` and its covariance `(C^-1)_GG^-1` (Rasmussen and Williams, 2006,
section 5.4.2, for groups of one): no factorisation is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coupledgp.random import FloatArray, IntArray


def rows_of_groups(groups: IntArray) -> list[IntArray]:
    """Rows of each group, from the number of the group of each row (n,)."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def left_out(
    targets: FloatArray,
    weights: FloatArray,
    groups: list[IntArray],
    blocks: Iterable[FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Means (n, k) and variances (n,) of observations given those of other groups.

    Parameters
    ----------
    targets
        Observations y (n, k).
    weights
        `C^-1 y`, (n, k).
    groups
        Rows of each group.
    blocks
        `(C^-1)_GG` of each group, in the same order.
    """
    mean, variance = np.empty_like(targets), np.empty(len(targets))
    for rows, block in zip(groups, blocks, strict=True):
        covariance = np.linalg.inv(block)
        mean[rows] = targets[rows] - covariance @ weights[rows]
        variance[rows] = covariance.diagonal()
    return mean, variance
