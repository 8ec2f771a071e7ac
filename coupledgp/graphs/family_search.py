"""Maximum evidence of an exact graph kernel: parameters and noise ratio at once.

The output scale is profiled out. The noise is searched as a multiple of the kernel's mean diagonal,
`r = e^u tr K / N` for N nodes, so that one range of u serves every diffusion time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coupledgp.core.minimise import Minimiser, Stopping, lbfgs
from coupledgp.core.search import Search
from coupledgp.graphs.exact_evidence import ExactKernelEvidence
from coupledgp.graphs.objectives import (
    EvaluatedKernel,
    ExactKernelObjective,
    FixedHyperparameters,
)
from coupledgp.graphs.walk_rounds import FitState
from coupledgp.kernels import GraphKernel

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


def fit_families(
    evidence: ExactKernelEvidence | Sequence[ExactKernelEvidence],
    starts: list[GraphKernel],
    kept: FixedHyperparameters,
    minimise: Minimiser = lbfgs,
    ratios: Sequence[float] | None = None,
    n_starts: int = N_STARTS,
) -> tuple[EvaluatedKernel, FitState]:
    """Maximise the evidence of exact kernels, and take the best of several families.

    For each family, the first round compares starting points; each of the best ones is then
    improved in rounds of its own.

    Parameters
    ----------
    evidence
        Terms of the evidence, for all families or for each.
    starts
        A kernel of each family; the first round tries it and the family's own starting points.
    kept
        Hyperparameters that are not searched for.
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
    each = evidence if isinstance(evidence, Sequence) else [evidence] * len(starts)
    search, stopping = Search(minimise), STOPPING if ratios is None else FINISHING
    objectives = [
        ExactKernelObjective(own, start, kept, ratios is not None)
        for own, start in zip(each, starts, strict=True)
    ]
    states: list[FitState] = []
    for family, (objective, start) in enumerate(zip(objectives, starts, strict=True)):
        if ratios is None:
            state = _compare(search, objective, start, n_starts)
        else:
            state = _begin_at(search, objective, start, ratios[family])
        while not state.settled:
            state = _improve(search, objective, state, stopping)
        states.append(state)
    best = max(range(len(states)), key=lambda k: states[k].objective)
    whole = replace(
        states[best], family=best, n_rounds=sum(state.n_rounds for state in states),
        n_evaluations=sum(state.n_evaluations for state in states),
    )  # fmt: skip
    return objectives[best].at(np.array(states[best].theta)), whole


def _compare(
    search: Search, objective: ExactKernelObjective, start: GraphKernel, n_starts: int
) -> FitState:
    """Round one: the state of the best starting point, the best ones of all kernels pending."""
    kernels = (
        [start, *start.scan_on(objective.evidence.graph)] if objective.n_parameters else [start]
    )
    ratios = START_RATIOS if objective.ratio is None else START_RATIOS[:1]
    best = [
        search.ranked(lambda _: objective, [objective.near(kernel, ratio) for ratio in ratios])[0]
        for kernel in dict.fromkeys(kernels)
    ]
    best.sort(key=lambda each: each.value)
    chosen = best[0].point.tolist()
    pending = [each.point.tolist() for each in best[:n_starts]] if chosen else []
    value = -best[0].value * objective.size
    return FitState(chosen, value, 1, objective.n_evaluations, not pending, pending)


def _begin_at(
    search: Search, objective: ExactKernelObjective, start: GraphKernel, ratio: float
) -> FitState:
    """The state of one starting point, with its noise ratio or, where that is tiny, a better one.

    A part of the observations hardly tells a small noise from none, and there the evidence is flat.
    """
    chosen = objective.at_ratio(start, ratio)
    if not chosen.size:
        return FitState([], 0.0, 1, 0, True)
    candidates = [chosen]
    if objective.ratio is None and chosen[-1] < np.log(START_RATIOS[1]):
        candidates += [np.append(chosen[:-1], np.log(other)) for other in START_RATIOS[1:]]
    best = search.ranked(lambda _: objective, candidates)[0]
    point, value = best.point.tolist(), -best.value * objective.size
    return FitState(point, value, 1, objective.n_evaluations, False, [point])


def _improve(
    search: Search, objective: ExactKernelObjective, state: FitState, stopping: Stopping
) -> FitState:
    """Search from the first pending start; an end at the edge of its box is pending again."""
    origin, *pending = state.pending
    before = objective.n_evaluations
    stopping = replace(
        stopping,
        value_tolerance=stopping.value_tolerance / objective.size,
        gradient_tolerance=stopping.gradient_tolerance / objective.size,
    )
    found = search.improved(objective, np.array(origin), stopping)
    point, value = found.point.tolist(), -found.value * objective.size
    if any(
        x in ends and x not in bounds
        for x, ends, bounds in zip(
            point, objective.box(np.array(origin)), objective.bounds, strict=True
        )
    ):
        pending = [point, *pending]
    return replace(
        state,
        theta=point if value > state.objective else state.theta,
        objective=max(value, state.objective),
        n_rounds=state.n_rounds + 1,
        n_evaluations=state.n_evaluations + objective.n_evaluations - before,
        settled=not pending,
        pending=pending,
    )
