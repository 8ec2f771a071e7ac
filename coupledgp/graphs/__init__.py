"""Graphs: an immutable weighted undirected graph, readers of other libraries, its normalisation."""

from typing import TYPE_CHECKING

from coupledgp.ground.lazy import attach

if TYPE_CHECKING:
    from coupledgp.graphs.assembly import lengths_to_weights as lengths_to_weights
    from coupledgp.graphs.graph import Graph as Graph
else:
    __all__, __getattr__, __dir__ = attach(__name__)
