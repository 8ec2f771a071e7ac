"""Expected errors of graph posteriors by walks, against Monte Carlo with dense algebra."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from coupledgp import theory
from coupledgp.errors import InvalidInputError, PrecisionWarning
from coupledgp.features import WalkFeatures, plan_hops, sample_walks, walked_series
from coupledgp.graphs import Graph
from coupledgp.kernels import HeatKernel

GRAPH = Graph.from_networkx(nx.karate_club_graph(), weight=None)
KERNEL, V, S = HeatKernel(2.0), 1.5, 0.2
SEEN, ASKED = np.arange(0, 34, 2), np.arange(1, 34, 2)
GIVEN: dict[str, Any] = {"kernel": KERNEL, "outputscale": V, "noise": S}
W, U = np.linalg.eigh(GRAPH.normalized_adjacency.toarray())
K = V * (U * KERNEL.spectral(W)) @ U.T


def law(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    C = K[np.ix_(SEEN, SEEN)] + S * np.eye(SEEN.size)
    gain = np.linalg.solve(C, K[np.ix_(SEEN, ASKED)]).T
    return gain, K[np.ix_(ASKED, ASKED)] - gain @ K[np.ix_(SEEN, ASKED)] + S * np.eye(ASKED.size)


def divergence(own: np.ndarray, other: np.ndarray, gap: np.ndarray | float) -> float:
    p = len(own)
    logdets = np.linalg.slogdet(other)[1] - np.linalg.slogdet(own)[1]
    return float(0.5 * (np.trace(np.linalg.solve(other, own + gap)) - p + logdets) / p)


def measured(n_walks: Any, coupling: str, hops: int, seed: int) -> np.ndarray:
    """KL forward and reverse, KL of the priors, and excess squared error, of one draw."""
    plan = plan_hops(GRAPH, KERNEL, 1, hops)
    series = walked_series(KERNEL, plan, 1e-9)
    walks = sample_walks(
        GRAPH, n_walks, coupling=coupling, length_law="matched", modulation=series, generator=seed
    )
    phi = WalkFeatures(walks, KERNEL, plan).rows()
    rough = V * phi @ phi.T
    (gain, own), (other, approximate) = law(K), law(rough)
    C = K[np.ix_(SEEN, SEEN)] + S * np.eye(SEEN.size)
    gap = (other - gain) @ C @ (other - gain).T
    noise = S * np.eye(ASKED.size)
    priors = [A[np.ix_(ASKED, ASKED)] + noise for A in (K, rough)]
    return np.array([
        divergence(own, approximate, gap), divergence(approximate, own, gap),
        divergence(priors[0], priors[1], 0.0), np.trace(gap) / ASKED.size,
    ])  # fmt: skip


SPREAD = 300 + 200 * (np.arange(34) % 5)


@pytest.mark.parametrize(
    ("n_walks", "coupling", "hops"),
    [(600, "iid", 0), (40, "iid", 1), (SPREAD, "iid", 0), (128, "stratified+systematic", 0),
     (24, "antithetic", 1)],
)  # fmt: skip
def test_expected_errors_are_those_of_draws(n_walks: Any, coupling: str, hops: int) -> None:
    found = theory.walk_posterior_errors(
        GRAPH, SEEN, n_walks=n_walks, coupling=coupling, exact_hops=hops, n_draws=400, **GIVEN
    )
    draws = np.array([measured(n_walks, coupling, hops, 100 + k) for k in range(60)])
    means, errors = draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    for expected, k in (
        (found.kl, 0), (found.kl, 1), (found.prior_kl, 2), (found.squared_error, 3),
    ):  # fmt: skip
        # What is beyond second order is of the order of the KL itself, relative to it, times the
        # number of queries, which share the error of a node.
        beyond = 2 * ASKED.size * means[0] * means[k]
        tolerance = 4 * np.hypot(errors[k], expected.standard_error) + beyond
        assert means[k] == pytest.approx(expected.value, abs=tolerance)
        assert tolerance < 0.5 * expected.value
    assert found.coupling == coupling
    assert (found.kl.value == found.kl.independent) == (coupling == "iid")


def test_errors_fall_as_one_over_the_numbers() -> None:
    given: dict[str, Any] = {"exact_hops": 2, "n_draws": 16, **GIVEN}
    one, two = (theory.walk_posterior_errors(GRAPH, SEEN, n_walks=m, **given) for m in (10, 40))
    assert one.kl.value == pytest.approx(4 * two.kl.value, rel=1e-9)
    assert one.kl_with(40) == pytest.approx((two.kl.value, two.kl.standard_error), rel=1e-9)
    assert one.kl_with(np.full(34, 40))[0] == pytest.approx(two.kl.value, rel=1e-9)
    wanted = one.walks_for(two.kl.value / 3)
    assert wanted in (120, 121)
    assert one.cost_errors.shape == one.costs.shape == (34,)


def test_all_nodes_are_asked_for_where_all_are_observed() -> None:
    every = np.arange(34)
    found = theory.walk_posterior_errors(GRAPH, every, n_walks=50, n_draws=4, **GIVEN)
    again = theory.walk_posterior_errors(GRAPH, every, every, n_walks=50, n_draws=4, **GIVEN)
    assert found.n_queries == 34
    assert found.kl == again.kl


def test_a_large_error_is_said_to_be_beyond_the_second_order() -> None:
    with pytest.warns(PrecisionWarning, match="beyond which the second order does not hold"):
        theory.walk_posterior_errors(GRAPH, SEEN, n_walks=1, n_draws=4, **GIVEN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_draws": 3}, "n_draws"), ({"noise": 0.0}, "noise"), ({"coupling": "no"}, "coupling"),
        ({"queries": [99]}, "99"),
        ({"n_walks": np.ones(3, int)}, "one for each node"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        theory.walk_posterior_errors(GRAPH, SEEN, **{**GIVEN, "n_walks": 50, **change})


def test_other_numbers_of_walkers_are_checked() -> None:
    found = theory.walk_posterior_errors(GRAPH, SEEN, n_walks=50, n_draws=4, **GIVEN)
    for bad in (0, np.ones(3), np.full(34, -1.0)):
        with pytest.raises(InvalidInputError, match="a positive number, or one for each of 34"):
            found.kl_with(bad)
    with pytest.raises(InvalidInputError, match="kl_target"):
        found.walks_for(0.0)
