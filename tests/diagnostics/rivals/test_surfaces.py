"""Baselines of field models against plain references and refits."""

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.diagnostics.rivals import surfaces
from coupledgp.diagnostics.rivals.surfaces import PositionGP, _nearest_places, field_kind
from coupledgp.fields.locations import canonical, location_positions
from tests.diagnostics.rivals.cases import left_out, predicted

RNG = np.random.default_rng(5)


def network(max_edge=None, seed=0):
    """Thirty edges, parallel ones and a loop among them, and a part apart of the rest."""
    rng = np.random.default_rng(seed)
    ends = np.concatenate([rng.integers(0, 15, (26, 2)), [[3, 4], [3, 4], [5, 5], [15, 16]]])
    return cgp.LaplaceOperator.from_edges(
        *ends.T, rng.uniform(0.5, 3, len(ends)), n_nodes=17, max_edge=max_edge
    )


def on_network(operator, n, seed):
    """Places on edges of the larger part, vertices among them."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, 29, n)
    offsets = rng.uniform(0, 1, n) * operator.given_lengths[edges]
    offsets[:2] = 0, operator.given_lengths[edges[1]]
    return operator.at_edges(edges, offsets).points


def on_ball(n, seed):
    operator = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    points = np.random.default_rng(seed).normal(size=(n, 3))
    return operator, operator.project(points / np.linalg.norm(points, axis=1)[:, None]).points


def at(operator, sensors, y, queries):
    """Predictions (p,) at places from observations (n,) at others."""
    known, wanted = (canonical(getattr(one, "points", one)) for one in (sensors, queries))
    return predicted(field_kind(operator, known, np.asarray(y)[:, None]), wanted)


def of_others(operator, sensors, y):
    """Predictions of every observation from those at all other places."""
    kind = field_kind(operator, canonical(sensors), y[:, None])
    return left_out(kind, kind.observations.site)


def without(points, y, place):
    kept = ~(points == place).all(axis=1)
    return points[kept], y[kept]


def ways(operator, a, b):
    """Length of the shortest way between two places, over the ends of their elements."""
    import networkx as nx

    graph = nx.Graph()
    for (i, j), length in zip(operator.elements, operator.element_lengths, strict=True):
        if not graph.has_edge(i, j) or graph.edges[i, j]["weight"] > length:
            graph.add_edge(i, j, weight=length)
    found = []
    for row in (a, b):
        (i, j), (u, v) = row[:2].astype(int), row[2:]
        length = graph.edges[i, j]["weight"] if i != j else 0.0
        found.append({i: v * length, j: u * length} if i != j else {i: 0.0})
    best = np.inf
    for i, first in found[0].items():
        for j, second in found[1].items():
            if nx.has_path(graph, i, j):
                over = nx.dijkstra_path_length(graph, i, j)
                best = min(best, first + over + second)
    if set(a[:2]) == set(b[:2]) and a[0] != a[1]:
        share = [row[3] if row[0] < row[1] else row[2] for row in (a, b)]
        low, high = sorted(a[:2].astype(int))
        best = min(best, abs(share[0] - share[1]) * graph.edges[low, high]["weight"])
    return best


@pytest.mark.parametrize("max_edge", [None, 0.4])
def test_nearest_along_a_network(max_edge):
    operator = network(max_edge)
    sensors = canonical(on_network(operator, 12, 1))
    queries = canonical(
        np.concatenate([on_network(operator, 20, 2), operator.at_edges([29], [0.3]).points])
    )
    nearest = _nearest_places(operator, sensors, queries)
    assert nearest[-1] == -1
    for query, number in zip(queries[:-1], nearest[:-1], strict=True):
        distances = [ways(operator, sensor, query) for sensor in sensors]
        assert distances[number] == pytest.approx(min(distances), abs=1e-9)


@pytest.mark.parametrize("max_edge", [None, 0.4])
def test_leaving_out_on_a_network_is_refitting(max_edge):
    operator = network(max_edge)
    points = on_network(operator, 14, 3)
    points = np.concatenate([points, points[:3], operator.at_edges([29], [0.3]).points])
    y = RNG.normal(size=len(points))
    found = of_others(operator, points, y)
    assert list(found) == ["mean", "nearest", "harmonic"]
    for k, place in enumerate(points):
        expected = at(operator, *without(points, y, place), points[k : k + 1])
        for name, one in found.items():
            np.testing.assert_allclose(one.mean[k], expected[name].mean[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found["mean"].std[k], expected["mean"].std[0], rtol=1e-9)


def test_leaving_out_on_a_surface_is_refitting(monkeypatch):
    monkeypatch.setattr(surfaces, "MAX_POSITIONS", 0)
    operator, points = on_ball(20, 0)
    points = np.concatenate([points, points[:4], operator.at_vertices([7]).points])
    y = RNG.normal(size=len(points))
    found = of_others(operator, points, y)
    for k, place in enumerate(points):
        expected = at(operator, *without(points, y, place), points[k : k + 1])
        for name in ("mean", "nearest", "harmonic"):
            np.testing.assert_allclose(
                found[name].mean[k], expected[name].mean[0], rtol=1e-6, atol=1e-6
            )


def test_the_position_gp_left_out_is_that_of_its_hyperparameters():
    operator, points = on_ball(25, 1)
    points = np.concatenate([points, points[:3]])
    x = location_positions(points, operator.positions)
    y = np.sin(3 * x[:, 0]) + 0.1 * RNG.normal(size=len(points))
    gp = PositionGP(x, y[:, None])
    groups = np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)
    found, (model,) = gp.left_out(groups), gp.models
    units = (y - y.mean()) / y.std()
    for k in range(len(points)):
        a, b = x[groups != groups[k]], x[k : k + 1]
        cross = model.kernel_(b, a)
        weights = np.linalg.solve(model.kernel_(a), cross.T)
        mean = y.mean() + y.std() * (weights.T @ units[groups != groups[k]])
        variance = model.kernel_(b) - cross @ weights
        np.testing.assert_allclose(found.mean[k, 0], mean[0], rtol=1e-6)
        np.testing.assert_allclose(found.std[k, 0], y.std() * np.sqrt(variance[0, 0]), rtol=1e-6)


def test_predictions_of_known_fields():
    """Nearest and harmonic on a path, where both are known; the position GP of a smooth field."""
    path = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], [1.0, 2.0, 5.0], max_edge=0.25)
    sensors = path.at_edges([0, 2], [0.5, 1.0])  # half a unit, and four, from the start
    queries = path.at_edges([0, 0, 1, 2, 2], [0.0, 0.75, 1.0, 0.0, 4.0])
    found = at(path, sensors, [1.0, 8.0], queries)
    np.testing.assert_allclose(found["nearest"].mean[:, 0], [1, 1, 1, 8, 8])
    np.testing.assert_allclose(found["harmonic"].mean[:, 0], [1, 1.5, 4, 6, 8], atol=1e-4)
    np.testing.assert_allclose(found["mean"].mean, 4.5)
    np.testing.assert_allclose(found["mean"].std, np.std([1, 8], ddof=1) * np.sqrt(1.5))
    operator, points = on_ball(60, 2)
    x = location_positions(points, operator.positions)
    everywhere = operator.at_vertices()
    truth = operator.positions @ [1, 2, -1]
    found = at(operator, points, x @ [1, 2, -1], everywhere)
    gp = found["position GP"]
    assert np.sqrt(np.mean((gp.mean[:, 0] - truth) ** 2)) < 0.02 * truth.std()
    errors = [
        np.sqrt(np.mean((found[name].mean[:, 0] - truth) ** 2)) for name in ("harmonic", "nearest")
    ]
    assert errors[0] < errors[1] < truth.std()


def test_a_vertex_is_one_place_however_it_is_given():
    operator, _ = on_ball(1, 0)
    face = operator.elements[5]
    rows = [[*face, 0, 1, 0], [face[1], face[2], face[0], 1, 0, 0]]
    vertex = operator.at_vertices([face[1]]).points[0]
    y = np.array([[1.0], [2.0], [6.0]])
    known = field_kind(operator, canonical(np.array([*rows, vertex])), y)
    assert known.observations.site.tolist() == [0, 0, 0]
    assert known.observations.site_means.tolist() == [[3]]


def test_components_without_sensors_get_the_mean():
    balls = trimesh.util.concatenate(
        [trimesh.creation.icosphere(subdivisions=1),
         trimesh.creation.icosphere(subdivisions=1).apply_translation([9, 0, 0])]
    )  # fmt: skip
    operator = cgp.LaplaceOperator.from_trimesh(balls)
    sensors, y = operator.at_vertices([0, 5, 9]), np.array([1.0, 2.0, 6.0])
    found = at(operator, sensors, y, operator.at_vertices())
    np.testing.assert_allclose(found["harmonic"].mean[42:], 3.0)
    np.testing.assert_allclose(found["harmonic"].mean[[0, 5, 9], 0], y, atol=1e-4)


def test_constant_observations():
    operator, points = on_ball(6, 3)
    for one in of_others(operator, points, np.full(6, 7.0)).values():
        np.testing.assert_allclose(one.mean, 7.0, rtol=1e-6)
        assert one.std is None or np.isfinite(one.std).all()
