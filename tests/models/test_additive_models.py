"""Additive kernels in local models and as members: parts, sizes, ranking of pairs, files."""

import numpy as np
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.kernels.additive import Additive
from coupledgp.models import LocalGPRegressor, load_model
from coupledgp.models.local import split_kernel
from coupledgp.search.tables import additive
from coupledgp.search.tables.additive import AdditiveSearch, FeatureSizes
from coupledgp.search.tables.local import Round
from coupledgp.search.tables.local_problem import LocalProblem
from coupledgp.selection.member_kinds import Size
from coupledgp.selection.member_plans import KINDS
from coupledgp.selection.near_members import AdditiveFeatureMembers, AdditiveLocalMembers
from coupledgp.spectra import parse_spectrum

RNG = np.random.default_rng(6)
X = RNG.uniform(-1.7, 1.7, (700, 4))
TRUTH = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
Y = TRUTH + 0.1 * RNG.normal(size=700)
MATERN = parse_spectrum("matern-3/2")


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(additive, "LENGTHSCALES", (0.8, 3.2))
    monkeypatch.setattr("coupledgp.models.local.ADDITIVE_ROUNDS", (Round(128, 6),))
    monkeypatch.setattr("coupledgp.models.local.SCREENING", (Round(128, 4),))


def problem(x, y, groups=None):
    data = Data.of(x, y.reshape(len(x), -1))
    own = np.arange(x.shape[1]) if groups is None else np.asarray(groups)
    return LocalProblem.of(data, Units.of(data.targets, True, None), own, 0)


def test_kernels_are_split_into_local_and_additive_parts():
    assert split_kernel(None) == (None, None)
    assert split_kernel("auto") == ("auto", None)
    assert split_kernel("matern-1/2") == (parse_spectrum("matern-1/2"), None)
    assert split_kernel("auto + additive(1)") == ("auto", Additive(1))
    assert split_kernel(MATERN + Additive(2, "gaussian")) == (MATERN, Additive(2, "gaussian"))
    assert split_kernel("additive(2, full=false)") == (None, Additive(2, full=False))


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("additive(2)", "expected a local part for the product of all columns"),
        ("auto + additive(3)", "additive kernel of order 1 or 2, got additive"),
        ("gaussian + matern-1/2", "got 'gaussian \\+ matern-1/2'; the trend is an argument"),
        ("auto + gaussian", "the sum of two of these, got 'auto \\+ gaussian'"),
        ("auto + linear", "the sum of two of these"),
        ("matern-1/2 * additive(2)", "the sum of two of these"),
    ],
)
def test_other_kernels_are_refused(kernel, said):
    with pytest.raises(InvalidInputError, match=said):
        LocalGPRegressor(kernel=kernel).fit(X[:20], Y[:20])


@pytest.mark.parametrize("kernel", ["additive(2, full=false)", "matern-1/2 + additive(2)"])
def test_a_model_finds_the_terms_and_a_file_keeps_it(kernel, tmp_path):
    gp = LocalGPRegressor(
        kernel=kernel, n_frequencies=0, trend="constant", n_neighbors=8, random_state=0
    ).fit(X[:600], Y[:600])
    variances = gp.process_.summary()["additive"][:, 0]
    terms = gp.process_.local_prior.structure.additive.columns
    wanted = [terms.index((0,)), terms.index((1, 2))]
    assert set(np.argsort(variances)[-2:]) == set(wanted)
    assert variances.sum() - variances[wanted].sum() < 0.05 * variances.sum()
    mean = gp.predict(X[600:])
    assert np.sqrt(np.mean((mean - TRUTH[600:]) ** 2)) < 0.06
    gp.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(X[600:]), mean)
    assert str(again.kernel) == kernel


def test_the_same_seed_gives_the_same_model_and_the_order_of_columns_does_not_matter():
    def fitted(x, unit=1.0):
        return LocalGPRegressor(
            kernel="additive(2, full=false)", n_frequencies=0, trend="constant", random_state=0
        ).fit(x[:600], unit * Y[:600])  # fmt: skip

    mean = fitted(X).predict(X[600:])
    np.testing.assert_array_equal(fitted(X).predict(X[600:]), mean)
    np.testing.assert_allclose(fitted(X[:, ::-1]).predict(X[600:, ::-1]), mean, atol=1e-6)
    variances, other = (fitted(X, unit).process_.summary()["additive"] for unit in (1.0, 2.0))
    np.testing.assert_allclose(other, 4.0 * variances, rtol=1e-6)


def test_features_are_at_most_a_tenth_of_the_rows():
    assert FeatureSizes.of(10**6, 8, 2) == FeatureSizes(16, 24, 28)
    assert FeatureSizes.of(10**6, 50, 2).n_pairs == 40
    assert FeatureSizes.of(10**6, 50, 1) == FeatureSizes(16, 0, 0)
    for n_rows in (500, 900, 3000, 10**5):
        for n_factors in (2, 6, 20):
            sizes = FeatureSizes.of(n_rows, n_factors, 2)
            assert sizes.total(n_factors) <= max(n_rows // 10, n_factors)
            assert sizes.n_pairs == 0 or sizes.of_pair >= 6


def test_the_pairs_that_explain_most_are_kept(monkeypatch):
    x = RNG.uniform(-1.7, 1.7, (900, 8))
    y = x[:, 0] + 2.0 * x[:, 2] * x[:, 5] + x[:, 1] * x[:, 7] + 0.1 * RNG.normal(size=900)
    monkeypatch.setattr(additive, "MOST_PAIRS", 3)
    search = AdditiveSearch(problem(x, y), MATERN, np.full(8, 1.6))
    kept = [own.factors for own in search.features.supports if len(own.factors) == 2]
    assert len(kept) == 3
    assert {(2, 5), (1, 7)} <= set(kept)
    assert str(search) == "additive, matern-3/2: 8 columns, 3 pairs of 28"


def test_a_category_is_one_factor_whatever_its_codes_and_constant_columns_are_none():
    level = RNG.integers(0, 3, 700)
    codes = np.eye(3)[level]
    x = np.column_stack([X[:, 0], codes, np.ones(700)])
    y = Y + level
    search = AdditiveSearch(problem(x, y, [0, 1, 1, 1, 2]), MATERN, np.full(3, 1.6))
    assert [factor.columns for factor in search.factors] == [(0,), (1, 2, 3)]
    other = np.column_stack([X[:, 0], codes[:, [2, 0, 1]], np.ones(700)])
    same = AdditiveSearch(problem(other, y, [0, 1, 1, 1, 2]), MATERN, np.full(3, 1.6))
    assert same.alone().log_evidence == pytest.approx(search.alone().log_evidence, abs=1e-4)


def test_members_suit_large_tables_of_some_columns_and_cost_more_for_more_rows():
    assert {"additive-features", "additive-local"} <= KINDS.keys()
    alone, local = AdditiveFeatureMembers(), AdditiveLocalMembers()
    assert alone.suits(Size(6000, 8, 32, 100))
    assert not alone.suits(Size(4000, 8, 32, 100))
    assert not alone.suits(Size(6000, 400, 32, 100))
    assert not local.suits(Size(6000, 8, 32, 100, shared=True))
    for small, large in ((6000, 60_000), (60_000, 10**6)):
        sizes = Size(small, 8, 32, 100), Size(large, 8, 32, 100)
        assert alone.forecast(sizes[0]) < alone.forecast(sizes[1]) < local.forecast(sizes[1])
    size = Size(6000, 8, 32, 100)
    assert local.forecast(size, effort=0.5) < local.forecast(size)
