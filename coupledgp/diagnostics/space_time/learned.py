"""Predictions by what other sensors and earlier times have taught: regressions and low rank.

Each takes standardised readings Z (p, n) of the sensors that have any, and answers for all cells.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coupledgp.diagnostics.space_time.simple import linear_in_time
from coupledgp.diagnostics.space_time.splits import BoolArray, SensorReadings
from coupledgp.random import FloatArray, as_rng

# Penalty of regressions, as a share of the number of times, for readings of unit variance.
RIDGE = 0.07
# Rounds in which missing readings are filled by the regressions that they enter.
ROUNDS = 3
# Lags of the autoregression.
LAGS = 3
# Singular values are shrunk by one of these shares of the largest, whichever fills a twentieth of
# the readings best.
SHRINKAGE, HELD_SHARE, SEARCH_STEPS, STEPS = (0.3, 0.1, 0.03, 0.01), 0.05, 8, 25


def ridge_on_peers(readings: SensorReadings) -> FloatArray:
    """Each sensor's regression on all others at the same time, (p, n).

    With `O = (Z Z' + lam I)^-1` it is `-sum_{j != i} O_ij / O_ii z_j`: one inverse serves all.
    Missing readings are those joined by straight lines at first, and then what this predicts.
    """
    return _standardised(readings, _peers)


def autoregression(readings: SensorReadings) -> FloatArray:
    """Each sensor's ridge regression on the last three readings of all, step by step, (p, n).

    A reading that is missing is what the regression predicts, so that errors add up over a gap.
    """
    return _standardised(readings, _recursion)


def low_rank(readings: SensorReadings) -> FloatArray:
    """Readings of least nuclear norm that are near those seen, (p, n).

    Missing readings are replaced by those of a matrix whose singular values are shrunk, again and
    again (softImpute: Mazumder, Hastie and Tibshirani, 2010).
    """
    return _standardised(readings, _soft_impute)


def _standardised(
    readings: SensorReadings, fill: Callable[[FloatArray, BoolArray], FloatArray]
) -> FloatArray:
    """Answers (p, n) from standardised readings; NaN for sensors without any."""
    found = np.full(readings.values.shape, np.nan)
    known = readings.seen.any(axis=1)
    if not known.any():
        return found
    values, seen = readings.values[known], readings.seen[known]
    mean = np.nanmean(values, axis=1, keepdims=True)
    spread = np.nanstd(values, axis=1, keepdims=True)
    spread = np.where(spread > 0, spread, 1.0)
    joined = (linear_in_time(readings)[known] - mean) / spread
    found[known] = mean + spread * fill(joined, seen)
    return found


def _peers(joined: FloatArray, seen: BoolArray) -> FloatArray:
    filled = joined.copy()
    found = np.zeros_like(joined)
    penalty = RIDGE * joined.shape[1] * np.eye(len(joined))
    for _ in range(ROUNDS):
        precision = np.linalg.inv(filled @ filled.T + penalty)
        found = filled - (precision @ filled) / np.diag(precision)[:, None]
        filled = np.where(seen, joined, found)
    return found


def _recursion(joined: FloatArray, seen: BoolArray) -> FloatArray:
    n = joined.shape[1]
    if n <= LAGS:
        return np.zeros_like(joined)
    lagged = np.vstack([joined[:, LAGS - lag : n - lag] for lag in range(1, LAGS + 1)])
    gram = lagged @ lagged.T
    gram[np.diag_indices_from(gram)] += RIDGE * n
    weights = np.linalg.solve(gram, lagged @ joined[:, LAGS:].T).T
    found, filled = joined.copy(), joined.copy()
    for t in range(LAGS, n):
        past = filled[:, t - LAGS : t][:, ::-1].T.ravel()
        found[:, t] = weights @ past
        filled[:, t] = np.where(seen[:, t], joined[:, t], found[:, t])
    return found


def _soft_impute(joined: FloatArray, seen: BoolArray) -> FloatArray:
    held = seen & (as_rng(0).random(seen.shape) < HELD_SHARE)
    start = np.where(seen, joined, 0.0)
    largest = float(np.linalg.norm(start, 2))
    if not held.any() or largest == 0:
        return _shrunk(start, seen, 0.1 * largest, STEPS)
    errors = [
        np.square(
            (_shrunk(np.where(held, 0.0, start), seen & ~held, share * largest, SEARCH_STEPS)
             - joined)[held]
        ).mean()
        for share in SHRINKAGE
    ]  # fmt: skip
    return _shrunk(start, seen, SHRINKAGE[int(np.argmin(errors))] * largest, STEPS)


def _shrunk(start: FloatArray, seen: BoolArray, shrinkage: float, n_steps: int) -> FloatArray:
    """A matrix of shrunk singular values near `start` (p, n) where it is seen.

    Singular vectors of the shorter side are eigenvectors U of products with itself, `X X' = U S^2
    U'`, and `U max(1 - shrinkage / S, 0) U' X` has the shrunk values.
    """
    if start.shape[0] > start.shape[1]:
        return _shrunk(start.T, seen.T, shrinkage, n_steps).T
    found = np.zeros_like(start)
    for _ in range(n_steps):
        filled = np.where(seen, start, found)
        squares, left = np.linalg.eigh(filled @ filled.T)
        kept = squares > shrinkage**2
        shares = 1.0 - shrinkage / np.sqrt(squares[kept])
        found = (left[:, kept] * shares) @ (left[:, kept].T @ filled)
    return found
