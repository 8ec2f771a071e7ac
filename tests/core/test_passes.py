"""A pass adds up parts one after the other, or in a tree of tasks, with one result."""

from itertools import pairwise

import numpy as np
import pytest

from coupledgp.core.passes import BRANCHES, PartwisePass, in_tree, of_part
from coupledgp.core.process import Data
from coupledgp.tables.batch_passes import RowsPass, Taken


class Text(str):
    """A text that merges in order."""

    def merge(self, other):
        return Text(self + other)


class Letters(PartwisePass):
    """Letters of parts, in order and without spaces; a part of spaces has none."""

    name = "letters"

    def of(self, part):
        return Text(part.strip()) if part.strip() else None

    def finish(self, found):
        return f"<{found}>"


class Tasks:
    """Calls functions at once and counts them."""

    def __init__(self):
        self.n_tasks = 0

    def __call__(self, function, *arguments):
        self.n_tasks += 1
        return function(*arguments)


@pytest.mark.parametrize("count", [1, 2, BRANCHES, BRANCHES + 1, 23])
def test_a_tree_has_the_result_of_one_part_after_the_other(count):
    parts = [" " if k % 5 == 3 else f" {chr(97 + k)}" for k in range(count)]
    sums, call = Letters(), Tasks()
    found = sums.start()
    for part in parts:
        found = sums.add(found, part)
    assert sums.finish(found) == f"<{''.join(parts).replace(' ', '')}>"
    assert in_tree(call, Letters.merge, [of_part(part, sums) for part in parts]) == found


def test_parts_without_rows_have_no_result():
    sums = Letters()
    assert sums.start() is None
    assert Letters.merge(None, None) is None
    assert sums.add(Text("a"), "  ") == "a"


@pytest.mark.parametrize("rows", [[0], [6, 7], [0, 3, 4, 9, 10], list(range(11))])
def test_rows_by_number_come_from_whatever_parts_the_table_has(rows):
    X = np.arange(22.0).reshape(11, 2)
    wanted, cuts = np.array(rows), [0, 4, 5, 10, 11]
    parts = [Data.of(X[a:b], X[a:b, :1]) for a, b in pairwise(cuts)]
    sums = RowsPass(wanted)
    found = sums.start()
    for part in parts:
        found = sums.add(found, part)
    assert found.n_seen == 11
    np.testing.assert_array_equal(sums.finish(found).points, X[wanted])
    first, second = (of_part(part, RowsPass(np.arange(len(part)))) for part in parts[:2])
    both = RowsPass.merge(first, second)
    assert isinstance(both, Taken)
    assert both.n_seen == 5
    np.testing.assert_array_equal(sums.finish(both).points, X[:5])
