"""Batches of a table give the same rows in every pass."""

import numpy as np
import pytest

from coupledgp.core.passes import BatchSource, rows_of_batch
from coupledgp.errors import InvalidInputError


def test_batches_of_wide_tables_have_fewer_rows():
    assert rows_of_batch(8) == 65536
    assert rows_of_batch(4096) == 1024
    assert rows_of_batch(10**7) == 256


def test_a_function_has_to_return_batches():
    with pytest.raises(InvalidInputError, match=r"batches: .* got one that returns NoneType"):
        list(BatchSource(lambda: None))


def test_what_ends_after_one_pass_is_refused():
    pair = np.zeros((2, 1)), np.zeros(2)
    for once in ((pair for _ in range(3)), iter([pair]), map(tuple, [pair])):
        with pytest.raises(InvalidInputError, match="can be started again"):
            BatchSource(once)
    for again in ([pair], lambda: (pair for _ in range(1)), lambda: [pair]):
        source = BatchSource(again)
        assert len(list(source)) == len(list(source)) == 1
    for wrong in (3, None, "rows.csv"):
        with pytest.raises(InvalidInputError, match="batches: expected a function"):
            BatchSource(wrong)
    with pytest.raises(InvalidInputError, match="batch 2: expected a tuple"):
        list(BatchSource([pair, pair[0]]))
