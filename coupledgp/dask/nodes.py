"""Fits of Gaussian processes on the nodes of a graph whose walks and products are on a cluster."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from coupledgp.dask.cluster import Cluster
from coupledgp.dask.graphs import ShardedGraph
from coupledgp.dask.walks import ShardedFeatures, ShardedMatrix, ShardedWalks
from coupledgp.errors import InvalidInputError
from coupledgp.gp.node_priors import WalkRecipe
from coupledgp.graphs.graph import as_graph
from coupledgp.inference.nodes.priors import WalkPrior
from coupledgp.models.node_estimator import NodeRegressor
from coupledgp.models.nodes import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.random import FloatArray, IntArray


class ShardedWalkPrior(WalkPrior):
    """`inference.nodes.priors.WalkPrior` with its walks on the workers of a `ShardedGraph`."""

    graph: ShardedGraph

    def _sampled(self, nodes: IntArray) -> ShardedFeatures:
        walks = ShardedWalks.sampled(self.graph, nodes, **self.settings)
        return ShardedFeatures.of(walks, self.kernel, self.plan)

    def _walked_only(self, nodes: IntArray) -> ShardedMatrix | None:
        """Feature rows of nodes (p,) that are walked loads alone, without hops; None of others."""
        features = self.features(nodes)
        assert isinstance(features, ShardedFeatures)
        return features.matrix if features.is_walked_only else None

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        """See the base class; without hops only V and the product leave the workers."""
        rows, columns = self._walked_only(out), self._walked_only(into)
        if rows is None or columns is None:
            return super().product(out, into, V)
        return rows.product(columns.transposed_product(V))

    def diagonal(self, nodes: IntArray) -> FloatArray:
        """See the base class; without hops from the norms of the rows."""
        rows = self._walked_only(nodes)
        return super().diagonal(nodes) if rows is None else rows.squared_norms()

    def rough_diagonal(self, nodes: IntArray, n_probes: int = 32) -> FloatArray:
        """See the base class; without hops the diagonal itself, which takes less than draws."""
        rows = self._walked_only(nodes)
        return super().rough_diagonal(nodes, n_probes) if rows is None else rows.squared_norms()


class ShardedRecipe(WalkRecipe):
    """`gp.node_priors.WalkRecipe` on a `ShardedGraph`."""

    walk_prior: ClassVar[type[WalkPrior]] = ShardedWalkPrior


class _OnCluster(GraphGPRegressor):
    """The estimator on a `ShardedGraph`."""

    def _recipe(self, seed: int) -> ShardedRecipe:
        own = super()._recipe(seed)
        return ShardedRecipe(**{f.name: getattr(own, f.name) for f in fields(own)})


def fit_nodes(model: NodeRegressor, nodes: Any, y: ArrayLike, cluster: Cluster) -> None:
    """Fit a model of the nodes of a graph, with walks and products on the workers.

    The model's fit is replaced at the end, by one assignment.

    Raises
    ------
    InvalidInputError
        The model is of another class, chooses its coupling or size, or the data are invalid.
    """
    kinds: dict[type[Any], type[NodeRegressor]] = {
        GraphGPRegressor: _OnCluster, ExactGraphGPRegressor: ExactGraphGPRegressor,
    }  # fmt: skip
    if type(model) not in kinds:
        raise InvalidInputError(
            "model: expected a GraphGPRegressor or an ExactGraphGPRegressor for nodes, got a "
            f"{type(model).__name__}"
        )
    for name in ("coupling", "n_walks"):
        if isinstance(model, GraphGPRegressor) and model.get_params()[name] == "auto":
            raise InvalidInputError(f"{name}: expected a value of its own on a cluster, got 'auto'")
    if isinstance(model, GraphGPRegressor) and model.walkers != "equal":
        raise InvalidInputError(
            f"walkers: expected 'equal' on a cluster, got {model.walkers!r}; the pilot that "
            "spreads walkers is computed on one machine: fit without a cluster"
        )
    graph = ShardedGraph(as_graph(model.graph), cluster)
    own = kinds[type(model)](**{**model.get_params(deep=False), "graph": graph})
    own.fit(nodes, y)
    model.holding(own.fitted_)
