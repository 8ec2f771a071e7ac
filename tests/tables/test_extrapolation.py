"""Far rows, rare levels and constant columns: what is predicted there, and what is told."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import ExtrapolationWarning, InvalidInputError, NumericalError
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_members import DenseModel, ExactMembers
from coupledgp.tables.local_evidence import BatchEvidence, OrderedRows
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import TABLE_KERNELS
from tests.core.few_steps import search_little
from tests.often import often

N = 50


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    search_little(monkeypatch)


def table(seed):
    """Two columns that matter, a constant one, and one with a level of a single row."""
    rng = np.random.default_rng(seed)
    rare = np.full(N, rng.choice([0.0, 1.0]))
    rare[rng.integers(N)] += 10.0 ** rng.integers(-5, 5)
    constant = np.full(N, rng.choice([-0.0019, 0.1, 0.0, 1e6 + 1 / 3]))
    X = np.column_stack([rng.normal(size=(N, 2)), constant, rare])
    return X, 10 + np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N), rng


MODELS = {
    "default": lambda: cgp.GPRegressor(random_state=0),
    "hybrid": lambda: cgp.GPRegressor("hybrid", n_frequencies=4, random_state=0),
    "local": lambda: cgp.LocalGPRegressor("matern-3/2", 4, random_state=0),
    "sparse spectrum": lambda: cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0),
    "exact": lambda: cgp.ExactGPRegressor("matern-5/2", random_state=0),
}


@pytest.mark.parametrize("name", often(MODELS, "local", "sparse spectrum"))
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.long) for s in (1, 2))])
def test_no_mean_is_far_without_a_warning_that_names_row_and_column(name, seed):
    X, y, rng = table(seed)
    gp = MODELS[name]().fit(X, y)
    low, high, span = y.min(), y.max(), np.ptp(y)
    for column in range(4):
        for step in (1e-3, 3.0, -1e4, 1e9):
            row = X[[rng.integers(N)]]
            row[0, column] += step
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                mean = gp.predict(row)[0]
            texts = [str(w.message) for w in told if w.category is ExtrapolationWarning]
            assert len(texts) <= 1
            if texts:
                assert f"row 1: 'x{column}'" in texts[0]
            if not low - 3 * span <= mean <= high + 3 * span or (column == 2 or abs(step) > 1e3):
                assert texts
            # A trend goes on for one range of a column, whatever the distance.
            if name in ("default", "hybrid", "local"):
                assert low - 10 * span <= mean <= high + 10 * span
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.predict(X)


def test_a_warning_names_the_first_rows_once():
    X, y, _ = table(0)
    gp = cgp.ExactGPRegressor(random_state=0).fit(X, y)
    rows = np.repeat(X[:1], 30, axis=0)
    rows[3:, 0] = 1e3
    expected = r"X: 27 of 30 rows .*row 4: 'x0' \d.* lengthscales away; .*row 8: .*; \.\.\."
    with pytest.warns(ExtrapolationWarning, match=expected) as told:
        gp.predict(rows)
    assert len(told) == 1
    with pytest.warns(ExtrapolationWarning, match="27 of 30"):
        gp.predict_interval(rows)
    distance = gp.extrapolation(rows)
    assert (distance[:3] == 0).all()
    assert (distance[3:] > 100).all()


@pytest.mark.long
def test_files_and_further_rows_know_where_rows_are(tmp_path):
    X, y, _ = table(1)
    up = np.array([0.0, 40.0, 0.0, 0.0])
    far = X[:3] + up
    for keep in (None, False):
        gp = cgp.SparseSpectrumGPRegressor(
            n_frequencies=8, options={"keep_rows": keep}, random_state=0
        )
        gp.fit(X, y)
        gp.save(tmp_path / "model")
        again = cgp.load_model(tmp_path / "model")
        np.testing.assert_array_equal(again.extrapolation(far), gp.extrapolation(far))
        assert (again.extrapolation(far) > 2).all()
        for model in (gp, again):
            model.partial_fit(far, y[:3])
            assert not model.extrapolation(far).any()
            assert (model.extrapolation(X[:3] + up / 2) > 2).all()
    for gp in (cgp.GPRegressor("hybrid", n_frequencies=2, target_transform="log", random_state=0),
               cgp.ExactGPRegressor("matern-5/2")):  # fmt: skip
        gp.fit(X, y).save(tmp_path / "model")
        again = cgp.load_model(tmp_path / "model")
        np.testing.assert_array_equal(again.extrapolation(far), gp.extrapolation(far))
        assert (again.extrapolation(far) > 2).all()
    batches = cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0)
    batches.fit_batches([(X[:20], y[:20]), (X[20:], y[20:])])
    assert (batches.extrapolation(far) > 2).all()
    assert not batches.extrapolation(X).any()


def test_constant_targets_have_no_spread_and_are_told():
    X, _, _ = table(2)
    for value in (5.0, -1e9, 0.37):
        gp = cgp.GPRegressor(random_state=0)
        with pytest.warns(UserWarning, match="y: expected targets that differ, got 50 equal to"):
            gp.fit(X, np.full(N, value))
        mean, std = gp.predict(X, return_std=True)
        np.testing.assert_allclose(mean, value, rtol=1e-12)
        assert (std < 1e-6 * abs(value)).all()


@pytest.mark.parametrize("value", [7e-9, 7e9])
def test_few_equal_targets_do_not_say_how_much_others_differ(value):
    X, _, _ = table(2)
    with pytest.warns(UserWarning, match="y: .*got 3 equal to .*: nothing says by how much"):
        cgp.ExactGPRegressor(random_state=0).fit(X[:3, :2], np.full(3, value))
    cgp.ExactGPRegressor(optimizer=None).fit(X[:3, :2], np.full(3, value))


def test_a_number_that_stands_for_a_missing_value_is_named():
    X, y, rng = table(3)
    X = pd.DataFrame(X[:, :2], columns=["depth", "heat"])
    marked = X.assign(heat=X.heat.where(rng.uniform(size=N) > 0.1, -999.0))
    gp = cgp.ExactGPRegressor(optimizer=None)
    with pytest.warns(UserWarning, match="X, column heat: . of 50 rows have -999, far outside"):
        gp.fit(marked, y)
    with pytest.warns(UserWarning, match="y: 3 of 50 rows have 9999, far outside"):
        gp.fit(X, np.where(np.arange(N) < 3, 9999.0, y))
    gp.fit(X, np.where(np.arange(N) < 1, 9999.0, y))  # one far row may be what it says
    gp.fit(X.assign(heat=rng.standard_cauchy(N)), y)


@pytest.mark.parametrize("seed", range(3))
def test_equal_rows_are_searched_as_one(seed):
    """Where every row is a neighbour of each, that is the evidence of all of them."""
    rng = np.random.default_rng(seed)
    inputs, targets = np.round(rng.normal(size=(12, 2))), np.round(rng.normal(size=(12, 1)))
    chosen = rng.integers(12, size=40)
    noise, counts = rng.choice([1.0, 2.0], 12)[chosen], np.full(40, 1.5)
    rows = OrderedRows(inputs[chosen], targets[chosen], noise / counts, counts)
    merged = rows.merged()
    assert len(merged) < 13
    assert merged.counts.sum() == pytest.approx(rows.counts.sum())
    assert OrderedRows.merged(merged) is merged
    problem = LocalProblem.of(Data.of(rows.inputs, rows.targets), Units.of(targets, False),
                              np.arange(2), 0)  # fmt: skip
    structure = problem.structure("linear", 40, parse_spectrum("matern-3/2"))
    vector = structure.start() + rng.normal(size=structure.start().size) * 0.3
    _, slopes = zip(*(
        BatchEvidence.of(structure, own, np.arange(len(own)), np.ones(2)).value_and_gradient(vector)
        for own in (rows, merged)
    ), strict=True)  # fmt: skip
    # Of a value that is repeated about its mean, what no hyperparameter changes is left out.
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-8)


@pytest.mark.filterwarnings("ignore::coupledgp.errors.PrecisionWarning")
@pytest.mark.parametrize("rows", [4, 1])
def test_many_equal_rows_have_a_posterior(rows):
    rng = np.random.default_rng(0)
    X, y = (np.repeat(a, 10, axis=0) for a in (rng.normal(size=(rows, 3)), np.arange(rows) + 1.0))
    data = Data.of(X, y[:, None])
    problem = LocalProblem.of(data, Units.of(data.targets, False), np.arange(3), 0)
    structure = problem.structure("linear", 9, parse_spectrum("gaussian"))
    named = {n: np.asarray(v) for n, v in structure.named(structure.start()).items()}
    named |= {"noise": np.array(np.log(1e-10)), "outputscale": np.array(np.log(8e3)),
              "trend": np.array(np.log(8e3))}  # fmt: skip
    prior = problem.prior(structure, structure.pack(named))
    for process in (DenseModel(prior).process(problem, False), problem.process(prior, False)):
        mean = process.latent_law(X, "mean")[0]
        np.testing.assert_allclose(mean[:, 0], y, rtol=1e-2)

    def given(own: LocalPrior) -> float:
        if own.noise < 1e-7:
            raise NumericalError("no factor")
        return own.noise

    assert 1e-7 <= problem.conditioned(prior, given) < 1e-5
    with pytest.raises(NumericalError):
        replace(problem, known_noise=1e-10).conditioned(prior, given)


@pytest.mark.long
def test_a_member_that_fails_leaves_the_others(monkeypatch):
    X, y, _ = table(0)
    whole = ExactMembers.search

    def failing(kind, task, name, problem, fitter):
        if name in failing.names:
            raise NumericalError(f"{name} has no factor")
        return whole(kind, task, name, problem, fitter)

    failing.names = ("gaussian", "matern-1/2")
    monkeypatch.setattr(ExactMembers, "search", failing)
    gp = cgp.GPRegressor("exact", random_state=0).fit(X, y)
    names = [member.name for member in gp.choice_.members]
    assert len(names) == 4  # three kernels, and the better one with more noise
    assert not any("gaussian" in name or "1/2" in name for name in names)
    failing.names = TABLE_KERNELS
    with pytest.raises(NumericalError, match="has no factor"):
        cgp.GPRegressor("exact", random_state=0).fit(X, y)


@pytest.mark.parametrize("labels", [
    ["a", "b"] * 25, np.array(["a", "b"] * 25), np.array(["a", "b"] * 25, dtype=object),
    np.array([b"a", b"b"] * 25),
])  # fmt: skip
def test_text_targets_are_classification(labels):
    X, y, _ = table(0)
    for gp in (cgp.GPRegressor(), cgp.SparseSpectrumGPRegressor()):
        with pytest.raises(ValueError, match=r"y: .* text 'a'.*GPClassifier"):
            gp.fit(X, labels)
    numbers = cgp.ExactGPRegressor(optimizer=None).fit(X, [str(value) for value in y])
    assert np.isfinite(numbers.predict(X)).all()


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (None, "requires y to be passed"),
        (pd.cut(pd.Series(np.arange(50.0)), 3), "expected numbers, .*Interval"),
        ([{"a": 1}] * 50, "expected numbers, .*dict"),
    ],
)
def test_targets_that_are_no_numbers_are_an_error_of_y(targets, said):
    with pytest.raises(InvalidInputError, match=f"^y: .*{said}"):
        cgp.ExactGPRegressor().fit(table(0)[0], targets)
