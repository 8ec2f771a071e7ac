"""Estimators in the manner of scikit-learn."""

from coupledgp.diagnostics.auditing import audit as audit
from coupledgp.models.classifier import GPClassifier as GPClassifier
from coupledgp.models.exact import ExactGPRegressor as ExactGPRegressor
from coupledgp.models.fields import FieldGPRegressor as FieldGPRegressor
from coupledgp.models.fields import next_sensors as next_sensors
from coupledgp.models.files import load_model as load_model
from coupledgp.models.files import save_model as save_model
from coupledgp.models.lattice import LatticeGPRegressor as LatticeGPRegressor
from coupledgp.models.local import LocalGPRegressor as LocalGPRegressor
from coupledgp.models.node_classifier import GraphGPClassifier as GraphGPClassifier
from coupledgp.models.nodes import ExactGraphGPRegressor as ExactGraphGPRegressor
from coupledgp.models.nodes import GraphGPRegressor as GraphGPRegressor
from coupledgp.models.regressor import GPRegressor as GPRegressor
from coupledgp.models.sparse_spectrum import (
    SparseSpectrumGPRegressor as SparseSpectrumGPRegressor,
)
from coupledgp.models.table_estimator import TableEncoder as TableEncoder
from coupledgp.selection.search import Selection as Selection
from coupledgp.selection.search import select as select
from coupledgp.selection.study import GraphChoice as GraphChoice
from coupledgp.selection.study import choose_graph as choose_graph
from coupledgp.selection.study import coupling_study as coupling_study
from coupledgp.selection.study import posterior_report as posterior_report
