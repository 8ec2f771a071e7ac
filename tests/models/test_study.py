"""Couplings side by side, and the report that is sent on."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.diagnostics.pages.mesh import NodeLayout
from coupledgp.diagnostics.scoring.divergences import KernelErrors
from coupledgp.diagnostics.studies.study import CouplingStudy, MeanOverDraws, StudyRow
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(150, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=150)
TRAIN, TEST = slice(0, 100), slice(100, 150)
MESH = trimesh.creation.icosphere(subdivisions=1)
GRAPH = cgp.Graph.from_trimesh(MESH, nodes="faces")


@pytest.fixture(scope="module")
def model():
    return cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def report(model):
    return cgp.posterior_report(
        model, X[TEST], Y[TEST], couplings=["iid", "orthogonal"], sizes=[4, 16], n_draws=3,
        title="A <title>", data="made up",
    )  # fmt: skip


@pytest.fixture(scope="module")
def graph_report():
    nodes, couplings = RNG.permutation(GRAPH.n_nodes), ["iid", "stratified+systematic"]
    height = MESH.face_normals[:, 2] + 0.1 * RNG.normal(size=GRAPH.n_nodes)
    gp = cgp.GraphGPRegressor(GRAPH, n_walks=4, random_state=0).fit(nodes[:60], height[nodes[:60]])
    return cgp.posterior_report(
        gp, nodes[60:], height[nodes[60:]], couplings=couplings, sizes=[2, 4],
        n_draws=2, geometry=MESH,
    )  # fmt: skip


def test_a_row_is_the_mean_of_comparisons(model, report):
    row = next(r for r in report.study.rows if (r.coupling, r.size) == ("orthogonal", 4))
    hyper = model.process_.hyperparameters
    draws = []
    for seed in range(3):
        other = cgp.SparseSpectrumGPRegressor(
            n_frequencies=4, coupling="orthogonal", lengthscale=hyper.lengthscale,
            outputscale=hyper.outputscale, noise=hyper.noise, optimizer=None, random_state=seed,
        ).fit(X[TRAIN], Y[TRAIN])  # fmt: skip
        draws.append(cgp.diagnostics.compare(other, X[TEST], Y[TEST]))
    for name in ("kl_per_point", "rmse", "nlpd"):
        values = np.array([getattr(draw, name) for draw in draws])
        spread = getattr(row, name)
        assert spread.mean == pytest.approx(values.mean(), rel=1e-6)
        assert spread.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(3), rel=1e-5)
    assert report.study.reference_rmse == pytest.approx(draws[0].reference_rmse)


def test_the_report_has_the_figures_of_compare(model, report):
    plain = cgp.diagnostics.compare(model, X[TEST], Y[TEST])
    assert report.kl_per_point == plain.kl_per_point
    assert report.figures == plain.figures
    assert report.study.sizes == [4, 16]
    assert report.study.couplings == ["iid", "orthogonal"]


def test_json(report, tmp_path):
    text = report.to_json(tmp_path / "r.json")
    read = json.loads((tmp_path / "r.json").read_text())
    assert read == json.loads(text)
    assert read["study"]["rows"][0]["kl_per_point"]["mean"] > 0
    assert read["provenance"]["data"] == "made up"
    assert {"numpy", "torch", "coupledgp", "python"} <= read["provenance"].keys()


@pytest.mark.long
def test_page(report, tmp_path):
    page = report.to_html(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
    assert "A &lt;title&gt;" in page
    for one in report.verdicts:
        assert one.sentence in page
    assert page.count("<svg") == page.count('role="img"') == 10
    assert "Couplings side by side" in page
    # Nothing is fetched: names of namespaces are the only addresses.
    addresses = set(re.findall(r'(?:src|href)="([^"]+)"', page))
    assert not [a for a in addresses if not a.startswith(("#", "data:"))]


@pytest.mark.long
def test_page_of_a_mesh(graph_report):
    page = graph_report.to_html()
    assert "target minus mean" in page
    assert page.count("<svg") == 11
    assert graph_report.study.size_name == "n_walks"


def test_no_targets_no_study(model):
    report = cgp.posterior_report(model, X[TEST])
    page = report.to_html()
    assert report.study is None
    assert page.count("<svg") == 2


def test_verdict_names_what_cannot_be_told_apart():
    def row(name, mean, error):
        return StudyRow(name, 8, 4, MeanOverDraws(mean, error), None, None)

    rows = (row("far", 3.0, 0.1), row("near", 1.0, 0.1), row("same", 1.1, 0.1))
    text = CouplingStudy("n_frequencies", rows, 10, 5, None, None).verdict()
    assert "near is closest" in text
    assert "Not distinguishable from it: same." in text
    assert "far is 3 times as far" in text


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        (MeanOverDraws(3.99712, 0.0123), "3.997 ± 0.012"),
        (MeanOverDraws(1234.6, 12.3), "1235 ± 12"),
        (MeanOverDraws(1.234e-9, 2.1e-10), "1.23e-09 ± 2.1e-10"),
        (MeanOverDraws(0.5, 0.0), "0.5"),
    ],
)
def test_means_are_written_to_their_errors(spread, text):
    assert str(spread) == text


def test_kernel_errors_are_those_of_the_entries():
    A = RNG.normal(size=(200, 5))
    exact, approximate = A @ A.T, A[:, :4] @ A[:, :4].T
    errors = KernelErrors.of(approximate, exact)
    assert errors.error.shape == (150, 150)
    kept = np.linspace(0, 199, 150).astype(int)
    gap = (approximate - exact)[np.ix_(kept, kept)] / np.diagonal(exact)[kept].mean()
    np.testing.assert_allclose(np.sort(errors.error.ravel()), np.sort(gap.ravel()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"couplings": "iid", "sizes": [4]}, "couplings: expected a list"),
        ({"couplings": [], "sizes": [4]}, "couplings: expected a list"),
        ({"couplings": ["nothing"], "sizes": [4]}, "couplings"),
        ({"couplings": ["iid"], "sizes": []}, "sizes: expected"),
        ({"couplings": ["iid"], "sizes": [0]}, "sizes"),
        ({"couplings": ["iid"], "sizes": [4], "n_draws": 1}, "n_draws"),
    ],
)
def test_bad_arguments(model, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.coupling_study(model, X[TEST], **arguments)


def test_bad_geometry():
    with pytest.raises(InvalidInputError, match="geometry: expected 80 faces or vertices"):
        NodeLayout.of(trimesh.creation.box(), GRAPH)
    with pytest.raises(InvalidInputError, match="geometry: expected a mesh or finite positions"):
        NodeLayout.of(np.full((80, 2), np.nan), GRAPH)
    with pytest.raises(InvalidInputError, match="model: expected"):
        cgp.posterior_report(cgp.ExactGPRegressor(optimizer=None).fit(X, Y), X, couplings=["iid"])
