"""Searches for hyperparameters: an objective, runs of an optimiser from starts, and rounds.

A domain states an `Objective`: minus the log posterior density of its hyperparameters as a function
of variables. `Search` compares starts, improves the best ones, and goes on from the winner in
`Rounds`. These are objectives that follow one another, each made for the best point of the one
before: on more rows, with walks drawn for it or with gaps imputed by it.

The evidence of a table as an objective, in log lengthscales and log variances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias

import numpy as np

from coupledgp.core.minimise import Minimiser, Stopping, around_failures, brent, lbfgs
from coupledgp.core.problem import (
    Box,
    EvidenceAtLengthscale,
    EvidenceProblem,
    Hyperparameters,
    Objective,
    Point,
)
from coupledgp.core.starts import SearchSpace
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.linalg.low_rank import warn_of_evidence
from coupledgp.random import FloatArray

MakeObjective: TypeAlias = Callable[[Point], Objective[Point]]


@dataclass(frozen=True)
class SearchResult(Generic[Point]):
    """The point at which a search ended, its value, and the cost.

    Attributes
    ----------
    point : Point
        The best hyperparameters that were found.
    value : float
        The objective there.
    n_iterations : int
        Iterations of the last run.
    converged : bool
        Whether the last run ended by one of its tolerances, or the last round by its own rule.
    n_evaluations : int
        Evaluations of the objective, of all runs.
    n_rounds : int
        Rounds that were gone through.
    settled : bool
        Whether another round would hardly change anything.
    """

    point: Point
    value: float
    n_iterations: int = 0
    converged: bool = True
    n_evaluations: int = 0
    n_rounds: int = 0
    settled: bool = False


class Rounds(ABC, Generic[Point]):
    """Objectives that follow one another in a search."""

    @property
    @abstractmethod
    def most(self) -> int:
        """Largest number of rounds."""

    @abstractmethod
    def improved(self, search: Search, before: SearchResult[Point]) -> SearchResult[Point]:
        """Go on for one round from the result of the `before.n_rounds` rounds before."""


@dataclass
class Search:
    """Runs of an optimiser on objectives.

    Parameters
    ----------
    minimise
        The optimiser.
    n_evaluations
        Evaluations of all objectives so far; one that finds no value for its point is not counted.
    """

    minimise: Minimiser = lbfgs
    n_evaluations: int = 0

    def value(self, objective: Objective[Point], point: Point) -> float:
        """The objective at a point."""
        value = objective.value(point)
        self._count(objective, value)
        return value

    def _count(self, objective: Objective[Point], value: float) -> None:
        self.n_evaluations += 1
        tell(
            f"{objective.title}evaluation {self.n_evaluations}, log evidence "
            f"{-value * objective.size:.2f}"
        )

    def ranked(
        self, make: MakeObjective[Point], starts: Sequence[Point]
    ) -> list[SearchResult[Point]]:
        """Starts and the values of the objective that is made for each, the least first.

        Starts without a value are left out.

        Raises
        ------
        NumericalError
            None has a value.
        """
        found: list[SearchResult[Point]] = []
        for start in starts:
            try:
                value = self.value(make(start), start)
            except NumericalError as error:
                failed = error
            else:
                found.append(SearchResult(start, value, n_evaluations=self.n_evaluations))
        if not found:
            raise failed
        return sorted(found, key=lambda result: result.value)

    def improved(
        self, objective: Objective[Point], start: Point, stopping: Stopping
    ) -> SearchResult[Point]:
        """Run the optimiser from a start, by the safer way where the objective has no value there.

        Raises
        ------
        NumericalError
            The objective has no value at the start by either way.
        """
        try:
            return self._improved(objective, start, stopping)
        except NumericalError:
            safer = objective.safer()
            if safer is None:
                raise
            return self._improved(safer, start, stopping)

    def _improved(
        self, objective: Objective[Point], start: Point, stopping: Stopping
    ) -> SearchResult[Point]:
        variables, box = objective.variables(start), objective.box(start)

        def counted(x: FloatArray) -> tuple[float, FloatArray]:
            found = objective.value_and_gradient(x)
            self._count(objective, found[0])
            return found

        if objective.line_tolerance is not None and variables.size == 1:
            found = brent(
                lambda x: self.value(objective, objective.point(np.array([x]))),
                box[0], objective.line_tolerance,
            )  # fmt: skip
        else:
            found = self.minimise(around_failures(counted), variables, box, stopping)
        return SearchResult(
            objective.point(found.point), found.value, found.n_iterations, found.converged,
            self.n_evaluations,
        )  # fmt: skip

    def best(
        self,
        make: MakeObjective[Point],
        starts: Sequence[Point],
        stopping: Stopping,
        n_kept: int | None = None,
    ) -> SearchResult[Point]:
        """Run from each start, or from the `n_kept` of least value, and return the least end.

        Each start has the objective that is made for it.
        """
        if n_kept is not None:
            starts = [each.point for each in self.ranked(make, starts)[:n_kept]]
        runs = [self.improved(make(start), start, stopping) for start in starts]
        return replace(min(runs, key=lambda run: run.value), n_evaluations=self.n_evaluations)

    def in_rounds(self, rounds: Rounds[Point], found: SearchResult[Point]) -> SearchResult[Point]:
        """Go on from a result, round by round, until no round is left or one has settled."""
        while found.n_rounds < rounds.most and not found.settled:
            after = rounds.improved(self, found)
            found = replace(after, n_rounds=found.n_rounds + 1, n_evaluations=self.n_evaluations)
        return found


class TableObjective(Objective[FloatArray]):
    """Minus the log evidence per target, at points theta (q,): log lengthscales over their base.

    The variances are two more variables, so that a Cholesky factor is enough for an evaluation, or
    they are profiled out by an eigendecomposition, which keeps them in bounds where there is no
    such factor. By the envelope theorem the gradient of the profiled evidence is the partial
    derivative at the best variances.

    Parameters
    ----------
    problem
        The evidence.
    space
        Free and kept hyperparameters and bounds.
    title
        Words before each line of progress.
    joint
        Whether the variances are variables.
    falls_back
        Whether they are profiled out where they are variables and a Cholesky factor fails.
    """

    def __init__(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        title: str = "",
        *,
        joint: bool = True,
        falls_back: bool = True,
    ) -> None:
        self.problem, self.space, self.title, self.joint = problem, space, title, joint
        self.falls_back = falls_back
        self.size = problem.n_counted * problem.n_outputs

    @property
    def free_scales(self) -> list[str]:
        """Names of the variances that are variables."""
        names = ("outputscale", "noise") if self.joint else ()
        return [name for name in names if name in self.space.free]

    def at(self, theta: FloatArray) -> EvidenceAtLengthscale:
        """The evidence at theta (q,)."""
        return self.problem.at(self.space.lengthscales(theta))

    def variables(self, point: FloatArray) -> FloatArray:
        """Theta, and the logarithms of the best variances there, (q,)."""
        if not self.joint:
            return point
        best = dict(zip(("outputscale", "noise"), self.space.scales(self.at(point)), strict=True))
        return np.concatenate([point, [np.log(best[name]) for name in self.free_scales]])

    def point(self, variables: FloatArray) -> FloatArray:
        """Theta (q,) of a point."""
        return variables[: variables.size - len(self.free_scales)]

    def box(self, start: FloatArray) -> Box:
        """Box of the variables; a start outside of the range of lengthscales widens it."""
        lower, upper = self.space.log_range
        box = [(min(lower, t), max(upper, t)) for t in start]
        ends = [getattr(self.space.bounds, name) for name in self.free_scales]
        return [*box, *((np.log(low), np.log(high)) for low, high in ends)]

    def value(self, point: FloatArray) -> float:
        """The objective with the best variances."""
        here = self.at(point)
        return -here.value(*self.space.scales(here)) / self.size

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        theta = self.point(variables)
        here, names = self.at(theta), self.free_scales
        if self.joint:
            scales = {"outputscale": self.space.outputscale, "noise": self.space.noise}
            scales |= dict(zip(names, np.exp(variables[theta.size :]).tolist(), strict=True))
            evidence = here.evaluate(scales["outputscale"], scales["noise"])
        else:
            evidence = here.evaluate(*self.space.scales(here))
        by_scale = [getattr(evidence, name) for name in names]
        gradient = np.concatenate([self.space.gradient(evidence.lengthscale), by_scale])
        return -evidence.value / self.size, -gradient / self.size

    def safer(self) -> TableObjective | None:
        """The same objective with the variances profiled out, from now on."""
        if not (self.joint and self.falls_back):
            return None
        self.joint = False
        return self

    def finished(self, lengthscale: FloatArray) -> tuple[Hyperparameters, float]:
        """Hyperparameters with the best variances at lengthscales (d,), and the log evidence.

        A PrecisionWarning is given where rounding moves them by more than they are uncertain.
        """
        here = self.problem.at(lengthscale)
        outputscale, noise = self.space.scales(here)
        best = Hyperparameters(lengthscale, outputscale, noise)
        if self.space.free:
            warn_of_evidence(here.error(outputscale, noise), self.size)
        return best, here.value(outputscale, noise)
