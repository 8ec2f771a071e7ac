"""Sparse precisions `Q = (I + s L~)^p` of whole powers of the Laplacian, and their cost.

Observations of noise ratio r at nodes i add `w_i = sum of d_i^2 / r` to the diagonal, d being the
scales of the nodes: `M = Q + diag(w)`. All of these matrices have the pattern of `L~^p`, so that it
is put in order and in blocks once, and only numbers are computed for another s, r or w.

Exact priors of whole powers of the Laplacian, by sparse factors, and when they cost least.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from math import comb, inf
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.core.budget import SPARSE_RATE, factor_seconds
from coupledgp.errors import InvalidInputError, MemoryLimitError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.priors import BLOCK_COLUMNS, GraphPrior, spread
from coupledgp.graphs.spectral import series_degree
from coupledgp.ground.compiled import compiled
from coupledgp.ground.memory import available_bytes, check_memory
from coupledgp.kernels import GraphKernel, RegularizedLaplacianKernel
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.linalg.sparse_cholesky import (
    column_counts,
    hanging_trees,
    minimum_degree,
    symmetric_pattern,
)
from coupledgp.linalg.supernodes import Supernodes
from coupledgp.random import FloatArray, IntArray

# Largest number of walks of p steps, which bounds the entries of `L~^p` from above, with which that
# power is formed; largest number of entries of its factor; most operations of a factorisation.
MOST_WALKS, MOST_ENTRIES, MOST_FLOPS = 2**28, 2**29, 1e14
# Largest mean number of walks of two steps from a node, for p steps (p - 1)^2 times it: meshes have
# some 50 of two steps and 350 of three.
WALKS_PER_NODE = 400.0
# Nodes of a graph whose pattern is put in order without a look at its levels, and width of a level
# beyond which that is not tried: a factor would have a dense block of this size.
FEW_NODES, WIDEST_LEVEL = 5000, 5000
# Nodes with more neighbours than this multiple of the mean, and than this number, are hubs; at most
# so many of them are told from the others.
HUB_SHARE, HUB_DEGREE, MOST_HUBS = 8.0, 64, 64
# Operations for each squared entry of a factor's column: factors and entries of the inverse.
FLOPS_PER_SQUARE = 6.0
# Values of a factor's blocks for an entry of it: some are zeros. Blocks of the size of the widest
# column, squared, that wait to be added or extended.
BLOCK_SHARE, WAITING_BLOCKS = 1.4, 10.0
# Bytes of indices for each node and for each entry of the power, while blocks are found.
NODE_BYTES, PATTERN_BYTES = 200.0, 40.0
# Error of `log|M|`, nats, above which a matrix counts as singular to rounding.
MOST_ERROR = 0.1


class PrecisionWork(NamedTuple):
    """Cost of an evaluation with a sparse precision; infinite where no factor is possible.

    Attributes
    ----------
    flops : float
        Operations of a factorisation and of the inverse on the pattern.
    bytes : float
        Peak memory.
    entries : float
        Entries of the Cholesky factor.
    reason : str
        The counts in words.
    """

    flops: float
    bytes: float
    entries: float
    reason: str


class OrderedPower(NamedTuple):
    """Pattern of `L~^p` with an order of elimination.

    Attributes
    ----------
    matrix : csr_array (n_nodes, n_nodes)
        Ones at its entries.
    order : IntArray (n_nodes,)
        Order of elimination.
    counts : IntArray (n_nodes,)
        Entries of each column of its Cholesky factor.
    """

    matrix: sparse.csr_array
    order: IntArray
    counts: IntArray


@lru_cache(maxsize=4)
def precision_work(graph: Graph, power: int) -> PrecisionWork:
    """Forecast the work with `(I + s L~)^power` before the power or a factor is formed.

    Walks of `power` steps bound the entries of the power; a factor of `I + s L~` itself bounds
    that of the power from below. Expanders, whose factors fill in, are known by their wide levels:
    to put them in order would take longer than anything else. The rest is put in order, and the
    entries of the power's factor are counted.

    Parameters
    ----------
    graph
        The closed graph.
    power
        p, at least one.
    """
    walks = count_walks(graph, power)
    # Walks over a hub link all of its neighbours to each other: to put those in order costs most.
    per_node = inf if power == 1 else WALKS_PER_NODE * (power - 1) ** 2
    if walks > min(MOST_WALKS, per_node * graph.n_nodes):
        return PrecisionWork(
            inf, inf, inf, f"{walks:.3g} walks of {power} steps bound the precision's entries"
        )
    width = middle_level(graph) if graph.n_nodes > FEW_NODES else 0
    if width > WIDEST_LEVEL:
        return PrecisionWork(
            inf, inf, inf, f"{width} nodes are as far from one node as the middle one: it fills in"
        )
    for step in dict.fromkeys((1, power)):
        ordered = ordered_power(graph, step)
        entries = float(ordered.counts.sum())
        flops = FLOPS_PER_SQUARE * float(np.square(ordered.counts, dtype=np.float64).sum())
        if entries > MOST_ENTRIES or flops > MOST_FLOPS:
            return PrecisionWork(
                inf, inf, inf, f"a factor of over {entries:.3g} entries and {flops:.2g} operations"
            )
    return PrecisionWork(
        flops,
        peak_bytes(ordered, power),
        entries,
        f"a factor of {entries / graph.n_nodes:.3g} entries a node, {flops:.2g} operations",
    )


def peak_bytes(ordered: OrderedPower, power: int) -> float:
    """Memory of a factor, of the inverse on the pattern, and of the indices."""
    values = BLOCK_SHARE * float(ordered.counts.sum())
    waiting = WAITING_BLOCKS * float(ordered.counts.max()) ** 2
    lower = 0.5 * (ordered.matrix.nnz + ordered.order.size)
    indices = NODE_BYTES * ordered.order.size + PATTERN_BYTES * ordered.matrix.nnz
    return 8.0 * (values + waiting + (power + 4) * lower) + indices


def count_walks(graph: Graph, power: int) -> float:
    """Number of walks of `power` steps, staying included: at least the entries of `L~^power`."""
    links = _links(graph)
    steps = np.ones(graph.n_nodes)
    for _ in range(power):
        steps = links @ steps
    return float(steps.sum())


def hub_nodes(graph: Graph) -> IntArray:
    """Nodes (h,) that are linked to so many others that a factor has them last, ascending.

    There are none where more than `MOST_HUBS` would be: every node of such a graph is near them.
    """
    counts = np.diff(graph.indptr)
    found = np.flatnonzero(counts > max(HUB_SHARE * float(counts.mean()), HUB_DEGREE))
    return found if found.size <= MOST_HUBS else found[:0]


def middle_level(graph: Graph) -> int:
    """Number of nodes at the median distance, in steps, from one end of the graph.

    They separate the near half from the far half. Left out are trees hanging off the graph, which
    fill nothing in, hubs, which are a few full columns, and all but the largest component.
    """
    links = symmetric_pattern(graph.adjacency)
    hubs = hub_nodes(graph)
    if hubs.size:
        kept = np.setdiff1d(np.arange(graph.n_nodes), hubs)
        links = sparse.csr_array(links[kept][:, kept])
    core = np.setdiff1d(np.arange(links.shape[0]), hanging_trees(links))
    if not core.size:
        return 0
    inner = sparse.csr_array(links[core][:, core])
    _, member = csgraph.connected_components(inner, directed=False)
    start = int(np.argmax(member == np.argmax(np.bincount(member))))
    steps = _steps_from(inner.indptr, inner.indices, start)
    steps = _steps_from(inner.indptr, inner.indices, int(np.argmax(steps)))
    sizes = np.bincount(steps[steps >= 0])
    return int(sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)])


@compiled
def _steps_from(indptr, indices, start):  # type: ignore[no-untyped-def]
    steps = np.full(indptr.size - 1, -1, np.int64)
    queue = np.empty(indptr.size - 1, np.int64)
    queue[0], steps[start], size, place = start, 0, 1, 0
    while place < size:
        node = queue[place]
        place += 1
        for entry in range(indptr[node], indptr[node + 1]):
            other = indices[entry]
            if steps[other] < 0:
                steps[other] = steps[node] + 1
                queue[size] = other
                size += 1
    return steps


def _links(graph: Graph) -> sparse.csr_array:
    """Ones (n_nodes, n_nodes) at the edges, and at least one at each diagonal entry."""
    ones = graph.adjacency.astype(bool).astype(np.float64)
    return sparse.csr_array(ones + sparse.eye_array(graph.n_nodes))


@lru_cache(maxsize=4)
def ordered_power(graph: Graph, power: int) -> OrderedPower:
    """Pattern of `L~^power` in an order of elimination, cached for the last graphs.

    Counts of a factor of more than `MOST_ENTRIES` entries are not complete.
    """
    links = _links(graph)
    matrix = links
    for _ in range(power - 1):
        matrix = sparse.csr_array(matrix @ links)
    matrix.sort_indices()
    order = minimum_degree(matrix)
    return OrderedPower(matrix.astype(bool), order, column_counts(matrix, order, MOST_ENTRIES))


class PowerPattern:
    """Matrices `(I + s L~)^p + diag(w)` on their one pattern, for any s and w.

    Entries of the lower triangle are columns after columns in the order of elimination, as
    `Supernodes` has them.

    Parameters
    ----------
    graph
        The closed graph.
    power
        p, at least one.

    Attributes
    ----------
    nodes : Supernodes
        Blocks of columns.
    laplacian : csr_array (n_nodes, n_nodes)
        `L~`.

    Raises
    ------
    MemoryLimitError
        A factor of more than the first power is out of question, see `precision_work`, or a factor
        does not fit in memory.
    """

    def __init__(self, graph: Graph, power: int) -> None:
        advice = "take another kernel or method"
        if power > 1:
            work = precision_work(graph, power)
            if work.bytes == inf:
                raise MemoryLimitError(f"graph: {work.reason} of {graph!r}; {advice}")
        self.graph, self.power = graph, power
        ordered = ordered_power(graph, power)
        needed = peak_bytes(ordered, power)
        check_memory(needed, f"graph: factors of power {power} of {graph!r}", advice)
        nodes = Supernodes.of(ordered.matrix, ordered.order)
        self.laplacian = graph_laplacian(graph)
        current = self.laplacian
        self._powers = np.empty((power, nodes.places.size))  # entries of L~, L~^2, ..., L~^p
        for k in range(power):
            current = current if k == 0 else sparse.csr_array(current @ self.laplacian)
            self._powers[k] = _entries(ordered.matrix, current)[nodes.places]
        # Values come in the order of the blocks from here on.
        self.nodes = nodes._replace(places=np.empty(0, dtype=np.int64))

    def entries(self, scale: float) -> FloatArray:
        """Entries (e,) of `(I + s L~)^p`."""
        p = self.power
        values = np.array([comb(p, k) * scale**k for k in range(1, p + 1)]) @ self._powers
        values[self._diagonal] += 1.0
        return values

    def slope(self, scale: float) -> FloatArray:
        """Derivatives (e,) of the entries in `log s`."""
        p = self.power
        factors = np.array([k * comb(p, k) * scale**k for k in range(1, p + 1)])
        return np.asarray(factors @ self._powers)

    def with_weights(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """Entries (e,), with weights (n_nodes,) added to the diagonal in place."""
        values[self._diagonal] += weights[self.nodes.order]
        return values

    def diagonal(self, values: FloatArray) -> FloatArray:
        """Diagonal (n_nodes,) of entries (e,)."""
        found = np.empty(self.graph.n_nodes)
        found[self.nodes.order] = values[self._diagonal]
        return found

    def inner(self, A: FloatArray, B: FloatArray) -> float:
        """`sum_ij A_ij B_ij` of two symmetric matrices of entries (e,)."""
        return float(2.0 * (A @ B) - A[self._diagonal] @ B[self._diagonal])

    @cached_property
    def _diagonal(self) -> IntArray:
        return self.nodes.entry_starts[:-1]


@lru_cache(maxsize=4)
def power_pattern(graph: Graph, power: int) -> PowerPattern:
    """The pattern of a closed graph, cached for the last graphs."""
    return PowerPattern(graph, power)


def _entries(pattern: sparse.csr_array, matrix: sparse.csr_array) -> FloatArray:
    """Values (e,) of a matrix at the entries of a pattern that contains it, row by row."""
    matrix.sort_indices()
    if matrix.nnz == pattern.nnz:
        return np.asarray(matrix.data)
    keys, held = _keys(pattern), _keys(matrix)
    values = np.zeros(pattern.nnz)
    values[np.searchsorted(keys, held)] = matrix.data
    return values


def _keys(matrix: sparse.csr_array) -> IntArray:
    n = matrix.shape[0]
    return np.repeat(n * np.arange(n), np.diff(matrix.indptr)) + matrix.indices


def root_precision(graph: Graph, scale: float) -> ObservedPrecision:
    """`I + s L~`, of power one and without weights."""
    return observed_precision(power_pattern(graph, 1), scale, np.zeros(graph.n_nodes))


_ALIVE: WeakValueDictionary[tuple[PowerPattern, str, str], ObservedPrecision]
_ALIVE = WeakValueDictionary()


def observed_precision(
    pattern: PowerPattern, scale: float, weights: FloatArray
) -> ObservedPrecision:
    """The precision of these values; one that is in memory is returned again.

    Evidence and posterior at one place share a factor like this, whose scales may differ in the
    last bits. Arguments are those of `ObservedPrecision`.
    """
    key = pattern, f"{scale:.12g}", f"{weights.sum():.12g}"
    found = _ALIVE.get(key)
    if found is None or not np.allclose(found.weights, weights, rtol=1e-11, atol=0.0):
        found = _ALIVE[key] = ObservedPrecision(pattern, scale, weights)
    return found


class ObservedPrecision:
    """`M = (I + s L~)^p + diag(w)`, the precision of the function given observations.

    Parameters
    ----------
    pattern
        Pattern of p.
    scale
        s.
    weights
        w (n_nodes,), not negative.

    Attributes
    ----------
    log_determinant : float
        `log|M|`.

    Raises
    ------
    NumericalError
        M is not positive definite to rounding.
    """

    def __init__(self, pattern: PowerPattern, scale: float, weights: FloatArray) -> None:
        self.pattern, self.scale, self.weights = pattern, scale, weights
        self.factor = BlockFactor(pattern.nodes, self._entries())
        self.log_determinant = self.factor.log_determinant

    def _entries(self) -> FloatArray:
        return self.pattern.with_weights(self.pattern.entries(self.scale), self.weights)

    def root_product(self, V: FloatArray, times: int = 1) -> FloatArray:
        """`(I + s L~)^times V` for V (n_nodes, k)."""
        for _ in range(times):
            V = V + self.scale * (self.pattern.laplacian @ V)
        return V

    def solve(self, V: FloatArray) -> FloatArray:
        """`M^-1 V` for V (n_nodes, k).

        Powers of `I + s L~` are rounded; products with it, one after the other, are more accurate
        and correct the solution, which gains four digits for p = 2 and s = 1e6.
        """
        found = self.factor.solve(V)
        if self.pattern.power == 1:
            return found
        known = self.root_product(found, self.pattern.power) + self.weights[:, None] * found
        return found + self.factor.solve(V - known)

    @cached_property
    def inverse(self) -> FloatArray:
        """Entries (e,) of `M^-1` on the pattern.

        Raises
        ------
        NumericalError
            Rounding of M changes `log|M|` by more than `MOST_ERROR`.
        """
        found: FloatArray = self.factor.selected()[0]
        error = np.finfo(float).eps * self.pattern.inner(np.abs(found), np.abs(self._entries()))
        if not error <= MOST_ERROR:
            raise NumericalError(
                f"precision of {self.weights.size} nodes at scale {self.scale:.3g} is known to "
                f"{error:.2g} nats only: shorten the range or lower the exponent"
            )
        return found

    @cached_property
    def variances(self) -> FloatArray:
        """Diagonal (n_nodes,) of `M^-1`."""
        return self.pattern.diagonal(self.inverse)


def graph_laplacian(graph: Graph) -> sparse.csr_array:
    """`L~`, shape (n_nodes, n_nodes), from edges without the self-loops, which cancel in it.

    Self-loops of an irregular triangulation are so large that `1 - W~_ii` has few digits left.
    Nodes without edges and without self-loops have `L~_ii = 1`.
    """
    matrix = graph.adjacency.tocoo()
    links = matrix.row != matrix.col
    rows, columns, weights = matrix.row[links], matrix.col[links], matrix.data[links]
    n, degrees = graph.n_nodes, graph.degrees
    between = np.ones(n)
    np.divide(np.bincount(rows, weights, minlength=n), degrees, out=between, where=degrees > 0)
    roots = np.sqrt(degrees)
    off = sparse.coo_array((-weights / (roots[rows] * roots[columns]), (rows, columns)), (n, n))
    return sparse.csr_array(off + sparse.diags_array(between))


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
    by_products = POSTERIOR_PRODUCTS * 2.0 * degree * graph.adjacency.nnz / SPARSE_RATE
    reason = f"{degree} terms cost less than any factor"
    if by_products >= ORDER_SECONDS * graph.n_nodes:
        work = precision_work(graph, power)
        seconds = factor_seconds(work.flops)
        reason = (
            f"{work.reason}, forecast {seconds:.2g} s, against {by_products:.2g} s by a series of "
            f"{degree} terms"
        )
        if seconds < by_products and work.bytes < available_bytes():
            return SolveChoice(True, reason)
    entries = precision_work(graph, 1).entries
    if 2 * power * entries < degree * graph.adjacency.nnz:
        own = f"a factor of {entries / graph.n_nodes:.3g} entries a node"
        return SolveChoice(True, f"{own} costs less than {degree} terms")
    return SolveChoice(False, reason)


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
