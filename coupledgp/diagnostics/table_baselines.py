"""Simple predictions of a table's targets that a model should beat, with laws of their own.

| name | prediction, and its standard deviation |
|---|---|
| mean | the mean of the training targets; theirs |
| nearest | the target of the nearest training row in inputs of unit variance; that of the same error among training rows |
| linear | least squares on the inputs; that of the residuals, with the error of the fit |
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from coupledgp.diagnostics.baselines import BaselinePrediction
from coupledgp.diagnostics.score_table import paired_scores
from coupledgp.diagnostics.scores import nlpd, paired_difference, rmse
from coupledgp.random import FloatArray

# Training rows, drawn at random, among which the error of the nearest row is measured.
MEASURED = 4000
# A difference is told where it is this many standard errors.
CLEAR = 2.0


@dataclass(frozen=True)
class BesideBaseline:
    """A model beside a baseline.

    Attributes
    ----------
    name : str
    rmse, nlpd : float
        Scores of the baseline.
    differences : dict of str to dict
        Losses of the model minus those of the baseline, as in `Figures.differences`.
    """

    name: str
    rmse: float
    nlpd: float
    differences: dict[str, dict[str, float | None]]

    @classmethod
    def of(
        cls, y: FloatArray, mean: FloatArray, std: FloatArray, other: BaselinePrediction
    ) -> BesideBaseline:
        """Scores of a law of single points, (p,), beside those of a baseline's."""
        assert other.std is not None
        found: dict[str, dict[str, Any]] = {}
        for score in paired_scores():
            own, theirs = (
                score.losses(*(part[:, None] for part in (y, *law)))
                for law in ((mean, std), (other.mean, other.std))
            )
            found[score.difference_name] = paired_difference(own, theirs)._asdict()
        return cls(other.name, rmse(y, other.mean), nlpd(y, other.mean, other.std), found)

    def advantage(self) -> float:
        """Standard errors by which the model's NLPD is smaller; negative where it is larger."""
        gap = self.differences["nlpd"]
        error = gap["standard_error"]
        mean = gap["mean"]
        assert mean is not None
        return -mean / error if error else 0.0


def table_baselines(X: FloatArray, y: FloatArray, X_test: FloatArray) -> list[BaselinePrediction]:
    """Predict at rows (p, d) from training rows (n, d) and targets (n,), by every baseline.

    One training row, or no column that varies, leaves the mean only.
    """
    spread = _positive(float(np.std(y, ddof=1)) if y.size > 1 else 0.0, y)
    p = len(X_test)
    wide = np.full(p, spread * np.sqrt(1 + 1 / y.size))
    found = [BaselinePrediction("mean", np.full(p, y.mean()), wide)]
    scale = X.std(axis=0)
    varies = scale > 1e-12 * np.abs(X).max(axis=0, initial=1e-300)
    if y.size < 2 or not varies.any():
        return found
    centre = X.mean(axis=0)[varies]
    rows, queries = ((part[:, varies] - centre) / scale[varies] for part in (X, X_test))
    found.append(_nearest(rows, y, queries))
    if y.size > rows.shape[1] + 1:
        found.append(_linear(rows, y, queries))
    return found


def _nearest(rows: FloatArray, y: FloatArray, queries: FloatArray) -> BaselinePrediction:
    """The nearest row; its error is measured between rows and the nearest other one."""
    tree = cKDTree(rows)
    chosen = np.random.default_rng(0).permutation(len(rows))[:MEASURED]
    _, near = tree.query(rows[chosen], k=2)
    # Rows of equal inputs may find themselves second.
    other = np.where(near[:, 0] == chosen, near[:, 1], near[:, 0])
    error = _positive(np.sqrt(np.mean(np.square(y[chosen] - y[other]))), y)
    _, nearest = tree.query(queries)
    return BaselinePrediction("nearest", y[nearest], np.full(len(queries), error))


def _linear(rows: FloatArray, y: FloatArray, queries: FloatArray) -> BaselinePrediction:
    """Least squares with an intercept; columns that follow from others are left out by the SVD."""
    design, wanted = (np.column_stack([np.ones(len(part)), part]) for part in (rows, queries))
    U, s, Vt = np.linalg.svd(design, full_matrices=False)
    rank = int((s > s[0] * len(rows) * np.finfo(float).eps).sum())
    U, s, Vt = U[:, :rank], s[:rank], Vt[:rank]
    weights = Vt.T @ ((U.T @ y) / s)
    residual = y - design @ weights
    variance = float(residual @ residual) / max(len(y) - rank, 1)
    leverage = np.square(wanted @ Vt.T / s).sum(axis=1)
    std = _positive(np.sqrt(variance), y) * np.sqrt(1 + leverage)
    return BaselinePrediction("linear", wanted @ weights, std)


def _positive(std: float, y: FloatArray) -> float:
    """A standard deviation that is not zero: rounding of the targets at least."""
    return max(float(std), 1e-9 * float(np.abs(y).max(initial=0.0)), 1e-300)
