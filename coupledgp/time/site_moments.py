"""Blocks `f(W~)[T, T]` and mean diagonals of many functions f on large graphs, from one pass.

Chebyshev moments `T_k(W~)[T, T]` are computed some columns at a time, so that the memory does not
grow with the number of sites T on graphs of millions of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coupledgp.graphs import Graph
from coupledgp.graphs.products import column_blocks
from coupledgp.ground.memory import available_bytes, check_memory
from coupledgp.inference.nodes.forecast import SPARSE_RATE, Forecast
from coupledgp.inference.nodes.moments import ChebyshevColumns
from coupledgp.kernels.graph.exact import DEGREE_LIMIT
from coupledgp.linalg.lanczos import widened_error
from coupledgp.random import FloatArray, IntArray

# Memory of recurrences that are kept to be continued at a higher degree: at most this, and at most
# this share of what is available. Those that are not kept start again, at degrees that grow by the
# factor.
KEPT_BYTES, KEPT_SHARE, REGROWTH = 2.0**31, 0.25, 1.5
# Share of the available memory that moments may take.
MOMENT_SHARE = 0.4
# Numbers of the sign vectors of which a mean diagonal is made, 32 MiB, and least and greatest
# number of vectors.
SIGN_ENTRIES, FEWEST_SIGNS, MOST_SIGNS = 2**22, 16, 512


@dataclass
class _MomentPart:
    """Moments of a block of columns: rows `first:` of `T_k[T, T]`, (degree + 1, rows, columns)."""

    columns: slice
    moments: list[FloatArray] = field(default_factory=list)
    recurrence: ChebyshevColumns | None = None


class SiteMoments:
    """Blocks of functions of `W~` on sites, from moments that are extended on demand.

    Parameters
    ----------
    graph
        The closed graph.
    nodes
        Distinct node numbers T (p,).
    """

    def __init__(self, graph: Graph, nodes: IntArray) -> None:
        self.graph, self.nodes = graph, nodes
        self._parts = [_MomentPart(block) for block in column_blocks(graph.n_nodes, nodes.size)]
        self._n_moments = 0
        states = 8.0 * 3 * graph.n_nodes * nodes.size
        self._keeps = states <= min(KEPT_BYTES, KEPT_SHARE * available_bytes())

    @property
    def _entries(self) -> int:
        """Numbers that one moment takes."""
        p = self.nodes.size
        return sum((p - s.start) * (s.stop - s.start) for s in (q.columns for q in self._parts))

    def bytes(self, n_moments: int) -> float:
        """Memory of `n_moments` moments and of the arrays that are alive while they are made."""
        running = (
            5.0 * self.graph.n_nodes * max(q.columns.stop - q.columns.start for q in self._parts)
        )
        kept = 3.0 * self.graph.n_nodes * self.nodes.size if self._keeps else 0.0
        return 8.0 * (n_moments * self._entries + running + kept)

    def fits(self, n_moments: int) -> bool:
        """Whether so many moments may be kept."""
        return self.bytes(n_moments) <= MOMENT_SHARE * available_bytes()

    def forecast(self, n_moments: int) -> Forecast:
        """Seconds and memory of so many moments."""
        work = float(self.graph.n_nodes + self.graph.indices.size) * self.nodes.size * n_moments
        return Forecast(work / SPARSE_RATE, self.bytes(n_moments))

    def blocks(self, coefficients: FloatArray) -> FloatArray:
        """`sum_k c_k T_k(W~)[T, T]` of coefficients (m, degree + 1), shape (m, p, p).

        Raises
        ------
        MemoryLimitError
            The moments do not fit in memory.
        """
        self._extend(coefficients.shape[1])
        m, p = len(coefficients), self.nodes.size
        out = np.empty((m, p, p))
        for part in self._parts:
            first, last = part.columns.start, part.columns.stop
            stack = np.stack(part.moments[: coefficients.shape[1]])
            found = coefficients @ stack.reshape(len(stack), -1)
            found = found.reshape(m, p - first, last - first)
            out[:, first:, first:last] = found
            out[:, first:last, first:] = found.transpose(0, 2, 1)
            # The square on the diagonal was overwritten by its transpose: both halves the same.
            square = found[:, : last - first]
            out[:, first:last, first:last] = 0.5 * (square + square.transpose(0, 2, 1))
        return out

    def _extend(self, n_moments: int) -> None:
        if n_moments <= self._n_moments:
            return
        if not self._keeps and self._n_moments:
            n_moments = min(max(n_moments, int(REGROWTH * self._n_moments)), DEGREE_LIMIT + 1)
        check_memory(
            self.bytes(n_moments) - self.bytes(self._n_moments),
            f"sites: {n_moments} Chebyshev moments of {self.nodes.size} sites",
            "use fewer sites, a kernel of a shorter scale, or a larger tolerance",
        )
        for part in self._parts:
            self._extend_part(part, n_moments)
        self._n_moments = n_moments

    def _extend_part(self, part: _MomentPart, n_moments: int) -> None:
        recurrence = part.recurrence
        if recurrence is None:
            chosen = self.nodes[part.columns]
            E = np.zeros((self.graph.n_nodes, chosen.size))
            E[chosen, np.arange(chosen.size)] = 1.0
            recurrence, part.moments = ChebyshevColumns(self.graph, E), []
        rows = self.nodes[part.columns.start :]
        while len(part.moments) < n_moments:
            part.moments.append(recurrence.advance()[rows])
        part.recurrence = recurrence if self._keeps else None


class VarianceMoments:
    """Mean diagonals `tr(S f(W~) S) / N` with the scales S of the nodes, from random signs z.

    `z' S T_2k S z = 2 |T_k S z|^2 - |S z|^2` gives two moments a product; the means of `T_0`, `T_1`
    and `T_2` are exact. The signs are the same for every function, so that the mean diagonal is as
    smooth in the parameters of a kernel as the kernel is. Hutchinson (1990).

    Parameters
    ----------
    graph
        The closed graph.
    seed
        Seed of the signs.

    Attributes
    ----------
    n_probes : int
        Number of sign vectors.
    """

    def __init__(self, graph: Graph, seed: int = 0) -> None:
        self._graph = graph
        signs = random_signs(graph, seed)
        self.n_probes = signs.shape[1]
        scale = np.ones(graph.n_nodes) if graph.node_scale is None else graph.node_scale
        self._scale = scale
        starts = scale[:, None] * signs
        self._columns = [
            ChebyshevColumns(graph, np.ascontiguousarray(starts[:, block]))
            for block in column_blocks(graph.n_nodes, self.n_probes)
        ]
        self._sums: list[FloatArray] = []

    def means(self, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean diagonals (m,) of series (m, degree + 1), and their standard errors (m,)."""
        while len(self._sums) < coefficients.shape[1]:
            pairs = [columns.double_moments() for columns in self._columns]
            self._sums += [np.concatenate(values) for values in zip(*pairs, strict=True)]
        moments = np.array(self._sums[: coefficients.shape[1]])
        exact = self._first()[: len(moments)]
        known, rest = np.split(coefficients, [exact.size], axis=1)
        sampled = rest @ moments[exact.size :]
        n = self._graph.n_nodes
        values = known @ exact + sampled.mean(axis=1)
        return values / n, widened_error(sampled) / n

    def _first(self) -> FloatArray:
        """`tr S T_k S` of k = 0, 1, 2, (3,)."""
        matrix, squares = self._graph.normalized_adjacency, self._scale**2
        rows = np.repeat(np.arange(self._graph.n_nodes), np.diff(matrix.indptr))
        second = 2.0 * float(squares[rows] @ matrix.data**2) - squares.sum()
        return np.array([squares.sum(), squares @ matrix.diagonal(), second])


def random_signs(graph: Graph, seed: int) -> FloatArray:
    """Random signs (n_nodes, n_probes), the fewer columns the larger the graph."""
    n_probes = min(max(SIGN_ENTRIES // graph.n_nodes, FEWEST_SIGNS), MOST_SIGNS)
    return np.random.default_rng(seed).choice([-1.0, 1.0], (graph.n_nodes, n_probes))
