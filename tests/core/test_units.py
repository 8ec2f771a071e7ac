"""Units of targets: which spread is a scale, and which is rounding; moments of columns."""

import numpy as np
import pytest

from coupledgp.core.column_moments import ColumnMoments
from coupledgp.core.units import CONSTANT_SCALE, Units, are_constant

EPS = float(np.finfo(float).eps)


@pytest.mark.parametrize("mean", [0.1, -7.0, 1e12])
@pytest.mark.parametrize("counts", [None, np.ones(12)])
def test_a_spread_of_rounding_is_no_scale(mean, counts):
    """Targets that differ in their last digit are constant; forty times more is a spread."""
    signs = np.array([1.0, -1.0] * 6)[:, None]
    rounded = mean + signs * np.spacing(mean)
    assert np.ptp(rounded) > 0
    constant = Units.of(rounded, True, counts).scale / abs(mean)
    assert 1e-9 < constant < 1e-7  # the same share in every unit
    assert are_constant(rounded, rounded.mean(axis=0))
    spread = mean * (1 + 40 * EPS * signs)
    found = Units.of(spread, True, counts)
    assert found.scale == pytest.approx(spread.std(), rel=1e-6)
    assert found.scale < 1e-13 * abs(mean)
    assert not are_constant(spread, spread.mean(axis=0))


def test_targets_are_constant_if_every_output_is():
    outputs = np.column_stack([np.full(12, 3.0), np.repeat(np.arange(6.0), 2)])
    assert not are_constant(outputs, outputs.mean(axis=0))
    assert are_constant(outputs[:, :1], outputs[:, :1].mean(axis=0))
    np.testing.assert_allclose(
        Units.of(outputs, True).scale, [3 * CONSTANT_SCALE, np.sqrt(35 / 12)]
    )
    # Few equal ones are no constant.
    np.testing.assert_allclose(Units.of(outputs[:1], True).scale, [1.0, 1.0])
    np.testing.assert_allclose(Units.of(outputs[:4], True).scale, [1.0, 0.5])
    assert are_constant(outputs[:, :1])
    assert not are_constant(outputs[:, :1], np.zeros(1))  # five of three, not five of nothing


def test_rows_count_as_often_as_they_say():
    targets, counts = np.array([[0.0], [1.0], [5.0]]), np.array([2.0, 3.0, 1.0])
    repeated = np.repeat(targets, counts.astype(int), axis=0)
    found = Units.of(targets, True, counts)
    np.testing.assert_allclose(found.offset, repeated.mean(axis=0))
    np.testing.assert_allclose(found.scale, repeated.std(axis=0))


def test_there_and_back():
    units = Units(np.array([3.0, -1.0]), np.array([2.0, 0.5]))
    values = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(units.mean(units.normalized(values)), values)
    np.testing.assert_allclose(units.spread(3.0), [12.0, 0.75])
    draws = units.samples(np.ones((3, 2, 4)))
    np.testing.assert_allclose(draws, np.broadcast_to([[5.0], [-0.5]], (3, 2, 4)))
    assert units.log_jacobian(7) == pytest.approx(7 * np.log(2.0 * 0.5))


def test_moments_of_columns_are_those_of_rows_as_often_as_they_count():
    rng = np.random.default_rng(7)
    values, counts = rng.normal(3.0, [0.5, 20.0], (40, 2)), rng.integers(1, 5, 40)
    rows = np.repeat(values, counts, axis=0)
    for found in (
        ColumnMoments.of(values, counts.astype(float)),
        ColumnMoments.of(rows),
        ColumnMoments.of(rows[:9]).merge(ColumnMoments.of(rows[9:])),
    ):
        assert found.n_counted == len(rows)
        np.testing.assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found.variance, rows.var(axis=0), rtol=1e-12)
        np.testing.assert_array_equal([found.low, found.high], [rows.min(axis=0), rows.max(axis=0)])
