"""The search for hyperparameters on ever more rows of a table, as long as more rows pay.

Hyperparameters are few and rows are many: lengthscales from a thousand rows often predict as well
as those from all. The search climbs a ladder of subsets, each four times as large as the last and
started where the last ended. After each it compares the log density of rows that no rung but the
whole table is given, under the new lengthscales and the last ones, and climbs on only where it has
risen by more than its standard error.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.core.minimise import Experienced, Stopping, patient
from coupledgp.core.problem import EvidenceGradient, LadderProblem
from coupledgp.core.search import Rounds, Search, SearchResult, TableObjective
from coupledgp.core.starts import SearchSpace, proposed_starts
from coupledgp.errors import NumericalError
from coupledgp.ground.notebook import ExplainedChoice
from coupledgp.ground.progress import tell
from coupledgp.random import FloatArray

# Rows of the first rung, and the ratio of one rung to the last.
FIRST_ROWS, GROWTH = 1024, 4
# A subset of more than half of the rows would save little: then the next rung is the whole table.
LEAST_SAVING = 2
# Starts that are proposed for each that is improved.
PROPOSED = 3
# Largest number of iterations from each start on the first rung; the second one goes on.
FIRST_ITERATIONS = 30
# One of this many rows is held out, and no more than this number: their mean log density then has
# an error of about a hundredth of a nat.
ROWS_A_HELD_OUT, MAX_HELD_OUT = 8, 2048
# Most rows that the posterior of a comparison is given: far more than features.
GIVEN_ROWS = 65536
# A run ends where so many evaluations raise the log evidence by less than so many nats a target:
# held-out densities are known to a thousandth at best.
WINDOW, LEAST_RISE = 8, 1e-4
# It also ends where one iteration raises it by less than the first of these, or where no entry of
# the gradient, per target, exceeds the second.
TOLERANCES = (1e-8, 1e-5)
# Largest error per target of the evidence and of its gradient in single precision. An error g of
# the gradient costs g^2 / 2c nats a target, c the curvature per target: 5e-6 for c = 0.01.
SINGLE_ERROR = 3e-4


@dataclass(frozen=True)
class Rung:
    """The search on one subset of the rows.

    Attributes
    ----------
    n_rows : int
        Rows of the subset.
    n_evaluations, n_iterations : int
        Evaluations of the evidence, and iterations of the last run.
    converged : bool
        Whether the last run ended by one of its tolerances.
    single_precision : bool
        Whether the features of the evaluations were in single precision.
    rise, error : float or None
        Rise of the mean log density of held-out rows over the last rung, nats a row, and its
        standard error; None where it was not measured.
    """

    n_rows: int
    n_evaluations: int
    n_iterations: int
    converged: bool
    single_precision: bool = False
    rise: float | None = None
    error: float | None = None

    @property
    def fell(self) -> bool:
        """Whether the held-out log density fell by more than its error."""
        return self.rise is not None and self.error is not None and self.rise < -self.error

    @property
    def rose(self) -> bool:
        """Whether the held-out log density rose by more than its error."""
        return self.rise is not None and self.error is not None and self.rise > self.error


@dataclass(frozen=True)
class Ladder(ExplainedChoice):
    """Which rows of a table the hyperparameters come from, and why.

    Attributes
    ----------
    n_rows, n_held_out : int
        Rows of the table, and those at which rungs are compared; zero without comparison.
    rungs : tuple of Rung
        Searches that were made; empty where the lengthscales were kept.
    """

    n_rows: int
    n_held_out: int = 0
    rungs: tuple[Rung, ...] = ()

    @property
    def chosen(self) -> Rung | None:
        """The rung whose lengthscales are used; None where they were kept."""
        if not self.rungs:
            return None
        return self.rungs[-2] if self.rungs[-1].fell else self.rungs[-1]

    def explain(self) -> str:
        """Which rows were searched, and why no more or fewer, in words."""
        chosen = self.chosen
        if chosen is None:
            return f"Lengthscales are kept; the variances come from {self.n_rows} rows."
        start = f"Lengthscales from {chosen.n_rows} of {self.n_rows} rows: "
        last = self.rungs[-1]
        if last.n_rows == self.n_rows:
            return start + self._whole()
        if last.rise is None:
            return f"{start}more rows were not searched."
        if last.rose:
            return start + f"{self._compared(last)}; more rows were not searched."
        return start + f"{self._compared(last)}, which is no rise by more than its error."

    def _whole(self) -> str:
        measured = [rung for rung in self.rungs if rung.rise is not None]
        if measured:
            return f"{self._compared(measured[-1])}, and the next step was the whole table."
        if len(self.rungs) > 1:
            return "the table is too short for a comparison of subsets."
        return "the table was searched whole."

    def _compared(self, rung: Rung) -> str:
        before = self.rungs[self.rungs.index(rung) - 1].n_rows
        return (
            f"those from {rung.n_rows} instead of {before} rows change the mean log density of "
            f"{self.n_held_out} held-out rows by {rung.rise:+.4f} ± {rung.error:.4f} nats"
        )


def rung_sizes(n_rows: int, most_rows: int | None = None) -> list[int]:
    """Numbers of rows of the rungs in ascending order; the last is the whole table.

    Rungs of more than `most_rows` are left out, and then the whole table, too.
    """
    sizes: list[int] = []
    size = FIRST_ROWS
    while LEAST_SAVING * size <= n_rows and n_rows > LEAST_SAVING * FIRST_ROWS:
        if most_rows is not None and size > most_rows:
            return sizes
        sizes.append(size)
        size *= GROWTH
    return [*sizes, n_rows]


def climb(
    problem: LadderProblem,
    space: SearchSpace,
    starts: list[FloatArray],
    n_kept: int,
    max_iterations: int,
    rng: np.random.Generator,
) -> tuple[SearchResult[FloatArray], Ladder]:
    """Search for the lengthscales theta (q,) on ever more rows, as long as more rows pay.

    Parameters
    ----------
    problem
        Evidence of the whole table.
    space
        Free and kept hyperparameters, bounds and the optimiser.
    starts
        Points theta (q,), whose evidence is compared on the first rung; none: they are proposed.
    n_kept
        Number of starts, the best ones, that are improved there.
    max_iterations
        Largest number of iterations of the optimiser on each rung.
    rng
        Source of the order of the rows.
    """
    search = Search(Experienced(patient(space.minimise, WINDOW, LEAST_RISE)))
    rungs = _Rungs(problem, space, max_iterations, rng)
    found = search.in_rounds(rungs, rungs.first(search, starts, n_kept))
    ladder = Ladder(problem.n_rows, rungs.held_out.size, tuple(rungs.done))
    tell(ladder.explain())
    return found, ladder


class _Rungs(Rounds[FloatArray]):
    """Rows in random order, rungs so far, and whether single precision still serves."""

    def __init__(
        self,
        problem: LadderProblem,
        space: SearchSpace,
        max_iterations: int,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.space = problem, space
        self.max_iterations = max_iterations
        self.sizes = rung_sizes(problem.n_rows, problem.most_rows)
        n_held_out = min(problem.n_rows // ROWS_A_HELD_OUT, MAX_HELD_OUT)
        largest = max([GIVEN_ROWS, *(size for size in self.sizes if size < problem.n_rows)])
        order = problem.row_order(rng, n_held_out + largest)
        self.held_out, self.rest = np.sort(order[:n_held_out]), order[n_held_out:]
        self.single = True
        self.done: list[Rung] = []
        self.density: FloatArray | None = None

    @property
    def most(self) -> int:
        """Number of rungs."""
        return len(self.sizes)

    def first(
        self, search: Search, starts: list[FloatArray], n_kept: int
    ) -> SearchResult[FloatArray]:
        """Improve the best of some starts on the first rung."""
        size = self.sizes[0]
        part = self._part(size)
        if not starts:
            starts, search.n_evaluations = proposed_starts(part, self.space, PROPOSED * n_kept)
        trial = TableObjective(part, self.space, self._title(size))
        ranked = [each.point for each in search.ranked(lambda _: trial, starts)[:n_kept]]
        limit = min(FIRST_ITERATIONS, self.max_iterations)
        runs = [self._improved(search, part, start, limit) for start in ranked]
        best = min(runs, key=lambda run: run.value)
        self.done.append(self._rung(size, search.n_evaluations, best))
        return replace(best, n_rounds=1, n_evaluations=search.n_evaluations)

    def improved(
        self, search: Search, before: SearchResult[FloatArray]
    ) -> SearchResult[FloatArray]:
        """Go on for one rung; a rung on which the held-out log density falls is stepped back."""
        size, spent = self.sizes[before.n_rounds], search.n_evaluations
        found = self._improved(search, self._part(size), before.point, self.max_iterations)
        rung = self._rung(size, search.n_evaluations - spent, found)
        if size < self.problem.n_rows:
            if self.density is None:
                self.density = self._density(search, before.point)
            density = self._density(search, found.point)
            rung, self.density = _compared(rung, density - self.density), density
        self.done.append(rung)
        return replace(before if rung.fell else found, settled=not rung.rose)

    def _rung(self, size: int, n_evaluations: int, found: SearchResult[FloatArray]) -> Rung:
        return Rung(size, n_evaluations, found.n_iterations, found.converged, self.single)

    def _part(self, size: int) -> LadderProblem:
        """The problem of the first rows in random order; every row if they are as many."""
        if size == self.problem.n_rows:
            return self.problem
        return self.problem.subset(np.sort(self.rest[:size]))

    def _title(self, size: int) -> str:
        first = "start values: " if not self.done else ""
        return f"{first}{size} of {self.problem.n_rows} rows: "

    def _improved(
        self, search: Search, part: LadderProblem, start: FloatArray, limit: int
    ) -> SearchResult[FloatArray]:
        """Run from a point, in single precision as long as its errors stay small."""
        stopping, title = Stopping(limit, *TOLERANCES), self._title(part.n_rows)
        single = part.single_precision() if self.single else None
        if single is not None:
            quick = TableObjective(single, self.space, title, falls_back=False)
            with suppress(NumericalError):
                found = search.improved(quick, start, stopping)
                if self._is_close(search, part, single, found.point):
                    return found
                start = found.point
        self.single = False
        return search.improved(TableObjective(part, self.space, title), start, stopping)

    def _is_close(
        self, search: Search, part: LadderProblem, single: LadderProblem, point: FloatArray
    ) -> bool:
        """Whether evidence and gradient of two precisions agree at a point (q,)."""
        lengthscale = self.space.lengthscales(point)
        here = part.at(lengthscale)
        scales = self.space.scales(here)
        search.n_evaluations += 2
        try:
            quick = single.at(lengthscale).evaluate(*scales)
        except NumericalError:
            return False
        return single_error(here.evaluate(*scales), quick, part) <= SINGLE_ERROR

    def _density(self, search: Search, point: FloatArray) -> FloatArray:
        """Log densities (h,) of the held-out rows under the lengthscales of a point (q,).

        They are given at most `GIVEN_ROWS` of the other rows, with the best variances there.
        """
        search.n_evaluations += 1
        given = self.problem.subset(np.sort(self.rest[:GIVEN_ROWS]))
        here = given.at(self.space.lengthscales(point))
        scales = self.space.scales(here)
        return here.log_density(self.problem.subset(self.held_out), *scales)


def single_error(
    exact: EvidenceGradient, single: EvidenceGradient, problem: LadderProblem
) -> float:
    """Largest error per target of an evidence in single precision and of its gradient."""
    both = [
        np.array([found.value, *found.lengthscale, found.outputscale, found.noise])
        for found in (exact, single)
    ]
    error = np.abs(both[1] - both[0]).max() / (problem.n_counted * problem.n_outputs)
    return float(error) if np.isfinite(error) else float("inf")


def _compared(rung: Rung, rises: FloatArray) -> Rung:
    """The rung with the mean of the rises (h,) of the held-out log density, and its error."""
    error = float(rises.std(ddof=1) / np.sqrt(rises.size))
    return replace(rung, rise=float(rises.mean()), error=error)
