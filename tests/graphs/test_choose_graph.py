"""The evidence chooses between graphs of the same nodes."""

from __future__ import annotations

import re

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError


def stretched() -> trimesh.Trimesh:
    """A cylinder of which the faces grow from one end to the other by a factor of 300."""
    mesh = trimesh.creation.capsule(height=2.0, radius=1.0, count=[12, 12])
    mesh.vertices[:, 2] = np.exp(1.5 * mesh.vertices[:, 2])
    return mesh


def graphs_of(mesh):
    return {
        name: cgp.Graph.from_trimesh(mesh, "faces", name) for name in ("unit", "inverse-distance")
    }


def values_on(graph, kernel):
    """A draw of the law that a kernel on the graph describes, a little noisy."""
    K = cgp.kernels.dense_kernel(graph, kernel)
    rng = np.random.default_rng(1)
    draw = np.linalg.cholesky(K + 1e-10 * np.eye(len(K))) @ rng.standard_normal(len(K))
    return draw / draw.std() + 0.01 * rng.standard_normal(len(K))


@pytest.mark.parametrize("true", ["unit", "inverse-distance"])
def test_the_graph_that_made_the_values_is_chosen(true):
    graphs = graphs_of(stretched())
    y = values_on(graphs[true], cgp.kernels.HeatKernel(8.0))
    nodes = np.arange(0, y.size, 2)
    model = cgp.ExactGraphGPRegressor(None, "heat", random_state=0)
    fitted, choice = cgp.choose_graph(model, graphs, nodes, y[nodes])
    assert choice.chosen == true
    assert fitted.graph is graphs[true]
    greatest = {"kernel": "heat", "random_state": 0, "hyperparameters": "maximum"}
    alone = [
        cgp.ExactGraphGPRegressor(graph, **greatest).fit(nodes, y[nodes])
        for graph in graphs.values()
    ]
    expected = [fit.log_marginal_likelihood_value_ for fit in alone]
    np.testing.assert_allclose(choice.log_evidences, expected, rtol=1e-9)
    assert choice.explain().startswith(f"{true}: log evidence")
    assert choice.to_dict()["chosen"] == true
    assert model.graph is None


def test_models_of_walks_choose_too():
    graphs = graphs_of(stretched())
    y = values_on(graphs["inverse-distance"], cgp.kernels.HeatKernel(8.0))
    nodes = np.arange(0, y.size, 2)
    model = cgp.GraphGPRegressor(graphs["unit"], "heat", n_walks=8, random_state=0)
    fitted, choice = cgp.choose_graph(model, graphs, nodes, y[nodes])
    assert choice.chosen == "inverse-distance"
    assert fitted.n_walks_ == 8


def test_of_equal_graphs_the_first_stays():
    graph = graphs_of(stretched())["unit"]
    y = values_on(graph, cgp.kernels.HeatKernel(8.0))
    model = cgp.ExactGraphGPRegressor(graph, "heat", random_state=0)
    _, choice = cgp.choose_graph(model, {"a": graph, "b": graph}, np.arange(40), y[:40])
    assert choice.chosen == "a"
    assert re.search(r"nats; b [+-]0\.00 nats from it$", choice.explain())


def test_bad_graphs_are_refused():
    graph, other = (cgp.Graph.from_edges([0] * k, list(range(1, k + 1))) for k in (3, 4))
    model = cgp.ExactGraphGPRegressor(graph, "heat")
    for graphs, message in (
        ({}, "graphs: expected graphs by name"),
        ([graph], "graphs: expected graphs by name"),
        ({"a": graph, "b": other}, "graphs: expected the same nodes in all, .* as 'b'"),
        ({"a": graph, "b": 3}, r"graphs\['b'\]: expected a coupledgp.Graph"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            cgp.choose_graph(model, graphs, [0, 1], [0.0, 1.0])


def test_weights_by_distance():
    mesh = stretched()
    graph = cgp.Graph.from_trimesh(mesh, "faces", "inverse-distance")
    edges = graph.adjacency.tocoo()
    centres = mesh.triangles_center
    distances = np.linalg.norm(centres[edges.row] - centres[edges.col], axis=1)
    np.testing.assert_allclose(edges.data, distances.mean() / distances)
    unit = cgp.Graph.from_trimesh(mesh)
    np.testing.assert_array_equal(graph.indices, unit.indices)
    vertices = cgp.Graph.from_trimesh(mesh, "vertices", "inverse-distance")
    assert vertices.adjacency.max() == pytest.approx(
        mesh.edges_unique_length.mean() / mesh.edges_unique_length.min()
    )


def test_faces_at_one_place_are_not_cut_off():
    mesh = trimesh.creation.box()
    twice = trimesh.Trimesh(mesh.vertices, np.vstack([mesh.faces, mesh.faces[:1]]), process=False)
    graph = cgp.Graph.from_trimesh(twice, "faces", "inverse-distance")
    assert np.isfinite(graph.weights).all()
    assert graph.weights.max() <= 1000
    point = trimesh.Trimesh(np.zeros((4, 3)), [[0, 1, 2], [1, 2, 3]], process=False)
    assert cgp.Graph.from_trimesh(point, "vertices", "inverse-distance").n_nodes == 4
    with pytest.raises(InvalidInputError, match="weights: expected one of 'inverse-distance'"):
        cgp.Graph.from_trimesh(mesh, "faces", "area")


class Stated:
    """An estimator whose evidence of each graph is stated beforehand, by the number of edges."""

    def __init__(self, graph, evidences, error=0.0):
        self.graph, self.evidences, self.error = graph, evidences, error

    def get_params(self, deep=True):
        return {"graph": self.graph, "evidences": self.evidences, "error": self.error}

    def fit(self, nodes, y):
        self.log_marginal_likelihood_value_ = self.evidences[self.graph.n_edges]
        self.log_marginal_likelihood_error_ = self.error
        return self


@pytest.mark.parametrize(
    ("gain", "error", "chosen"),
    [(2.9, 0.0, "usual"), (3.1, 0.0, "other"), (3.1, 2.0, "usual"), (6.0, 2.0, "other")],
)
def test_the_usual_graph_stays_unless_another_wins_by_nats_and_errors(gain, error, chosen):
    graphs = {
        "usual": cgp.Graph.from_edges([0, 1], [1, 2]),
        "other": cgp.Graph.from_edges([0, 1, 2], [1, 2, 0]),
    }
    model = Stated(None, {2: -10.0, 3: -10.0 + gain}, error)
    _, choice = cgp.choose_graph(model, graphs, [0], [1.0])
    assert choice.chosen == chosen
