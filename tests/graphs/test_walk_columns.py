"""Codes of visits sorted side by side, and their packed form, against numpy."""

import numpy as np
import pytest

from coupledgp.couplings import GeometricLaw
from coupledgp.couplings.walkers.steps import (
    INDEPENDENT,
    IndependentSteps,
    RepellingSteps,
    Steps,
    SystematicSteps,
)
from coupledgp.graphs import Graph
from coupledgp.graphs import walk_steps as compiled_steps
from coupledgp.graphs import walks as module
from coupledgp.graphs.walk_steps import moves_of
from coupledgp.graphs.walk_visits import (
    Expanded,
    Visits,
    form_of,
    packed,
    plain_walk,
    starts,
    weigh,
    weigh_back,
)
from coupledgp.graphs.walks import Engine, columns_for
from coupledgp.ground.counter import LengthUniforms
from tests.graph_cases import karate, plain_graph, weighted_graph
from tests.walk_cases import counted, walk


def same(a: Visits, b: Visits) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("code_bits", [9, 32, 33, 47])
@pytest.mark.parametrize("tallest", [0, 1000])
@pytest.mark.parametrize("n_rows", [1, 63, 64, 130])
def test_every_row_is_sorted(
    n_rows: int, tallest: int, code_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TALLEST", tallest)
    rng = np.random.default_rng(n_rows)
    n_codes = rng.integers(1, 90, n_rows)
    columns = columns_for(n_codes, 90, code_bits, np.empty(0, np.uint32))
    assert columns.width == (64 if tallest else 1)
    assert columns.codes.itemsize == (4 if code_bits <= 32 else 8)
    expected = []
    for r, size in enumerate(n_codes):
        row = rng.integers(0, 2**code_bits, size)
        row[rng.random(size) < 0.2] = 2**code_bits - 1  # as large as what fills a column
        expected.append(np.sort(row))
        place = (r // columns.width) * 90 * columns.width + r % columns.width
        columns.codes[place + columns.width * np.arange(size)] = row
    columns.sort()
    for r, row in enumerate(expected):
        place = (r // columns.width) * 90 * columns.width + r % columns.width
        found = columns.codes[place + columns.width * np.arange(row.size)]
        np.testing.assert_array_equal(found.astype(np.int64), row)


def test_memory_of_columns_is_used_again() -> None:
    first = columns_for(np.ones(100, np.int64), 20, 30, np.empty(0, np.uint32))
    second = columns_for(np.ones(64, np.int64), 20, 30, first.codes)
    assert second.codes is first.codes
    assert columns_for(np.ones(64, np.int64), 20, 40, first.codes).codes.dtype == np.uint64


@pytest.mark.parametrize("steps", [IndependentSteps(), RepellingSteps(), SystematicSteps()])
@pytest.mark.parametrize("graph", [plain_graph(), weighted_graph()], ids=repr)
@pytest.mark.long
def test_long_rows_and_wide_codes_give_the_same_visits(
    graph: Graph, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.tile(np.arange(graph.n_nodes), 10)
    lengths = GeometricLaw(0.2).lengths(LengthUniforms(3, rows, 5)(0), 12)
    expected = plain_walk(3, rows, lengths, steps, graph, 12)
    assert same(walk(3, rows, lengths, steps.compiled, moves_of(graph, np.inf)), expected)
    monkeypatch.setattr(module, "TALLEST", 3)
    assert same(walk(3, rows, lengths, steps.compiled, moves_of(graph)), expected)
    monkeypatch.setattr(compiled_steps, "WORD_BITS", 5)  # too few for a node, an edge and a degree
    unpacked = moves_of(graph, np.inf)
    assert unpacked.targets is None
    assert same(walk(3, rows, lengths, steps.compiled, unpacked), expected)


def test_codes_beyond_32_bits() -> None:
    graph = karate()
    rows, lengths = np.arange(34), np.full((34, 6), 9)
    engine = Engine(7, INDEPENDENT, moves_of(graph), 2**27)
    found = counted(engine, rows, lengths)
    assert engine.visits(rows, lengths).codes.dtype == np.uint64
    assert found.entries.dtype == np.uint32
    expected = plain_walk(7, rows, lengths, IndependentSteps(), graph, 9)
    assert found.entries.size == expected.entries.size
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(found.steps, expected.steps)
    np.testing.assert_array_equal(found.nodes, expected.nodes)


def random_visits(rng: np.random.Generator, n_walks: int, longest: int) -> Expanded:
    """Visits of seven rows, some without any."""
    n_pairs = rng.integers(0, 5, 7)
    nodes = [np.sort(rng.choice(9, n, replace=False)) for n in n_pairs]
    n_entries = rng.integers(1, min(longest, 4) + 2, n_pairs.sum())
    steps = [np.sort(rng.choice(longest + 1, n, replace=False)) for n in n_entries]
    counts = rng.integers(1, n_walks + 1, n_entries.sum())
    counts[0] = n_walks
    return Expanded(
        starts(n_pairs),
        np.concatenate(nodes).astype(np.int32),
        starts(n_entries),
        np.concatenate(steps).astype(np.uint16),
        counts.astype(np.uint32),
    )


@pytest.mark.parametrize(
    ("n_walks", "longest", "dtype"),
    [
        (1, 0, np.uint16),
        (16, 10, np.uint16),
        (2**8, 2**7 - 1, np.uint16),
        (2**8 + 1, 2**7 - 1, np.uint32),
        (2**15, 2**16 - 1, np.uint32),
        (2**16 - 1, 2**16 - 1, np.uint64),
    ],
)
def test_packed_visits_are_read_as_they_were(n_walks: int, longest: int, dtype: type) -> None:
    rng = np.random.default_rng(longest)
    visits = random_visits(rng, n_walks, longest)
    found = packed(visits, form_of(n_walks, longest))
    assert found.entries.dtype == dtype
    for a, b in zip(visits, found.expanded(), strict=True):
        np.testing.assert_array_equal(a, b)
    n_pairs, n_entries = np.diff(visits.indptr), np.diff(visits.entry_ptr)
    rows = np.repeat(np.repeat(np.arange(7), n_pairs), n_entries)
    nodes = np.repeat(visits.nodes, n_entries)
    per_step, row_scale, node_scale = rng.random(longest + 1), rng.random(7), rng.random(9)
    terms = per_step[visits.steps] * visits.counts * row_scale[rows] * node_scale[nodes]
    sums = np.add.reduceat(terms, visits.entry_ptr[:-1])
    np.testing.assert_allclose(weigh(found, per_step, row_scale, node_scale), sums, rtol=1e-13)
    left, right = rng.random((7, 2)), rng.random((9, 2))
    inner = (left[rows] * right[nodes]).sum(axis=1) * visits.counts
    expected = np.bincount(visits.steps, inner, longest + 1)
    np.testing.assert_allclose(weigh_back(found, left, right, longest + 1), expected, rtol=1e-13)
