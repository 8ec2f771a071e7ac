"""Baselines of every kind of fitted process, and a model beside them."""

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.core.left_out import LeftOut
from coupledgp.core.transformed import forward
from coupledgp.diagnostics import BaselinePrediction, BesideBaseline, left_out_rivals, rivals_of
from coupledgp.diagnostics.rivals.nodes import NodeRivals
from coupledgp.diagnostics.rivals.places import FieldRivals
from coupledgp.diagnostics.rivals.tables import TableRivals
from coupledgp.diagnostics.scoring.scores import nlpd, point_nlpd
from coupledgp.errors import CoupledGPError
from tests.often import often

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.exp(np.sin(3 * X[:, 0]) + 0.1 * RNG.normal(size=40))
BALL = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
PLACES = BALL.at_vertices(np.arange(0, 120, 5))
GRAPH = cgp.Graph.from_edges(np.arange(39), np.arange(1, 40))
TABLE = ["mean", "nearest", "linear", "plain process", "additive kernel"]
NODES = ["mean", "nearest", "harmonic"]
SURFACE = [*NODES, "position GP"]


def fitted(kind):
    """A fitted model, test inputs, and the names of its baselines."""
    plain = {"random_state": 0}
    height = BALL.positions[np.arange(0, 120, 5), 2]
    if kind == "weights":
        model = cgp.SparseSpectrumGPRegressor(n_frequencies=16, optimizer=None, **plain)
        return model.fit(X, np.column_stack([Y, -Y])), X[:5], TABLE
    if kind == "exact":
        return cgp.ExactGPRegressor(optimizer=None).fit(X, Y), X[:1], TABLE
    if kind == "mixture":
        return cgp.GPRegressor(**plain).fit(X, Y), X[:5], TABLE
    if kind == "transformed":
        model = cgp.ExactGPRegressor(optimizer=None, target_transform="log")
        return model.fit(X, Y), X[:5], TABLE
    if kind == "nodes":
        nodes = np.arange(0, 40, 3)
        return cgp.ExactGraphGPRegressor(GRAPH).fit(nodes, np.sin(nodes / 9)), nodes[:5], NODES
    model = cgp.FieldGPRegressor(BALL, "matern", route="precision" if kind == "precise" else "auto")
    return model.fit(PLACES, height), PLACES[:5], SURFACE


KINDS = ["weights", "exact", "mixture", "transformed", "nodes", "field", "precise"]


@pytest.mark.parametrize("kind", often(KINDS, "weights", "transformed", "nodes", "precise"))
def test_every_kind_of_process(kind):
    model, wanted, names = fitted(kind)
    process, points = model.process_, model.points(wanted)
    p, k = len(points), process.units.n_outputs
    found = rivals_of(process, points)
    assert [one.name for one in found] == names
    n = len(process.data)
    left_out = left_out_rivals(process, np.arange(n) % 4)
    assert [one.name for one in left_out] == names
    for rivals, size in ((found, p), (left_out, n)):
        for one in rivals:
            assert one.mean.shape == one.std.shape == (size, k)
            assert np.isfinite(one.mean).all()
            assert (one.std > 0).all()
    if kind == "transformed":
        values = forward(process.data.targets, process.transforms)
        np.testing.assert_allclose(found[0].mean[0], values.mean(axis=0))
    elif kind != "mixture":  # which may have chosen a transform of its own
        np.testing.assert_allclose(found[0].mean[0], process.data.targets.mean(axis=0))


def test_weights_reach_the_baselines():
    weights = np.where(np.arange(40) < 4, 1000.0, 1e-3)
    model = cgp.ExactGPRegressor(optimizer=None).fit(X, Y, sample_weight=weights)
    found = rivals_of(model.process_, X[:1])
    np.testing.assert_allclose(found[0].mean[0, 0], np.average(Y, weights=weights))


def test_several_outputs_are_each_output():
    y = RNG.normal(size=(24, 2))
    nodes = np.sort(RNG.choice(40, 24, replace=False))
    groups = np.arange(24) % 5
    for make, at in (
        (lambda y: TableRivals.of(X[:24], y), X[24:]),
        (lambda y: NodeRivals.of(GRAPH, nodes, y), np.arange(40)),
        (lambda y: FieldRivals.of(BALL, PLACES.points, y), BALL.at_vertices().points),
    ):
        both = make(y)
        for k in range(2):
            one = make(y[:, k : k + 1])
            for pair in ((both.predict(at), one.predict(at)), (both.left_out(groups), one.left_out(groups))):  # noqa: E501  # fmt: skip
                for first, second in zip(*pair, strict=True):
                    np.testing.assert_allclose(first.mean[:, k], second.mean[:, 0], atol=1e-9)
                    np.testing.assert_allclose(first.std[:, k], second.std[:, 0], atol=1e-9)


@pytest.mark.parametrize("name", ["mean", "nearest", "harmonic", "position GP"])
def test_fields_left_out_in_groups_are_refits(name):
    """Groups of several places, and places that belong to two groups."""
    rows = PLACES.points[np.r_[np.arange(24), 0, 5, 5]]
    y = BALL.positions[np.arange(0, 120, 5)[np.r_[np.arange(24), 0, 5, 5]], 2:]
    y = y + 0.1 * np.random.default_rng(1).normal(size=y.shape)
    groups = np.random.default_rng(2).integers(0, 6, 27)
    rivals = FieldRivals.of(BALL, rows, y)
    found = {one.name: one for one in rivals.left_out(groups)}[name]
    for group in range(6):
        rest, own = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        if name == "position GP":
            (model,) = rivals._position_gp.models
            inputs = rivals._scaled(rivals.places)[rivals.observations.site]
            targets = (y[:, 0] - y.mean()) / y.std()
            cross = model.kernel_(inputs[own], inputs[rest])
            weights = np.linalg.solve(model.kernel_(inputs[rest]), cross.T)
            mean = y.mean() + y.std() * (weights.T @ targets[rest])
            spread = np.diag(model.kernel_(inputs[own])) - (cross * weights.T).sum(axis=1)
            np.testing.assert_allclose(found.std[own, 0], y.std() * np.sqrt(spread), rtol=1e-5)
        else:
            refit = FieldRivals.of(BALL, rows[rest], y[rest]).predict(rows[own])
            mean = {one.name: one for one in refit}[name].mean[:, 0]
        np.testing.assert_allclose(found.mean[own, 0], mean, rtol=1e-5, atol=1e-5)


def test_a_process_without_its_rows_says_so():
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, optimizer=None, random_state=0)
    process = model.fit(X, Y).process_.without_data()
    with pytest.raises(CoupledGPError, match="no training rows"):
        rivals_of(process, X)


def test_beside_a_baseline():
    y, mean, std = RNG.normal(size=(20, 3)), RNG.normal(size=(20, 3)), np.full((20, 3), 1.5)
    other = BaselinePrediction("mean", np.zeros((20, 3)), np.ones((20, 3)))
    found = BesideBaseline.of(y, mean, std, other)
    gaps = (point_nlpd(y, mean, std) - point_nlpd(y, other.mean, other.std)).mean(axis=1)
    assert found.nlpd == nlpd(y, other.mean, other.std)
    assert found.differences["nlpd"]["mean"] == pytest.approx(gaps.mean())
    error = gaps.std(ddof=1) / np.sqrt(20)
    assert found.differences["nlpd"]["standard_error"] == pytest.approx(error)
    assert found.advantage() == pytest.approx(-gaps.mean() / error)
    squares = ((y - mean) ** 2 - y**2).mean(axis=1)
    assert found.differences["squared_error"]["mean"] == pytest.approx(squares.mean())
    one = BesideBaseline.of(y[:, 0], mean[:, 0], std[:, 0], other.first_output())
    assert one.rmse == pytest.approx(np.sqrt((y[:, 0] ** 2).mean()))
    mixture = LeftOut.single(mean, std**2)
    assert BesideBaseline.of(y, mean, std, other, mixture).differences["nlpd"]["mean"] == (
        pytest.approx(gaps.mean())
    )
