"""Joint laws of the moves of walkers on one node; each walker alone is a plain one (MATH 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coupledgp.random import FloatArray, IntArray

INDEPENDENT, REPELLING, SYSTEMATIC = 0, 1, 2  # branches of the compiled engine


class Steps(ABC):
    """A joint law of the next moves of walkers that share their start node and their position.

    Each walker alone must move to neighbour j with probability `w_j / sum(w)`, because the loads
    of `features.Walks` are those of such walkers. A user's own law is a subclass that has `choose`
    and nothing else. It runs through the plain engine (`graphs.walk_visits`), which calls
    `choose` at each step for every node where a group stands. That is thousands of times slower
    than the compiled laws, and feasible for graphs of some thousand nodes.

    The papers' walkers move uniformly over the neighbours whatever the weights, and carry the load
    `deg(c) W~[c, c'] / (1-p)`. On unweighted graphs that is the same walk. On weighted graphs its
    loads do not telescope and their variance grows with every step, so that it is not offered.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import Steps
    >>> class Together(Steps):  # walkers that meet stay together
    ...     def choose(self, u, degree, weights):
    ...         shares = np.ones(degree) if weights is None else weights
    ...         sums = np.cumsum(shares) / shares.sum()
    ...         return np.full(u.shape[1], np.searchsorted(sums, u[0, 0], side="right"))
    >>> u = np.array([[0.7, 0.1, 0.4], [0.5, 0.5, 0.5]])
    >>> Together().choose(u, degree=4, weights=None).tolist()
    [2, 2, 2]
    """

    compiled: ClassVar[int | None] = None
    """Branch of the compiled engine with this law; None for a law that runs `choose`."""

    @abstractmethod
    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        """Choose a neighbour for each of the k walkers on a node.

        Parameters
        ----------
        u
            Independent uniforms in (0, 1), shape (2, k), with a column for each walker. A plain
            walker moves by the first uniform; the second is free for couplings.
        degree
            Number of neighbours, at least one.
        weights
            Weights of the edges to the neighbours, shape (degree,); None on an unweighted graph.

        Returns
        -------
        IntArray
            Places of the neighbours in the node's row, numbers below `degree`, shape (k,).
        """


@dataclass(frozen=True)
class IndependentSteps(Steps):
    """Independent moves.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import IndependentSteps
    >>> u = np.array([[0.1, 0.2, 0.6, 0.9], [0.5, 0.5, 0.5, 0.5]])  # four walkers
    >>> IndependentSteps().choose(u, degree=3, weights=None).tolist()
    [0, 0, 1, 2]
    >>> IndependentSteps().choose(u, degree=3, weights=np.array([8.0, 1.0, 1.0])).tolist()
    [0, 0, 0, 2]
    """

    compiled: ClassVar[int | None] = INDEPENDENT

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        return places(u[0], degree, weights)


@dataclass(frozen=True)
class SystematicSteps(Steps):
    """Walkers spread evenly over the edge weights, from one random offset.

    Not in the papers (MATH 9, "Beyond the papers", 1).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import SystematicSteps
    >>> u = np.random.default_rng(0).random((2, 4))  # four walkers on a node with two neighbours
    >>> np.bincount(SystematicSteps().choose(u, degree=2, weights=None)).tolist()
    [2, 2]
    """

    compiled: ClassVar[int | None] = SYSTEMATIC

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        v = u[0, 0] + np.arange(u.shape[1]) / u.shape[1]
        return places(np.where(v >= 1.0, v - 1.0, v), degree, weights)


@dataclass(frozen=True)
class RepellingSteps(Steps):
    """Walkers take distinct neighbours as far as the law of each walker allows.

    On an unweighted graph they choose without replacement, in blocks of the node's degree, as in
    the papers.

    On a weighted graph, of k walkers with chances `p_j` a number `N_j` goes to neighbour j such
    that `E[N_j] = k p_j` and `|N_j - k p_j| < 1`, so that at most one goes there if `k p_j <= 1`.
    The chances are laid out on `[0, k)`, and one neighbour is drawn from each unit cell. A
    neighbour that lies across a border is drawn in the later cell with the chance that keeps its
    expectation (Deville's systematic sampling, the ordered pivotal method: Chauvet, "On a
    characterization of ordered pivotal sampling", 2012). The k draws are dealt out in random
    order, so that each walker alone goes to j with probability `E[N_j] / k = p_j` exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import RepellingSteps
    >>> u = np.random.default_rng(0).random((2, 3))  # three walkers on a node with four neighbours
    >>> len(set(RepellingSteps().choose(u, degree=4, weights=None).tolist()))
    3
    >>> heavy = RepellingSteps().choose(u, degree=4, weights=np.array([6.0, 1.0, 1.0, 1.0]))
    >>> int((heavy == 0).sum())  # of three walkers two go where two thirds of the weight are
    2
    """

    compiled: ClassVar[int | None] = REPELLING

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        if weights is None:
            return distinct_places(u[0], degree)
        drawn = one_of_each_cell(u[0], np.cumsum(weights))
        return np.array(drawn)[deal(u[1])]


def places(v: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
    """Neighbours (k,) at quantiles v (k,) of the edge weights (degree,), None if they are equal."""
    if weights is None:
        return np.minimum((v * degree).astype(np.int64), degree - 1)
    sums = np.cumsum(weights)
    return np.minimum(np.searchsorted(sums, v * sums[-1], side="right"), degree - 1)


def distinct_places(u: FloatArray, degree: int) -> IntArray:
    """Choose places (k,) by uniforms u (k,) without replacement, in blocks of `degree` walkers."""
    chosen: list[int] = []
    left: list[int] = []
    for v in u.tolist():
        left = left or list(range(degree))
        chosen.append(left.pop(min(int(v * len(left)), len(left) - 1)))
    return np.array(chosen, dtype=np.int64)


def one_of_each_cell(u: FloatArray, sums: FloatArray) -> list[int]:
    """Draw one neighbour from each of k equal cells of the running sums of the weights.

    Parameters
    ----------
    u
        Uniforms (k,), one for each cell.
    sums
        Running sums of the edge weights, shape (degree,).

    Returns
    -------
    list of int
        Places of the k neighbours, in the order of the cells; see `RepellingSteps`.
    """
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
        # A neighbour that covers the whole cell keeps its share and draw of its first cell.
        if following != across:
            before = sums[following - 1] if following > 0 else 0.0
            share = max(min((high - before) / width, 1.0), 0.0)
            across, taken = following, drawn[-1] == following
    return drawn


def again(share: float, rest: float, taken: bool) -> float:
    """Chance to draw a neighbour from its last cell, given the draw in its first cell.

    The chance is `rest` on average over `taken`; given that, it makes it as unlikely as possible
    that both cells draw the neighbour, or that neither does.

    Parameters
    ----------
    share, rest
        Shares of the first and of the last cell that the neighbour covers.
    taken
        Whether the first cell drew the neighbour.
    """
    if taken and share > 0.0:
        return max(share + rest - 1.0, 0.0) / share
    return rest / (1.0 - share) if rest < 1.0 - share else 1.0


def deal(u: FloatArray) -> IntArray:
    """Permute 0..k-1 at random by uniforms u (k,), after Fisher and Yates; shape (k,)."""
    order = np.arange(u.size)
    for last in range(u.size - 1, 0, -1):
        other = min(int(u[last] * (last + 1)), last)
        order[last], order[other] = order[other], order[last]
    return order
