"""Gradient boosting by scikit-learn, which gives means without a law."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from coupledgp.diagnostics.rivals.contest import FOLDS
from coupledgp.diagnostics.rivals.rival import Rival
from coupledgp.gp.protocol import Data
from coupledgp.ground.progress import reporter
from coupledgp.random import FloatArray

# Fewest rows for boosting: its leaves hold 20 rows each.
FEWEST_ROWS = 60
# Seconds of a fit on one core of a server of 2023: at least, and for each row and column up to.
FIT_SECONDS, ENTRY_SECONDS, MOST_BINNED = 0.25, 5e-6, 10_000


def forecast(n_rows: int, n_columns: int, n_outputs: int) -> float:
    """Seconds of the fits to all rows and to the folds."""
    rows = min(n_rows, MOST_BINNED) + 0.1 * max(n_rows - MOST_BINNED, 0)
    return (FOLDS + 1) * n_outputs * (FIT_SECONDS + ENTRY_SECONDS * rows * n_columns)


def boosting(data: Data, seed: int) -> Rival:
    """Boosted trees of a table as a rival; they need a number of rows."""

    def fit(given: Data, seconds: float) -> Any:
        if len(data) < FEWEST_ROWS:
            return f"expected {FEWEST_ROWS} training rows at least, got {len(data)}"
        with reporter("boosting") as report:
            report("fit")
            models = [_fitted(given, targets, seed) for targets in given.targets.T]
        return lambda points: np.column_stack([model.predict(points) for model in models])

    action = (
        "Use boosted trees: scikit-learn's HistGradientBoostingRegressor, with the error of "
        "cross-validation as standard deviation."
    )
    n, d = data.points.shape
    return Rival("gradient boosting", fit, action, forecast(n, d, data.targets.shape[1]))


def _fitted(data: Data, targets: FloatArray, seed: int) -> Any:
    """Boosted trees fitted to targets (n,)."""
    weights = None if data.relative_noise is None else 1 / data.relative_noise
    model = HistGradientBoostingRegressor(random_state=seed)
    return model.fit(data.points, targets, sample_weight=weights)
