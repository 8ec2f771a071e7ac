"""Blocks `V' f(W~) V` and traces `tr f(W~)` of many functions f from one pass over the graph.

A fit needs the same block at other parameters again and again. On a small graph all eigenvectors
are known; on a large one the Chebyshev moments `V' T_k(W~) V` are computed once, up to the degree
that some function has needed, and every function is a sum of these moments: no product with `W~` is
made twice. Golub and Meurant (2010); Weisse et al. (2006), the kernel polynomial method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.eigenpairs import leading_eigenpairs
from coupledgp.graphs.products import fused_product
from coupledgp.graphs.spectrum import Eigenpairs, dense_spectrum
from coupledgp.kernels.graph.exact import chebyshev_coefficients
from coupledgp.linalg.probe_errors import widened_error
from coupledgp.random import FloatArray, IntArray

SpectralFunction = Callable[[FloatArray], FloatArray]


def expanded(functions: Sequence[SpectralFunction], tolerances: Sequence[float]) -> FloatArray:
    """Chebyshev coefficients (n_functions, degree + 1), each to its own tolerance.

    Raises
    ------
    NumericalError
        A function takes a longer series than there may be.
    """
    series = [chebyshev_coefficients(f, t) for f, t in zip(functions, tolerances, strict=True)]
    out = np.zeros((len(series), max(c.size for c in series)))
    for row, c in zip(out, series, strict=True):
        row[: c.size] = c
    return out


# Relative spectral error of a function's series where no other one is asked for.
MOMENT_TOLERANCE = 1e-12
# Memory that the moments may take.
MOMENT_BYTES = 2**30
# Degree up to which a series is used without a look at the leading eigenpairs.
SERIES_DEGREE = 256
# Number of leading eigenpairs that are computed, and the largest number of entries of their
# vectors (128 MiB).
LEADING_PAIRS, LEADING_ENTRIES = 384, 2**24
# Relative variation below which a function counts as constant on the rest of the spectrum.
CONSTANT = 1e-10
# Nodes and edges of a graph on which traces take 64 probes; smaller ones take more and larger ones
# fewer, within the bounds.
TRACE_WORK = 1_000_000
MIN_PROBES, MAX_PROBES = 16, 256


class Traces(NamedTuple):
    """Traces of functions and their standard errors, (n_functions,) each; zeros if exact."""

    values: FloatArray
    errors: FloatArray


class BlockColumns(NamedTuple):
    """Columns `V = [E, X]` of a block: unit columns E of nodes, then values X on all nodes.

    Attributes
    ----------
    graph : Graph
    nodes : IntArray (n,)
        Node numbers of E.
    values : FloatArray (n_nodes, q)
        The columns X.
    """

    graph: Graph
    nodes: IntArray
    values: FloatArray

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.nodes.size + self.values.shape[1]

    def dense(self) -> FloatArray:
        """V as a matrix (n_nodes, n + q)."""
        E = np.zeros((self.graph.n_nodes, self.nodes.size))
        E[self.nodes, np.arange(self.nodes.size)] = 1.0
        return np.hstack([E, self.values])

    def inner(self, B: FloatArray) -> FloatArray:
        """`V' B`, (n + q, k), for B (n_nodes, k)."""
        return np.vstack([B[self.nodes], self.values.T @ B])


class GraphMoments(ABC):
    """Blocks `V' f(W~) V` of functions of `W~`, for columns V (n_nodes, k), and their traces."""

    @abstractmethod
    def blocks(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> FloatArray:
        """`V' f(W~) V` of every function, shape (n_functions, k, k).

        The spectral error is at most `tolerance` times each function's maximum.
        """

    @abstractmethod
    def traces(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> Traces:
        """`tr f(W~)` of every function."""


class SpectralMoments(GraphMoments):
    """Exact blocks and traces, from all eigenvectors of `W~`."""

    def __init__(self, columns: BlockColumns) -> None:
        self._values, vectors = dense_spectrum(columns.graph)
        self._rotated = columns.inner(vectors).T

    def blocks(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> FloatArray:
        turned = self._rotated.T
        return np.stack([(turned * f(self._values)) @ self._rotated for f in functions])

    def traces(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> Traces:
        values = np.array([f(self._values).sum() for f in functions])
        return Traces(values, np.zeros(values.size))


class ChebyshevMoments(GraphMoments):
    """Blocks from Chebyshev moments, which are extended when a function needs a higher degree.

    Traces are means over random sign vectors z, the same for every function, with `z' T_2k z = 2
    |T_k z|^2 - |z|^2`; the traces of `T_0, T_1, T_2` are exact.

    Parameters
    ----------
    columns
        The columns V.
    seed
        Seed of the sign vectors.
    max_bytes
        Memory that the moments may take.
    """

    def __init__(
        self,
        columns: BlockColumns,
        seed: int = 0,
        max_bytes: int = MOMENT_BYTES,
    ) -> None:
        graph = self._graph = columns.graph
        self._columns = columns
        self._places = np.tril_indices(columns.width)
        size = self._places[0].size
        self._limit = max(int(max_bytes // (8 * max(size, 1))), 32)
        self._powers = ChebyshevColumns(graph, columns.dense())
        self._moments = np.empty((0, size))
        self._n_moments = 0
        work = graph.n_nodes + graph.indices.size
        n_probes = min(max(64 * TRACE_WORK // max(work, 1), MIN_PROBES), MAX_PROBES)
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], (graph.n_nodes, n_probes))
        self._probes = ChebyshevColumns(graph, signs)
        self._sums: list[FloatArray] = []

    def blocks(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> FloatArray:
        coefficients = expanded(functions, [tolerance] * len(functions))
        self._extend(coefficients.shape[1])
        packed = coefficients @ self._moments[: coefficients.shape[1]]
        k = self._columns.width
        out = np.empty((len(functions), k, k))
        rows, columns = self._places
        out[:, rows, columns] = packed
        out[:, columns, rows] = packed
        return out

    def traces(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> Traces:
        coefficients = expanded(functions, [tolerance] * len(functions))
        while len(self._sums) < coefficients.shape[1]:
            self._sums.extend(self._probes.double_moments())
        moments = np.array(self._sums[: coefficients.shape[1]])
        per_probe = coefficients @ moments
        exact = self._first_traces()[: moments.shape[0]]
        known = coefficients[:, : exact.size]
        values = per_probe.mean(axis=1) + known @ (exact - moments[: exact.size].mean(axis=1))
        rest = coefficients[:, exact.size :] @ moments[exact.size :]
        return Traces(values, widened_error(rest))

    def _first_traces(self) -> FloatArray:
        """`tr T_0, tr T_1, tr T_2` of `W~`, (3,)."""
        matrix, n = self._graph.normalized_adjacency, self._graph.n_nodes
        return np.array([n, matrix.diagonal().sum(), 2.0 * (matrix.data**2).sum() - n])

    def _extend(self, n_moments: int) -> None:
        if n_moments > self._limit:
            raise NumericalError(
                f"evidence: {n_moments} Chebyshev moments of {self._columns.width} nodes are "
                f"needed, memory is reserved for {self._limit}; use solver='iterative'"
            )
        if n_moments > self._moments.shape[0]:
            room = min(max(2 * self._moments.shape[0], n_moments), self._limit)
            wider = np.empty((room, self._moments.shape[1]))
            wider[: self._n_moments] = self._moments[: self._n_moments]
            self._moments = wider
        while self._n_moments < n_moments:
            inner = self._columns.inner(self._powers.advance())
            self._moments[self._n_moments] = inner[self._places]
            self._n_moments += 1


def leading_count(graph: Graph) -> int:
    """Number of leading eigenpairs that are computed: `LEADING_PAIRS`, or as memory allows."""
    return max(min(LEADING_PAIRS, LEADING_ENTRIES // graph.n_nodes, graph.n_nodes // 4), 1)


def leading_of(graph: Graph) -> Eigenpairs:
    """Return the `leading_count` leading eigenpairs of a graph."""
    return leading_eigenpairs(graph, leading_count(graph))


def constant_below(
    pairs: Eigenpairs, functions: Sequence[SpectralFunction], tolerance: float
) -> bool:
    """Whether all functions are constant below the eigenvalues of the pairs, to `tolerance`."""
    if not pairs.values.size:
        return False
    angles = np.linspace(0.0, np.pi, 129)
    rest = -1.0 + 0.5 * (pairs.values[0] + 1.0) * (1.0 - np.cos(angles))
    for f in functions:
        below = f(rest)
        top = max(np.abs(f(pairs.values)).max(), np.abs(below).max())
        if np.abs(below - below[0]).max() > tolerance * top:
            return False
    return True


class ChebyshevColumns:
    """Columns `T_k(W~) V` for k = 0, 1, 2, ..., computed in turn."""

    def __init__(self, graph: Graph, V: FloatArray) -> None:
        self._graph, self._start = graph, V
        self._next: FloatArray = V
        self._last: FloatArray | None = None
        self._step = 0

    def advance(self) -> FloatArray:
        """The next `T_k(W~) V`, (n_nodes, p)."""
        current = self._next
        if self._last is None:
            following = fused_product(self._graph, current)
        else:
            following = fused_product(self._graph, current, 2.0, 0.0, -1.0, self._last)
        self._last, self._next = current, following
        return current

    def double_moments(self) -> list[FloatArray]:
        """`v' T_2k v` and `v' T_(2k+1) v` of every column v, from `T_k V` and `T_(k+1) V`."""
        now = self.advance()
        start = self._start
        square = np.einsum("ij,ij->j", start, start)
        first = np.einsum("ij,ij->j", start, fused_product(self._graph, start))
        even = 2.0 * np.einsum("ij,ij->j", now, now) - square
        odd = 2.0 * np.einsum("ij,ij->j", now, self._next) - first
        return [even, odd]
