"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""

from coupledgp import couplings, diagnostics, features, kernels
from coupledgp.attention import CoupledAttention
from coupledgp.graphs import Graph
from coupledgp.models import (
    ExactGPRegressor,
    ExactGraphGPRegressor,
    GraphGPRegressor,
    SparseSpectrumGPRegressor,
    load_model,
    save_model,
    select,
)
from coupledgp.pagerank import pagerank

__all__ = [
    "CoupledAttention",
    "ExactGPRegressor",
    "ExactGraphGPRegressor",
    "Graph",
    "GraphGPRegressor",
    "SparseSpectrumGPRegressor",
    "couplings",
    "diagnostics",
    "features",
    "kernels",
    "load_model",
    "pagerank",
    "save_model",
    "select",
]
