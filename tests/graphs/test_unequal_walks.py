"""Walks with a number of walkers for each node: the rows of that number, unbiased, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from coupledgp.couplings import MatchedLaw, WalkerCoupling, available_walker_couplings
from coupledgp.couplings.walkers.steps import IndependentSteps
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.features import WalkFeatures, Walks, sample_walk_features, sample_walks
from coupledgp.graphs import Graph
from coupledgp.graphs.hops import hop_nodes, split_series
from coupledgp.graphs.walk_lengths import coefficients
from tests.graph_cases import assert_mean_is, blocks, copies, karate, plain_graph, weighted_graph

HEAT = np.exp(-1.0) * np.cumprod(np.concatenate([[1.0], 1.0 / np.arange(1, 12)]))  # t = 2
NUMBERS = np.array([1, 4, 2, 9, 3, 1, 6, 2, 5, 33, 1, 2, 7, 3])
N_COPIES = 400


class PlainSteps(IndependentSteps):
    """Independent steps that no compiled loop knows."""

    compiled = None


def walked(graph: Graph, n_walks: object, coupling: object, nodes: object = None) -> Walks:
    return sample_walks(
        graph, n_walks, 0.3, coupling, max_length=8, nodes=nodes, generator=3, modulation=HEAT
    )  # fmt: skip


def bits_of(walks: Walks) -> list[np.ndarray]:
    phi = walks.features(HEAT)
    return [*walks.visits.arrays, phi.data, phi.indices, phi.indptr]


@pytest.mark.parametrize("coupling", available_walker_couplings())
def test_equal_numbers_are_those_of_the_scalar_to_the_bit(coupling: str) -> None:
    graph = karate()
    one, many = walked(graph, 7, coupling), walked(graph, np.full(34, 7), coupling)
    for a, b in zip(bits_of(one), bits_of(many), strict=True):
        np.testing.assert_array_equal(a, b)
    left, right = np.random.default_rng(0).normal(size=(2, 34, 2))
    np.testing.assert_array_equal(one.load_products(left, right), many.load_products(left, right))


PLAIN = WalkerCoupling(steps=PlainSteps())


@pytest.mark.long
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("coupling", [*available_walker_couplings(), PLAIN])
def test_a_row_depends_on_its_own_number_alone(coupling: object, weighted: bool) -> None:
    graph = weighted_graph() if weighted else plain_graph()
    phi = walked(graph, NUMBERS, coupling).features(HEAT)
    for node, number in enumerate(NUMBERS.tolist()):
        alone = walked(graph, number, coupling, nodes=[node]).features(HEAT)
        row = phi[[node]]
        np.testing.assert_array_equal(row.indices, alone.indices)
        np.testing.assert_array_equal(row.data, alone.data)


@pytest.mark.parametrize("coupling", ["iid", "antithetic", "sigma", "stratified+systematic"])
def test_features_are_unbiased(coupling: str) -> None:
    graph = plain_graph()
    walks = sample_walks(
        copies(graph, N_COPIES), np.tile(NUMBERS, N_COPIES), 0.3, coupling, max_length=11,
        generator=1, modulation=HEAT,
    )  # fmt: skip
    W = graph.normalized_adjacency.toarray()
    exact = sum(f * np.linalg.matrix_power(W, t) for t, f in enumerate(HEAT))
    assert_mean_is(blocks(walks.features(HEAT), N_COPIES), exact)


def test_features_behind_hops_are_unbiased() -> None:
    graph = plain_graph()
    _, c = split_series(HEAT, hop_nodes(graph, 3))
    walks = sample_walks(
        copies(graph, N_COPIES), np.tile(NUMBERS, N_COPIES), generator=2,
        length_law=MatchedLaw(np.abs(c) + 1e-3),
    )  # fmt: skip
    operator = WalkFeatures(walks, HEAT, exact_hops=3)
    stacked = np.tile(np.eye(graph.n_nodes), (N_COPIES, 1))
    W = graph.normalized_adjacency.toarray()
    exact = sum(f * np.linalg.matrix_power(W, t) for t, f in enumerate(HEAT))
    assert_mean_is(operator.matmat(stacked).reshape(N_COPIES, 14, 14), exact)


def test_sums_made_while_walking_are_those_of_visits() -> None:
    graph = weighted_graph()
    given = {"max_length": 8, "generator": 3}
    kept = sample_walks(graph, NUMBERS, 0.3, modulation=HEAT, **given).features(HEAT)
    summed = sample_walk_features(graph, HEAT, NUMBERS, 0.3, **given)
    np.testing.assert_array_equal(kept.toarray(), summed.toarray())


def test_products_of_loads_are_dense_ones() -> None:
    graph = weighted_graph()
    walks = walked(graph, NUMBERS, "stratified+systematic")
    left, right = np.random.default_rng(0).normal(size=(2, 14, 2))
    expected = [np.vdot(left, walks.loads(t) @ right) for t in range(walks.max_length + 1)]
    np.testing.assert_allclose(walks.load_products(left, right), expected, rtol=1e-12, atol=1e-14)


def test_nodes_that_are_not_walked_may_have_none() -> None:
    graph, numbers = plain_graph(), np.where(np.arange(14) < 4, NUMBERS, 0)
    walks = walked(graph, numbers, "iid", nodes=[0, 2])
    np.testing.assert_array_equal(walks.n_walks, [1, 2])
    assert walks.equivalent_walks == pytest.approx(2 / (1 + 1 / 2))
    with pytest.raises(InvalidInputError, match="at least one walker at each start node, got none"):
        walked(graph, numbers, "iid", nodes=[0, 5])


def test_the_expected_error_of_hops_is_that_of_the_harmonic_mean() -> None:
    graph = plain_graph()
    walks = walked(graph, NUMBERS, "iid")
    f = coefficients(HEAT, HEAT.size)
    found = WalkFeatures(walks, f, exact_hops=2).plan.predicted_error
    one = WalkFeatures(walked(graph, 1, "iid"), f, exact_hops=2).plan.predicted_error
    assert found == pytest.approx(one * np.sqrt(np.mean(1 / NUMBERS)), rel=1e-12)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (NUMBERS[:-1], "one for each node"), (NUMBERS.astype(float), "integers of shape"),
        (-NUMBERS, "from 0 to 65535"), (NUMBERS * 10**4, "from 0 to 65535"),
        (0, "n_walks"), (2**16, "n_walks: expected at most"),
    ],
)  # fmt: skip
def test_other_numbers_are_refused(numbers: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        walked(plain_graph(), numbers, "iid")


def test_memory_counts_all_walkers() -> None:
    with pytest.raises(MemoryLimitError, match=r"walks: 5\.64286 from each of 14 nodes"):
        sample_walks(plain_graph(), NUMBERS, 0.3, max_length=8, memory_limit=100.0)
