"""Scores of observations that are left out, with standard errors over groups.

Losses of a group go together, so that the standard error of a mean loss over m observations in G
groups is that of the sums of its groups:

    se^2 = G / (G - 1) sum_g (sum_{i in g} (l_i - mean))^2 / m^2 ,

which for groups of one is that of independent observations (Liang and Zeger, 1986, Biometrika 73).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from coupledgp.diagnostics.rivals.beside import BesideBaseline
from coupledgp.diagnostics.rivals.prediction import BaselinePrediction
from coupledgp.diagnostics.scoring.measures import marginal_scores
from coupledgp.diagnostics.scoring.score_table import OwnLaws, PointScore, paired_scores
from coupledgp.random import FloatArray, IntArray


def error_over_groups(losses: FloatArray, groups: IntArray) -> float | None:
    """Standard error of the mean of losses (m,) or (m, k); None for a single group."""
    each = losses.reshape(len(losses), -1).mean(axis=1)
    _, numbers = np.unique(groups, return_inverse=True)
    sums = np.bincount(numbers.reshape(-1), each - each.mean())
    if sums.size < 2:
        return None
    return float(np.sqrt(np.square(sums).sum() * sums.size / (sums.size - 1)) / each.size)


def scores_over_groups(
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    groups: IntArray,
    mixture: OwnLaws | None,
) -> dict[str, Any]:
    """Scores of laws (m, k) of single observations, their standard errors over groups (m,)."""
    found = marginal_scores(y, mean, std, "", mixture)
    errors = {}
    for score in paired_scores():
        losses = score.losses(y, mean, std, mixture)
        error = error_over_groups(losses, groups)
        if score.root and error is not None:
            value = score.value(losses)
            error = error / (2 * value) if value > 0 else 0.0
        errors[score.name] = error
    return found | {"standard_errors": errors}


def beside(
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    other: BaselinePrediction,
    groups: IntArray,
    mixture: OwnLaws | None,
) -> BesideBaseline:
    """A model beside a baseline that leaves out the same groups; all (m, k)."""
    made = BesideBaseline.of(y, mean, std, other, mixture)
    assert other.std is not None
    gaps = {}
    for score in paired_scores():
        gap = _gap(score, y, (mean, std), (other.mean, other.std), mixture)
        gaps[score.difference_name] = made.differences[score.difference_name] | {
            "standard_error": error_over_groups(gap, groups)
        }
    return replace(made, differences=gaps)


def _gap(
    score: PointScore,
    y: FloatArray,
    own: tuple[FloatArray, FloatArray],
    other: tuple[FloatArray, FloatArray],
    mixture: OwnLaws | None,
) -> FloatArray:
    """Losses of the model minus those of the baseline, (m,)."""
    losses = (score.losses(y, *own, mixture), score.losses(y, *other))
    means = [part.reshape(len(y), -1).mean(axis=1) for part in losses]
    return means[0] - means[1]
