"""Evidence of some observations under the kernel of the whole graph, with bounded work.

On expanders (networks with hubs, random graphs) every ball of neighbours reaches far, and a piece
of the graph says little about the rest. There the kernel of the whole graph is computed between
some observations, in clusters of neighbours, since pairs far apart say nothing about short
distances. It is the exact evidence of those observations, by Chebyshev moments.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from coupledgp.core.budget import BLOCK_RATE, Forecast
from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.exact_evidence import ObservedEvidence
from coupledgp.graphs.moments import ChebyshevMoments
from coupledgp.graphs.pieces import ball
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray, IntArray

# Observations in a cluster, and in all of them, at least and at most.
CLUSTER, LEAST, MOST = 12, 64, 512
# Multiply-adds of the moments, at most; degree of the series that they are meant for, and the
# largest one.
WORK, DEGREE, MOST_DEGREE = 6e9, 64, 256
# Relative error of functions of `W~` per noise ratio, and its bounds: the evidence of some hundred
# observations is wrong by less than a tenth of a nat.
TOLERANCE_PER_RATIO, TOLERANCES = 1e-4, (1e-10, 1e-5)


def rough_tolerance(ratio: float) -> float:
    """Relative error of functions of `W~`, for a comparison of families."""
    return float(np.clip(TOLERANCE_PER_RATIO * ratio, *TOLERANCES))


def cluster_size(graph: Graph, n_observed: int) -> int:
    """Number of observations whose evidence is taken."""
    work = DEGREE * float(graph.n_nodes + graph.indices.size)
    return int(min(np.clip(WORK / work, LEAST, MOST), n_observed))


def cluster_forecast(graph: Graph, n_observed: int) -> Forecast:
    """Cost of the moments and of a search over a few families."""
    n = cluster_size(graph, n_observed)
    work = 2 * DEGREE * float(graph.n_nodes + graph.indices.size) * n
    searches = 140 * (1e-9 * DEGREE * n**2 + 1e-10 * n**3)
    return Forecast(work / BLOCK_RATE + searches, 24.0 * graph.n_nodes * n)


def choose_clusters(graph: Graph, nodes: IntArray, seed: int) -> IntArray:
    """Positions (m,) in `nodes` (n,) of observations in clusters around drawn ones."""
    size = cluster_size(graph, nodes.size)
    if size == nodes.size:
        return np.arange(size)
    rng = np.random.default_rng(seed)
    place = np.full(graph.n_nodes, -1)
    place[nodes] = np.arange(nodes.size)
    found: dict[int, None] = {}
    for centre in rng.permutation(nodes):
        near = place[ball(graph, np.array([centre]), 4 * CLUSTER)]
        for position in near[near >= 0][:CLUSTER].tolist():
            found[position] = None
        if len(found) >= size:
            break
    return np.sort(np.fromiter(found, np.int64)[:size])


class ClusterEvidence(ObservedEvidence):
    """Terms of the exact evidence of some observations, by Chebyshev moments of bounded degree.

    Parameters
    ----------
    graph, nodes, Y
        The graph, node numbers (m,), centred targets (m, n_outputs).
    """

    def __init__(self, graph: Graph, nodes: IntArray, Y: FloatArray) -> None:
        width = max(np.unique(nodes).size, 1)
        room = 8 * MOST_DEGREE * width * (width + 1) // 2
        make = partial(ChebyshevMoments, max_bytes=room)
        super().__init__(graph, nodes, Y, make, rough_tolerance)

    def _blocks(self, kernel: GraphKernel, tolerance: float) -> FloatArray:
        try:
            return super()._blocks(kernel, tolerance)
        except NumericalError as error:  # a longer series is a kernel wider than this graph
            raise NumericalError(f"kernel: {kernel!r} is too wide: {error}") from None
