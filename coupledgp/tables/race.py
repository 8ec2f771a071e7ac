"""A race of exact models of a table: few rows first, all rows for those that can still matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.minimise import Stopping
from coupledgp.core.posterior_form import mixture_log_density, mixture_weights
from coupledgp.core.search import Search
from coupledgp.core.target_maps import Span, ToTargets
from coupledgp.core.transforms import Identity
from coupledgp.core.units import Units, are_constant
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.random import FloatArray
from coupledgp.tables.discrete_targets import discrete_outputs
from coupledgp.tables.entries import Entry, Expression, Stationary, Transformed
from coupledgp.tables.exact_members import EXACT_NEIGHBOURS, EXACT_ROWS, averages, computed
from coupledgp.tables.expression_members import (
    ADDITIVE_KERNELS,
    MOST_FACTORS,
    PAIR_SECONDS,
)
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import VALUE_TOLERANCE, Round, kernels_for
from coupledgp.tables.member_kinds import (
    CUBE_SECONDS,
    EVALUATIONS_PER_ITERATION,
    FIRST_ITERATIONS,
    FIRST_KERNEL,
    NEXT_ITERATIONS,
    FittedMember,
    MemberKind,
    MemberPlan,
    MemberTask,
    Size,
)
from coupledgp.tables.stationary_evidence import MOST_ROWS
from coupledgp.tables.transform_search import screened_transforms
from coupledgp.tables.transformed_members import short_text, transformed_task
from coupledgp.tables.tree_members import (
    TreeMembers,
    boosting_seconds,
    trees_may_help,
)

# Rows of the first lap, and rows by which the models are compared after it.
LAP_ROWS, SCORED_ROWS = 250, 1000
# Iterations of the second lap, on rows that are compared, and how far behind a model may be after
# the first one to take part, nats a row.
SECOND_ITERATIONS, FAR = 5, 0.25
# Iterations on all rows.
LAST_ITERATIONS = 15
# Mean log density of the rows left out, nats a row, that all models that are not searched for on
# all rows may be worth together.
LEAST_GAIN = 0.003
# Nats a row by which the best model of a family may be behind and still be searched for on all
# rows, since the order may change there.
CLOSE = 0.1
# Most models of the last lap, and fewest.
MOST_LAST, LEAST_LAST = 4, 2
# Rows from which transforms are tried.
LEAST_TRANSFORMED = 30


@dataclass(eq=False)
class Runner:
    """A model in the race.

    Attributes
    ----------
    entry : Entry
        The model.
    vector : FloatArray (q,)
        Its hyperparameters so far.
    densities : FloatArray (b,)
        Log densities of the rows that are compared, each given the others.
    n_evaluations : int
        Evaluations of the evidence so far.
    """

    entry: Entry
    vector: FloatArray
    n_evaluations: int = 0
    densities: FloatArray = field(default_factory=lambda: np.empty(0))

    def run(self, problem: LocalProblem, iterations: float) -> None:
        """Improve the hyperparameters on the rows of a problem."""
        if are_constant(problem.data.targets, problem.units.offset):
            return
        search = Search()
        stopping = Stopping(max(1, round(iterations)), VALUE_TOLERANCE)
        objective = self.entry.objective(problem, self.vector)
        found = search.improved(objective, self.vector, stopping)
        self.vector = found.point
        self.n_evaluations += found.n_evaluations
        tell(f"{self.entry.name}: {len(problem.data)} rows, {-found.value:.4f} nats a row")

    def score(self, task: MemberTask) -> None:
        """Log densities of the rows of a task, each given the others."""
        model = self.entry.model(task.train, self.vector)
        self.densities = model.left_out(task).log_densities


@dataclass(frozen=True)
class RaceMembers(MemberKind):
    """Exact models of small tables: stationary and additive kernels, transforms of y, and trees.

    All of them are searched for on at most `LAP_ROWS` rows, each kernel of a family from where the
    first one ended. Log densities of rows left out under what was found decide which models are
    searched for on all rows: those that a mixture of all would miss. On so few rows that the first
    lap has them all, the models are hardly told apart, and all of them are members.

    Attributes
    ----------
    transforms : bool
        Whether models may be given a transform of y.
    """

    transforms: bool = True
    name: ClassVar[str] = "race"
    leaves_one_out: ClassVar[bool] = True

    def suits(self, size: Size) -> bool:
        return size.n_rows <= EXACT_ROWS

    def forecast(self, size: Size, alone: bool = True, effort: float = 1.0) -> float:
        n, few, kernels = size.n_rows, LAP_ROWS, len(kernels_for(size.dim, size.shared))
        several = 2 <= size.dim <= MOST_FACTORS and not size.shared
        n_additive = len(ADDITIVE_KERNELS) if several else 0

        def additive(n_rows: int) -> float:
            m = min(n_rows, n, SCORED_ROWS)
            return m**2 * size.dim * PAIR_SECONDS + m**3 * CUBE_SECONDS

        def rest(families: int, kernels: int, evaluation: Callable[[int], float]) -> float:
            if not kernels:
                return 0.0
            first = FIRST_ITERATIONS + NEXT_ITERATIONS * (kernels - 1)
            second = SECOND_ITERATIONS * kernels if n > few else 0
            lap = first * evaluation(few) + second * evaluation(SCORED_ROWS)
            return lap + families * LAST_ITERATIONS * evaluation(n)

        def stationary(n_rows: int) -> float:
            return size.searched.dense_seconds(min(n_rows, MOST_ROWS))

        searches = rest(2, kernels, stationary) + rest(1, n_additive, additive)
        if n > MOST_ROWS:
            k = min(EXACT_NEIGHBOURS, n - 1)
            searches += size.searched.search_seconds((Round(n, 2 * LAST_ITERATIONS),), k, 0)
        scored = (kernels + n_additive) * stationary(n) + 6 * size.searched.dense_seconds(n)
        if averages(n, size.dim):
            own = 1 if size.shared else size.dim
            scored += 2 * (2 * own + 24) * (size.searched.dense_seconds(n) + additive(n))
        probe = boosting_seconds(n, size.dim) if self._takes_trees(size) else 0.0
        return effort * EVALUATIONS_PER_ITERATION * searches + scored + probe

    @staticmethod
    def _takes_trees(size: Size) -> bool:
        return TreeMembers().suits(size) and size.dim <= MOST_FACTORS

    def fit(self, task: MemberTask, plan: MemberPlan) -> list[FittedMember]:
        few, scored = _some(task, LAP_ROWS, 7), _some(task, SCORED_ROWS, 8)
        runners = self._first_lap(task, few.train)
        runners += self._transformed(task, few.train, scored, runners)
        if len(task.train.data) > LAP_ROWS:
            _score(runners, scored)
            best = max(runner.densities.mean() for runner in runners)
            runners = [one for one in runners if one.densities.mean() > best - FAR]
            for runner in runners:
                runner.run(scored.train, plan.effort * SECOND_ITERATIONS)
                runner.densities = np.empty(0)
            _score(runners, scored)
            runners = _order(runners, scored.train.data.counts)
        finished: list[FittedMember] = []
        for runner in runners:
            finished += computed([partial(self._finished, task, plan, runner)])
        size = Size(len(task.train.data), task.train.data.points.shape[1], 1, 1)
        if self._takes_trees(size) and trees_may_help(task, finished):
            finished += computed([partial(TreeMembers().fit, task, plan)])
        return finished

    def _first_lap(self, task: MemberTask, few: LocalProblem) -> list[Runner]:
        names = kernels_for(len(task.train.groups), task.train.shared)
        stationary = [Stationary(name, task.trend) for name in names]
        stationary.sort(key=lambda entry: entry.kernel != FIRST_KERNEL)
        runners = _family(few, stationary)
        if 2 <= int(task.train.groups.max()) + 1 <= MOST_FACTORS and not task.train.shared:
            runners += _family(few, [Expression(text) for text in ADDITIVE_KERNELS])
        return runners

    def _transformed(
        self, task: MemberTask, few: LocalProblem, scored: MemberTask, runners: list[Runner]
    ) -> list[Runner]:
        """Runners of the transform of y, of the best stationary and the best additive kernel."""
        data, train = task.whole.data, task.train
        if not self.transforms or len(data) < LEAST_TRANSFORMED or train.known_noise is not None:
            return []
        if discrete_outputs(data.targets):
            return []
        rng = np.random.default_rng([train.seed, 5])
        transforms = screened_transforms(train.data, rng, train.groups)
        if all(one == Identity() for one in transforms):
            return []
        to_targets = ToTargets(transforms, Span.of(train.data.targets))
        own = transformed_task(task, transforms, train.units)
        units = Units.of(own.train.data.targets, task.normalize, data.counts)
        told = ", ".join(map(short_text, transforms))
        _score(runners, scored)
        found = []
        for family in (Stationary, Expression):
            same = [one for one in runners if isinstance(one.entry, family)]
            for best in sorted(same, key=lambda one: -one.densities.mean())[:1]:
                entry = Transformed(best.entry, to_targets, units, told)
                found.append(Runner(entry, best.vector))
                found[-1].run(few, FIRST_ITERATIONS)
        return found

    @staticmethod
    def _finished(task: MemberTask, plan: MemberPlan, runner: Runner) -> list[FittedMember]:
        runner.run(task.train, plan.effort * LAST_ITERATIONS)
        priors, shares = runner.entry.averaged(task, runner.vector)
        name = f"{runner.entry.name}{plan.remark}"
        return [FittedMember.scored(task, name, priors, shares, runner.n_evaluations)]


def _family(few: LocalProblem, entries: Sequence[Entry]) -> list[Runner]:
    """Runners of kernels of one family after the first lap."""
    runners: list[Runner] = []
    for entry in entries:
        first = next((one for one in runners if one.entry.is_like(entry)), None)
        start = entry.start(few) if first is None else first.vector
        runner = Runner(entry, start)
        try:
            runner.run(few, FIRST_ITERATIONS if first is None else NEXT_ITERATIONS)
        except NumericalError:
            continue
        runners.append(runner)
    return runners


def _some(task: MemberTask, n_rows: int, number: int) -> MemberTask:
    """The task of some of its rows, each left out in turn."""
    if len(task.train.data) <= n_rows:
        return task
    rng = np.random.default_rng([task.train.seed, number])
    rows = np.sort(rng.permutation(len(task.train.data))[:n_rows])
    return replace(task, train=task.train.take(rows))


def _score(runners: list[Runner], task: MemberTask) -> None:
    """Score runners that have no densities yet; those without a factor drop out."""
    for runner in list(runners):
        if not runner.densities.size:
            try:
                runner.score(task)
            except NumericalError:
                runners.remove(runner)


def _order(runners: list[Runner], counts: FloatArray | None) -> list[Runner]:
    """Runners of the last lap: fewest whose mixture is as dense as that of all, best first.

    The best one of each family that is close to the best of all is among them.
    """
    densities = np.array([runner.densities for runner in runners])

    def weighed(kept: NDArray[np.intp]) -> tuple[float, FloatArray]:
        weights = mixture_weights(densities[kept], 0.2, counts)
        found = mixture_log_density(densities[kept], weights)
        return float(np.average(found, weights=counts)), weights

    every = np.arange(len(runners))
    goal = weighed(every)[0] - LEAST_GAIN
    kept: NDArray[np.intp] = np.array([], dtype=np.intp)
    while len(kept) < min(MOST_LAST, len(runners)):
        left = np.setdiff1d(every, kept)
        values = [weighed(np.append(kept, k))[0] for k in left]
        kept = np.append(kept, left[int(np.argmax(values))])
        if max(values) >= goal and len(kept) >= LEAST_LAST:
            break
    chosen = [runners[k] for k in kept]
    least = max(float(own.mean()) for own in densities) - CLOSE
    for family in {runner.entry.family for runner in runners}:
        best = max(
            (runner for runner in runners if runner.entry.family == family),
            key=lambda runner: runner.densities.mean(),
        )
        if best not in chosen and best.densities.mean() > least:
            chosen.append(best)
    return chosen
