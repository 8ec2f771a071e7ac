"""Baselines of tables, and of rows left out in groups, against plain refits."""

import numpy as np
import pytest

from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals import near
from coupledgp.diagnostics.rivals.near import RowFinder
from coupledgp.diagnostics.rivals.observed import Observations
from coupledgp.diagnostics.rivals.rows import LinearFit, table_kind
from tests.diagnostics.rivals.cases import left_out, predicted


def table(n=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 10.0, 0.1][:d]
    return X, np.column_stack([X[:, 0] + rng.normal(size=n), 50 + rng.normal(size=n)])


def others_error(y, mean, groups):
    """Root mean squared error over all other groups, group by group."""
    squares = (y - mean) ** 2
    return np.array([np.sqrt(squares[groups != g].mean(axis=0)) for g in groups])


@pytest.mark.parametrize("kind", ["single", "groups", "pairs and singles"])
def test_leaving_out_groups_is_refitting_without_them(kind):
    X, y = table()
    groups = {
        "single": np.arange(30) * 7,
        "groups": np.random.default_rng(1).integers(-2, 3, 30),
        "pairs and singles": np.r_[np.repeat(np.arange(5), 2), 10 + np.arange(20)],
    }[kind]
    found = left_out(table_kind(X, y), np.unique(groups, return_inverse=True)[1])
    for i in range(30):
        rest = groups != groups[i]
        np.testing.assert_allclose(found["mean"].mean[i], y[rest].mean(axis=0), rtol=1e-12)
        std = y[rest].std(axis=0, ddof=1) * np.sqrt(1 + 1 / rest.sum())
        np.testing.assert_allclose(found["mean"].std[i], std, rtol=1e-9)
        refit = predicted(table_kind(X[rest], y[rest]), X[i : i + 1])
        np.testing.assert_allclose(found["linear"].mean[i], refit["linear"].mean[0])
        scaled = (X - X.mean(axis=0)) / X.std(axis=0)
        distance = np.linalg.norm(scaled[rest] - scaled[i], axis=1)
        np.testing.assert_array_equal(found["nearest"].mean[i], y[rest][distance.argmin()])
    for name in ("nearest", "linear"):
        one = found[name]
        np.testing.assert_allclose(one.std, others_error(y, one.mean, groups), rtol=1e-9)


def test_counts_are_repeated_rows():
    X, y = table()
    counts = np.random.default_rng(2).integers(1, 4, 30)
    rows = np.repeat(np.arange(30), counts)
    weights = RowWeights(np.ones(30), counts.astype(float))
    counted = predicted(table_kind(X, y, weights), X[:5] + 0.1)
    repeated = predicted(table_kind(X[rows], y[rows]), X[:5] + 0.1)
    for name in ("mean", "linear"):
        np.testing.assert_allclose(counted[name].mean, repeated[name].mean)
        np.testing.assert_allclose(counted[name].std, repeated[name].std)
    groups = np.arange(30) % 6
    counted = left_out(table_kind(X, y, weights), groups)
    repeated = left_out(table_kind(X[rows], y[rows]), groups[rows])
    for name in ("mean", "linear"):
        np.testing.assert_allclose(counted[name].mean[rows], repeated[name].mean)
        np.testing.assert_allclose(counted[name].std[rows], repeated[name].std)


def test_sure_observations_weigh_more():
    X, y = table()
    noise = np.where(np.arange(30) < 3, 1e-6, 1.0)
    found = predicted(table_kind(X, y, RowWeights(noise, np.ones(30))), X)
    np.testing.assert_allclose(found["mean"].mean[0], y[:3].mean(axis=0), atol=1e-4)
    weighted = np.linalg.lstsq(
        np.column_stack([np.ones(30), X]) / np.sqrt(noise)[:, None],
        y / np.sqrt(noise)[:, None],
        rcond=None,
    )[0]
    np.testing.assert_allclose(found["linear"].mean, np.c_[np.ones(30), X] @ weighted, rtol=1e-6)


def test_a_group_that_alone_tells_a_column_is_fitted_without():
    X, y = table()
    X[:, 2] = 0
    X[:2, 2] = [1.0, 2.0]
    groups = np.r_[0, 0, np.arange(1, 29)]
    found = left_out(table_kind(X, y), np.unique(groups, return_inverse=True)[1])["linear"]
    plain = np.linalg.lstsq(np.c_[np.ones(28), X[2:, :2]], y[2:], rcond=None)[0]
    slope = found.mean[:2] - np.c_[np.ones(2), X[:2, :2]] @ plain
    assert np.isfinite(slope).all()
    fit = LinearFit(np.arange(6.0)[:, None], Observations.of(np.arange(6.0)[:, None], np.arange(6)))
    exact = fit.left_out(np.arange(6))
    np.testing.assert_allclose(exact.mean[:, 0], np.arange(6.0), atol=1e-12)


@pytest.mark.parametrize("n_groups", [2, 5, 40])
def test_nearest_of_other_groups_by_bits(n_groups, monkeypatch):
    """Without the first guesses, and with fewer candidates than a group has members."""
    rng = np.random.default_rng(3)
    rows, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 1))
    groups = rng.integers(0, n_groups, 60)
    groups[:n_groups] = np.arange(n_groups)
    rows[groups == 0] *= 0.01  # all near neighbours are of the same group
    data = Observations.of(y, np.arange(60))
    results = []
    for candidates in (1, 8):
        monkeypatch.setattr(near, "CANDIDATES", candidates)
        results.append(near._left_out(data, RowFinder(rows), groups).mean)
    for i, group in enumerate(groups):
        rest = np.flatnonzero(groups != group)
        expected = y[rest[np.linalg.norm(rows[rest] - rows[i], axis=1).argmin()]]
        assert results[0][i] == results[1][i] == expected


@pytest.mark.parametrize("y", [np.arange(6.0), np.zeros(6), np.full(6, -1e9)])
@pytest.mark.parametrize(
    "X",
    [
        np.ones((6, 2)),
        np.column_stack([np.arange(6.0), np.full(6, 3.0)]),
        np.column_stack([np.arange(6.0), 2 * np.arange(6.0)]),
        np.repeat([[1.0, 2.0], [3.0, 1.0]], 3, axis=0),
        np.array([[1e300], [0.0], [1.0], [2.0], [3.0], [4.0]]) * 1e-150,
        np.zeros((6, 0)),
        np.random.default_rng(0).normal(size=(6, 12)),
    ],
)
def test_tables_with_little_in_them(X, y):
    kind = table_kind(X, y[:, None])
    groups = np.arange(6), (np.arange(6) % 2 == 0).astype(int)
    for found in (predicted(kind, X[:1]), *(left_out(kind, one) for one in groups)):
        assert next(iter(found)) == "mean"
        for one in found.values():
            assert np.isfinite(one.mean).all()
            assert (one.std > 0).all()


def test_one_row_tells_no_error():
    kind = table_kind(np.ones((1, 2)), np.ones((1, 1)))
    (found,) = predicted(kind, np.zeros((4, 2))).values()
    assert found.mean.tolist() == [[1.0]] * 4
    assert found.std is None
    two = left_out(table_kind(np.arange(2.0)[:, None], np.arange(2.0)[:, None]), np.arange(2))
    assert two["mean"].std is None
    np.testing.assert_allclose(two["nearest"].std, 1.0)
