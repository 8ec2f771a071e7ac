"""Ways to the evidence of all observations, and forecasts and budgets."""

import networkx as nx
import numpy as np
import pytest

from coupledgp.core.budget import Budget, Forecast, Step
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.graphs import Graph, routes
from coupledgp.graphs.evidence import ObservedEvidence
from coupledgp.graphs.routes import (
    NodeObservations,
    cheapest_route,
    dense_route,
    moments_route,
    precision_route,
)
from coupledgp.graphs.spectral import SpectralMoments
from coupledgp.kernels import GraphMaternKernel, HeatKernel, RegularizedLaplacianKernel

SIDE = 16
GRID = Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(SIDE, SIDE)))
RATIO = 0.05


def observations(share: float, n_twice: int = 0, scaled: bool = False) -> NodeObservations:
    rng = np.random.default_rng(0)
    nodes = rng.permutation(GRID.n_nodes)[: round(share * GRID.n_nodes)]
    nodes = np.append(nodes, nodes[:n_twice])
    scale = rng.uniform(0.5, 2.0, GRID.n_nodes) if scaled else None
    graph = Graph((GRID.indptr, GRID.indices, GRID.weights), node_scale=scale)
    return NodeObservations(graph, nodes, rng.standard_normal((nodes.size, 2)), 0)


@pytest.mark.parametrize("share", [0.2, 0.8])
@pytest.mark.parametrize("n_twice", [0, 5])
@pytest.mark.parametrize("scaled", [False, True])
def test_every_way_leads_to_the_same_evidence(share: float, n_twice: int, scaled: bool) -> None:
    data = observations(share, n_twice, scaled)
    dense = ObservedEvidence(data.graph, data.nodes, data.targets, SpectralMoments)
    found = {
        "dense": (dense_route(data), HeatKernel(6.0)),
        "precision": (
            precision_route(data, RegularizedLaplacianKernel(9.0)),
            RegularizedLaplacianKernel(9.0),
        ),
        "moments": (moments_route(data, HeatKernel(6.0), RATIO), HeatKernel(6.0)),
    }
    for name, (route, kernel) in found.items():
        assert route is not None
        assert route.name == name
        assert 0 <= route.forecast(1).seconds < route.forecast(10).seconds < 10
        terms, expected = route.make().terms(kernel, RATIO), dense.terms(kernel, RATIO)
        assert terms.fit == pytest.approx(expected.fit, rel=1e-4)
        assert terms.log_determinant == pytest.approx(expected.log_determinant, abs=1e-3)
        slopes = terms.fit_slope + terms.log_determinant_slope
        size = np.abs(expected.fit_slope).max() + np.abs(expected.log_determinant_slope).max()
        wanted = expected.fit_slope + expected.log_determinant_slope
        np.testing.assert_allclose(slopes, wanted, atol=1e-3 * size)


def test_the_cheapest_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    data, kernel = observations(0.8), RegularizedLaplacianKernel(9.0)
    ways = dense_route(data), precision_route(data, kernel), moments_route(data, kernel, RATIO)
    costs = {way.name: way.forecast(10).seconds for way in ways if way is not None}
    best = cheapest_route(data, kernel, RATIO, 10)
    assert best is not None
    assert costs[best.name] == min(costs.values())
    monkeypatch.setattr(routes, "SPECTRAL_LIMIT", 50)
    monkeypatch.setattr(routes, "MOMENT_BYTES", 1000)
    assert dense_route(data) is None
    assert cheapest_route(data, HeatKernel(6.0), RATIO, 10) is None


def test_kernels_out_of_reach_have_no_way() -> None:
    data = observations(0.5)
    assert precision_route(data, GraphMaternKernel(3.0, 1.5)) is None
    assert precision_route(data, HeatKernel()) is None
    for n in (3_000, 30_000):
        star = Graph.from_edges(np.zeros(n, np.int64), np.arange(1, n + 1))
        on_star = NodeObservations(star, np.arange(1, 9), np.ones((8, 1)), 0)
        assert precision_route(on_star, RegularizedLaplacianKernel(9.0, 2.0)) is None
        assert precision_route(on_star, RegularizedLaplacianKernel(9.0, 1.0)) is not None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, Budget()),
        (90, Budget(90.0)),
        ("90s", Budget(90.0)),
        ("5 min, 6 GB", Budget(300.0, 6 * 2.0**30)),
        ("1.5GiB", Budget(None, 1.5 * 2.0**30)),
        ("1h,500MB", Budget(3600.0, 500 * 2.0**20)),
        (Budget(1.0), Budget(1.0)),
    ],
)
def test_budgets_are_read(given: object, expected: Budget) -> None:
    assert Budget.of(given) == expected


@pytest.mark.parametrize(
    "given", ["", "s", "5", "5 days", "5s,6s", "5s;6GB", "-3s", "1e400s", "nans", "e s", 0, -1,
              float("nan"), float("inf"), True, [5]],
)  # fmt: skip
def test_other_budgets_are_refused(given: object) -> None:
    with pytest.raises(InvalidInputError, match="budget"):
        Budget.of(given)


def test_a_budget_is_kept_to() -> None:
    budget = Budget(10.0, 1000.0)
    assert budget.allows(Forecast(9.0, 999.0))
    assert not budget.allows(Forecast(9.0, 999.0), share=0.5)
    assert not budget.allows(Forecast(11.0))
    assert not budget.allows(Forecast(1.0, 1001.0))
    assert Budget().allows(Forecast(1e9, 1.0))
    assert not Budget().allows(Forecast(1.0, 1e18))  # more than any machine has
    budget.check(Forecast(9.0, 999.0), "the work", "advice")
    with pytest.raises(InvalidInputError, match=r"at least 11 s, which the work .*; advice"):
        budget.check(Forecast(11.0), "the work", "advice")
    with pytest.raises(MemoryLimitError, match="the work"):
        budget.check(Forecast(1.0, 1e12), "the work", "advice")
    assert Forecast(1.0, 5.0).plus(Forecast(2.0, 3.0)) == Forecast(3.0, 5.0)


def test_steps_are_told_in_words() -> None:
    assert str(Step("search", "dense", 2.0, 1.234)) == "search: dense; 1.2 s, forecast 2 s"
    assert str(Step("replace", "a by b", 0.0, 0.0)) == "replace: a by b"
