"""Evidence of observations in small pieces of a graph, where a search takes milliseconds a step.

A piece is a ball of neighbours with all edges between them. An edge that leaves it becomes a
self-loop of its end, so that degrees stay and diffusion is reflected at the border. All
eigenvectors of a piece are known at once, and every kernel's evidence follows. Pieces are taken as
independent, so that their log evidences add up:

    log p(y) ~ sum over pieces of log p(y_piece)

The parameters of its maximum are those of the whole graph but for effects of the border, which are
small where few edges leave a piece: on meshes, roads, grids and trees, not on expanders.

Evidence of some observations under the kernel of the whole graph, with bounded work.

On expanders (networks with hubs, random graphs) every ball of neighbours reaches far, and a piece
of the graph says little about the rest. There the kernel of the whole graph is computed between
some observations, in clusters of neighbours, since pairs far apart say nothing about short
distances. It is the exact evidence of those observations, by Chebyshev moments.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from coupledgp.core.budget import BLOCK_RATE, DENSE_RATE, Forecast, eigen_forecast
from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import EvidenceTerms, ExactKernelEvidence, ObservedEvidence
from coupledgp.graphs.readers import assemble
from coupledgp.graphs.spectral import ChebyshevMoments, SpectralMoments
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray, IntArray

# Nodes of a piece, at least and at most, and observations that it should have; most observations
# that count, those nearest to its centres.
PIECE_NODES, MOST_PIECE_NODES, PIECE_OBSERVATIONS, MOST_OBSERVATIONS = 600, 1200, 120, 300
# Number of pieces, at least and at most, and observations in all of them that are enough.
N_PIECES, MOST_PIECES, ENOUGH = 3, 8, 400
# Seconds of a comparison that are spent in any case.
CHEAP_SECONDS = 1.5
# Evaluations of a search over a few families, and the seconds that the smallest one takes.
EVALUATIONS, LEAST_SECONDS = 90, 3e-4
# Share of the edges of a piece that leave it beyond which it says too little about the whole.
MOST_CUT = 0.15
# Relative rounding of a degree below which no edge has left.
ROUNDING = 1e-12


class Piece(NamedTuple):
    """A part of a graph.

    Attributes
    ----------
    nodes : IntArray (m,)
        Numbers of its nodes in the whole graph.
    graph : Graph
        The piece, its nodes in that order.
    cut : float
        Share of the weight of its nodes' edges that leaves it.
    """

    nodes: IntArray
    graph: Graph
    cut: float


def ball(graph: Graph, centres: IntArray, size: int) -> IntArray:
    """Numbers (m,) of the nodes nearest to a centre by number of edges, at most `size`.

    Where a component has fewer nodes, the ball goes on from the next centre.
    """
    indptr, indices = graph.indptr, graph.indices
    found: dict[int, None] = {}
    for centre in centres.tolist():
        if len(found) >= size:
            break
        waiting = [] if centre in found else [centre]
        found.setdefault(centre)
        for node in waiting:  # grows while it is read
            if len(found) >= size:
                break
            for other in indices[indptr[node] : indptr[node + 1]].tolist():
                if other not in found:
                    found[other] = None
                    waiting.append(other)
                    if len(found) >= size:
                        break
    return np.fromiter(found, np.int64)


def piece_of(graph: Graph, nodes: IntArray) -> Piece:
    """The part of a graph on some nodes (m,), edges that leave it turned into self-loops."""
    inner = graph.adjacency[nodes][:, nodes].tocoo()
    degrees = graph.degrees[nodes]
    lost = degrees - np.bincount(inner.row, inner.data, nodes.size)
    upper = inner.row <= inner.col
    ends = np.flatnonzero(lost > ROUNDING * degrees)
    csr = assemble(
        np.concatenate([inner.row[upper], ends]).astype(np.int64),
        np.concatenate([inner.col[upper], ends]).astype(np.int64),
        np.concatenate([inner.data[upper], lost[ends]]),
        nodes.size,
    )
    scale = None if graph.node_scale is None else graph.node_scale[nodes]
    part = Graph(csr, node_scale=scale, time_unit=graph.time_unit).closed
    return Piece(nodes, part, float(lost[ends].sum() / max(degrees.sum(), np.finfo(float).tiny)))


class PieceSizes(NamedTuple):
    """Number of pieces, and nodes and observed nodes of each."""

    n_pieces: int
    n_nodes: int
    n_observed: float

    def forecast(self) -> Forecast:
        """Cost of the eigenvectors and of a search over a few families."""
        m = min(self.n_observed, MOST_OBSERVATIONS)
        evaluation = (6 * self.n_nodes * m**2 + 4 * m**3) / DENSE_RATE + LEAST_SECONDS
        own = eigen_forecast(self.n_nodes)
        seconds = own.seconds + EVALUATIONS * evaluation
        return Forecast(self.n_pieces * seconds, self.n_pieces * own.bytes)


def piece_sizes(n_nodes: int, n_observed: int) -> PieceSizes:
    """Sizes of pieces for n distinct observed nodes of a graph."""
    share = n_observed / n_nodes
    size = int(np.clip(PIECE_OBSERVATIONS / share, PIECE_NODES, MOST_PIECE_NODES))
    size = min(size, n_nodes)
    one = PieceSizes(1, size, share * size)
    # More pieces separate families better, so that cheap pieces are many.
    wanted = max(ENOUGH / max(share * size, 1.0), CHEAP_SECONDS / one.forecast().seconds)
    number = int(np.clip(np.ceil(wanted), N_PIECES, MOST_PIECES))
    return one._replace(n_pieces=min(number, -(-n_nodes // size)))


def choose_pieces(graph: Graph, nodes: IntArray, sizes: PieceSizes, seed: int) -> list[Piece]:
    """Pieces of a graph around randomly drawn observed nodes (n,)."""
    rng = np.random.default_rng(seed)
    pieces = []
    left = nodes
    for _ in range(sizes.n_pieces):
        if not left.size:
            break
        centres = rng.choice(left, min(64, left.size), replace=False)
        pieces.append(piece_of(graph, ball(graph, centres, sizes.n_nodes)))
        left = np.setdiff1d(left, pieces[-1].nodes)
    return pieces


class PiecesEvidence(ExactKernelEvidence):
    """Terms of the evidence of observations in pieces of a graph, added up.

    Parameters
    ----------
    graph
        The whole graph.
    pieces
        Pieces of this graph.
    nodes, Y
        Observed node numbers (n,), centred targets (n, n_outputs). Observations outside of the
        pieces are left out, those in several pieces count in the first, and of each piece at most
        `MOST_OBSERVATIONS` count.
    """

    def __init__(self, graph: Graph, pieces: list[Piece], nodes: IntArray, Y: FloatArray) -> None:
        self.graph = graph
        self.parts: list[ExactKernelEvidence] = []
        place = np.full(graph.n_nodes, -1)
        left = np.ones(nodes.size, dtype=bool)  # an observation counts in one piece only
        for piece in pieces:
            place[piece.nodes] = np.arange(piece.nodes.size)
            own = place[nodes]
            here = (own >= 0) & left
            left &= ~here
            place[piece.nodes] = -1
            if here.any():
                rows = np.flatnonzero(here)
                rows = rows[np.sort(np.argsort(own[rows], kind="stable")[:MOST_OBSERVATIONS])]
                self.parts.append(
                    ObservedEvidence(piece.graph, own[rows], Y[rows], SpectralMoments)
                )
        self.n_targets = sum(part.n_targets for part in self.parts)
        self.n_outputs = Y.shape[1]

    def log_evidences(self, kernel: GraphKernel, outputscale: float, noise: float) -> FloatArray:
        """Log evidence of each piece (n_pieces,), nats."""
        found = []
        for part in self.parts:
            terms, n = part.terms(kernel, noise / outputscale), part.n_targets
            constant = n * np.log(2 * np.pi * outputscale) + terms.log_determinant
            found.append(-0.5 * (part.n_outputs * constant + terms.fit / outputscale))
        return np.array(found)

    def terms(self, kernel: GraphKernel, ratio: float) -> EvidenceTerms:
        terms = [part.terms(kernel, ratio) for part in self.parts]
        return EvidenceTerms(
            sum(t.fit for t in terms),
            sum(t.log_determinant for t in terms),
            np.sum([t.fit_slope for t in terms], axis=0),
            np.sum([t.log_determinant_slope for t in terms], axis=0),
        )


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
