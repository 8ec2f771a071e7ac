"""Blocks `f(W~)[T, T]` of many functions f from one pass over the graph.

A fit needs the same block at other parameters again and again. On a small graph all eigenvectors
are known; on a large one the Chebyshev moments `T_k(W~)[T, T]` are computed once, up to the degree
that some function has needed, and every function is a sum of these moments: no product with `W~` is
made twice. Golub and Meurant (2010); Weisse et al. (2006), the kernel polynomial method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.kernel_exact import chebyshev_coefficients
from coupledgp.graphs.products import fused_product
from coupledgp.graphs.spectrum import dense_spectrum
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
# Columns of a series that exist at once.
BLOCK_COLUMNS = 256


class GraphMoments(ABC):
    """Blocks `f(W~)[T, T]` of functions of `W~` on nodes T (n,) of a graph."""

    @abstractmethod
    def blocks(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> FloatArray:
        """`f(W~)[T, T]` of every function, shape (n_functions, n, n).

        The spectral error is at most `tolerance` times each function's maximum.
        """


class SpectralMoments(GraphMoments):
    """Exact blocks, from all eigenvectors of `W~`."""

    def __init__(self, graph: Graph, nodes: IntArray) -> None:
        self.values, vectors = dense_spectrum(graph)
        self._rotated = vectors[nodes].T

    def blocks(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> FloatArray:
        turned = self._rotated.T
        return np.stack([(turned * f(self.values)) @ self._rotated for f in functions])


class ChebyshevMoments(GraphMoments):
    """Blocks from Chebyshev moments, which are extended when a function needs a higher degree.

    Parameters
    ----------
    graph, nodes
        The graph, and the nodes T (n,).
    max_bytes
        Memory that the moments may take.
    """

    def __init__(self, graph: Graph, nodes: IntArray, max_bytes: int = MOMENT_BYTES) -> None:
        self._nodes = nodes
        self._places = np.tril_indices(nodes.size)
        size = self._places[0].size
        self._limit = max(int(max_bytes // (8 * max(size, 1))), 32)
        self._powers = ChebyshevColumns(graph, unit_columns(graph.n_nodes, nodes))
        self._moments = np.empty((0, size))
        self._n_moments = 0

    def blocks(
        self, functions: Sequence[SpectralFunction], tolerance: float = MOMENT_TOLERANCE
    ) -> FloatArray:
        coefficients = expanded(functions, [tolerance] * len(functions))
        self._extend(coefficients.shape[1])
        packed = coefficients @ self._moments[: coefficients.shape[1]]
        k = self._nodes.size
        out = np.empty((len(functions), k, k))
        rows, columns = self._places
        out[:, rows, columns] = packed
        out[:, columns, rows] = packed
        return out

    def _extend(self, n_moments: int) -> None:
        if n_moments > self._limit:
            raise NumericalError(
                f"evidence: {n_moments} Chebyshev moments of {self._nodes.size} nodes are "
                f"needed, memory is reserved for {self._limit}; use solver='iterative'"
            )
        if n_moments > self._moments.shape[0]:
            room = min(max(2 * self._moments.shape[0], n_moments), self._limit)
            wider = np.empty((room, self._moments.shape[1]))
            wider[: self._n_moments] = self._moments[: self._n_moments]
            self._moments = wider
        while self._n_moments < n_moments:
            inner = self._powers.advance()[self._nodes]
            self._moments[self._n_moments] = inner[self._places]
            self._n_moments += 1


def unit_columns(n_nodes: int, nodes: IntArray) -> FloatArray:
    """Columns (n_nodes, p) of the identity of nodes (p,)."""
    E = np.zeros((n_nodes, nodes.size))
    E[nodes, np.arange(nodes.size)] = 1.0
    return E


def series_diagonal(
    graph: Graph, function: SpectralFunction, tolerance: float, nodes: IntArray
) -> FloatArray:
    """Diagonal `f(W~)_ii` of nodes (p,), from a column each of half the degree of the series.

    `T_2k(W~)_ii = 2 |T_k e_i|^2 - 1` and `T_2k+1(W~)_ii = 2 (T_k e_i)' T_k+1 e_i - W~_ii`.

    Parameters
    ----------
    graph
        The closed graph.
    function
        Function of eigenvalues of `W~`.
    tolerance
        Error of its series, relative to its maximum.
    nodes
        Node numbers (p,).
    """
    coefficients, found = chebyshev_coefficients(function, tolerance), np.zeros(nodes.size)
    for start in range(0, nodes.size, BLOCK_COLUMNS):
        part = nodes[start : start + BLOCK_COLUMNS]
        columns = ChebyshevColumns(graph, unit_columns(graph.n_nodes, part))
        moments: list[FloatArray] = []
        while len(moments) < coefficients.size:
            moments += columns.double_moments()
        found[start : start + part.size] = coefficients @ moments[: coefficients.size]
    return found


class ChebyshevColumns:
    """Columns `T_k(W~) V` for k = 0, 1, 2, ..., computed in turn."""

    def __init__(self, graph: Graph, V: FloatArray) -> None:
        self._graph, self._start = graph, V
        self._next: FloatArray = V
        self._last: FloatArray | None = None
        self._first: FloatArray | None = None

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
        if self._first is None:  # at the first step, where `T_1 V` comes next
            self._first = np.einsum("ij,ij->j", self._start, self._next)
        square, first = np.einsum("ij,ij->j", self._start, self._start), self._first
        even = 2.0 * np.einsum("ij,ij->j", now, now) - square
        odd = 2.0 * np.einsum("ij,ij->j", now, self._next) - first
        return [even, odd]
