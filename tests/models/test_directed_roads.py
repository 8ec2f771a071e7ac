"""Series on one-way roads: lags upstream and downstream, kept where they foretell better."""

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.graphs.directions import read_directions
from coupledgp.inference.space_time import autoregression as ar
from coupledgp.search.space_time.days import ways_of

N_SENSORS, N_STEPS = 16, 500


def one_way() -> nx.DiGraph:
    """A ring of one-way streets with short cuts."""
    graph = nx.DiGraph([(k, (k + 1) % N_SENSORS) for k in range(N_SENSORS)])
    graph.add_edges_from([(2, 9), (11, 4), (6, 14)])
    return graph


def moving(forward: float, back: float, seed: int = 0) -> np.ndarray:
    """Values (p, n) that move along the streets, and against them."""
    rng, graph = np.random.default_rng(seed), one_way()
    out = nx.to_numpy_array(graph, nodelist=range(N_SENSORS))
    up, down = ar.neighbour_means(out.T), ar.neighbour_means(out)
    x, found = np.zeros(N_SENSORS), []
    for _ in range(N_STEPS + 100):
        x = 0.4 * x + forward * up @ x + back * down @ x + rng.standard_normal(N_SENSORS)
        found.append(x)
    return np.array(found[100:]).T


def fitted(values: np.ndarray, graph: object, **options: object) -> cgp.GraphTimeGPRegressor:
    model = cgp.GraphTimeGPRegressor(
        graph, random_state=0, dynamics=True, spread=False, progress=False, **options
    )
    return model.fit(np.arange(N_SENSORS), values, times=np.arange(float(N_STEPS)))


def test_lags_follow_the_streets_where_values_do() -> None:
    values = moving(0.5, 0.0)
    plain = cgp.Graph.from_networkx(one_way().to_undirected())
    along, without = fitted(values, plain, directions=one_way()), fitted(values, plain)
    assert "lags upstream and downstream: errors left out are" in along.method_reason_
    assert "stream" not in without.method_reason_
    mean = [m.predict(times=N_STEPS + np.arange(3.0)) for m in (along, without)]
    assert np.abs(mean[0] - mean[1]).max() > 1e-3
    with pytest.warns(UserWarning, match="got a directed one"):
        same = fitted(values, one_way())
    np.testing.assert_allclose(same.predict(times=[N_STEPS]), along.predict(times=[N_STEPS]))


def test_undirected_lags_are_kept_where_both_ways_are_alike() -> None:
    values = moving(0.25, 0.25)
    plain = cgp.Graph.from_networkx(one_way().to_undirected())
    along, without = fitted(values, plain, directions=one_way()), fitted(values, plain)
    assert "undirected lags: with those upstream and downstream errors" in along.method_reason_
    np.testing.assert_array_equal(along.predict(times=[N_STEPS]), without.predict(times=[N_STEPS]))


def test_upstream_is_where_values_come_from() -> None:
    counts = read_directions(one_way(), np.asarray, N_SENSORS)
    up, down = ways_of(counts, np.arange(N_SENSORS))
    assert up[1, 0] == pytest.approx(1.0)
    assert up[0, 1] == 0.0
    assert down[0, 1] == pytest.approx(1.0)
    values, error = moving(0.5, 0.0), {}
    for name, ways in (("true", (up, down)), ("reversed", (down, down))):
        fit = ar.fitted_autoregression(values, np.ones(values.shape, bool), np.stack(ways))
        error[name] = ar.score_of(fit.errors)
    assert error["true"] < error["reversed"] - 0.02
    assert ways_of(None, np.arange(3)) is None


def test_unknown_labels_of_directions_are_named() -> None:
    with pytest.raises(InvalidInputError, match="99"):
        fitted(moving(0.5, 0.0), nx.cycle_graph(N_SENSORS), directions=nx.DiGraph([(0, 99)]))


def test_a_file_holds_the_dynamics_without_the_directions(tmp_path) -> None:
    plain = cgp.Graph.from_networkx(one_way().to_undirected())
    along = fitted(moving(0.5, 0.0), plain, directions=one_way())
    cgp.save_model(along, tmp_path / "along.cgp")
    again = cgp.load_model(tmp_path / "along.cgp")
    assert again.directions is None
    np.testing.assert_array_equal(again.predict(times=[N_STEPS]), along.predict(times=[N_STEPS]))
