"""Costs of walkers to second order, against dense algebra of another form."""

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
    exact_form,
    sampled_costs,
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


def test_independence_is_known_of_independent_laws_only() -> None:
    assert WalkerCoupling().is_independent
    for name in ("antithetic", "iid+systematic", "stratified"):
        assert not parse_walker_coupling(name).is_independent


def test_forms_are_of_the_given_nodes() -> None:
    form = exact_form(SpectralPrior(GRAPH, KERNEL), *REPEATED, V, S)
    assert isinstance(form, WalkerForm)
    np.testing.assert_array_equal(form.nodes, np.unique(np.concatenate(REPEATED)))
