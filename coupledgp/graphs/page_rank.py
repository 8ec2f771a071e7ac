"""PageRank by coupled random walks (MATH 9; "Variance-reducing couplings", appendix E)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings import (
    GeometricLaw,
    SigmaLengths,
    WalkerCoupling,
    WalkerCouplingLike,
    parse_walker_coupling,
)
from coupledgp.couplings.walkers.sigma import (
    REFERENCE_DEGREE,
    REFERENCE_NODES,
    assign,
    erdos_renyi,
    quantile_survival,
)
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph
from coupledgp.graphs.walk_steps import moves_of
from coupledgp.graphs.walk_visits import plain_ends
from coupledgp.graphs.walks import walk_ends
from coupledgp.ground.counter import LengthUniforms
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, Seed, as_rng

PAGERANK_ORDER = 10  # quantiles of the lengths that sigma permutes, as in the paper
LENGTH_TOLERANCE = 1e-12  # chance of a longer walk: far below the error of any estimate
CHUNK_WALKS = 2**20  # walks that are drawn at once, which bounds the memory for their ends
# Steps whose powers of the eigenvalues are in memory at once, 3 MiB for a graph of 100 nodes.
CHUNK_STEPS = 2**12


def pagerank(
    graph: Graph,
    p_halt: float = 0.15,
    n_walks: int = 16,
    coupling: WalkerCouplingLike = "sigma",
    generator: Seed = None,
) -> FloatArray:
    """Estimate the PageRank vector by the fraction of all walks that end at each node.

    The vector is `rho_i = (p / N) sum_j sum_k (1-p)^k (P^k)_ji` with `P = D^-1 W`, where p is the
    chance to halt, one minus the damping factor. The estimate is unbiased for every coupling, and
    sums to one. A walker on an isolated node stays there.

    Parameters
    ----------
    graph
        The graph; a walker chooses an edge in proportion to its weight.
    p_halt
        Chance of halting before each step.
    n_walks
        Number of walkers that start at each node.
    coupling
        Joint law of the walkers of a node, an object or the text `lengths[+steps]`. `"sigma"` is
        solved for PageRank (`solve_pagerank_sigma`).
    generator
        Seed or generator for the walks.

    Returns
    -------
    FloatArray
        Estimate of the PageRank vector, shape (n_nodes,).

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> star = cgp.Graph.from_edges(np.zeros(9, dtype=int), np.arange(1, 10))
    >>> int(np.argmax(cgp.pagerank(star, generator=0)))
    0
    """
    check_graph(graph)
    check_positive_int(n_walks, "n_walks")
    law = GeometricLaw(p_halt)
    parsed = tuned_for_pagerank(coupling, p_halt)
    longest = longest_walk(p_halt)
    seed, moves = int(as_rng(generator).integers(2**63)), moves_of(graph)
    counts = np.zeros(graph.n_nodes, dtype=np.int64)
    for rows in np.array_split(
        np.arange(graph.n_nodes), -(-graph.n_nodes * n_walks // CHUNK_WALKS)
    ):
        lengths = parsed.lengths.sample(law, longest, LengthUniforms(seed, rows, n_walks))
        if parsed.steps.compiled is None:
            ends = plain_ends(seed, rows, lengths, parsed.steps, graph)
        else:
            ends = walk_ends(seed, rows, lengths, parsed.steps.compiled, moves)
        counts += np.bincount(ends.ravel(), minlength=graph.n_nodes)
    return counts / float(counts.sum())


def longest_walk(p_halt: float) -> int:
    """Length that a walker exceeds with a chance of `LENGTH_TOLERANCE`."""
    return int(np.ceil(np.log(LENGTH_TOLERANCE) / np.log1p(-p_halt)))


@lru_cache(maxsize=64)
def solve_pagerank_sigma(
    p_halt: float, order: int = PAGERANK_ORDER, reference: Graph | None = None
) -> NDArray[np.int64]:
    """Solve for the permutation of quantiles of the lengths that is best for PageRank.

    Let `P_q(j -> i)` be the chance that a walk from j with its length in quantile q ends at i. The
    cost of matching quantiles a and b is `sum_j sum_i P_a(j -> i) P_b(j -> i)`: an assignment
    problem (appendix E, equation 82). The last solutions are remembered.

    Parameters
    ----------
    p_halt
        Chance of halting before each step.
    order
        Number of quantiles.
    reference
        Graph to solve on; an Erdos-Renyi graph of 100 nodes if left out.

    Returns
    -------
    NDArray[np.int64]
        The permutation, shape (order,).
    """
    graph = erdos_renyi(REFERENCE_NODES, REFERENCE_DEGREE) if reference is None else reference
    survival = GeometricLaw(p_halt).survival(longest_walk(p_halt))
    reached = np.column_stack([quantile_survival(survival, order), np.zeros(order)])
    ends_at = reached[:, :-1] - reached[:, 1:]
    values, left, right = eigenmoves(graph)
    power = np.ones(graph.n_nodes)
    # Walks of t steps end by P^t = left diag(values^t) right, so that only numbers are raised to
    # powers.
    weights = np.zeros((order, graph.n_nodes))
    for part in np.array_split(ends_at, -(-ends_at.shape[1] // CHUNK_STEPS), axis=1):
        powers = power * values ** np.arange(part.shape[1])[:, None]
        weights += part @ powers
        power = powers[-1] * values
    ends = (left * weights[:, None, :]) @ right
    flat = ends.reshape(order, -1)
    return assign(flat @ flat.T)


def eigenmoves(graph: Graph) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Diagonalise `P = D^-1 W`, where a walker on an isolated node stays there.

    P is similar to the symmetric `W~`, so that its eigenvalues are real.

    Returns
    -------
    tuple of FloatArray
        Eigenvalues (n,), right eigenvectors in the columns of (n, n), and left eigenvectors in the
        rows of (n, n), such that `P = right diag(values) left`.
    """
    closed = graph.closed
    values, vectors = np.linalg.eigh(closed.normalized_adjacency.toarray())
    roots = np.sqrt(closed.degrees)
    return values, vectors / roots[:, None], vectors.T * roots


def tuned_for_pagerank(coupling: WalkerCouplingLike, p_halt: float) -> WalkerCoupling:
    """Return the coupling; a sigma without a permutation gets the one solved for PageRank."""
    parsed = parse_walker_coupling(coupling)
    lengths = parsed.lengths
    if not isinstance(lengths, SigmaLengths) or lengths.permutation is not None:
        return parsed
    order = PAGERANK_ORDER if isinstance(coupling, str) else lengths.order
    sigma = solve_pagerank_sigma(p_halt, order, lengths.reference)
    return WalkerCoupling(SigmaLengths(permutation=tuple(sigma.tolist())), parsed.steps)
