"""Greedy maximisation of an objective of sets, with bounds of gains where it is submodular."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coupledgp.inference.placement.objectives import PlacementObjective
from coupledgp.random import FloatArray, IntArray

# Candidates that are evaluated together.
BATCH = 32
# Relative difference below which gains are equal: then the first candidate is taken, whatever the
# order of evaluation rounds.
TIE = 1e-9


class GreedySet(NamedTuple):
    """Candidates that a greedy search chose.

    Attributes
    ----------
    candidates : IntArray (k,)
        Their numbers, in order.
    gains : FloatArray (k,)
        Gain of each given those before it.
    bound : float
        Upper bound of the objective over all sets of k candidates, of monotone submodular
        objectives; infinite for objectives that are not submodular.
    n_evaluations : int
        Number of gains that were evaluated.
    """

    candidates: IntArray
    gains: FloatArray
    bound: float
    n_evaluations: int


def greedy(objective: PlacementObjective, k: int, lazy: bool = True) -> GreedySet:
    """Choose k candidates in turn, each of greatest gain.

    A submodular objective's gains never rise, so that the last known gain of a candidate is an
    upper bound of its present one, and candidates whose bound is below the best present gain are
    not evaluated (Minoux 1978). The choice is that of the plain search, which evaluates all. The
    gains that are left at the end bound the optimum: `F* <= F(A) + sum of the k greatest gains
    left` (Nemhauser, Wolsey and Fisher 1978), and a monotone F has `F(A) >= (1 - 1/e) F*`.

    Parameters
    ----------
    objective
        The objective, with no candidate chosen.
    k
        Number of candidates, at most as many as there are.
    lazy
        Whether bounds are used, where the objective is submodular.
    """
    m, lazy = objective.n_candidates, lazy and objective.is_submodular
    bounds, free = np.full(m, np.inf), np.ones(m, dtype=bool)
    chosen: list[int] = []
    found: list[float] = []
    n_evaluations, first = 0, np.empty(0)
    for _ in range(k):
        fresh = ~free
        bounds[fresh] = -np.inf
        while True:
            best = float(np.max(bounds[fresh], initial=-np.inf))
            floor = best - TIE * abs(best)
            todo = np.flatnonzero(~fresh & ((bounds >= floor) | (not lazy)))
            if not todo.size:
                break
            if lazy and np.isfinite(bounds[todo]).all():
                todo = todo[np.argsort(-bounds[todo], kind="stable")[:BATCH]]
            bounds[todo] = objective.gains(todo)
            fresh[todo] = True
            n_evaluations += todo.size
        first = bounds.copy() if not chosen else first
        pick = int(np.flatnonzero(fresh & (bounds >= floor))[0])
        chosen.append(pick)
        found.append(float(bounds[pick]))
        free[pick] = False
        objective.add(pick)
    bound = np.inf
    if objective.is_submodular:
        left = objective.gains(np.flatnonzero(free))
        bound = min(_sum_of_greatest(first, k), sum(found) + _sum_of_greatest(left, k))
    return GreedySet(np.array(chosen), np.array(found), bound, n_evaluations)


def _sum_of_greatest(values: FloatArray, k: int) -> float:
    """Sum of the k greatest values, those below zero left out."""
    return float(np.maximum(np.sort(values)[::-1][:k], 0.0).sum())
