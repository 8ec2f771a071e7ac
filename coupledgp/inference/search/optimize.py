"""Maximisation of the evidence over lengthscales, outputscale and noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coupledgp.inference.search.minimise import Minimiser, Minimum, Stopping, lbfgs
from coupledgp.inference.search.problem import (
    EvidenceAtLengthscale,
    EvidenceGradient,
    EvidenceProblem,
)
from coupledgp.inference.search.profile import ScaleBounds, profile_scales
from coupledgp.progress import Progress, silent
from coupledgp.random import FloatArray, IntArray

# Number of rows on which starting values are compared: they need not be exact.
SUBSET_ROWS = 1024
# Multiples of the data-driven lengthscale from which the search may start.
START_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Largest number of iterations on the subset before the search goes on with every row.
SUBSET_ITERATIONS = 30
# Tolerances of the value and of the gradient, per target: further digits of the hyperparameters
# change no prediction that the data could tell apart.
TOLERANCES = (1e-9, 1e-5)


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a stationary Gaussian process with noise.

    Attributes
    ----------
    lengthscale : FloatArray (d,)
        In units of the inputs.
    outputscale, noise : float
        Variances of f and of the noise, in units of the normalised targets.
    """

    lengthscale: FloatArray
    outputscale: float
    noise: float


@dataclass(frozen=True)
class SearchSpace:
    """Free hyperparameters, where the search for them starts, how it goes on and how far.

    Parameters
    ----------
    base
        Data-driven lengthscales (d,), the unit in which lengthscales are searched.
    ard
        One free lengthscale for each dimension; otherwise one factor on `base`.
    lengthscale
        Given lengthscales (d,): the only start, or kept if not free.
    outputscale, noise
        Variances that are kept if not free; otherwise ignored: the best are found without a start.
    free
        Names among lengthscale, outputscale, noise that are optimised.
    bounds
        Box of the variances.
    log_range
        Least and greatest log of a lengthscale over its base.
    minimise
        The optimiser of the lengthscales.
    groups
        Number (d,) of the group of each dimension, from 0 up: the dimensions of a group share one
        free lengthscale, and stand beside each other in `base` with one value. None: each dimension
        is a group.
    """

    base: FloatArray
    ard: bool
    lengthscale: FloatArray | None = None
    outputscale: float = 1.0
    noise: float = 0.1
    free: frozenset[str] = frozenset({"lengthscale", "outputscale", "noise"})
    bounds: ScaleBounds = field(default_factory=ScaleBounds)
    log_range: tuple[float, float] = (np.log(1e-3), np.log(1e4))
    minimise: Minimiser = lbfgs
    groups: IntArray | None = None

    @property
    def n_lengthscales(self) -> int:
        """Number q of free lengthscales."""
        if not self.ard:
            return 1
        return self.base.size if self.groups is None else int(self.groups[-1]) + 1

    @property
    def kept_outputscale(self) -> float | None:
        """Value of the outputscale if it is kept, None if it is searched for."""
        return None if "outputscale" in self.free else self.outputscale

    @property
    def kept_noise(self) -> float | None:
        """Value of the noise if it is kept, None if it is searched for."""
        return None if "noise" in self.free else self.noise

    def lengthscales(self, theta: FloatArray) -> FloatArray:
        """Lengthscales (d,) from the free logarithms theta (q,) over their base."""
        factors: FloatArray = self.of_dimensions(np.exp(theta))
        return self.base * factors

    def of_dimensions(self, values: Any) -> Any:
        """Values of the free lengthscales (q,), an array or tensor, as those of dimensions.

        The shape is (d,), or (1,) for one lengthscale.
        """
        return values if self.groups is None or not self.ard else values[self.groups]

    def logarithms(self, lengthscale: FloatArray) -> FloatArray:
        """Free logarithms theta (q,) of lengthscales (d,)."""
        logs: FloatArray = np.log(lengthscale / self.base)
        if not self.ard:
            return logs[:1]
        return logs if self.groups is None else logs[first_places(self.groups)]

    def gradient(self, by_log_lengthscale: FloatArray) -> FloatArray:
        """Gradient (q,) in theta from the gradient (d,) in log lengthscales."""
        if not self.ard:
            return by_log_lengthscale.sum(keepdims=True)
        if self.groups is None:
            return by_log_lengthscale
        return np.add.reduceat(by_log_lengthscale, first_places(self.groups))

    def starts(self, n_restarts: int, rng: np.random.Generator) -> list[FloatArray]:
        """Starting points theta (q,): given or a grid, and `n_restarts` random ones."""
        size = self.n_lengthscales
        if self.lengthscale is not None:
            first = [self.logarithms(self.lengthscale)]
        else:
            first = [np.full(size, np.log(factor)) for factor in START_FACTORS]
        return first + [rng.normal(0.0, 1.0, size) for _ in range(n_restarts)]


def first_places(groups: IntArray) -> IntArray:
    """Place (q,) of the first dimension of each group, from the numbers (d,) of the groups."""
    return np.flatnonzero(np.diff(groups, prepend=-1))


@dataclass(frozen=True)
class OptimizationResult:
    """Result of a search for hyperparameters.

    Attributes
    ----------
    hyperparameters : Hyperparameters
        The best ones that were found.
    log_evidence : float
        Their log evidence, in nats.
    n_evaluations, n_iterations : int
        Number of evaluations of the evidence, and of iterations of the last run of the optimiser.
    converged : bool
        Whether that run ended by one of its tolerances.
    """

    hyperparameters: Hyperparameters
    log_evidence: float
    n_evaluations: int
    n_iterations: int
    converged: bool


def maximise_evidence(
    problem: EvidenceProblem,
    space: SearchSpace,
    *,
    n_restarts: int = 1,
    max_iterations: int = 100,
    rng: np.random.Generator,
    report: Progress = silent,
) -> OptimizationResult:
    """Maximise the log evidence over log lengthscales, the variances profiled out.

    At each lengthscale the best outputscale and noise follow from one eigendecomposition, so the
    search runs over lengthscales only; by the envelope theorem the gradient of the profiled
    evidence is the partial derivative at these variances.
    Starts are compared on a subset of rows, the best `1 + n_restarts` of them are improved there,
    and the winner is improved on every row.

    Parameters
    ----------
    problem
        The evidence.
    space
        Free and kept hyperparameters, starts, bounds and the optimiser.
    n_restarts
        Number of starts that are improved besides the best one, and of random starts that join the
        grid.
    max_iterations
        Largest number of iterations of the optimiser on the whole table.
    rng
        Source of the subset and the random starts.
    report
        Called with a line of progress after each evaluation.
    """
    search = _Search(problem, space, report)
    if "lengthscale" not in space.free:
        lengthscale = space.base if space.lengthscale is None else space.lengthscale
        return search.finish(lengthscale, 1, True)
    starts = space.starts(n_restarts, rng)
    small = problem
    if problem.n_rows > 2 * SUBSET_ROWS:
        rows = np.sort(rng.choice(problem.n_rows, SUBSET_ROWS, replace=False))
        small = problem.subset(rows)
    trial = _Search(small, space, lambda text: report(f"start values: {text}"))
    ranked = sorted(starts, key=trial.value)[: 1 + n_restarts]
    iterations = max_iterations if small is problem else SUBSET_ITERATIONS
    runs = [trial.run(start, iterations) for start in ranked]
    best = min(runs, key=lambda run: run.value)
    if small is not problem:
        best = search.run(best.point, max_iterations)
    result = search.finish(space.lengthscales(best.point), best.n_iterations, best.converged)
    return replace(result, n_evaluations=result.n_evaluations + trial.n_evaluations)


class _Search:
    """Search on one problem, over log lengthscales alone or together with the log variances.

    Either the variances are profiled out by an eigendecomposition in each evaluation, or they are
    two more variables and a Cholesky factor is enough. The first way takes fewer evaluations; the
    second takes cheaper ones where an eigendecomposition would be most of the cost.
    """

    def __init__(self, problem: EvidenceProblem, space: SearchSpace, report: Progress) -> None:
        self.problem, self.space, self.report = problem, space, report
        self.n_evaluations = 0
        self.count = problem.n_counted * problem.n_outputs
        self.free_scales = [name for name in ("outputscale", "noise") if name in space.free]
        self.joint = problem.eigendecomposition_dominates

    def scales(self, here: EvidenceAtLengthscale) -> tuple[float, float]:
        """Return the best (outputscale, noise) at fixed lengthscales; those that are kept stay."""
        space = self.space
        kept = space.kept_outputscale, space.kept_noise
        if kept[0] is not None and kept[1] is not None:
            return kept[0], kept[1]
        return profile_scales(here.spectral(), space.bounds, *kept)

    def value(self, theta: FloatArray) -> float:
        """Minus the profiled log evidence per target."""
        here = self.problem.at(self.space.lengthscales(theta))
        self.n_evaluations += 1
        return -here.value(*self.scales(here)) / self.count

    def profiled(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Minus the profiled log evidence per target, and its gradient."""
        here = self.problem.at(self.space.lengthscales(theta))
        evidence = self._evaluate(here, *self.scales(here))
        return -evidence.value / self.count, -self.space.gradient(evidence.lengthscale) / self.count

    def jointly(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log evidence per target, and its gradient, in theta and the log variances."""
        theta, logs = np.split(variables, [variables.size - len(self.free_scales)])
        scales = {"outputscale": self.space.outputscale, "noise": self.space.noise}
        scales |= dict(zip(self.free_scales, np.exp(logs).tolist(), strict=True))
        here = self.problem.at(self.space.lengthscales(theta))
        evidence = self._evaluate(here, scales["outputscale"], scales["noise"])
        by_scale = [getattr(evidence, name) for name in self.free_scales]
        gradient = np.concatenate([self.space.gradient(evidence.lengthscale), by_scale])
        return -evidence.value / self.count, -gradient / self.count

    def _evaluate(
        self, here: EvidenceAtLengthscale, outputscale: float, noise: float
    ) -> EvidenceGradient:
        evidence = here.evaluate(outputscale, noise)
        self.n_evaluations += 1
        per_row = evidence.value / self.count
        self.report(f"evaluation {self.n_evaluations}, log evidence {per_row:.4f} a row")
        return evidence

    def run(self, start: FloatArray, max_iterations: int) -> Minimum:
        """Minimise from theta (q,); the point of the result is a theta too."""
        lower, upper = self.space.log_range
        bounds = [(min(lower, t), max(upper, t)) for t in start]
        variables = start
        if self.joint:
            here = self.problem.at(self.space.lengthscales(start))
            best = dict(zip(("outputscale", "noise"), self.scales(here), strict=True))
            logs = [np.log(best[name]) for name in self.free_scales]
            variables = np.concatenate([start, logs])
            for name in self.free_scales:
                low, high = getattr(self.space.bounds, name)
                bounds.append((np.log(low), np.log(high)))
        function = self.jointly if self.joint else self.profiled
        found = self.space.minimise(
            function, variables, bounds, Stopping(max_iterations, *TOLERANCES)
        )
        return replace(found, point=found.point[: start.size])

    def finish(
        self, lengthscale: FloatArray, n_iterations: int, converged: bool
    ) -> OptimizationResult:
        """Return the result at the final lengthscales (d,), with the best variances there."""
        here = self.problem.at(lengthscale)
        outputscale, noise = self.scales(here)
        best = Hyperparameters(lengthscale, outputscale, noise)
        value = here.value(outputscale, noise)
        return OptimizationResult(
            best, value, self.n_evaluations + 1, max(n_iterations, 1), converged
        )
