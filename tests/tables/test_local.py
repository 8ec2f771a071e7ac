"""LocalGPRegressor and GPRegressor, by plain references and tables whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.posterior_form import mixture_log_density
from coupledgp.errors import ExtrapolationWarning, InvalidInputError
from coupledgp.tables import exact_members
from coupledgp.tables.coupling_fit import KINDS, plan_members
from coupledgp.tables.exact_members import DenseModel, leave_one_out
from coupledgp.tables.local_search import TABLE_KERNELS
from coupledgp.tables.member_kinds import Size
from coupledgp.tables.members import PRIOR_COUNT, TAIL_COUNT
from coupledgp.tables.near_members import NEAR_ROUNDS
from tests.core.few_steps import search_little
from tests.often import often


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    """Searches of few rows and steps: the tests are about what is done with their results."""
    search_little(monkeypatch)


def rough(n, seed=0, d=2, noise=0.05):
    """A function of short range on top of a linear one."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    y = np.sin(8 * X[:, 0]) + 2 * X[:, -1] + noise * rng.normal(size=n)
    return X, 10 + 5 * y


X, Y = rough(300)
X_TEST, Y_TEST = rough(200, seed=1)


@pytest.fixture(scope="module")
def local():
    return cgp.LocalGPRegressor("matern-5/2", 8, n_neighbors=16, random_state=0).fit(X, Y)


def test_a_local_model_follows_what_few_features_cannot(local):
    few = cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X, Y)
    own, theirs = (np.sqrt(np.mean((gp.predict(X_TEST) - Y_TEST) ** 2)) for gp in (local, few))
    assert own < 0.6 * theirs


def test_its_intervals_hold_about_what_they_say(local):
    low, high = local.predict_interval(X_TEST, 0.9)
    inside = ((low < Y_TEST) & (high > Y_TEST)).mean()
    assert 0.8 < inside < 0.99


def test_the_exact_twin_of_a_local_model_is_near(local):
    report = cgp.report(local, X_TEST[:50], Y_TEST[:50])
    assert report.score("kl") < 0.05
    assert local.exact_twin().exact_twin().process_ is not None


PARTS = [
    {"kernel": None}, {"n_frequencies": 0}, {"frequencies": "fitted"}, {"trend": "none"},
    {"kernel": "auto", "n_frequencies": 0},
]  # fmt: skip


@pytest.mark.parametrize("parameters", often(PARTS, *PARTS[1:3]))
def test_every_combination_of_parts_predicts(parameters):
    settings = {"n_frequencies": 4, "kernel": "matern-3/2", "random_state": 0, **parameters}
    gp = cgp.LocalGPRegressor(**settings).fit(X[:100], Y[:100])
    mean, std = gp.predict(X_TEST, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.corrcoef(mean, Y_TEST)[0, 1] > 0.7
    assert (gp.kernel_ is None) == (parameters.get("kernel", "") is None)


@pytest.mark.long
def test_a_trend_that_the_data_do_not_want_vanishes():
    rng = np.random.default_rng(0)
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
    flat, steep = (
        cgp.LocalGPRegressor("matern-5/2", 0, random_state=0).fit(X, target)
        for target in (y, y + 5 * X[:, 1])
    )
    low, high = X[:, 1].min(), X[:, 1].max()
    place = high + 0.9 * (high - low)  # nearly as far as a trend goes
    assert abs(flat.predict([[0.0, place]])[0]) < 5
    assert abs(steep.predict([[0.0, place]])[0] - 5 * place) < 3


@pytest.mark.long
@pytest.mark.parametrize("model", ["exact", "local", "hybrid", "sparse-spectrum"])
def test_rows_far_outside_are_predicted_by_trend_and_prior(model):
    gp = cgp.GPRegressor(model, n_frequencies=8, random_state=0).fit(X, Y)
    far = np.array([[50.0, 0.0], [0.0, 50.0], [-1e4, 1e4]])
    with pytest.warns(ExtrapolationWarning, match="3 of 3 rows"):
        mean, std = gp.predict(far, return_std=True)
    assert (np.abs(mean - 10 - 10 * far[:, 1]) < 4 * std).all()
    assert (np.abs(mean) < 4 * np.ptp(Y)).all()


@pytest.mark.long
def test_the_mixture_is_no_worse_than_its_best_member():
    chosen = cgp.GPRegressor(("exact", "local"), random_state=0).fit(X, Y)
    assert isinstance(chosen.process_, MixtureGP)
    scores = [member.log_density for member in chosen.choice_.members]
    # Each member is credited with some rows beforehand, which takes from the best.
    credit = (TAIL_COUNT + len(scores) * PRIOR_COUNT) / chosen.choice_.n_scored
    assert chosen.choice_.log_density > max(scores) - credit
    each = [gp.log_density(X_TEST, Y_TEST).mean() for gp in chosen.members_]
    assert chosen.log_density(X_TEST, Y_TEST).mean() > max(each) - 0.02


@pytest.mark.long
def test_the_weights_are_those_of_the_members_and_are_told():
    chosen = cgp.GPRegressor(("local", "sparse-spectrum"), n_frequencies=4, random_state=0)
    chosen.fit(X[:120], Y[:120])
    told = {member.name: member.weight for member in chosen.choice_.members}
    assert sum(told.values()) == pytest.approx(1)
    assert sorted(w for w in told.values() if w) == pytest.approx(sorted(chosen.member_weights_))
    for name in told:
        assert name in chosen.explain()


@pytest.mark.long
def test_one_seed_gives_one_model_and_another_gives_another():
    small = X[:60], Y[:60]
    first, again, other = (
        cgp.GPRegressor("hybrid", n_frequencies=4, random_state=seed).fit(*small).predict(X_TEST)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_rows_left_out_one_at_a_time_are_predicted_as_by_fits_without_them():
    gp = cgp.GPRegressor("exact", random_state=0).fit(X[:40], Y[:40])
    process = gp.members_[0].process_
    targets = process.units.normalized(process.data.targets)
    found, means, variances = leave_one_out(process, targets)
    expected, spreads, centers = [], [], []
    for i in range(40):
        others = np.delete(np.arange(40), i)
        left = process.conditioned(process.data.take(others))
        law = left.law(process.data.points[[i]], "variance")
        centers.append(process.units.normalized(law.mean)[0])
        spreads.append(law.spread[0, 0] / process.units.scale[0] ** 2)
        expected.append(left.log_density(process.data.points[[i]], process.data.targets[[i]])[0])
    expected = np.array(expected) + np.log(process.units.scale[0])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(means, centers, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(variances, spreads, rtol=1e-6)


def test_few_rows_average_their_hyperparameters():
    gp = cgp.GPRegressor("exact", random_state=0).fit(X[:30], Y[:30])
    lengthscales = {float(m.process_.hyperparameters.lengthscale[0]) for m in gp.members_}
    assert len(lengthscales) > 8
    inner = [m.log_density(X_TEST, Y_TEST) for m in gp.members_]
    mixed = mixture_log_density(np.array(inner), gp.member_weights_)
    np.testing.assert_allclose(gp.log_density(X_TEST, Y_TEST), mixed, rtol=1e-9)


@pytest.mark.long
def test_rows_far_off_the_function_give_heavy_tails():
    rng = np.random.default_rng(3)
    y = Y.copy()
    y[rng.choice(len(X), 9, replace=False)] += 60
    gp = cgp.GPRegressor("local", random_state=0).fit(X, y)
    weights = {m.name: m.weight for m in gp.choice_.members}
    assert any("more noise" in name and weight > 0 for name, weight in weights.items())


@pytest.mark.filterwarnings("ignore:y. expected targets that differ")
def test_constant_targets_are_predicted_as_they_are():
    gp = cgp.GPRegressor(random_state=0).fit(X[:50], np.full(50, 3.0))
    np.testing.assert_allclose(gp.predict(X_TEST), 3.0)


def test_plans_follow_the_size_and_the_budget():
    def kinds(n, budget=1e9):
        return [plan.kind.name for plan in plan_members(Size(n, 8, 32, 64), ("auto",), budget)]

    assert kinds(29) == kinds(2000) == ["race"]
    assert kinds(2001) == kinds(5000) == ["exact", "additive", "hybrid", "transformed"]
    assert kinds(5001) == ["local", "hybrid", "transformed"]

    def cost(name):
        return KINDS[name].forecast(Size(50_000, 8, 32, 64))

    assert kinds(50_000, 1.01 * cost("local")) == ["local"]
    both = ["local", "hybrid"]
    assert kinds(50_000, 1.01 * sum(map(cost, both))) == both
    with pytest.raises(InvalidInputError, match=r"budget: the cheapest model .* 50000 rows"):
        kinds(50_000, 0.1)
    with pytest.raises(InvalidInputError, match="budget: exact and local"):
        plan_members(Size(500, 8, 32, 64), ("exact", "local"), 0.01)


def test_the_budget_is_spent_and_kept():
    for n in (50_000, 300_000):
        size, spent = Size(n, 8, 32, 64), []
        whole = sum(kind.forecast(size, False) for kind in KINDS.values() if kind.suits(size))
        least = KINDS["local"].forecast(replace(size, shared=True), effort=0.25)
        for budget in np.geomspace(1.001 * least, 1.2 * whole, 25):
            plans = plan_members(size, ("auto",), budget)
            assert all(0.25 <= plan.effort <= 1 for plan in plans)
            spent.append(sum(plan.seconds for plan in plans))
            assert spent[-1] <= budget * (1 + 1e-12)
            rounds = [plan.rounds(NEAR_ROUNDS) for plan in plans if plan.effort == 1]
            assert all(own == NEAR_ROUNDS for own in rounds)
        assert spent == sorted(spent)
        assert spent[0] == pytest.approx(1.001 * least, rel=1e-3)
        assert spent[-1] == pytest.approx(whole)
        with pytest.raises(InvalidInputError, match="the cheapest model"):
            plan_members(size, ("auto",), 0.999 * least)


@pytest.mark.long
def test_a_member_of_a_small_budget_has_a_shorter_search(rng):
    X, y = rng.normal(size=(5200, 2)), rng.normal(size=5200)
    size = Size(5200, 2, 32, 8)
    kind = KINDS["lattice"]
    budget = 0.5 * (kind.forecast(size) + kind.forecast(size, effort=0.25))
    gp = cgp.GPRegressor(budget=f"{budget:f}s", n_frequencies=8, random_state=0).fit(X, y)
    assert "% of the search" in gp.explain()
    assert gp.forecast_ <= budget
    whole = cgp.GPRegressor("lattice", n_frequencies=8, random_state=0).fit(X, y)
    assert gp.n_evaluations_ < whole.n_evaluations_


def test_a_forecast_grows_with_the_table():
    for kind in KINDS.values():  # above rows that draws are averaged on
        costs = [kind.forecast(Size(n, 8, 32, 64)) for n in (300, 1000, 10_000, 100_000)]
        assert costs == sorted(costs)
        assert costs[0] > 0


@pytest.mark.parametrize(("parameters", "message"), [
    ({"model": "magic"}, "model: expected one of"),
    ({"model": ("auto", "local")}, "model: expected 'auto' alone"),
    ({"model": ()}, "model: expected 'auto' alone"),
    ({"budget": -1}, "budget"),
    ({"trend": "cubic"}, "trend: expected one of"),
    ({"n_neighbors": 0}, "n_neighbors"),
    ({"n_frequencies": 0}, "n_frequencies"),
])  # fmt: skip
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.GPRegressor(**parameters).fit(X[:20], Y[:20])


@pytest.mark.parametrize(("parameters", "message"), [
    ({"kernel": "magic"}, "kernel"),
    ({"frequencies": "guessed"}, "frequencies: expected one of"),
    ({"n_frequencies": -1}, "n_frequencies"),
    ({"coupling": "magic"}, "coupling"),
    ({"trend": None}, "trend: expected one of"),
])  # fmt: skip
def test_bad_parameters_of_a_local_model_are_named(parameters, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.LocalGPRegressor(**parameters).fit(X[:20], Y[:20])


@pytest.mark.long
def test_categories_share_one_lengthscale_and_missing_values_are_filled_in():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.choice(["red", "green", "blue"], 90)
    size = np.where(rng.random(90) < 0.1, np.nan, X[:90, 0])
    table = pandas.DataFrame({"kind": pandas.Categorical(kind), "size": size})
    y = (kind == "red") * 3.0 + np.nan_to_num(size)
    gp = cgp.GPRegressor("exact", random_state=0).fit(table, y)
    assert gp.lengthscale_.shape == (2,)
    error = gp.predict(table.iloc[:20]) - y[:20]
    assert np.abs(error).max() < 1


@pytest.mark.long
def test_weights_of_rows_reach_the_members():
    weights = np.where(np.arange(200) < 100, 1.0, 1e-3)
    y = np.where(np.arange(200) < 100, 1.0, -1.0) + 0.01 * Y[:200]
    gp = cgp.GPRegressor(random_state=0).fit(np.tile(X[:100], (2, 1)), y, sample_weight=weights)
    assert (gp.predict(X[:100]) > 0).all()


@pytest.mark.long
def test_members_given_all_rows_are_those_that_were_scored():
    """A model that was weighed on rows left out keeps its standardised columns given all rows."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 2)) * np.exp(rng.normal(size=(200, 2)))
    y = np.sin(table[:, 0]) + 0.01 * rng.normal(size=200)
    gp = cgp.GPRegressor("local", random_state=0).fit(table, y)
    for member in gp.members_:
        process = member.process_
        anew = process.conditioned(process.data)
        at = table[:50] + 0.01
        np.testing.assert_allclose(process.law(at, "mean").mean, anew.law(at, "mean").mean)


@pytest.mark.long
def test_a_report_needs_no_coupling(local, tmp_path):
    report = cgp.report(local, X_TEST[:40], Y_TEST[:40])
    assert report.score("kl") < 0.1
    report.to_html(tmp_path / "page.html")
    assert "LocalGPRegressor" in (tmp_path / "page.html").read_text()


@pytest.mark.long
def test_a_known_noise_is_kept_where_hyperparameters_are_averaged():
    noise = np.full(40, 0.3)
    gp = cgp.GPRegressor("exact", random_state=0).fit(X[:40], Y[:40], sample_noise=noise)
    assert len(gp.members_) > 4
    for member in gp.members_:
        np.testing.assert_allclose(member.noise_, 0.3)


@pytest.mark.long
def test_one_exact_member_stands_beside_others_of_many_rows(monkeypatch):
    """Of all kernels that were searched, the one of greatest evidence has dense matrices."""
    values, dense = {}, []
    search, given = exact_members.LocalFitter.search, DenseModel.process

    def searched(self, structure, *rest):
        found = search(self, structure, *rest)
        values[f"exact, {structure.spectrum}"] = found.value
        return found

    def counted(self, problem, normalize):
        dense.append(self.parts.structure.spectrum)
        return given(self, problem, normalize)

    monkeypatch.setattr(exact_members.LocalFitter, "search", searched)
    monkeypatch.setattr(DenseModel, "process", counted)
    X, y = X_TEST[:80], Y_TEST[:80]
    fits = {}
    for most in (80, 79):
        monkeypatch.setattr(exact_members, "EXACT_ROWS", most)
        values.clear()
        dense.clear()
        gp = cgp.GPRegressor(("exact", "sparse-spectrum"), n_frequencies=2, random_state=0)
        told = [m.name for m in gp.fit(X, y).choice_.members if m.name.startswith("exact")]
        fits[most] = [name for name in told if "noise" not in name]
        assert len(set(dense)) == len(fits[most])
    exact = {name: value for name, value in values.items() if name != "exact, None"}
    assert len(fits[80]) == len(exact) == len(TABLE_KERNELS)
    assert fits[79] == [max(exact, key=exact.__getitem__)]


def test_the_forecast_counts_dense_matrices_of_one_kernel_beside_others():
    size = Size(4000, 8, 32, 64)
    exact = KINDS["exact"]
    assert exact.forecast(size, alone=False) < 0.8 * exact.forecast(size)
    few = Size(2000, 8, 32, 64)
    assert exact.forecast(few, alone=False) == exact.forecast(few)
