"""Assertions of the contracts, with messages that say which law or number is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from coupledgp.random import FloatArray

# A run makes thousands of these tests, and all of them together must hold for any seed.
P_VALUE = 1e-9  # chance that a test refuses a correct law
STANDARD_ERRORS = 7.0  # a mean is further off with chance 3e-12; the margin is for heavy tails


def require(condition: Any, message: str) -> None:
    """Raise an `AssertionError` unless the condition holds, also under `python -O`."""
    if not bool(condition):
        raise AssertionError(message)


def require_uniform(values: FloatArray, what: str) -> None:
    """Refuse independent values (n,) that are not uniform on (0, 1), by a Kolmogorov-Smirnov test.

    `what` names the values in the message.
    """
    n = values.size
    ordered, steps = np.sort(values), np.arange(n + 1) / n
    distance = float(max((ordered - steps[:-1]).max(), (steps[1:] - ordered).max()))
    limit = float(special.kolmogi(P_VALUE)) / np.sqrt(n)
    require(
        distance <= limit,
        f"{what}: not of its law, Kolmogorov-Smirnov distance {distance:.3f} over {n} draws is "
        f"more than {limit:.3f}",
    )


def require_law(counts: ArrayLike, chances: ArrayLike, what: str) -> None:
    """Refuse counts of independent draws that do not follow the chances, by a chi-square test.

    Parameters
    ----------
    counts
        Number of draws that fell into each cell, shape (n,).
    chances
        Probability of each cell, shape (n,).
    what
        Name of the draws in the message.
    """
    cells, expected = np.asarray(counts, dtype=np.float64), np.asarray(chances, dtype=np.float64)
    expected = expected * cells.sum()
    require(cells[expected == 0].sum() == 0, f"{what}: something of chance zero was drawn")
    rare = expected < 5  # the usual bound below which a count is far from a normal variable
    cells = np.append(cells[~rare], cells[rare].sum())
    means = np.append(expected[~rare], expected[rare].sum())
    cells, means = cells[means > 0], means[means > 0]
    statistic = float(((cells - means) ** 2 / means).sum())
    limit = float(stats.chi2.isf(P_VALUE, max(means.size - 1, 1)))
    require(statistic <= limit, f"{what}: not of its law, chi-square {statistic:.1f} > {limit:.1f}")


def require_mean(draws: FloatArray, expected: ArrayLike, what: str) -> None:
    """Refuse draws whose mean is too many standard errors from its expectation.

    Parameters
    ----------
    draws
        Independent draws along the first axis, shape (n, ...).
    expected
        Their expectation, shape (...).
    what
        Name of the draws in the message.
    """
    error = draws.mean(axis=0) - np.asarray(expected)
    spread = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    z = np.abs(error) / np.maximum(spread, 1e-12)  # constant draws may differ by rounding
    worst = float(z.max())
    require(worst < STANDARD_ERRORS, f"{what}: biased by {worst:.1f} standard errors")


def require_close(actual: ArrayLike, expected: ArrayLike, tolerance: float, what: str) -> None:
    """Refuse two arrays of one shape that do not agree.

    `tolerance` bounds the largest difference, relative to the largest entry of `expected` or to
    one, whichever is more; `what` names the arrays in the message.
    """
    left, right = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    require(left.shape == right.shape, f"{what}: expected shape {right.shape}, got {left.shape}")
    if left.size == 0:
        return
    error = float(np.abs(left - right).max())
    limit = tolerance * max(float(np.abs(right).max()), 1.0)
    require(error <= limit, f"{what}: differ by {error:.2e}, more than {limit:.2e}")
