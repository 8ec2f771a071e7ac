"""Exact models of a table by their hyperparameters as one vector: what a race searches for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from coupledgp.core.averaging import importance_draws
from coupledgp.core.problem import VectorObjective
from coupledgp.core.search import Search
from coupledgp.core.target_maps import ToTargets
from coupledgp.core.transformed import transformed_data
from coupledgp.core.units import Units
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.random import FloatArray
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_members import (
    AVERAGED_ROWS,
    EXACT_NEIGHBOURS,
    LEAST_DRAW_WEIGHT,
    N_DRAWS,
    DenseModel,
    MemberPosterior,
    averages,
)
from coupledgp.tables.expression_members import ExpressionModel
from coupledgp.tables.expression_search import ExpressionProblem
from coupledgp.tables.local_parameters import Structure
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import Evidence
from coupledgp.tables.member_kinds import MemberPrior, MemberTask
from coupledgp.tables.transformed_members import TransformedModel, transformed_task

# Most rows of a search for an expression, which costs O(n^3).
EXPRESSION_ROWS = 1000


class Entry(ABC):
    """A model of a table."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in a report."""

    @abstractmethod
    def start(self, problem: LocalProblem) -> FloatArray:
        """Hyperparameters (q,) from which a search starts."""

    @abstractmethod
    def objective(self, problem: LocalProblem, vector: FloatArray) -> VectorObjective:
        """Minus the log posterior per observation, for a search that starts from a vector."""

    @abstractmethod
    def model(self, problem: LocalProblem, vector: FloatArray) -> MemberPrior:
        """The model at hyperparameters."""

    @property
    @abstractmethod
    def family(self) -> str:
        """Name of the family of models of which the best one is close to the others."""

    @abstractmethod
    def is_like(self, other: Entry) -> bool:
        """Whether hyperparameters of this model start a search for those of the other one."""

    def averaged(
        self, task: MemberTask, vector: FloatArray
    ) -> tuple[tuple[MemberPrior, ...], FloatArray]:
        """The model at draws of its hyperparameters, and their weights; one for many rows."""
        return (self.model(task.train, vector),), np.ones(1)


@dataclass(frozen=True)
class Stationary(Entry):
    """A stationary kernel of all columns and a trend.

    Attributes
    ----------
    kernel : str
        Name of the kernel.
    trend : str
        Name of the trend.
    """

    kernel: str
    trend: str

    @property
    def name(self) -> str:
        return f"exact, {self.kernel}"

    @property
    def family(self) -> str:
        """Kernels of one metric."""
        return str(parse_spectrum(self.kernel).metric)

    def structure(self, problem: LocalProblem) -> Structure:
        """The parts of the model on a table that is rotated."""
        k = min(EXACT_NEIGHBOURS, max(len(problem.data) - 1, 1))
        return problem.structure(self.trend, k, parse_spectrum(self.kernel))

    def start(self, problem: LocalProblem) -> FloatArray:
        """The best of the priors' start and of starts by the evidence of few rows."""
        problem = problem.rotated()
        structure, fitter, search = self.structure(problem), problem.fitter(True), Search()
        starts = [structure.start()]
        if fitter.varies:
            starts += fitter.proposals(structure, search)
        objective = self.objective(problem, starts[0])
        return search.ranked(lambda _: objective, starts)[0].point

    def objective(self, problem: LocalProblem, vector: FloatArray) -> Evidence:
        problem = problem.rotated()
        fitter = problem.fitter(True)
        return fitter.evidence(self.structure(problem), np.arange(len(fitter.rows)), vector)

    def model(self, problem: LocalProblem, vector: FloatArray) -> MemberPrior:
        problem = problem.rotated()
        return DenseModel(problem.prior(self.structure(problem), vector))

    def is_like(self, other: Entry) -> bool:
        return isinstance(other, Stationary)

    def averaged(
        self, task: MemberTask, vector: FloatArray
    ) -> tuple[tuple[MemberPrior, ...], FloatArray]:
        problem = task.train
        if not averages(len(problem.data), len(problem.groups)) or not problem.fitter().varies:
            return super().averaged(task, vector)
        density = MemberPosterior(self.objective(problem, vector))
        rng = np.random.default_rng([problem.seed, 3])
        draws, weights = importance_draws(density, vector, N_DRAWS, rng)
        kept = weights > LEAST_DRAW_WEIGHT
        kept[np.argmax(weights)] = True
        draws = density.with_known_noise(draws[kept])
        return (
            tuple(self.model(problem, draw) for draw in draws),
            weights[kept] / weights[kept].sum(),
        )


@dataclass(frozen=True)
class Expression(Entry):
    """An expression of kernels.

    Attributes
    ----------
    text : str
        The expression.
    """

    text: str

    @property
    def name(self) -> str:
        return f"exact, {self.text}"

    @property
    def family(self) -> str:
        return "additive"

    def problem(self, problem: LocalProblem) -> ExpressionProblem:
        """The search on a table."""
        return ExpressionProblem(problem, parse_kernel(self.text))

    def start(self, problem: LocalProblem) -> FloatArray:
        return self.problem(problem).evidence(np.arange(0)).start

    def objective(self, problem: LocalProblem, vector: FloatArray) -> VectorObjective:
        own = self.problem(problem)
        return own.evidence(own.rows(EXPRESSION_ROWS, 0))

    def model(self, problem: LocalProblem, vector: FloatArray) -> MemberPrior:
        return ExpressionModel(parse_kernel(self.text), vector)

    def is_like(self, other: Entry) -> bool:
        """Kernels of one base have the same hyperparameters as those of another."""
        shape = [_without_base(one) for one in (self.text, getattr(other, "text", ""))]
        return shape[0] == shape[1]

    def averaged(
        self, task: MemberTask, vector: FloatArray
    ) -> tuple[tuple[MemberPrior, ...], FloatArray]:
        model = ExpressionModel(parse_kernel(self.text), vector)
        few = task.held is None and len(task.train.data) <= AVERAGED_ROWS
        return (model.corrected(task) if few else model,), np.ones(1)


def _without_base(text: str) -> str:
    return text.replace("matern-1/2", "matern-3/2")


@dataclass(frozen=True)
class Transformed(Entry):
    """Another model, of `z = g(y)`.

    Attributes
    ----------
    base : Entry
        The model of z.
    to_targets : ToTargets
        The transforms, with the span of the targets.
    units : Units
        Units of z.
    told : str
        The transform in words.
    """

    base: Entry
    to_targets: ToTargets
    units: Units
    told: str

    @property
    def name(self) -> str:
        return f"{self.base.name}, of {self.told}"

    @property
    def family(self) -> str:
        return "transformed"

    def _of(self, problem: LocalProblem) -> LocalProblem:
        values = transformed_data(problem.data, self.to_targets.transforms)
        return problem.with_targets(values, self.units)

    def start(self, problem: LocalProblem) -> FloatArray:
        return self.base.start(self._of(problem))

    def objective(self, problem: LocalProblem, vector: FloatArray) -> VectorObjective:
        return self.base.objective(self._of(problem), vector)

    def model(self, problem: LocalProblem, vector: FloatArray) -> MemberPrior:
        base = self.base.model(self._of(problem), vector)
        return TransformedModel(base, self.to_targets, self.units)

    def is_like(self, other: Entry) -> bool:
        return False

    def averaged(
        self, task: MemberTask, vector: FloatArray
    ) -> tuple[tuple[MemberPrior, ...], FloatArray]:
        own = transformed_task(task, self.to_targets.transforms, self.units)
        priors, shares = self.base.averaged(own, vector)
        return tuple(TransformedModel(one, self.to_targets, self.units) for one in priors), shares
