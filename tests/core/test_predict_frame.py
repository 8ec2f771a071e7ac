"""Predictions as data frames are those of `predict` and `predict_interval`, of every family."""

from __future__ import annotations

import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import (
    ExtrapolationWarning,
    InvalidInputError,
    ModelFileError,
)
from tests.model_files import changed

RNG = np.random.default_rng(6)
X = RNG.normal(size=(40, 2))
Y = np.column_stack([np.sin(X[:, 0]), 3 + 5 * X[:, 1]]) + 0.1 * RNG.normal(size=(40, 2))
NAMES = ["a", "b"]
NEW = pd.DataFrame(X[:7] * 0.9, columns=NAMES, index=pd.Index(list("tuvwxyz"), name="sample"))
MODELS = [
    cgp.ExactGPRegressor(optimizer=None),
    cgp.SparseSpectrumGPRegressor(n_frequencies=16, optimizer=None),
    cgp.ExactGPRegressor(optimizer=None, target_transform="yeo-johnson"),
]


def fitted(model, y):
    return model.fit(pd.DataFrame(X, columns=NAMES), y)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model)[:20])
def test_the_columns_are_the_law_and_the_index_is_that_of_the_rows(model):
    gp = fitted(model, Y[:, 0])
    found = gp.predict_frame(NEW, level=0.8)
    assert list(found.columns) == ["mean", "std", "lower", "upper"]
    pd.testing.assert_index_equal(found.index, NEW.index)
    expected = [*gp.predict(NEW, return_std=True), *gp.predict_interval(NEW, 0.8)]
    np.testing.assert_array_equal(found.to_numpy(), np.column_stack(expected))
    assert (gp.predict_frame(NEW)["upper"] > found["upper"]).all()


def test_several_outputs_have_two_levels():
    gp = fitted(MODELS[0], Y)
    found = gp.predict_frame(NEW)
    assert found.columns.names == ["output", "law"]
    low, high = gp.predict_interval(NEW)
    mean, std = gp.predict(NEW, return_std=True)
    for k in range(2):
        np.testing.assert_array_equal(
            found[k].to_numpy(), np.column_stack([mean, std, low, high])[:, k::2]
        )
    assert found[1]["mean"].mean() > found[0]["mean"].mean() + 1


def test_outputs_have_the_names_of_the_targets(tmp_path):
    gp = fitted(MODELS[1], pd.DataFrame(Y, columns=["flow", "heat"]))
    assert gp.target_names_ == ("flow", "heat")
    gp.save(tmp_path / "model")
    for model in (gp, cgp.load_model(tmp_path / "model"), gp.conditioned_on(NEW, Y[:7])):
        frame = model.predict_frame(NEW)
        assert frame.columns.get_level_values("output").unique().tolist() == ["flow", "heat"]
        np.testing.assert_array_equal(
            frame["heat"]["mean"].to_numpy(), model.predict(NEW)[:, 1]
        )  # fmt: skip
    one = fitted(MODELS[0], pd.Series(Y[:, 0], name="flow"))
    assert cgp.report(one, NEW, Y[:7, 0], depth="scores").tables.predictions.target == "flow"
    assert fitted(MODELS[0], Y).target_names_ == ()
    changed(tmp_path / "model", "FittedModel", target_names={"tuple": ["flow", 7]})
    with pytest.raises(ModelFileError, match="target_names: expected"):
        cgp.load_model(tmp_path / "model")


@pytest.mark.parametrize("rows", [NEW.to_numpy(), NEW.to_numpy().tolist()])
def test_rows_without_an_index_are_counted(rows):
    gp = cgp.ExactGPRegressor(optimizer=None).fit(X, Y[:, 0])
    assert gp.predict_frame(rows).index.tolist() == list(range(7))


def test_it_warns_once_of_rows_far_from_the_data():
    gp = fitted(MODELS[0], Y[:, 0])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        gp.predict_frame(NEW + 50)
    assert [one.category for one in found] == [ExtrapolationWarning]


def test_counts_have_intervals_of_whole_numbers_for_their_exposure():
    counts = np.random.default_rng(3).poisson(np.exp(X[:, 0] + 2))
    gp = cgp.GPRegressor(likelihood="poisson", random_state=0).fit(X, counts)
    found = gp.predict_frame(X[:5], exposure=np.full(5, 4.0))
    low, high = gp.predict_interval(X[:5], exposure=np.full(5, 4.0))
    np.testing.assert_array_equal(found[["lower", "upper"]], np.column_stack([low, high]))
    assert (found["mean"] > gp.predict_frame(X[:5])["mean"]).all()


def test_what_is_wrong_is_named():
    gp = cgp.ExactGPRegressor(optimizer=None).fit(X, Y[:, 0])
    with pytest.raises(InvalidInputError, match="level"):
        gp.predict_frame(X, level=1.5)


BALL = trimesh.creation.icosphere(subdivisions=1)
SPEEDS = np.array([3.0, 4.0, 3.5, 2.0, 2.5])


@pytest.fixture(scope="module")
def field():
    places = BALL.vertices[:12]
    return cgp.FieldGPRegressor(BALL, hyperparameters="maximum").fit(places, places[:, 2] + 3)


def law(model, *points):
    mean, std = model.predict(*points, return_std=True)
    return np.column_stack([mean, std, *model.predict_interval(*points)])


def test_places_of_a_field_are_named_by_coordinates_or_numbers(field):
    places = BALL.triangles_center[:5]
    found = field.predict_frame(places)
    assert found.index.names == ["x", "y", "z"]
    np.testing.assert_array_equal(found.index.to_frame().to_numpy(), places)
    np.testing.assert_array_equal(found.to_numpy(), law(field, places))
    at = field.operator_.at_faces(np.arange(5))
    np.testing.assert_allclose(field.predict_frame(at).index.to_frame().to_numpy(), places)
    few = field.predict_frame([3, 8])
    assert (few.index.name, few.index.tolist()) == ("vertex", [3, 8])
    whole = field.predict_frame()
    assert whole.index.tolist() == list(range(len(BALL.vertices)))
    np.testing.assert_array_equal(whole.to_numpy(), law(field))
    pd.testing.assert_frame_equal(few, whole.loc[[3, 8]])


def test_a_table_of_points_keeps_its_index(field):
    geopandas = pytest.importorskip("geopandas")
    points = geopandas.points_from_xy(*BALL.vertices[:2].T)
    table = geopandas.GeoDataFrame(geometry=points, index=pd.Index(["a", "b"], name="well"))
    assert field.predict_frame(table).index.equals(table.index)


def test_vertices_of_no_face_are_left_out():
    mesh = trimesh.Trimesh(np.vstack([BALL.vertices, [[9, 9, 9]]]), BALL.faces, process=False)
    model = cgp.FieldGPRegressor(mesh, hyperparameters="maximum").fit(list(range(12)), Y[:12, 0])
    assert np.isnan(model.predict()[-1])
    assert model.predict_frame().index.tolist() == list(range(len(BALL.vertices)))


def test_nodes_of_a_graph_are_named_by_their_labels():
    graph = networkx.relabel_nodes(networkx.path_graph(9), {k: f"n{k}" for k in range(9)})
    model = cgp.GraphGPRegressor(graph, kernel="heat", optimizer=None)
    model.fit([f"n{k}" for k in range(5)], SPEEDS)
    found = model.predict_frame(["n7", "n2"])
    assert (found.index.name, found.index.tolist()) == ("node", ["n7", "n2"])
    np.testing.assert_array_equal(found.to_numpy(), law(model, ["n7", "n2"]))
    assert model.predict_frame(nodes=["n7"]).loc["n7", "mean"] == found.loc["n7", "mean"]
    assert list(model.predict_frame(level=0.5).index) == list(graph)


def test_nodes_that_are_pairs_stay_pairs():
    model = cgp.GraphGPRegressor(networkx.grid_2d_graph(3, 3), kernel="heat", optimizer=None)
    found = model.fit([(0, 0), (2, 1)], SPEEDS[:2]).predict_frame([(1, 1), (2, 2)])
    assert found.index.tolist() == [(1, 1), (2, 2)]
    assert found.index.nlevels == 1


def test_values_over_time_have_a_row_for_each_node_and_time():
    graph = networkx.path_graph(4)
    values = np.add.outer([1.0, 2.0, 3.0], np.sin(np.arange(8)))
    model = cgp.GraphTimeGPRegressor(graph, usual_day=False)
    model.fit([0, 1, 2], values, times=np.arange(8.0))
    found = model.predict_frame([3, 0], [2.0, 9.0])
    assert found.index.tolist() == [(3, 2.0), (3, 9.0), (0, 2.0), (0, 9.0)]
    assert found.index.names == ["node", "time"]
    mean, std = model.predict([3, 0], [2.0, 9.0], return_std=True)
    ends = model.predict_interval([3, 0], [2.0, 9.0])
    expected = [np.ravel(part) for part in (mean, std, *ends)]
    np.testing.assert_array_equal(found.to_numpy(), np.column_stack(expected))
