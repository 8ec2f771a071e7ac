"""Inverses of Toeplitz blocks against dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz

from coupledgp.inference.space_time.toeplitz import (
    Blocks,
    applied_inverses,
    diagonals_of,
    first_columns,
)

LENGTHS = np.array([1, 2, 3, 17, 60, 17])
SENSORS = np.array([0, 1, 0, 1, 1, 0])
LAGS = np.arange(60.0)
SYMBOLS = np.stack([np.exp(-LAGS / 5) + 0.2 * (LAGS == 0), 0.5**LAGS * np.cos(LAGS / 3) + 0.0])


@pytest.fixture(scope="module")
def blocks():
    starts = np.concatenate([[0], np.cumsum(LENGTHS)])
    columns = np.empty(starts[-1])
    assert first_columns(SYMBOLS, SENSORS, LENGTHS, starts[:-1], columns) == -1
    scales = np.random.default_rng(0).uniform(0.5, 2.0, columns.size)
    return Blocks(columns, starts[:-1], starts[:-1], LENGTHS, scales)


def dense(blocks):
    """The inverses of all blocks as one matrix."""
    out = np.zeros((blocks.scales.size,) * 2)
    for sensor, start, size in zip(SENSORS, blocks.starts, LENGTHS, strict=True):
        part = slice(start, start + size)
        out[part, part] = np.linalg.inv(toeplitz(SYMBOLS[sensor, :size]))
    return out / blocks.scales[:, None] / blocks.scales


def test_products_and_diagonals_are_those_of_dense_inverses(blocks):
    expected = dense(blocks)
    V = np.random.default_rng(1).normal(size=(3, blocks.scales.size))
    np.testing.assert_allclose(applied_inverses(blocks, V), V @ expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(diagonals_of(blocks), expected.diagonal(), rtol=1e-9)


def test_runs_of_one_sensor_and_length_may_share_a_column(blocks):
    twice = Blocks(
        blocks.columns, np.append(blocks.column_starts, blocks.column_starts[4]),
        np.append(blocks.starts, blocks.scales.size), np.append(LENGTHS, LENGTHS[4]),
        np.append(blocks.scales, np.ones(LENGTHS[4])),
    )  # fmt: skip
    V = np.random.default_rng(2).normal(size=(1, twice.scales.size))
    found = applied_inverses(twice, V)[0, -LENGTHS[4] :]
    expected = np.linalg.solve(toeplitz(SYMBOLS[1]), V[0, -LENGTHS[4] :])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_block_that_is_not_positive_definite_is_named():
    symbols = np.array([[1.0, 0.5, 0.2], [1.0, 0.9, -0.9]])
    lengths, sensors = np.array([3, 3]), np.array([0, 1])
    columns = np.empty(6)
    assert first_columns(symbols, sensors, lengths, np.array([0, 3]), columns) == 1


def test_there_may_be_no_runs():
    none = np.empty(0, dtype=np.int64)
    empty = Blocks(np.empty(0), none, none, none, np.empty(0))
    assert applied_inverses(empty, np.empty((2, 0))).shape == (2, 0)
    assert diagonals_of(empty).shape == (0,)
