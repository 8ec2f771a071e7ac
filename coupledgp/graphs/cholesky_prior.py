"""Exact priors of whole powers of the Laplacian, by sparse factors, and when they cost least."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from coupledgp.core.budget import SPARSE_RATE, factor_seconds
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.kernel_exact import series_degree
from coupledgp.graphs.precision import power_pattern, precision_work, root_precision
from coupledgp.graphs.priors import BLOCK_COLUMNS, GraphPrior, spread
from coupledgp.ground.memory import available_bytes
from coupledgp.kernels import GraphKernel, RegularizedLaplacianKernel
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.random import FloatArray, IntArray

# Kernels of larger exponents lose accuracy to repeated solves and take the series instead.
MAX_EXPONENT = 8
# Products with a kernel from which mean and variances of all nodes come without a factor: draws
# with a few steps of conjugate gradients each.
POSTERIOR_PRODUCTS = 1000
# Seconds for each node to put a graph in order.
ORDER_SECONDS = 1e-5


class SolvePrior(GraphPrior):
    """`K = (I + s L~)^-p` for a whole number p: a product takes p solves, exact to rounding.

    Parameters
    ----------
    graph
        The graph.
    kernel
        A regularised Laplacian or Matern kernel of whole exponent p.

    Attributes
    ----------
    power, scale : int, float
        p and s.

    Raises
    ------
    InvalidInputError
        The kernel is another one.
    """

    def __init__(self, graph: Graph, kernel: GraphKernel) -> None:
        self.graph, self.kernel = graph, kernel
        self.power, self.scale = power_and_scale(kernel)

    def at(self, kernel: GraphKernel) -> SolvePrior:
        return SolvePrior(self.graph, kernel)

    @cached_property
    def _factor(self) -> BlockFactor:
        return root_precision(self.graph, self.scale).factor

    def _solve(self, V: FloatArray, times: int) -> FloatArray:
        for _ in range(times):
            V = self._factor.solve(V)
        return V

    @cached_property
    def _diagonal(self) -> FloatArray:
        """`K_ii` (n_nodes,), from the inverse of `I + s L~ + t I` to the power p - 1 of t."""
        pattern, p = power_pattern(self.graph, 1), self.power
        slope = np.ones(self.graph.n_nodes)
        factor = BlockFactor(pattern.nodes, pattern.entries(self.scale), slope, p)
        return np.abs(pattern.diagonal(factor.selected()[p - 1]))

    def diagonal(self, nodes: IntArray) -> FloatArray:
        return self._diagonal[nodes] if nodes.size > BLOCK_COLUMNS else super().diagonal(nodes)

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        return self._solve(spread(self.graph, into, V), self.power)[out]

    def gradient_products(self, nodes: IntArray, V: FloatArray) -> FloatArray:
        # d/d log s of (1 + s x)^-r is -r s x / (1 + s x) of it, and s x / (1 + s x) is one less
        # 1 / (1 + s x); a parameter that s is a power of has a multiple of that.
        whole = self._solve(spread(self.graph, nodes, V), self.power)
        slope = (whole - self._solve(whole, 1))[nodes]
        at_zero = self.kernel.spectral_gradient(np.zeros(1))[:, 0]
        share = self.scale / (1.0 + self.scale) * self.kernel.spectral(np.zeros(1))[0]
        return np.stack([factor / share * slope for factor in at_zero])

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal((self.graph.n_nodes, n_samples))
        half, odd = divmod(self.power, 2)
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
        currents *= np.sqrt(self.scale * edges.data[upper])[:, None]
        total = white.copy()
        np.add.at(total, rows, currents / np.sqrt(degrees[rows])[:, None])
        np.subtract.at(total, columns, currents / np.sqrt(degrees[columns])[:, None])
        alone = np.flatnonzero(degrees == 0)  # L~ is one there
        own = rng.standard_normal((alone.size, white.shape[1]))
        total[alone] += np.sqrt(self.scale) * own
        return total


class SolveChoice(NamedTuple):
    """Whether to factorise, and the reason in words."""

    factorise: bool
    reason: str


def choose_solve(graph: Graph, kernel: GraphKernel, tolerance: float) -> SolveChoice:
    """Compare the cost of a posterior by sparse factors and by Chebyshev series.

    A factor of the precision of all nodes gives the mean and every variance. Series of degree q
    take some `POSTERIOR_PRODUCTS` products of `2 q nnz(W)` operations for that. Where that
    precision fills in, products may still be cheaper by `2 p nnz(L)` operations with factors of
    `I + s L~`.

    Parameters
    ----------
    graph, kernel
        The graph and the kernel.
    tolerance
        Error of the series, relative to the kernel's maximum.
    """
    try:
        power, _ = power_and_scale(kernel)
    except InvalidInputError:
        return SolveChoice(False, "no whole power of the Laplacian has this kernel as its inverse")
    degree = series_degree(kernel.spectral, tolerance)
    choice = choose_precision(graph, power, degree)
    if choice.factorise:
        return choice
    entries = precision_work(graph, 1).entries
    if 2 * power * entries < degree * graph.adjacency.nnz:
        reason = f"a factor of {entries / graph.n_nodes:.3g} entries a node costs less than "
        return SolveChoice(True, f"{reason}{degree} terms")
    return choice


def choose_precision(graph: Graph, power: int, n_products: int) -> SolveChoice:
    """Compare the cost of a posterior by a sparse precision and by products with W.

    Parameters
    ----------
    graph
        The closed graph.
    power
        p of `(I + s L~)^-p`.
    n_products
        Products with W in a product with the kernel.
    """
    by_products = POSTERIOR_PRODUCTS * 2.0 * n_products * graph.adjacency.nnz / SPARSE_RATE
    if by_products < ORDER_SECONDS * graph.n_nodes:
        return SolveChoice(False, f"{n_products} terms cost less than any factor")
    work = precision_work(graph, power)
    seconds = factor_seconds(work.flops)
    reason = f"{work.reason}, forecast {seconds:.2g} s, against {by_products:.2g} s by a series of "
    reason += f"{n_products} terms"
    factorise = seconds < by_products and work.bytes < available_bytes()
    return SolveChoice(factorise, reason)


def precision_pays(prior: SolvePrior) -> bool:
    """Whether a factor of the precision given data costs less than conjugate gradients."""
    work = precision_work(prior.graph, prior.power)
    solves = POSTERIOR_PRODUCTS * 4.0 * prior.power * precision_work(prior.graph, 1).entries
    return factor_seconds(work.flops) < solves / SPARSE_RATE and work.bytes < available_bytes()


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
