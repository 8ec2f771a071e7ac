"""Graphs on a cluster: walks in shards, products by row blocks, fits with one worker killed."""

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.dask.cluster import Cluster
from coupledgp.dask.graphs import ShardedGraph
from coupledgp.dask.nodes import fit_nodes
from coupledgp.dask.walks import ShardedWalks
from coupledgp.errors import InvalidInputError
from coupledgp.features import sample_walks
from coupledgp.graphs.products import fused_product
from coupledgp.inference.nodes.posterior import IterativePosterior


def grid(side, isolated=0):
    number = np.arange(side * side).reshape(side, side)
    ends = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    sources, targets = (np.concatenate([e[k].ravel() for e in ends]) for k in (0, 1))
    weights = 1.0 + np.random.default_rng(0).random(sources.size)
    return cgp.Graph.from_edges(sources, targets, weights, n_nodes=side * side + isolated)


@pytest.fixture(scope="module")
def graph():
    return grid(16, isolated=3)


@pytest.fixture(autouse=True)
def _all_on_the_cluster(monkeypatch):
    monkeypatch.setattr(ShardedGraph, "least_work", 0)


@pytest.fixture(scope="module")
def sharded(client, graph):
    return ShardedGraph(graph, Cluster(client))


def test_products_by_row_blocks_are_those_of_one_machine_to_the_bit(graph, sharded):
    rng = np.random.default_rng(1)
    V, S = rng.normal(size=(2, graph.n_nodes, 3))
    for arguments in [(1.0, 0.0), (2.0, -0.5, -1.0, S), (0.3, 1.0, 2.0, V)]:
        expected = fused_product(graph.closed, V, *arguments)
        np.testing.assert_array_equal(fused_product(sharded, V, *arguments), expected)


@pytest.mark.parametrize("n_shards", [1, 7])
def test_walks_in_shards_are_those_of_one_machine_to_the_bit(graph, sharded, n_shards):
    nodes = np.random.default_rng(2).permutation(graph.n_nodes)[:200]
    settings = {"n_walks": 6, "coupling": "stratified+systematic", "max_length": 8}
    walks = sample_walks(graph.closed, nodes=nodes, generator=3, **settings)
    shards = ShardedWalks.sampled(sharded, nodes, n_shards, generator=3, **settings)
    f = 0.5 ** np.arange(9)
    expected, found = walks.features(f), shards.features(f)
    assert found.shape == expected.shape
    rows = found[np.arange(200)]
    np.testing.assert_array_equal(rows.toarray(), expected.toarray())
    chosen = np.array([7, 199, 3, 7])
    np.testing.assert_array_equal(found[chosen].toarray(), expected[chosen].toarray())
    V = np.random.default_rng(4).normal(size=(graph.n_nodes, 2))
    np.testing.assert_allclose(found @ V, expected @ V, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.T @ V[:200], expected.T @ V[:200], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        shards.load_products(V[:200], V), walks.load_products(V[:200], V), rtol=1e-11, atol=1e-12
    )
    assert shards.truncation(f) == walks.truncation(f)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (cgp.GraphGPRegressor, {"exact_hops": 0, "solver": "iterative"}),
        (cgp.GraphGPRegressor, {"exact_hops": 2, "solver": "iterative"}),
        (cgp.ExactGraphGPRegressor, {"method": "series", "solver": "iterative"}),
    ],
)
def test_posteriors_are_those_of_one_machine(client, graph, monkeypatch, kind, settings):
    monkeypatch.setattr(IterativePosterior, "tolerance", 1e-11)
    rng = np.random.default_rng(5)
    nodes = rng.permutation(graph.n_nodes)[:40]
    y = np.sin(nodes / 40) + 0.1 * rng.normal(size=40)
    common = {"kernel": "heat", "optimizer": None, "noise": 0.5, "random_state": 6}
    here, there = (kind(graph, **common, **settings) for _ in range(2))
    here.fit(nodes, y)
    fit_nodes(there, nodes, y, Cluster(client))
    asked = rng.permutation(graph.n_nodes)[:5]
    for mine, its in zip(
        here.predict(asked, return_std=True), there.predict(asked, return_std=True), strict=True
    ):
        np.testing.assert_allclose(its, mine, rtol=1e-7)


@pytest.mark.parametrize("at", [20])
def test_a_killed_worker_changes_nothing(client, killing, graph, at):
    rng = np.random.default_rng(7)
    nodes = rng.permutation(graph.n_nodes)[:100]
    y = np.cos(nodes / 50) + 0.1 * rng.normal(size=100)
    settings = {"exact_hops": 1, "solver": "iterative", "kernel": "heat", "optimizer": None}
    whole, hurt = (cgp.GraphGPRegressor(graph, random_state=8, **settings) for _ in range(2))
    fit_nodes(whole, nodes, y, Cluster(client))
    cluster = killing(at)
    fit_nodes(hurt, nodes, y, cluster)
    assert cluster.n_tasks > at
    np.testing.assert_array_equal(hurt.predict(nodes[:9]), whole.predict(nodes[:9]))


def test_a_fit_with_a_search_and_its_file(client, graph, tmp_path):
    rng = np.random.default_rng(9)
    _, member = graph.components()
    inside = np.flatnonzero(member == np.bincount(member).argmax())
    nodes = rng.permutation(inside)[:80]
    y = np.sin(nodes / 60) + 0.1 * rng.normal(size=80)
    here = cgp.GraphGPRegressor(graph, "heat", method="walks", random_state=1).fit(nodes, y)
    there = cgp.GraphGPRegressor(graph, "heat", method="walks", random_state=1)
    assert cgp.dask.fit(there, nodes, y, client=client) is there
    for name in ("outputscale_", "noise_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-6)
    expected = here.predict(nodes[:7], return_std=True)
    np.testing.assert_allclose(there.predict(nodes[:7], return_std=True), expected, rtol=1e-6)
    there.save(tmp_path / "model", include_data=True)
    loaded = cgp.load_model(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(nodes[:7], return_std=True), expected, rtol=1e-6)
    alone = np.flatnonzero(member != member[inside[0]])[:1]
    with pytest.warns(UserWarning, match="fitted as one on a cluster"):
        cgp.dask.fit(there, np.append(nodes, alone), np.append(y, 0.0), client=client)


def test_what_is_refused(client, graph):
    model = cgp.GraphGPRegressor(graph, "heat", optimizer=None, random_state=0)
    cgp.dask.fit(model, [0, 1, 2], [0.0, 1.0, 0.5], client=client)
    before = model.predict([3])
    for arguments, text in [
        (([0, 1], [0.0, np.nan]), "y"),
        (([0, 10**6], [0.0, 1.0]), "nodes"),
    ]:
        with pytest.raises(InvalidInputError, match=text):
            cgp.dask.fit(model, *arguments, client=client)
    with pytest.raises(InvalidInputError, match="n_walks: expected a value of its own"):
        cgp.dask.fit(model.set_params(n_walks="auto"), [0], [0.0], client=client)
    spread = cgp.GraphGPRegressor(graph, "heat", walkers="posterior")
    with pytest.raises(InvalidInputError, match="walkers: expected 'equal' on a cluster"):
        cgp.dask.fit(spread, [0], [0.0], client=client)
    with pytest.raises(InvalidInputError, match=r"model: expected a Sp.* got a ExactGPR"):
        cgp.dask.fit(cgp.ExactGPRegressor(), [[0.0]], [0.0], client=client)
    np.testing.assert_array_equal(model.predict([3]), before)
