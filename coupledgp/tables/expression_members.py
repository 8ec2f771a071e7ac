"""Exact Gaussian processes with additive kernels, and other expressions, as members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from coupledgp.core.averaging import inverse_hessian_root
from coupledgp.core.problem import VectorObjective
from coupledgp.core.search import SearchResult
from coupledgp.expressions import Kernel
from coupledgp.ground.progress import tell
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.random import FloatArray
from coupledgp.tables.exact_members import (
    AVERAGED_ROWS,
    EXACT_ROWS,
    SOME_EXACT_ROWS,
    computed,
    leave_one_out,
)
from coupledgp.tables.exact_process import ExactGP
from coupledgp.tables.expression_search import ExpressionProblem
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import Round
from coupledgp.tables.member_kinds import (
    CUBE_SECONDS,
    EVALUATIONS_PER_ITERATION,
    FittedMember,
    LeftOutScores,
    MemberKind,
    MemberPlan,
    MemberPrior,
    MemberTask,
    Size,
)

# Step of the differences of log densities, in log units: their error is of second order.
STEP = 1e-3
# Kernels of additive members: smooth and rough effects, and smooth ones about a full kernel with
# lengthscales of its own and a trend.
ADDITIVE_KERNELS = (
    "additive(2, matern-3/2) + constant",
    "additive(2, matern-1/2) + constant",
    "additive(2, matern-5/2, full=false) + matern-5/2 + linear + constant",
)
# Kernels of exact members where torch is not installed.
PLAIN_KERNELS = tuple(
    f"{name} + linear + constant" for name in ("matern-3/2", "matern-5/2", "gaussian")
)
# Rows of the search, which costs O(n^3), and its iterations.
EXPRESSION_MEMBER_ROUNDS = (Round(256, 40), Round(1000, 12))
# Most factors: every pair of them is a term.
MOST_FACTORS = 50
# Seconds of one core of a pair of rows and a column, value and gradient.
PAIR_SECONDS = 3e-9
# Hyperparameters of a column by which scores are corrected, on few rows.
OPTIMISM_VARIABLES = 2


@dataclass(frozen=True, eq=False)
class ExpressionModel(MemberPrior):
    """An expression of kernels as an exact process.

    Attributes
    ----------
    kernel : Kernel
        The expression.
    vector : FloatArray (1 + q,)
        Logarithms of the noise variance and of its hyperparameters.
    optimism : FloatArray (n,) or float
        What log densities of rows that were fitted to gain by that, where all others are given.
    """

    kernel: Kernel
    vector: FloatArray
    optimism: FloatArray | float = 0.0

    @property
    def noise(self) -> float:
        return float(np.exp(self.vector[0]))

    def with_noise(self, noise: float) -> ExpressionModel:
        return replace(self, vector=np.append(np.log(noise), self.vector[1:]))

    def process(self, problem: LocalProblem, normalize: bool) -> ExactGP:
        return ExpressionProblem(problem, self.kernel).process(self.vector, normalize, warns=False)

    def left_out(self, task: MemberTask) -> LeftOutScores:
        process = self.process(task.train, task.normalize)
        if task.held is None:
            found = leave_one_out(process, task.targets)
            return found._replace(log_densities=found.log_densities - self.optimism)
        return LeftOutScores.held_out(process, task, self.noise)

    def corrected(self, task: MemberTask) -> ExpressionModel:
        """The model with its optimism on the rows of a task, to which it was fitted."""
        problem = ExpressionProblem(task.train, self.kernel)

        def log_densities(vector: FloatArray) -> FloatArray:
            return replace(self, vector=vector).left_out(task).log_densities

        evidence = problem.evidence(np.arange(len(task.train.data)))
        return replace(self, optimism=optimism(log_densities, evidence, self.vector))


@dataclass(frozen=True)
class ExpressionMembers(MemberKind):
    """An exact GP for each of some expressions, at the mode of its hyperparameters.

    On few rows, where hyperparameters of other exact members are averaged, its scores are corrected
    for the part that each row has in the hyperparameters (see `selection.optimism`).

    On more than `EXACT_ROWS` rows, the one of greatest density of rows left out among `EXACT_ROWS`
    is conditioned on all.

    Attributes
    ----------
    name : str
        Name of the kind.
    kernels : tuple of Kernel
        The expressions.
    """

    name: str  # type: ignore[misc]
    kernels: tuple[Kernel, ...]
    leaves_one_out: ClassVar[bool] = True
    complements: ClassVar[bool] = True
    takes_tensors: ClassVar[bool] = False

    def suits(self, size: Size) -> bool:
        several = 2 <= size.dim <= 2 * MOST_FACTORS and not size.shared
        return several and size.n_rows <= SOME_EXACT_ROWS

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        def evaluation(n_rows: int) -> float:
            n = min(n_rows, size.n_rows)
            return n**2 * size.dim * PAIR_SECONDS + n**3 * CUBE_SECONDS

        search = sum(
            EVALUATIONS_PER_ITERATION * each.max_iterations * evaluation(each.batch_rows)
            for each in EXPRESSION_MEMBER_ROUNDS
        )
        few = evaluation(EXACT_ROWS)
        whole = evaluation(size.n_rows) if size.n_rows > EXACT_ROWS else 0.0
        if size.n_rows <= AVERAGED_ROWS:
            few += 4 * OPTIMISM_VARIABLES * size.dim * evaluation(size.n_rows)
        return len(self.kernels) * (effort * search + few) + whole

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        if int(task.train.groups.max()) + 1 > MOST_FACTORS:
            return []
        fitted = [partial(self._search, task, plan, kernel) for kernel in self.kernels]
        if len(task.train.data) <= EXACT_ROWS:
            return computed(partial(_members, task, plan, make) for make in fitted)
        rows = np.random.default_rng([task.train.seed, 6]).permutation(len(task.train.data))
        few = replace(task, train=task.train.take(np.sort(rows[:EXACT_ROWS])), held=None)
        first = plan.rounds(EXPRESSION_MEMBER_ROUNDS[:1])
        fitted = [partial(self._search, few, plan, kernel, first) for kernel in self.kernels]
        compared = computed(partial(_members, few, plan, make) for make in fitted)
        best = max(compared, key=lambda member: member.scores.log_densities.mean())
        kernel = next(one for one in self.kernels if str(one) in best.name)
        return _members(task, plan, partial(self._search, task, plan, kernel))

    @staticmethod
    def _search(
        task: MemberTask, plan: MemberPlan, kernel: Kernel, rounds: tuple[Round, ...] | None = None
    ) -> tuple[ExpressionModel, SearchResult[FloatArray]]:
        tell(f"exact, {kernel}")
        rounds = rounds or plan.rounds(EXPRESSION_MEMBER_ROUNDS)
        found = ExpressionProblem(task.train, kernel).search(rounds, n_starts=1)
        model = ExpressionModel(kernel, found.point)
        few = task.held is None and len(task.train.data) <= AVERAGED_ROWS
        return model.corrected(task) if few else model, found


def _members(
    task: MemberTask,
    plan: MemberPlan,
    search: Callable[[], tuple[ExpressionModel, SearchResult[FloatArray]]],
) -> list[FittedMember]:
    """The member that a search ends with, with its scores."""
    model, found = search()
    name = f"exact, {model.kernel}{plan.remark}"
    return [FittedMember.scored(task, name, (model,), np.ones(1), found.n_evaluations)]


def additive_members() -> ExpressionMembers:
    """Exact GPs with additive kernels."""
    return ExpressionMembers("additive", tuple(map(parse_kernel, ADDITIVE_KERNELS)))


class PlainMembers(ExpressionMembers):
    """Exact GPs with a kernel of all columns and a trend, without torch."""

    complements: ClassVar[bool] = False

    def suits(self, size: Size) -> bool:
        return size.n_rows <= SOME_EXACT_ROWS and size.dim <= MOST_FACTORS


def plain_members() -> PlainMembers:
    """Exact GPs where torch is not installed, under the name of those that take it."""
    return PlainMembers("exact", tuple(map(parse_kernel, PLAIN_KERNELS)))


def optimism(
    log_densities: Callable[[FloatArray], FloatArray],
    posterior: VectorObjective,
    mode: FloatArray,
) -> FloatArray:
    """What the log density of each row (n,) falls by without the row's part in hyperparameters.

    Hyperparameters `t` of greatest posterior are those of all rows. Without row i the log posterior
    lacks `l_i = log p(y_i | y_-i, t)`. One Newton step from t leads to `t - H^-1 grad l_i`, where
    H is the Hessian of minus the log posterior. The log density of the row then falls by
    `grad l_i' H^-1 grad l_i`, to first order (the infinitesimal jackknife; Giordano, 2019).

    Parameters
    ----------
    log_densities
        Log densities (n,) of rows, each given all others, at hyperparameters (q,).
    posterior
        Minus the log posterior of the hyperparameters.
    mode
        Hyperparameters (q,) of greatest posterior.
    """
    steps = STEP * np.eye(mode.size)
    slopes = [(log_densities(mode + step) - log_densities(mode - step)) / (2 * STEP)
              for step in steps]  # fmt: skip
    return np.asarray(np.square(inverse_hessian_root(posterior, mode) @ np.array(slopes)).sum(0))
