"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""

from coupledgp.graphs import Graph

__all__ = ["Graph"]
