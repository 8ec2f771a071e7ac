"""Boosted trees as a mean, constants, and targets of few values at the front door."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from coupledgp.core.frozen_mean import BoostedTrees, FrozenMeanGP, folds_of, residuals
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import DiscreteTargetsWarning, ModelFileError
from coupledgp.ground.codec import decoded, encoded
from coupledgp.tables.discrete_targets import DiscreteTargets
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.member_kinds import FittedMember, LeftOutScores, MemberPlan
from coupledgp.tables.members import MemberSearch, constant_means
from coupledgp.tables.tree_members import TreeMembers, fit_trees
from tests.core.few_steps import search_little

RNG, N = np.random.default_rng(0), 205
X = RNG.uniform(-1, 1, (N, 3))
Y = np.floor(2 * X[:, 0]) + np.sign(X[:, 1]) + 0.1 * RNG.normal(size=N)
AT = RNG.uniform(-1, 1, (40, 3))
WEIGHTS = RowWeights(np.ones(N), 1.0 + (X[:, 0] > 0))
DATA = Data.of(X, np.column_stack([Y, X[:, 2]]), weights=WEIGHTS)


@pytest.fixture(autouse=True, scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        search_little(patch)
        yield


@cache
def trees() -> BoostedTrees:
    return fit_trees(DATA, 0)


def task(data: Data, n_held: int = 0):
    problem = LocalProblem.of(data, Units.of(data.targets, True, data.counts), np.arange(3), 0)
    search = MemberSearch(problem, True, "linear", 8, 0)
    return search.task(not n_held)


@pytest.mark.parametrize("missing", [False, True])
def test_trees_are_those_of_scikit_learn_to_the_bit(missing):
    points, at = X.copy(), AT.copy()
    if missing:
        points[::3, 0], at[::4, 0] = np.nan, np.nan
    models = [
        HistGradientBoostingRegressor(random_state=k, min_samples_leaf=5, early_stopping=False)
        .fit(points, Y + k * points[:, 1], sample_weight=1 + (X[:, 2] > 0))
        for k in range(4)
    ]  # fmt: skip
    found = BoostedTrees.of(models, 2)
    for k, model in enumerate(models):
        np.testing.assert_array_equal(found.of_fold(at, k // 2)[:, k % 2], model.predict(at))
    both = 0.5 * (models[0].predict(at) + models[2].predict(at))
    np.testing.assert_allclose(found.at(at)[:, 0], both, rtol=1e-14)


def test_a_fold_hangs_on_the_values_of_a_row_alone():
    points = RNG.normal(size=(2000, 2))
    folds = folds_of(points, 5)
    order = RNG.permutation(2000)
    np.testing.assert_array_equal(folds_of(points[order], 5), folds[order])
    assert np.bincount(folds, minlength=5).min() > 330
    np.testing.assert_array_equal(*(folds_of(np.full((3, 2), zero), 5) for zero in (0.0, -0.0)))


def test_trees_of_a_fold_do_not_see_its_rows():
    folds = folds_of(X, 5)
    other = Data.of(X, DATA.targets + 3.0 * (folds == 2)[:, None], weights=DATA.weights)
    changed = fit_trees(other, 0)
    np.testing.assert_array_equal(changed.of_fold(AT, 2), trees().of_fold(AT, 2))
    assert not np.array_equal(changed.of_fold(AT, 1), trees().of_fold(AT, 1))
    own = np.flatnonzero(folds == 2)
    np.testing.assert_array_equal(trees().observed(X)[own], trees().of_fold(X[own], 2))


@cache
def member() -> FittedMember:
    kind = TreeMembers()
    (found,) = kind.fit(task(DATA), MemberPlan(kind, 0.0))
    return found


def test_scores_are_those_of_residuals_given_all_other_rows():
    (model,) = member().priors
    whole = task(DATA)
    process = model.process(whole.train, True)
    assert isinstance(process, FrozenMeanGP)
    left = residuals(DATA, model.mean)
    units, weights = whole.train.units, DATA.weights
    for i in (0, 7, 60):
        others = np.delete(np.arange(N), i)
        inner = process.inner.conditioned(left.take(others))
        # A row that counts c times is one observation with the c-th part of the noise.
        mean, variance = inner.law(X[[i]], "variance", latent=True)
        spread = variance + inner.units.spread(inner.noise.variance) * weights.relative_noise[i]
        density = -0.5 * (left.targets[[i]] - mean) ** 2 / spread - 0.5 * np.log(2 * np.pi * spread)
        found = member().scores.log_densities[i] - np.log(units.scale).sum()
        np.testing.assert_allclose(found, density.sum(), rtol=1e-6)
        expected = units.normalized(mean + model.mean.observed(X[[i]]))[0]
        np.testing.assert_allclose(member().scores.means[i], expected, rtol=1e-6, atol=1e-9)


def test_noise_is_in_units_of_y():
    (model,) = member().priors
    more = model.with_noise(0.5)
    assert more.noise == pytest.approx(0.5)
    assert 0 < model.share < 1
    process = more.process(task(DATA).train, True)
    noise = process.units.spread(process.noise.variance) / task(DATA).train.units.scale ** 2
    assert noise.mean() == pytest.approx(0.5)


def test_a_process_about_trees_is_its_residuals_and_the_trees():
    (model,) = member().priors
    process = model.process(task(DATA).train, True)
    shift = process.mean.at(AT)
    for want in ("mean", "variance", "covariance"):
        law, inner = (one.law(AT, want) for one in (process, process.inner))
        np.testing.assert_array_equal(law.mean, inner.mean + shift)
    np.testing.assert_array_equal(law.spread, inner.spread)
    targets = shift + 0.1
    np.testing.assert_allclose(
        process.log_density(AT, targets), process.inner.log_density(AT, targets - shift), rtol=1e-9
    )
    middle = process.quantiles(AT, np.array([0.3]))
    np.testing.assert_allclose(process.cdf(AT, middle[..., 0]), 0.3, rtol=1e-9)
    drawn = process.sample(AT[:3], 4000, np.random.default_rng(0))
    error = drawn.std(axis=2) / np.sqrt(4000)
    assert (np.abs(drawn.mean(axis=2) - process.law(AT[:3], "mean").mean) < 5 * error).all()
    groups = np.arange(N)
    law = process.left_out(groups, [3, 9])
    np.testing.assert_allclose(law.means[0], process.inner.left_out(groups, [3, 9]).means[0]
                               + process.mean.observed(X[[3, 9]]))  # fmt: skip


def test_further_rows_leave_the_trees_as_they_are():
    (model,) = member().priors
    process = model.process(task(DATA).train, True)
    further = Data.of(AT, np.zeros((40, 2)), weights=RowWeights.ones(40))
    both = DATA.followed_by(further).as_one_batch()
    updated, anew = process.updated(further), process.conditioned(both, renormalize=True)
    np.testing.assert_allclose(updated.law(AT, "mean").mean, anew.law(AT, "mean").mean)
    assert updated.mean is process.mean
    assert np.abs(updated.law(AT, "mean").mean).mean() < np.abs(process.law(AT, "mean").mean).mean()


@pytest.fixture(scope="module")
def mixed():
    return cgp.GPRegressor(("exact", "trees"), noise="constant", random_state=0).fit(X, Y)


@pytest.mark.long
def test_trees_have_weight_where_the_function_jumps(mixed):
    weights = {m.name: m.weight for m in mixed.choice_.members}
    assert any(name.startswith("trees") and weight > 0.2 for name, weight in weights.items())
    assert sum(weights.values()) == pytest.approx(1)
    assert isinstance(mixed.process_, MixtureGP)
    law = mixed.process_.left_out(np.arange(N))
    assert law.log_density(Y[:, None]).mean() + np.log(Y.std()) == pytest.approx(
        mixed.choice_.log_density, abs=1e-6
    )


@pytest.mark.parametrize("include_data", [True])
def test_a_file_gives_the_same_model(mixed, tmp_path, include_data):
    cgp.save_model(mixed, tmp_path / "m", include_data=include_data)
    found = cgp.load_model(tmp_path / "m")
    for ours, theirs in zip(*(m.predict(AT, return_std=True) for m in (found, mixed)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found.explain() == mixed.explain()
    first, second = (m.process_.conditioned(m.process_.data) for m in (found, mixed))
    np.testing.assert_array_equal(first.law(AT, "mean").mean, second.law(AT, "mean").mean)


@pytest.mark.parametrize(("name", "change", "message"), [
    ("left", lambda a: np.append(0, a[1:]), "nodes before those"),
    ("feature", lambda a: a + 9, "feature: expected numbers"),
    ("sums", lambda a: a[::-1].copy(), "one after the other"),
    ("value", lambda a: a * np.nan, "finite"),
])  # fmt: skip
def test_trees_of_a_file_end(name, change, message):
    own = trees()
    again = decoded(encoded(own), BoostedTrees)
    again.check(3, 2)
    np.testing.assert_array_equal(again.at(AT), own.at(AT))
    with pytest.raises(ModelFileError, match=message):
        decoded(encoded(replace(own, **{name: change(getattr(own, name))}))).check(3, 2)


def test_means_of_other_rows_and_members_that_err_more():
    for given in (task(DATA), task(DATA, n_held=50)):
        constant = constant_means(given)
        train, units = given.train.data, given.train.units
        if given.held is None:
            others = np.delete(np.arange(N), 5)
            rest = np.average(train.targets[others], axis=0, weights=train.counts[others])
        else:
            rest = np.average(train.targets, axis=0, weights=train.counts)
        np.testing.assert_allclose(constant[5], units.normalized(rest[None])[0])
        for factor, errs in ((0.0, False), (0.5, True)):
            means = constant - factor * (given.targets - constant)
            scores = LeftOutScores(np.zeros(len(means)), means, np.ones(len(means)))
            found = FittedMember("one", (), np.ones(1), scores, 0)
            assert found.errs_more_than(constant, given) == errs


@pytest.mark.long
def test_a_constant_stands_in_where_all_members_err_more(tmp_path):
    rare = (np.arange(N) % 37 == 5) * 1.0
    with pytest.warns(DiscreteTargetsWarning, match="y has 2 distinct whole numbers"):
        gp = cgp.GPRegressor("exact", random_state=0).fit(X, rare)
    members = {m.name: m for m in gp.choice_.members}
    if any(m.remark for m in members.values()):
        assert "err more than a constant" in gp.explain()
    residual = rare - gp.predict(X)
    assert np.mean(residual**2) <= rare.var() * 1.001
    assert "whole numbers" in gp.explain()
    cgp.save_model(gp, tmp_path / "m")
    assert cgp.load_model(tmp_path / "m").explain() == gp.explain()


@pytest.mark.parametrize("targets", [Y, np.ones(N), np.arange(float(N)), np.array([0.0, 1.0])])
def test_other_targets_are_not_discrete(targets):
    assert DiscreteTargets.of(targets) is None


CYCLE = np.arange(N)
COUNTED, NAMED = "poisson", "GPClassifier"


@pytest.mark.parametrize(
    ("targets", "advised"),
    [
        (CYCLE % 2 * 1.0, {NAMED}),
        (CYCLE % 2 * 0.3 - 1, {NAMED}),
        (CYCLE % 4 * 1.0, {COUNTED, NAMED}),
        (CYCLE % 4 - 2.0, {NAMED}),
        (CYCLE % 4 * 0.5, {NAMED}),
        (np.repeat(np.arange(12.0), 20), {COUNTED}),
        (np.repeat(np.arange(12.0), 20) - 1, set()),
    ],
)
def test_laws_of_the_values_are_named(targets, advised):
    found = DiscreteTargets.of(targets)
    words = found.explain()
    assert {name for name in (COUNTED, NAMED) if name in words} == advised
    assert ("Fit such a law" in words) == bool(advised)
