"""Regressors of tables with categories, Booleans, dates and missing values."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from tests.core.few_steps import take_few_steps
from tests.often import often

N = 90


@pytest.fixture
def table(rng):
    when = pd.date_range("2020-01-06", periods=N, freq="D")[rng.permutation(N)]
    return pd.DataFrame({
        "x": rng.normal(size=N), "sex": rng.choice(list("FIM"), N), "when": when,
        "ok": rng.random(N) < 0.5, "code": pd.Categorical(rng.integers(0, 3, N)),
    })  # fmt: skip


@pytest.fixture
def y(table, rng):
    weekday = np.sin(2 * np.pi * table["when"].dt.day_of_week / 7)
    shift = table["sex"].map({"F": 0.0, "I": 2.0, "M": -1.0})
    return np.asarray(np.sin(table["x"]) + shift + weekday + 0.05 * rng.normal(size=N))


def with_gaps(table):
    holed = table.astype({"ok": "boolean"})
    for row, name in enumerate(holed.columns):
        holed.loc[row, name] = None if name != "ok" else pd.NA
    return holed


MODELS = {
    "exact": cgp.ExactGPRegressor(random_state=0, options={"max_iter": 20}),
    "sampled": cgp.SparseSpectrumGPRegressor(
        n_frequencies=64, random_state=0, options={"max_iter": 20}
    ),
    "matern": cgp.SparseSpectrumGPRegressor(
        "matern-3/2", n_frequencies=64, random_state=0, options={"max_iter": 20}
    ),
    "laplace": cgp.SparseSpectrumGPRegressor(
        features="laplace", n_frequencies=64, random_state=0, options={"max_iter": 20}
    ),
    "fitted": cgp.SparseSpectrumGPRegressor(
        n_frequencies=16, frequencies="fitted", random_state=0, options={"max_iter": 10}
    ),
    "averaged": cgp.ExactGPRegressor(
        random_state=0,
        options={"max_iter": 10, "n_hyperparameter_draws": 4},
        hyperparameters="averaged",
    ),
    "isotropic": cgp.ExactGPRegressor(random_state=0, options={"max_iter": 20}, ard=False),
}


@pytest.mark.parametrize("name", often(MODELS, "sampled", "laplace", "isotropic"))
def test_every_regressor_fits_predicts_and_saves(name, table, y, tmp_path):
    table = with_gaps(table)
    model = clone(MODELS[name]).set_params(missing="indicator").fit(table, y)
    assert model.n_features_in_ == 5
    assert list(model.feature_names_in_) == list(table.columns)
    assert model.lengthscale_names_ == ["x", "sex", "when", "when (week)", "ok", "code"]
    if model.ard:
        assert np.shape(model.lengthscale_) == (6,)
    else:
        assert isinstance(model.lengthscale_, float)
    mean, std = model.predict(table, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    model.save(tmp_path / "model", include_data=True)
    restored = cgp.load_model(tmp_path / "model")
    np.testing.assert_array_equal(restored.predict(table), mean)
    assert restored.encoding_.describe() == model.encoding_.describe()
    np.testing.assert_array_equal(restored.lengthscale_, model.lengthscale_)
    again = restored.exact_twin().predict(table)
    np.testing.assert_allclose(again, model.exact_twin().predict(table), atol=1e-8)


def test_the_kernel_is_a_product_of_one_kernel_a_column(table, y):
    lengthscale = [1.5, 0.8, 60.0, 2.0, 1.2, 0.9]
    model = cgp.ExactGPRegressor(
        lengthscale=lengthscale, outputscale=1.0, noise=0.1, normalize_y=False, optimizer=None
    ).fit(table, y)
    days = (table["when"] - table["when"].min()).dt.days.to_numpy()
    angle = 2 * np.pi * (days + 4) / 7
    circle = np.column_stack([np.sin(angle), np.cos(angle)])
    x, sex, ok, code = (table[name].to_numpy() for name in ("x", "sex", "ok", "code"))
    squares = [
        np.subtract.outer(x, x) ** 2,
        2.0 * (sex[:, None] != sex),
        np.subtract.outer(days, days) ** 2,
        cdist(circle, circle) ** 2,
        1.0 * (ok[:, None] != ok),
        2.0 * (code[:, None] != code),
    ]
    exponents = np.array(squares) / np.square(lengthscale)[:, None, None]
    expected = np.exp(-0.5 * exponents.sum(axis=0))
    np.testing.assert_allclose(model.prior_covariance(table), expected, atol=1e-12)
    np.testing.assert_allclose(model.lengthscale_, lengthscale)


def test_order_of_the_levels_and_a_category_dtype_change_nothing(table, y):
    one = cgp.ExactGPRegressor(random_state=0).fit(table, y)
    other = table.assign(
        sex=pd.Categorical(table["sex"], categories=["M", "Q", "I", "F"]), ok=table["ok"] * 1.0
    )
    np.testing.assert_array_equal(one.predict(other), one.predict(table))
    arrow = pa.Table.from_pandas(table)
    np.testing.assert_array_equal(one.predict(arrow), one.predict(table))
    refitted = cgp.ExactGPRegressor(random_state=0).fit(arrow, y)
    np.testing.assert_array_equal(refitted.predict(table), one.predict(table))


def test_a_category_beats_its_ordinal_codes(rng):
    """Levels are those of the first rows, so that none is new."""
    levels, n = 30, 320
    group = np.concatenate([np.arange(levels), rng.integers(0, levels, n - levels)])
    x = rng.uniform(-2, 2, n)
    y = np.sin(3 * x) + rng.normal(size=levels)[group] + 0.1 * rng.normal(size=n)
    named = pd.DataFrame({"x": x, "group": [f"g{g}" for g in group]})
    ordinal = pd.DataFrame({"x": x, "group": group})
    category, codes = (
        np.std(
            y[120:] - cgp.ExactGPRegressor(random_state=0).fit(t[:120], y[:120]).predict(t[120:])
        )
        for t in (named, ordinal)
    )
    assert category < 0.7 * codes


def test_an_unknown_level_has_the_doubt_of_a_new_category(table, y):
    model = cgp.ExactGPRegressor(random_state=0).fit(table, y)
    new = table.assign(sex="Q")
    with pytest.warns(UserWarning, match="column 'sex': 'Q' did not occur in the fit"):
        doubtful = model.predict(new, return_std=True)[1]
    assert (doubtful > 2 * model.predict(table, return_std=True)[1]).all()


@pytest.mark.filterwarnings("ignore::coupledgp.errors.ExtrapolationWarning")
def test_further_rows_are_encoded_as_the_first(table, y):
    table = with_gaps(table)
    kept = cgp.SparseSpectrumGPRegressor(
        n_frequencies=32, random_state=0, missing="indicator", optimizer=None, lengthscale=2.0,
        normalize_y=False,
    )  # fmt: skip
    whole = clone(kept).fit(table, y)
    parts = clone(kept).fit(table[:60], y[:60])
    parts.partial_fit(table[60:], y[60:])
    assert len(parts.X_train_) == N
    assert parts.X_train_.shape[1] == parts.encoding_.groups.size
    # Both have the frequencies and lengthscales of the seed; one is given its rows at once.
    np.testing.assert_allclose(
        whole.conditioned_on(table[:60], y[:60]).predict(table),
        whole.conditioned_on(table[:30], y[:30]).partial_fit(table[30:60], y[30:60]).predict(table),
        atol=1e-8,
    )
    assert np.isfinite(whole.log_density(table, y)).all()
    assert whole.sample_y(table[:4], 3).shape == (4, 3)


@pytest.mark.long
def test_auto_size_and_comparison(table, y):
    table = with_gaps(table)
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies="auto",
        options={"kl_target": 0.1, "max_iter": 10},
        random_state=0,
        missing="indicator",
    ).fit(table, y)
    report = cgp.report(model, table[:20], y[:20])
    assert np.isfinite(report.score("kl"))


def test_transformed_targets_and_weights_of_rows(table, y):
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 10}, target_transform="log")
    model.fit(table, np.exp(y), sample_weight=np.linspace(0.5, 1.5, N))
    assert model.lengthscale_.shape == (6,)
    assert (model.predict(table) > 0).all()


def test_queries_of_a_fit_to_the_posterior(table, y, monkeypatch):
    take_few_steps(monkeypatch)
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, frequencies="fitted", random_state=0, options={"max_iter": 5}
    )
    assert np.isfinite(model.fit(table, y, queries=table[:30]).predict(table)).all()
    with pytest.raises(InvalidInputError, match="queries: X: column 'sex'"):
        model.fit(table, y, queries=table.assign(sex=1.0))


@pytest.mark.parametrize("name", ["exact", "sampled"])
def test_missing_values_are_refused_unless_asked_for(name, table, y):
    model = clone(MODELS[name])
    with pytest.raises(InvalidInputError, match=r"column 'x', row 1: .* missing='indicator'"):
        model.fit(with_gaps(table), y)
    X = table[["x"]].to_numpy().copy()
    X[3] = np.nan
    with pytest.raises(InvalidInputError, match=r"X: column 1, row 4: .* got NaN; missing='indic"):
        model.fit(X, y)
    model.fit(table, y)
    with pytest.raises(InvalidInputError, match=r"column 'sex', row 2: expected a value"):
        model.predict(table.assign(sex=with_gaps(table)["sex"]))
    with pytest.raises(InvalidInputError, match="missing: expected one of"):
        clone(model).set_params(missing="mean").fit(table, y)


def test_missing_values_of_a_matrix(rng):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + X[:, 1]
    X[:10, 1] = np.nan
    model = cgp.ExactGPRegressor(random_state=0, missing="indicator").fit(X, y)
    assert model.X_train_.shape == (60, 4)
    assert model.lengthscale_.shape == (3,)
    frame = pd.DataFrame(X, columns=list("abc"))
    named = cgp.ExactGPRegressor(random_state=0, missing="indicator").fit(frame, y)
    np.testing.assert_array_equal(named.predict(frame), model.predict(X))
    further = X[20:22].copy()
    further[0, 0] = np.nan
    with pytest.warns(UserWarning, match="column 1: missing values, of which the fit had none"):
        assert np.isfinite(model.predict(further)).all()


@pytest.mark.parametrize("name", ["exact", "sampled"])
def test_plain_tables_are_fitted_and_filed_as_before(name, rng):
    X = rng.normal(size=(50, 3))
    y = X[:, 0]
    plain = clone(MODELS[name]).fit(X, y)
    assert not hasattr(plain, "encoding_")
    filled = clone(MODELS[name]).set_params(missing="indicator").fit(X, y)
    np.testing.assert_array_equal(filled.predict(X), plain.predict(X))
    np.testing.assert_array_equal(filled.lengthscale_, plain.lengthscale_)
    assert filled.X_train_ is X
    columns = pd.DataFrame(X).astype({0: "float32"})
    np.testing.assert_array_equal(clone(plain).fit(columns, y).X_train_, columns.to_numpy(float))


def test_text_in_a_matrix_is_scikit_learns_error(rng, table, y):
    X = rng.normal(size=(20, 2)).astype(object)
    X[0, 0] = "a"
    with pytest.raises(ValueError, match="could not convert string to float"):
        cgp.ExactGPRegressor().fit(X, np.arange(20.0))
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 5}).fit(table[["x"]], y)
    with pytest.raises(InvalidInputError, match="column 'x': expected numbers as in the fit, got"):
        model.predict(table[["x"]].astype(str))


def test_columns_that_do_not_fit(table, y):
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 5}).fit(table, y)
    with pytest.raises(ValueError, match="same order"):
        model.predict(table[table.columns[::-1]])
    with pytest.raises(ValueError, match="unseen at fit time"):
        model.predict(table.assign(further=1.0))
    with pytest.raises(ValueError, match="missing"):
        model.predict(table[["x", "sex"]])
    with pytest.raises(InvalidInputError, match="column 'x': expected values of one type"):
        model.fit(table.assign(x=pd.Series([1.0, "a"] * (N // 2), dtype=object)), y)


def test_rows_of_python_objects_are_encoded_too(table, y):
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 5}).fit(table, y)
    expected = model.predict(table)
    rows = [list(row) for row in table.itertuples(index=False)]
    for given in (rows, table.to_numpy(dtype=object)):
        with pytest.warns(UserWarning, match="ExactGPRegressor was fitted with feature names"):
            np.testing.assert_array_equal(model.predict(given), expected)
    np.testing.assert_allclose(model.predict(table[:1]), expected[:1])
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        model.predict(table[:0])


def test_one_column_without_rows_is_refused(table, y):
    with pytest.raises(
        ValueError, match=r"expected rows and columns, got Series; one row is table\.iloc"
    ):
        cgp.ExactGPRegressor().fit(table["x"], y)


def test_a_column_and_a_plan_of_polars_are_refused():
    class Series:  # which has no number of dimensions
        shape, to_frame = (20,), None

    class LazyFrame:
        columns, collect = ["a"], None

    for given, said in ((Series(), "got Series; one row"), (LazyFrame(), "X.collect\\(\\) comp")):
        with pytest.raises(InvalidInputError, match=f"^X: expected rows and columns, .*{said}"):
            cgp.ExactGPRegressor().fit(given, np.arange(20.0))


def test_columns_of_equal_names_are_refused(table, y):
    twice = pd.concat([table[["sex"]], table[["x"]], table[["sex"]]], axis=1)
    with pytest.raises(InvalidInputError, match="different names, got more than one 'sex'"):
        cgp.ExactGPRegressor(random_state=0, options={"max_iter": 5}).fit(twice, y)


def test_one_category_and_a_constant_column(table, y):
    table = table[["x"]].assign(only="a", constant=3.0, date=pd.Timestamp("2020-01-01"))
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 20}).fit(table, y)
    bare = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 20}).fit(table[["x"]], y)
    assert np.corrcoef(model.predict(table), bare.predict(table[["x"]]))[0, 1] > 0.99


def test_cross_validation_with_rare_gaps_and_levels(table, y):
    table.loc[0, "sex"], table.loc[1, "x"] = "Q", np.nan
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 5}, missing="indicator")
    with pytest.warns(UserWarning, match="of which the fit had none|did not occur in the fit"):
        scores = cross_val_score(model, table, y, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


@pytest.mark.long
def test_a_wide_table_costs_little_beside_its_fit(rng):
    """Five thousand columns: a part each, but for a category."""
    wide = pd.DataFrame(rng.normal(size=(30, 5_000)))
    wide.columns = [f"x{j}" for j in range(5_000)]
    wide["s"] = rng.choice(list("ab"), 30)
    y = wide["x0"].to_numpy()
    model = cgp.ExactGPRegressor(
        optimizer=None, lengthscale=100.0, outputscale=1.0, noise=0.1, missing="indicator"
    ).fit(wide, y)
    assert model.X_train_.shape == (30, 5_002)
    assert len(model.lengthscale_names_) == 5_001
    assert np.isfinite(model.predict(wide)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("missing", ["raise", "indicator"])
def test_infinite_values_are_refused_by_place_without_a_warning(missing):
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = X[:, 0].copy()
    X[7, 2], X[9, 1] = -np.inf, np.inf  # their sum is no number
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None, missing=missing)
    place = r"X: column 3, row 8: expected a finite number, got -infinity"
    for fit in (lambda: model.fit(X, y), lambda: model.fit_batches([(X, y)])):
        with pytest.raises(InvalidInputError, match=place):
            fit()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(InvalidInputError, match=r"batch 2: X: column 'c', row 8: .* -infinity"):
        model.fit_batches([(frame.iloc[10:], y[10:]), (frame, y)])
    good = np.clip(X, -9, 9)
    with pytest.raises(InvalidInputError, match="X: column 3, row 8"):
        model.fit(good, y).predict(X)
    y[[3, 5]] = np.inf, -np.inf
    for fit in (lambda: model.fit(good, y), lambda: model.fit_batches([(good, y)])):
        with pytest.raises(InvalidInputError, match=r"y, row 4: expected a finite .* infinity"):
            fit()
    with pytest.raises(InvalidInputError, match=r"y: output 2, row 4: "):
        model.fit(good, np.column_stack([good[:, 0], y]))


@pytest.mark.filterwarnings("error")
def test_a_table_without_rows_says_nothing_of_its_columns():
    table = pd.DataFrame({"a": np.empty(0), "b": pd.Series([], dtype="str")})
    model = cgp.SparseSpectrumGPRegressor(missing="indicator")
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        model.fit(table, np.empty(0))
