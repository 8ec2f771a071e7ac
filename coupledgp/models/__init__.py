"""Estimators in the manner of scikit-learn."""

from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.persistence import load_model, save_model
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor

__all__ = ["ExactGPRegressor", "SparseSpectrumGPRegressor", "load_model", "save_model"]
