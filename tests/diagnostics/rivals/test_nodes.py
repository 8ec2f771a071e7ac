"""Baselines on graphs against plain references and refits."""

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.rivals import surfaces as module
from coupledgp.diagnostics.rivals.surfaces import node_kind
from tests.diagnostics.rivals.cases import left_out, predicted

RNG = np.random.default_rng(0)


def parts(seed=0):
    """A random weighted graph of 30 nodes, a pair apart, self-loops and two isolated nodes."""
    rng = np.random.default_rng(seed)
    plain = nx.gnm_random_graph(30, 60, seed=seed)
    plain.add_edges_from(nx.path_graph(30).edges)
    plain.add_edge(30, 31)
    plain.add_edge(3, 3)
    plain.add_nodes_from([32, 33])
    for *_, values in plain.edges(data=True):
        values["weight"] = rng.uniform(0.2, 5)
    return plain, cgp.Graph.from_networkx(plain)


def nearest_plain(plain, nodes, y, query):
    """Mean of the observations at the nearest observed node, or of all."""
    lengths = nx.single_source_dijkstra_path_length(plain, query, weight=lambda a, b, v: 1 / v["weight"])  # noqa: E501  # fmt: skip
    known = [node for node in np.unique(nodes) if node in lengths]
    if not known:
        return y.mean(axis=0)
    return y[nodes == min(known, key=lengths.__getitem__)].mean(axis=0)


def harmonic_plain(plain, nodes, y):
    """`L f = 0` with hard values, component by component."""
    found = np.tile(y.mean(axis=0), (len(plain), 1))
    laplacian = nx.laplacian_matrix(plain, nodelist=sorted(plain)).toarray()
    for component in nx.connected_components(plain):
        members = np.array(sorted(component))
        known = np.intersect1d(members, nodes)
        if known.size:
            values = np.array([y[nodes == node].mean(axis=0) for node in known])
            free = np.setdiff1d(members, known)
            found[known] = values
            if free.size:
                pull = laplacian[np.ix_(free, known)] @ values
                found[free] = -np.linalg.solve(laplacian[np.ix_(free, free)], pull)
    return found


NODES = np.array([0, 4, 4, 9, 14, 17, 21, 26, 30, 32, 32])
Y = RNG.normal(size=(NODES.size, 2))


@pytest.mark.parametrize("by_factor", [True, False])
def test_predictions_beside_plain_references(by_factor, monkeypatch):
    monkeypatch.setattr(module, "_is_factorised", lambda graph: by_factor)
    plain, graph = parts()
    found = predicted(node_kind(graph, NODES, Y), np.arange(34))
    assert list(found) == ["mean", "nearest", "harmonic"]
    np.testing.assert_allclose(found["mean"].mean, np.tile(Y.mean(axis=0), (34, 1)))
    for node in range(34):
        expected = nearest_plain(plain, NODES, Y, node)
        np.testing.assert_allclose(found["nearest"].mean[node], expected, err_msg=str(node))
    np.testing.assert_allclose(found["harmonic"].mean, harmonic_plain(plain, NODES, Y), atol=1e-4)
    constant = predicted(node_kind(graph, NODES, np.full((11, 1), 7.0)), NODES)
    for one in constant.values():
        np.testing.assert_allclose(one.mean, 7.0)
        assert (one.std > 0).all()


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("groups", [NODES, np.array([0, 1, 2, 0, 3, 3, 1, 0, 1, 4, 4])])
def test_leaving_out_groups_is_refitting_without_them(groups, closed, monkeypatch):
    monkeypatch.setattr(module, "CLOSED", 1000 if closed else 0)
    plain, graph = parts(1)
    found = left_out(node_kind(graph, NODES, Y), np.unique(groups, return_inverse=True)[1])
    n_groups = len(set(groups))
    for i, node in enumerate(NODES):
        rest = groups != groups[i]
        expected = nearest_plain(plain, NODES[rest], Y[rest], node)
        np.testing.assert_allclose(found["nearest"].mean[i], expected)
        if closed or n_groups <= module.FOLDS:
            refit = harmonic_plain(plain, NODES[rest], Y[rest])[node]
            np.testing.assert_allclose(found["harmonic"].mean[i], refit, atol=1e-4)
    for name in ("nearest", "harmonic"):
        squares = (Y - found[name].mean) ** 2
        others = [np.sqrt(squares[groups != group].mean(axis=0)) for group in groups]
        np.testing.assert_allclose(found[name].std, others)


def test_standard_deviations_are_errors_of_nodes_left_out():
    _, graph = parts()
    kind = node_kind(graph, NODES, Y)
    rest = left_out(kind, np.unique(NODES, return_inverse=True)[1])
    for name, one in predicted(kind, NODES[:1]).items():
        if name != "mean":
            expected = np.sqrt(np.mean((Y - rest[name].mean) ** 2, axis=0))
            np.testing.assert_allclose(one.std, expected[None], rtol=1e-9)


def test_graphs_without_edges_and_with_one_observation():
    for graph in (
        cgp.Graph.from_edges([], [], n_nodes=5),
        cgp.Graph.from_edges([0, 1], [1, 2], n_nodes=5),
    ):
        kind = node_kind(graph, np.array([2, 2]), np.array([[1.0], [3.0]]))
        found = predicted(kind, np.arange(5))
        assert [name for name, one in found.items() if one.std is not None] == ["mean"]
        for one in found.values():
            np.testing.assert_allclose(one.mean, 2.0)
        far = node_kind(graph, np.array([2, 4]), np.array([[1.0], [3.0]]))
        for one in predicted(far, np.arange(5)).values():
            assert np.isfinite(one.mean).all()
            assert (one.std > 0).all()
        assert left_out(far, np.arange(2))["harmonic"].mean.tolist() == [[3.0], [1.0]]


def test_weights_of_many_orders_of_magnitude():
    rng = np.random.default_rng(2)
    weights = 10 ** rng.uniform(-6, 6, 40)
    graph = cgp.Graph.from_edges(np.arange(40), (np.arange(40) + 1) % 40, weights)
    nodes, y = np.arange(0, 40, 4), rng.normal(size=(10, 1))
    found = predicted(node_kind(graph, nodes, y), nodes)
    np.testing.assert_allclose(found["harmonic"].mean, y, atol=1e-4)
    np.testing.assert_array_equal(found["nearest"].mean, y)


def test_large_graphs_with_hubs_and_without():
    rng = np.random.default_rng(3)
    n = 30_000
    path = cgp.Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    ends = rng.integers(0, n, (2, 4 * n))
    ends[0, :n] = 0  # a hub
    tangle = cgp.Graph.from_edges(*ends, n_nodes=n)
    assert module._is_factorised(path)
    assert not module._is_factorised(tangle)
    nodes = rng.choice(n, 3000, replace=False)
    for graph in (path, tangle):
        y = np.sin(nodes / 5000)[:, None]
        found = predicted(node_kind(graph, nodes, y), np.arange(n))
        assert list(found) == ["mean", "nearest", "harmonic"]
        np.testing.assert_allclose(found["harmonic"].mean[nodes], y, atol=1e-3)
    truth = np.sin(np.arange(n) / 5000)
    assert predicted(node_kind(path, nodes, y), np.arange(n))["harmonic"].std.max() < 0.01
    assert truth.std() > 0.5
