"""Estimators in the manner of scikit-learn."""

from coupledgp.models.graph import ExactGraphGPRegressor, GraphGPRegressor

__all__ = ["ExactGraphGPRegressor", "GraphGPRegressor"]
