"""Fits of graph models that cost little at any size: parts first, then all observations."""

import itertools

import networkx as nx
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coupledgp as cgp
from coupledgp.core.budget import Forecast
from coupledgp.errors import InvalidInputError, MemoryLimitError, NumericalError
from coupledgp.graphs import Graph, pieces
from coupledgp.graphs import routes as node_costs
from coupledgp.graphs import search as node_search
from coupledgp.graphs.evidence import PrecisionEvidence, Scales
from coupledgp.graphs.hops import HopPlan
from coupledgp.graphs.process import NodeSettings
from coupledgp.graphs.routes import (
    EvidenceRoute,
    NodeObservations,
    probes_forecast,
    product_seconds,
)
from coupledgp.graphs.search import FixedHyperparameters, NodeSearcher
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel, RegularizedLaplacianKernel, SeriesOperator

SIDE = 56
GRID = Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(SIDE, SIDE)))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces in which an evaluation takes a millisecond."""
    monkeypatch.setattr(pieces, "PIECE_NODES", 300)
    monkeypatch.setattr(pieces, "PIECE_OBSERVATIONS", 60)


def drawn(graph: Graph, kernel, share: float, noise: float = 0.1, seed: int = 0):
    """Observed nodes, their values, and the true values of all nodes."""
    rng = np.random.default_rng(seed)
    white = rng.standard_normal((graph.n_nodes, 1))
    f = SeriesOperator(graph, kernel.root, 1e-6).matmat(white)[:, 0]
    f /= f.std()
    nodes = np.sort(rng.permutation(graph.n_nodes)[: round(share * graph.n_nodes)])
    return nodes, f[nodes] + noise * rng.standard_normal(nodes.size), f


TRUE = RegularizedLaplacianKernel(25.0)
NODES, VALUES, FIELD = drawn(GRID, TRUE, 0.25)
ROUGH = [HeatKernel(), RegularizedLaplacianKernel()]
# Several pieces, too: for fits of regressors, which try every kernel.
LITTLE = Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(32, 32)))
LITTLE_NODES, LITTLE_VALUES, LITTLE_FIELD = drawn(LITTLE, TRUE, 0.3)


def searcher(data: NodeObservations, **others) -> NodeSearcher:
    settings = {
        "kernels": ROUGH, "stand_ins": (), "kept": FixedHyperparameters(),
        "posterior": lambda kernel, ratio: Forecast(0.0),
    }  # fmt: skip
    return NodeSearcher(data, **{**settings, **others})


def observed(nodes=NODES, values=VALUES, graph=GRID) -> NodeObservations:
    return NodeObservations(graph, nodes, ((values - values.mean()) / values.std())[:, None], 0)


def test_the_best_family_of_the_pieces_is_finished_with_all_observations() -> None:
    search = searcher(observed())
    found = search.search()
    assert found.is_whole
    assert found.converged
    assert found.family == 1
    assert [step.name for step in search.steps] == ["compare", "search"]
    kernel, scales = found.point.kernel, found.point.scales
    evidence = PrecisionEvidence(GRID, 2, *observed()[1:3])
    ratio = scales.noise / scales.outputscale

    def log_evidence(kernel, ratio: float) -> float:
        terms, n = evidence.terms(kernel, ratio), NODES.size
        v = terms.fit / n
        return -0.5 * (n * np.log(2 * np.pi * v) + terms.log_determinant + n)

    best = log_evidence(kernel, ratio)
    assert -found.point.value == pytest.approx(best, rel=1e-9)
    for factor in (0.8, 0.95, 1.05, 1.25):  # a maximum, to a few hundredths of a nat
        assert log_evidence(kernel.scaled(factor), ratio) < best + 0.03
        assert log_evidence(kernel, factor * ratio) < best + 0.03
    assert kernel.scale == pytest.approx(TRUE.scale, rel=0.5)


def test_small_graphs_are_searched_whole() -> None:
    graph = Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12)))
    nodes, values, _ = drawn(graph, TRUE, 0.5)
    search = searcher(observed(nodes, values, graph))
    assert search.search().is_whole
    assert [step.name for step in search.steps] == ["search"]


def test_expanders_are_compared_by_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST", 200)
    monkeypatch.setattr(node_search, "PATIENCE", 0.0)
    monkeypatch.setattr(node_search, "PATIENCE_PER_NODE", 0.0)
    graph = Graph.from_networkx(nx.barabasi_albert_graph(2500, 4, seed=0))
    nodes, values, _ = drawn(graph, HeatKernel(6.0), 0.5)
    search = searcher(observed(nodes, values, graph), kernels=[HeatKernel()])
    found = search.search()
    assert "observations" in search.steps[0].method
    assert "pieces" not in search.steps[0].method
    assert found.point.kernel.time == pytest.approx(6.0, rel=0.5)


def test_a_kernel_that_costs_too_much_is_replaced_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cost(kernel, ratio: float) -> Forecast:
        return Forecast(1e4 if isinstance(kernel, HeatKernel) else 0.1)

    nodes, values, _ = drawn(GRID, HeatKernel(8.0), 0.25)
    monkeypatch.setattr(node_search, "PATIENCE", 0.0)  # the parts suffice here
    monkeypatch.setattr(node_search, "PATIENCE_PER_NODE", 0.0)
    others = tuple(RegularizedLaplacianKernel(exponent=float(r)) for r in (1, 2))
    search = searcher(observed(nodes, values), kernels=[HeatKernel()], stand_ins=others,
                      posterior=cost)  # fmt: skip
    found = search.search()
    assert found.family is None
    assert found.point.kernel.exponent == 2.0
    words = [str(step) for step in search.steps if step.name == "replace"]
    assert len(words) == 1
    assert "nats less" in words[0]
    assert "1e+04 s" in words[0]
    kept = searcher(observed(nodes, values), kernels=[HeatKernel()], stand_ins=others)
    assert isinstance(kept.search().point.kernel, HeatKernel)
    none = searcher(observed(nodes, values), kernels=[HeatKernel()], stand_ins=others,
                    posterior=lambda kernel, ratio: Forecast(1e4))  # fmt: skip
    assert isinstance(none.search().point.kernel, HeatKernel)


def test_the_part_has_the_last_word_where_a_way_refuses_every_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refusing(PrecisionEvidence):
        def terms(self, kernel, ratio):
            raise NumericalError("kernel: too wide")

    def route(data, kernel, ratio, n_evaluations):
        return EvidenceRoute(
            "refusing", "nothing", Forecast(0.0), Forecast(0.0),
            lambda: Refusing(GRID, 2, *observed()[1:3]),
        )  # fmt: skip

    monkeypatch.setattr(node_search, "cheapest_route", route)
    search = searcher(observed())
    found = search.search()
    assert not found.is_whole
    assert "refused all kernels" in str(search.steps[1])
    assert np.isfinite(found.point.value)


def test_without_patience_the_pieces_have_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_search, "PATIENCE", 0.0)
    monkeypatch.setattr(node_search, "PATIENCE_PER_NODE", 0.0)
    found = searcher(observed()).search()
    assert not found.is_whole
    assert found.point.kernel.scale == pytest.approx(TRUE.scale, rel=0.6)


@pytest.mark.parametrize("kind", [cgp.GraphGPRegressor, cgp.ExactGraphGPRegressor])
@pytest.mark.long
def test_regressors_say_what_they_did_and_what_it_took(
    kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_search, "QUICK", 0.0)  # no graph is small enough to go without pieces
    model = kind(LITTLE, random_state=0, progress=False).fit(LITTLE_NODES, LITTLE_VALUES)
    words = model.explain().splitlines()
    assert words[0].startswith("Predictions are typically off by ")
    place = next(k for k, line in enumerate(words) if model.method_reason_ in line)
    assert words[place + 1].startswith("kernel: RegularizedLaplacianKernel(")
    assert [line.split(":")[0] for line in words[-3:]] == ["compare", "search", "condition"]
    assert all("forecast" in line for line in words[-3:])
    assert [step.seconds > 0 for step in model.steps_] == [True] * 3
    again = kind(LITTLE, random_state=0, progress=False).fit(LITTLE_NODES, LITTLE_VALUES)
    assert again.kernel_ == model.kernel_
    mean, std = model.predict(return_std=True)
    hidden = np.setdiff1d(np.arange(LITTLE.n_nodes), LITTLE_NODES)
    assert np.mean((mean - LITTLE_FIELD)[hidden] ** 2) < 0.6 * np.var(LITTLE_FIELD)
    assert std.shape == (LITTLE.n_nodes,)


@pytest.mark.long
def test_budgets_of_fits() -> None:
    model = cgp.GraphGPRegressor(
        LITTLE, random_state=0, progress=False, options={"budget": "60s, 8GB"}
    )
    assert model.fit(LITTLE_NODES, LITTLE_VALUES).converged_
    with pytest.raises(InvalidInputError, match="budget: expected at least"):
        cgp.GraphGPRegressor(LITTLE, options={"budget": 1e-3}).fit(LITTLE_NODES, LITTLE_VALUES)
    with pytest.raises(MemoryLimitError, match="budget"):
        cgp.GraphGPRegressor(LITTLE, options={"budget": "0.01MB"}).fit(LITTLE_NODES, LITTLE_VALUES)
    with pytest.raises(InvalidInputError, match="'90s'"):
        cgp.GraphGPRegressor(LITTLE, options={"budget": "soon"}).fit(LITTLE_NODES, LITTLE_VALUES)


def test_a_search_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()  # each look at it takes a second
    monkeypatch.setattr(node_search.time, "perf_counter", lambda: float(next(clock)))
    late = cgp.GraphGPRegressor(LITTLE, random_state=0, progress=False, options={"budget": 18})
    with pytest.warns(ConvergenceWarning, match="search for hyperparameters ended after"):
        late.fit(LITTLE_NODES, LITTLE_VALUES)
    assert not late.converged_
    assert np.isfinite(late.predict()).all()


def test_nothing_is_searched_or_measured_that_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = {"outputscale": 1.0, "noise": 0.1}

    def fail(*args, **kwargs):
        raise AssertionError("not needed")

    monkeypatch.setattr(node_search.NodeSearcher, "search", fail)
    monkeypatch.setattr("coupledgp.graphs.process.NodeSettings.evidence", fail)
    kernel = HeatKernel(8.0)
    for given in ({"optimizer": None}, {"fixed": ("kernel", *scales), **scales}):
        model = cgp.ExactGraphGPRegressor(
            GRID, kernel, **folded(cgp.ExactGraphGPRegressor, given)
        ).fit(NODES, VALUES)
        assert np.isfinite(model.predict()).all()
        assert [step.name for step in model.steps_] == ["condition"]
    monkeypatch.undo()
    assert np.isfinite(model.log_marginal_likelihood_value_)  # computed when it is asked for


SQUARE = nx.convert_node_labels_to_integers(nx.grid_2d_graph(8, 8))


def test_hops_hide_the_walks_behind_the_noise_in_every_unit() -> None:
    nodes, graph = np.arange(20), Graph.from_networkx(SQUARE)
    model = cgp.GraphGPRegressor(graph, n_walks=6, optimizer=None, random_state=3)
    recipe = model.fit(nodes, np.sin(nodes / 3.0)).process_.recipe

    def planned(outputscale: float, noise: float) -> HopPlan:
        return recipe.plan(HeatKernel(3.0), Scales(outputscale, noise, np.nan))

    loud, soft = planned(1.0, 1e-2), planned(1.0, 1e-6)
    assert loud.cost < soft.cost
    assert soft.predicted_error < 0.01 * 1e-3 < loud.predicted_error
    assert planned(1e6, 1e4) == loud
    assert planned(1e6, 1.0) == soft


def test_costs_of_probes_are_those_of_their_columns_and_products() -> None:
    kernel, twice = HeatKernel(3.0), nx.disjoint_union(SQUARE, SQUARE)
    one, two = Graph.from_networkx(SQUARE), Graph.from_networkx(twice)
    few, many = (probes_forecast(one, kernel, 0.1, NodeSettings(n_probes=k)) for k in (4, 9))
    assert (many.seconds, many.bytes) == pytest.approx((2 * few.seconds, 2 * few.bytes))
    seconds = [product_seconds(graph, kernel, 0.1) for graph in (one, two)]
    assert seconds[1] == pytest.approx(2 * seconds[0])


def test_the_forecast_counts_the_steps_of_walks() -> None:
    graph = Graph.from_networkx(nx.cycle_graph(300))
    found = {}
    for n_walks in (4, 400):
        model = cgp.GraphGPRegressor(
            graph, HeatKernel(40.0), n_walks=n_walks, exact_hops=2, random_state=0, optimizer=None,
            progress=False,
        )  # fmt: skip
        model.fit(np.arange(0, 300, 2), np.sin(np.arange(0, 300, 2) / 9))
        found[n_walks] = model.steps_[-1].forecast
    prior = model.process_.posterior.prior
    steps = float(prior.law.survival(prior.max_length).sum())
    added = found[400] - found[4]
    np.testing.assert_allclose(added, 450 * 396 * steps / node_costs.STEP_RATE, rtol=1e-9)
