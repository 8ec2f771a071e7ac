"""Gradient boosting by scikit-learn as a predictive law: its error is that of cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from coupledgp.diagnostics.scoring.scores import point_nlpd
from coupledgp.gp.protocol import Data
from coupledgp.ground.progress import Progress, reporter
from coupledgp.models.other_models.contest import Scored
from coupledgp.random import FloatArray, IntArray

FOLDS = 5
# Fewest rows for boosting: its leaves hold 20 rows each.
FEWEST_ROWS = 60
# Seconds of a fit on one core of a server of 2023: at least, and for each row and column up to.
FIT_SECONDS, ENTRY_SECONDS, MOST_BINNED = 0.25, 5e-6, 10_000


def forecast(n_rows: int, n_columns: int, n_outputs: int) -> float:
    """Seconds of the fits to all rows and to the folds."""
    rows = min(n_rows, MOST_BINNED) + 0.1 * max(n_rows - MOST_BINNED, 0)
    return (FOLDS + 1) * n_outputs * (FIT_SECONDS + ENTRY_SECONDS * rows * n_columns)


def boosted(data: Data, points: FloatArray, y: FloatArray, seed: int) -> Scored | str:
    """Means at points (p, d) and densities of targets (p, k) of a normal law.

    Its standard deviation is the root mean squared error of the predictions of five folds, each
    from the other four.
    """
    if len(data) < FEWEST_ROWS:
        return f"expected {FEWEST_ROWS} training rows at least, got {len(data)}"
    mean, std = np.empty_like(y), np.empty_like(y)
    with reporter("boosting") as report:
        for k, targets in enumerate(data.targets.T):
            error = _cross_validated(data, targets, seed, report)
            std[:, k] = max(error, 1e-9 * float(np.abs(targets).max()), 1e-300)
            report("all rows")
            everything = np.arange(len(data))
            mean[:, k] = _fitted(data, targets, everything, seed).predict(points)
    return Scored(mean, std, point_nlpd(y, mean, std).mean(axis=1))


def _cross_validated(data: Data, targets: FloatArray, seed: int, report: Progress) -> float:
    """Root mean squared error of the folds, rows counted as often as they count."""
    errors = np.empty(len(targets))
    folds = KFold(FOLDS, shuffle=True, random_state=seed)
    for number, (rest, held) in enumerate(folds.split(data.points)):
        report(f"fold {number + 1} of {FOLDS}")
        predicted = _fitted(data, targets, rest, seed).predict(data.points[held])
        errors[held] = targets[held] - predicted
    return float(np.sqrt(np.average(np.square(errors), weights=data.counts)))


def _fitted(data: Data, targets: FloatArray, rows: IntArray, seed: int) -> Any:
    """Boosted trees fitted to some rows."""
    weights = None if data.relative_noise is None else 1 / data.relative_noise[rows]
    model = HistGradientBoostingRegressor(random_state=seed)
    return model.fit(data.points[rows], targets[rows], sample_weight=weights)
