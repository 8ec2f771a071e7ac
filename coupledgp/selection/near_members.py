"""Local parts, and features of fitted frequencies or of pairs of columns, as members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coupledgp.gp.local import LocalGP
from coupledgp.inference.neighbours.parameters import Structure
from coupledgp.search.tables.additive import (
    ADDITIVE_ROUNDS,
    LENGTHSCALES,
    PILOT_ROWS,
    AdditiveSearch,
    FeatureSizes,
)
from coupledgp.search.tables.local import FITTING_ROUNDS, LOCAL_ROUNDS, SCREENING, kernels_for
from coupledgp.search.tables.local_problem import LocalProblem
from coupledgp.selection.exact_members import EXACT_ROWS, SOME_EXACT_ROWS
from coupledgp.selection.member_kinds import (
    GRAM_SECONDS,
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberTask,
    PartsModel,
    Size,
)
from coupledgp.spectra import parse_spectrum


class NearModel(PartsModel):
    """Features, a trend and a local part by neighbours."""

    def process(self, problem: LocalProblem, normalize: bool) -> LocalGP:
        return problem.process(self.parts, normalize)

    def left_out(self, task: MemberTask) -> LeftOutScores:
        if task.held is None:
            process = self.process(task.train, task.normalize)
            return LeftOutScores.of_law(process.left_out(np.arange(len(task.train.data))), task)
        return LeftOutScores.held_out(self.process(task.train, task.normalize), task, self.noise)


class NearMembers(MemberKind):
    """A model of a local part, of features of fitted frequencies, or of both, with a trend.

    Attributes
    ----------
    local, features : bool
        Which parts it has. The kernel of a local part is that of greatest evidence.
    """

    local: ClassVar[bool] = True
    features: ClassVar[bool] = True

    def suits(self, size: Size) -> bool:
        return size.n_rows > EXACT_ROWS

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        features = 2 * size.n_frequencies if self.features else 0
        k = size.n_neighbours if self.local else 0
        n_kernels = len(kernels_for(size.dim, size.shared)) if k else 0
        screening = n_kernels * size.search_seconds(SCREENING, k, 0)
        rounds = FITTING_ROUNDS if features else LOCAL_ROUNDS
        search = size.search_seconds(rounds, k, features)
        # Rows are whitened twice: those that are not held out, and all.
        return screening + effort * search + 2 * size.n_rows * size.row_seconds(k, features)

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        problem = task.train
        fitter = problem.fitter(task.report)
        structure, n_screened = problem.structure(task.trend, 0), 0
        if self.local:
            structure, n_screened = task.screened.structure, task.screened.n_evaluations
        rounds = plan.rounds(FITTING_ROUNDS if self.features else LOCAL_ROUNDS)
        if self.features:
            structure = problem.with_features(
                structure, task.n_frequencies, "orthogonal+pnc", fitted=True
            )
        found = fitter.search(structure, rounds).after(n_screened)
        model = NearModel(problem.prior(structure, found.vector))
        name = f"{name_of(structure)}{plan.remark}"
        return [FittedMember.scored(task, name, (model,), np.ones(1), found.n_evaluations)]


class FeatureMembers(NearMembers):
    """Features of fitted frequencies and a trend."""

    name: ClassVar[str] = "sparse-spectrum"
    local: ClassVar[bool] = False


class LocalMembers(NearMembers):
    """A local part and a trend."""

    name: ClassVar[str] = "local"
    features: ClassVar[bool] = False

    def suits(self, size: Size) -> bool:
        return size.n_rows > SOME_EXACT_ROWS


class HybridMembers(NearMembers):
    """A local part, features of fitted frequencies and a trend."""

    name: ClassVar[str] = "hybrid"


def name_of(structure: Structure) -> str:
    """Name of a model: its local kernel, and the number of its fitted frequencies."""
    parts = [] if structure.spectrum is None else [f"local, {structure.spectrum}"]
    if structure.frequencies is not None:
        parts.append(f"{len(structure.frequencies)} fitted frequencies")
    return " and ".join(parts)


# Kernel of one column, order of interactions, and most columns: each has a few features at least.
COLUMN_KERNEL, ORDER, MOST_COLUMNS = "matern-3/2", 2, 100
# Seconds of one core: of one feature of a row, and of an operation of a step of the fixed point of
# the group variances, of which there are about so many.
COLUMN_FEATURE_SECONDS, FIXED_POINT_SECONDS, FIXED_POINT_STEPS = 1.5e-8, 5e-11, 40


@dataclass(frozen=True, eq=False)
class AdditiveModel(NearModel):
    """Features of columns and pairs, with or without a local part.

    The variances of the terms are those of greatest evidence of the rows that it is given.
    """

    def process(self, problem: LocalProblem, normalize: bool) -> LocalGP:
        return super().process(problem, normalize).refitted(fits_noise=False)


class AdditiveFeatureMembers(MemberKind):
    """Features of columns and pairs of columns, with a variance for each.

    Attributes
    ----------
    local : bool
        Whether there is a local part besides.
    """

    name: ClassVar[str] = "additive-features"
    complements: ClassVar[bool] = True
    local: ClassVar[bool] = False

    def suits(self, size: Size) -> bool:
        return size.n_rows > SOME_EXACT_ROWS and 2 <= size.dim <= MOST_COLUMNS and not size.shared

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        features = FeatureSizes.of(size.n_rows, size.dim, ORDER).total(size.dim)
        pilot = min(size.n_rows, PILOT_ROWS)
        few = FeatureSizes.of(pilot, size.dim, ORDER).total(size.dim)
        seconds = len(LENGTHSCALES) * _alone_seconds(pilot, few)
        seconds += _alone_seconds(size.n_rows, features)
        if not self.local:
            return seconds + _alone_seconds(size.n_rows, features)
        k = size.n_neighbours
        seconds += len(kernels_for(size.dim, size.shared)) * size.search_seconds(SCREENING, k, 0)
        seconds += effort * size.search_seconds(ADDITIVE_ROUNDS, k, features)
        # Rows are whitened twice, and with each row the features of its neighbours are formed.
        row = size.row_seconds(k, features) + (k + 1) * features * COLUMN_FEATURE_SECONDS
        return seconds + 2 * (size.n_rows * row + _steps_seconds(features))

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        problem = task.train
        search = AdditiveSearch.of(problem, parse_spectrum(COLUMN_KERNEL), ORDER)
        alone, name = search.alone(task.report), str(search)
        prior, n_evaluations = alone.local_prior, len(LENGTHSCALES) + 1
        if self.local:
            fitter, screened = problem.fitter(task.report), task.screened
            rounds = plan.rounds(ADDITIVE_ROUNDS)
            found = search.with_local(fitter, screened, alone, rounds)
            prior = problem.prior(found.structure, found.vector)
            n_evaluations += screened.n_evaluations + found.n_evaluations
            name = f"{name} and local, {found.structure.spectrum}"
        model = AdditiveModel(prior)
        return [
            FittedMember.scored(task, f"{name}{plan.remark}", (model,), np.ones(1), n_evaluations)
        ]


class AdditiveLocalMembers(AdditiveFeatureMembers):
    """Features of columns and pairs of columns, and a local part that is fitted with them."""

    name: ClassVar[str] = "additive-local"
    local: ClassVar[bool] = True


def _alone_seconds(n_rows: int, features: int) -> float:
    """Seconds of a fit of features without a local part."""
    row = features * COLUMN_FEATURE_SECONDS + features**2 * GRAM_SECONDS
    return n_rows * row + _steps_seconds(features)


def _steps_seconds(features: int) -> float:
    """Seconds of the fixed point of the group variances."""
    return FIXED_POINT_STEPS * FIXED_POINT_SECONDS * features**3
