"""Costs of walkers to second order, against dense algebra of another form and against sketches."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coupledgp.couplings import MatchedLaw, WalkerCoupling, parse_walker_coupling
from coupledgp.features import HopPlan, plan_hops
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import Csr
from coupledgp.inference.nodes.priors import SpectralPrior, WalkPrior
from coupledgp.inference.nodes.scaled_prior import scaled
from coupledgp.inference.nodes.walker_form import (
    WalkerForm,
    crossed_cost,
    exact_form,
    sampled_costs,
    sketched_form,
    spread_walkers,
)
from coupledgp.kernels import HeatKernel

V, S, KERNEL = 1.7, 0.2, HeatKernel(2.0)
GRAPH = Graph.from_networkx(nx.karate_club_graph(), weight=None)
SEEN, ASKED = np.arange(0, 30, 2), np.arange(1, 34, 2)
# One node twice among the observations, and one that is both observed and asked for.
REPEATED = np.concatenate([SEEN, SEEN[:1]]), np.concatenate([ASKED, SEEN[1:2]])


def walks(graph: Graph, coupling: str = "iid", hops: int = 0) -> WalkPrior:
    plan = plan_hops(graph, KERNEL, 4, hops) if hops else HopPlan((), 0.0, 0, "none")
    law = MatchedLaw(KERNEL.modulation(30))
    return WalkPrior(graph, KERNEL, plan, 4, parse_walker_coupling(coupling), law, 29, 5)


def dense_root(graph: Graph) -> np.ndarray:
    values, vectors = np.linalg.eigh(graph.normalized_adjacency.toarray())
    scale = np.ones(graph.n_nodes) if graph.node_scale is None else graph.node_scale
    return scale[:, None] * (vectors * KERNEL.root(values)) @ vectors.T


def by_hand(
    graph: Graph, seen: np.ndarray, asked: np.ndarray, phi: np.ndarray, measure: str
) -> np.ndarray:
    """Costs of nodes by `tr(G E G E) / 4 - tr(H E H E) / 4`, each node's error matrix in full."""
    F, rows = dense_root(graph), np.concatenate([seen, asked])
    n, K = seen.size, V * (F @ F.T)[np.ix_(rows, rows)]
    sigma = K + S * np.eye(rows.size)
    C = sigma[:n, :n]
    gain = np.linalg.solve(C, K[:n, n:]).T
    costs = []
    for node in np.unique(rows):
        delta = np.zeros_like(F)
        delta[node] = phi[node] - F[node]
        E = V * (F @ delta.T + delta @ F.T)[np.ix_(rows, rows)]
        M = np.hstack([-gain, np.eye(asked.size)])
        if measure == "squared error":
            moved = M @ E[:, :n]
            costs.append(np.trace(moved @ np.linalg.solve(C, moved.T)))
        elif measure == "prior":
            A = np.linalg.solve(sigma[n:, n:], E[n:, n:])
            costs.append(np.trace(A @ A) / 4)
        else:
            A, B = np.linalg.solve(sigma, E), np.linalg.solve(C, E[:n, :n])
            costs.append((np.trace(A @ A) - np.trace(B @ B)) / 4)
    return np.array(costs)


@pytest.mark.parametrize("measure", ["kl", "prior", "squared error"])
@pytest.mark.parametrize(("seen", "asked"), [(SEEN, ASKED), REPEATED])
def test_costs_are_those_of_dense_error_matrices(
    seen: np.ndarray, asked: np.ndarray, measure: str
) -> None:
    form = exact_form(SpectralPrior(GRAPH, KERNEL), seen, asked, V, S, measure)
    features = walks(GRAPH).features(np.arange(34))
    expected = by_hand(GRAPH, seen, asked, features.rows(), measure)
    found = form.costs(walks(GRAPH).features(form.nodes))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12 * expected.max())
    assert found.min() >= 0


def test_costs_on_a_graph_whose_nodes_have_scales() -> None:
    scale = np.random.default_rng(0).uniform(0.5, 2.0, 34)
    graph = Graph(Csr(GRAPH.indptr, GRAPH.indices, GRAPH.weights), node_scale=scale)
    form = exact_form(scaled(SpectralPrior(graph, KERNEL)), SEEN, ASKED, V, S)
    prior = walks(graph, hops=1)
    expected = by_hand(graph, SEEN, ASKED, prior.features(np.arange(34)).rows(), "kl")
    found = form.costs(prior.features(form.nodes))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12 * expected.max())


def test_draws_are_of_one_walker_or_of_coupled_ones() -> None:
    form = exact_form(SpectralPrior(GRAPH, KERNEL), SEEN, ASKED, V, S)
    for coupling, together in (("iid", 1), ("stratified+systematic", 6)):
        prior = walks(GRAPH, coupling)
        found = sampled_costs((form, form), prior, 6, 3, 11)
        rng = np.random.default_rng(11)
        for draw in found[0]:
            own = prior.resampled(together, int(rng.integers(2**63))).features(form.nodes)
            np.testing.assert_array_equal(draw, together * form.costs(own))
        np.testing.assert_array_equal(found[0], found[1])


def sketch_gap(n_columns: int, seed: int) -> float:
    exact = exact_form(SpectralPrior(GRAPH, KERNEL), *REPEATED, V, S)
    rough = sketched_form(SpectralPrior(GRAPH, KERNEL), *REPEATED, V, S, n_columns, seed)
    prior = walks(GRAPH)
    a, b = (sampled_costs((form,), prior, 1, 8, 2)[0].mean(axis=0) for form in (exact, rough))
    return float(np.sqrt(np.mean((b / a - 1) ** 2)))


def test_a_sketch_comes_as_close_as_its_columns_allow() -> None:
    rough, fine = (np.mean([sketch_gap(k, seed) for seed in range(4)]) for k in (64, 1024))
    assert rough < 2.5 * np.sqrt(2 / 64)
    assert fine == pytest.approx(rough / 4, rel=0.35)


def test_a_sketch_of_priors_needs_no_observation() -> None:
    none = np.empty(0, dtype=np.int64)
    prior, every = SpectralPrior(GRAPH, KERNEL), np.arange(34)
    exact, rough = (
        exact_form(prior, none, every, V, S), sketched_form(prior, none, every, V, S, 2048, 0),
    )  # fmt: skip
    own = walks(GRAPH).features(every)
    np.testing.assert_allclose(rough.costs(own), exact.costs(own), rtol=0.3)


def test_numbers_are_in_proportion_to_roots_within_the_budget() -> None:
    costs = np.random.default_rng(0).lognormal(size=500, sigma=2.0)
    numbers = spread_walkers(costs, 500 * 40)
    assert 0.99 * 500 * 40 < numbers.sum() <= 500 * 40
    assert numbers.min() >= 1
    best = np.sqrt(costs).sum() ** 2 / numbers.sum()
    assert best <= (costs / numbers).sum() < 1.02 * best
    shares = numbers / np.sqrt(costs)
    many = numbers > 50
    assert shares[many].max() / shares[many].min() < 1.04


def test_numbers_do_not_hang_on_the_last_digits_of_costs() -> None:
    """Neither of any costs, nor of those whose numbers of walkers would be whole by themselves."""
    any_costs = np.random.default_rng(0).lognormal(size=2000, sigma=2.0)
    whole = np.tile([1.0, 4.0, 16.0, 64.0], 500)
    for costs, budget in ((any_costs, 2000 * 16), (whole, 500 * (16 + 32 + 64 + 128) - 1)):
        expected = spread_walkers(costs, budget)
        for seed in range(5):
            noise = 1 + 1e-13 * np.random.default_rng(seed).normal(size=costs.size)
            np.testing.assert_array_equal(spread_walkers(costs * noise, budget), expected)
    np.testing.assert_array_equal(expected, np.tile([15, 31, 63, 127], 500))


def test_every_node_has_a_walker_and_none_too_many() -> None:
    np.testing.assert_array_equal(spread_walkers(np.zeros(4), 8), [2, 2, 2, 2])
    np.testing.assert_array_equal(spread_walkers(np.array([0.0, 1.0, 1e-300]), 3), [1, 1, 1])
    np.testing.assert_array_equal(spread_walkers(np.array([1.0, 0.0]), 65536), [65535, 1])
    np.testing.assert_array_equal(spread_walkers(np.array([1.0, 0.25]), 10**6), [65535, 65535])


def test_spread_walkers_are_judged_by_other_draws() -> None:
    """Costs of pure noise gain nothing, though they would seem to by their own draws."""
    rng = np.random.default_rng(0)
    draws = rng.chisquare(1, size=(16, 400))
    value, error = crossed_cost(draws, 400 * 20)
    own = (draws.mean(axis=0) / spread_walkers(draws.mean(axis=0), 400 * 20)).sum()
    assert value > draws.mean() * 20
    assert own < 0.98 * draws.mean() * 20
    assert 0 < error < 0.1 * value


def test_independence_is_known_of_independent_laws_only() -> None:
    assert WalkerCoupling().is_independent
    for name in ("antithetic", "iid+systematic", "stratified"):
        assert not parse_walker_coupling(name).is_independent


def test_forms_are_of_the_given_nodes() -> None:
    form = exact_form(SpectralPrior(GRAPH, KERNEL), *REPEATED, V, S)
    assert isinstance(form, WalkerForm)
    np.testing.assert_array_equal(form.nodes, np.unique(np.concatenate(REPEATED)))
