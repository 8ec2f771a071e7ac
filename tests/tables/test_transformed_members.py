"""Transforms of the targets as members of the front door, beside members of the targets."""

import numpy as np
import pytest
from scipy import integrate

import coupledgp as cgp
from coupledgp.core.left_out import LeftOut
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data
from coupledgp.core.target_maps import ToTargets
from coupledgp.core.transformed import TransformedGP
from coupledgp.core.transforms import Identity, Log
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.member_kinds import MemberPlan
from coupledgp.tables.members import MemberSearch
from coupledgp.tables.transform_search import screened_transforms
from coupledgp.tables.transformed_members import TransformedMembers
from tests.core.few_steps import search_little

RNG, N = np.random.default_rng(1), 205
X = RNG.uniform(-1, 1, (N, 2))
Z = 2 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=N)
Y = np.exp(Z)
AT = RNG.uniform(-1, 1, (30, 2))


@pytest.fixture(autouse=True, scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        search_little(patch)
        yield


def task(targets):
    data = Data.of(X, targets)
    problem = LocalProblem.of(data, Units.of(targets, True), np.arange(2), 0)
    return MemberSearch(problem, True, "linear", 8, 0).task(True)


def test_scores_are_densities_of_y_given_all_other_rows():
    given, kind = task(np.column_stack([Y, Z])), TransformedMembers()
    found = kind.fit(given, MemberPlan(kind, 0.0))
    assert len(found) == 2
    (model,) = found[0].priors
    assert model.to_targets.transforms[1] == Identity()
    process, scale = model.process(given.train, True), given.train.units.scale
    for i in (0, 50):
        rest = process.conditioned(process.data.take(np.delete(np.arange(N), i)))
        points, targets = X[[i]], process.data.targets[[i]]
        expected = rest.log_density(points, targets)[0] + np.log(scale).sum()
        assert found[0].scores.log_densities[i] == pytest.approx(expected, rel=1e-6)
        mean = given.train.units.normalized(rest.law(points, "mean").mean)[0]
        np.testing.assert_allclose(found[0].scores.means[i], mean, rtol=1e-6)


@pytest.fixture(scope="module")
def mixed():
    return cgp.GPRegressor(("exact", "transformed"), random_state=0).fit(X, Y)


@pytest.mark.long
def test_a_transform_wins_where_the_law_is_lognormal(mixed):
    weights = {m.name: m.weight for m in mixed.choice_.members}
    assert sum(w for name, w in weights.items() if name.endswith("of log")) > 0.8
    plain = max(m.log_density for m in mixed.choice_.members if "log" not in m.name)
    assert mixed.choice_.log_density > plain + 0.5
    law = mixed.process_.left_out(np.arange(N))
    assert law.log_density(Y[:, None]).mean() + np.log(Y.std()) == pytest.approx(
        mixed.choice_.log_density, abs=1e-6
    )


def blend(mixed):
    """A mixture of equal weights of a member of y and one of its logarithm."""
    data = mixed.process_.data
    log = next(m for m in mixed.process_.members_with_data if isinstance(m, TransformedGP))
    plain = cgp.GPRegressor("exact", random_state=0).fit(X, Y).process_.first
    return MixtureGP.of([plain, log], np.array([0.5, 0.5]), data)


@pytest.mark.long
def test_laws_of_y_and_of_its_transform_mix(mixed):
    process = blend(mixed)
    parts = process.members_with_data
    targets = np.exp(AT.sum(axis=1))[:, None]
    each = np.array([part.log_density(AT, targets) for part in parts])
    expected = np.logaddexp(*each) + np.log(0.5)
    np.testing.assert_allclose(process.log_density(AT, targets), expected, rtol=1e-12)
    below = process.cdf(AT, np.full((30, 1), -5.0))
    np.testing.assert_allclose(below, 0.5 * parts[0].cdf(AT, np.full((30, 1), -5.0)))
    middle = process.quantiles(AT, np.array([0.1, 0.7]))
    for k, chance in enumerate((0.1, 0.7)):
        np.testing.assert_allclose(process.cdf(AT, middle[..., k]), chance, rtol=1e-6)
    mean, variance = process.law(AT, "variance")
    laws = [part.law(AT, "variance") for part in parts]
    precision = sum(0.5 / law.spread for law in laws)
    center = sum(0.5 * law.mean / law.spread for law in laws) / precision
    np.testing.assert_allclose(mean, center, rtol=1e-12)
    spread = sum(0.5 * (law.spread + (law.mean - center) ** 2) for law in laws)
    np.testing.assert_allclose(variance, spread, rtol=1e-12)
    drawn = process.sample(AT[:2], 6000, np.random.default_rng(0))[:, 0]
    np.testing.assert_allclose((drawn < middle[:2, :, 1]).mean(axis=1), 0.7, atol=0.03)


@pytest.mark.long
def test_a_file_of_different_laws_gives_the_same_model(mixed, tmp_path):
    model = mixed._around(blend(mixed))
    for include_data in (False, True):
        cgp.save_model(model, tmp_path / "m", include_data=include_data)
        found = cgp.load_model(tmp_path / "m")
        for ours, theirs in zip(*(m.predict(AT, return_std=True) for m in (found, model)),
                                strict=True):  # fmt: skip
            np.testing.assert_array_equal(ours, theirs)
    more = found.partial_fit(AT[:4], np.ones(4)).predict(AT)
    np.testing.assert_allclose(more, model.partial_fit(AT[:4], np.ones(4)).predict(AT))


def test_laws_of_left_out_rows_are_those_of_targets():
    to_targets = ToTargets((Log(),), None)
    mean, variance = np.array([[0.2]]), np.array([[0.3]])
    law = LeftOut.mixed(
        [LeftOut.single(mean, variance).mapped(to_targets), LeftOut.single(mean + 1, variance)],
        np.array([0.4, 0.6]),
    )

    def density(y):
        return float(np.exp(law.log_density(np.array([[y]]))[0]))

    def integral(function):
        return integrate.quad(function, -4.0, 30.0, points=[0.0, 1.0], limit=200)[0]

    assert integral(density) == pytest.approx(1, abs=1e-4)
    chance = integrate.quad(density, -4.0, 0.8, points=[0.0], limit=200)[0]
    assert law.transforms(np.array([[0.8]]))[0, 0] == pytest.approx(chance, abs=1e-6)
    center = law.mean[0, 0]
    second = integral(lambda y: density(y) * (y - center) ** 2)
    assert law.variance[0, 0] == pytest.approx(second, rel=1e-3)

    def square(t):
        return (law.transforms(np.array([[t]]))[0, 0] - (t >= 0.8)) ** 2

    crps = integrate.quad(square, -4.0, 30.0, points=[0.0, 0.8, 2.0], limit=200)[0]
    assert law.crps(np.array([[0.8]]))[0, 0] == pytest.approx(crps, rel=1e-3)
    grid = np.linspace(-4, 30, 200_001)
    chances = law.cdf(np.broadcast_to(grid, (1, 1, grid.size)).copy())[0, 0]
    width = np.interp(0.95, chances, grid) - np.interp(0.05, chances, grid)
    assert law.interval_widths([0.9])[0, 0, 0] == pytest.approx(width, abs=1e-3)


@pytest.mark.long
def test_no_transform_of_normal_targets_nor_of_transformed_ones():
    data = Data.of(X, Z[:, None])
    with pytest.raises(InvalidInputError, match="expected members beside 'transformed'"):
        cgp.GPRegressor("transformed", random_state=0).fit(X, Z)
    assert screened_transforms(data, np.random.default_rng(0)) == (Identity(),)
    gp = cgp.GPRegressor(random_state=0)
    assert "transformed" in [plan.kind.name for plan in gp.forecast(N, 2)]
    gp.set_params(target_transform="log")
    assert "transformed" not in [plan.kind.name for plan in gp.forecast(N, 2)]
    members = gp.set_params(model=("exact",)).fit(X, Y).choice_.members
    assert not any("of log" in member.name for member in members)
