"""Rows that threads write in order, lengths drawn compiled, and sums made while walking."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coupledgp.couplings import GeometricLaw, LengthLaw, MatchedLaw, available_walker_couplings
from coupledgp.couplings.walkers.lengths import (
    AntitheticLengths,
    IidLengths,
    Lengths,
    SigmaLengths,
    StratifiedLengths,
    UniformSource,
)
from coupledgp.couplings.walkers.registry import WalkerCoupling
from coupledgp.couplings.walkers.steps import Steps, SystematicSteps
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.features import sample_walk_features, sample_walks
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_features import weights_of
from coupledgp.graphs.walk_lengths import lengths_of, task_of
from coupledgp.graphs.walk_visits import Store, Track, collect_sums, collect_visits
from coupledgp.ground import compiled
from coupledgp.ground.compiled import share_rows
from coupledgp.ground.counter import LengthUniforms
from coupledgp.random import FloatArray, IntArray
from tests.graph_cases import karate, weighted_graph

F = 0.8 ** np.arange(12)


class Doubled(LengthLaw):
    """A law with a way of its own to draw lengths: twice those of a geometric one."""

    def __repr__(self) -> str:
        return "Doubled()"

    def survival(self, max_length: int) -> FloatArray:
        return 0.5 ** np.ceil(np.arange(max_length + 1) / 2)

    def natural_length(self) -> int:
        return 40

    def lengths(self, u: FloatArray, max_length: int) -> IntArray:
        return np.minimum(2 * GeometricLaw(0.5).lengths(u, max_length), max_length)


class Reversed(IidLengths):
    """A joint law of a user's own that derives from a compiled one."""

    def sample(self, law: LengthLaw, max_length: int, uniforms: UniformSource) -> IntArray:
        return law.lengths(1.0 - uniforms(0), max_length)


class Plain(Steps):
    """Systematic steps that run through the plain engine."""

    def __repr__(self) -> str:
        return "Plain()"

    def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
        return SystematicSteps().choose(u, degree, weights)


LENGTHS = [
    IidLengths(),
    AntitheticLengths(),
    StratifiedLengths(),
    SigmaLengths(permutation=(3, 0, 2, 1)),
    Reversed(),
]


@pytest.mark.parametrize("law", [GeometricLaw(0.1), MatchedLaw(F), Doubled()], ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: type(lengths).__name__)
@pytest.mark.parametrize(("n_walks", "longest"), [(1, 5), (7, 0), (32, 30), (33, 9), (130, 300)])
def test_compiled_lengths_are_the_plain_ones(
    n_walks: int, longest: int, lengths: Lengths, law: LengthLaw
) -> None:
    rows = np.array([5, 0, 2**31, 5])
    expected = lengths.sample(law, longest, LengthUniforms(11, rows, n_walks))
    found = lengths_of(lengths, law, longest, 11, n_walks)(rows)
    np.testing.assert_array_equal(found, expected)


def filled(sizes: IntArray, n_threads: int, room: int) -> Track:
    """A track of rows (r, r, ..) of given sizes, whose blocks end in any order."""
    track = Track(sizes.size, room, np.int64, np.float64)
    store = Store(track)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            time.sleep(1e-3 * (first % 3))
            rows = np.repeat(np.arange(first, last), sizes[first:last])
            room_behind = np.append(rows, -1)
            store.add(first, [sizes[first:last]], [[room_behind, room_behind / 2]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_number_of_threads", lambda: n_threads)
        share_rows(work, sizes.size, 2, 5)
    return track


@pytest.mark.parametrize("room", [0, 10, 10_000])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_rows_stand_in_order_and_arrays_grow(n_threads: int, room: int) -> None:
    sizes = np.random.default_rng(0).integers(0, 6, 103)
    begins, numbers, halves = filled(sizes, n_threads, room).finish()
    np.testing.assert_array_equal(np.diff(begins), sizes)
    np.testing.assert_array_equal(numbers, np.repeat(np.arange(103), sizes))
    np.testing.assert_array_equal(halves, numbers / 2)
    assert not numbers.flags.writeable


def test_no_block_waits_for_one_that_failed() -> None:
    store = Store(Track(4, 4, np.int64))
    waiting = threading.Thread(target=store.add, args=(2, [np.ones(2, int)], [[np.ones(2, int)]]))
    waiting.start()
    store.end()
    waiting.join(timeout=10)
    assert not waiting.is_alive()


def test_errors_of_a_law_of_steps_arrive() -> None:
    class Broken(Plain):
        def choose(self, u: FloatArray, degree: int, weights: FloatArray | None) -> IntArray:
            raise ValueError("no choice")

    coupling = WalkerCoupling(IidLengths(), Broken())
    with pytest.raises(ValueError, match="no choice"):
        sample_walks(karate(), 4, coupling=coupling, generator=0)


@pytest.mark.parametrize(
    "coupling",
    [*available_walker_couplings(), WalkerCoupling(StratifiedLengths(), Plain())],
    ids=str,
)
@pytest.mark.parametrize("graph", [weighted_graph(), karate()], ids=repr)
def test_features_of_one_series_are_those_of_the_walks(
    graph: Graph, coupling: str | WalkerCoupling
) -> None:
    given = {"coupling": coupling, "length_law": "matched", "nodes": [3, 0, 3, 13], "generator": 4}
    walks = sample_walks(graph, 6, modulation=F, **given)
    expected = walks.features(F)
    found = sample_walk_features(graph, F, 6, **given)
    assert found.has_sorted_indices
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert np.shares_memory(expected.indices, walks.visits.nodes)


@given(
    st.sampled_from(available_walker_couplings()),
    st.lists(st.floats(-2, 2), min_size=1, max_size=9),
    st.integers(0, 2**63 - 1),
    st.integers(1, 300),
)
def test_sums_do_not_depend_on_blocks(
    coupling: str, f: list[float], seed: int, block_visits: int
) -> None:
    graph = weighted_graph()
    walks = sample_walks(graph, 5, 0.3, coupling, max_length=6, generator=seed)
    law = GeometricLaw(0.3)
    task = task_of(graph, walks.nodes, 5, walks.coupling, law, 6, walks.seed)
    weights = weights_of(graph, walks.nodes, 5, walks.survival, f)
    _, nodes, values = collect_sums(task, weights, block_visits)
    np.testing.assert_array_equal(nodes, walks.visits.nodes)
    np.testing.assert_array_equal(values, walks.features(f).data)


def test_walkers_that_halt_at_once_stay() -> None:
    still = sample_walk_features(karate(), F, 3, max_length=0, generator=0)
    np.testing.assert_array_equal(still.toarray(), np.eye(34))


def test_visits_take_six_bytes() -> None:
    walks = sample_walks(karate(), 16, 0.1, max_length=10, generator=0)
    assert walks.visits.entries.dtype == np.uint16
    assert walks.nbytes == 4 * walks.visits.nodes.size + 2 * walks.visits.steps.size + 16 * 35
    for array in walks.visits.arrays:
        assert not array.flags.writeable
    task = task_of(karate(), walks.nodes, 16, walks.coupling, GeometricLaw(0.1), 10, walks.seed)
    assert collect_visits(task).entries.base is None  # no more memory than it needs


def test_bad_arguments_of_features_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="modulation: expected coefficients or a graph"):
        sample_walk_features(karate(), "heat")
    with pytest.raises(InvalidInputError, match="n_walks"):
        sample_walk_features(karate(), F, 0)
    with pytest.raises(MemoryLimitError, match="n_walks <= "):
        sample_walk_features(karate(), F, 1000, memory_limit=1e5)
