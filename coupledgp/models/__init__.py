"""Estimators in the manner of scikit-learn."""

from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.kernel_regression import (
    KernelRegressionClassifier,
    KernelRegressionRegressor,
)
from coupledgp.models.nodes import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.models.persistence import load_model, save_model
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor
from coupledgp.selection.search import Selection, select
from coupledgp.selection.study import coupling_study, posterior_report

__all__ = [
    "ExactGPRegressor",
    "ExactGraphGPRegressor",
    "GraphGPRegressor",
    "KernelRegressionClassifier",
    "KernelRegressionRegressor",
    "Selection",
    "SparseSpectrumGPRegressor",
    "coupling_study",
    "load_model",
    "posterior_report",
    "save_model",
    "select",
]
