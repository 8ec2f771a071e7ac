"""Exact priors of integer powers of the Laplacian, by a sparse factorisation of `I + s L~`."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.elimination import ShiftedLaplacianFactor
from coupledgp.inference.linalg.sparse_cholesky import factor_entries, minimum_degree
from coupledgp.inference.nodes.priors import GraphPrior, spread
from coupledgp.kernels import GraphKernel, RegularizedLaplacianKernel
from coupledgp.kernels.graph.exact import series_degree
from coupledgp.random import FloatArray, IntArray

# Kernels of larger exponents lose accuracy to repeated solves and take the series instead.
MAX_EXPONENT = 8
# Largest number of entries of a factor that is made: 2^28 of them take 4 GiB.
MAX_ENTRIES = 2**28


class SolvePrior(GraphPrior):
    """`K = (I + s L~)^-r` for a whole number r: a product takes r solves, exact to rounding.

    Parameters
    ----------
    graph
        The graph.
    kernel
        A regularised Laplacian or Matern kernel of whole exponent r.
    order
        Elimination order of the nodes (n_nodes,); one of minimum degree if None.

    Raises
    ------
    InvalidInputError
        The kernel is another one.
    """

    def __init__(self, graph: Graph, kernel: GraphKernel, order: IntArray | None = None) -> None:
        self.graph, self.kernel = graph, kernel
        self._power, self._scale = power_and_scale(kernel)
        self._order = minimum_degree(graph.adjacency) if order is None else order

    def at(self, kernel: GraphKernel) -> SolvePrior:
        return SolvePrior(self.graph, kernel, self._order)

    @cached_property
    def _factor(self) -> ShiftedLaplacianFactor:
        return ShiftedLaplacianFactor(self.graph, self._scale, self._order)

    def _solve(self, V: FloatArray, times: int) -> FloatArray:
        for _ in range(times):
            V = self._factor.solve(V)
        return V

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        return self._solve(spread(self.graph, into, V), self._power)[out]

    def gradient_products(self, nodes: IntArray, V: FloatArray) -> FloatArray:
        # d/d log s of (1 + s x)^-r is -r s x / (1 + s x) of it, and s x / (1 + s x) is one less
        # 1 / (1 + s x); a parameter that s is a power of has a multiple of that.
        whole = self._solve(spread(self.graph, nodes, V), self._power)
        slope = (whole - self._solve(whole, 1))[nodes]
        at_zero = self.kernel.spectral_gradient(np.zeros(1))[:, 0]
        share = self._scale / (1.0 + self._scale) * self.kernel.spectral(np.zeros(1))[0]
        return np.stack([factor / share * slope for factor in at_zero])

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal((self.graph.n_nodes, n_samples))
        half, odd = divmod(self._power, 2)
        if odd:  # one more solve, of noise whose covariance is I + s L~ itself
            noise = self._laplacian_noise(noise, rng)
        return self._solve(noise, half + odd)[nodes]

    def _laplacian_noise(self, white: FloatArray, rng: np.random.Generator) -> FloatArray:
        """White noise (n_nodes, k) plus `sqrt(s)` times draws of covariance `L~`.

        The latter are made of one random number for each edge.
        """
        degrees = self.graph.degrees
        edges = self.graph.adjacency.tocoo()
        upper = edges.row < edges.col
        rows, columns = edges.row[upper], edges.col[upper]
        currents = rng.standard_normal((rows.size, white.shape[1]))
        currents *= np.sqrt(self._scale * edges.data[upper])[:, None]
        total = white.copy()
        np.add.at(total, rows, currents / np.sqrt(degrees[rows])[:, None])
        np.subtract.at(total, columns, currents / np.sqrt(degrees[columns])[:, None])
        alone = np.flatnonzero(degrees == 0)  # L~ is one there
        own = rng.standard_normal((alone.size, white.shape[1]))
        total[alone] += np.sqrt(self._scale) * own
        return total


class SolveChoice(NamedTuple):
    """Whether to factorise `I + s L~`, and the reason in words."""

    factorise: bool
    reason: str


def choose_solve(
    graph: Graph, kernel: GraphKernel, tolerance: float
) -> tuple[SolveChoice, IntArray | None]:
    """Compare the cost of a product by solves and by the Chebyshev series.

    A product takes `2 r nnz(L)` multiply-adds by solves and `q nnz(W)` by a series of degree q. The
    entries of L are counted in an order of minimum degree, and the count stops where solves are
    more expensive.

    Parameters
    ----------
    graph, kernel
        The graph and the kernel.
    tolerance
        Error of the series, relative to the kernel's maximum.

    Returns
    -------
    (SolveChoice, IntArray or None)
        The choice, and the elimination order (n_nodes,) if one was computed.
    """
    try:
        power, _ = power_and_scale(kernel)
    except InvalidInputError as error:
        return SolveChoice(False, f"series: {error}"), None
    degree = series_degree(kernel.spectral, tolerance)
    by_series = degree * graph.adjacency.nnz
    budget = min(by_series // (2 * power), MAX_ENTRIES)
    if budget <= graph.n_nodes:
        return SolveChoice(False, f"series: {degree} terms cost less than any factor"), None
    order = minimum_degree(graph.adjacency)
    entries = factor_entries(graph.adjacency, order, budget)
    per_node = f"{entries / graph.n_nodes:.3g}"
    if entries > budget:
        reason = f"series: {degree} terms cost less than a factor of over {per_node} entries a node"
        return SolveChoice(False, reason), None
    reason = f"cholesky: a factor of {per_node} entries a node costs less than {degree} terms"
    return SolveChoice(True, reason), order


def power_and_scale(kernel: GraphKernel) -> tuple[int, float]:
    """`(r, s)` of a kernel `(I + s L~)^-r` with a whole number r.

    Raises
    ------
    InvalidInputError
        The kernel is another one.
    """
    if isinstance(kernel, RegularizedLaplacianKernel):
        power = round(kernel.exponent)
        x = np.linspace(-1.0, 1.0, 5)
        # A subclass may be another function of the same parameters.
        own = np.allclose(kernel.spectral(x), (1.0 + kernel.scale * (1.0 - x)) ** -kernel.exponent)
        if own and power == kernel.exponent and 1 <= power <= MAX_EXPONENT:
            return power, kernel.scale
    raise InvalidInputError(
        "kernel: expected a regularised Laplacian or Matern kernel whose exponent is a whole "
        f"number up to {MAX_EXPONENT}, got {kernel!r}"
    )
