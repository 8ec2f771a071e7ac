"""The least error that any coupling of walk lengths can reach, in closed form.

A walker of node i at `X_t` after t steps has the load `sqrt(D_i / D_(X_t)) / S_t` if its walk is so
long, which happens with chance `S_t` whatever its directions. Averaged over all lengths, the
features of m walkers given their directions are

    E[Phi_i | X] = 1/m sum_w sum_t f_t sqrt(D_i / D_(X_wt)) e_(X_wt) ,

those of walkers that never halt. Lengths that are drawn apart from the directions only add
variance, however they are coupled (Rao and Blackwell). So the mean squared error of the kernel
between different nodes has a floor for every coupling of lengths, for the given walks:

    E K^_ij^2 = tr(A_i A_j) ,   A_i = E Phi_i Phi_i' = B_i / m + (1 - 1/m) F_i F_i' ,

    B_i = sum_s f_s / S_s (diag(u_s) G_s + G_s diag(u_s) - f_s diag(u_s)) ,
    u_s(a) = W~^s(i, a) sqrt(D_i / D_a) ,   G_s = sum_k f_(s+k) W~^k ,

with the law's own S for independent lengths, and with S = 1 for the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.couplings.walkers.registry import LengthLawLike, parse_length_law
from coupledgp.errors import InvalidInputError
from coupledgp.features.walks.modulation import ModulationLike, check_modulation, coefficients
from coupledgp.features.walks.sample import root_degrees
from coupledgp.features.walks.settings import check_max_length, walked_coefficients
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, Seed, as_rng

# Nodes of which the sum of `tr B_i^2` is a mean.
N_SAMPLED = 64


@dataclass(frozen=True)
class WalkLengthFloor:
    """Errors of the kernel between different nodes, relative to the norm of the kernel.

    Each is the root of `sum_(i != j) E (K^_ij - K_ij)^2` over the Frobenius norm of K, where steps
    are independent. Standard errors are zero where all nodes were gone through.

    Attributes
    ----------
    floor, floor_error : float
        Of walkers that never halt, and its standard error: no coupling of lengths is below it.
    independent, independent_error : float
        Of independent lengths, and its standard error.
    ratio, ratio_error : float
        The floor over the error of independent lengths, and its standard error: the most that any
        coupling of lengths gains.
    n_walks : int
        Number of walkers of each node.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.theory import walk_length_floor
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> few, many = (walk_length_floor(ring, [1.0, 0.5, 0.25], m) for m in (8, 800))
    >>> round(few.floor / many.floor, 1)  # the root of the ratio of their walkers
    10.0
    >>> few.floor < few.independent, few.floor_error  # all nodes were gone through
    (True, 0.0)
    """

    floor: float
    floor_error: float
    independent: float
    independent_error: float
    ratio: float
    ratio_error: float
    n_walks: int


def walk_length_floor(
    graph: Graph,
    modulation: ModulationLike,
    n_walks: int,
    *,
    length_law: LengthLawLike = "geometric",
    p_halt: float = 0.1,
    max_length: int | None = None,
    n_sampled: int = N_SAMPLED,
    random_state: Seed = 0,
) -> WalkLengthFloor:
    """Least error of the kernel that couplings of walk lengths can reach, beside independent ones.

    O(T N^3) for N nodes and walks of at most T steps, with 2 T N^2 numbers in memory.

    Parameters
    ----------
    graph
        The graph.
    modulation
        Coefficients `f_0, f_1, ...` (n_terms,), or a graph kernel.
    n_walks
        Number of walkers m of each node; the floor is of walkers with independent steps, whose
        lengths are drawn apart from their directions.
    length_law, p_halt, max_length
        Law of the lengths, as in `features.sample_walks`.
    n_sampled
        Nodes by which `sum_i tr B_i^2` is estimated; all of a graph that has no more.
    random_state
        Seed of their choice.

    Raises
    ------
    InvalidInputError
        A value is out of range, or the law never makes steps that the series needs.
    MemoryLimitError
        The powers of the adjacency do not fit into memory.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.theory import walk_length_floor
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> found = walk_length_floor(ring, [1.0, 0.5, 0.25], n_walks=8)
    >>> round(found.ratio, 2)  # couplings of lengths leave at least so much of the error
    0.88
    """
    check_graph(graph)
    m, series = check_positive_int(n_walks, "n_walks"), check_modulation(modulation)
    size = min(check_positive_int(n_sampled, "n_sampled", minimum=2), graph.n_nodes)
    law = parse_length_law(length_law, p_halt, lambda: walked_coefficients(series))
    longest = check_max_length(max_length, law, series)
    f, survival = coefficients(series, longest + 1), law.survival(longest)
    missed = np.flatnonzero((survival <= 0) & (f != 0))
    if missed.size:
        raise InvalidInputError(
            "length_law: expected walks as long as the series, got a law that never makes "
            f"{missed[0]} steps"
        )
    n = graph.n_nodes
    check_memory(16.0 * (longest + 6) * n**2, f"graph: powers for {n} nodes", "take a subgraph")
    moments = _Moments(graph, f)
    nodes = np.sort(as_rng(random_state).choice(n, size, replace=False))
    spread = n * np.sqrt((1 - size / n) / size)
    K = moments.rests[0] @ moments.rests[0]
    exact = float(np.square(K).sum() - np.square(np.diagonal(K)).sum())
    inverse = np.divide(f, survival, out=np.zeros(f.size), where=f != 0)
    squares, shares = np.empty(2), np.empty((2, size))
    for k, weights in enumerate((f, inverse)):
        whole = moments.of_all(weights) / m + (1 - 1 / m) * K
        alone = np.array([np.square(moments.of_node(weights, i)).sum() for i in nodes]) / m**2
        # |A_i|^2 less |B_i / m|^2, of all nodes.
        crossed = 2 / m * (1 - 1 / m) * moments.beside_rows(weights).sum()
        crossed += (1 - 1 / m) ** 2 * np.square(np.diagonal(K)).sum()
        squares[k] = np.square(whole).sum() - n * alone.mean() - crossed - exact
        shares[k] = alone / squares[k]
    roots = np.sqrt(np.maximum(squares, 0.0)) / np.linalg.norm(K)
    errors = 0.5 * roots * spread * shares.std(axis=1, ddof=1)
    ratio = float(roots[0] / roots[1]) if roots[1] > 0 else 1.0
    ratio_error = float(0.5 * ratio * spread * (shares[0] - shares[1]).std(ddof=1))
    found = zip(roots.tolist(), errors.tolist(), strict=True)
    return WalkLengthFloor(*next(found), *next(found), ratio, ratio_error, m)


class _Moments:
    """Second moments `B_i` of the features of one walker.

    Attributes
    ----------
    rests, visits : FloatArray (T + 1, N, N)
        `G_s`, and `u_s` of node i in row i.
    """

    def __init__(self, graph: Graph, f: FloatArray) -> None:
        W, roots, n = graph.normalized_adjacency, root_degrees(graph), graph.n_nodes
        self.f = f
        self.rests, self.visits = np.empty((2, f.size, n, n))
        power, rest = np.eye(n), np.zeros((n, n))
        for s in range(f.size):
            self.visits[s] = roots[:, None] * power / roots
            power = W @ power
        for s in reversed(range(f.size)):  # G_s = f_s I + W~ G_(s + 1)
            rest = W @ rest
            rest[np.diag_indices(n)] += f[s]
            self.rests[s] = rest

    def _second(self, weights: FloatArray, u: FloatArray) -> FloatArray:
        """`sum_s w_s (diag(u_s) G_s + G_s diag(u_s) - f_s diag(u_s))` for u (T + 1, N)."""
        scaled = weights[:, None] * u
        half = np.zeros(self.rests.shape[1:])
        for column, rest in zip(scaled, self.rests, strict=True):
            reached = np.flatnonzero(column)
            half[reached] += column[reached, None] * rest[reached]
        second = half + half.T
        second[np.diag_indices(len(half))] -= self.f @ scaled
        return np.asarray(second)

    def of_all(self, weights: FloatArray) -> FloatArray:
        """`sum_i B_i`."""
        return self._second(weights, self.visits.sum(axis=1))

    def of_node(self, weights: FloatArray, i: int) -> FloatArray:
        """`B_i`."""
        return self._second(weights, self.visits[:, i])

    def beside_rows(self, weights: FloatArray) -> FloatArray:
        """`F_i' B_i F_i` (N,) of all nodes."""
        F, found = self.rests[0], np.zeros(len(self.rests[0]))
        for w, f, visits, rest in zip(weights, self.f, self.visits, self.rests, strict=True):
            found += w * (F * visits * (2 * F @ rest - f * F)).sum(axis=1)
        return found
