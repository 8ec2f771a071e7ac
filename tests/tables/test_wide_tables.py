"""Tables of more columns than rows, where a lengthscale for each column is beyond the budget."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import coupledgp as cgp
from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.tables.coupling_fit import KINDS, plan_members
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.member_kinds import Size

# Seconds in which 20 rows of 300 columns have no lengthscale for each column.
BUDGET = 1.5


def table(rng, n_rows=20, dim=300):
    few = rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, dim))
    X = (few + 0.1 * rng.normal(size=(n_rows, dim))) * rng.uniform(0.1, 10, dim)
    X += rng.normal(size=dim)
    return X, X @ rng.normal(size=dim) / np.sqrt(dim) + 0.1 * rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def fitted():
    X, y = table(np.random.default_rng(3))
    return cgp.GPRegressor(budget=BUDGET, random_state=0).fit(X, y), X, y


def problem(X, y):
    data = Data.of(X, y[:, None])
    units = Units.of(data.targets, True, None)
    return LocalProblem.of(data, units, np.arange(X.shape[1]), 0).sharing_lengthscale()


def test_columns_share_a_lengthscale_where_one_each_is_beyond_the_budget():
    def shared(n_rows, dim, budget=600.0):
        plans = plan_members(Size(n_rows, dim, 32, 64), ("auto",), budget)
        return {plan.shared for plan in plans}

    assert shared(100, 10) == shared(100, 300) == shared(2000, 50) == {False}
    assert shared(100, 10_000) == shared(100, 100_000) == shared(20, 300, BUDGET) == {True}
    with pytest.raises(InvalidInputError, match="budget: the cheapest model on 100 rows"):
        shared(100, 100_000, 0.01)
    least = KINDS["exact"].forecast(Size(100, 10_000, 32, 64, shared=True))
    with pytest.raises(InvalidInputError, match=f"would take about {least:.0f} s"):
        plan_members(Size(100, 10_000, 32, 64), ("exact",), 0.9 * least)
    named = plan_members(Size(100, 10_000, 32, 64), ("exact",), 600.0)
    assert [plan.shared for plan in named] == [True]


def test_a_rotated_problem_has_the_same_covariances(rng):
    whole = problem(*table(rng))
    rotated = whole.rotated()
    assert rotated.data.points.shape == (20, 20)
    structure = rotated.structure("linear", 19, cgp.spectra.parse_spectrum("matern-3/2"))
    prior = rotated.prior(structure, structure.start() + 0.2)
    points = whole.data.points
    np.testing.assert_allclose(
        prior.covariance(rotated.data.points, rotated.data.points),
        whole.adopted(prior).covariance(points, points),
        rtol=1e-10,
    )


def test_rows_whose_columns_share_a_lengthscale_are_at_distances_of_about_one(rng):
    X, y = table(rng)
    shared = problem(X, y)
    squares = pdist((X - shared.center) / shared.spread, "sqeuclidean")
    assert squares.mean() == pytest.approx(2 * 20 / 19)  # twice the variance of one column


def test_a_rotated_problem_keeps_the_weights_of_its_rows(rng):
    X, y = table(rng)
    weights = RowWeights(rng.uniform(0.5, 2.0, 20), np.ones(20))
    data = Data.of(X, y[:, None], weights=weights)
    own = LocalProblem.of(data, Units.of(data.targets, True, None), np.arange(300), 0)
    kept = own.sharing_lengthscale().rotated().data.weights
    assert kept is not None
    np.testing.assert_array_equal(kept.noise, weights.noise)
    np.testing.assert_array_equal(kept.counts, weights.counts)


def test_a_problem_is_not_rotated_without_a_shared_lengthscale_or_with_more_rows(rng):
    X, y = table(rng)
    data = Data.of(X, y[:, None])
    own = LocalProblem.of(data, Units.of(data.targets, True, None), np.arange(300), 0)
    assert own.rotated() is own
    tall = problem(*table(rng, 30, 5))
    assert tall.rotated() is tall


def test_the_fitted_process_is_that_of_its_own_prior_and_rows(fitted):
    gp, X, y = fitted
    assert all(", one lengthscale" in member.name for member in gp.choice_.members)
    assert "one lengthscale" in gp.explain()
    for member in gp.process_.members:
        again = member.given(member.dense_prior, member.data, member.units, member.normalize)
        np.testing.assert_allclose(again.factor, member.factor, rtol=1e-8, atol=1e-10)
        assert member.data.points.shape == X.shape
    assert np.corrcoef(gp.predict(X), y)[0, 1] > 0.9


@pytest.mark.filterwarnings("ignore::coupledgp.errors.ExtrapolationWarning")
def test_the_unit_of_a_column_does_not_matter(fitted):
    gp, X, y = fitted
    scale = np.random.default_rng(5).uniform(0.01, 100, X.shape[1])
    other = cgp.GPRegressor(budget=BUDGET, random_state=0).fit(X * scale + 3, y)
    new = table(np.random.default_rng(6))[0]
    np.testing.assert_allclose(
        other.predict(new * scale + 3), gp.predict(new), rtol=1e-5, atol=1e-6
    )


def test_a_file_predicts_the_same(fitted, tmp_path):
    gp, X, _ = fitted
    gp.save(tmp_path / "wide.model")
    again = cgp.load_model(tmp_path / "wide.model")
    # Files hold no dense factors; those of the fit are of rotated columns.
    np.testing.assert_allclose(again.predict(X), gp.predict(X), rtol=1e-12)
    assert again.explain() == gp.explain()


def test_rows_are_added(fitted):
    _, X, y = fitted
    more = cgp.GPRegressor(budget=BUDGET, random_state=0).fit(X[:15], y[:15])
    more.partial_fit(X[15:], y[15:])
    assert more.process_.data.points.shape == X.shape
    mean, std = more.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
