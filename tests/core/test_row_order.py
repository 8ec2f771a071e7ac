"""The first rows of a random order are those of the whole order, without it."""

import tracemalloc

import numpy as np
import pytest

from coupledgp.core.starts import first_rows


@pytest.mark.parametrize(
    ("n_rows", "size"),
    [(300_000, 5000), (70_001, 3000), (65_537, 10), (65_536, 65_536), (131_073, 70_000), (9, 20)],
)
@pytest.mark.parametrize("drawn_before", [2, 3])
def test_they_are_those_of_the_whole_order(n_rows, size, drawn_before):
    one, other = np.random.default_rng(4), np.random.default_rng(4)
    for rng in (one, other):  # an odd number leaves half of 64 bits to be used
        rng.integers(5, size=drawn_before, dtype=np.uint32)
    expected = one.permutation(n_rows)[:size]
    np.testing.assert_array_equal(first_rows(other, n_rows, size, whole_rows=0), expected)
    assert one.standard_normal() == other.standard_normal()


@pytest.mark.long
def test_memory_does_not_grow_with_the_rows():
    tracemalloc.start()
    first_rows(np.random.default_rng(0), 1_000_000, 1000, whole_rows=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 7_500_000  # the whole order takes 8 MB, and its shuffle as much again


def test_another_generator_orders_the_whole():
    one, other = (np.random.Generator(np.random.Philox(3)) for _ in range(2))
    np.testing.assert_array_equal(
        first_rows(other, 5000, 70, whole_rows=0), one.permutation(5000)[:70]
    )
