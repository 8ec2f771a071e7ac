"""The encoding of tables as a transformer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

import coupledgp as cgp


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("missing", ["raise", "indicator"])
def test_check_estimator(missing):
    results = check_estimator(cgp.TableEncoder(missing), on_fail=None)
    troubles = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not troubles
    assert len([r for r in results if r["status"] == "passed"]) > 30


def test_names_of_the_columns():
    table = pd.DataFrame({
        "x": [1.0, None, 3.0], "s": ["a", None, "a"], "k": [1, 2, 3],
        "t": pd.to_datetime(["2020-01-01", "2020-01-13", None]),
    })  # fmt: skip
    encoder = cgp.TableEncoder(missing="indicator").set_output(transform="pandas")
    frame = encoder.fit_transform(table)
    assert list(frame) == ["x", "x missing", "s=a", "s missing", "k", "t", "t missing"]
    np.testing.assert_array_equal(frame["k"], [1, 2, 3])
    np.testing.assert_array_equal(encoder.transform(table), frame)
    week = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=20, freq="D")})
    names = cgp.TableEncoder().fit(week).get_feature_names_out().tolist()
    assert names == ["t", "t (week) sine", "t (week) cosine"]


def test_it_does_what_the_regressors_do(rng):
    table = pd.DataFrame({"x": rng.normal(size=30), "s": rng.choice(list("ab"), 30)})
    gp = cgp.ExactGPRegressor(optimizer=None).fit(table, table["x"])
    np.testing.assert_array_equal(cgp.TableEncoder().fit_transform(table), gp.X_train_)


def test_many_levels_have_numbered_names(rng):
    table = pd.DataFrame({"id": [f"v{k}" for k in rng.permutation(2000)] * 2})
    names = cgp.TableEncoder().fit(table).get_feature_names_out()
    assert names[:2].tolist() == ["id_0", "id_1"]
    assert len(names) == 62
