"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""

from coupledgp import couplings, diagnostics, features
from coupledgp.models import (
    ExactGPRegressor,
    SparseSpectrumGPRegressor,
    load_model,
    save_model,
)

__all__ = [
    "ExactGPRegressor",
    "SparseSpectrumGPRegressor",
    "couplings",
    "diagnostics",
    "features",
    "load_model",
    "save_model",
]
