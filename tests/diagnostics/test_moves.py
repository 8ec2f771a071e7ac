"""How far values of other rows move predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.tables.column_moves import EXCHANGED, ColumnMoves

RNG = np.random.default_rng(3)


def moves_of(model):
    return ColumnMoves.of(model.process_, model.fitted_.columns)


@pytest.fixture(scope="module")
def linear():
    X = RNG.normal(size=(50, 3))
    y = 3 * X[:, 0] - X[:, 2]
    return X, cgp.ExactGPRegressor(random_state=0).fit(X, y)


def test_moves_are_those_of_a_linear_function(linear):
    X, model = linear
    found = moves_of(model)
    rows = X[np.random.default_rng(0).permutation(50)]
    apart = np.sqrt(np.mean((rows - np.roll(rows, 50 // 3, axis=0)) ** 2, axis=0))
    assert found.names == ("x0", "x2", "x1")
    assert found.mean == pytest.approx([3 * apart[0], apart[2], 0.0], abs=0.02)


def test_an_error_is_that_of_the_root_of_a_mean_of_squares(linear):
    X, model = linear
    rows = X[np.random.default_rng(0).permutation(50)]
    squares = (3 * (rows[:, 0] - np.roll(rows[:, 0], 50 // 3))) ** 2
    expected = squares.std() / np.sqrt(50) / (2 * np.sqrt(squares.mean()))
    assert moves_of(model).error[0] == pytest.approx(expected, rel=0.02)


def test_all_codes_of_a_category_move_together():
    X = pd.DataFrame({"level": RNG.choice(list("abcd"), 90), "x": RNG.normal(size=90)})
    y = X["level"].map({"a": 0.0, "b": 3.0, "c": 6.0, "d": 9.0})
    model = cgp.ExactGPRegressor(random_state=0, missing="indicator").fit(X, y)
    found = moves_of(model)
    assert found.names == ("level", "x")
    rows = y.to_numpy()[np.random.default_rng(0).permutation(90)[:EXCHANGED]]
    apart = np.sqrt(np.mean((rows - np.roll(rows, EXCHANGED // 3)) ** 2))
    assert found.mean[0] == pytest.approx(apart, rel=0.05)


def test_a_constant_hangs_on_nothing():
    X = RNG.normal(size=(30, 2))
    model = cgp.ExactGPRegressor(random_state=0, optimizer=None).fit(X, RNG.normal(size=30))
    found = moves_of(model)
    none = ColumnMoves(found.names, np.zeros(2), np.zeros(2))
    assert none.text() == "Predictions hang on no column."
    assert found.text().startswith("Predictions hang most on ")


def test_bars_have_the_moves_in_order(linear):
    _, model = linear
    found = moves_of(model)
    bars = found.plot().patches
    assert [one.get_width() for one in bars] == found.mean.tolist()
    heights = [one.get_y() for one in bars]
    assert heights == sorted(heights, reverse=True)
