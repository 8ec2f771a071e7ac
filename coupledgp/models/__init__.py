"""Estimators in the manner of scikit-learn."""

from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor

__all__ = ["ExactGPRegressor", "SparseSpectrumGPRegressor"]
