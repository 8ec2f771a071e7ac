"""Baselines of tables, and of rows left out in groups, against plain refits."""

import numpy as np
import pytest

from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals import nearest, tables
from coupledgp.diagnostics.rivals.nearest import RowFinder
from coupledgp.diagnostics.rivals.observations import Observations
from coupledgp.diagnostics.rivals.tables import LinearFit, TableRivals
from coupledgp.errors import InvalidInputError


def table(n=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 10.0, 0.1][:d]
    return X, np.column_stack([X[:, 0] + rng.normal(size=n), 50 + rng.normal(size=n)])


def by_name(found):
    return {one.name: one for one in found}


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
    found = by_name(TableRivals.of(X, y).left_out(groups))
    for i in range(30):
        rest = groups != groups[i]
        np.testing.assert_allclose(found["mean"].mean[i], y[rest].mean(axis=0), rtol=1e-12)
        std = y[rest].std(axis=0, ddof=1) * np.sqrt(1 + 1 / rest.sum())
        np.testing.assert_allclose(found["mean"].std[i], std, rtol=1e-9)
        refit = TableRivals.of(X[rest], y[rest]).predict(X[i : i + 1])
        np.testing.assert_allclose(found["linear"].mean[i], by_name(refit)["linear"].mean[0])
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
    counted = by_name(TableRivals.of(X, y, weights).predict(X[:5] + 0.1))
    repeated = by_name(TableRivals.of(X[rows], y[rows]).predict(X[:5] + 0.1))
    for name in ("mean", "linear"):
        np.testing.assert_allclose(counted[name].mean, repeated[name].mean)
        np.testing.assert_allclose(counted[name].std, repeated[name].std)
    groups = np.arange(30) % 6
    counted = by_name(TableRivals.of(X, y, weights).left_out(groups))
    repeated = by_name(TableRivals.of(X[rows], y[rows]).left_out(groups[rows]))
    for name in ("mean", "linear"):
        np.testing.assert_allclose(counted[name].mean[rows], repeated[name].mean)
        np.testing.assert_allclose(counted[name].std[rows], repeated[name].std)


def test_sure_observations_weigh_more():
    X, y = table()
    noise = np.where(np.arange(30) < 3, 1e-6, 1.0)
    found = by_name(TableRivals.of(X, y, RowWeights(noise, np.ones(30))).predict(X))
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
    found = by_name(TableRivals.of(X, y).left_out(groups))["linear"]
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
        monkeypatch.setattr(nearest, "CANDIDATES", candidates)
        results.append(nearest.left_out_by_nearest(data, RowFinder(rows), groups).mean)
    for i, group in enumerate(groups):
        rest = np.flatnonzero(groups != group)
        expected = y[rest[np.linalg.norm(rows[rest] - rows[i], axis=1).argmin()]]
        assert results[0][i] == results[1][i] == expected


@pytest.mark.long
def test_large_tables_are_thinned(monkeypatch):
    X, y = table(2000)
    whole = by_name(TableRivals.of(X, y).predict(X[:50] + 0.01))
    monkeypatch.setattr(nearest, "MOST_WORK", 1.0)
    monkeypatch.setattr(tables, "MOST_ENTRIES", 4000)
    rivals = TableRivals.of(X, y)
    thinned = by_name(rivals.predict(X[:50] + 0.01))
    np.testing.assert_array_equal(whole["mean"].mean, thinned["mean"].mean)
    np.testing.assert_allclose(whole["linear"].mean, thinned["linear"].mean, atol=0.3)
    np.testing.assert_allclose(whole["nearest"].std, thinned["nearest"].std, rtol=0.2)
    left_out = rivals.left_out(np.arange(2000) % 3)
    assert "2000 rows of 3 columns take too much memory" in left_out.left_out["linear"]
    np.testing.assert_allclose(
        by_name(left_out)["nearest"].std[0], whole["nearest"].std[0], rtol=0.2
    )


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
    rivals = TableRivals.of(X, y[:, None])
    groups = np.arange(6), np.arange(6) % 2 == 0
    for found in (rivals.predict(X[:1]), *(rivals.left_out(one) for one in groups)):
        assert found[0].name == "mean"
        for one in found:
            assert np.isfinite(one.mean).all()
            assert (one.std > 0).all()
        assert len(found) + len(found.left_out) == 6


def test_one_row_and_one_group():
    rivals = TableRivals.of(np.ones((1, 2)), np.ones((1, 1)))
    found = rivals.predict(np.zeros((4, 2)))
    assert found[0].mean.tolist() == [[1.0]] * 4
    assert not found.with_laws()
    assert "too few observations" in found.with_laws().left_out["mean"]
    with pytest.raises(InvalidInputError, match="two groups at least"):
        rivals.left_out(np.zeros(1, dtype=int))
    with pytest.raises(InvalidInputError, match="groups: expected 30 whole numbers"):
        TableRivals.of(*table()).left_out(np.zeros(30))
    two = TableRivals.of(np.arange(2.0)[:, None], np.arange(2.0)[:, None])
    found = two.left_out(np.arange(2))
    assert by_name(found)["mean"].std is None
    np.testing.assert_allclose(by_name(found)["nearest"].std, 1.0)
