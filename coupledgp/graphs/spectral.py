"""The spectrum of `W~`: by Lanczos where the graph is large, dense where it is small.

Products with `W~` in one pass over memory: the inner loop of every series and hop.

Exact graph kernels: dense by eigenvectors, or as operators by Chebyshev series of `W~`.

Blocks `f(W~)[T, T]` of many functions f from one pass over the graph.

A fit needs the same block at other parameters again and again. On a small graph all eigenvectors
are known; on a large one the Chebyshev moments `T_k(W~)[T, T]` are computed once, up to the degree
that some function has needed, and every function is a sum of these moments: no product with `W~` is
made twice. Golub and Meurant (2010); Weisse et al. (2006), the kernel polynomial method.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.fft import dct
from scipy.sparse.linalg import LinearOperator

from coupledgp.errors import NumericalError
from coupledgp.graphs.graph import Graph, check_graph
from coupledgp.ground.compiled import compiled, share_rows
from coupledgp.ground.devices import CPU, DeviceLike, check_device_memory, parse_device
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.kernels.graph_families import GraphKernelLike, parse_graph_kernel
from coupledgp.random import FloatArray, IntArray, Seed, as_rng


class Eigenpairs(NamedTuple):
    """Eigenvalues (k,) of `W~`, ascending, and their eigenvectors (n_nodes, k)."""

    values: FloatArray
    vectors: FloatArray


@lru_cache(maxsize=4)
def dense_spectrum(graph: Graph) -> Eigenpairs:
    """All eigenvalues and eigenvectors of `W~`, O(n^3); cached for the last four graphs.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import dense_spectrum
    >>> triangle = cgp.Graph.from_edges([0, 1, 2], [1, 2, 0])
    >>> dense_spectrum(triangle).values.round(6).tolist()
    [-0.5, -0.5, 1.0]
    """
    values, vectors = linalg.eigh(graph.normalized_adjacency.toarray(), overwrite_a=True)
    return Eigenpairs(np.clip(values, -1.0, 1.0), vectors)


class SpectralDensity(NamedTuple):
    """A quadrature of the mean diagonal: `mean_i g(W~)_ii ~ sum_k weights_k g(eigenvalues_k)`.

    The eigenvalues are Ritz values, approximate ones; both arrays have shape (k,).
    """

    eigenvalues: FloatArray
    weights: FloatArray


def lanczos_density(
    graph: Graph, n_steps: int = 24, n_probes: int = 4, generator: Seed = 0
) -> SpectralDensity:
    """Estimate the density of eigenvalues of `W~` from random sign vectors.

    Exact for polynomials of degree below `2 n_steps` but for the probes' noise, which is of
    relative order `sqrt(2 / (n_probes n_nodes))`. Golub and Meurant (2010), chapter 11.

    Parameters
    ----------
    graph
        The graph.
    n_steps
        Number of Lanczos steps of each probe: products with `W~`.
    n_probes
        Number of random sign vectors.
    generator
        Seed of the sign vectors.
    """
    # One probe after the other: the vectors of all steps of one are alive at a time.
    rng = as_rng(generator)
    parts = [_one_probe(graph, n_steps, rng) for _ in range(n_probes)]
    return SpectralDensity(
        np.concatenate([part.eigenvalues for part in parts]),
        np.concatenate([part.weights for part in parts]) / n_probes,
    )


def ritz_values(graph: Graph, n_values: int, generator: Seed = 0) -> FloatArray:
    """Ritz values (r,) of `W~` from one random sign vector, at most `n_values`, ascending."""
    return np.sort(_one_probe(graph, n_values, as_rng(generator)).eigenvalues)


def _one_probe(graph: Graph, n_steps: int, rng: np.random.Generator) -> SpectralDensity:
    """Gauss rule of one random sign vector, by Lanczos with full reorthogonalisation.

    The block method of `inference.linalg.lanczos` rounds differently, and the basis of a repeated
    eigenvalue, hence the draws of a posterior on a regular graph, follows the last bits of this.
    """
    matrix = graph.normalized_adjacency
    basis = [rng.choice([-1.0, 1.0], graph.n_nodes) / np.sqrt(graph.n_nodes)]
    diagonal, off = [], []
    for step in range(min(n_steps, graph.n_nodes)):
        vector = matrix @ basis[step]
        diagonal.append(float(basis[step] @ vector))
        for _ in range(2):  # once leaves rounding of the size of the removed part
            for past in basis:
                vector -= (past @ vector) * past
        norm = float(np.linalg.norm(vector))
        if norm < 1e-10 or step + 1 == min(n_steps, graph.n_nodes):
            break
        off.append(norm)
        basis.append(vector / norm)
    values, vectors = linalg.eigh_tridiagonal(np.array(diagonal), np.array(off))
    return SpectralDensity(np.clip(values, -1.0, 1.0), vectors[0] ** 2)


# Multiply-adds from which threads share the rows: below, starting them takes longer than the work.
PARALLEL_WORK = 20_000_000
# Numbers in a block of columns (2 MiB): a few such blocks stay in the cache.
BLOCK_ENTRIES = 2**18


@compiled
def _rows(first, last, indptr, indices, data, V, a, b, S, c, out):  # type: ignore[no-untyped-def]
    for row in range(first, last):
        for k in range(V.shape[1]):
            out[row, k] = b * V[row, k] + c * S[row, k]
        for entry in range(indptr[row], indptr[row + 1]):
            weight, column = a * data[entry], indices[entry]
            for k in range(V.shape[1]):
                out[row, k] += weight * V[column, k]


def column_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Slices of columns, each so narrow that a block of `n_rows` rows stays in the cache."""
    width = max(BLOCK_ENTRIES // max(n_rows, 1), 8)
    return [slice(k, min(k + width, n_columns)) for k in range(0, n_columns, width)]


def by_column_blocks(
    product: Callable[[FloatArray], FloatArray], V: FloatArray, n_rows: int, shared: bool = False
) -> FloatArray:
    """Apply a linear map of many steps to V (n_rows, k), some columns at a time.

    The columns of a block stay in the cache from step to step.

    Parameters
    ----------
    product
        The map, (n_rows, b) -> (m, b).
    V
        Columns (n_rows, k).
    n_rows
        Number of rows that the map works on.
    shared
        Whether threads share the blocks; for a map that starts no threads itself.
    """
    parts = column_blocks(n_rows, V.shape[1])
    if len(parts) < 2:
        return product(V)
    found: list[FloatArray] = [V] * len(parts)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            for k in range(first, last):
                found[k] = product(np.ascontiguousarray(V[:, parts[k]]))

    if shared:
        share_rows(work, len(parts), least=1, most=1)
    else:
        work(iter([(0, len(parts))]))
    return np.hstack(found)


def fused_product(
    graph: Graph,
    V: FloatArray,
    a: float = 1.0,
    b: float = 0.0,
    c: float = 0.0,
    S: FloatArray | None = None,
) -> FloatArray:
    """`a W~ V + b V + c S`, shape (n_nodes, k), for V and S of that shape; S is zero if None.

    Rows are added up in the same order whatever the number of threads.
    """
    V, matrix = np.ascontiguousarray(V, dtype=np.float64), graph.normalized_adjacency
    n_rows = matrix.shape[0]
    other = V if S is None else np.ascontiguousarray(S, dtype=np.float64)
    out = np.empty((n_rows, V.shape[1]))
    given = (
        matrix.indptr,
        matrix.indices,
        matrix.data,
        V,
        a,
        b,
        other,
        c if S is not None else 0.0,
    )
    if (matrix.nnz + n_rows) * V.shape[1] <= PARALLEL_WORK:
        _rows(0, n_rows, *given, out)
        return out

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            _rows(first, last, *given, out)

    share_rows(work, n_rows, least=1, most=n_rows)
    return out


# Blocks of as many numbers as there are nodes and columns that are alive at once.
BLOCKS = 6
# Error of a series, relative to the function's maximum, where no other one is asked for.
SERIES_TOLERANCE = 1e-8
# Error at one, relative to the function's maximum, that shows a peak between the points.
PEAK = 0.1
# Longest series that is computed: one product with it takes as many products with `W~`.
DEGREE_LIMIT = 2**13
# Nodes up to which threads share blocks of columns: on larger graphs they share the rows.
NARROW_GRAPH = 2**15


def dense_kernel(graph: Graph, kernel: GraphKernelLike) -> FloatArray:
    """The kernel matrix of all nodes, shape (n_nodes, n_nodes).

    `K = g(W~)`, or `diag(s) g(W~) diag(s)` with the graph's `node_scale` s.

    Parameters
    ----------
    graph
        The graph.
    kernel
        A `GraphKernel`, or a name of `parse_graph_kernel`.

    Raises
    ------
    InvalidInputError
        The graph is no `Graph`, or no kernel has that name.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import HeatKernel, dense_kernel
    >>> pair = cgp.Graph.from_edges([0], [1])
    >>> dense_kernel(pair, HeatKernel(1.0)).round(3).tolist()  # (1 + exp(-2)) / 2 on the diagonal
    [[0.568, 0.432], [0.432, 0.568]]
    """
    values, vectors = dense_spectrum(check_graph(graph))
    K: FloatArray = (vectors * parse_graph_kernel(kernel).spectral(values)) @ vectors.T
    return K if graph.node_scale is None else K * np.outer(graph.node_scale, graph.node_scale)


def chebyshev_coefficients(
    function: Callable[[FloatArray], FloatArray], tolerance: float = SERIES_TOLERANCE
) -> FloatArray:
    """Coefficients (degree + 1,) of a Chebyshev series `sum_k c_k T_k(x)` of a function.

    The function is interpolated at more and more Chebyshev points, twice as many each time, until
    the last quarter of the coefficients is below the tolerance; then the series is cut where the
    rest is.

    Parameters
    ----------
    function
        Function of an array of numbers in [-1, 1].
    tolerance
        Largest error on [-1, 1], relative to the maximum of `|function|`.

    Raises
    ------
    NumericalError
        The tolerance needs more than `DEGREE_LIMIT` terms.
    """
    size, end = 32, float(function(np.ones(1))[0])
    while size <= 2 * DEGREE_LIMIT:
        points = np.cos((np.arange(size) + 0.5) * np.pi / size)
        values = function(points)
        c = dct(values, type=2) / size
        c[0] /= 2.0
        goal = tolerance * max(np.abs(values).max(), np.finfo(float).tiny)
        left = np.cumsum(np.abs(c)[::-1])[::-1]
        # A quarter of coefficients below the tolerance shows that the series has converged, unless
        # all points missed a peak at one, as a kernel's of a long diffusion is.
        missed = abs(c.sum() - end) > PEAK * max(np.abs(values).max(), abs(end))
        if left[3 * size // 4] <= goal and not missed:
            return c[: int(np.count_nonzero(left > goal)) or 1]
        size *= 2
    raise NumericalError(
        f"tolerance: expected one that {DEGREE_LIMIT} Chebyshev terms reach, got {tolerance:g}; "
        "use a larger tolerance, a shorter scale or the dense kernel"
    )


def series_degree(
    function: Callable[[FloatArray], FloatArray], tolerance: float = SERIES_TOLERANCE
) -> int:
    """Degree of a function's Chebyshev series; twice the limit where no series is long enough."""
    try:
        return chebyshev_coefficients(function, tolerance).size - 1
    except NumericalError:
        return 2 * DEGREE_LIMIT


class SeriesOperator(LinearOperator):
    """A function of `W~` as an operator: `sum_k c_k T_k(W~)`, symmetric, (n_nodes, n_nodes).

    One product costs `degree` products with `W~`, so it scales with the number of edges.

    Parameters
    ----------
    graph
        The graph.
    function
        A graph kernel or its name, or a function on [-1, 1] such as `kernel.root` (for samples).
    tolerance
        Bound of the spectral norm of the error, relative to the function's maximum.
    device
        Where products are computed: None or `"cpu"`, `"cuda"`, `"cuda:1"`, `"auto"` or a
        `torch.device`. Columns go there and come back once in each product.

    Raises
    ------
    InvalidInputError
        There is no such device, or no such kernel.
    MemoryLimitError
        The matrix, or the columns of a product, do not fit into the memory of the device.
    NumericalError
        The tolerance needs more than `DEGREE_LIMIT` terms.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import HeatKernel, SeriesOperator, dense_kernel
    >>> path, kernel = cgp.Graph.from_edges([0, 1, 2], [1, 2, 3]), HeatKernel(4.0)
    >>> K = SeriesOperator(path, kernel)
    >>> bool(np.allclose(K @ np.arange(4.0), dense_kernel(path, kernel) @ np.arange(4.0)))
    True
    """

    def __init__(
        self,
        graph: Graph,
        function: Callable[[FloatArray], FloatArray] | GraphKernelLike,
        tolerance: float = SERIES_TOLERANCE,
        device: DeviceLike = None,
    ) -> None:
        where = parse_device(device)
        if not callable(function):
            function = parse_graph_kernel(function, "function").spectral
        super().__init__(np.float64, (graph.n_nodes, graph.n_nodes))
        self.graph = graph
        self.coefficients = chebyshev_coefficients(function, tolerance)
        self._there = None if where == CPU else DeviceSeries(graph, self.coefficients, where)

    @property
    def degree(self) -> int:
        """Degree of the series: the number of products with `W~` in one product."""
        return self.coefficients.size - 1

    def _matmat(self, V: FloatArray) -> FloatArray:
        V, n = np.asarray(V, dtype=np.float64), self.shape[0]
        if self._there is not None:
            return self._there.product(V)
        shared = self.degree * self.graph.indices.size * V.shape[1] > PARALLEL_WORK
        return by_column_blocks(self._series, V, n, shared and n <= NARROW_GRAPH)

    def _series(self, before: FloatArray) -> FloatArray:
        total = self.coefficients[0] * before
        if self.degree == 0:
            return total
        current = fused_product(self.graph, before)
        total += self.coefficients[1] * current
        for c in self.coefficients[2:]:
            following = fused_product(self.graph, current, 2.0, 0.0, -1.0, before)
            before, current = current, following
            total += c * current
        return total

    def _matvec(self, v: FloatArray) -> FloatArray:
        return self._matmat(np.asarray(v).reshape(-1, 1))[:, 0]

    def _adjoint(self) -> SeriesOperator:
        return self


class DeviceSeries:
    """`sum_k c_k T_k(W~) V` of a graph on a device.

    Parameters
    ----------
    graph
        The graph.
    coefficients
        Coefficients c (degree + 1,).
    device
        The device; the matrix stays there.

    Raises
    ------
    MemoryLimitError
        The matrix does not fit there.
    """

    def __init__(self, graph: Graph, coefficients: FloatArray, device: torch.device) -> None:
        own = graph.normalized_adjacency
        self._check(device, 16.0 * own.nnz, own.shape[0])
        self.coefficients, self.device = coefficients.tolist(), device
        indptr, indices, data = (
            torch.tensor(a, device=device) for a in (own.indptr, own.indices, own.data)
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
            self.matrix = torch.sparse_csr_tensor(
                indptr, indices, data, own.shape, device=device, check_invariants=False
            )

    @staticmethod
    def _check(device: torch.device, n_bytes: float, n_nodes: int) -> None:
        what = f"graph: products of {n_nodes} nodes"
        check_device_memory(device, n_bytes, what, "take device=None, which is the CPU")

    def product(self, V: FloatArray) -> FloatArray:
        """The series times V (n_nodes, k)."""
        self._check(self.device, 8.0 * BLOCKS * V.size, V.shape[0])
        before = torch.tensor(V, device=self.device)
        total = self.coefficients[0] * before
        if len(self.coefficients) > 1:
            current: Tensor = self.matrix @ before
            total += self.coefficients[1] * current
            for c in self.coefficients[2:]:
                before, current = current, 2.0 * (self.matrix @ current) - before
                total += c * current
        found: FloatArray = total.cpu().numpy()
        return found


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
