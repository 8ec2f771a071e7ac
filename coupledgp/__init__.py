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
    from coupledgp.features import gram_loss as gram_loss
    from coupledgp.formats import RoadNetwork as RoadNetwork
    from coupledgp.formats import read_roads as read_roads
    from coupledgp.formats import write_mesh as write_mesh
    from coupledgp.formats import write_roads as write_roads
    from coupledgp.geometry import LaplaceOperator as LaplaceOperator
    from coupledgp.graphs import Graph as Graph
    from coupledgp.inference.spectra.evidence import evidence_loss as evidence_loss
    from coupledgp.inference.spectra.posterior_kl import posterior_kl_loss as posterior_kl_loss
    from coupledgp.models import ExactGPRegressor as ExactGPRegressor
    from coupledgp.models import ExactGraphGPRegressor as ExactGraphGPRegressor
    from coupledgp.models import FieldGPRegressor as FieldGPRegressor
    from coupledgp.models import GPClassifier as GPClassifier
    from coupledgp.models import GPRegressor as GPRegressor
    from coupledgp.models import GraphGPClassifier as GraphGPClassifier
    from coupledgp.models import GraphGPRegressor as GraphGPRegressor
    from coupledgp.models import LatticeGPRegressor as LatticeGPRegressor
    from coupledgp.models import LocalGPRegressor as LocalGPRegressor
    from coupledgp.models import SparseSpectrumGPRegressor as SparseSpectrumGPRegressor
    from coupledgp.models import TableEncoder as TableEncoder
    from coupledgp.models import audit as audit
    from coupledgp.models import choose_graph as choose_graph
    from coupledgp.models import coupling_study as coupling_study
    from coupledgp.models import load_model as load_model
    from coupledgp.models import next_sensors as next_sensors
    from coupledgp.models import posterior_report as posterior_report
    from coupledgp.models import save_model as save_model
    from coupledgp.models import select as select
    from coupledgp.page_rank import pagerank as pagerank
    from coupledgp.time.estimator import GraphTimeGPRegressor as GraphTimeGPRegressor
else:
    __all__, __getattr__, __dir__ = attach(__name__, {
        "": "couplings dask diagnostics features kernels theory",
        "attention": "CoupledAttention attention_loss",
        "features": "gram_loss",
        "formats": "RoadNetwork read_roads write_mesh write_roads",
        "geometry": "LaplaceOperator",
        "graphs": "Graph",
        "inference.spectra.evidence": "evidence_loss",
        "inference.spectra.posterior_kl": "posterior_kl_loss",
        "models": (
            "ExactGPRegressor ExactGraphGPRegressor FieldGPRegressor GPClassifier GPRegressor "
            "GraphGPClassifier GraphGPRegressor LatticeGPRegressor "
            "LocalGPRegressor SparseSpectrumGPRegressor TableEncoder audit choose_graph "
            "coupling_study load_model next_sensors posterior_report save_model select"
        ),
        "page_rank": "pagerank",
        "time.estimator": "GraphTimeGPRegressor",
    })  # fmt: skip

__version__ = "0.3.0.dev0"
