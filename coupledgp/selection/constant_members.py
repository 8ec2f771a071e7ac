"""A constant as a member, which others have to predict better than."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coupledgp.random import FloatArray
from coupledgp.search.tables.local import LOCAL_ROUNDS
from coupledgp.selection.member_costs import Size
from coupledgp.selection.member_kinds import FittedMember, MemberKind, MemberPlan, MemberTask
from coupledgp.selection.near_members import NearModel


class ConstantMembers(MemberKind):
    """A constant and noise, for tables whose columns say nothing of y."""

    name: ClassVar[str] = "constant"

    def suits(self, size: Size) -> bool:
        """Never beforehand: it stands in where every other member errs more."""
        return False

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        return 2 * size.n_rows * size.row_seconds(0, 0)

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        fitter = task.train.fitter(task.report)
        found = fitter.search(task.train.structure("constant", 0), LOCAL_ROUNDS[:1])
        model = NearModel(task.train.prior(found.structure, found.vector))
        return [FittedMember.scored(task, "a constant", (model,), np.ones(1), found.n_evaluations)]


def constant_means(task: MemberTask) -> FloatArray:
    """Means (b, k) of the other rows' targets, for each row of a task that is scored."""
    data, units = task.train.data, task.train.units
    targets = units.normalized(data.targets)
    counts = np.ones(len(data)) if data.counts is None else data.counts
    total, size = counts @ targets, counts.sum()
    if task.held is not None:
        return np.broadcast_to(total / size, task.targets.shape)
    left = np.maximum(size - counts, np.finfo(float).tiny)[:, None]
    means: FloatArray = (total - counts[:, None] * targets) / left
    return means
