"""Boosted trees as the mean of a Gaussian process, as members."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from coupledgp.gp.boosted_trees import BoostedTrees
from coupledgp.gp.frozen_mean import FrozenMeanGP, residuals
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.search.tables.boosting import boosting_seconds, fit_trees
from coupledgp.search.tables.local import LOCAL_ROUNDS, LocalProblem
from coupledgp.selection.exact_members import (
    EXACT_NEIGHBOURS,
    EXACT_ROUNDS,
    EXACT_ROWS,
    DenseModel,
)
from coupledgp.selection.member_costs import DISTANCE_SECONDS, Size
from coupledgp.selection.member_kinds import (
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberPrior,
    MemberTask,
)
from coupledgp.selection.near_members import NearModel
from coupledgp.spectra import parse_spectrum

# Fewest rows of a table for trees, whose leaves hold twenty rows each.
LEAST_TREE_ROWS = 100
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

    The process is exact for as many rows as all members are, and local for more.
    """

    name: ClassVar[str] = "trees"
    leaves_one_out: ClassVar[bool] = True
    complements: ClassVar[bool] = True

    def suits(self, size: Size) -> bool:
        return size.n_rows >= LEAST_TREE_ROWS

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        n = size.n_rows
        seconds = boosting_seconds(n, size.dim)
        if alone or n <= EXACT_ROWS:
            k = min(EXACT_NEIGHBOURS, n - 1)
            search = size.searched.search_seconds(EXACT_ROUNDS, k, 0)
            return seconds + search + 1e-10 * n**3 + 3 * n**2 * size.dim * DISTANCE_SECONDS
        search = size.search_seconds(LOCAL_ROUNDS, size.n_neighbours, 0)
        return seconds + effort * search + 2 * n * size.row_seconds(size.n_neighbours, 0)

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        train = task.train
        task.report("boosted trees")
        mean = fit_trees(train.data, train.seed)
        left = residuals(task.whole.data, mean)
        units = Units.of(left.targets, task.normalize, left.counts)
        share = float(np.mean(np.square(units.scale / train.units.scale)))
        problem = residual_task(task, mean, units).train
        exact = task.held is None or len(task.whole.data) <= EXACT_ROWS
        k = min(EXACT_NEIGHBOURS, len(train.data) - 1) if exact else task.n_neighbours
        searched = problem.rotated() if exact else problem
        fitter = searched.fitter(task.report)
        rounds = EXACT_ROUNDS if exact else plan.rounds(LOCAL_ROUNDS)
        spectrum = parse_spectrum(RESIDUAL_KERNEL)
        found = fitter.search(searched.structure(task.trend, k, spectrum), rounds)
        prior = searched.prior(found.structure, found.vector)
        base = DenseModel(prior) if exact else NearModel(prior)
        kind = "exact" if exact else "local"
        name = f"trees and {kind}, {found.structure.spectrum}{plan.remark}"
        model = TreeModel(mean, base, units, share)
        return [FittedMember.scored(task, name, (model,), np.ones(1), found.n_evaluations)]
