"""Maximum evidence over a graph kernel's parameters, in rounds of redrawn walks.

A length law, a number of hops and so a draw of walks are made for one place in parameter space.
So the fit alternates (MATH 9): make the prior for the best parameters so far, move at most
a factor of `REACH` with its draw kept, and start again, until it stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.ground.output import write_text
from coupledgp.inference.nodes.objectives import EvidenceFactory, RoundObjective
from coupledgp.inference.nodes.priors import GraphPrior
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Minimiser, Stopping, lbfgs

# Factor by which one round moves a parameter at most: as far as a matched length law is made for,
# see `REDRAWN_FACTORS` of `gp.node_priors`.
REACH = 2.0
# Change of every parameter, in log units, below which a round has stayed where it began.
SETTLED = 0.15
# Largest number of rounds: together they move a parameter by a factor of 256 at most.
MAX_ROUNDS = 8
# Tolerance of the kernel's parameters, in log units: redrawn walks move the maximum by more.
THETA_TOLERANCE = 1e-3
STOPPING = Stopping(max_iterations=60, gradient_tolerance=THETA_TOLERANCE)

PriorFactory = Callable[[GraphKernel], GraphPrior]


@dataclass
class FitState:
    """State of a fit after a round, from which it can go on.

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
    stage : str
        `"exact"` for that search, `"rounds"` for rounds of redrawn walks.
    family : int
        Number of the kernel family among several.
    finished : list of (list of float, float)
        Best parameters and objective of each family before.
    """

    theta: list[float]
    objective: float
    n_rounds: int = 1
    n_evaluations: int = 0
    settled: bool = False
    pending: list[list[float]] = field(default_factory=list)
    stage: str = "rounds"
    family: int = 0
    finished: list[tuple[list[float], float]] = field(default_factory=list)


@dataclass
class Checkpoint:
    """A JSON file that a fit writes after each round and goes on from.

    Parameters
    ----------
    path
        The file; None for no file.
    problem
        Data and settings that identify the fit. A file of another problem is refused.
    family
        Number of the kernel family whose rounds are saved from now on.
    finished
        Best parameters and objective of each family before.
    """

    path: Path | None
    problem: dict[str, Any] = field(default_factory=dict)
    family: int = 0
    finished: list[tuple[list[float], float]] = field(default_factory=list)

    def load(self) -> FitState | None:
        """Return the state of an interrupted fit of the same problem, or None without one.

        Raises
        ------
        InvalidInputError
            The file cannot be read, or belongs to another fit.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            stored = json.loads(self.path.read_text())
            state, problem = FitState(**stored["state"]), stored["problem"]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"checkpoint: cannot read {self.path}: {error}") from None
        if problem != self.problem:
            raise InvalidInputError(
                f"checkpoint: {self.path} is of another fit (other data or settings); "
                "remove it or give another path"
            )
        return state

    def save(self, state: FitState) -> None:
        """Write the state to the file, whole or not at all."""
        if self.path is None:
            return
        write_text(self.path, json.dumps({"problem": self.problem, "state": vars(state)}))


def fit_kernel(
    start: GraphKernel,
    make_prior: PriorFactory,
    make_evidence: EvidenceFactory,
    outputscale: float | None = None,
    noise: float | None = None,
    checkpoint: Checkpoint | None = None,
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
    checkpoint
        File of finished rounds; None for no file.
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
    record = checkpoint or Checkpoint(None)
    state = record.load()
    if state is None or state.stage != "rounds" or state.family != record.family:
        starts = start.scan() if graph is None else start.scan_on(graph)
        try:
            first = [start, *starts] if scan_starts else [start]
            state = scan(first, make_prior, make_evidence, outputscale, noise)
        except NumericalError:
            if scan_starts:
                raise
            state = scan(starts, make_prior, make_evidence, outputscale, noise)
        state = replace(state, family=record.family, finished=record.finished)
        record.save(state)
    while not state.settled and state.n_rounds <= max_rounds and start.theta.size:
        kernel = start.with_theta(np.array(state.theta))
        objective = RoundObjective(make_prior(kernel), make_evidence, outputscale, noise)
        theta = improve(objective, kernel, minimise)
        moved = float(np.abs(theta - kernel.theta).max())
        state = FitState(
            theta.tolist(),
            -objective.best[0],
            state.n_rounds + 1,
            state.n_evaluations + objective.n_evaluations,
            moved < SETTLED,
            family=record.family,
            finished=record.finished,
        )
        record.save(state)
    return start.with_theta(np.array(state.theta)), state


def scan(
    kernels: list[GraphKernel],
    make_prior: PriorFactory,
    make_evidence: EvidenceFactory,
    outputscale: float | None,
    noise: float | None,
) -> FitState:
    """Round zero: the state of the best starting point, each one tried with walks made for it.

    Raises
    ------
    NumericalError
        None of them has a finite evidence.
    """
    results = []
    for kernel in dict.fromkeys(kernels):
        try:
            prior = make_prior(kernel)
        except NumericalError:  # walks are of no use to a kernel as wide as this
            results.append((np.inf, kernel))
            continue
        objective = RoundObjective(prior, make_evidence, outputscale, noise)
        objective.value(kernel.theta)
        results.append((objective.best[0], kernel))
    value, best = min(results, key=lambda result: result[0])
    if not np.isfinite(value):
        raise NumericalError(
            f"evidence: expected a finite value at one of {len(results)} starting points, got none "
            f"(the first is {kernels[0]!r}); use length_law='matched'"
        )
    return FitState(best.theta.tolist(), -value, 1, len(results), best.theta.size == 0)


def improve(objective: RoundObjective, kernel: GraphKernel, minimise: Minimiser) -> FloatArray:
    """One round: the best parameters (n_parameters,) within a factor `REACH` of the kernel's."""
    theta = kernel.theta
    reach = np.log(REACH)
    box = [
        (max(low, float(t) - reach), min(high, float(t) + reach))
        for t, (low, high) in zip(theta, kernel.bounds_on(objective.prior.graph), strict=True)
    ]
    if theta.size == 1:
        minimize_scalar(
            lambda t: objective.value(np.array([t])),
            bounds=box[0],
            method="bounded",
            options={"xatol": 10 * THETA_TOLERANCE},
        )
    else:
        minimise(objective.value_and_gradient, theta, box, STOPPING)
    return objective.best[1]
