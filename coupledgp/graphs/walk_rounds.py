"""Maximum evidence over a graph kernel's parameters, in rounds of redrawn walks.

A length law, a number of hops and so a draw of walks are made for one place in parameter space.
So the fit alternates (MATH 9): make the prior for the best parameters so far, move at most
a factor with its draw kept, and start again, until it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from coupledgp.core.minimise import Minimiser, Stopping, lbfgs
from coupledgp.core.search import Rounds, Search, SearchResult
from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.objectives import (
    REFUSED,
    THETA_TOLERANCE,
    EvidenceFactory,
    RoundObjective,
)
from coupledgp.graphs.priors import GraphPrior
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray

# Change of every parameter, in log units, below which a round has stayed where it began.
SETTLED = 0.15
# Largest number of rounds: together they move a parameter by a factor of 256 at most.
MAX_ROUNDS = 8
STOPPING = Stopping(max_iterations=60, gradient_tolerance=THETA_TOLERANCE)

PriorFactory = Callable[[GraphKernel], GraphPrior]


@dataclass
class FitState:
    """State of a fit after a round.

    Attributes
    ----------
    theta : list of float
        Best kernel parameters so far.
    objective : float
        Log evidence minus the kernel's penalty there, in nats.
    n_rounds : int
        Number of finished rounds; round zero is the scan of starting points.
    n_evaluations : int
        Number of evaluations of the evidence so far.
    settled : bool
        Whether the last round stayed where it began.
    pending : list of list of float
        Starting points still to be improved, in a search of the exact kernel.
    family : int
        Number of the kernel family among several.
    """

    theta: list[float]
    objective: float
    n_rounds: int = 1
    n_evaluations: int = 0
    settled: bool = False
    pending: list[list[float]] = field(default_factory=list)
    family: int = 0


def fit_kernel(
    start: GraphKernel,
    make_prior: PriorFactory,
    make_evidence: EvidenceFactory,
    outputscale: float | None = None,
    noise: float | None = None,
    max_rounds: int = MAX_ROUNDS,
    scan_starts: bool = True,
    minimise: Minimiser = lbfgs,
    graph: Graph | None = None,
) -> tuple[GraphKernel, FitState]:
    """Maximise the evidence over the kernel's parameters, output scale and noise.

    Parameters
    ----------
    start
        A kernel of the family; the scan tries it and the family's own starting points.
    make_prior
        Makes the prior for a place in parameter space (plans hops, draws walks).
    make_evidence
        Makes the evidence of a prior.
    outputscale, noise
        Values to keep; None to fit.
    max_rounds
        Largest number of rounds, the scan not counted.
    scan_starts
        Whether the family's own starting points are tried too.
    minimise
        The optimiser, for kernels of several parameters.
    graph
        The graph, whose unit of time starting points are multiples of; None for one step.

    Returns
    -------
    (GraphKernel, FitState)
        The kernel at the best parameters, and the state of the fit.
    """
    rounds = WalkRounds(start, make_prior, make_evidence, (outputscale, noise), max_rounds)
    search = Search(minimise)
    starts = start.scan() if graph is None else start.scan_on(graph)
    try:
        found = rounds.scan(search, [start, *starts] if scan_starts else [start])
    except NumericalError:
        if scan_starts:
            raise
        found = rounds.scan(search, starts)
    found = search.in_rounds(rounds, found)
    state = FitState(
        found.point.tolist(), -found.value, found.n_rounds, found.n_evaluations, found.settled
    )
    return start.with_theta(found.point), state


@dataclass
class WalkRounds(Rounds[FloatArray]):
    """Rounds, each with walks drawn for the best parameters so far.

    Attributes
    ----------
    start : GraphKernel
        A kernel of the family.
    make_prior, make_evidence
        Make the prior of a kernel, and the evidence of a prior.
    kept : (float or None, float or None)
        Output scale and noise to keep; None to fit.
    max_rounds : int
        Largest number of rounds, the scan not counted.
    """

    start: GraphKernel
    make_prior: PriorFactory
    make_evidence: EvidenceFactory
    kept: tuple[float | None, float | None]
    max_rounds: int = MAX_ROUNDS

    @property
    def most(self) -> int:
        """Largest number of rounds, the scan counted."""
        return self.max_rounds + 1

    def objective(self, theta: FloatArray) -> RoundObjective:
        """The objective near parameters (n_parameters,), with walks drawn for these parameters."""
        prior = self.make_prior(self.start.with_theta(theta))
        return RoundObjective(prior, self.make_evidence, *self.kept)

    def scan(self, search: Search, kernels: Sequence[GraphKernel]) -> SearchResult[FloatArray]:
        """Round zero: the best starting point, each one tried with its own walks.

        Raises
        ------
        NumericalError
            No starting point has a finite evidence.
        """
        starts = list(dict.fromkeys(kernels))
        value = np.inf
        with suppress(NumericalError):  # walks are of no use to kernels that are too wide
            best = search.ranked(self.objective, [kernel.theta for kernel in starts])[0]
            value = best.value
        if not value < REFUSED:
            raise NumericalError(
                f"evidence: expected a finite value at one of {len(starts)} starting points, got "
                f"none (the first is {kernels[0]!r}); use length_law='matched'"
            )
        search.n_evaluations = len(starts)
        return replace(best, n_evaluations=len(starts), n_rounds=1, settled=not best.point.size)

    def improved(
        self, search: Search, before: SearchResult[FloatArray]
    ) -> SearchResult[FloatArray]:
        """Go on for one round; it has settled where no parameter has moved much."""
        objective = self.objective(before.point)
        search.improved(objective, before.point, STOPPING)
        value, theta = objective.best
        settled = float(np.abs(theta - before.point).max()) < SETTLED
        return SearchResult(
            theta, value, converged=settled, n_evaluations=search.n_evaluations,
            n_rounds=before.n_rounds + 1, settled=settled,
        )  # fmt: skip
