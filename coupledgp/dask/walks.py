"""Walks of shards of nodes, each shard on the worker that sampled it.

The rows of a node depend on the seed and the node alone, so that shards agree with one machine to
the bit, however the nodes are cut. Products with features sum over shards: they agree to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import add, getitem, matmul
from typing import Any, cast

import numpy as np
from scipy import sparse

from coupledgp.dask.cluster import Cluster, in_parts
from coupledgp.dask.graphs import ShardedGraph
from coupledgp.features import HopPlan, WalkFeatures, sample_walks
from coupledgp.features.walks.modulation import ModulationLike, check_modulation, coefficients
from coupledgp.features.walks.sample import Truncation, Walks, truncation_of
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray

# Shards for each worker: a few, so that a worker that is done early takes another one.
SHARDS_PER_WORKER = 2


@dataclass(frozen=True, eq=False)
class ShardedMatrix:
    """A sparse matrix (n, n_nodes) whose rows lie on workers, in parts.

    Attributes
    ----------
    cluster : Cluster
        The workers.
    parts : tuple of Future
        Rows as csr arrays, one part after the other.
    places : tuple of IntArray
        Places of the rows of each part.
    n_columns : int
        Number of columns.
    """

    cluster: Cluster
    parts: tuple[Any, ...]
    places: tuple[IntArray, ...]
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return sum(rows.size for rows in self.places), self.n_columns

    def __matmul__(self, V: FloatArray) -> FloatArray:
        return self.product(self.cluster.shared(V))

    def product(self, V: Any) -> FloatArray:
        """The product (n, k) with a future of V (n_columns, k)."""
        return np.concatenate(self.cluster.result(self.cluster.map(matmul, self.parts, V)))

    @property
    def T(self) -> Transposed:  # noqa: N802
        """The transpose, for products."""
        return Transposed(self)

    def transposed_product(self, V: FloatArray) -> Any:
        """A future of the product (n_columns, k) of the transpose with V (n, k)."""
        own = [V[rows] for rows in self.places]
        return self.cluster.merged(self.cluster.map(_transposed_product, self.parts, own), add)

    def squared_norms(self) -> FloatArray:
        """Squared norms (n,) of the rows."""
        return np.concatenate(self.cluster.result(self.cluster.map(_squared_norms, self.parts)))

    def __getitem__(self, chosen: IntArray) -> sparse.csr_array:
        """Rows by place, (len(chosen), n_columns), on this machine."""
        found, order = [], []
        for part, rows in zip(self.parts, self.places, strict=True):
            wanted = np.flatnonzero((chosen >= rows[0]) & (chosen <= rows[-1]))
            if wanted.size:
                order.append(wanted)
                found.append(self.cluster.submit(getitem, part, chosen[wanted] - rows[0]))
        stacked = sparse.vstack(self.cluster.result(found), format="csr")
        return sparse.csr_array(stacked)[np.argsort(np.concatenate(order))]


@dataclass(frozen=True, eq=False)
class Transposed:
    """The transpose of a matrix, for products."""

    matrix: ShardedMatrix

    def __matmul__(self, V: FloatArray) -> FloatArray:
        cluster = self.matrix.cluster
        product: FloatArray = cluster.result(self.matrix.transposed_product(V))
        return product


@dataclass(frozen=True, eq=False)
class ShardedWalks:
    """Walks of some nodes on the workers, with the methods of `features.Walks` that products need.

    Attributes
    ----------
    graph : ShardedGraph
        The graph.
    nodes : IntArray (n,)
        Start nodes.
    n_walks : int or IntArray (n_nodes,)
        Number of walkers of each, or of each node of the graph.
    survival : FloatArray (T + 1,)
        Chances that a walk has at least t steps.
    shards : tuple of Future
        Walks of parts of the nodes.
    places : tuple of IntArray
        Places of the nodes of each shard.
    """

    graph: ShardedGraph
    nodes: IntArray
    n_walks: int | IntArray
    survival: FloatArray
    shards: tuple[Any, ...]
    places: tuple[IntArray, ...]

    @classmethod
    def sampled(
        cls, graph: ShardedGraph, nodes: IntArray, n_shards: int | None = None, **settings: Any
    ) -> ShardedWalks:
        """Sample the walks of nodes (n,) in shards, with the settings of `sample_walks`."""
        cluster = graph.cluster
        count = SHARDS_PER_WORKER * cluster.n_workers if n_shards is None else n_shards
        places = tuple(in_parts(nodes.size, count))
        parts = [nodes[rows] for rows in places]
        futures = cluster.spread(_sampled, parts, graph.everywhere, settings)
        survival = cluster.result(cluster.submit(_survival, futures[0]))
        return cls(graph, nodes, settings["n_walks"], survival, tuple(futures), places)

    def features(self, f: ModulationLike) -> ShardedMatrix:
        """Features `sum_t f_t Psi_t`, see `Walks.features`."""
        cluster = self.graph.cluster
        given = coefficients(check_modulation(f), self.survival.size)
        parts = cluster.map(Walks.features, self.shards, given)
        return ShardedMatrix(cluster, tuple(parts), self.places, self.graph.n_nodes)

    def load_products(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """`sum(left * (Psi_t right))` for each t, see `Walks.load_products`."""
        cluster = self.graph.cluster
        own = [left[rows] for rows in self.places]
        sums = cluster.map(Walks.load_products, self.shards, own, cluster.shared(right))
        products: FloatArray = cluster.result(cluster.merged(sums, add))
        return products

    def truncation(self, f: ModulationLike) -> Truncation:
        """Size of the part of a series beyond these walks, see `Walks.truncation`."""
        return truncation_of(self.survival, f)


class ShardedFeatures(WalkFeatures):
    """`features.WalkFeatures` over walks on the workers.

    `Phi V` and `Phi' V` cost one task for each shard, and one for each row block and hop.
    """

    @classmethod
    def of(cls, walks: ShardedWalks, f: ModulationLike, plan: HopPlan) -> ShardedFeatures:
        """Features of a series or kernel f behind the hops of a plan."""
        return cls(cast(Walks, walks), f, plan)

    @property
    def matrix(self) -> ShardedMatrix:
        """The walked loads of all rows."""
        return cast(ShardedMatrix, self._walked)

    @property
    def is_walked_only(self) -> bool:
        """Whether the rows equal the rows of the matrix: without hops and scales of nodes."""
        return not self.plan.nodes and self._scale is None


def _sampled(nodes: IntArray, graph: Graph, settings: dict[str, Any]) -> Walks:
    return sample_walks(graph, nodes=graph.label_all(nodes), **settings)


def _survival(walks: Walks) -> FloatArray:
    return walks.survival


def _transposed_product(part: sparse.csr_array, V: FloatArray) -> FloatArray:
    product: FloatArray = part.T @ V
    return product


def _squared_norms(part: sparse.csr_array) -> FloatArray:
    norms: FloatArray = part.multiply(part).sum(axis=1)
    return norms
