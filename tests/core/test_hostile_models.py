"""Files of processes whose parts do not fit each other, or are out of range, are refused."""

from functools import cache

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from coupledgp.core.frozen_mean import BoostedTrees
from coupledgp.core.units import Tail
from coupledgp.core.varying_noise import VaryingNoiseGP
from coupledgp.errors import ModelFileError
from coupledgp.ground.codec import decoded, encoded
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern
from coupledgp.time.sites import sites_of
from tests.graph_cases import weighted_graph
from tests.model_files import changed

RNG = np.random.default_rng(0)
X, NODES = RNG.normal(size=(20, 2)), np.arange(0, 10, 2)
Y, FIXED = np.sin(X[:, 0]), {"optimizer": None, "random_state": 0}
PLACED = cgp.LaplaceOperator.from_edges(
    ["a", "b", "c"], ["b", "c", "d"], [1.0, 2.0, 3.0],
    labels=list("abcd"), positions=[[0, 0], [1, 0], [3, 0], [6, 0]], max_edge=0.25,
)  # fmt: skip
RING = cgp.Graph.from_edges(np.arange(10), (np.arange(10) + 1) % 10)
SUM = FieldKernel(WhittleMatern(2.0, 2), PositionKernel(None, 3.0), 0.4)


def varying():
    columns = RNG.uniform(size=(60, 4))
    model = HistGradientBoostingRegressor(loss="gamma", max_iter=2).fit(columns, columns[:, 0])
    inner = made("exact")
    return VaryingNoiseGP(inner, inner.rows, BoostedTrees.of([model] * 2, 2), Tail(5.0))


MAKERS = {
    "exact": lambda: cgp.ExactGPRegressor("gaussian", **FIXED).fit(X, Y).process_,
    "kernel": lambda: cgp.ExactGPRegressor("matern-3/2 + linear", **FIXED).fit(X, Y).process_,
    "sparse": lambda: cgp.SparseSpectrumGPRegressor(n_frequencies=4, **FIXED).fit(X, Y).process_,
    "local": lambda: cgp.LocalGPRegressor("matern-3/2", 4, random_state=0).fit(X, Y).process_,
    "lattice": lambda: cgp.LatticeGPRegressor("gaussian", **FIXED).fit(X, Y).process_,
    "walks": lambda: cgp.GraphGPRegressor(RING, "heat", **FIXED).fit(NODES, Y[:5]).process_,
    "nodes": lambda: cgp.ExactGraphGPRegressor(RING, "heat", **FIXED).fit(NODES, Y[:5]).process_,
    "field": lambda: (
        cgp.FieldGPRegressor(PLACED, SUM, route="columns").fit(list("abcd"), Y[:4]).process_
    ),
    "varying": varying,
    "graph sites": lambda: sites_of(weighted_graph(), "matern"),
    "field sites": lambda: sites_of(PLACED, WhittleMatern(2.0, 1)),
}


@cache
def made(name):
    return MAKERS[name]()


def again(name, tmp_path, kind, **fields):
    path = tmp_path / "m"
    path.write_bytes(encoded(made(name)))
    changed(path, kind, **fields)
    return decoded(path.read_bytes())


@pytest.mark.parametrize("name", ["graph sites", "field sites"])
def test_sites_come_back_to_the_bit(name):
    sites, every = made(name), np.arange(made(name).n_sites)
    found = decoded(encoded(sites), type(sites))
    assert np.array_equal(found.gram(every), sites.gram(every))


ONE = np.ones(1)
CASES = [
    ("exact", "Hyperparameters", {"noise": 0.0}), ("exact", "Hyperparameters", {"noise": -1.0}),
    ("exact", "Hyperparameters", {"lengthscale": np.ones(3)}),
    ("exact", "Hyperparameters", {"outputscale": 1e200}),
    ("exact", "Units", {"scale": np.zeros(1)}),
    ("exact", "Units", {"scale": np.ones(2)}), ("exact", "Units", {"scale": np.zeros(0)}),
    ("exact", "Batch", {"targets": np.ones((19, 1))}), ("exact", "Batch", {"points": ONE}),
    ("exact", "Data", {"batches": {"tuple": []}}), ("exact", "ExactGP", {"evidence": None}),
    ("exact", "ExactGP", {"alpha": np.ones((20, 2))}), ("exact", "ExactGP", {"dense_prior": 3}),
    ("kernel", "KernelPrior", {"vector": np.zeros(99)}), ("kernel", "KernelPrior", {"box": None}),
    ("kernel", "KernelPrior", {"vector": np.full(5, 1e9)}),
    ("kernel", "RowColumns", {"sources": np.array([0, 9])}),
    ("kernel", "RowColumns", {"groups": np.array([0, -1])}),
    ("kernel", "KernelPrior", {"kernel": {"Kernel": "nothing"}}),
    ("sparse", "StoredFeatures", {"dim": 2**60}), ("sparse", "StoredFeatures", {"features": "x"}),
    ("sparse", "StoredFeatures", {"n_frequencies": -4}),
    ("sparse", "StoredFeatures", {"state": {"dict": {}}}),
    ("sparse", "WeightPosterior", {"factor": {"tensor": {"array": "0"}}}),
    ("sparse", "WeightPosterior", {"noise": 0.0}),
    ("sparse", "DataStatistics", {"n_features": 9}),
    ("sparse", "DataStatistics", {"moments": None}),
    ("local", "LocalPrior", {"spread": np.zeros(2)}), ("local", "LocalPrior", {"vector": ONE}),
    ("local", "Structure", {"groups": np.array([0, 5])}), ("local", "Structure", {"trend": "x"}),
    ("local", "Structure", {"n_neighbours": 2**40}), ("local", "Structure", {"dim": 2**40}),
    ("local", "StoredLocal", {"order": np.zeros(20, dtype=int)}),
    ("local", "StoredLocal", {"order": np.arange(1, 21)}),
    ("local", "WhitenedSums", {"n_rows": 0}),
    ("lattice", "Lattice", {"halves": np.array([0, 3])}),
    ("lattice", "Lattice", {"halves": np.array([2**24, 2**24])}),
    ("lattice", "TrendColumns", {"places": np.array([1, 1])}),
    ("lattice", "LatticePosterior", {"mean": np.zeros((3, 2))}),
    ("lattice", "LatticePrior", {"n_trend": 2**40}), ("lattice", "LatticePrior", {"spectrum": 1}),
    ("walks", "WalkRecipe", {"n_walks": 2**40}), ("walks", "WalkRecipe", {"p_halt": 0.0}),
    ("walks", "WalkRecipe", {"length_law": "nothing"}), ("walks", "WalkRecipe", {"max_hops": -1}),
    ("walks", "HopPlan", {"nodes": {"tuple": [0.5] * 3000}}),
    ("walks", "HopPlan", {"nodes": {"tuple": [7.0]}}),
    ("nodes", "StoredNodes", {"method": "guess"}), ("nodes", "StoredNodes", {"solver": "guess"}),
    ("nodes", "StoredNodes", {"noise": 0.0}),
    ("nodes", "StoredNodes", {"weights": np.ones((5, 2))}),
    ("nodes", "StoredNodes", {"kernel": {"GraphKernel": {"dict": {"class": "NoKernel"}}}}),
    ("nodes", "Batch", {"points": np.array([0, 2, 4, 6, 10])}),
    ("nodes", "Batch", {"points": np.array([0, 2, 4, 6, -1])}),
    ("nodes", "NodeSettings", {"n_probes": 2**40}), ("nodes", "NodeSettings", {"solver": "guess"}),
    ("nodes", "StoredGraph", {"indices": np.full(20, 10, dtype=np.int32)}),
    ("nodes", "StoredGraph", {"indptr": np.arange(11)}),
    ("nodes", "StoredGraph", {"weights": np.zeros(20)}),
    ("nodes", "StoredGraph", {"weights": RNG.uniform(1, 2, 20)}),
    ("nodes", "StoredGraph", {"labels": {"tuple": ["a"] * 10}}),
    ("field", "LaplaceOperator", {"dimension": 2}),
    ("field", "LaplaceOperator", {"dimension": 2**40}),
    ("field", "LaplaceOperator", {"mass": np.ones(3)}),
    ("field", "LaplaceOperator", {"parents": np.arange(13)}),
    ("field", "FieldHyperparameters", {"noise": 0.0}),
    ("field", "WhittleMatern", {"range_": -1.0}), ("field", "WhittleMatern", {"alpha": 4}),
    ("field", "WhittleMatern", {"alpha": None}), ("field", "FieldKernel", {"share": 1.0}),
    ("field", "PositionKernel", {"columns": {"tuple": [1.0] * 9}}),
    ("field", "PositionKernel", {"lengthscale": None}),
    ("field", "Batch", {"points": np.ones((4, 4))}),
    ("field", "Batch", {"points": np.ones((4, 3))}),
    ("varying", "Tail", {"degrees": 2.0}), ("varying", "BoostedTrees", {"base": np.zeros((2, 2))}),
    ("varying", "BoostedTrees", {"feature": np.full(2, 9)}),
    ("graph sites", "GraphSites", {"graph": {"same": 0}, "kernel": 1}),
    ("field sites", "WhittleMatern", {"alpha": None}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "change"), CASES)
def test_hostile_processes_are_refused(name, kind, change, tmp_path):
    with pytest.raises(ModelFileError, match="cannot restore"):
        again(name, tmp_path, kind, **change)


def test_tensors_of_other_types_are_refused(tmp_path):
    moments = {"gram": {"tensor": {"array": "0"}}}
    assert isinstance(made("sparse").statistics.moments.gram, torch.Tensor)
    with pytest.raises(ModelFileError, match="cannot restore"):
        again("sparse", tmp_path, "Moments", **moments)
