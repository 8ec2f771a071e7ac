"""The report and the study of couplings where the exact GP is too large for dense algebra."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import StochasticOptions
from coupledgp.errors import InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.tables.exact_process import ExactGP
from coupledgp.tables.weight_space import WeightSpaceGP

COMPARE = import_module("coupledgp.diagnostics.compare")  # the package's `compare` is the function
RNG = np.random.default_rng(5)
X = RNG.normal(size=(260, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=260)
TRAIN, TEST = slice(0, 200), slice(200, 260)
ASKED = {"couplings": ["iid", "orthogonal"], "sizes": [4, 16], "n_draws": 3}


def fitted(**options):
    model = cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, dict(n_frequencies=8, random_state=0, **options))
    )
    return model.fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def solves(monkeypatch):
    """Allow dense algebra for 100 rows and no exact process; collect the points of each solve."""

    def refused(self):
        raise AssertionError("the exact process was computed")

    monkeypatch.setattr(COMPARE, "DENSE_ROWS", 100)
    monkeypatch.setattr(WeightSpaceGP, "exact", refused)
    solved, points = COMPARE.solved_law, []

    def counted(problem, X_test, options):
        points.append(len(X_test))
        return solved(problem, X_test, options)

    monkeypatch.setattr(COMPARE, "solved_law", counted)
    return points


def values(study):
    return np.array([
        (row.kl_per_point.mean, row.kl_per_point.standard_error, row.rmse.mean, row.nlpd.mean)
        for row in study.rows
    ])  # fmt: skip


def exact(model):
    process = model.process_
    return ExactGP.given(process.feature_prior.stationary, process.data, process.units, True)


def test_solves_give_the_dense_study(model, solves):
    by_solves = cgp.coupling_study(model, X[TEST], Y[TEST], **ASKED)
    assert solves == [60]
    dense = cgp.coupling_study(
        model, X[TEST], Y[TEST], reference=exact(model), **ASKED,
    )  # fmt: skip
    assert solves == [60]
    np.testing.assert_allclose(values(by_solves), values(dense), rtol=1e-3, atol=1e-5)
    assert by_solves.reference_rmse == pytest.approx(dense.reference_rmse, rel=1e-4)
    assert (by_solves.n_train, by_solves.n_test) == (200, 60)


def test_one_solve_for_report_and_study(model, solves):
    report = cgp.posterior_report(model, X[TEST], Y[TEST], **ASKED)
    assert solves == [60]
    assert report.accuracy.method == "stochastic"
    assert report.accuracy.settings["reference_iterations"] > 0
    assert "bounds" in report.verdict()
    alone = cgp.coupling_study(model, X[TEST], Y[TEST], **ASKED)
    assert np.array_equal(values(report.study), values(alone))
    base = cgp.diagnostics.compare(model, X[TEST], Y[TEST])
    assert (report.kl_per_point, report.nlpd) == (base.kl_per_point, base.nlpd)
    assert '<th scope="row">this model</th>' in report.to_html()


def arrow(rows):
    return pa.table({"a": rows[:, 0], "b": rows[:, 1]})


@pytest.mark.parametrize("kind", [np.asarray, arrow])
def test_more_points_than_solves(solves, kind):
    """Joint figures of all points by probes; the study at as many points as have a solve each."""
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0)
    model.fit(kind(X[TRAIN]), Y[TRAIN])
    options = StochasticOptions(n_columns=12, n_probes=8)
    report = cgp.posterior_report(model, kind(X[TEST]), Y[TEST], options=options, **ASKED)
    assert (report.n_test, report.n_scored, report.study.n_test) == (60, 12, 12)
    assert solves == [12]
    assert "this model" not in report.to_html()
    chosen = np.sort(np.random.default_rng(0).choice(60, 12, replace=False))
    few = cgp.coupling_study(model, kind(X[TEST][chosen]), Y[TEST][chosen], **ASKED)
    np.testing.assert_allclose(values(report.study), values(few), rtol=1e-6)


def test_graphs_too(monkeypatch):
    graph = cgp.Graph.from_edges(np.arange(79), np.arange(1, 80))
    nodes, height = np.arange(0, 80, 2), np.sin(np.arange(80) / 9)
    gp = cgp.GraphGPRegressor(graph, "heat", n_walks=4, exact_hops=0, random_state=0)
    gp.fit(nodes, height[nodes])
    asked = {"couplings": ["iid", "stratified+systematic"], "sizes": [4], "n_draws": 2}
    dense = cgp.coupling_study(gp, np.arange(1, 80, 2), height[1::2], method="dense", **asked)
    options = StochasticOptions(tolerance=1e-5)
    report = cgp.posterior_report(
        gp, np.arange(1, 80, 2), height[1::2], method="stochastic", options=options, **asked
    )
    assert report.accuracy.settings["model_iterations"] > 0
    np.testing.assert_allclose(values(report.study), values(dense), rtol=2e-2)


def test_dense_algebra_if_asked_for(model, monkeypatch):
    monkeypatch.setattr(COMPARE, "DENSE_ROWS", 100)
    assert cgp.posterior_report(model, X[TEST], method="dense").accuracy.method == "dense"
    with pytest.raises(InvalidInputError, match="method: expected one of"):
        cgp.posterior_report(model, X[TEST], method="exact")


def test_fitted_frequencies_beside_sampled_ones():
    """The study draws from the kernel's spectrum, whatever the model's frequencies are."""
    model = fitted(frequencies="fitted", max_iter=10)
    asked = {"couplings": ["iid"], "sizes": [4], "n_draws": 2}
    row = cgp.coupling_study(model, X[TEST], Y[TEST], **asked).rows[0]
    hyper, kl = model.process_.hyperparameters, []
    for seed in range(2):
        other = cgp.SparseSpectrumGPRegressor(
            n_frequencies=4, coupling="iid", lengthscale=hyper.lengthscale, optimizer=None,
            outputscale=hyper.outputscale, noise=hyper.noise, random_state=seed,
        ).fit(X[TRAIN], Y[TRAIN])  # fmt: skip
        reference = model.exact_twin()
        kl.append(cgp.diagnostics.compare(other, X[TEST], reference=reference).kl_per_point)
    assert row.kl_per_point.mean == pytest.approx(np.mean(kl), rel=1e-6)
