"""The floor of couplings of walk lengths, against walkers that never halt and dense sums."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from coupledgp import theory
from coupledgp.couplings.walkers.length_laws import LengthLaw
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.features import sample_walks
from coupledgp.graphs import Graph
from coupledgp.ground import memory
from coupledgp.kernels import RegularizedLaplacianKernel
from tests.graph_cases import blocks, copies, karate, weighted_graph

F = RegularizedLaplacianKernel(1.0, 2.0).modulation(14)
N_DRAWS = 600


class Endless(LengthLaw):
    """Walkers that never halt."""

    def survival(self, max_length: int) -> np.ndarray:
        return np.ones(max_length + 1)

    def natural_length(self) -> int:
        return 13


def simulated(graph: Graph, m: int, p: float, coupling: str, law: Any) -> tuple[float, float]:
    """Mean square of the errors between different nodes over that of K, and standard error."""
    walks = sample_walks(
        copies(graph, N_DRAWS), m, p, coupling, law, F.size - 1, generator=1, modulation=F
    )
    draws = blocks(walks.features(F), N_DRAWS)
    W = graph.normalized_adjacency.toarray()
    exact = sum(f * np.linalg.matrix_power(W, t) for t, f in enumerate(F))
    K = exact @ exact
    gaps = draws @ draws.transpose(0, 2, 1) - K
    gaps[:, np.arange(len(K)), np.arange(len(K))] = 0
    squares = np.square(gaps).sum(axis=(1, 2)) / np.square(K).sum()
    return float(squares.mean()), float(squares.std(ddof=1) / np.sqrt(N_DRAWS))


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("graph", [karate(), weighted_graph()])
def test_errors_are_those_of_draws(graph: Graph, m: int) -> None:
    found = theory.walk_length_floor(graph, F, m, p_halt=0.3, max_length=13)
    for value, law in ((found.floor, Endless()), (found.independent, "geometric")):
        mean, error = simulated(graph, m, 0.3, "iid", law)
        assert value**2 == pytest.approx(mean, abs=4 * error)
        assert error < 0.1 * mean
    assert found.floor_error == found.independent_error == found.ratio_error == 0
    assert found.ratio == pytest.approx(found.floor / found.independent, rel=1e-12)


@pytest.mark.parametrize("coupling", ["antithetic", "sigma", "stratified"])
def test_no_coupling_of_lengths_is_below(coupling: str) -> None:
    found = theory.walk_length_floor(karate(), F, 2, p_halt=0.5, max_length=13)
    mean, error = simulated(karate(), 2, 0.5, coupling, "geometric")
    assert found.floor**2 < mean - 4 * error
    assert mean < found.independent**2


def test_the_ratios_of_social_graphs() -> None:
    graph = Graph.from_networkx(nx.karate_club_graph(), weight=None)
    ratios = [theory.walk_length_floor(graph, F, 16, p_halt=p).ratio for p in (0.1, 0.3, 0.5)]
    np.testing.assert_allclose(ratios, [0.90, 0.70, 0.49], atol=0.01)


def test_few_nodes_stand_for_all_within_the_error() -> None:
    graph = Graph.from_networkx(nx.barabasi_albert_graph(120, 3, seed=1))
    whole = theory.walk_length_floor(graph, F, 4, p_halt=0.3)
    parts = [
        theory.walk_length_floor(graph, F, 4, p_halt=0.3, n_sampled=30, random_state=k)
        for k in range(12)
    ]
    for name in ("floor", "independent", "ratio"):
        gaps = np.array([getattr(p, name) for p in parts]) - getattr(whole, name)
        errors = np.array([getattr(p, f"{name}_error") for p in parts])
        assert 0.5 < np.sqrt(np.mean(gaps**2)) / np.sqrt(np.mean(errors**2)) < 1.8
        assert errors.max() < 0.2 * getattr(whole, name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_walks": 0}, "n_walks"), ({"n_sampled": 1}, "n_sampled"), ({"p_halt": 1.0}, "p_halt"),
        ({"length_law": "no"}, "length_law"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        theory.walk_length_floor(karate(), F, **{"n_walks": 2, **change})


def test_a_law_without_long_walks_is_refused() -> None:
    class Short(Endless):
        def survival(self, max_length: int) -> np.ndarray:
            return (np.arange(max_length + 1) < 3).astype(float)

    with pytest.raises(InvalidInputError, match="never makes 3 steps"):
        theory.walk_length_floor(karate(), F, 2, length_law=Short(), max_length=13)


def test_a_graph_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10_000)
    ring = Graph.from_networkx(nx.cycle_graph(400))  # 16 MiB are never refused
    with pytest.raises(MemoryLimitError, match="take a subgraph"):
        theory.walk_length_floor(ring, F, 2)
