"""`next_sensors` of estimators: against refits, ways by size, and hostile arguments."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.gp import placement
from coupledgp.inference.placement.objectives import CRITERIA
from coupledgp.kernels import GraphMaternKernel, HeatKernel

GRID = nx.grid_2d_graph(6, 9)
GRAPH = cgp.Graph.from_networkx(GRID)
SEEN = np.array([0, 7, 13, 22, 30, 41, 53])
VALUES = 30.0 + 5.0 * np.sin(SEEN)


def fitted(graph=GRAPH, kernel=None, seen=SEEN, y=VALUES, **settings):
    kept = {"optimizer": None, "outputscale": 2.0, "noise": 0.1} | settings
    kernel = kernel or GraphMaternKernel(3.0, 2.0)
    gp = cgp.ExactGraphGPRegressor(graph, kernel=kernel, **kept)
    return gp.fit(graph.label_all(seen), y)


@pytest.fixture(scope="module")
def gp():
    return fitted()


def log_det(gp, nodes) -> float:
    _, cov = gp.predict(nodes, return_cov=True)
    return 0.5 * float(np.linalg.slogdet(cov)[1])


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_first_sensor_is_the_best_of_all_by_refits(gp, criterion):
    free = np.setdiff1d(np.arange(54), SEEN)
    found = gp.next_sensors(3, criterion)
    labels = GRAPH.label_all(free)
    assert set(found.nodes) <= set(labels)
    assert len(found) == 3
    every = list(GRID)
    noise = gp.process_.noise.variance * gp.process_.units.scale[0] ** 2
    worth = []
    for node in labels:
        if criterion == "total-variance":
            # The units of y are kept: the law does not depend on the values.
            updated = gp.conditioned_on([*GRAPH.label_all(SEEN), node], np.append(VALUES, 31.0))
            before = gp.predict(every, return_std=True, latent=True)[1] ** 2
            worth.append(
                (before - updated.predict(every, return_std=True, latent=True)[1] ** 2).sum()
            )
        elif criterion == "variance":
            worth.append(log_det(gp, [node]) - 0.5 * np.log(noise))
        else:
            rest = [v for v in labels if v != node]
            worth.append(log_det(gp, [node]) + log_det(gp, rest) - log_det(gp, labels))
    assert found.gains[0] == pytest.approx(max(worth), rel=1e-6)
    assert worth[labels.index(found.nodes[0])] == pytest.approx(max(worth), rel=1e-6)


def test_the_variance_that_is_left_is_that_of_the_updated_model(gp):
    found = gp.next_sensors(4, "total-variance")
    both = [*GRAPH.label_all(SEEN), *found.nodes]
    after = gp.conditioned_on(both, np.append(VALUES, np.full(4, 30.0)))
    for model, left in ((gp, found.variance[0]), (after, found.variance[-1])):
        std = model.predict(return_std=True, latent=True)[1]
        assert left == pytest.approx((std**2).mean(), rel=1e-9)
    np.testing.assert_allclose(found.gains / 54, -np.diff(found.variance), rtol=1e-9)


def test_values_do_not_matter_and_the_unit_scales_variances(gp):
    other = fitted(y=1e3 * VALUES)
    for criterion in CRITERIA:
        a, b = gp.next_sensors(3, criterion), other.next_sensors(3, criterion)
        assert a.nodes == b.nodes
        np.testing.assert_allclose(b.variance, 1e6 * a.variance)
        factor = 1e6 if criterion == "total-variance" else 1.0
        np.testing.assert_allclose(b.gains, factor * a.gains)


def test_candidates_and_nodes_of_interest_are_kept_to(gp):
    corner = [(0, 0), (0, 1), (1, 0), (1, 1)]
    far = [(5, 8), (5, 7), (4, 8)]
    found = gp.next_sensors(1, "total-variance", candidates=[*far, (1, 2)], interest=corner)
    assert found.nodes == [(1, 2)]
    std = gp.predict(corner, return_std=True, latent=True)[1]
    assert found.variance[0] == pytest.approx((std**2).mean())
    again = gp.next_sensors(2, "variance", candidates=GRAPH.label_all(SEEN[:2]))
    assert set(again.nodes) == set(GRAPH.label_all(SEEN[:2]))  # nodes may be measured again
    assert (again.gains > 0).all()


def test_it_says_how_good_it_is(gp):
    found = gp.next_sensors(5)
    assert 1 - 1 / np.e <= found.share_of_optimum <= 1
    assert np.isnan(gp.next_sensors(2, "total-variance").share_of_optimum)
    text = found.explain()
    assert "mutual-information: 47 candidates, by the covariance of 47 places" in text
    assert len(text.splitlines()) == 7
    assert "of what the best places would add" in text


@pytest.mark.parametrize("kernel", [GraphMaternKernel(3.0, 2.0), HeatKernel(3.0)])
@pytest.mark.parametrize("method", ["spectral", "series", "cholesky"])
def test_columns_and_probes_find_what_the_matrix_finds(monkeypatch, kernel, method):
    if method == "cholesky" and isinstance(kernel, HeatKernel):
        method = "auto"
    gp = fitted(kernel=kernel, method=method, exact_variances=1000)
    formed = [gp.next_sensors(4, criterion) for criterion in ("variance", "total-variance")]
    monkeypatch.setattr(placement, "FORMED_PLACES", 10)
    monkeypatch.setattr(placement, "N_COMPARED", 60)  # all of them
    for a in formed:
        b = gp.next_sensors(4, a.criterion)
        assert a.nodes == b.nodes
        np.testing.assert_allclose(b.gains, a.gains, rtol=1e-5)
        np.testing.assert_allclose(b.variance, a.variance, rtol=1e-5)
        assert "column" in b.reason or "random products" in b.reason


def test_ranking_by_random_products_loses_little(monkeypatch, gp):
    exact = gp.next_sensors(4, "total-variance")
    monkeypatch.setattr(placement, "FORMED_PLACES", 10)
    monkeypatch.setattr(placement, "N_COMPARED", 6)
    found = gp.next_sensors(4, "total-variance")
    assert found.gains.sum() > 0.97 * exact.gains.sum()


def test_a_sample_stands_for_all_nodes_unless_they_are_named(monkeypatch, gp):
    monkeypatch.setattr(placement, "FORMED_PLACES", 30)
    monkeypatch.setattr(placement, "SAMPLED_PLACES", 20)
    found = gp.next_sensors(3, random_state=4)
    assert "20 candidates" in found.reason
    assert "a sample of 47 places" in found.reason
    assert found.nodes == gp.next_sensors(3, random_state=4).nodes
    named = GRAPH.label_all(np.arange(40, 54))
    monkeypatch.setattr(placement, "FORMED_PLACES", 5)
    assert "14 candidates, by the" in gp.next_sensors(2, candidates=named).reason
    monkeypatch.setattr("coupledgp.ground.memory.UNASKED", 0)
    monkeypatch.setattr("coupledgp.ground.memory.available_bytes", lambda: 100.0)
    with pytest.raises(MemoryLimitError, match="give fewer candidates"):
        gp.next_sensors(2, candidates=named)


def test_a_search_beyond_the_budget_is_refused_before_it_begins(gp, monkeypatch):
    with pytest.raises(InvalidInputError, match="give fewer candidates"):
        gp.next_sensors(3, budget=1e-9)
    monkeypatch.setattr(placement, "FORMED_PLACES", 10)
    with pytest.raises(InvalidInputError, match="ask for fewer sensors"):
        gp.next_sensors(3, "variance", budget=1e-9)
    with pytest.raises(InvalidInputError, match="budget: expected seconds"):
        gp.next_sensors(1, budget="no time")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k: expected"),
        ({"k": 48}, "k: expected at most 47"),
        ({"k": 2.0}, "k: expected"),
        ({"k": 2, "criterion": "entropy"}, "criterion: expected"),
        ({"k": 1, "candidates": []}, "candidates: nodes .their number"),
        ({"k": 1, "interest": []}, "interest: nodes .their number"),
        ({"k": 1, "candidates": [(9, 9)]}, "candidates: nodes: expected labels"),
        ({"k": 2, "candidates": [(1, 1), (1, 1)]}, "k: expected at most 1"),
        ({"k": 1, "candidates": "ab"}, "nodes: expected"),
    ],
)
def test_hostile_arguments_are_named(gp, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        gp.next_sensors(**arguments)


def test_a_graph_with_an_observation_everywhere_asks_for_candidates():
    graph = cgp.Graph.from_networkx(nx.path_graph(4))
    gp = fitted(graph, seen=np.arange(4), y=np.arange(4.0))
    with pytest.raises(InvalidInputError, match="an observation, but there is one everywhere"):
        gp.next_sensors(1)
    assert len(gp.next_sensors(1, candidates=[2])) == 1


def test_one_node_and_parts_without_edges():
    graph = cgp.Graph.from_edges([0], [1], n_nodes=4)
    gp = fitted(graph, seen=np.array([0, 0]), y=np.array([1.0, 2.0]))
    found = gp.next_sensors(3)
    assert sorted(found.nodes) == [1, 2, 3]
    # Nothing tells of a node without edges.
    assert found.gains[list(found.nodes).index(2)] == pytest.approx(0.0, abs=1e-9)


def test_walks_mixtures_and_several_outputs():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(SEEN.size, 2)) * [1.0, 10.0]
    walks = cgp.GraphGPRegressor(GRAPH, kernel="heat", n_walks=64, random_state=0)
    walks.fit(GRAPH.label_all(SEEN), y)
    assert len(walks.next_sensors(2)) == 2
    seen = rng.permutation(54)[:20]
    mixed = cgp.ExactGraphGPRegressor(GRAPH, kernel="heat", hyperparameters="averaged")
    mixed.fit(GRAPH.label_all(seen), np.sin(seen / 5) + 0.1 * rng.normal(size=20))
    assert len(mixed.members_) > 1
    for criterion in CRITERIA:
        found = mixed.next_sensors(2, criterion)
        assert (found.gains > 0).all()
        assert (np.diff(found.variance) < 0).all()


def test_columns_of_a_mixture_are_those_of_its_covariance(monkeypatch):
    rng = np.random.default_rng(1)
    seen = rng.permutation(54)[:20]
    mixed = cgp.ExactGraphGPRegressor(GRAPH, kernel="heat", hyperparameters="averaged")
    mixed.fit(GRAPH.label_all(seen), np.sin(seen / 5) + 0.1 * rng.normal(size=20))
    formed = mixed.next_sensors(3, "variance")
    monkeypatch.setattr(placement, "FORMED_PLACES", 10)
    found = mixed.next_sensors(3, "variance")
    assert found.nodes == formed.nodes
    np.testing.assert_allclose(found.gains, formed.gains, rtol=1e-8)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_fields_on_networks_choose_places_too(criterion):
    labels = [f"n{k}" for k in range(12)]
    ends = np.arange(11)
    operator = cgp.LaplaceOperator.from_edges(
        [labels[k] for k in ends], [labels[k + 1] for k in ends], np.full(11, 100.0),
        labels=labels, max_edge=10.0,
    )  # fmt: skip
    gp = cgp.FieldGPRegressor(operator, kernel="matern").fit(
        [labels[k] for k in (0, 1, 4)], [1.0, 1.2, 0.3]
    )
    found = gp.next_sensors(2, criterion)
    assert set(found.nodes) <= set(labels) - {"n0", "n1", "n4"}
    assert int(found.nodes[0][1:]) >= 6  # far from those there are
    edges = operator.at_edges([2, 10, 10], [50.0, 1.0, 90.0])
    named = gp.next_sensors(1, criterion, candidates=edges)
    assert named.nodes[0] in (1, 2)
