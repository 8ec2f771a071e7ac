"""Inference: in the space of feature weights, on the nodes of graphs, and dense exact."""
