"""Members that are given a transform of the targets, and scored by the density of the targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from coupledgp.core.target_maps import Span, ToTargets
from coupledgp.core.transformed import TransformedGP, transformed_data
from coupledgp.core.transforms import Identity, TargetTransform
from coupledgp.core.units import Units
from coupledgp.ground.progress import tell
from coupledgp.tables.discrete_targets import discrete_outputs
from coupledgp.tables.exact_members import EXACT_ROWS, ExactMembers
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.member_kinds import (
    EVALUATION_SECONDS,
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberPrior,
    MemberTask,
    Size,
)
from coupledgp.tables.near_members import LocalMembers
from coupledgp.tables.transform_search import ROWS, screened_transforms

# Kernels of exact members of transformed targets, and evaluations of the evidence that decides on
# the transform, each with a Cholesky factor and its gradient.
KERNELS, SCREENED = ("matern-3/2", "gaussian"), 40


@dataclass(frozen=True, eq=False)
class TransformedModel(MemberPrior):
    """A model of `z = g(y)`.

    Attributes
    ----------
    base : MemberPrior
        The model of z, in units of its own, in which its noise is told.
    to_targets : ToTargets
        The transforms, with the span of the targets.
    units : Units
        Units of z.
    """

    base: MemberPrior
    to_targets: ToTargets
    units: Units

    @property
    def noise(self) -> float:
        return self.base.noise

    def with_noise(self, noise: float) -> TransformedModel:
        return replace(self, base=self.base.with_noise(noise))

    def process(self, problem: LocalProblem, normalize: bool) -> TransformedGP:
        transforms = self.to_targets.transforms
        values = transformed_data(problem.data, transforms)
        inner = self.base.process(problem.with_targets(values, self.units), normalize)
        return TransformedGP.of(inner, transforms, problem.data)

    def left_out(self, task: MemberTask) -> LeftOutScores:
        densities, means, variances = self.base.left_out(
            transformed_task(task, self.to_targets.transforms, self.units)
        )
        units, scale = task.train.units, self.units.scale
        spread = variances[:, None] * scale**2
        mean, variance = self.to_targets.moments(self.units.offset + scale * means, spread)
        slopes = self.to_targets.log_slope(task.scored.targets)
        return LeftOutScores(
            densities + slopes + np.log(units.scale / scale).sum(),
            units.normalized(mean),
            (variance / units.scale**2).mean(axis=1),
        )


def transformed_task(
    task: MemberTask, transforms: tuple[TargetTransform, ...], units: Units
) -> MemberTask:
    """The task of transformed targets, in units of their own."""
    train = task.train.with_targets(transformed_data(task.train.data, transforms), units)
    whole = task.whole.with_targets(transformed_data(task.whole.data, transforms), units)
    held = None if task.held is None else transformed_data(task.held, transforms)
    return replace(task, train=train, whole=whole, held=held)


class TransformedMembers(MemberKind):
    """Models of the one transform of the targets that evidence prefers, where it prefers one.

    They are exact for as many rows as all members are, and local for more. Targets of few values,
    and those of known noise, are not transformed.
    """

    name: ClassVar[str] = "transformed"
    leaves_one_out: ClassVar[bool] = True
    complements: ClassVar[bool] = True

    @staticmethod
    def _base(exact: bool) -> MemberKind:
        return ExactMembers(KERNELS) if exact else LocalMembers()

    def suits(self, size: Size) -> bool:
        return size.n_rows >= 30

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        n = min(size.n_rows, ROWS)
        screening = SCREENED * (EVALUATION_SECONDS + 1e-10 * n**3 + 5e-10 * n**2 * size.dim)
        base = self._base(alone or size.n_rows <= EXACT_ROWS)
        return screening + base.forecast(size, True, effort)

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        data, train = task.whole.data, task.train
        if train.known_noise is not None or discrete_outputs(data.targets):
            return []
        tell("transforms of y")
        rng = np.random.default_rng([train.seed, 5])
        transforms = screened_transforms(train.data, rng, train.groups)
        held = None if task.held is None else task.held.targets
        if all(one == Identity() for one in transforms) or not (
            held is None or ToTargets(transforms, None).contains(held)
        ):
            return []
        to_targets = ToTargets(transforms, Span.of(train.data.targets))
        values = transformed_data(data, transforms)
        units = Units.of(values.targets, task.normalize, values.counts)
        own = transformed_task(task, transforms, units)
        base = self._base(task.held is None or len(data) <= EXACT_ROWS)
        told = ", ".join(short_text(one) for one in transforms)
        return [
            FittedMember.scored(
                task, f"{one.name}, of {told}",
                tuple(TransformedModel(prior, to_targets, units) for prior in one.priors),
                one.shares, one.n_evaluations,
            )
            for one in base.fit(own, plan)
        ]  # fmt: skip


def short_text(transform: TargetTransform) -> str:
    """Name of a transform with its power, if it has one."""
    power = getattr(transform, "power", None)
    return transform.name if power is None else f"{transform.name} of power {power:.2g}"
