"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""

from coupledgp import couplings, diagnostics, features
from coupledgp.models import ExactGPRegressor, SparseSpectrumGPRegressor

__all__ = [
    "ExactGPRegressor",
    "SparseSpectrumGPRegressor",
    "couplings",
    "diagnostics",
    "features",
]
