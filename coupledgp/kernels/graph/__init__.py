"""Kernels of the nodes of a graph."""
