"""Boosted trees of folds of rows, by scikit-learn, as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.gp.boosted_trees import BoostedTrees, folds_of
from coupledgp.gp.protocol import Data
from coupledgp.random import FloatArray

# Folds of rows, and fewest rows in the training part of a fold: its leaves hold twenty each.
FOLDS, FEWEST_ROWS = 5, 60
# Seconds of a fit of a hundred trees on one core of a server of 2023: at least, for each column,
# and for each row and column.
FIT_SECONDS, COLUMN_SECONDS, ENTRY_SECONDS = 0.1, 0.01, 5e-7


def boosting_seconds(n_rows: int, n_columns: int) -> float:
    """Forecast of the cost of the fits of all folds to one output."""
    entries = n_rows * n_columns
    return FOLDS * (FIT_SECONDS + COLUMN_SECONDS * n_columns + ENTRY_SECONDS * entries)


def fit_trees(data: Data, seed: int) -> BoostedTrees:
    """Fit boosted trees to the rows outside of each fold, for each output.

    They are of scikit-learn's `HistGradientBoostingRegressor` (Ke and others, 2017), a hundred
    trees of at most 31 leaves without early stopping, on one thread, so that no sum hangs on how
    threads share rows. Rows weigh by their counts over their relative noise.

    Raises
    ------
    NumericalError
        Too few rows lie outside of a fold, since many are equal.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import
    from threadpoolctl import threadpool_limits

    folds = folds_of(data.points, FOLDS)
    weights = None if data.relative_noise is None else 1 / data.relative_noise
    models = []
    with threadpool_limits(1, user_api="openmp"):
        for fold in range(FOLDS):
            rows = np.flatnonzero(folds != fold)
            if rows.size < FEWEST_ROWS:
                raise NumericalError(
                    f"X: {rows.size} rows lie outside of a fold, {FEWEST_ROWS} are needed for trees"
                )
            own = None if weights is None else weights[rows]
            points = data.points[rows]
            for targets in data.targets[rows].T:
                model = HistGradientBoostingRegressor(random_state=seed, early_stopping=False)
                models.append(model.fit(points, targets, sample_weight=own))
    return trees_of(models, FOLDS)


def trees_of(models: list[Any], n_folds: int) -> BoostedTrees:
    """The trees of models of scikit-learn for each fold and output, folds before outputs."""
    trees = [[stage[0].nodes for stage in model._predictors] for model in models]
    each = [nodes for own in trees for nodes in own]
    lengths = np.array([len(nodes) for nodes in each])
    nodes = np.concatenate(each)
    leaf = nodes["is_leaf"].astype(bool)

    def integers(name: str) -> Any:
        return np.where(leaf, 0, nodes[name].astype(np.int64))

    base: FloatArray = np.array([float(model._baseline_prediction[0, 0]) for model in models])
    return BoostedTrees(
        base=base.reshape(n_folds, -1),
        sums=np.cumsum([0, *(len(own) for own in trees)]).astype(np.int64),
        starts=(np.cumsum(lengths) - lengths).astype(np.int64),
        feature=np.where(leaf, -1, nodes["feature_idx"].astype(np.int64)),
        threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
        left=integers("left"),
        right=integers("right"),
        missing_left=nodes["missing_go_to_left"].astype(bool) & ~leaf,
        value=np.where(leaf, nodes["value"], 0.0),
    )
