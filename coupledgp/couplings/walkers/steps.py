"""Joint laws of the moves of walkers that stand together, each alone a plain walker (MATH 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coupledgp.counter import IntArray
from coupledgp.random import FloatArray

INDEPENDENT, REPELLING, SYSTEMATIC = 0, 1, 2


class Steps(ABC):
    """A joint law of where the walkers of one start node that stand on the same node go.

    Each walker alone must move to neighbour j with probability `w_j / sum(w)`: the loads of
    `features.Walks` are those of such walkers. A law of a user's own is a subclass with `choose`
    and nothing else; it runs through the plain engine (`features.walk_reference`), which calls
    `choose` once a step for every node a group stands on: thousands of times slower than the
    laws that are compiled, so for graphs of thousands of nodes. The papers' walkers move
    uniformly over neighbours whatever the weights and carry `deg(c) W~[c, c'] / (1-p)`; on
    unweighted graphs that is the same walk, on weighted ones its loads do not telescope and
    their variance grows with every step, so it is not offered.
    """

    compiled: ClassVar[int | None] = None
    """The branch of the compiled engine that is this law; None runs `choose`."""

    @abstractmethod
    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        """Places in the node's row of neighbours, one for each of the k walkers, shape (k,).

        Parameters
        ----------
        u
            Independent uniforms in (0, 1), shape (2, k), a column for each walker: the first is
            what a plain walker moves by, the second is to spare.
        degree
            Number of neighbours, at least one.
        weights
            Weights of the edges to them, shape (degree,); None on an unweighted graph.
        """


@dataclass(frozen=True)
class IndependentSteps(Steps):
    """Each walker on its own."""

    compiled: ClassVar[int | None] = INDEPENDENT

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        return places(u[0], degree, weights)


@dataclass(frozen=True)
class SystematicSteps(Steps):
    """Walkers spread evenly over the edge weights, from one random offset.

    Not in the papers (MATH 9, "Beyond the papers", 1).
    """

    compiled: ClassVar[int | None] = SYSTEMATIC

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        v = u[0, 0] + np.arange(u.shape[1]) / u.shape[1]
        return places(np.where(v >= 1.0, v - 1.0, v), degree, weights)


@dataclass(frozen=True)
class RepellingSteps(Steps):
    """Walkers take distinct neighbours as far as their own laws allow.

    On an unweighted graph without replacement, in blocks of the node's degree (the papers').

    On a weighted graph k walkers with chances `p_j` send `N_j` of them to neighbour j with
    `E[N_j] = k p_j` and `|N_j - k p_j| < 1`, so at most one where `k p_j <= 1`. The chances are
    laid out on `[0, k)`, one neighbour is drawn from each unit cell, and one that lies across a
    border is drawn in the later cell with the chance that leaves its expectation as it was
    (Deville's systematic sampling, the ordered pivotal method: Chauvet, "On a characterization
    of ordered pivotal sampling", 2012). The k draws are dealt out in random order, so each walker
    alone goes to j with probability `E[N_j] / k = p_j`, exactly.
    """

    compiled: ClassVar[int | None] = REPELLING

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        if weights is None:
            return distinct_places(u[0], degree)
        drawn = one_of_each_cell(u[0], np.cumsum(weights))
        return np.array(drawn)[deal(u[1])]


def places(v: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
    """Neighbours at quantiles v of the edge weights."""
    if weights is None:
        return np.minimum((v * degree).astype(np.int64), degree - 1)
    sums = np.cumsum(weights)
    return np.minimum(np.searchsorted(sums, v * sums[-1], side="right"), degree - 1)


def distinct_places(u: FloatArray, degree: int) -> IntArray:
    """Places without replacement; a new block begins when all are taken."""
    chosen: list[int] = []
    left: list[int] = []
    for v in u.tolist():
        left = left or list(range(degree))
        chosen.append(left.pop(min(int(v * len(left)), len(left) - 1)))
    return np.array(chosen, dtype=np.int64)


def one_of_each_cell(u: FloatArray, sums: FloatArray) -> list[int]:
    """One neighbour from each of k equal cells of the running sums of weights, see above."""
    k, top = u.size, sums.size - 1
    width = sums[-1] / k
    drawn: list[int] = []
    across, share, taken = -1, 0.0, False
    for cell in range(k):
        low = cell * width
        high = low + width
        rest = max(min((sums[across] - low) / width, 1.0), 0.0) if across >= 0 else 0.0
        chance = again(share, rest, taken) if rest > 0 else 0.0
        if u[cell] < chance:
            drawn.append(across)
        else:
            v = (u[cell] - chance) / (1.0 - chance)
            goal = low + width * (rest + v * (1.0 - rest))
            drawn.append(min(max(int(np.searchsorted(sums, goal, side="right")), across), top))
        following = min(max(int(np.searchsorted(sums, high, side="right")), across), top)
        # A neighbour that covers the whole cell keeps what it had in the first of its cells.
        if following != across:
            before = sums[following - 1] if following > 0 else 0.0
            share = max(min((high - before) / width, 1.0), 0.0)
            across, taken = following, drawn[-1] == following
    return drawn


def again(share: float, rest: float, taken: bool) -> float:
    """Chance to draw a neighbour from its last cell, which holds `rest` of it.

    `share` is what its first cell held, `taken` whether it was drawn there. The chance is `rest`
    on average over `taken`, and both or neither are drawn as rarely as that allows.
    """
    if taken and share > 0.0:
        return max(share + rest - 1.0, 0.0) / share
    return rest / (1.0 - share) if rest < 1.0 - share else 1.0


def deal(u: FloatArray) -> IntArray:
    """A random permutation (Fisher and Yates) of 0..k-1."""
    order = np.arange(u.size)
    for last in range(u.size - 1, 0, -1):
        other = min(int(u[last] * (last + 1)), last)
        order[last], order[other] = order[other], order[last]
    return order
