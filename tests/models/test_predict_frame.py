"""Predictions as data frames are those of `predict` and `predict_interval`."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.errors import ExtrapolationWarning, InvalidInputError, MissingLibraryError

RNG = np.random.default_rng(6)
X = RNG.normal(size=(40, 2))
Y = np.column_stack([np.sin(X[:, 0]), 3 + 5 * X[:, 1]]) + 0.1 * RNG.normal(size=(40, 2))
NAMES = ["a", "b"]
NEW = pd.DataFrame(X[:7] * 0.9, columns=NAMES, index=pd.Index(list("tuvwxyz"), name="sample"))
MODELS = [
    cgp.ExactGPRegressor(optimizer=None),
    cgp.SparseSpectrumGPRegressor(n_frequencies=16, optimizer=None),
    cgp.ExactGPRegressor(optimizer=None, target_transform="yeo-johnson"),
]


def fitted(model, y):
    return model.fit(pd.DataFrame(X, columns=NAMES), y)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model)[:20])
def test_the_columns_are_the_law_and_the_index_is_that_of_the_rows(model):
    gp = fitted(model, Y[:, 0])
    found = gp.predict_frame(NEW, level=0.8)
    assert list(found.columns) == ["mean", "std", "lower", "upper"]
    pd.testing.assert_index_equal(found.index, NEW.index)
    expected = [*gp.predict(NEW, return_std=True), *gp.predict_interval(NEW, 0.8)]
    np.testing.assert_array_equal(found.to_numpy(), np.column_stack(expected))
    assert (gp.predict_frame(NEW)["upper"] > found["upper"]).all()


def test_several_outputs_have_two_levels():
    gp = fitted(MODELS[0], Y)
    found = gp.predict_frame(NEW)
    assert found.columns.names == ["output", "law"]
    low, high = gp.predict_interval(NEW)
    mean, std = gp.predict(NEW, return_std=True)
    for k in range(2):
        np.testing.assert_array_equal(
            found[k].to_numpy(), np.column_stack([mean, std, low, high])[:, k::2]
        )
    assert found[1]["mean"].mean() > found[0]["mean"].mean() + 1


@pytest.mark.parametrize("rows", [NEW.to_numpy(), NEW.to_numpy().tolist()])
def test_rows_without_an_index_are_counted(rows):
    gp = cgp.ExactGPRegressor(optimizer=None).fit(X, Y[:, 0])
    assert gp.predict_frame(rows).index.tolist() == list(range(7))


def test_it_warns_once_of_rows_far_from_the_data():
    gp = fitted(MODELS[0], Y[:, 0])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        gp.predict_frame(NEW + 50)
    assert [one.category for one in found] == [ExtrapolationWarning]


def test_counts_have_intervals_of_whole_numbers_for_their_exposure():
    counts = np.random.default_rng(3).poisson(np.exp(X[:, 0] + 2))
    gp = cgp.GPRegressor(likelihood="poisson", random_state=0).fit(X, counts)
    found = gp.predict_frame(X[:5], exposure=np.full(5, 4.0))
    low, high = gp.predict_interval(X[:5], exposure=np.full(5, 4.0))
    np.testing.assert_array_equal(found[["lower", "upper"]], np.column_stack([low, high]))
    assert (found["mean"] > gp.predict_frame(X[:5])["mean"]).all()


def test_what_is_wrong_is_named(monkeypatch):
    gp = cgp.ExactGPRegressor(optimizer=None).fit(X, Y[:, 0])
    with pytest.raises(InvalidInputError, match="level"):
        gp.predict_frame(X, level=1.5)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingLibraryError, match="predict and predict_interval do without"):
        gp.predict_frame(X)
