"""A graph whose products with `W~` are computed by row blocks on the workers of a cluster."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coupledgp.dask.cluster import Cluster, in_parts, itself
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import Csr
from coupledgp.graphs.products import PARALLEL_WORK, rows_product
from coupledgp.random import FloatArray, IntArray


class RowBlock(NamedTuple):
    """Rows of `W~` on a worker.

    Attributes
    ----------
    own : IntArray (r,)
        Nodes of the rows.
    touched : IntArray (c,)
        Nodes on which the rows depend: their own, then their neighbours elsewhere.
    matrix : Future of a csr_array (r, c)
        The rows, of columns `touched`.
    """

    own: IntArray
    touched: IntArray
    matrix: Any


class ShardedGraph(Graph):
    """A graph that lies on the workers too, each product with `W~` one task for each row block.

    A block is sent those rows of V alone on which it depends, its own nodes and their neighbours.
    Rows are added up in the order of one machine, so that products agree with its to the bit. All
    that multiplies with `W~` (hops, Chebyshev series, Lanczos) runs on the cluster by that.

    Parameters
    ----------
    graph
        The graph; isolated nodes get a self-loop (`Graph.closed`).
    cluster
        The workers.
    """

    # Multiply-adds of a product from which the workers compute it: a smaller one takes less time
    # here.
    least_work: ClassVar[int] = 10 * PARALLEL_WORK

    def __init__(self, graph: Graph, cluster: Cluster) -> None:
        own = graph.closed
        super().__init__(
            Csr(own.indptr, own.indices, own.weights), own.labels,
            node_scale=own.node_scale, time_unit=own.time_unit,
        )  # fmt: skip
        self.cluster = cluster

    @property
    def closed(self) -> Graph:
        """The graph itself: no node is isolated without a self-loop."""
        return self

    @cached_property
    def everywhere(self) -> Any:
        """A future of the graph, for tasks."""
        csr = Csr(self.indptr, self.indices, self.weights)
        return self.cluster.shared(Graph(csr, self.labels, node_scale=self.node_scale))

    @cached_property
    def blocks(self) -> list[RowBlock]:
        """One block of rows for each worker."""
        owns = in_parts(self.n_nodes, self.cluster.n_workers)
        rows = [self.normalized_adjacency[own] for own in owns]
        both = zip(owns, rows, strict=True)
        touched = [np.append(own, np.setdiff1d(part.indices, own)) for own, part in both]
        local = [part[:, columns] for part, columns in zip(rows, touched, strict=True)]
        return list(map(RowBlock, owns, touched, self.cluster.spread(itself, local)))

    def product_elsewhere(
        self, V: FloatArray, a: float, b: float, c: float, S: FloatArray | None
    ) -> FloatArray | None:
        """See the base class; None for a product of little work."""
        if (self.indices.size + self.n_nodes) * V.shape[1] < self.least_work:
            return None
        matrices, V = [block.matrix for block in self.blocks], np.ascontiguousarray(V)
        touched = [V[block.touched] for block in self.blocks]
        own = None if S is None else [S[block.own] for block in self.blocks]
        futures = self.cluster.map(rows_product, matrices, touched, a, b, c, own)
        return np.concatenate(self.cluster.result(futures))
