"""Scalable Gaussian processes with coupled random features, and diagnostics of their posteriors."""

from typing import TYPE_CHECKING

from coupledgp.ground.extras import attach

if TYPE_CHECKING:
    from coupledgp import couplings as couplings
    from coupledgp import dask as dask
    from coupledgp import diagnostics as diagnostics
    from coupledgp import features as features
    from coupledgp import kernels as kernels
    from coupledgp import theory as theory
    from coupledgp.attention import CoupledAttention as CoupledAttention
    from coupledgp.attention import attention_loss as attention_loss
    from coupledgp.core.posterior_kl import posterior_kl_loss as posterior_kl_loss
    from coupledgp.diagnostics.hiding import hide as hide
    from coupledgp.diagnostics.report import audit as audit
    from coupledgp.diagnostics.report import cross_validate as cross_validate
    from coupledgp.diagnostics.report import posterior_report as posterior_report
    from coupledgp.diagnostics.report import report as report
    from coupledgp.diagnostics.study import coupling_study as coupling_study
    from coupledgp.features import gram_loss as gram_loss
    from coupledgp.fields import LaplaceOperator as LaplaceOperator
    from coupledgp.fields import RoadNetwork as RoadNetwork
    from coupledgp.fields import read_roads as read_roads
    from coupledgp.fields import write_mesh as write_mesh
    from coupledgp.fields import write_roads as write_roads
    from coupledgp.fields.estimator import FieldGPRegressor as FieldGPRegressor
    from coupledgp.fields.estimator import next_sensors as next_sensors
    from coupledgp.graphs import Graph as Graph
    from coupledgp.graphs.choice import choose_graph as choose_graph
    from coupledgp.graphs.classifier import GraphGPClassifier as GraphGPClassifier
    from coupledgp.graphs.page_rank import pagerank as pagerank
    from coupledgp.graphs.regressors import ExactGraphGPRegressor as ExactGraphGPRegressor
    from coupledgp.graphs.regressors import GraphGPRegressor as GraphGPRegressor
    from coupledgp.model_files import load_model as load_model
    from coupledgp.model_files import save_model as save_model
    from coupledgp.tables.classifier import GPClassifier as GPClassifier
    from coupledgp.tables.coupling_search import select as select
    from coupledgp.tables.estimator_base import TableEncoder as TableEncoder
    from coupledgp.tables.exact_regressor import ExactGPRegressor as ExactGPRegressor
    from coupledgp.tables.lattice_regressor import LatticeGPRegressor as LatticeGPRegressor
    from coupledgp.tables.local_regressor import LocalGPRegressor as LocalGPRegressor
    from coupledgp.tables.regressor import GPRegressor as GPRegressor
    from coupledgp.tables.sparse_spectrum import (
        SparseSpectrumGPRegressor as SparseSpectrumGPRegressor,
    )
    from coupledgp.tables.spectrum_evidence import evidence_loss as evidence_loss
    from coupledgp.time.estimator import GraphTimeGPRegressor as GraphTimeGPRegressor
else:
    __all__, __getattr__, __dir__ = attach(__name__, {
        "": "couplings dask diagnostics features kernels theory",
        "attention": "CoupledAttention attention_loss",
        "diagnostics.hiding": "hide",
        "diagnostics.report": "audit cross_validate report posterior_report",
        "diagnostics.study": "coupling_study",
        "features": "gram_loss",
        "fields": "LaplaceOperator RoadNetwork read_roads write_mesh write_roads",
        "fields.estimator": "FieldGPRegressor next_sensors",
        "graphs": "Graph",
        "graphs.choice": "choose_graph",
        "graphs.classifier": "GraphGPClassifier",
        "graphs.page_rank": "pagerank",
        "graphs.regressors": "ExactGraphGPRegressor GraphGPRegressor",
        "model_files": "load_model save_model",
        "core.posterior_kl": "posterior_kl_loss",
        "tables.classifier": "GPClassifier",
        "tables.coupling_search": "select",
        "tables.estimator_base": "TableEncoder",
        "tables.exact_regressor": "ExactGPRegressor",
        "tables.lattice_regressor": "LatticeGPRegressor",
        "tables.local_regressor": "LocalGPRegressor",
        "tables.regressor": "GPRegressor",
        "tables.sparse_spectrum": "SparseSpectrumGPRegressor",
        "tables.spectrum_evidence": "evidence_loss",
        "time.estimator": "GraphTimeGPRegressor",
    })  # fmt: skip

__version__ = "0.3.0.dev0"
