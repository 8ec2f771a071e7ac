"""Calibration and misfit of observations that are left out, by the joint law of their residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from coupledgp.diagnostics.left_out.asked import LeftOutTask
from coupledgp.diagnostics.residuals.columns import Column
from coupledgp.diagnostics.residuals.findings import (
    Findings,
    look,
    normal_scores,
    predicted_columns,
)
from coupledgp.diagnostics.scoring.calibration import Calibration
from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.diagnostics.verdicts.gathering import usual_groups
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation,
    residual_correlation_of,
)
from coupledgp.errors import MemoryLimitError, NumericalError
from coupledgp.gp.left_out import LeftOut
from coupledgp.inference.dense.evidence import in_lengthscales
from coupledgp.random import FloatArray, IntArray

# Most observations whose joint law is drawn from.
MAX_JUDGED = 1000
# Fewest observations among which the errors of neighbours say anything, and most groups by which
# coverage is looked at.
MIN_NEIGHBOURS, MAX_GROUPS = 10, 200


class Judged(NamedTuple):
    """Calibration and misfit, and whether they are measured by the joint law.

    Attributes
    ----------
    calibration : Calibration
    misfit : ResidualCorrelation or None
    findings : Findings
    n_judged : int
        Number of observations of both.
    is_joint : bool
        Whether the correlations of the residuals are known; if not they count as independent.
    """

    calibration: Calibration
    misfit: ResidualCorrelation | None
    findings: Findings
    n_judged: int
    is_joint: bool


def judged(
    task: LeftOutTask, law: LeftOut, y: FloatArray, columns: Sequence[Column], seed: int
) -> Judged:
    """Judge the laws of the scored observations (m, k) against their targets (m, k)."""
    chosen = _chosen(task, max(MAX_JUDGED // y.shape[1], 100), seed)
    rows, mean, std = task.rows[chosen], law.mean[chosen], np.sqrt(law.variance[chosen])
    correlation = task.process.left_out_correlation(task.groups, rows)
    groups = usual_groups(mean, std)
    if not task.leaves_one and len(task.names) <= MAX_GROUPS:
        groups["the group"] = task.labels[chosen]
    calibration = Calibration.of_transforms(law.transforms(y)[chosen], correlation, groups)
    misfit = None
    if correlation is not None and len(rows) >= MIN_NEIGHBOURS:
        misfit = _misfit(task, rows, y[chosen], mean, std, correlation, seed)
    own = np.sqrt(law.variance)
    looked = look(
        normal_scores(law.transforms(y)), own,
        lambda some: task.process.left_out_correlation(task.groups, task.rows[some]),
        [*columns, *predicted_columns(law.mean, own)], MAX_JUDGED, seed,
    )  # fmt: skip
    return Judged(calibration, misfit, looked, len(rows), correlation is not None)


def _misfit(
    task: LeftOutTask,
    rows: IntArray,
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    correlation: FloatArray,
    seed: int,
) -> ResidualCorrelation | None:
    """Correlation of residuals of neighbours, beside that of draws of their joint law."""
    covariance = correlation[:, :, None] * std[:, None] * std[None]
    try:
        prior = task.process.prior(task.data.points[rows])
        return residual_correlation_of(Law(mean, covariance, prior), y, seed=seed)
    except (NumericalError, MemoryLimitError):
        return None


def _chosen(task: LeftOutTask, most: int, seed: int) -> IntArray:
    """Places of at most so many scored observations: all, or random ones each with its nearest.

    Of a table the nearest is that in the fitted metric, so that neighbours are as near as the data
    allow; elsewhere observations are drawn at random.
    """
    if task.rows.size <= most:
        return np.arange(task.rows.size)
    rng = np.random.default_rng([seed, 7])
    points = task.data.points[task.rows]
    scale = np.asarray(getattr(task.process.hyperparameters, "lengthscale", 0.0), dtype=np.float64)
    if points.ndim != 2 or scale.shape != points.shape[1:]:
        return np.sort(rng.choice(task.rows.size, most, replace=False))
    inputs = in_lengthscales(points, scale, points)
    first = rng.choice(task.rows.size, most // 2, replace=False)
    near = cKDTree(inputs).query(inputs[first], k=2)[1]
    other = np.where(near[:, 0] == first, near[:, 1], near[:, 0])
    found: IntArray = np.unique(np.concatenate([first, other]))
    return found
