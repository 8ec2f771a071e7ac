"""Where a table has rows: distances from them by a plain reference, joined, in a file."""

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.core.column_moments import ColumnMoments, column_spread
from coupledgp.core.seen import MOST_DISTANT, Seen
from coupledgp.errors import ModelFileError
from coupledgp.ground.codec import decoded, encoded

SEEDS = range(6)


def table(seed, n=40):
    """Columns with gaps, a level of one row, a constant, and one of two values."""
    rng = np.random.default_rng(seed)
    rare = np.zeros(n)
    rare[rng.integers(n)] = 10.0 ** rng.integers(-6, 6)
    parts = np.where(rng.random(n) < 0.5, 0.0, 5.0) + rng.random(n)
    constant = np.full(n, rng.normal() * 10.0 ** rng.integers(-9, 9))
    X = np.column_stack([rng.normal(size=n), parts, rare, constant, rng.integers(0, 2, n)])
    return X, rng.normal(size=(n, 2)), rng


def distances(seen, points, lengthscale):
    """Distances in lengthscales, of a table whose columns are numbers."""
    return seen.distances(points, seen.scale(lengthscale, points.shape[1]))


def plain_distances(X, points, lengthscale):
    """Each column by itself, by a loop over its sorted values."""
    found = np.zeros(points.shape)
    for j in range(X.shape[1]):
        values = np.unique(X[:, j])
        span = values[-1] - values[0]
        scale = min(lengthscale[j], 0.5 * np.sqrt(X.shape[1]) * span)
        scale = min(scale, span / 3) if len(values) == 2 else scale
        for i, x in enumerate(points[:, j]):
            place = np.searchsorted(values, x)
            before, after = values[max(place - 1, 0)], values[min(place, len(values) - 1)]
            inside = values[0] <= x <= values[-1]
            if inside and after - before <= 0.125 * span:
                continue
            gap = np.abs(values - x).min()
            found[i, j] = gap / scale if span else np.inf if gap else 0.0
    return np.minimum(found.max(axis=1), MOST_DISTANT)


@pytest.mark.parametrize("seed", SEEDS)
def test_distances_are_those_of_a_plain_reference(seed):
    X, y, rng = table(seed)
    lengthscale = X.std(axis=0) * rng.uniform(0.1, 3, X.shape[1]) + 1e-3
    moves = np.ptp(X, axis=0) * rng.normal(size=(60, X.shape[1]))
    points = X[rng.integers(len(X), size=60)] + (rng.random(moves.shape) < 0.2) * moves
    seen = Seen.of(X, y)
    found = distances(seen, points, lengthscale)
    np.testing.assert_allclose(found, plain_distances(X, points, lengthscale), rtol=1e-9)
    assert not distances(seen, X, lengthscale).any()
    assert (found > 2).any()
    # In other units, and in any parts, they are the same.
    scale, shift = 10.0 ** rng.integers(-5, 5, X.shape[1]), 7.0
    moved = Seen.of(X[:, :3] * scale[:3] + shift, y)
    mine = Seen.of(X[:, :3], y)
    np.testing.assert_allclose(
        distances(moved, points[:, :3] * scale[:3] + shift, lengthscale[:3] * scale[:3]),
        distances(mine, points[:, :3], lengthscale[:3]), rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    for cut in (1, 13, 39):
        joined = Seen.of(X[cut:], y[cut:]).joined(Seen.of(X[:cut], y[:cut]))
        for name, value in vars(seen).items():
            np.testing.assert_array_equal(getattr(joined, name), value)


def test_the_furthest_column_is_named():
    X, y, _ = table(0)
    seen = Seen.of(X, y)
    points = np.tile(X[:1], (3, 1))
    points[0, 3] += 1.0
    points[1, 0] = X[:, 0].max() + 100
    lengthscale = np.maximum(X.std(axis=0), 1e-3)
    assert seen.furthest(points, seen.scale(lengthscale, 5))[:2].tolist() == [3, 0]
    assert distances(seen, points, lengthscale)[0] == MOST_DISTANT
    # Codes of a category are many columns, of a table of five: a constant of it stays one.
    codes = np.repeat(np.eye(40), 3, axis=1)
    seen = Seen.of(np.hstack([codes, X[:, 3:]]), y)
    further = np.hstack([codes[:3], points[:, 3:]])
    scale = seen.scale(np.ones(122), 5)
    assert seen.distances(further, scale).tolist() == [MOST_DISTANT, 0.0, 0.0]
    assert not seen.distances(further[1:], seen.scale(np.ones(122), 122)).any()


def test_other_values_than_those_of_a_column_of_two_are_far():
    X = np.column_stack([np.arange(8.0), np.arange(8) % 2])
    seen = Seen.of(X, X[:, :1])
    points = np.column_stack([np.full(5, 3.0), [-1.0, 0.0, 0.5, 1.0, 2.0]])
    np.testing.assert_allclose(distances(seen, points, np.full(2, 9.0)), [3, 0, 1.5, 0, 3])
    # Counts of words are 0 and 1 in most columns of wide tables, and seldom more.
    assert seen.distances(points, seen.scale(np.full(2, 9.0), 200)).max() < 1.5


def test_a_mean_is_far_beyond_three_ranges():
    y = np.array([[1.0, 5.0], [3.0, 5.0]])
    seen = Seen.of(np.zeros((2, 1)), y)
    means = np.array([[8.9, 5.0], [9.1, 5.0], [-4.9, 5.0], [-5.1, 5.0], [2.0, 5.001]])
    assert seen.is_far(means).tolist() == [False, True, False, True, True]


def test_wide_tables_keep_ranges_alone():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 1200)) < 0.05, 1.0, 0.0)
    seen = Seen.of(X, X[:, :1])
    assert not len(seen.gaps)
    assert not (distances(seen, 1.0 - X, np.full(1200, 30.0)) > 1).any()


def test_files_hold_it_and_others_are_refused():
    X, y, _ = table(1)
    seen = Seen.of(X, y)
    again = decoded(encoded(seen))
    for name, value in vars(seen).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    assert len(seen.gaps) >= 2
    for name, value in {
        "low": seen.high + 1, "y_low": seen.y_high + 1, "gaps": seen.gaps[:, ::-1],
        "columns": seen.columns[::-1] + 9, "high": seen.high[:4],
    }.items():  # fmt: skip
        with pytest.raises(ModelFileError, match="seen"):
            decoded(encoded(replace(seen, **{name: value.copy()})))
    moments = (ColumnMoments.of(values) for values in (X, y))
    np.testing.assert_array_equal(Seen.of_moments(*moments).high, seen.high)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_number_of_equal_values_is_a_spread(seed):
    """Whatever rounding makes of the mean of so many equal numbers."""
    rng = np.random.default_rng(seed)
    for n in (9, 180, 4097, 70_000):
        value = rng.normal() * 10.0 ** rng.integers(-30, 30)
        X = np.column_stack([np.full(n, value), np.full(n, 0.1), rng.normal(size=n)])
        groups, counts = np.array([0, 0, 1]), rng.uniform(0.5, 3, n)
        for found in (
            column_spread(X, True), column_spread(X, True, groups),
            column_spread(X, True, groups, counts),
        ):  # fmt: skip
            assert (found[:2] == 1.0).all()
            assert 0.5 < found[2] < 2
        pooled = column_spread(X, False)
        np.testing.assert_allclose(pooled, X[:, 2].std() / np.sqrt(3))
