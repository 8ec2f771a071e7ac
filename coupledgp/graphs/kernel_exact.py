"""Exact graph kernels: dense by eigenvectors, or as operators by Chebyshev series of `W~`."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.fft import dct
from scipy.sparse.linalg import LinearOperator

from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph
from coupledgp.graphs.products import PARALLEL_WORK, by_column_blocks, fused_product
from coupledgp.graphs.spectrum import dense_spectrum
from coupledgp.ground.devices import CPU, DeviceLike, check_device_memory, parse_device
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.kernels.graph_families import GraphKernelLike, parse_graph_kernel
from coupledgp.random import FloatArray

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
