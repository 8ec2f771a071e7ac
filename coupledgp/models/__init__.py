"""Estimators in the manner of scikit-learn."""

from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.graph import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.models.persistence import load_model, save_model
from coupledgp.models.selection import Selection, select
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor

__all__ = [
    "ExactGPRegressor",
    "ExactGraphGPRegressor",
    "GraphGPRegressor",
    "Selection",
    "SparseSpectrumGPRegressor",
    "load_model",
    "save_model",
    "select",
]
