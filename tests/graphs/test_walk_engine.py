"""The compiled engine against its plain twin, bit for bit, and its independence of scheduling."""

import numba
import numpy as np
import pytest

from coupledgp.couplings import GeometricLaw, available_walker_couplings, parse_walker_coupling
from coupledgp.couplings.walkers.steps import (
    IndependentSteps,
    RepellingSteps,
    Steps,
    SystematicSteps,
)
from coupledgp.features import sample_walks
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_lengths import task_of
from coupledgp.graphs.walk_steps import moves_of
from coupledgp.graphs.walk_visits import Visits, collect_visits, paths, plain_walk, visits_of
from coupledgp.ground import compiled
from coupledgp.ground.counter import LengthUniforms, counter_uniforms, stream_key, uniform
from tests.graph_cases import karate, plain_graph, weighted_graph
from tests.walk_cases import walk


def as_counters(visits: Visits) -> list[dict[tuple[int, int], int]]:
    out = []
    for row in range(visits.indptr.size - 1):
        found = {}
        for pair in range(visits.indptr[row], visits.indptr[row + 1]):
            for entry in range(visits.entry_ptr[pair], visits.entry_ptr[pair + 1]):
                key = int(visits.nodes[pair]), int(visits.steps[entry])
                assert key not in found
                found[key] = int(visits.counts[entry])
        out.append(found)
    return out


def test_compiled_uniforms_are_the_plain_ones() -> None:
    @numba.njit
    def compiled(seed, node, stream, walker):  # type: ignore[no-untyped-def]
        return uniform(stream_key(seed, node, stream), walker)

    nodes = np.array([0, 7, 2**31])
    for seed, stream in [(0, 0), (3, 5), (2**63 - 1, 2**32 + 1)]:
        plain = counter_uniforms(seed, nodes, stream, 4)
        for i, node in enumerate(nodes):
            for walker in range(4):
                assert compiled(np.uint64(seed), node, stream, walker) == plain[i, walker]


def test_counter_uniforms_look_uniform_and_uncorrelated() -> None:
    u = counter_uniforms(1, np.arange(20_000), 1, 4)
    counts = np.histogram(u, bins=50, range=(0, 1))[0]
    expected = u.size / 50
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 49 + 6 * np.sqrt(2 * 49)
    neighbours = [
        u,
        counter_uniforms(1, np.arange(20_000), 2, 4),
        counter_uniforms(2, np.arange(20_000), 1, 4),
    ]
    columns = np.concatenate([*neighbours, np.roll(u, 1, axis=0)], axis=1)
    correlation = np.corrcoef(columns.T) - np.eye(columns.shape[1])
    assert np.abs(correlation).max() < 6 / np.sqrt(20_000)


@pytest.mark.parametrize("steps", [IndependentSteps(), RepellingSteps(), SystematicSteps()])
@pytest.mark.parametrize("graph", [plain_graph(), weighted_graph(), karate()], ids=repr)
@pytest.mark.parametrize("n_walks", [1, 2, 7, 40])
def test_engine_equals_reference(graph: Graph, steps: Steps, n_walks: int) -> None:
    rows = np.arange(graph.n_nodes)
    lengths = GeometricLaw(0.25).lengths(LengthUniforms(3, rows, n_walks)(0), 12)
    visits = walk(3, rows, lengths, steps.compiled, moves_of(graph))
    expected = [dict(visits_of(paths(3, int(node), lengths[node], steps, graph))) for node in rows]
    assert as_counters(visits) == expected
    longest = int(lengths.max())
    assert same(visits, plain_walk(3, rows, lengths, steps, graph, longest))


def same(a: Visits, b: Visits) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("coupling", available_walker_couplings())
def test_same_bits_for_any_number_of_threads(
    coupling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = karate()
    draws = []
    for n_threads in (1, 2, 4):
        monkeypatch.setattr(compiled, "_number_of_threads", lambda n=n_threads: n)
        draws.append(sample_walks(graph, 6, 0.2, coupling, generator=9).visits)
    assert same(draws[0], draws[1])
    assert same(draws[0], draws[2])


@pytest.mark.parametrize("coupling", available_walker_couplings())
def test_same_bits_for_any_blocks_and_subset(coupling: str) -> None:
    graph = karate()
    whole = sample_walks(graph, 6, 0.2, coupling, generator=9)
    parsed = parse_walker_coupling(whole.coupling)
    law = GeometricLaw(0.2)
    task = task_of(graph, whole.nodes, 6, parsed, law, whole.max_length, whole.seed)
    for visits in (1, 100, 1000):
        assert same(whole.visits, collect_visits(task, visits))
    nodes = [20, 3, 3, 8]
    some = sample_walks(graph, 6, 0.2, coupling, nodes=nodes, generator=9)
    f = 0.5 ** np.arange(10)
    np.testing.assert_array_equal(some.features(f).toarray(), whole.features(f).toarray()[nodes])
