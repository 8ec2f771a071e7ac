"""Small laws that processes share: digests of rows, slopes of transformed targets."""

import numpy as np
import pytest

from coupledgp.core.digests import RowDigests
from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.transformed import log_jacobian
from coupledgp.core.transforms import Log


class TestDigests:
    X, Y = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[5.0], [6.0]])

    def test_rows_and_their_targets_are_found(self):
        known = RowDigests.of(self.X, self.Y)
        queries = np.array([[-0.0, 1.0], [2.0, 3.0], [2.0, 4.0]])
        targets = np.array([[5.0], [7.0], [6.0]])
        same_inputs, same_targets = known.found(queries, targets)
        assert same_inputs.tolist() == [True, True, False]
        assert same_targets.tolist() == [True, False, False]
        assert known.found(queries, None)[1].tolist() == [True, True, False]

    def test_no_part_of_a_digest_is_known_without_the_salt(self):
        """Neither the bytes of the inputs, nor those of the targets, are those of another salt."""
        numbers = np.arange(300.0)[:, None]
        digests = [RowDigests.of(numbers, numbers, bytes([salt]) * 16).values for salt in (1, 2)]
        for shift, mask in ((16, 2**48 - 1), (0, 2**16 - 1)):
            first, second = (
                set(((one >> np.uint64(shift)) & np.uint64(mask)).tolist()) for one in digests
            )
            # Of 300 numbers of 16 bits one or two agree by chance.
            assert len(first & second) < 10
        assert len(set(digests[0].tolist())) == 300

    def test_the_same_rows_have_the_same_salt(self):
        one, other = (RowDigests.of(self.X, self.Y) for _ in range(2))
        assert one.salt == other.salt
        assert RowDigests.of(self.X, self.Y + 1).salt != one.salt


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_slope_of_a_row_counts_as_often_as_the_row(n_outputs):
    y = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 0.5]])[:, :n_outputs]
    counts = np.array([1.0, 3.0, 2.0])
    transforms = [Log(), Log(1.0)][:n_outputs]
    counted = Data.of(np.zeros((3, 1)), y, weights=RowWeights(np.ones(3), counts))
    repeated = Data.of(np.zeros((6, 1)), np.repeat(y, counts.astype(int), axis=0))
    expected = sum(
        -(counts @ np.log(y[:, k] + shift)) for k, shift in enumerate([0.0, 1.0][:n_outputs])
    )
    for data in (counted, repeated):
        assert log_jacobian(data, transforms) == pytest.approx(expected, rel=1e-12)
