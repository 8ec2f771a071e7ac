"""Maximisation of the evidence over lengthscales, outputscale and noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.core.ladder import Ladder, Rung, climb, rung_sizes
from coupledgp.core.minimise import Stopping
from coupledgp.core.problem import EvidenceProblem, LadderProblem
from coupledgp.core.problem import Hyperparameters as Hyperparameters
from coupledgp.core.search import Search, SearchResult, TableObjective
from coupledgp.core.starts import SearchSpace, proposed_starts
from coupledgp.random import FloatArray

# Number of rows on which starting values are compared: they need not be exact.
SUBSET_ROWS = 1024
# Largest number of iterations on the subset before the search goes on with every row.
SUBSET_ITERATIONS = 30
# Iterations after which only the best of several searches goes on: most have ended by then. Each of
# the searches that are asked for is the best of two.
TRIAL_ITERATIONS, TRIALS = 8, 2
# Tolerances of the value and of the gradient, per target: further digits of the hyperparameters
# change no prediction that the data could tell apart.
TOLERANCES = (1e-9, 1e-5)


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
    ladder : Ladder
        Which rows the lengthscales come from, and why.
    """

    hyperparameters: Hyperparameters
    log_evidence: float
    n_evaluations: int
    n_iterations: int
    converged: bool
    ladder: Ladder


def maximise_evidence(
    problem: EvidenceProblem,
    space: SearchSpace,
    *,
    n_restarts: int = 1,
    max_iterations: int = 100,
    rng: np.random.Generator,
) -> OptimizationResult:
    """Maximise the log evidence over log lengthscales and log variances.

    Starts are given, or proposed by a coarse profile of the evidence on at most 128 rows
    (`starts`). The best `1 + n_restarts` starts are improved for a few steps, or twice as many on a
    table that is searched whole. The winner is improved to the end: on the rungs of a `Ladder`
    where the problem has one, otherwise on every row. Tables of at most 2048 rows are searched
    whole at once. Where a Cholesky factor fails, the variances are profiled out by an
    eigendecomposition; by the envelope theorem the gradient of the profiled evidence is the partial
    derivative at the best variances.

    Parameters
    ----------
    problem
        The evidence.
    space
        Free and kept hyperparameters, starts, bounds and the optimiser.
    n_restarts
        Number of starts that are improved besides the best one. Beside given lengthscales they are
        random.
    max_iterations
        Largest number of iterations of the optimiser on the whole table, or on each rung.
    rng
        Source of the subset and of random starts.
    """
    if "lengthscale" not in space.free:
        kept = space.base if space.lengthscale is None else space.lengthscale
        return _finished(problem, space, kept, Ladder(problem.n_rows), 0)
    starts = space.given_starts(n_restarts, rng)
    given = (starts, 1 + n_restarts, max_iterations, rng)
    if isinstance(problem, LadderProblem) and len(rung_sizes(problem.n_rows)) > 1:
        found, ladder = climb(problem, space, *given)
    else:
        found, ladder = _whole(problem, space, *given)
    lengthscale = space.lengthscales(found.point)
    return _finished(problem, space, lengthscale, ladder, found.n_evaluations)


def _whole(
    problem: EvidenceProblem,
    space: SearchSpace,
    starts: list[FloatArray],
    n_kept: int,
    max_iterations: int,
    rng: np.random.Generator,
) -> tuple[SearchResult[FloatArray], Ladder]:
    """Improve the best starts on every row; on a long table, first on a subset of the rows."""
    small = problem
    if problem.n_rows > 2 * SUBSET_ROWS:
        rows = np.sort(rng.choice(problem.n_rows, SUBSET_ROWS, replace=False))
        small = problem.subset(rows)
    search = Search(space.minimise)
    trial = TableObjective(small, space, "start values: ")
    if not starts:
        starts, search.n_evaluations = proposed_starts(small, space, TRIALS * n_kept)
    iterations = max_iterations if small is problem else SUBSET_ITERATIONS
    first = min(iterations, TRIAL_ITERATIONS)
    best = search.best(lambda _: trial, starts, Stopping(first, *TOLERANCES))
    if not best.converged and first < iterations:
        best = search.improved(trial, best.point, Stopping(iterations, *TOLERANCES))
    if small is not problem:
        whole = TableObjective(problem, space)
        best = search.improved(whole, best.point, Stopping(max_iterations, *TOLERANCES))
    rung = Rung(problem.n_rows, search.n_evaluations, best.n_iterations, best.converged)
    return best, Ladder(problem.n_rows, 0, (rung,))


def _finished(
    problem: EvidenceProblem,
    space: SearchSpace,
    lengthscale: FloatArray,
    ladder: Ladder,
    n_evaluations: int,
) -> OptimizationResult:
    """The result at the final lengthscales (d,), with the best variances on every row."""
    best, value = TableObjective(problem.in_double(), space).finished(lengthscale)
    chosen = ladder.chosen
    iterations = 1 if chosen is None else max(chosen.n_iterations, 1)
    converged = chosen is None or chosen.converged
    return OptimizationResult(best, value, n_evaluations + 1, iterations, converged, ladder)
