"""Simple predictions on the nodes of a graph that a model should beat.

| name | prediction at a node |
|---|---|
| mean | mean of all observations |
| nearest | observations at the nearest observed node along edges: by number of edges, or by the sum of 1 / weight, which is proportional to length where weights come from lengths |
| harmonic | the solution of `(D - W) f = 0` that equals the observations at the observed nodes |

Parts of the graph without observations get the mean. Standard deviations of nearest and harmonic
are the errors of the same predictions of observed nodes that are left out.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from coupledgp.core.budget import factor_seconds
from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals.harmonic import HarmonicDomain, HarmonicRival
from coupledgp.diagnostics.rivals.nearest import WayFinder
from coupledgp.diagnostics.rivals.observations import Observations
from coupledgp.diagnostics.rivals.rival import Baseline, Baselines, Maker
from coupledgp.graphs import Graph
from coupledgp.graphs.laplacian_power import precision_work
from coupledgp.ground.memory import available_bytes
from coupledgp.random import FloatArray, IntArray

# Stiffness of the spring to an observation of weight one, in units of the node's degree.
STIFF = 1e6
# Seconds that a sparse factor may take; beyond, equations are solved by conjugate gradients.
MOST_SECONDS = 3.0


@dataclass(frozen=True, eq=False)
class NodeRivals(Baselines):
    """Baselines on the nodes of a graph.

    Attributes
    ----------
    graph : Graph
    nodes : IntArray (g,)
        Distinct observed nodes, the sites of the observations.
    observations : Observations
    """

    graph: Graph
    nodes: IntArray
    observations: Observations

    @classmethod
    def of(
        cls, graph: Graph, nodes: IntArray, y: FloatArray, weights: RowWeights | None = None
    ) -> NodeRivals:
        """Baselines given observations (n, k) at nodes (n,)."""
        distinct, site = np.unique(nodes, return_inverse=True)
        return cls(graph, distinct, Observations.of(y, site.reshape(-1), weights))

    def makers(self) -> dict[str, Maker]:
        return {"nearest": self._by_nearest_node, "harmonic": self._by_harmonic}

    def _by_nearest_node(self) -> Baseline:
        finder = self._finder
        return self.by_nearest(finder, lambda nodes: finder.nearest_to(nodes).number)

    def _by_harmonic(self) -> Baseline:
        found = self._harmonic
        return Baseline(lambda nodes: found.predict(self._rows(nodes)), found.left_out)

    @cached_property
    def _edges(self) -> sparse.csr_array:
        """Weights of the edges without self-loops, (n_nodes, n_nodes)."""
        weights = self.graph.adjacency.tocoo()
        links = weights.row != weights.col
        parts = (weights.row[links], weights.col[links])
        found = sparse.coo_array((weights.data[links], parts), shape=weights.shape)
        return sparse.csr_array(found)

    @cached_property
    def _finder(self) -> WayFinder:
        """Ways along edges of length 1 / weight over the mean of that, one without weights."""
        lengths = self._edges.copy()
        lengths.data = lengths.data.mean() / lengths.data if lengths.nnz else lengths.data
        return WayFinder(lengths, self.nodes)

    @cached_property
    def _harmonic(self) -> HarmonicRival:
        degrees = self._edges.sum(axis=1)
        laplacian = sparse.csr_array(sparse.diags_array(degrees) - self._edges)
        held = np.where(degrees > 0, degrees, 1.0)  # an isolated node has nothing to be held by
        domain = HarmonicDomain(laplacian, STIFF * held, None, is_factorised(self.graph))
        return HarmonicRival(domain, self.observations, self._rows(self.nodes))

    def _rows(self, nodes: IntArray) -> sparse.csr_array:
        """Rows (p, n_nodes) that pick the values at nodes (p,)."""
        parts = (np.ones(len(nodes)), (np.arange(len(nodes)), nodes))
        return sparse.csr_array(parts, shape=(len(nodes), self.graph.n_nodes))


def is_factorised(graph: Graph) -> bool:
    """Whether a sparse factor of the Laplacian costs little; a factor of an expander fills in."""
    work = precision_work(graph.closed, 1)
    if not np.isfinite(work.flops):
        return False
    return factor_seconds(work.flops) < MOST_SECONDS and work.bytes < available_bytes()
