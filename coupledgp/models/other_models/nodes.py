"""Other models on the nodes of a graph: families of kernels, other weights, positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.diagnostics.rivals.rival import Rival, laws_of_process
from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.features.sklearn import Columns
from coupledgp.gp.nodes import NodeGP
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.graphs import Graph
from coupledgp.kernels.graph.registry import parse_graph_kernel
from coupledgp.models.node_estimator import NodeRegressor
from coupledgp.models.nodes import ExactGraphGPRegressor
from coupledgp.models.other_models.tables import TableTask
from coupledgp.random import FloatArray, IntArray
from coupledgp.selection.protocol import with_parameters

# Families of kernels that are compared.
FAMILIES = (
    "heat", "regularized-laplacian", "matern", "random-walk", "inverse-cosine",
)  # fmt: skip
# Seconds of a fit on one core of a server of 2023: at least, and for each node; eigenvectors of all
# nodes, where there are few.
FIT_SECONDS, NODE_SECONDS, CUBIC_SECONDS, SPECTRAL_NODES = 1.0, 2e-4, 3e-9, 1200


@dataclass(frozen=True, eq=False)
class NodeTask:
    """Observed nodes of a graph.

    Attributes
    ----------
    process : NodeGP
        The process of the model, or its first member.
    data : Data
        Observations of the model.
    model : NodeRegressor or None
        The model; None where only its process was given.
    positions : FloatArray (n_nodes, d) or None
        Positions of the nodes, where they are known.
    seed : int
    budget : float
        Seed of all alternatives, and seconds for all of them.
    """

    process: NodeGP
    data: Data
    model: NodeRegressor | None
    positions: FloatArray | None
    seed: int
    budget: float

    def rivals(self) -> list[Rival]:
        """Other kernels of the same graph, other graphs, and models of positions."""
        return [*self._families(), *self._graphs(), *self._of_positions()]

    @property
    def _seconds(self) -> float:
        n = self.process.graph.n_nodes
        spectral = CUBIC_SECONDS * n**3 if n <= SPECTRAL_NODES else 0.0
        return FIT_SECONDS + NODE_SECONDS * n + spectral

    def _variant(self, **parameters: Any) -> Any:
        """The model with other parameters, its hyperparameters fitted."""
        base = self.model
        if base is None:
            base = ExactGraphGPRegressor(self.process.graph, random_state=self.seed)
        free = {"optimizer": base.optimizer or "lbfgs", "progress": False}
        if base.random_state is None:
            free["random_state"] = self.seed
        if "kernel" in parameters:
            free |= {"fixed": None, "outputscale": None, "noise": None}
        return with_parameters(base, **(free | parameters))

    def _families(self) -> list[Rival]:
        own = type(self.process.hyperparameters.kernel)
        names = [name for name in FAMILIES if type(parse_graph_kernel(name)) is not own]
        return [
            self._of(
                f"kernel {name}",
                f"Use another family of kernels: kernel='{name}'.",
                self._variant(kernel=name),
            )
            for name in names
        ]

    def _graphs(self) -> list[Rival]:
        """The same model on the graph without weights, and with the combinatorial Laplacian."""
        graph = self.process.graph
        if graph.node_scale is not None:  # the graph of an operator
            return []
        found = []
        if graph.is_weighted:
            action = "Leave out the weights of the edges: Graph.from_edges without weights."
            found.append(self._of("graph without weights", action, self._on(unweighted(graph))))
        degrees = graph.degrees
        if degrees.min() < degrees.max():
            action = "Use the combinatorial Laplacian D - W: graph.combinatorial."
            found.append(self._of("combinatorial Laplacian", action, self._on(graph.combinatorial)))
        return found

    def _on(self, graph: Graph) -> Any:
        """The model on another graph of the same nodes, any kernel object by its family."""
        kernel = self.model.kernel if self.model is not None else "auto"
        if not isinstance(kernel, str):
            kernel = "auto"
        return self._variant(graph=graph, kernel=kernel)

    def _of_positions(self) -> list[Rival]:
        positions = self.positions
        if positions is None:
            return []

        def rows(data: Data) -> Data:
            return Data.of(positions[data.points], data.targets)

        def fit(data: Data, seconds: float) -> Callable[[IntArray], PointLaws]:
            process = mixture.fit(rows(data), seconds)
            return lambda nodes: laws_of_process(process, positions[nodes])

        columns = Columns(positions.shape[1])
        mixture = TableTask(rows(self.data), columns, None, False, self.seed, self.budget).mixture()
        action = "Use the positions in place of the graph: GPRegressor on them."
        return [Rival("positions", fit, action, mixture.seconds)]

    def _of(self, name: str, action: str, model: Any) -> Rival:
        def fit(data: Data, seconds: float) -> GaussianProcess:
            # The other half is for predictions, whose cost the fit does not forecast.
            process: GaussianProcess
            process, _ = with_parameters(model, budget=max(seconds / 2, 1e-3)).fit_data(data)
            return process

        return Rival(name, fit, action, self._seconds)


def unweighted(graph: Graph) -> Graph:
    """The graph with the same edges and weights of one."""
    edges = graph.adjacency.copy()
    edges.data = np.ones_like(edges.data)
    return Graph.from_scipy(edges, graph.labels)
