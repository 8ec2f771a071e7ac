"""Inference on the nodes of a graph."""
