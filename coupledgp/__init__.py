"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""

from coupledgp import features, kernels
from coupledgp.graphs import Graph
from coupledgp.models import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.pagerank import pagerank

__all__ = [
    "ExactGraphGPRegressor",
    "Graph",
    "GraphGPRegressor",
    "features",
    "kernels",
    "pagerank",
]
