"""Leading eigenpairs of `W~`, of which wide kernels on large graphs consist."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy import linalg

from coupledgp.graphs import Graph
from coupledgp.graphs.elimination import loopless_laplacian, shifted_laplacian
from coupledgp.graphs.krylov import BLOCK, Operator, top_pairs
from coupledgp.graphs.products import fused_product
from coupledgp.graphs.spectrum import Eigenpairs
from coupledgp.ground.compiled import compiled
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.linalg.lanczos import Lanczos, gauss
from coupledgp.linalg.selected_inverse import canonical
from coupledgp.linalg.sparse_cholesky import factor_entries, minimum_degree
from coupledgp.linalg.supernodes import Supernodes
from coupledgp.random import FloatArray, IntArray

# Residual of a pair that is kept; the error of its eigenvalue is about the square of that.
RESIDUAL = 1e-9
# Nodes up to which all of the matrix is decomposed: a second.
DENSE_NODES = 2048
# Distance `1 - l` of the least wanted eigenvalue l beyond which a short polynomial of `W~` tells
# the wanted eigenvalues from the others.
FAR = 0.2
# Distance below which it is measured again by the factor, in some Lanczos steps.
UNRESOLVED, INVERSE_STEPS = 5e-3, 16
# Nodes up to which several vectors and all of these Lanczos steps estimate numbers of eigenvalues.
COUNT_NODES, COUNT_STEPS = 200_000, 64
# `1 / s` as a share of the distance, and degree of the polynomial of `(I + s L~)^-1`. The factor is
# made again with a larger s if the distance turns out to be less than the share `NEAR`.
SHIFT, INVERSE_DEGREE, NEAR = 0.4, 4, 0.5
# Least distance of eigenvalues that is resolved, for a unit of time of one.
LEAST = 1e-7
# Tries, with a distance that is larger by this factor each time, where few pairs converge.
MAX_TRIES, WIDER = 3, 1.6
# Most nodes at one distance from a node for which a factor is tried: separators are about as large.
WIDEST_LEVEL = 6000
# Most entries of a factor: as many as products with the polynomial of `W~` have multiply-adds,
# and 2 GiB of them.
MOST_ENTRIES = 2**27
# Value at one of a polynomial that is at most one on the unwanted eigenvalues.
TOP = 1e4
# Dimension of the space in which pairs are found, as a multiple of their number, and time of an
# operation of sparse algebra as a multiple of one of dense algebra.
SPACE, SPARSE_COST = 1.75, 10.0


@lru_cache(maxsize=3)
def leading_eigenpairs(graph: Graph, n_pairs: int) -> Eigenpairs:
    """The greatest eigenvalues of `W~`, ascending, and their eigenvectors (n_nodes, n).

    At most `n_pairs` are returned, and fewer where the last ones have not converged: always all
    pairs above some eigenvalue. Small graphs are decomposed whole. On grids, meshes and roads the
    wanted eigenvalues are close to one, and block Lanczos steps are made with a sparse factor of
    `(1 + e) I - W~`; where factors fill in, with a Chebyshev polynomial of `W~`.

    Parameters
    ----------
    graph
        The graph.
    n_pairs
        Number of pairs wanted.
    """
    n_pairs = min(n_pairs, graph.n_nodes)
    plan = pairs_plan(graph, n_pairs)
    if plan.route == "dense":
        matrix, first = graph.normalized_adjacency.toarray(), graph.n_nodes - n_pairs
        last = graph.n_nodes - 1
        values, vectors = linalg.eigh(matrix, overwrite_a=True, subset_by_index=[first, last])
        return Eigenpairs(np.clip(values, -1.0, 1.0), np.ascontiguousarray(vectors))
    distance = plan.distance
    for _ in range(MAX_TRIES):
        if plan.route == "factor":
            operator, distance = _by_factor(graph, n_pairs, plan, distance)
        else:
            product, degree = partial(fused_product, graph), polynomial_degree(distance)
            operator = chebyshev_power(product, -1.0, 1.0 - distance, degree)
        rng = np.random.default_rng(0)
        found = top_pairs(operator, graph.n_nodes, n_pairs, rng)
        pairs = checked_pairs(graph, found.vectors)
        if pairs.values.size == n_pairs:
            break
        distance *= WIDER
    return pairs


class PairsPlan(NamedTuple):
    """The chosen way to compute eigenpairs.

    Attributes
    ----------
    route : str
        `"dense"`, `"factor"` or `"polynomial"`.
    distance : float
        Estimate of `1 - l` of the least wanted eigenvalue l.
    order : IntArray (n_nodes,) or None
        Order of elimination of a factor.
    entries : int
        Number of entries of the factor.
    """

    route: str
    distance: float
    order: IntArray | None = None
    entries: int = 0


@lru_cache(maxsize=4)
def pairs_plan(graph: Graph, n_pairs: int) -> PairsPlan:
    """Choose the way to the leading eigenpairs of a graph without computing any."""
    n = graph.n_nodes
    if n <= DENSE_NODES or 2 * n_pairs > n:
        return PairsPlan("dense", 2.0)
    distance = max(1.0 - eigenvalue_counts(graph).quantile(margin(n_pairs)), LEAST)
    if graph.node_scale is not None:
        # Eigenvalues of irregular triangulations are so near to one that no product tells them
        # apart.
        order = minimum_degree(graph.adjacency)
        entries = factor_entries(graph.adjacency, order)
        return PairsPlan("factor", min(distance, UNRESOLVED), order, entries)
    if distance < FAR and _widest_level(graph.indptr, graph.indices) <= WIDEST_LEVEL:
        order, most = minimum_degree(graph.adjacency), most_entries(graph, distance)
        entries = factor_entries(graph.adjacency, order, most)
        if entries <= most:
            return PairsPlan("factor", distance, order, entries)
    return PairsPlan("polynomial", distance)


class PairsWork(NamedTuple):
    """Work of computing eigenpairs.

    Attributes
    ----------
    flops : float
        Operations of dense algebra; one of sparse algebra counts `SPARSE_COST` times.
    bytes : float
        Memory at the peak.
    """

    flops: float
    bytes: float


def leading_work(graph: Graph, n_pairs: int) -> PairsWork:
    """Forecast of the work of `leading_eigenpairs`, within a factor of about two.

    A space of some 1.9 times the number of pairs is needed.
    """
    n_pairs, n = min(n_pairs, graph.n_nodes), graph.n_nodes
    plan = pairs_plan(graph, n_pairs)
    if plan.route == "dense":
        return PairsWork(4.0 * n**3, 24.0 * n**2)
    size = min(SPACE * n_pairs + 3 * BLOCK, n)
    dense = 4.0 * n * size**2 + 2.0 * n * size * n_pairs + 8.0 * size**3
    if plan.route == "factor":
        sparse = 4.0 * plan.entries * (INVERSE_DEGREE * size + plan.entries / n)
    else:
        degree = polynomial_degree(plan.distance)
        sparse = 2.0 * degree * (graph.indices.size + n) * size
    memory = 8.0 * (n * (size + 2 * n_pairs + 8 * BLOCK) + 4 * plan.entries)
    return PairsWork(dense + SPARSE_COST * sparse, memory)


def _by_factor(
    graph: Graph, n_pairs: int, plan: PairsPlan, distance: float
) -> tuple[Operator, float]:
    """A polynomial of `(I + s L~)^-1` that is at most one beyond a distance, and the distance."""
    starts, nodes = random_signs(graph), None
    while True:
        scale = 1.0 / (SHIFT * distance)
        matrix = canonical(shifted_laplacian(graph, scale))
        if nodes is None:
            assert plan.order is not None
            nodes = Supernodes.of(matrix, plan.order)
        factor = BlockFactor(nodes, matrix.data)
        if distance > UNRESOLVED:
            break
        # Lanczos steps with `W~` do not tell distances as small as that from each other.
        measure = spectral_measure(factor.solve, starts, INVERSE_STEPS)
        theta = measure.quantile(margin(n_pairs))
        found = max((1.0 / theta - 1.0) / scale, 1e-2 / scale, LEAST / graph.time_unit)
        if found >= NEAR * distance:
            break
        distance = found
    edge = 1.0 / (1.0 + scale * distance)
    return chebyshev_power(factor.solve, 0.0, edge, INVERSE_DEGREE), distance


def checked_pairs(graph: Graph, vectors: FloatArray) -> Eigenpairs:
    """Eigenpairs of `W~`, ascending: all down to the first residual that is too large.

    Parameters
    ----------
    graph
        The graph.
    vectors
        Orthonormal columns (n_nodes, k), the last one of the greatest eigenvalue.
    """
    image = laplacian_product(graph, vectors)
    distances = np.einsum("ij,ij->j", vectors, image)
    image -= vectors * distances
    bad = np.flatnonzero(np.linalg.norm(image, axis=0) > RESIDUAL)
    first = int(bad[-1]) + 1 if bad.size else 0
    order = first + np.argsort(-distances[first:], kind="stable")
    values = np.clip(1.0 - distances[order], -1.0, 1.0)
    return Eigenpairs(values, np.ascontiguousarray(vectors[:, order]))


def laplacian_product(graph: Graph, V: FloatArray) -> FloatArray:
    """`L~ V` for V (n_nodes, k)."""
    if graph.node_scale is None:
        return fused_product(graph, V, -1.0, 1.0)
    # Self-loops of irregular triangulations would round the small eigenvalues away.
    image: FloatArray = loopless_laplacian(graph, 1.0) @ V - V
    return image


@lru_cache(maxsize=4)
def eigenvalue_counts(graph: Graph) -> Measure:
    """Estimate of how many eigenvalues of `W~` there are where, from products with `W~` alone.

    Gauss rules of random sign vectors: fewer vectors and steps on larger graphs, some tenths of a
    second at a million nodes. The number above an eigenvalue that k others exceed has a standard
    error of about `sqrt(2 k / n_vectors)`.
    """
    n = graph.n_nodes
    n_steps = min(COUNT_STEPS if n <= COUNT_NODES else COUNT_STEPS // 2, n)
    found = spectral_measure(partial(fused_product, graph), random_signs(graph), n_steps)
    return Measure(np.clip(found.values, -1.0, 1.0), found.counts)


def random_signs(graph: Graph) -> FloatArray:
    """Columns (n_nodes, k) of random signs: one on a large graph, up to four on smaller ones."""
    n_vectors = min(max(COUNT_NODES // graph.n_nodes, 1), 4)
    return np.random.default_rng(0).choice([-1.0, 1.0], (graph.n_nodes, n_vectors))


class Measure(NamedTuple):
    """Numbers `counts` (m,) of eigenvalues near `values` (m,), ascending."""

    values: FloatArray
    counts: FloatArray

    def above(self, value: float) -> float:
        """Number of eigenvalues above a value, interpolated between the known ones."""
        middles = np.cumsum(self.counts[::-1])[::-1] - 0.5 * self.counts
        ends = np.concatenate([[-1.0 - 1e-12], self.values, [1.0 + 1e-12]])
        total = float(self.counts.sum())
        return float(np.interp(value, ends, np.concatenate([[total], middles, [0.0]])))

    def quantile(self, n_above: int) -> float:
        """The value above which there are `n_above` others."""
        place = np.searchsorted(np.cumsum(self.counts[::-1]), n_above)
        return float(self.values[::-1][min(int(place), self.values.size - 1)])


def spectral_measure(product: Operator, starts: FloatArray, n_steps: int) -> Measure:
    """Mean spectral measure of columns (n, k) in a symmetric operator, by Gauss rules."""
    lanczos = Lanczos(product, starts, reorthogonalise=False)
    for _ in range(n_steps):
        lanczos.step()
    jacobi = [lanczos.jacobi(k) for k in range(starts.shape[1])]
    values, weights = zip(*(gauss(d, e[:-1]) for d, e in jacobi), strict=True)
    counts = np.concatenate(weights) * (len(starts) / starts.shape[1])
    order = np.argsort(np.concatenate(values))
    return Measure(np.concatenate(values)[order], counts[order])


def margin(n_pairs: int) -> int:
    """Number of eigenvalues that a polynomial keeps apart, for `n_pairs` wanted ones."""
    return int(1.25 * n_pairs) + 8


def polynomial_degree(distance: float) -> int:
    """Degree of a Chebyshev polynomial of `W~` that rises to `TOP` over a distance."""
    return max(int(np.arccosh(TOP) / np.arccosh((2.0 + distance) / (2.0 - distance))), 1)


def most_entries(graph: Graph, distance: float) -> int:
    """Number of entries up to which a factor is used."""
    size = graph.indices.size + graph.n_nodes
    return min(polynomial_degree(distance) * size, MOST_ENTRIES)


def chebyshev_power(product: Operator, low: float, high: float, degree: int) -> Operator:
    """`V -> T_d(A) V`, A being an operator with [low, high] mapped to [-1, 1].

    It is between -1 and 1 there, and rises steeply above.
    """
    half, middle = 0.5 * (high - low), 0.5 * (high + low)

    def mapped(V: FloatArray, factor: float) -> FloatArray:
        return (factor / half) * product(V) - (factor * middle / half) * V

    def operator(before: FloatArray) -> FloatArray:
        current = mapped(before, 1.0)
        for _ in range(degree - 1):
            before, current = current, mapped(current, 2.0) - before
        return current

    return operator


@compiled
def _widest_level(indptr, indices):  # type: ignore[no-untyped-def]
    """Largest number of nodes at one distance from the first one of a component."""
    n, widest = indptr.size - 1, 0
    seen = np.zeros(n, np.bool_)
    queue = np.empty(n, np.int64)
    for root in range(n):
        if seen[root]:
            continue
        queue[0], seen[root] = root, True
        start, end = 0, 1
        while start < end:
            widest = max(widest, end - start)
            last = end
            for place in range(start, last):
                node = queue[place]
                for entry in range(indptr[node], indptr[node + 1]):
                    other = indices[entry]
                    if not seen[other]:
                        seen[other] = True
                        queue[end] = other
                        end += 1
            start = last
    return widest
