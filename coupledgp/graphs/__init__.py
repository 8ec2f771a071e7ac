"""Graphs: an immutable weighted undirected graph, readers of other libraries, its normalisation."""

from coupledgp.graphs.graph import Graph as Graph
from coupledgp.graphs.readers import lengths_to_weights as lengths_to_weights
