"""Kernels of the nodes of a graph, as a search under a likelihood takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coupledgp.gp.node_priors import (
    SPECTRAL_LIMIT,
    ExactRecipe,
    NodePriorRecipe,
    WalkRecipe,
)
from coupledgp.gp.nodes import DENSE_POSTERIOR_LIMIT, NodeGP, NodeSettings
from coupledgp.gp.protocol import Data, Points
from coupledgp.gp.units import Units
from coupledgp.inference.nodes.evidence import Scales
from coupledgp.inference.nodes.priors import GraphPrior
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray
from coupledgp.search.latent_places import KernelsOfPlaces

# Multiply-adds of sparse products of a column of a kernel over those of one product, and their
# seconds; seconds of a cubed node of an eigendecomposition.
PRODUCTS, SECONDS, EIGEN_SECONDS = 200, 2e-9, 1e-9


@dataclass(frozen=True, eq=False)
class KernelsOfNodes(KernelsOfPlaces):
    """Graph kernels of some families.

    Attributes
    ----------
    recipe : NodePriorRecipe
        Settings by which a kernel becomes the prior of the process; the search has exact kernels.
    settings : NodeSettings
        Settings of posteriors.
    families : sequence of GraphKernel
        A kernel of each family.
    is_free : bool
        Whether their parameters are searched for.
    """

    recipe: NodePriorRecipe
    settings: NodeSettings
    families: Sequence[GraphKernel]
    is_free: bool = True
    _priors: dict[Any, GraphPrior] = field(default_factory=dict)

    most_rows = DENSE_POSTERIOR_LIMIT

    @property
    def _exact(self) -> NodePriorRecipe:
        recipe = self.recipe
        return ExactRecipe(recipe.graph) if isinstance(recipe, WalkRecipe) else recipe

    def kernels(self, points: Points) -> Sequence[GraphKernel]:
        graph = self.recipe.graph
        if not self.is_free:
            return self.families
        return [kernel for own in self.families for kernel in own.scan_on(graph)]

    def joined(self, ranked: Sequence[GraphKernel]) -> Sequence[GraphKernel]:
        return ()

    def scaled(self, kernel: GraphKernel, factor: float) -> GraphKernel:
        return kernel.scaled(factor) if self.is_free else kernel

    def gram(self, kernel: GraphKernel, points: Points) -> FloatArray:
        if kernel not in self._priors:
            self._priors.clear()  # one at a time: eigenvectors are as many as nodes squared
            self._priors[kernel] = self._exact.make(kernel).prior
        found: FloatArray = np.asarray(self._priors[kernel].matrix(points, points))
        return 0.5 * (found + found.T)

    def gram_seconds(self, n_points: int) -> float:
        graph = self.recipe.graph
        if graph.n_nodes <= SPECTRAL_LIMIT:
            return EIGEN_SECONDS * graph.n_nodes**3
        return SECONDS * PRODUCTS * n_points * (graph.indices.size + graph.n_nodes)

    def function(
        self, kernel: GraphKernel, outputscale: float, unit: float, row: Data, units: Units
    ) -> NodeGP:
        noise = unit**2
        scales = Scales(outputscale, noise, 0.0)
        chosen = self.recipe.make(kernel, scales)
        return NodeGP.given(self.recipe, chosen, self.settings, scales, row, units, False)
