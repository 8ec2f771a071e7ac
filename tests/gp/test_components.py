"""Components of a graph: laws are those of models of each alone, and of none else."""

from __future__ import annotations

import warnings
from functools import cache

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.gp.components import ComponentsGP
from coupledgp.inference.nodes.groups import LEAST_OWN, component_groups, informative_rows

KINDS = {
    "averaged": (cgp.GraphGPRegressor, {}),
    "maximum": (cgp.GraphGPRegressor, {"hyperparameters": "maximum", "kernel": "matern"}),
    "walks": (cgp.GraphGPRegressor, {"n_walks": 8, "method": "walks", "kernel": "heat"}),
    "exact": (cgp.ExactGraphGPRegressor, {"hyperparameters": "maximum", "kernel": "heat"}),
}
GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(7, 7))
RING = nx.cycle_graph(40)
N_ALONE, N_PAIRS = 24, 6
JOINED = nx.disjoint_union_all(
    [GRID, RING, nx.empty_graph(N_ALONE), *[nx.path_graph(2)] * N_PAIRS, nx.path_graph(9)]
)
ORDER = np.random.default_rng(9).permutation(len(JOINED))  # components are mixed up


def number(start: int, size: int) -> np.ndarray:
    """Numbers in the graph of nodes of a component, in its own order."""
    return ORDER[start + np.arange(size)]


IN_GRID, IN_RING = number(0, 49), number(49, 40)
ALONE, PAIRS, UNSEEN = number(89, N_ALONE), number(113, 12), number(125, 9)


def observed(level: float = 500.0, spread: float = 40.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and values: of grid and ring in units of their own, of nodes alone in others."""
    rng = np.random.default_rng(4)
    own = [
        np.sin(np.arange(49)[::2] / 9),
        30 + 7 * np.cos(np.arange(40)[::3] / 6),
        level + spread * rng.normal(size=N_ALONE),
        level + spread * rng.normal(size=2),
    ]
    y = np.concatenate(own) + 0.05 * rng.normal(size=sum(map(len, own)))
    return np.concatenate([IN_GRID[::2], IN_RING[::3], ALONE, PAIRS[:2]]), y


def graph_of(graph: nx.Graph, order: np.ndarray | None = None) -> cgp.Graph:
    order = np.arange(len(graph)) if order is None else order
    edges = order[np.array(graph.edges)]
    return cgp.Graph.from_edges(*edges.T, n_nodes=len(graph))


def made(kind: str, graph: cgp.Graph) -> cgp.GraphGPRegressor:
    make, options = KINDS[kind]
    return make(graph, random_state=0, progress=False, **options)


@cache
def fitted(kind: str) -> cgp.GraphGPRegressor:
    with pytest.warns(UserWarning, match="27 components"):
        return made(kind, graph_of(JOINED, ORDER)).fit(*observed())


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_has_the_law_that_it_would_have_alone(kind: str) -> None:
    """To the tolerance of searches; of walks, whose draws follow the numbers of nodes, nearly."""
    gp, (nodes, y) = fitted(kind), observed()
    for graph, inside in ((GRID, IN_GRID), (RING, IN_RING)):
        own = np.flatnonzero(np.isin(nodes, inside))
        at = np.array([np.flatnonzero(inside == node)[0] for node in nodes[own]])
        alone = made(kind, graph_of(graph)).fit(at, y[own])
        scale = y[own].std()
        rtol = 0.1 if kind == "walks" else 1e-4
        mean, std = alone.predict(return_std=True)
        found = gp.predict(inside, return_std=True)
        np.testing.assert_allclose(found[0], mean, atol=rtol * scale)
        np.testing.assert_allclose(found[1], std, rtol=10 * rtol)


def test_values_elsewhere_change_nothing_but_there() -> None:
    nodes, _ = observed()
    laws = []
    for level, spread in ((500.0, 40.0), (-3.0, 0.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            gp = made("averaged", graph_of(JOINED, ORDER)).fit(*observed(level, spread))
        laws.append(gp.predict(return_std=True))
        mean, std = gp.predict(ALONE, return_std=True)
        assert np.abs(mean - level).max() < 4 * spread
        assert (std < 2 * spread).all()
        usual = np.sqrt(np.diagonal(gp.prior_covariance(ALONE)))
        assert (np.abs(np.log(usual / spread)) < np.log(3)).all()
    same = np.concatenate([IN_GRID, IN_RING])
    for one, other in zip(*laws, strict=True):
        np.testing.assert_allclose(one[same], other[same], rtol=1e-8, atol=1e-8)
    assert set(ALONE) <= set(nodes)


@pytest.mark.parametrize("kind", ["averaged", "walks"])
def test_all_answers_are_those_of_the_parts(kind: str) -> None:
    gp, (nodes, y) = fitted(kind), observed()
    process = gp.process_
    assert isinstance(process, ComponentsGP)
    points = np.arange(len(JOINED))
    mean, variance = process.law(points, "variance")
    covariance = process.law(points, "covariance").spread[..., 0]
    np.testing.assert_allclose(np.diag(covariance), variance[:, 0], rtol=1e-10)
    owner = process.part_of
    assert np.abs(covariance[owner[:, None] != owner]).max() == 0.0
    drawn = process.sample(points, 400, np.random.default_rng(0))[:, 0]
    z = (drawn.mean(axis=1) - mean[:, 0]) / np.sqrt(variance[:, 0] / 400)
    if process.is_gaussian:  # the mean of a mixture is weighted by precisions
        assert np.abs(z).max() < 5
    across = np.corrcoef(drawn[IN_GRID[0]], drawn[IN_RING[0]])[0, 1]
    assert abs(across) < 5 / np.sqrt(400)
    density = process.log_density(nodes, y[:, None])
    assert density.shape == (nodes.size,)
    level = process.cdf(points, process.quantiles(points, np.array([0.9]))[..., 0])
    np.testing.assert_allclose(level, 0.9, atol=1e-6)
    assert process.log_evidence == pytest.approx(sum(p.log_evidence for p in process.parts))


@pytest.mark.parametrize("kind", ["averaged", "exact"])
def test_what_is_left_out_has_the_law_given_the_rest(kind: str) -> None:
    gp, (nodes, _) = fitted(kind), observed()
    process = gp.process_
    groups = np.arange(nodes.size) % 5
    groups[np.isin(nodes, IN_RING)] = 7  # nothing of a part is left
    rows = np.array([30, 2, 60, 45])
    found = process.left_out(groups, rows)
    for place, row in enumerate(rows):
        rest = process.conditioned(process.data.take(np.flatnonzero(groups != groups[row])))
        mean, variance = rest.law(nodes[[row]], "variance")
        assert found.mean[place] == pytest.approx(mean[0], rel=1e-6)
        assert found.variance[place] == pytest.approx(variance[0], rel=1e-5)
    if kind == "exact":
        block = process.left_out_correlation(groups, rows)
        assert block[0, 1] == 0.0
        assert np.allclose(np.diag(block), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_further_values_keep_the_components(kind: str, tmp_path) -> None:
    gp, (nodes, y) = fitted(kind), observed()
    gp.save(tmp_path / "model")
    again = cgp.load_model(tmp_path / "model")
    for mine, its in zip(gp.predict(return_std=True), again.predict(return_std=True), strict=True):
        np.testing.assert_array_equal(mine, its)
    assert again.graph.node_scale is None
    again.partial_fit(ALONE[:2], y[np.isin(nodes, ALONE)][:2])
    before, after = (m.predict(IN_GRID, return_std=True) for m in (gp, again))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-8, atol=1e-8)
    assert (again.predict(ALONE[:2], True)[1] < gp.predict(ALONE[:2], True)[1]).all()


def test_components_without_values_have_the_prior_of_the_largest() -> None:
    """Nodes alone too: the variance of a kernel there would be many times as large."""
    gp, _ = fitted("exact"), observed()
    first = gp.process_.parts[0]
    at = np.concatenate([PAIRS[4:], UNSEEN])
    mean, std = gp.predict(at, return_std=True, latent=True)
    np.testing.assert_allclose(mean, first.units.offset[0])
    usual = np.sqrt(np.mean(np.diagonal(gp.prior_covariance(IN_GRID))))
    assert (std > 0.7 * usual).all()
    assert (std < 1.4 * usual).all()


def test_one_component_is_one_process() -> None:
    graph, nodes = graph_of(GRID), np.arange(0, 49, 2)
    gp = made("exact", graph).fit(nodes, np.sin(nodes / 9.0))
    assert not isinstance(gp.process_, ComponentsGP)
    assert gp.component_models_ == [gp]


def test_groups_are_of_like_size_and_cover_the_graph() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        sizes = rng.integers(1, 30, size=rng.integers(2, 25))
        graph = graph_of(nx.disjoint_union_all([nx.path_graph(int(s)) for s in sizes]))
        seen = rng.choice(graph.n_nodes, rng.integers(1, graph.n_nodes + 1), replace=False)
        found, (_, member) = component_groups(graph, seen), graph.components()
        if found is None:
            continue
        assert found.group_of.shape == (graph.n_nodes,)
        for nodes in found.fitted:
            parts = np.unique(member[nodes])
            counts = np.bincount(member[seen], minlength=sizes.size)[parts]
            assert counts.min() > 0
            assert counts.size == 1 or counts.max() < LEAST_OWN or len(found.fitted) > 16
            assert sizes[parts].min() > 1
            assert sizes[parts].max() <= 4 * sizes[parts].min()
        for part in range(sizes.size):  # no component is torn
            assert np.unique(found.group_of[member == part]).size == 1


def test_places_of_small_components_tell_nothing() -> None:
    member = np.array([0] * 9 + [1] * 9 + [2] * 3)
    places = np.concatenate([np.arange(9), [20] * 9, [30, 31, 32]])
    np.testing.assert_array_equal(informative_rows(member, places), member == 0)
    assert informative_rows(member[9:], places[9:]).all()
