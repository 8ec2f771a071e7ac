"""Components of a graph: hyperparameters are shared, and small components do not enter them."""

from __future__ import annotations

import warnings
from functools import cache

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.graphs.observations import informative_rows

KINDS = {
    "averaged": (cgp.GraphGPRegressor, {}),
    "maximum": (cgp.GraphGPRegressor, {"hyperparameters": "maximum", "kernel": "matern"}),
    "walks": (cgp.GraphGPRegressor, {"n_walks": 8, "method": "walks", "kernel": "heat"}),
}
GRID, N_ALONE = nx.convert_node_labels_to_integers(nx.grid_2d_graph(7, 7)), 24
JOINED = nx.disjoint_union_all([GRID, nx.empty_graph(N_ALONE), nx.path_graph(2), nx.path_graph(9)])
ORDER = np.random.default_rng(9).permutation(len(JOINED))  # components are mixed up
IN_GRID, ALONE, UNSEEN = ORDER[:49], ORDER[49:73], ORDER[75:]


def graph_of(graph: nx.Graph, order: np.ndarray | None = None) -> cgp.Graph:
    order = np.arange(len(graph)) if order is None else order
    return cgp.Graph.from_edges(*order[np.array(graph.edges)].T, n_nodes=len(graph))


def observed(level: float = 500.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and values: of the grid, and of nodes alone in units of their own."""
    rng = np.random.default_rng(4)
    own = np.sin(np.arange(49)[::2] / 9) + 0.05 * rng.normal(size=25)
    return np.append(IN_GRID[::2], ALONE), np.append(own, level + 40 * rng.normal(size=N_ALONE))


@cache
def fitted(kind: str, level: float = 500.0) -> cgp.GraphGPRegressor:
    make, options = KINDS[kind]
    model = make(graph_of(JOINED, ORDER), random_state=0, progress=False, **options)
    with pytest.warns(UserWarning, match="24 components have fewer than 8"):
        return model.fit(*observed(level))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
def test_a_component_has_the_law_that_it_would_have_alone(kind: str) -> None:
    """Of walks, whose draws follow the numbers of nodes, nearly."""
    make, options = KINDS[kind]
    alone = make(graph_of(GRID), random_state=0, progress=False, **options)
    alone.fit(np.arange(49)[::2], observed()[1][:25])
    rtol = 0.1 if kind == "walks" else 1e-4
    mean, std = alone.predict(return_std=True)
    found = fitted(kind).predict(IN_GRID, return_std=True)
    np.testing.assert_allclose(found[0], mean, atol=rtol)
    np.testing.assert_allclose(found[1], std, rtol=10 * rtol)


def test_values_elsewhere_change_nothing_but_there() -> None:
    one, other = fitted("averaged"), fitted("averaged", -3.0)
    for a, b in zip(*(m.predict(IN_GRID, return_std=True) for m in (one, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert np.abs(one.predict(ALONE) - observed()[1][25:]).max() < 20
    np.testing.assert_allclose(one.predict(UNSEEN), one.process_.units.offset[0], atol=1e-6)


@pytest.mark.parametrize("kind", ["averaged", "walks"])
def test_further_values_of_small_components_leave_the_units(kind: str, tmp_path) -> None:
    gp, (nodes, y) = fitted(kind), observed()
    gp.save(tmp_path / "model")
    again = cgp.load_model(tmp_path / "model")
    again.partial_fit(ALONE[:2], y[np.isin(nodes, ALONE)][:2])
    before, after = (m.predict(IN_GRID, return_std=True) for m in (gp, again))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(after[1], before[1], rtol=1e-8)


def test_where_all_components_are_small_all_observations_count() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = graph_of(nx.disjoint_union(nx.path_graph(5), nx.path_graph(6)))
        gp = cgp.GraphGPRegressor(graph, "heat", random_state=0, progress=False)
        gp.fit(np.arange(0, 11, 2), np.sin(np.arange(0, 11, 2)))
    assert gp.process_.data.points.size == 6


def test_places_of_small_components_tell_nothing() -> None:
    member = np.array([0] * 9 + [1] * 9 + [2] * 3)
    places = np.concatenate([np.arange(9), [20] * 9, [30, 31, 32]])
    np.testing.assert_array_equal(informative_rows(member, places), member == 0)
    assert informative_rows(member[9:], places[9:]).all()
