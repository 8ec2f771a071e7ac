"""Graph models whose kernel has a sparse precision: answered by it, in place of walks too."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.graphs.posterior import DensePosterior, IterativePosterior, PrecisionNodePosterior
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel, RegularizedLaplacianKernel

GRID = cgp.Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(36, 37)))
WIDE = RegularizedLaplacianKernel(80.0, 2.0)
GIVEN = {"optimizer": None, "noise": 0.1, "outputscale": 2.0, "random_state": 0}
RNG = np.random.default_rng(2)
NODES = RNG.permutation(GRID.n_nodes)[:80]
Y = np.sin(NODES / 200) + 0.1 * RNG.normal(size=80)


@pytest.fixture(scope="module")
def spectral():
    return cgp.ExactGraphGPRegressor(
        GRID, WIDE, **folded(cgp.ExactGraphGPRegressor, dict(method="spectral", **GIVEN))
    ).fit(NODES, Y)


@pytest.mark.parametrize("name", ["ExactGraphGPRegressor", "GraphGPRegressor"])
def test_laws_evidence_and_files(name, spectral, tmp_path):
    model = getattr(cgp, name)(GRID, WIDE, **GIVEN).fit(NODES, Y)
    assert model.method_ == "cholesky"
    assert "forecast" in model.method_reason_
    assert isinstance(model.process_.posterior, PrecisionNodePosterior)
    for found, expected in zip(
        model.predict(return_std=True), spectral.predict(return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    value = spectral.log_marginal_likelihood_value_
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, value)
    assert model.log_marginal_likelihood_error_ == 0.0
    model.save(tmp_path / "model")
    loaded = cgp.load_model(tmp_path / "model")
    assert loaded.method_ == "cholesky"
    assert loaded.method_reason_ == model.method_reason_
    assert isinstance(loaded.process_.posterior, PrecisionNodePosterior)
    np.testing.assert_allclose(loaded.predict(), model.predict(), rtol=1e-12)
    np.testing.assert_array_equal(loaded.sample_y([1, 2], 3), model.sample_y([1, 2], 3))


def test_further_data_and_other_data(spectral):
    models = [
        spectral,
        cgp.GraphGPRegressor(GRID, WIDE, **folded(cgp.GraphGPRegressor, GIVEN)).fit(NODES, Y),
    ]
    more = np.array([5, 5, 900])
    for change in ("partial_fit", "conditioned_on"):
        laws = []
        for model in models:
            own = model.conditioned_on(NODES, Y)
            made = getattr(own, change)(more, np.array([0.1, 0.3, -0.2]))
            law = made.predict([0, 5, 7], return_cov=True)
            laws.append((*law, made.log_marginal_likelihood_value_))
        for found, expected in zip(*laws, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_several_outputs():
    targets = np.stack([Y, -2 * Y + 1], axis=1)
    laws = [
        kind(GRID, WIDE, **GIVEN, **how).fit(NODES, targets).predict(return_std=True)
        for kind, how in (
            (cgp.GraphGPRegressor, {}),
            (cgp.ExactGraphGPRegressor, {"method": "spectral"}),
        )
    ]
    for found, expected in zip(*laws, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "walks"}, {"n_walks": 8}, {"coupling": "iid"}, {"exact_hops": 3},
        {"solver": "dense"}, {"hop_nodes": "power"}, {"length_law": "geometric"},
    ],
    ids=repr,
)  # fmt: skip
def test_walks_where_they_are_asked_for(asked):
    kernel = RegularizedLaplacianKernel(4.0, 2.0)
    model = cgp.GraphGPRegressor(
        **folded(cgp.GraphGPRegressor, {"graph": GRID, "kernel": kernel, **GIVEN, **asked})
    )
    model.fit(NODES, Y)
    assert model.method_ == "walks"
    assert model.method_reason_ == model.plan_.reason
    assert model.n_walks_ == asked.get("n_walks", 32)


@pytest.mark.parametrize("kernel", [HeatKernel(4.0), RegularizedLaplacianKernel(4.0, 1.5)])
def test_kernels_without_a_sparse_precision_are_exact_too(kernel):
    model = cgp.GraphGPRegressor(GRID, kernel, **folded(cgp.GraphGPRegressor, GIVEN)).fit(NODES, Y)
    assert model.method_ == "series"
    twin = cgp.ExactGraphGPRegressor(
        GRID, kernel, **folded(cgp.ExactGraphGPRegressor, dict(method="spectral", **GIVEN))
    ).fit(NODES, Y)
    np.testing.assert_allclose(model.predict(), twin.predict(), atol=1e-6)


@pytest.mark.long
def test_small_graphs_are_walked():
    graph = cgp.Graph.from_networkx(nx.path_graph(50))
    model = cgp.GraphGPRegressor(graph, WIDE, **folded(cgp.GraphGPRegressor, GIVEN)).fit(
        [0, 9, 40], [1.0, 2.0, 0.5]
    )
    assert model.method_ == "walks"


@pytest.mark.parametrize("name", ["plan_", "n_walks_", "truncation_"])
def test_results_of_walks_are_missing_with_advice(name):
    model = cgp.GraphGPRegressor(GRID, WIDE, **folded(cgp.GraphGPRegressor, GIVEN)).fit(NODES, Y)
    with pytest.raises(AttributeError, match="method='walks'"):
        getattr(model, name)
    assert not hasattr(model, name)


def test_other_draws_are_walked_and_the_exact_process_stays():
    model = cgp.GraphGPRegressor(GRID, WIDE, **folded(cgp.GraphGPRegressor, GIVEN)).fit(NODES, Y)
    process = model.process_
    drawn = process.redrawn("iid", 4, 1)
    assert drawn.chosen.method == "walks"
    assert drawn.recipe.n_walks == 4
    exact = process.exact()
    np.testing.assert_allclose(exact.law(NODES, "mean")[0], process.law(NODES, "mean")[0])
    report = cgp.report(model, NODES[:5])
    assert abs(report.score("kl")) < 1e-9


@pytest.mark.long
def test_couplings_are_compared_by_walks():
    settings = {**GIVEN, "coupling": "auto", "n_walks": 2, "kl_target": 10.0}
    model = cgp.GraphGPRegressor(GRID, WIDE, **folded(cgp.GraphGPRegressor, settings)).fit(
        NODES[:30], Y[:30]
    )
    assert model.method_ == "walks"


@pytest.mark.parametrize(
    ("solver", "kind"), [("dense", DensePosterior), ("iterative", IterativePosterior)]
)
def test_solvers_that_are_asked_for_are_used(solver, kind):
    settings = {**GIVEN, "method": "cholesky", "solver": solver}
    model = cgp.ExactGraphGPRegressor(
        GRID, WIDE, **folded(cgp.ExactGraphGPRegressor, settings)
    ).fit(NODES, Y)
    assert isinstance(model.process_.posterior, kind)


HEAT_MODELS = {
    "series, many": (HeatKernel(4.0), np.arange(0, 1150), {}),
    "series, observed": (HeatKernel(4.0), NODES, {}),
    "series, all": (HeatKernel(4.0), np.arange(GRID.n_nodes), {}),
    "series, twice": (HeatKernel(4.0), np.append(NODES, NODES[:5]), {}),
    "spectral": (HeatKernel(30_000.0), NODES, {}),
    "series, no whole power": (RegularizedLaplacianKernel(4.0, 1.5), NODES, {}),
    "cholesky": (WIDE, NODES, {}),
}


@pytest.mark.parametrize("name", HEAT_MODELS)
def test_files_hold_every_way_of_an_exact_answer(name, tmp_path, capfd):
    kernel, nodes, settings = HEAT_MODELS[name]
    targets = np.sin(nodes / 50.0)
    model = cgp.GraphGPRegressor(
        GRID, kernel, **folded(cgp.GraphGPRegressor, dict(**GIVEN, **settings))
    ).fit(nodes, targets)
    assert model.method_ == name.split(",")[0]
    model.save(tmp_path / "m.model")
    loaded = cgp.load_model(tmp_path / "m.model")
    assert (loaded.method_, loaded.method_reason_) == (model.method_, model.method_reason_)
    for found, expected in zip(
        loaded.predict(return_std=True), model.predict(return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert model.method_reason_ in loaded.explain()
    more = [1200, 1203], [0.3, 0.1]
    np.testing.assert_allclose(
        loaded.partial_fit(*more).predict(), model.partial_fit(*more).predict(), atol=1e-9
    )
    assert capfd.readouterr().err == ""
