"""Fits in passes over batches: the result of the fit in memory, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.core.ladder import rung_sizes
from coupledgp.core.passes import TableBatch
from coupledgp.errors import CoupledGPError, InvalidInputError, MemoryLimitError
from coupledgp.ground.parameters import folded
from coupledgp.tables import batched_evidence, out_of_core
from tests.often import often

N = 5000


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    """Tables of 3000 rows are searched in memory; longer ones in passes."""
    monkeypatch.setattr(out_of_core, "KEPT_ROWS", 3000)
    monkeypatch.setattr(batched_evidence, "KEPT_ROWS", 3000)


def table(seed=0, n=N):
    """Inputs (n, 2) and targets (n,) of a smooth function with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1, 3] + 5
    return X, 7 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)


def model(**options):
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, {"n_frequencies": 12, "random_state": 0} | options)
    )


def cut(size, *parts):
    """Batches of the rows of arrays or data frames, as a list."""
    n = len(parts[-1])
    return [
        tuple(p.iloc[k : k + size] if hasattr(p, "iloc") else p[k : k + size] for p in parts)
        for k in range(0, n, size)
    ]


def laws(gp, points):
    return np.array(gp.predict(points, return_std=True))


KEPT = {"optimizer": None, "lengthscale": 1.5, "noise": 0.05}
CASES = {
    "kept": KEPT,
    "variances": {"fixed": ("lengthscale",)},
    "not normalized": KEPT | {"normalize_y": False},
    "single": KEPT | {"dtype": "float32"},
    "laplace": {"features": "laplace", "n_frequencies": 16},
    "isotropic": {"ard": False, "fixed": ("lengthscale", "noise")},
    "for the posterior": KEPT | {"frequencies": "posterior", "n_frequencies": 32},
    "for the posterior, variances": {"frequencies": "posterior", "fixed": ("lengthscale",)},
}


@pytest.mark.filterwarnings("ignore:frequencies. expected a KL:coupledgp.errors.PrecisionWarning")
@pytest.mark.parametrize("case", often(CASES, "kept", "laplace", "for the posterior, variances"))
def test_the_process_is_that_of_the_fit_in_memory(case):
    (X, y), options = table(), CASES[case]
    whole = model(**options).fit(X, y)
    parts = model(**options).fit_batches(cut(777, X, y))
    tight = 1e-4 if options.get("dtype") == "float32" else 1e-8
    np.testing.assert_allclose(parts.lengthscale_, whole.lengthscale_, rtol=1e-12)
    np.testing.assert_allclose(parts.noise_, whole.noise_, rtol=1e-5)
    np.testing.assert_allclose(laws(parts, X[:50]), laws(whole, X[:50]), rtol=tight)
    np.testing.assert_allclose(
        parts.sample_y(X[:5], 3, random_state=1),
        whole.sample_y(X[:5], 3, random_state=1),
        rtol=1e-3,
    )
    gap = parts.log_marginal_likelihood_value_ - whole.log_marginal_likelihood_value_
    assert abs(gap) < N * tight


def test_the_search_takes_the_same_rows_and_decisions():
    X, y = table()
    whole = model().fit(X, y)
    parts = model().fit_batches(lambda: iter(cut(1000, X, y)))
    assert [rung.n_rows for rung in parts.search_.rungs] == [1024, N]
    assert parts.search_.n_held_out == whole.search_.n_held_out
    assert parts.converged_ == whole.converged_
    np.testing.assert_allclose(parts.lengthscale_, whole.lengthscale_, rtol=1e-2)
    np.testing.assert_allclose(laws(parts, X[:50]), laws(whole, X[:50]), rtol=1e-4)


@pytest.mark.long
def test_the_size_of_batches_changes_no_bit():
    X, y = table()
    y[0] += 1e4
    found = [model(max_iter=5).fit_batches(cut(size, X, y)) for size in (N, 1000, 37)]
    for other in found[1:]:
        np.testing.assert_array_equal(laws(other, X[:20]), laws(found[0], X[:20]))


def test_rungs_beyond_the_sample_are_left_out(monkeypatch):
    assert rung_sizes(5000) == rung_sizes(5000, 1024) == [1024, 5000]
    assert rung_sizes(9000, 1024) == [1024]
    assert rung_sizes(10**8, 2**20)[-1] == 2**20
    monkeypatch.setattr(batched_evidence, "SAMPLE_BYTES", 0)
    monkeypatch.setattr(batched_evidence, "GIVEN_ROWS", 1024)
    X, y = table(n=9000)
    found = model().fit_batches(cut(1000, X, y)).search_
    assert [rung.n_rows for rung in found.rungs] == [1024]
    assert found.n_rows == 9000


def test_small_tables_are_fitted_in_memory():
    X, y = table(n=900)
    whole, parts = model().fit(X, y), model().fit_batches(cut(100, X, y))
    np.testing.assert_allclose(laws(parts, X[:9]), laws(whole, X[:9]), rtol=1e-9)
    with pytest.raises(CoupledGPError, match="keep_rows"):
        _ = parts.X_train_


@pytest.mark.parametrize("kind", ["weight", "noise"])
def test_weights_and_known_noise(kind):
    X, y = table()
    rng = np.random.default_rng(3)
    w = rng.integers(0, 3, N) * 1.0 if kind == "weight" else rng.uniform(0.01, 0.1, N)
    w[1000:2000] = 0.0 if kind == "weight" else w[1000:2000]  # a batch of weight zero
    options = {"n_frequencies": 12, "fixed": ("lengthscale", "noise")}
    whole = model(**options).fit(X, y, **{f"sample_{kind}": w})
    batches = [TableBatch(*part[:2], **{f"sample_{kind}": part[2]}) for part in cut(1000, X, y, w)]
    parts = model(**options).fit_batches(batches)
    np.testing.assert_allclose(laws(parts, X[:50]), laws(whole, X[:50]), rtol=1e-6)
    np.testing.assert_allclose(parts.noise_, whole.noise_, rtol=1e-9)


def special(n=N):
    """A data frame with categories, dates, Booleans and missing values, and targets."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "s": rng.choice(["a", "b", "c"], n, p=[0.8, 0.199, 0.001]),
            "t": pd.date_range("2020-01-01", periods=n, freq="h"),
            "b": rng.random(n) < 0.5,
        }
    )
    frame.loc[frame.index[3:5], "s"] = None
    hour = frame["t"].dt.hour.to_numpy()
    y = np.nan_to_num(frame["x"]) + (frame["s"] == "b") + np.sin(hour / 24 * 2 * np.pi)
    return frame, y.to_numpy() + 0.1 * rng.normal(size=n)


def test_categories_dates_and_missing_values():
    frame, y = special()
    options = KEPT | {"missing": "indicator", "n_frequencies": 16}
    whole = model(**options).fit(frame, y)
    parts = model(**options).fit_batches(cut(500, frame, y))
    assert parts.encoding_.describe() == whole.encoding_.describe()
    assert parts.lengthscale_names_ == whole.lengthscale_names_
    np.testing.assert_allclose(laws(parts, frame[:40]), laws(whole, frame[:40]), rtol=1e-8)


def test_two_outputs():
    X, y = table()
    Y = np.column_stack([y, -2 * y + X[:, 0]])
    frame = pd.DataFrame(X, columns=["a", "b"])
    parts = model(**KEPT).fit_batches(cut(700, frame, Y))
    whole = model(**KEPT).fit(frame, Y)
    assert parts.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(parts.predict(frame[:9]), whole.predict(frame[:9]), rtol=1e-9)


class TestWithoutRows:
    @pytest.fixture
    def parts(self):
        X, y = table()
        return model(**KEPT).fit_batches(cut(1000, X, y))

    def test_it_predicts_and_is_saved(self, parts, tmp_path):
        X, y = table(1)
        parts.save(tmp_path / "m")
        again = cgp.load_model(tmp_path / "m")
        np.testing.assert_array_equal(laws(again, X[:9]), laws(parts, X[:9]))
        assert again.log_density(X[:9], y[:9]).shape == (9,)
        with pytest.raises(CoupledGPError, match="keep_rows"):
            parts.save(tmp_path / "n", include_data=True)

    def test_what_needs_rows_names_the_parameter(self, parts):
        for wanted in (
            lambda: parts.X_train_, lambda: parts.y_train_, parts.exact_twin,
            lambda: parts.process_.left_out_law(np.arange(N)),
            lambda: parts.process_.redrawn("iid", 4, 0),
        ):  # fmt: skip
            with pytest.raises(CoupledGPError, match="fit it with options"):
                wanted()

    def test_rows_are_added(self, parts):
        X, y = table(1, 500)
        first = table()
        fresh = model(**KEPT).fit_batches(cut(1000, *first)).partial_fit(X, y)
        both = np.vstack([first[0], X]), np.concatenate([first[1], y])
        whole = model(**KEPT).fit(*both)
        np.testing.assert_allclose(laws(fresh, X[:9]), laws(whole, X[:9]), rtol=1e-8)
        assert fresh.process_.rows is None


def test_rows_are_kept_where_that_is_asked_for():
    X, y = table()
    parts = model(**KEPT, keep_rows=True).fit_batches(cut(1000, X, y))
    np.testing.assert_array_equal(parts.X_train_, X)
    whole = model(**KEPT).fit(X, y)
    groups = np.arange(N) % 5
    np.testing.assert_allclose(
        parts.process_.left_out_law(groups).mean, whole.process_.left_out_law(groups).mean
    )


@pytest.mark.long
def test_fit_without_rows():
    X, y = table(n=300)
    whole = model().fit(X, y)
    bare = model(keep_rows=False).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    assert bare.process_.rows is None
    with pytest.raises(CoupledGPError, match="keep_rows"):
        _ = bare.X_train_
    assert laws(bare, X[:5]).shape == laws(whole, X[:5]).shape
    chosen = model(keep_rows=False, target_transform="yeo-johnson").fit(X, y)
    with pytest.raises(CoupledGPError, match="keep_rows"):
        _ = chosen.X_train_
    auto = model(keep_rows=False, coupling="auto", n_frequencies=4, max_iter=2)
    with warnings.catch_warnings(action="ignore"):  # so few iterations
        auto.fit(X[:60], y[:60])
    assert auto.selection_ is not None
    assert auto.process_.rows is None
    with pytest.raises(InvalidInputError, match="keep_rows: expected True, False or None"):
        model(keep_rows=1).fit(X, y)


def changing(batches, others):
    """A function that gives batches in the first pass and others in further ones."""
    passes = []

    def give():
        passes.append(0)
        return iter(batches if len(passes) == 1 else others)

    return give


def test_sources_that_change_are_refused():
    X, y = table()
    batches = cut(1000, X, y)
    shuffled = cut(1000, X[::-1].copy(), y[::-1].copy())
    for others, message in (
        (batches[:-1], "expected 5000 rows in every pass, got 4000"),
        (shuffled, "in the same order"),
        ([(X, y + 1e-9)], "in the same order"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model(**KEPT).fit_batches(changing(batches, others))


def hostile():
    X, y = table(n=40)
    frame = pd.DataFrame(X, columns=["a", "b"])
    good = frame, y
    text = frame.assign(a="text")
    return {
        "another width": ([good, (X[:, :1], y)], "batch 2: .*columns"),
        "other names": ([good, (frame.rename(columns={"a": "c"}), y)], "batch 2: X: expected the"),
        "other order": ([good, (frame[["b", "a"]], y)], "batch 2: X: expected the columns"),
        "NaN": ([good, (frame.where(frame["a"] > 5), y)], "batch 2: .*NaN"),
        "NaN in y": ([good, (frame, np.where(y > 7, np.nan, y))], "batch 2: .*NaN"),
        "infinite": ([good, (frame.abs() * np.inf, y)], "batch 2: .*infinity"),
        "text": ([good, (text, y)], "batch 2: X: column 'a': expected numbers as in earlier"),
        "text of y": ([good, (frame, np.full(40, "t"))], "batch 2: "),
        "more outputs": ([good, (frame, np.column_stack([y, y]))], "batch 2: y: expected as many"),
        "fewer targets": ([good, (frame, y[:-1])], "batch 2: "),
        "negative": ([good, (frame, y, -y)], "batch 2: sample_weight: expected weights >= 0"),
        "no rows": ([(X[:0], y[:0])], "expected rows, got none"),
        "no batches": ([], "expected rows, got none"),
        "weight zero": ([(frame, y, 0 * y)], "all are zero"),
        "some noise": ([good, TableBatch(X, y, None, y)], "batch 2: "),
        "too large": ([(X * 1e80, y)], "batch 1: X: expected magnitudes"),
        "objects": ([good, (np.array([[{}, 1]] * 40), y)], "batch 2: "),
    }  # fmt: skip


@pytest.mark.parametrize("case", hostile())
def test_hostile_batches_are_refused_by_number(case):
    batches, message = hostile()[case]
    gp = model()
    with pytest.raises(InvalidInputError, match=message):
        gp.fit_batches(batches)
    assert not gp.__sklearn_is_fitted__()


def test_empty_batches_are_passed_over():
    X, y = table()
    empty = X[:0], y[:0]
    parts = model(**KEPT).fit_batches([empty, *cut(1000, X, y), empty])
    np.testing.assert_allclose(
        laws(parts, X[:9]), laws(model(**KEPT).fit_batches([(X, y)]), X[:9]), rtol=1e-12
    )


@pytest.mark.parametrize(
    "options",
    [{"frequencies": "fitted"}, {"n_frequencies": "auto"}, {"coupling": "auto"},
     {"hyperparameters": "averaged"}, {"target_transform": "log"}],
)  # fmt: skip
def test_options_that_need_all_rows_are_refused(options):
    (name,) = options
    with pytest.raises(InvalidInputError, match=f"{name}: expected .* for batches"):
        model(**options).fit_batches([table()])


def test_too_many_features_are_refused_with_a_number_that_fits():
    X, y = table()
    with pytest.raises(MemoryLimitError, match=r"take n_frequencies=\d+"):
        model(n_frequencies=2**20).fit_batches([(X, y)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(out_of_core, "COPIES", 2**30)
        with pytest.raises(MemoryLimitError, match="X: 3000 random rows of 2 encoded columns"):
            model().fit_batches([(X, y)])
    with pytest.raises(InvalidInputError, match="as many features as rows"):
        model(n_frequencies=2600).fit_batches([(X, y)])


def test_a_fit_beyond_the_budget_is_refused_with_a_forecast():
    X, y = table()
    found = model(**KEPT).fit_batches(cut(1000, X, y), budget=1e6)
    assert 0 < found.forecast_ < 1e6
    with pytest.raises(InvalidInputError, match=r"budget: the fit takes about .* n_frequencies="):
        model(**KEPT).fit_batches(cut(1000, X, y), budget=1e-6)
    with pytest.raises(InvalidInputError, match="budget: expected a finite number > 0"):
        model(**KEPT).fit_batches(cut(1000, X, y), budget=-1)
