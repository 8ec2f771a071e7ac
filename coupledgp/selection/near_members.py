"""Local parts and features of fitted frequencies as members."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coupledgp.gp.local import LocalGP
from coupledgp.inference.neighbours.parameters import Structure
from coupledgp.search.tables.local import FITTING_ROUNDS, LOCAL_ROUNDS, SCREENING, kernels_for
from coupledgp.search.tables.local_problem import LocalProblem
from coupledgp.selection.exact_members import EXACT_ROWS, SOME_EXACT_ROWS
from coupledgp.selection.member_kinds import (
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberTask,
    PartsModel,
    Size,
)


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
