"""Boosted trees as the mean of a Gaussian process, as members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from coupledgp.core.frozen_mean import BoostedTrees, FrozenMeanGP, folds_of, residuals
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_members import EXACT_NEIGHBOURS, EXACT_ROUNDS, EXACT_ROWS, DenseModel
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.member_kinds import (
    DISTANCE_SECONDS,
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberPrior,
    MemberTask,
    Size,
)

# Folds of rows, and fewest rows in the training part of a fold: its leaves hold twenty each.
FOLDS, FEWEST_ROWS = 5, 60
# Seconds of a fit of a hundred trees on one core of a server of 2023: at least, for each column,
# and for each row and column.
FIT_SECONDS, COLUMN_SECONDS, ENTRY_SECONDS = 0.1, 0.01, 5e-7
# Fewest rows of a table for trees, whose leaves hold twenty rows each.
LEAST_TREE_ROWS = 100
# Trees that look for structure in errors, and standard errors by which they have to see it.
PROBE_TREES, PROBE_ERRORS = 30, 1.0
# Kernel of the residuals: what trees leave is rough.
RESIDUAL_KERNEL = "matern-3/2"


@dataclass(frozen=True, eq=False)
class TreeModel(MemberPrior):
    """Boosted trees, and a model of the residuals of rows that they did not see.

    Attributes
    ----------
    mean : BoostedTrees
        The trees.
    base : MemberPrior
        The model of the residuals, in their own units.
    units : Units
        These units.
    share : float
        Variance of residuals over that of y, by their units: the mean over outputs.
    """

    mean: BoostedTrees
    base: MemberPrior
    units: Units
    share: float

    @property
    def noise(self) -> float:
        return self.base.noise * self.share

    def with_noise(self, noise: float) -> TreeModel:
        return replace(self, base=self.base.with_noise(noise / self.share))

    def process(self, problem: LocalProblem, normalize: bool) -> FrozenMeanGP:
        data = residuals(problem.data, self.mean)
        inner = self.base.process(problem.with_targets(data, self.units), normalize)
        return FrozenMeanGP(inner, problem.data, self.mean)

    def left_out(self, task: MemberTask) -> LeftOutScores:
        own = residual_task(task, self.mean, self.units)
        shift = task.scored.targets - own.scored.targets
        densities, means, variances = self.base.left_out(own)
        units, scale = task.train.units, self.units.scale / task.train.units.scale
        return LeftOutScores(
            densities - np.log(scale).sum(),
            units.normalized(self.units.offset + self.units.scale * means + shift),
            variances * self.share,
        )


def residual_task(task: MemberTask, mean: BoostedTrees, units: Units) -> MemberTask:
    """The task of the residuals of trees that did not see the rows of a task."""
    train = task.train.with_targets(residuals(task.train.data, mean), units)
    held = task.held
    if held is not None:
        left = held.targets - mean.at(held.points)
        held = Data.of(held.points, left, weights=held.weights)
    return replace(task, train=train, held=held)


class TreeMembers(MemberKind):
    """Boosted trees whose residuals are a Gaussian process.

    For tables whose members are exact: beside local models their densities may be off by far.
    """

    name: ClassVar[str] = "trees"
    leaves_one_out: ClassVar[bool] = True
    complements: ClassVar[bool] = True

    def suits(self, size: Size) -> bool:
        return LEAST_TREE_ROWS <= size.n_rows <= EXACT_ROWS

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        n = size.n_rows
        seconds = boosting_seconds(n, size.dim)
        search = size.searched.search_seconds(EXACT_ROUNDS, min(EXACT_NEIGHBOURS, n - 1), 0)
        return seconds + search + 1e-10 * n**3 + 3 * n**2 * size.dim * DISTANCE_SECONDS

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        train = task.train
        tell("boosted trees")
        mean = fit_trees(train.data, train.seed)
        left = residuals(task.whole.data, mean)
        units = Units.of(left.targets, task.normalize, left.counts)
        share = float(np.mean(np.square(units.scale / train.units.scale)))
        problem = residual_task(task, mean, units).train
        k = min(EXACT_NEIGHBOURS, len(train.data) - 1)
        searched = problem.rotated()
        structure = searched.structure(task.trend, k, parse_spectrum(RESIDUAL_KERNEL))
        found = searched.fitter(exact=True).search(structure, EXACT_ROUNDS)
        base = DenseModel(searched.prior(found.structure, found.vector))
        name = f"trees and exact, {found.structure.spectrum}{plan.remark}"
        model = TreeModel(mean, base, units, share)
        return [FittedMember.scored(task, name, (model,), np.ones(1), found.n_evaluations)]


def trees_may_help(task: MemberTask, members: Sequence[FittedMember]) -> bool:
    """Whether small trees see something in the errors of the best member on rows left out.

    Errors of each half of the rows are predicted by trees that are fitted to the other half.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import
    from threadpoolctl import threadpool_limits

    best = max(members, key=lambda member: member.scores.log_densities.mean())
    errors, points = (task.targets - best.scores.means)[:, 0], task.scored.points
    half = folds_of(points, 2)
    gains = np.zeros(len(errors))
    with threadpool_limits(1, user_api="openmp"):
        for fold in np.unique(half):
            rows, others = np.flatnonzero(half == fold), np.flatnonzero(half != fold)
            model = HistGradientBoostingRegressor(
                max_iter=PROBE_TREES, early_stopping=False, random_state=task.train.seed
            )
            if others.size:
                found = model.fit(points[others], errors[others]).predict(points[rows])
                gains[rows] = np.square(errors[rows]) - np.square(errors[rows] - found)
    return bool(gains.mean() > PROBE_ERRORS * gains.std() / np.sqrt(len(gains)))


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
    return BoostedTrees.of(models, FOLDS)
