"""Maximum evidence of an exact graph kernel: parameters and noise ratio at once.

The output scale is profiled out. The noise is searched as a multiple of the kernel's mean diagonal,
`r = e^u tr K / N` for N nodes, so that one range of u serves every diffusion time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from coupledgp.inference.nodes.exact_evidence import ExactKernelEvidence
from coupledgp.inference.nodes.objectives import (
    EvaluatedKernel,
    ExactKernelObjective,
    FixedHyperparameters,
)
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Minimiser, Stopping, lbfgs
from coupledgp.search.nodes.walk_rounds import Checkpoint, FitState

# Multiples of the mean diagonal from which the noise starts: next to none, little, much.
START_RATIOS = (1e-5, 1e-3, 1e-1)
# Number of starting points that are improved: the evidence has more than one maximum.
N_STARTS = 2
# The search ends when a step gains less than this part of the evidence, or the slope, in nats a
# log unit, is flat.
STOPPING = Stopping(max_iterations=60, value_tolerance=1e-8, gradient_tolerance=1e-3)
# A search that goes on from the maximum of a part of the graph, in nats: a hundredth of one is far
# below what would be seen in any prediction.
FINISHING = Stopping(max_iterations=12, value_tolerance=1e-3, gradient_tolerance=1e-1)
# Name of this search in a checkpoint.
STAGE = "exact"


def fit_families(
    evidence: ExactKernelEvidence | Sequence[ExactKernelEvidence],
    starts: list[GraphKernel],
    kept: FixedHyperparameters,
    checkpoint: Checkpoint,
    report: Callable[[str], None] = lambda message: None,
    minimise: Minimiser = lbfgs,
    ratios: Sequence[float] | None = None,
    n_starts: int = N_STARTS,
) -> tuple[EvaluatedKernel, FitState]:
    """Maximise the evidence of exact kernels, and take the best of several families.

    For each family, the first round compares starting points; each of the best ones is then
    improved in rounds of its own. Finished rounds are kept in the checkpoint.

    Parameters
    ----------
    evidence
        Terms of the evidence, for all families or for each.
    starts
        A kernel of each family; the first round tries it and the family's own starting points.
    kept
        Hyperparameters that are not searched for.
    checkpoint
        File of finished rounds.
    report
        Called with a line of progress after each evaluation.
    minimise
        The optimiser.
    ratios
        Noise ratio of each family at which the search goes on from its start, which is then the
        only one: where both come from a search on a part of the graph. None: the search is whole.
    n_starts
        Number of starting points of each family that are improved.

    Returns
    -------
    (EvaluatedKernel, FitState)
        The best kernel, and the state of the search; its `family` is that of the kernel.
    """
    state = checkpoint.load()
    each = evidence if isinstance(evidence, Sequence) else [evidence] * len(starts)
    objectives = [
        ExactKernelObjective(own, start, kept, report)
        for own, start in zip(each, starts, strict=True)
    ]

    def begin(family: int) -> FitState:
        if ratios is None:
            return _compare(objectives[family], starts[family], n_starts)
        return _begin_at(objectives[family], starts[family], ratios[family])

    stopping = STOPPING if ratios is None else FINISHING
    family = 0 if state is None else state.family
    while True:
        if state is None:
            state = begin(family)
            checkpoint.save(state)
        while not state.settled:
            state = _improve(objectives[family], state, minimise, stopping)
            checkpoint.save(state)
        results = [*state.finished, (state.theta, state.objective)]
        if len(results) == len(starts):
            break
        family = len(results)
        following = begin(family)
        state = replace(
            following,
            n_rounds=state.n_rounds + 1,
            n_evaluations=state.n_evaluations + following.n_evaluations,
            family=family,
            finished=results,
        )
        checkpoint.save(state)
    best = max(range(len(results)), key=lambda k: results[k][1])
    point = objectives[best].at(np.array(results[best][0]))
    return point, replace(state, family=best)


def _compare(objective: ExactKernelObjective, start: GraphKernel, n_starts: int) -> FitState:
    """Round one: the state of the best starting point, the best ones of all kernels pending."""
    graph = objective.evidence.graph
    kernels = [start, *start.scan_on(graph)] if objective.n_parameters else [start]
    ratios = START_RATIOS if objective.ratio is None else START_RATIOS[:1]
    best: list[tuple[float, list[float]]] = []
    for kernel in dict.fromkeys(kernels):
        found = []
        for ratio in ratios:
            variables = objective.variables(kernel, ratio)
            found.append((objective.value_and_gradient(variables)[0], variables.tolist()))
        best.append(min(found))
    best.sort()
    value, chosen = best[0]
    pending = [start for _, start in best[:n_starts]] if chosen else []
    return FitState(chosen, -value, 1, objective.n_evaluations, not pending, pending, STAGE)


def _begin_at(objective: ExactKernelObjective, start: GraphKernel, ratio: float) -> FitState:
    """The state of one starting point, with its noise ratio or, where that is tiny, a better one.

    A part of the observations hardly tells a small noise from none, and there the evidence is flat.
    """
    chosen = objective.at_ratio(start, ratio)
    if not chosen.size:
        return FitState([], 0.0, 1, 0, True, [], STAGE)
    candidates = [chosen]
    if objective.ratio is None and chosen[-1] < np.log(START_RATIOS[1]):
        candidates += [np.append(chosen[:-1], np.log(other)) for other in START_RATIOS[1:]]
    values = [objective.value_and_gradient(variables)[0] for variables in candidates]
    best = int(np.argmin(values))
    point = candidates[best].tolist()
    return FitState(point, -values[best], 1, objective.n_evaluations, False, [point], STAGE)


def _improve(
    objective: ExactKernelObjective, state: FitState, minimise: Minimiser, stopping: Stopping
) -> FitState:
    """Search from the first pending start."""
    origin, *pending = state.pending
    before = objective.n_evaluations
    box = [
        (max(low, t - step), min(high, t + step))
        for t, step, (low, high) in zip(origin, objective.steps, objective.bounds, strict=True)
    ]
    # A search that goes on takes steps in proportion to the slope of the mean over observations.
    unit = 1.0
    if stopping is FINISHING:
        unit = float(objective.evidence.n_targets * objective.evidence.n_outputs)
        stopping = replace(
            stopping,
            value_tolerance=stopping.value_tolerance / unit,
            gradient_tolerance=stopping.gradient_tolerance / unit,
        )

    def function(variables: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective.value_and_gradient(variables)
        return value / unit, gradient / unit

    found = minimise(function, np.array(origin), box, stopping)
    found = replace(found, value=found.value * unit)
    better = -found.value > state.objective
    if any(
        x in ends and x not in bounds
        for x, ends, bounds in zip(found.point.tolist(), box, objective.bounds, strict=True)
    ):
        pending = [found.point.tolist(), *pending]
    return replace(
        state,
        theta=found.point.tolist() if better else state.theta,
        objective=max(-found.value, state.objective),
        n_rounds=state.n_rounds + 1,
        n_evaluations=state.n_evaluations + objective.n_evaluations - before,
        settled=not pending,
        pending=pending,
    )
