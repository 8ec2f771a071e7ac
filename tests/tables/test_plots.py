"""What estimators plot, beside what they answer."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import trimesh
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.tables.column_moves import DRAWS, ROWS, dependences

RNG = np.random.default_rng(0)
DEPTH = RNG.uniform(0, 6, 40)
Y = np.sin(DEPTH) + 0.1 * RNG.normal(size=40)


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def single():
    return cgp.ExactGPRegressor(random_state=0).fit(pd.DataFrame({"depth": DEPTH}), Y)


def test_one_column_has_the_law_along_it_and_the_rows(single):
    axes = single.plot()
    assert axes.get_xlabel() == "depth"
    mean, rows = axes.lines
    x = pd.DataFrame({"depth": mean.get_xdata()})
    assert np.allclose(mean.get_ydata(), single.predict(x))
    assert sorted(zip(*rows.get_data(), strict=True)) == sorted(zip(DEPTH, Y, strict=True))
    found = [np.ptp(band.get_paths()[0].vertices[:, 1]) for band in axes.collections]
    for band, level in zip(axes.collections, (0.95, 0.5), strict=True):
        low, high = single.predict_interval(x, level=level)
        corners = band.get_paths()[0].vertices
        assert corners[:, 1].min() == pytest.approx(low.min())
        assert corners[:, 1].max() == pytest.approx(high.max())
    assert found[0] > found[1]


def test_several_outputs_have_a_colour_each():
    model = cgp.ExactGPRegressor(random_state=0).fit(DEPTH[:, None], np.stack([Y, -Y], axis=1))
    axes = model.plot()
    colours = {to_hex(one.get_color()) for one in axes.lines}
    assert len(axes.lines) == 4
    assert len(colours) == 2


def test_a_model_without_its_rows_has_its_law_alone(single, tmp_path):
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=16, random_state=0).fit(DEPTH[:, None], Y)
    model.save(tmp_path / "model.safetensors")
    read = cgp.load_model(tmp_path / "model.safetensors")
    (mean, rows) = read.plot().lines
    assert np.allclose(mean.get_ydata(), read.predict(mean.get_xdata()[:, None]))
    assert not len(rows.get_xdata())


def test_more_columns_have_their_partial_dependence_the_largest_first():
    X = RNG.normal(size=(60, 3))
    model = cgp.ExactGPRegressor(random_state=0).fit(X, 0.3 * X[:, 0] + 3 * X[:, 2] + X[:, 1])
    panels = model.plot()
    assert [one.get_title() for one in panels] == ["x2", "x1", "x0"]
    (line,) = panels[0].lines
    slope = np.polyfit(line.get_xdata(), line.get_ydata(), 1)[0]
    assert abs(slope - 3) < 0.1


def test_partial_dependence_is_the_average_over_rows():
    """Of the mean, as scikit-learn has it, within the error of 200 draws."""
    table = pd.DataFrame({"kind": RNG.choice(["a", "b"], 40), "size": RNG.normal(size=40)})
    y = np.where(table.kind == "a", 1.0, 3.0) + table["size"] + 0.1 * RNG.normal(size=40)
    model = cgp.ExactGPRegressor(random_state=0).fit(table, y)
    (found,) = dependences(model.process_, model.fitted_.columns, ["kind"])
    rows = table.iloc[np.random.default_rng(0).permutation(40)[:ROWS]]
    for level, mean, std in zip(found.labels, found.mean, found.std, strict=True):
        expected = model.predict(rows.assign(kind=level)).mean()
        assert abs(mean - expected) < 5 * std / np.sqrt(DRAWS)


def test_new_observations_stand_beside_their_predictions(single):
    x = np.linspace(0.5, 5.5, 30)
    X, y = pd.DataFrame({"depth": x}), np.sin(x)
    y[3] += 5
    axes = single.plot(X, y)
    low, high = single.predict_interval(X)
    inside = (low <= y) & (y <= high)
    labels = axes.figure.legends[0].get_texts()
    assert [one.get_text() for one in labels] == [
        f"inside its 95 % interval ({inside.sum()})",
        f"outside its 95 % interval ({(~inside).sum()})",
    ]  # fmt: skip
    outside = axes.lines[1]
    assert outside.get_ydata().tolist() == y[~inside].tolist()
    assert np.allclose(outside.get_xdata(), single.predict(X)[~inside])
    named = single.plot(X, pd.Series(y, name="yield %"))
    assert named.get_ylabel() == "observed yield %"
    table = pd.DataFrame({"depth": DEPTH, "age": Y})
    fitted = cgp.ExactGPRegressor(optimizer=None).fit(table, pd.Series(Y, name="yield %"))
    assert fitted.plot()[0].get_ylabel() == "average of f (units of yield %)"
    shown = pyplot.get_fignums()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        single.plot(X, y[:4])
    assert pyplot.get_fignums() == shown  # no empty figure below the error


def test_latitude_and_longitude_have_maps():
    places = pd.DataFrame({"latitude": RNG.uniform(47, 48, 60), "longitude": RNG.uniform(8, 9, 60)})
    model = cgp.LatticeGPRegressor("gaussian", random_state=0).fit(places, 3 * places["latitude"])
    assert [one.get_title() for one in model.plot()] == ["mean", "standard deviation"]


@pytest.mark.long
def test_fields_have_maps_with_their_sensors():
    part = trimesh.creation.box((4.0, 2.0, 1.0))
    sensors, _ = trimesh.sample.sample_surface(part, 30, seed=0)
    model = cgp.FieldGPRegressor(part).fit(sensors, 20 + sensors[:, 0])
    panels = model.plot()
    assert len(panels) == 2
    assert any(isinstance(one, PolyCollection) for one in panels[0].collections)
    drawn = model.field_map(left_out=np.zeros(30), names=[f"T{k}" for k in range(30)])
    assert np.allclose(drawn.sensors, sensors)
    assert len(drawn.plot()) == 2  # errors at sensors alone are for the viewer
    given = model.operator_.given_vertices
    mean, std = model.predict(return_std=True)
    assert np.allclose(drawn.mean[given], mean)
    assert np.allclose(drawn.std[given], std)


def test_roads_are_drawn_as_lines():
    positions = np.array([[k, 0.5 * k] for k in range(12)])
    edges = np.array(nx.path_graph(12).edges)
    operator = cgp.LaplaceOperator.from_edges(*edges.T, np.full(11, 1.1), positions=positions)
    model = cgp.FieldGPRegressor(operator).fit(np.arange(0, 12, 2), np.arange(6.0))
    panels = model.plot()
    lines = [one for one in panels[0].collections if isinstance(one, LineCollection)]
    assert len(lines[0].get_segments()) == len(model.operator_.elements)


def test_nodes_are_drawn_by_edges_alone_or_at_positions():
    graph = nx.cycle_graph(14)
    model = cgp.ExactGraphGPRegressor(graph).fit(np.arange(0, 14, 2), np.arange(7.0))
    assert len(model.plot()) == 2
    places = RNG.normal(size=(14, 2))
    dots = model.plot(places)[0].collections[-1]
    assert np.allclose(dots.get_offsets(), places)
    with pytest.raises(InvalidInputError, match="geometry: expected a mesh or finite positions"):
        model.plot(places[:3])


def test_sensors_over_time_have_their_series():
    times = np.arange(40.0)
    values = np.sin(times / 6)[:, None] + 0.1 * RNG.normal(size=(40, 4))
    data = pd.DataFrame(values, index=times, columns=list("abcd"))
    graph = nx.relabel_nodes(nx.path_graph(4), dict(enumerate("abcd")))
    model = cgp.GraphTimeGPRegressor(graph).fit(data)
    axes = model.plot("c")
    mean, observed = axes.lines[:2]
    assert np.allclose(observed.get_ydata(), data["c"])
    assert np.allclose(mean.get_ydata(), model.predict(["c"])["c"])
    with pytest.raises(InvalidInputError, match="X: expected one of 'a', 'b', 'c', 'd'"):
        model.plot("e")


def test_classifiers_have_their_confusion():
    X = RNG.normal(size=(60, 2))
    labels = np.where(X[:, 0] > 0, "high", "low")
    model = cgp.GPClassifier(random_state=0).fit(X[:40], labels[:40])
    axes = model.plot(X[40:], labels[40:])
    counts = [int(one.get_text()) for one in axes.texts]
    assert sum(counts) == 20
    right = np.mean(model.predict(X[40:]) == labels[40:])
    assert (counts[0] + counts[3]) / 20 == pytest.approx(right)
    with pytest.raises(InvalidInputError, match="y: expected observations at X to plot GPCl"):
        model.plot()
