"""Errors of scores: bounds of what unfinished solves leave, and errors of scored subsets.

A figure that moves with the solver has a bound here, or is named as one without. Standard errors
over points are estimates themselves and have neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from coupledgp.diagnostics.scoring.divergences import kl_bounds
from coupledgp.diagnostics.scoring.laws import Law, PointLaws
from coupledgp.diagnostics.scoring.score_table import (
    PREFIXES,
    SCORES,
    JointScore,
    MarginalScore,
    PointScore,
    Score,
    paired_scores,
)
from coupledgp.random import FloatArray

# Distances below and above a figure within which the true value lies.
Gap = tuple[float, float]
Bounds = dict[str, Gap]


@dataclass(frozen=True)
class SolverErrors:
    """What unfinished solves leave in figures.

    Attributes
    ----------
    bounds : dict of str to (float, float)
        Distances below and above each figure within which its true value lies; for figures of
        several values, the largest of them.
    unbounded : list of str
        Figures that move with the solver and have no bound.
    """

    bounds: Bounds = field(default_factory=dict)
    unbounded: list[str] = field(default_factory=list)


def solver_errors(law: Law, exact: Law, y: FloatArray | None) -> SolverErrors:
    """Errors that unfinished solves leave in each figure of a comparison; targets (p, k)."""
    found = SolverErrors(
        {
            "kl_per_point": kl_bounds_per_point(exact, law),
            "reverse_kl_per_point": kl_bounds_per_point(law, exact),
        }
    )
    if y is not None:
        laws = zip(PREFIXES, (law, exact), strict=True)
        solved = {prefix: one for prefix, one in laws if one.cov_error is not None}
        add_score_errors(found, solved, y)
    return found


def kl_bounds_per_point(p: Law, q: Law) -> Gap:
    """Bounds (below, above) of the error of `kl_per_point`, for laws known up to bounds."""
    total = np.zeros(2)
    for k in range(p.mean.shape[1]):
        p_k, q_k = (
            (law.mean[:, k], law.cov[..., k], law.floor(k), law.radius(k)) for law in (p, q)
        )
        total += kl_bounds(p_k, q_k)
    below, above = total / p.mean.size
    return float(below), float(above)


def add_score_errors(
    found: SolverErrors, solved: Mapping[str, Law], y: FloatArray, joint: bool = True
) -> None:
    """Add the errors of scores and of their differences, at targets (p, k).

    `solved` are the laws that are known up to bounds, model and reference by the prefix of their
    scores' names. Without `joint`, scores of the joint law are left out.
    """
    ranges = {prefix: _Ranges(law, y) for prefix, law in solved.items()}
    for score in SCORES.values():
        if joint or not isinstance(score, JointScore):
            for prefix, one in ranges.items():
                _add(found, prefix + score.name, one.gap(score))
    for score in paired_scores() if ranges else []:
        own, other = (
            ranges[prefix].mean_gap(score) if prefix in ranges else (0.0, 0.0)
            for prefix in PREFIXES
        )
        gap = None if own is None or other is None else (own[0] + other[1], own[1] + other[0])
        _add(found, f"differences.{score.difference_name}", gap)


def _add(found: SolverErrors, name: str, gap: Gap | None) -> None:
    if gap is None:
        found.unbounded.append(name)
    else:
        found.bounds[name] = gap


class _Ranges:
    """Ranges of the scores of a law that is known up to bounds, at targets (p, k)."""

    def __init__(self, law: Law, y: FloatArray) -> None:
        self.law, self.y, self.mean_error = law, y, law.mean_bounds()
        floors = [np.diagonal(law.floor(k)) for k in range(y.shape[1])]
        self.least_std = np.sqrt(np.stack(floors, axis=1))

    def gap(self, score: Score) -> Gap | None:
        """Distances below and above a score; None where it states no bounds."""
        if isinstance(score, PointScore) and score.root and score.bounds is not None:
            losses, least, most = self._losses(score)
            value = score.value(losses)
            return value - score.value(least), score.value(most) - value
        if isinstance(score, PointScore):
            return self.mean_gap(score)
        if isinstance(score, MarginalScore):
            return self._parts_gap(score)
        assert isinstance(score, JointScore)
        return self._joint_gap(score)

    def mean_gap(self, score: PointScore) -> Gap | None:
        """Distances below and above the mean loss of a score."""
        if score.bounds is None:
            return None
        losses, least, most = self._losses(score)
        # Differences first: the bounds are many orders smaller than the losses.
        return float(np.mean(losses - least)), float(np.mean(most - losses))

    def _losses(self, score: PointScore) -> tuple[FloatArray, FloatArray, FloatArray]:
        assert score.bounds is not None
        y, mean, std = self.y, self.law.mean, self.law.std
        least, most = score.bounds(y, mean, std, self.mean_error, self.least_std)
        return score.losses(y, mean, std), least, most

    def _parts_gap(self, score: MarginalScore) -> Gap | None:
        if score.points is None or score.bounds is None:
            return None
        y, mean, std = self.y, self.law.mean, self.law.std
        parts = score.points(y, mean, std)
        least, most = score.bounds(y, mean, std, self.mean_error, self.least_std)
        below, above = (
            float((gap.reshape(-1, gap.shape[-1]).mean(axis=0)).max())
            for gap in (parts - least, most - parts)
        )
        return below, above

    def _joint_gap(self, score: JointScore) -> Gap | None:
        if score.bounds is None:
            return None
        law, outputs = self.law, range(self.y.shape[1])
        gaps = [
            score.bounds(self.y[:, k], law.mean[:, k], law.cov[..., k], law.floor(k), law.radius(k))
            for k in outputs
        ]
        below, above = np.mean(gaps, axis=0)
        return float(below), float(above)


def subset_errors(y: FloatArray, laws: PointLaws, n_points: int) -> dict[str, float | None]:
    """Standard errors of scores of all points that are estimated from the laws of some, by name.

    The mean over m of `n_points` points, drawn without replacement, has the variance
    `(1 - m / n_points) s^2 / m`, s^2 the variance of a point's part. Of a score with several values
    the largest error is given. None: a single point, or a score that is no mean over points.

    Parameters
    ----------
    y, laws
        Targets (m, k) and laws of the chosen points.
    n_points
        Number of points that they were drawn from.
    """
    found: dict[str, float | None] = {}
    for score in SCORES.values():
        if isinstance(score, PointScore):
            losses = laws.losses(score, y)
            error = subset_error(losses.reshape(len(y), -1, 1), n_points)
            found[score.name] = score.error(losses, error)
        elif isinstance(score, MarginalScore):
            parts = score.parts(y, laws.mean, laws.std, laws.own)
            found[score.name] = None if parts is None else subset_error(parts, n_points)
    return found


def subset_error(parts: FloatArray, n_points: int) -> float | None:
    """Largest standard error of the means of parts (m, k, l) over m of `n_points` points.

    Shares, whose parts are zeros and ones, are joined by a zero and a one more: a share of 0 % or
    100 % among few points is not certain.
    """
    m = len(parts)
    if m < 2:
        return None
    values = parts.mean(axis=1)
    if np.isin(parts, (0.0, 1.0)).all():
        values = np.vstack([values, np.zeros_like(values[:1]), np.ones_like(values[:1])])
    spread = values.std(axis=0, ddof=1) / np.sqrt(m)
    return float(np.sqrt(1 - m / n_points) * spread.max())
