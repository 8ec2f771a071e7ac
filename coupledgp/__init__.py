"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""

from coupledgp import couplings, diagnostics, features, kernels, theory
from coupledgp.attention import CoupledAttention, attention_loss
from coupledgp.features import gram_loss
from coupledgp.graphs import Graph
from coupledgp.inference.spectra.evidence import evidence_loss
from coupledgp.inference.spectra.posterior_kl import posterior_kl_loss
from coupledgp.models import (
    ExactGPRegressor,
    ExactGraphGPRegressor,
    GraphGPRegressor,
    KernelRegressionClassifier,
    KernelRegressionRegressor,
    SparseSpectrumGPRegressor,
    coupling_study,
    load_model,
    posterior_report,
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
    "KernelRegressionClassifier",
    "KernelRegressionRegressor",
    "SparseSpectrumGPRegressor",
    "attention_loss",
    "coupling_study",
    "couplings",
    "diagnostics",
    "evidence_loss",
    "features",
    "gram_loss",
    "kernels",
    "load_model",
    "pagerank",
    "posterior_kl_loss",
    "posterior_report",
    "save_model",
    "select",
    "theory",
]
