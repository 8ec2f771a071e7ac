"""Greedy placement against dense log-determinants, plain search and all sets of small cases."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.inference.placement import greedy as module
from coupledgp.inference.placement.downdated import Downdated
from coupledgp.inference.placement.greedy import GreedySet, greedy
from coupledgp.inference.placement.objectives import CRITERIA, given_members, objective_of
from coupledgp.inference.placement.result import Placement, check_request, distinct
from coupledgp.kernels import HeatKernel, dense_kernel
from tests.graph_cases import plain_graph, weighted_graph

GRAPHS = {
    "path": Graph.from_networkx(nx.path_graph(11)),
    "disconnected": plain_graph(),
    "weighted": weighted_graph(),
}


def covariance(name: str) -> np.ndarray:
    return dense_kernel(GRAPHS[name].closed, HeatKernel(4.0))


def logdet(M: np.ndarray) -> float:
    return float(np.linalg.slogdet(M)[1])


def value(criterion, C, noise, V, interest, A) -> float:
    """The objective by dense algebra."""
    A, rest = list(A), [v for v in V if v not in set(A)]
    S = C + np.diag(noise)
    part = lambda rows: logdet(S[np.ix_(rows, rows)]) if rows else 0.0  # noqa: E731
    if criterion == "variance":
        return 0.5 * (part(A) - np.log(noise[A]).sum())
    if criterion == "mutual-information":
        return 0.5 * (part(A) + part(rest) - part(list(V)))
    if not A:
        return 0.0
    K = C[np.ix_(interest, A)]
    return float(np.trace(K @ np.linalg.solve(S[np.ix_(A, A)], K.T)))


CASES = [
    ("path", np.arange(11), np.arange(11)),
    ("disconnected", np.array([1, 3, 4, 6, 9, 13]), np.array([0, 3, 8, 12])),
    ("weighted", np.arange(0, 14, 2), np.arange(1, 14, 3)),
]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("name", "candidates", "interest"), CASES)
def test_every_step_is_the_best_of_all_candidates_by_dense_algebra(
    name, candidates, interest, criterion
):
    C = covariance(name)
    noise = np.random.default_rng(0).uniform(0.05, 0.3, len(C))
    V = np.union1d(candidates, interest)
    k = min(5, candidates.size)
    found = greedy(objective_of(criterion, C, noise, candidates, interest, k), k)
    A: list[int] = []
    for pick, gain in zip(candidates[found.candidates], found.gains, strict=True):
        before = value(criterion, C, noise, V, interest, A)
        worth = {
            int(c): value(criterion, C, noise, V, interest, [*A, int(c)]) - before
            for c in candidates
            if c not in A
        }
        assert gain == pytest.approx(worth[int(pick)], abs=1e-9)
        assert gain >= max(worth.values()) - 1e-8
        A.append(int(pick))


@pytest.mark.parametrize("criterion", CRITERIA[::2])
def test_lazy_is_plain_with_fewer_evaluations(criterion, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 2)
    graph = Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(14, 20)))
    C, every = dense_kernel(graph, HeatKernel(6.0)), np.arange(280)
    noise = np.full(280, 0.1)
    lazy, plain = (
        greedy(objective_of(criterion, C, noise, every, every, 12), 12, lazy)
        for lazy in (True, False)
    )
    assert np.array_equal(lazy.candidates, plain.candidates)  # ties of the symmetric grid included
    np.testing.assert_allclose(lazy.gains, plain.gains, rtol=1e-9)
    assert lazy.bound == pytest.approx(plain.bound)
    assert lazy.n_evaluations < plain.n_evaluations / (2 if criterion != "variance" else 1)


@pytest.mark.parametrize("criterion", ["variance", "mutual-information"])
@pytest.mark.parametrize("name", GRAPHS)
def test_greedy_and_its_bound_hold_against_all_sets(name, criterion):
    C, every = covariance(name), np.arange(len(covariance(name)))
    noise, k = np.full(len(C), 0.1), 3
    found = greedy(objective_of(criterion, C, noise, every, every, k), k)
    best = max(value(criterion, C, noise, every, every, A) for A in combinations(every.tolist(), k))
    total = found.gains.sum()
    assert (1 - 1 / np.e) * best <= total <= best + 1e-9
    assert best <= found.bound + 1e-9


@pytest.mark.parametrize("criterion", ["variance", "mutual-information"])
def test_gains_of_submodular_objectives_never_rise(criterion):
    C = covariance("weighted")
    every, noise = np.arange(len(C)), np.full(len(C), 0.05)
    objective = objective_of(criterion, C, noise, every, every, 6)
    left, last = every, objective.gains(every)
    for pick in (7, 2, 11, 0, 5, 9):
        objective.add(pick)
        left = left[left != pick]
        gains = objective.gains(left)
        assert (gains <= last[left] + 1e-10).all()
        last[left] = gains


def test_total_variance_is_not_submodular():
    # The sum of two independent signals says little of their difference, unless one is known.
    C = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    C += 1e-6 * np.eye(3)
    interest = np.array([2])
    objective = objective_of("total-variance", C, np.full(3, 1e-3), np.arange(2), interest, 2)
    before = objective.gains(np.array([1]))[0]
    objective.add(0)
    assert objective.gains(np.array([1]))[0] > before
    assert not objective.is_submodular
    assert np.isinf(greedy(objective_of("total-variance", C, np.full(3, 0.1), np.arange(2),
                                        interest, 1), 1).bound)  # fmt: skip


def test_rows_are_brought_up_to_date_only_where_they_are_asked_for():
    C = covariance("path") + 0.1 * np.eye(11)
    asked = []
    given = Downdated(np.diagonal(C).copy(), lambda j: asked.append(j) or C[:, j], 3)
    given.add(4)
    some = given.values(np.array([0, 1]))
    given.add(8)
    given.add(1)
    A, rest = [4, 8, 1], [0, 2, 3, 5, 6, 7, 9, 10]
    exact = C - C[:, A] @ np.linalg.solve(C[np.ix_(A, A)], C[A])
    np.testing.assert_allclose(given.values(np.array(rest)), np.diagonal(exact)[rest])
    np.testing.assert_allclose(
        some, [C[0, 0] - C[0, 4] ** 2 / C[4, 4], C[1, 1] - C[1, 4] ** 2 / C[4, 4]]
    )
    assert asked == A  # one column a member
    np.testing.assert_allclose(given.along(np.array([0]))[-1], exact[0, 0])
    np.testing.assert_allclose(given.pivots[0], C[4, 4])


def test_a_member_may_be_measured_again():
    C, noise = covariance("weighted"), np.linspace(0.1, 0.4, 14)
    given = given_members(C, noise, 3)
    for member in (5, 0, 9):
        given.add(member)
    A = [5, 0, 9]
    gain = np.linalg.solve(C[np.ix_(A, A)] + np.diag(noise[A]), C[A])
    exact = np.diagonal(C) + noise - np.einsum("ij,ij->j", C[A], gain)
    np.testing.assert_allclose(given.values(np.arange(14)), exact)
    np.testing.assert_allclose(given.along(np.arange(14))[-1], exact)


def test_members_that_are_determined_are_named():
    given = Downdated(np.ones(2), lambda j: np.ones(2), 2)
    given.add(0)
    with pytest.raises(NumericalError, match="given 1 others"):
        given.add(1)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2", None])
def test_numbers_of_sensors_are_checked(k):
    with pytest.raises(InvalidInputError, match="k"):
        check_request(k, "variance", 10)


def test_criteria_and_places_are_checked():
    with pytest.raises(InvalidInputError, match="k: expected at most 3"):
        check_request(4, "variance", 3)
    with pytest.raises(InvalidInputError, match="criterion"):
        check_request(1, "entropy", 3)
    with pytest.raises(InvalidInputError, match="candidates: expected at least one"):
        distinct(np.empty(0, dtype=int), "candidates")
    with pytest.raises(InvalidInputError, match="interest: expected distinct"):
        distinct(np.array([1, 1]), "interest")


@pytest.mark.parametrize(
    ("bound", "share"), [(5.0, 0.8), (4.0 - 1e-12, 1.0), (np.inf, np.nan)], ids=str
)
def test_a_placement_tells_its_share_of_the_bound(bound, share):
    chosen = GreedySet(np.array([2, 0]), np.array([3.0, 1.0]), bound, 7)
    variance = np.array([2.0, 1.5, 1.2])
    found = Placement.of(chosen, ["c", "a"], "variance", variance, "of three")
    assert found.share_of_optimum == pytest.approx(share, nan_ok=True)
    assert "1. c: 3 nats, mean variance 1.5" in found.explain()
    assert ("at least 80% of" in found.explain()) == (share == 0.8)
