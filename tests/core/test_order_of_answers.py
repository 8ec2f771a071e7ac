"""Answers are in the order of the question, and of the fit where nothing is asked for."""

from functools import cache

import numpy as np
import pytest

import coupledgp as cgp

# Labels whose order in the graph, in the fit and in the questions differ.
GRAPH_ORDER = ["f", "a", "d", "c", "b", "e"]
FITTED, ASKED = ["a", "b", "c", "d", "e", "f"], ["e", "b", "f", "a", "c", "d"]
LEVEL = {label: 10.0 * k for k, label in enumerate(FITTED)}
N = 40
ROAD = cgp.Graph.from_edges(GRAPH_ORDER[:-1], GRAPH_ORDER[1:])
PARTS = cgp.Graph.from_edges(["f", "d", "b"], ["a", "c", "e"])  # three components
QUIET = {"random_state": 0, "progress": False}


def levels(labels):
    return np.array([LEVEL[label] for label in labels])


def a_line():
    """A road of six labelled nodes a kilometre apart."""
    places = np.column_stack([np.arange(6.0), np.zeros(6)])
    ends = GRAPH_ORDER[:-1], GRAPH_ORDER[1:]
    return cgp.LaplaceOperator.from_edges(*ends, np.ones(5), positions=places, labels=GRAPH_ORDER)


@cache
def nodes_model(kind):
    graph = PARTS if kind == "components" else ROAD
    made = {
        "walks": lambda: cgp.GraphGPRegressor(graph, method="walks", **QUIET),
        "exact": lambda: cgp.ExactGraphGPRegressor(graph, **QUIET),
        "components": lambda: cgp.ExactGraphGPRegressor(graph, **QUIET),
    }[kind]()
    fixed = {"optimizer": None, "outputscale": 900.0, "noise": 0.01}
    return made.set_params(**fixed).fit(FITTED, levels(FITTED))


@cache
def time_model(kind="array"):
    rng = np.random.default_rng(0)
    values = levels(FITTED)[:, None] + 0.1 * rng.normal(size=(len(FITTED), N))
    model = cgp.GraphTimeGPRegressor(a_line() if kind == "operator" else ROAD, progress=False)
    return model.fit(FITTED, values, times=np.arange(float(N)))


def near(found, labels, within=3.0):
    np.testing.assert_allclose(np.asarray(found, dtype=float), levels(labels), atol=within)


@pytest.mark.parametrize("kind", ["walks", "exact", "components"])
class TestNodes:
    def test_each_answer(self, kind):
        model = nodes_model(kind)
        near(model.predict(ASKED), ASKED)
        near(model.predict_quantiles(ASKED, [0.5])[:, 0], ASKED)
        near(np.mean(model.predict_interval(ASKED), axis=0), ASKED)
        near(model.sample_y(ASKED, 50).mean(axis=1), ASKED)
        frame = model.predict_frame(ASKED)
        assert list(frame.index.get_level_values("node")) == ASKED
        near(frame["mean"], ASKED)

    def test_deviations_and_covariances(self, kind):
        model, place = nodes_model(kind), [FITTED.index(label) for label in ASKED]
        whole, asked = (model.predict(w, return_cov=True)[1] for w in (FITTED, ASKED))
        np.testing.assert_allclose(asked, whole[np.ix_(place, place)], rtol=1e-6, atol=1e-9)
        prior, other = model.prior_covariance(FITTED), model.prior_covariance(ASKED)
        np.testing.assert_allclose(other, prior[np.ix_(place, place)], rtol=1e-9, atol=1e-9)
        std = model.predict(ASKED, return_std=True)[1]
        np.testing.assert_allclose(std, np.sqrt(np.diag(asked)), rtol=1e-6)

    def test_the_observed_nodes_are_in_the_order_of_the_fit(self, kind):
        model = nodes_model(kind)
        assert list(model.nodes_) == FITTED
        np.testing.assert_allclose(model.y_train_, levels(FITTED))

    def test_all_nodes_are_in_the_order_of_the_graph(self, kind):
        model = nodes_model(kind)
        labels = list(model.graph.labels)
        near(model.predict(), labels)
        assert list(model.predict_frame().index.get_level_values("node")) == labels


def test_classes_of_nodes():
    labels = [label in "abc" for label in FITTED]
    model = cgp.GraphGPClassifier(PARTS, **QUIET).fit(FITTED, labels)
    rows = [FITTED.index(label) for label in ASKED]
    whole, asked = model.predict_proba(FITTED), model.predict_proba(ASKED)
    np.testing.assert_allclose(asked, whole[rows], atol=1e-9)


def test_places_of_a_field():
    model = cgp.FieldGPRegressor(a_line(), **QUIET)
    model = model.fit(FITTED, levels(FITTED))
    rows = [FITTED.index(label) for label in ASKED]
    for answer in (
        model.predict, lambda w: model.predict(w, return_std=True)[1],
        lambda w: model.predict_quantiles(w, [0.1, 0.9]),
        lambda w: model.predict_frame(w).to_numpy(),
    ):  # fmt: skip
        np.testing.assert_allclose(answer(ASKED), answer(FITTED)[rows], rtol=1e-7)
    covariance = model.predict(FITTED, return_cov=True)[1]
    other = model.predict(ASKED, return_cov=True)[1]
    np.testing.assert_allclose(other, covariance[np.ix_(rows, rows)], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["array", "operator"])
class TestSensors:
    def test_forecasts_are_in_the_order_of_the_fit(self, kind):
        model = time_model(kind)
        assert model.nodes_ == FITTED
        mean, std = model.forecast(2)
        near(mean[:, 0], FITTED)
        laws = model.predict(FITTED, model.time_axis_.labels(model.times_ahead(2)), True)
        np.testing.assert_array_equal((mean, std), laws)
        near(model.forecast(1, ASKED, return_std=False)[:, 0], ASKED)

    def test_each_answer(self, kind):
        model, when = time_model(kind), [3.0, 39.0]
        near(model.predict(ASKED, when)[:, 1], ASKED)
        near(np.mean(model.predict_interval(ASKED, when), axis=0)[:, 0], ASKED)
        near(model.sample_y(ASKED, when, n_samples=20).mean(axis=-1)[:, 0], ASKED)
        frame = model.predict_frame(ASKED, when)
        assert list(frame.index.get_level_values("node"))[::2] == ASKED
        near(frame["mean"].to_numpy()[::2], ASKED)
        near(model.predict()[:, 0], GRAPH_ORDER)
        frame = model.predict_frame(None, when[:1])
        near(frame["mean"], frame.index.get_level_values("node"))

    def test_observed_points_are_sensor_by_sensor(self, kind):
        low, high = time_model(kind).predict_interval()
        near(((low + high) / 2).reshape(6, N)[:, 5], FITTED)

    def test_a_file_keeps_the_order(self, kind, tmp_path):
        model = time_model(kind)
        model.save(tmp_path / "model.cgp", include_data=True)
        again = cgp.load_model(tmp_path / "model.cgp")
        assert again.nodes_ == FITTED
        np.testing.assert_array_equal(again.forecast(2), model.forecast(2))
