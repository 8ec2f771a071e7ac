"""Walks on any graph: weights, loops, several components and isolated nodes drawn by hypothesis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coupledgp.couplings import GeometricLaw, available_walker_couplings, parse_walker_coupling
from coupledgp.errors import MemoryLimitError
from coupledgp.features import WalkFeatures, sample_walks
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_lengths import task_of, visit_bytes, walk_bytes
from coupledgp.graphs.walk_steps import moves_of
from coupledgp.graphs.walk_visits import Visits, collect_visits, plain_walk
from coupledgp.ground.counter import LengthUniforms
from tests.walk_cases import walk


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of up to twelve nodes and twenty edges, with loops and parallel edges."""
    n = draw(st.integers(1, 12))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = draw(st.lists(ends, max_size=20))
    weight = st.floats(1e-3, 1e3) if draw(st.booleans()) else st.just(1.0)
    weights = [draw(weight) for _ in edges]
    return Graph.from_edges([a for a, _ in edges], [b for _, b in edges], weights, n_nodes=n)


couplings = st.sampled_from(available_walker_couplings())
seeds = st.integers(0, 2**63 - 1)


def same(a: Visits, b: Visits) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@given(graphs(), couplings, seeds, st.integers(1, 9), st.booleans())
def test_engine_is_the_reference(
    graph: Graph, coupling: str, seed: int, n_walks: int, packed: bool
) -> None:
    steps = parse_walker_coupling(coupling).steps
    rows = np.arange(graph.n_nodes)
    lengths = GeometricLaw(0.3).lengths(LengthUniforms(seed, rows, n_walks)(0), 6)
    moves = moves_of(graph, np.inf if packed else 0.0)
    assert steps.compiled is not None
    found = walk(seed, rows, lengths, steps.compiled, moves)
    assert same(found, plain_walk(seed, rows, lengths, steps, graph, int(lengths.max())))


@given(graphs(), couplings, seeds, st.data())
def test_neither_blocks_nor_company_change_a_row(
    graph: Graph, coupling: str, seed: int, data: st.DataObject
) -> None:
    whole = sample_walks(graph, 5, 0.3, coupling, max_length=6, generator=seed)
    parsed, law = whole.coupling, GeometricLaw(0.3)
    visits = data.draw(st.integers(1, 200))
    task = task_of(graph, whole.nodes, 5, parsed, law, 6, whole.seed)
    assert same(whole.visits, collect_visits(task, visits))
    nodes = data.draw(st.lists(st.integers(0, graph.n_nodes - 1), min_size=1, max_size=6))
    some = sample_walks(graph, 5, 0.3, coupling, max_length=6, nodes=nodes, generator=seed)
    f = 0.5 ** np.arange(7)
    np.testing.assert_array_equal(some.features(f).toarray(), whole.features(f).toarray()[nodes])
    hops = [WalkFeatures(sampled, f, 2) for sampled in (some, whole)]
    np.testing.assert_allclose(hops[0].rows(), hops[1].rows(nodes), rtol=1e-12, atol=1e-14)


@given(graphs(), couplings, seeds)
def test_walkers_stay_in_their_component_and_none_is_lost(
    graph: Graph, coupling: str, seed: int
) -> None:
    sampled = sample_walks(graph, 4, 0.3, coupling, max_length=5, generator=seed)
    _, member = graph.components()
    per_row = np.add.reduceat(
        sampled.visits.counts, sampled.visits.entry_ptr[sampled.visits.indptr[:-1]]
    )
    uniforms = LengthUniforms(sampled.seed, sampled.nodes, 4)
    lengths = sampled.coupling.lengths.sample(GeometricLaw(0.3), 5, uniforms)
    isolated = graph.degrees == 0
    expected = np.where(isolated, 4, (lengths + 1).sum(axis=1))
    np.testing.assert_array_equal(per_row, expected)
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(sampled.visits.indptr))
    np.testing.assert_array_equal(member[sampled.visits.nodes], member[rows])


@given(graphs(), st.lists(st.floats(-2, 2), min_size=2, max_size=10), st.integers(0, 8))
def test_truncation_bounds_what_is_lost(graph: Graph, f: list[float], longest: int) -> None:
    sampled = sample_walks(graph, 1, max_length=longest, generator=0)
    report = sampled.truncation(f)
    matrix = graph.normalized_adjacency.toarray()
    powers = [np.linalg.matrix_power(matrix, t) for t in range(len(f))]
    whole = sum(c * power for c, power in zip(f, powers, strict=True))
    cut = sum(c * power for c, power in list(zip(f, powers, strict=True))[: longest + 1])
    slack = 1e-10
    assert np.linalg.norm(whole - cut, 2) <= report.tail + slack
    assert np.linalg.norm(whole @ whole - cut @ cut, 2) <= report.kernel_bound + slack
    assert (report.tail == 0) == (not np.any(f[longest + 1 :]))


@settings(max_examples=20)
@given(graphs(), couplings, seeds, st.integers(1, 12))
def test_memory_is_estimated_from_above_and_refused(
    graph: Graph, coupling: str, seed: int, n_walks: int
) -> None:
    sampled = sample_walks(graph, n_walks, 0.3, coupling, max_length=8, generator=seed)
    visits = float(sampled.visits.counts.sum())
    fixed = 16.0 * (graph.n_nodes + 1)
    assert sampled.nbytes <= visit_bytes(n_walks, 8) * visits + fixed
    needed = walk_bytes(graph.n_nodes, n_walks, sampled.survival)
    with pytest.raises(MemoryLimitError, match="use "):
        sample_walks(graph, n_walks, 0.3, coupling, max_length=8, memory_limit=0.99 * needed)
    sample_walks(graph, n_walks, 0.3, coupling, max_length=8, memory_limit=1.01 * needed)
